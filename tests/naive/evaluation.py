"""Slow twins of what `gradtd.evaluate` computes, straight from the equations, and logs to try both on."""

import numpy as np

from gradtd.core.stream import Stream
from gradtd.evaluation.estimators.least_squares import least_squares, start_features


def altered(stream, **columns):
    """The same stream with other numbers in some columns of its steps."""
    steps = stream.steps.copy()
    for name, values in columns.items():
        steps[name] = values
    return stream.with_steps(steps, stream.target)


def random_stream(seed, episodes=7, n_features=3, sparse=False, longest=6, rows=12, zeros=True):
    """Episodes of 1 to ``longest`` steps, some terminated, some cut off; everything that can vary does."""
    rng = np.random.default_rng(seed)
    length = rng.integers(1, longest + 1, episodes)
    ended = rng.random(episodes) < 0.5
    n = int(length.sum())
    discount = rng.uniform(0.3, 1.0, n)
    discount[np.cumsum(length)[ended] - 1] = 0.0
    features = rng.normal(size=(rows, n_features)) * (rng.random((rows, n_features)) < 0.6 if sparse else 1.0)
    if sparse:
        import scipy.sparse

        features = scipy.sparse.csr_array(features)
    return Stream.from_arrays(
        features=features,
        row=rng.integers(0, rows, n),
        next_row=rng.integers(0, rows, n),
        reward=rng.normal(size=n),
        discount=discount,
        rho=rng.uniform(0.1, 2.5, n) * (rng.random(n) > (0.1 if zeros else 0.0)),
        episode=np.repeat(np.arange(episodes), length),
    )


def dense(stream):
    return stream.features if isinstance(stream.features, np.ndarray) else stream.features.toarray()


def episodes_of(stream):
    """The steps of each episode, as lists of records."""
    found = {}
    for step in stream.steps:
        found.setdefault(int(step["episode"]), []).append(step)
    return [found[e] for e in sorted(found)]


def join(stream, episodes):
    """A stream of these lists of steps, numbered anew."""
    steps = [(step, e) for e, episode in enumerate(episodes) for step in episode]
    names = ("row", "next_row", "reward", "discount", "rho")
    columns = {name: [step[name] for step, _ in steps] for name in names}
    return Stream.from_arrays(features=stream.features, episode=[e for _, e in steps], **columns)


def lstd(stream):
    """A = mean rho phi (discount phi' - phi)', b = mean rho r phi, A theta + b = 0, one step after the other."""
    phi = dense(stream)
    d = phi.shape[1]
    A, b = np.zeros((d, d)), np.zeros(d)
    for step in stream.steps:
        x, after = phi[step["row"]], phi[step["next_row"]]
        for i in range(d):
            b[i] += step["rho"] * step["reward"] * x[i]
            for j in range(d):
                A[i, j] += step["rho"] * x[i] * (step["discount"] * after[j] - x[j])
    n = len(stream)
    return A / n, b / n, np.linalg.solve(A, -b)


def lstd_value(stream):
    """The mean value of the states in which episodes start."""
    _, _, theta = lstd(stream)
    return np.mean([dense(stream)[episode[0]["row"]] @ theta for episode in episodes_of(stream)])


def importance(stream, theta):
    """Every estimator of `gradtd.evaluation.estimators.importance_sampling`, episode by episode and time by time."""
    phi = dense(stream)
    episodes = episodes_of(stream)
    weights, rewards, surprises, starts, discounted = [], [], [], [], []
    for episode in episodes:
        w, g, ws, rs, ds, gs = 1.0, 1.0, [], [], [], []
        for step in episode:
            w = w * step["rho"]
            ws.append(w)
            gs.append(g)
            rs.append(step["reward"])
            after = step["discount"] * (phi[step["next_row"]] @ theta)
            ds.append(step["reward"] + after - phi[step["row"]] @ theta)
            g = g * step["discount"]
        weights.append(ws)
        discounted.append(gs)
        rewards.append(rs)
        surprises.append(ds)
        starts.append(phi[episode[0]["row"]] @ theta)
    n = len(episodes)
    returns = [sum(g * r for g, r in zip(gs, rs, strict=True)) for gs, rs in zip(discounted, rewards, strict=True)]
    whole = [ws[-1] for ws in weights]

    def plain(parts):
        terms = zip(discounted, weights, parts, strict=True)
        return [sum(g * w * x for g, w, x in zip(*term, strict=True)) for term in terms]

    def weighted(parts):
        total = 0.0
        for t in range(max(map(len, weights))):
            mean = sum(ws[min(t, len(ws) - 1)] for ws in weights)  # those that are over keep their last weight
            for e in range(n):
                if t < len(weights[e]) and mean > 0:
                    total += discounted[e][t] * weights[e][t] * parts[e][t] / mean
        return total

    return {
        "monte_carlo": np.mean(returns),
        "is": np.mean([w * r for w, r in zip(whole, returns, strict=True)]),
        "wis": sum(w * r for w, r in zip(whole, returns, strict=True)) / sum(whole),
        "pdis": np.mean(plain(rewards)),
        "wpdis": weighted(rewards),
        "dr": np.mean(starts) + np.mean(plain(surprises)),
        "wdr": np.mean(starts) + weighted(surprises),
    }


