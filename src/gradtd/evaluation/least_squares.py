"""The least-squares solution on a log, its sandwich error, and its refits on resampled episodes.

The log is read in chunks of steps; nothing of its size is made beside it. Sums of sparse features are accumulated
sparsely. They stay sparse for cells, of which a row has one (one-hot, aggregation), and where features are many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.blas import one_thread
from gradtd.core.progress import Progress
from gradtd.core.stream import Stream
from gradtd.evaluation.folds import FoldSums, by_fold
from gradtd.evaluation.products import chunk_rows, chunks, cross, lengths, rows_of, values_of, weighted_sum
from gradtd.evaluation.resamples import Resamples
from gradtd.evaluation.solvers import DENSE, SINGULAR, Solver, SparseSolver, feature_scale, is_diagonal, solver_of
from gradtd.evaluation.sparse_refits import can_refit_sparsely, sparse_refits


@dataclass(frozen=True, eq=False)
class Sums:
    """A = mean of rho x y', b = mean of rho r x, C = mean of x x', over the steps of a log.

    ``square`` is the mean of rho^2 |x|^2 |y|^2, the mean square of what A is the mean of. ``folds`` are the sums that A
    and b are of, by fold of the episodes, where they were asked for.
    """

    A: Any
    b: Floats
    C: Any
    square: float
    steps: int
    folds: tuple[FoldSums, ...] = ()


@one_thread()
def sums(
    stream: Stream, progress: Progress | None = None, traces: Any = None, C: Any = None, fold: Integers | None = None
) -> Sums:
    """Read the log once. Cost O(n d^2), for sparse rows O(n k^2) with k entries per row.

    Parameters
    ----------
    stream
        The steps, over a table of features.
    progress
        Hears how many of them were read.
    traces
        One row per step, which stand for x where it is the left factor.
    C
        The mean of x x', where it is known already.
    fold
        The fold of every step, where sums by fold are wanted; there are no traces then.
    """
    square, n, d = 0.0, len(stream), stream.n_features
    folds = 1 if fold is None else int(fold.max()) + 1
    A: list[Any] = [0.0] * folds
    b: list[Any] = [0.0] * folds
    moments: Any = 0.0
    for part in chunks(n, chunk_rows(stream.features)):
        index, runs = (part, [(0, slice(None))]) if fold is None else by_fold(fold, part)
        x, y = rows_of(stream, index)
        e = x if traces is None else traces[part]
        square += float((np.asarray(stream.steps["rho"][index]) ** 2 * lengths(e) * lengths(y)).sum())
        y, reward = _weighted(stream, index, y)
        for k, run in runs:
            A[k] += cross(e[run], y[run])
            b[k] += weighted_sum(e[run], reward[run])
        if C is None:
            moments += cross(x, x)
        if progress:
            progress(part.stop, n)
    parts = () if fold is None else tuple(map(FoldSums, A, b))
    A_all, b_all = sum(A[1:], A[0]), sum(b[1:], b[0])
    C = moments / n if C is None else C
    if not isinstance(A_all, np.ndarray) and d <= DENSE and not is_diagonal(C):
        A_all, C = A_all.toarray(), C if isinstance(C, np.ndarray) else C.toarray()
    return Sums(A_all / n, np.asarray(b_all / n), C, square / n, n, parts)


def _weighted(stream: Stream, part: Any, y: Any) -> tuple[Any, Floats]:
    """The rows times rho, dense ones written over, and rho r."""
    rho = np.asarray(stream.steps["rho"][part])
    if isinstance(y, np.ndarray):
        y *= rho[:, None]
    else:
        y = y.multiply(rho[:, None]).tocsr()
    return y, rho * np.asarray(stream.steps["reward"][part])


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """LSTD on a log: its weights, the value of the start states, and the sandwich error of that."""

    sums: Sums
    theta: Floats
    value: float
    error: float
    singular: int
    left: Floats
    """A^-T times the mean start features: how the value depends on each residual."""
    psi: Floats
    """The influence of every episode on the value."""
    solver: Solver | SparseSolver

    @property
    def condition(self) -> float | None:
        """The condition number of A, where it is dense."""
        return self.solver.condition

    @property
    def how(self) -> str:
        """What the equations were solved by."""
        return self.solver.how


def start_features(stream: Stream, begins: Integers) -> Any:
    """The features in which every episode starts: of its first observation, unless the stream says otherwise."""
    return stream.features[stream.steps["row"][begins[:-1]] if stream.starts is None else stream.starts]


def least_squares(
    stream: Stream,
    starts: Any,
    begins: Integers,
    progress: Progress | None = None,
    traces: Any = None,
    **known: Any,
) -> LeastSquares:
    """LSTD, A theta + b = 0, and the value of the start states with its sandwich error.

    The error is that of an M-estimate clustered by episodes: with v = mean of phi_0.theta, the influence of episode e
    is psi_e = phi_0e.theta - v - E / n (sum over its steps of rho delta x).(A^-T mean phi_0), and the variance of v is
    the sum of psi_e^2 / (E (E - 1)). It holds for the solution in the features given, right or wrong. With ``traces``,
    one row per step, it is LSTD(lam), and the trace of a step is its x above. What is ``known``, C or the fold of every
    step, goes to `sums`.
    """
    found = sums(stream, progress, traces, **known)
    solver = solver_of(found.A, found.C)
    theta = solver.solve(-found.b)
    mean = np.asarray(starts.mean(axis=0)).ravel()
    left = solver.solve(mean, transposed=True)
    value = float(mean @ theta)
    psi = np.asarray(starts @ theta).ravel() - value - influences(stream, theta, left, begins, traces)
    n = len(psi)
    error = float(np.sqrt((psi**2).sum() / (n * (n - 1)))) if n > 1 else np.nan
    return LeastSquares(found, theta, value, error, solver.singular, left, psi, solver)


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


def can_refit(stream: Stream, fit: LeastSquares, resamples: int, traces: Any = None) -> bool:
    """Whether the matrices of all resamples take a moderate amount of memory and of time."""
    if not isinstance(stream.features, np.ndarray):
        return can_refit_sparsely(stream, fit.solver, traces)
    return stream.n_features <= DENSE and resamples * stream.n_features**2 <= 2e7


@one_thread()
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
    if not isinstance(stream.features, np.ndarray):
        return sparse_refits(stream, starts, begins, resamples, fit, progress, traces)
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
    first = np.add.reduceat(starts, edges[:-1], axis=0)
    mean = weights @ first / (weights @ np.diff(edges))[:, None]
    scale = feature_scale(fit.sums.C)
    matrices = A.reshape(-1, d, d) * scale[:, None] * scale
    matrices *= np.asarray(matrices.any(axis=2))[:, None, :]  # features that a resample lacks keep the weight 0
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
        y, reward = _weighted(stream, inside, y)
        A, b = A + cross(e, y), b + weighted_sum(e, reward)
    return np.asarray(np.r_[A.ravel(), b])
