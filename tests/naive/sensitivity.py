"""Robust dynamic programming under the marginal sensitivity model, with lists and loops."""


def worst_mean(outcomes, chance, strength):
    """The least mean of (probability, value) pairs whose probabilities may change as an unrecorded cause allows.

    Each is multiplied by a number between l = b + (1 - b) / L and h = b + (1 - b) L, and their sum stays one: the
    least values take h until what is left for the others is l each.
    """
    low, high = chance + (1 - chance) / strength, chance + (1 - chance) * strength
    left, mean = 1.0 - low, 0.0
    for probability, value in sorted(outcomes, key=lambda pair: pair[1]):
        more = min(left, probability * (high - low))
        left -= more
        mean += value * (probability * low + more)
    return mean


def robust_values(transitions, target, behaviour, gamma, strength, sign=1, rounds=2000):
    """Least values of all states (sign 1), or largest (sign -1), by value iteration.

    ``transitions[s][a]`` is a list of (probability, reward, next state or None).
    """
    values = [0.0] * len(transitions)
    for _ in range(rounds):
        before, values = values, []
        for s, actions in enumerate(transitions):
            total = 0.0
            for a, after in enumerate(actions):
                if target[s][a] > 0:
                    outcomes = [
                        (p, sign * (r + (0.0 if then is None else gamma * before[then]))) for p, r, then in after
                    ]
                    total += target[s][a] * sign * worst_mean(outcomes, behaviour[s][a], strength)
            values.append(total)
        if max(abs(a - b) for a, b in zip(values, before, strict=True)) < 1e-12:
            break
    return values