def solved(stream):
    """`least_squares` on a stream."""
    begins = stream.begins
    return least_squares(stream, start_features(stream, begins), begins)


LEFT, RIGHT = np.array([0.5, 0.5]), np.array([0.3, 0.7])
"""A behaviour and a target on the walk below, the same in every state."""


def walk_truth(target=RIGHT, gamma=0.9, n=5, start=2):
    """The value of the middle of a walk over n states, +1 past the right end, -1 past the left, by linear algebra."""
    P, r = np.zeros((n, n)), np.zeros(n)
    for s in range(n):
        for probability, after in zip(target, (s - 1, s + 1), strict=True):
            if 0 <= after < n:
                P[s, after] += probability
            else:
                r[s] += probability * (1.0 if after == n else -1.0)
    return np.linalg.solve(np.eye(n) - gamma * P, r)[start]


def walk(episodes, seed=0, cut=None, n=5, behaviour=LEFT, target=RIGHT):
    """A log of that walk as a table, one row a step: cut off after ``cut`` steps, next observations given."""
    rng = np.random.default_rng(seed)
    rows = []
    for e in range(episodes):
        s, t = n // 2, 0
        while True:
            a = int(rng.random() < behaviour[1])
            after = s + (1 if a else -1)
            over = not 0 <= after < n
            reward = 0.0 if not over else 1.0 if a else -1.0
            off = not over and cut is not None and t + 1 == cut
            rows.append((e, t, s, after if not over else s, a, reward, over, off, behaviour[a], target[a]))
            s, t = after, t + 1
            if over or off:
                break
    names = ("episode", "t", "obs", "next_obs", "action", "reward", "terminated", "truncated", "action_prob", "target")
    return {name: np.array(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}


def real_walk(episodes, seed=0, **how):
    """The same log with two real numbers as observations, as a table for a file."""
    table = walk(episodes, seed, **how)
    rng = np.random.default_rng(seed + 1)
    state, after = table.pop("obs"), table.pop("next_obs")
    noise = {s: rng.normal() for s in range(-1, 9)}
    for prefix, values in (("obs", state), ("next_obs", after)):
        table[f"{prefix}_0"] = values / 4.0
        table[f"{prefix}_1"] = np.array([noise[int(s)] for s in values])
    return table


def marginal(stream):
    """One weight per step, straight from the equations."""
    A, _, _ = lstd(stream)
    phi, n = dense(stream), len(stream)
    start = np.mean([phi[episode[0]["row"]] for episode in episodes_of(stream)], axis=0)
    left = np.linalg.inv(A).T @ start
    return [-float(step["rho"]) * (phi[step["row"]] @ left) / n for step in stream.steps]


def double_rl(stream, folds):
    """V and w from the episodes of the other folds, one episode after the other: value and standard error."""
    phi, episodes = dense(stream), episodes_of(stream)
    said = []
    for e, episode in enumerate(episodes):
        others = [other for j, other in enumerate(episodes) if j % folds != e % folds]
        A, _, theta = lstd(join(stream, others))
        start = np.mean([phi[other[0]["row"]] for other in others], axis=0)
        left = np.linalg.inv(A).T @ start * len(others) / sum(map(len, others))
        total = phi[episode[0]["row"]] @ theta
        for step in episode:
            delta = step["reward"] + step["discount"] * (phi[step["next_row"]] @ theta) - phi[step["row"]] @ theta
            total += -step["rho"] * (phi[step["row"]] @ left) * delta
        said.append(total)
    return np.mean(said), np.std(said, ddof=1) / np.sqrt(len(said))


def moving(rng, episodes=200, length=15, seen=True):
    """A position that moves by a velocity, which the observation tells or hides; the reward is the position."""
    log = {"episode": np.repeat(np.arange(episodes), length)}
    x, v = rng.normal(size=(2, episodes))
    rows, actions, rewards = [], [], []
    for _ in range(length):
        action = rng.random(episodes) < 0.5
        rows.append(np.c_[x, v] if seen else x[:, None])
        actions.append(action)
        rewards.append(x)
        x, v = 0.9 * x + 0.5 * v, 0.9 * v + 0.3 * (2 * action - 1) + 0.2 * rng.normal(size=episodes)
    log["obs"] = np.stack(rows, 1).reshape(episodes * length, -1)
    log["action"] = np.stack(actions, 1).ravel().astype(int)
    log["reward"] = np.stack(rewards, 1).ravel()
    log["rho"] = np.where(log["action"] == 1, 1.2, 0.8)
    log["truncated"] = np.tile(np.arange(length) == length - 1, episodes)
    return log
