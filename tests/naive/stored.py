"""The twins of the rules that go through all stored steps, as slow and obvious as those of `naive`."""

import numpy as np


def mean(samples, name):
    return sum(getattr(k, name) for k in samples) / len(samples)


def krylov_gtd(log, theta, alphas, M=64, K=5, eps=4e-4, every=0, window=0, entries=None):
    """The procedure of the rule's docstring with A, b, u and every image computed anew from all stored steps.

    ``entries`` is the number a row has of them, where features are stored as sparse ones. ``log.table`` has the rows
    of the stream, where the samples do not show them all.
    """
    d = len(theta)
    filled = d if entries is None else min(d, 4 * entries)
    turn = every or int(d // filled)
    table = log.table
    usual = np.array([(c**4).sum() / (c**2).sum() if c.any() else 0.0 for c in table.T])
    kept, stage, begun, read, waiting, noise, terms = [], "idle", 0, 0, 0, 0.0, 0.0
    solver = _Solver(usual)
    for t, k, _ in log:
        n = t + 1
        oldest = max(0, n - window) if window else 0
        stored = log.samples[oldest:n]
        A, b = sum(j.A for j in stored), sum(j.b for j in stored)
        squares = sum(j.x**2 for j in log.samples[:n])
        w = np.array([n / max(s, least) if s > 0 else 0.0 for s, least in zip(squares, usual, strict=True)])
        u = A @ theta + b
        noise += k.rho**2 * (k.e @ (w * k.e)) * (k.y @ (w * k.y))
        if oldest > 0:
            noise *= 1 - 1 / window
        terms += k.rho * (abs(k.reward) + abs(k.y * theta).sum()) * np.sqrt(k.e @ (w * k.e))
        waiting += 1
        if solver.ready(stored, n, A, u, w, theta):
            kept, stage = [], "idle"
            if waiting >= min(every or min(32, d // 2), int(0.01 * len(stored))):
                waiting = 0
                theta = solver.step(A, u, w, theta, n, len(stored))
            yield theta
            continue
        left = n - (oldest if stage == "idle" else read)
        if waiting < turn and waiting * M < left:
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
            below = q_i @ (w * q_i) + eps * filled**2 * noise * squares_of_p + 1e-6 * n * (p_i**2 @ usual)
            for _ in range(times if below > 0 else 0):
                a = q_i @ (w * u) / below
                terms += abs(a) * np.sqrt(q_i @ (w * q_i))
                theta = theta - a * p_i
                u = A @ theta + b
        yield theta


class _Solver:
    """Searches along A^{-1} u, with an A of some time ago, once that is trusted."""

    def __init__(self, usual):
        self.ridge = 1e-3 * np.diag(usual)
        self.trusted, self.stale, self.asked = False, False, 0

    def direction(self, u, theta):
        left = u - self.ridge @ (theta - self.anchor)
        return left, np.linalg.lstsq(self.old - self.ridge, left, rcond=None)[0]

    def ready(self, stored, n, A, u, w, theta):
        d, rho = len(theta), np.array([k.rho for k in stored])
        if rho.sum() ** 2 < 16 * d * (rho**2).sum() or not rho.any():
            self.trusted = False
        elif not self.trusted and u @ (w * u) > 0 and n - self.asked >= 0.1 * len(stored):
            self.asked = self.made = n
            self.size, self.stale, self.old, self.anchor = len(stored), False, A, theta
            left, p = self.direction(u, theta)
            noises = np.array([k.rho**2 * (k.e @ (w * k.e)) for k in stored])
            delta = np.array([k.reward + k.y @ theta for k in stored])
            along = np.array([k.y @ p for k in stored])
            few = noises @ along**2 < 0.04 * d * (left @ (w * left))
            self.trusted = few or noises @ (delta - along) ** 2 < 1.2 * (noises @ delta**2)
        return self.trusted

    def step(self, A, u, w, theta, n, size):
        new = n - self.made
        if new > 0.25 * self.size or (self.stale and 2 * new > len(theta)):
            self.old, self.made, self.size = A, n, size
        left, p = self.direction(u, theta)
        image = (A - self.ridge) @ p
        square = image @ (w * image)
        if square == 0:
            return theta
        a = image @ (w * left) / square
        self.stale = a * a * square < 0.75 * (left @ (w * left))
        return theta - a * p


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
