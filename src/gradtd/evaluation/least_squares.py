"""The least-squares solution on a log, its sandwich error, and its refits on resampled episodes.

The log is read in chunks of steps; nothing of its size is made beside it. With few features (up to `DENSE`) matrices
are dense; with more they stay sparse, and the solution is the one of minimum norm that LSMR finds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.progress import Progress
from gradtd.core.stream import Stream
from gradtd.evaluation.products import chunk_rows, chunks, cross, lengths, rows_at, values_of, weighted_sum
from gradtd.evaluation.resamples import Resamples

DENSE = 1500
"""Up to this many features matrices are dense."""
SINGULAR = 1e-11
"""Directions along which the scaled matrix is smaller than this, relative to its largest, are left at zero."""


def rows_of(stream: Stream, part: slice) -> tuple[Any, Any]:
    """x, to be read only, and y = discount x_next - x for a chunk of steps, dense or sparse as the features are."""
    steps = stream.steps[part]
    x = rows_at(stream.features, steps["row"])
    discount = steps["discount"][:, None]
    if isinstance(x, np.ndarray):
        y = stream.features.take(steps["next_row"], axis=0)
        y *= discount
        y -= x
        return x, y
    return x, (stream.features[steps["next_row"]].multiply(discount) - x).tocsr()


@dataclass(frozen=True, eq=False)
class Sums:
    """A = mean of rho x y', b = mean of rho r x, C = mean of x x', over the steps of a log.

    ``square`` is the mean of rho^2 |x|^2 |y|^2, the mean square of what A is the mean of.
    """

    A: Any
    b: Floats
    C: Any
    square: float
    steps: int


def sums(stream: Stream, progress: Progress | None = None, traces: Any = None) -> Sums:
    """Read the log once. Cost O(n d^2), for sparse rows O(n k^2) with k entries per row.

    ``traces``, one row per step, stand for x where it is the left factor.
    """
    A: Any = 0.0
    b: Any = 0.0
    C: Any = 0.0
    square, n = 0.0, len(stream)
    for part in chunks(n, chunk_rows(stream.features)):
        x, y = rows_of(stream, part)
        e = x if traces is None else traces[part]
        square += float((np.asarray(stream.steps["rho"][part]) ** 2 * lengths(e) * lengths(y)).sum())
        more_A, more_b = _moments(stream, part, e, y)
        A, b, C = A + more_A, b + more_b, C + cross(x, x)
        if progress:
            progress(part.stop, n)
    if not isinstance(A, np.ndarray) and stream.n_features <= DENSE:
        A, C = A.toarray(), C.toarray()
    return Sums(A / n, np.asarray(b / n), C / n, square / n, n)


def _moments(stream: Stream, part: slice, x: Any, y: Any) -> tuple[Any, Floats]:
    """The sums of rho x y' and of rho r x over a chunk of steps; y is written over."""
    rho, reward = np.asarray(stream.steps["rho"][part]), np.asarray(stream.steps["reward"][part])
    if isinstance(y, np.ndarray):
        y *= rho[:, None]
    else:
        y = y.multiply(rho[:, None]).tocsr()
    return cross(x, y), weighted_sum(x, rho * reward)


def feature_scale(C: Any) -> Floats:
    """One over the root mean square of every feature, 0 for a feature that is always 0."""
    square = C.diagonal()
    return np.asarray(np.divide(1.0, np.sqrt(square), out=np.zeros_like(square), where=square > 0))


class Solver:
    """Solves A v = c and A'v = c by minimum norm, in units in which every feature has mean square one."""

    def __init__(self, A: Any, C: Any) -> None:
        self.scale = feature_scale(C)
        self.dense = isinstance(A, np.ndarray)
        self.condition: float | None = None
        self.singular = 0
        if self.dense:
            scaled = self.scale[:, None] * A * self.scale
            u, s, v = np.linalg.svd(scaled)
            kept = s > SINGULAR * s[0] if s[0] > 0 else np.zeros(len(s), bool)
            self.inverse = (v[kept].T / s[kept]) @ u[:, kept].T
            self.singular = int((self.scale > 0).sum() - kept.sum())
            self.condition = float(s[0] / s[kept][-1]) if kept.any() else np.inf
        else:
            import scipy.sparse

            by = scipy.sparse.diags_array(self.scale)
            self.matrix = (by @ A @ by).tocsr()

    def solve(self, c: Floats, transposed: bool = False) -> Floats:
        right = self.scale * c
        if self.dense:
            return np.asarray(self.scale * ((self.inverse.T if transposed else self.inverse) @ right))
        from scipy.sparse.linalg import lsmr

        matrix = self.matrix.T if transposed else self.matrix
        return np.asarray(self.scale * lsmr(matrix, right, atol=1e-12, btol=1e-12, maxiter=2000)[0])


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """LSTD on a log: its weights, the value of the start states, and the sandwich error of that."""

    sums: Sums
    theta: Floats
    value: float
    error: float
    condition: float | None
    singular: int
    left: Floats
    """A^-T times the mean start features: how the value depends on each residual."""
    psi: Floats
    """The influence of every episode on the value."""


