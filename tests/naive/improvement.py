"""Policy iteration on a table, from its equations, with dictionaries and loops."""

import numpy as np


def naive_policy_iteration(steps, behaviour, least, ridge=1e-3, iterations=20):
    """The best known action of every state; ``steps`` are (state, action, reward, discount, next state).

    ``behaviour[s][a]`` are probabilities. A pair is known where it was met ``least`` times; other actions of a state
    are one lump. Values lower nothing: caution is 0.
    """
    count = {}
    for s, a, *_ in steps:
        count[s, a] = count.get((s, a), 0) + 1
    states, actions = range(len(behaviour)), range(len(behaviour[0]))
    known = {s: [a for a in actions if count.get((s, a), 0) >= least] for s in states}

    def pair(s, a):
        return (s, a) if a in known[s] else (s, "lump")

    pairs = sorted({pair(s, a) for s, a, *_ in steps}, key=str)
    place = {p: k for k, p in enumerate(pairs)}
    best = {}
    for _ in range(iterations):
        A, b = ridge * np.eye(len(pairs)), np.zeros(len(pairs))
        for s, a, r, discount, after in steps:
            i = place[pair(s, a)]
            A[i, i] += 1
            b[i] += r
            for p, chance in _choices(after, known, best, behaviour).items():
                if p in place:
                    A[i, place[p]] -= discount * chance
        q = np.linalg.solve(A, b)
        new = {}
        for s in states:
            if len(known[s]) > 1:
                usual = max(known[s], key=lambda a: behaviour[s][a])
                top = max(known[s], key=lambda a: q[place[s, a]])
                new[s] = top if q[place[s, top]] > q[place[s, usual]] + 1e-9 else usual
        if new == best:
            break
        best = new
    return best


def _choices(s, known, best, behaviour):
    """The probability of every pair of a state under the policy."""
    mass = sum(behaviour[s][a] for a in known[s])
    made = {(s, "lump"): 1 - mass}
    for a in known[s]:
        made[s, a] = (mass if best[s] == a else 0.0) if s in best else behaviour[s][a]
    return made
