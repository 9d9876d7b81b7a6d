"""The twins of the rules that choose their step-size (docs/auto-step.md), as slow and obvious as those of `rules`.

``factors`` is an iterator of numbers that multiply the step-sizes; each update takes one.
"""

import numpy as np

from naive.stored import mean


def probe(d):
    """The unit vector that the search for the unstable direction begins at."""
    z = np.random.default_rng(0).standard_normal(d)
    return z / np.linalg.norm(z)


def impression_gtd_auto(log, theta, factors, directions, similarity, ridge, averaged=False):
    """Eq. imgtd with its step-size chosen; ``averaged`` where an average of the weights is reported."""
    d = len(theta)
    z = probe(d)
    seen = 0
    zGz = GzGz = loss = loss_squared = gg = 0.0
    for t, _, learns in log:
        if learns:
            W = np.eye(d)
            if isinstance(similarity, np.ndarray):
                W = np.linalg.inv(similarity)
            elif similarity == "mspbe":
                W = np.linalg.inv((ridge * np.eye(d) + sum(k.C for k in log.samples[: t + 1])) / (t + 1))
            one, two = log.batch(log.first[t]), log.batch(log.second[t])
            A1, b1, A2, b2 = mean(one, "A"), mean(one, "b"), mean(two, "A"), mean(two, "b")
            there, back = A1.T @ W @ A2, A2.T @ W @ A1
            G = {"one": there, "both": there + back, "averaged": (there + back) / 2}[directions]
            u1, u2 = A1 @ theta + b1, A2 @ theta + b2
            g_there, g_back = A1.T @ W @ u2, A2.T @ W @ u1
            g = {"one": g_there, "both": g_there + g_back, "averaged": (g_there + g_back) / 2}[directions]
            if seen >= 75:
                alpha_th = 2 * zGz / GzGz if zGz > 0 else 0.0
                lowest = alpha_th / 6 * min(1, seen / 3000) * (1 if averaged else (1 + seen / 300) ** -0.75)
                error = np.sqrt(max(0, loss_squared - loss**2) / min(seen, seen / 2 + 100))
                careful = 2 * min(1, 500 / seen) ** 2 if averaged else 2
                alpha = np.clip((loss - careful * error) / gg, lowest, alpha_th / 2)
                alpha *= shortened(g @ g, gg, seen)
                if alpha > 0:
                    theta = theta - next(factors) * alpha * g
            seen += 1
            Gz = G @ z
            short, long = min(seen, seen / 4 + 20), min(seen, seen / 2 + 100)
            zGz += (z @ Gz - zGz) / short
            GzGz += (Gz @ Gz - GzGz) / short
            estimate = (2 if directions == "both" else 1) * (u1 @ W @ u2)
            loss += (estimate - loss) / long
            loss_squared += (estimate**2 - loss_squared) / long
            gg += (g @ g - gg) / long
            if zGz > 0:
                z = z - 2 * zGz / GzGz * Gz
                z = z / np.linalg.norm(z)
        yield theta


def td_auto(log, theta, factors, batches, averaged=False):
    """TD on the latest step, or on ``batches``, with its step-size chosen; every ratio is one."""
    z = probe(len(theta))
    seen = 0
    zAz = AzAz = uu = 0.0
    power = 0.75 if not averaged else 0 if batches else 0.5
    for t, k, learns in log:
        if learns:
            used = log.batch(log.first[t]) if batches else [k]
            A, b = mean(used, "A"), mean(used, "b")
            u = A @ theta + b
            if seen >= 75 and zAz < 0:
                alpha = -2 * zAz / AzAz / 4 * min(1, seen / 1000) * (1 + seen / 300) ** -power
                theta = theta + next(factors) * alpha * shortened(u @ u, uu, seen) * u
            seen += 1
            Az = A @ z
            short, long = min(seen, seen / 4 + 20), min(seen, seen / 2 + 100)
            zAz += (z @ Az - zAz) / short
            AzAz += (Az @ Az - AzAz) / short
            uu += (u @ u - uu) / long
            if zAz < 0:
                z = z - 2 * zAz / AzAz * Az
                z = z / np.linalg.norm(z)
        yield theta


def shortened(squared, usual, seen):
    """A step far longer than the usual ones is shortened by this factor."""
    most = usual * (seen / 2 + 100) / 4
    return np.sqrt(most / squared) if squared > most else 1.0