def start_features(stream: Stream, begins: Integers) -> Any:
    """The features in which every episode starts: of its first observation, unless the stream says otherwise."""
    return stream.features[stream.steps["row"][begins[:-1]] if stream.starts is None else stream.starts]


def least_squares(
    stream: Stream, starts: Any, begins: Integers, progress: Progress | None = None, traces: Any = None
) -> LeastSquares:
    """LSTD, A theta + b = 0, and the value of the start states with its sandwich error.

    The error is that of an M-estimate clustered by episodes: with v = mean of phi_0.theta, the influence of episode e
    is psi_e = phi_0e.theta - v - E / n (sum over its steps of rho delta x).(A^-T mean phi_0), and the variance of v is
    the sum of psi_e^2 / (E (E - 1)). It holds for the solution in the features given, right or wrong. With ``traces``,
    one row per step, it is LSTD(lam), and the trace of a step is its x above.
    """
    found = sums(stream, progress, traces)
    solver = Solver(found.A, found.C)
    theta = solver.solve(-found.b)
    mean = np.asarray(starts.mean(axis=0)).ravel()
    left = solver.solve(mean, transposed=True)
    value = float(mean @ theta)
    psi = np.asarray(starts @ theta).ravel() - value - influences(stream, theta, left, begins, traces)
    n = len(psi)
    error = float(np.sqrt((psi**2).sum() / (n * (n - 1)))) if n > 1 else np.nan
    return LeastSquares(found, theta, value, error, solver.condition, solver.singular, left, psi)


def influences(stream: Stream, theta: Floats, left: Floats, begins: Integers, traces: Any = None) -> Floats:
    """E / n times the sum of rho delta (x . left) over the steps of each episode."""
    value, along = values_of(stream.features, theta), values_of(stream.features if traces is None else traces, left)
    residual = np.empty(len(stream))
    for part in chunks(len(stream)):
        steps = stream.steps[part]
        row = np.asarray(steps["row"])
        delta = steps["reward"] + steps["discount"] * value[steps["next_row"]] - value[row]
        residual[part] = steps["rho"] * delta * (along[row] if traces is None else along[part])
    total = np.add.reduceat(residual, begins[:-1])
    return np.asarray(total * (len(total) / len(stream)))


def can_refit(n_features: int, resamples: int) -> bool:
    """Whether the matrices of all resamples fit into a moderate amount of memory."""
    return n_features <= DENSE and resamples * n_features**2 <= 2e7


def refit_values(
    stream: Stream,
    starts: Any,
    begins: Integers,
    resamples: Resamples,
    fit: LeastSquares,
    progress: Progress | None = None,
    traces: Any = None,
) -> Floats:
    """The value of the start states by LSTD on every resample.

    One pass over the log: the sums of each group of episodes, times how often each resample takes the group.
    """
    groups, d = len(resamples.begins) - 1, stream.n_features
    weights = resamples.counts.astype(np.float64)
    A, b = np.zeros((len(weights), d * d)), np.zeros((len(weights), d))
    at_once = max(1, int(4e6) // (d * d))
    for part in chunks(groups, at_once):
        of_group = np.zeros((part.stop - part.start, d * d + d))
        for k, g in enumerate(range(part.start, part.stop)):
            steps = slice(int(begins[resamples.begins[g]]), int(begins[resamples.begins[g + 1]]))
            of_group[k] = _group_sums(stream, steps, traces)
        both = weights[:, part] @ of_group
        A += both[:, : d * d]
        b += both[:, d * d :]
        if progress:
            progress(part.stop, groups)
    edges = resamples.begins
    dense = starts if isinstance(starts, np.ndarray) else starts.toarray()
    first = np.add.reduceat(dense, edges[:-1], axis=0)
    mean = weights @ first / (weights @ np.diff(edges))[:, None]
    scale = feature_scale(fit.sums.C)
    matrices = A.reshape(-1, d, d) * scale[:, None] * scale
    thetas = [np.linalg.lstsq(matrices[r], -scale * b[r], rcond=SINGULAR)[0] for r in range(len(weights))]
    return np.asarray((mean * scale * np.array(thetas)).sum(axis=1))


def _group_sums(stream: Stream, part: slice, traces: Any = None) -> Floats:
    """The sums of rho x y' and of rho r x over a run of steps, in one row."""
    A: Any = 0.0
    b: Any = 0.0
    for piece in chunks(part.stop - part.start, chunk_rows(stream.features)):
        inside = slice(part.start + piece.start, part.start + piece.stop)
        x, y = rows_of(stream, inside)
        e = x if traces is None else traces[inside]
        if not isinstance(x, np.ndarray):
            e, y = e.toarray(), y.toarray()
        more_A, more_b = _moments(stream, inside, e, y)
        A, b = A + more_A, b + more_b
    return np.asarray(np.r_[A.ravel(), b])
