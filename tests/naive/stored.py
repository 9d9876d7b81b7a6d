"""The twins of the rules that go through all stored steps, as slow and obvious as those of `naive`."""

import numpy as np


def mean(samples, name):
    return sum(getattr(k, name) for k in samples) / len(samples)


def krylov_gtd(log, theta, alphas, M=64, K=5, eps=4e-4, every=0, window=0, entries=None):
    """The procedure of the rule's docstring with A, b, u and every image computed anew from all stored steps.

    ``entries`` is the number a row has of them, where features are stored as sparse ones.
    """
    d = len(theta)
    filled = d if entries is None else min(d, 4 * entries)
    every = every or d // filled
    kept, stage, begun, read, waiting, noise, terms = [], "idle", 0, 0, 0, 0.0, 0.0
    for t, k, _ in log:
        n = t + 1
        oldest = max(0, n - window) if window else 0
        A = sum(j.A for j in log.samples[oldest:n])
        b = sum(j.b for j in log.samples[oldest:n])
        squares = sum(j.x**2 for j in log.samples[:n])
        w = np.array([n / s if s > 0 else 0.0 for s in squares])
        u = A @ theta + b
        noise += k.rho**2 * (k.x @ (w * k.x)) * (k.y @ (w * k.y))
        if oldest > 0:
            noise *= 1 - 1 / window
        terms += k.rho * (abs(k.reward) + abs(k.y * theta).sum()) * np.sqrt(k.x @ (w * k.x))
        waiting += 1
        left = n - (oldest if stage == "idle" else read)
        if waiting < every and waiting * M < left:
            yield theta
            continue
        times, waiting = waiting, 0
        if stage == "idle" and np.sqrt(u @ (w * u)) > 1e-12 * terms:
            v = w * u / np.sqrt(u @ (w * u))
            begun, read = begun + 1, oldest
            stage, p = ("image", v) if begun % 2 else ("gradient", None)
        if stage != "idle":
            read = min(read + times * M, n)
        if stage == "gradient" and read == n:
            g = A.T @ v
            stage, read = "image" if np.sqrt(g @ (w * g)) > 1e-12 * np.sqrt(n * noise) else "idle", oldest
            if stage == "image":
                p = w * g / np.sqrt(g @ (w * g))
        elif stage == "image" and read == n:
            kept, stage = _conjugate(kept, p, A, w, K, 1e-16 * np.sqrt(n * noise)), "idle"
        for p_i, _ in kept:
            q_i = A @ p_i
            squares_of_p = sum(p_i[i] ** 2 / w[i] for i in range(d) if w[i] > 0)
            below = q_i @ (w * q_i) + eps * filled**2 * noise * squares_of_p
            for _ in range(times if below > 0 else 0):
                a = q_i @ (w * u) / below
                terms += abs(a) * np.sqrt(q_i @ (w * q_i))
                theta = theta - a * p_i
                u = A @ theta + b
        yield theta


def _conjugate(kept, p, A, w, K, error):
    """The kept pairs (direction, bound on the rounding error of its image) with a new one, conjugate to them."""

    def length(v):
        return np.sqrt((A @ v) @ (w * (A @ v)))

    if error >= 1e-8 * length(p):
        return kept
    others, alone = kept[-(K - 1) :] if K > 1 else [], (p, error)
    for p_i, error_i in others:
        if length(p_i) > 0:
            c = (A @ p) @ (w * (A @ p_i)) / length(p_i) ** 2
            p, error = p - c * p_i, error + abs(c) * error_i
    return [*others, (p, error)] if error < 1e-8 * length(p) else [alone]


def svrg_gtd(log, theta, alphas, eta=1.0, M=32):
    """Du et al. (2017), Algorithm 1 (SVRG), with C in the saddle function and without a ridge."""
    w = np.zeros_like(theta)
    anchor, coming, read = None, None, 0
    for t, _, learns in log:
        seen = log.samples[: t + 1]
        A, b, C = (mean(seen, name) for name in "AbC")
        if read == 0:
            coming = theta, w
        read = min(read + M, t + 1)
        if read == t + 1:
            anchor, read = coming, 0
        if learns:
            alpha, batch = next(alphas), log.batch(log.first[t])
            A_B, C_B = (mean(batch, name) for name in "AC")
            theta0, w0 = anchor
            theta, w = (
                theta - alpha * (A.T @ w0 + A_B.T @ (w - w0)),
                w + eta * alpha * (A @ theta0 + b - C @ w0 + A_B @ (theta - theta0) - C_B @ (w - w0)),
            )
        yield theta


def saga_gtd(log, theta, alphas, eta=1.0, capacity=None):
    """Du et al. (2017), Algorithm 1 (SAGA), with C in the saddle function and without a ridge."""
    w = np.zeros_like(theta)
    kept = {}

    def gradients(k):
        return k.A.T @ w, k.A @ theta + k.b - k.C @ w

    for t, k, learns in log:
        kept[t] = gradients(k)
        if capacity is not None:
            kept.pop(t - capacity, None)
        if learns:
            alpha, drawn = next(alphas), log.first[t]
            new = {j: gradients(log.samples[j]) for j in drawn}
            step, step_w = (
                np.mean([pair[i] for pair in kept.values()], axis=0)
                + np.mean([new[j][i] - kept[j][i] for j in drawn], axis=0)
                for i in (0, 1)
            )
            theta, w = theta - alpha * step, w + eta * alpha * step_w
            kept |= new
        yield theta
