"""Slow twins of what `gradtd.evaluate` computes, straight from the equations, and logs to try both on."""

import numpy as np

from gradtd.evaluation.least_squares import least_squares, start_features
from gradtd.evaluation.resamples import episode_begins
from gradtd.types import Stream


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
    """Every estimator of `gradtd.evaluation.importance`, episode by episode and time by time."""
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
    begins = episode_begins(stream)
    return least_squares(stream, start_features(stream, begins), begins)
