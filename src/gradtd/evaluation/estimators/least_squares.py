"""The least-squares solution on a log, its sandwich error, and its refits on resampled episodes.

The log is read in chunks of steps; nothing of its size is made beside it. Sums of sparse features are accumulated
sparsely. They stay sparse for cells, of which a row has one (one-hot, aggregation), and where features are many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.blas import one_thread
from gradtd.core.progress import Progress
from gradtd.core.stream import Stream
from gradtd.evaluation.estimators.bootstrap import Resamples
from gradtd.evaluation.estimators.products import (
    DenseRows,
    chunk_rows,
    chunks,
    cross,
    lengths,
    rows_of,
    values_of,
    weighted_sum,
    widened,
)
from gradtd.evaluation.estimators.solvers import (
    DENSE,
    Solver,
    SparseSolver,
    feature_scale,
    is_diagonal,
    solved_each,
    solver_of,
)
from gradtd.evaluation.estimators.sparse_refits import can_refit_sparsely, sparse_refits


class FoldSums(NamedTuple):
    """Sums over the steps of some episodes: of rho x y' and of rho r x."""

    A: Any
    b: Floats


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
    n, d = len(stream), stream.n_features
    folds = 1 if fold is None else int(fold.max()) + 1
    A: list[Any] = [0.0] * folds
    b: list[Any] = [0.0] * folds
    square, done, moments = 0.0, 0, 0.0
    terms = terms_of(stream, traces, C is None)
    for k, places, steps in _by_fold(n, fold, chunk_rows(stream.features)):
        of_A, of_b, of_square, of_C = terms(places)
        A[k] += of_A
        b[k] += of_b
        square += of_square
        moments += of_C
        done += steps
        if progress:
            progress(done, n)
    parts = () if fold is None else tuple(map(FoldSums, A, b))
    A_all, b_all = sum(A[1:], A[0]), sum(b[1:], b[0])
    C = moments / n if C is None else C
    if not isinstance(A_all, np.ndarray) and d <= DENSE and not is_diagonal(C):
        A_all, C = A_all.toarray(), C if isinstance(C, np.ndarray) else C.toarray()
    return Sums(A_all / n, np.asarray(b_all / n), C, square / n, n, parts)


def _by_fold(n: int, fold: Integers | None, most: int) -> Iterator[tuple[int, Any, int]]:
    """Blocks of steps, all of one fold: its number, which steps, and how many."""
    for k in range(1 if fold is None else int(fold.max()) + 1):
        inside = None if fold is None else np.flatnonzero(fold == k)
        for part in chunks(n if inside is None else len(inside), most):
            yield k, part if inside is None else inside[part], part.stop - part.start


Terms = tuple[Any, Floats, float, Any]
"""Over some steps, the sums of rho e y', rho r e, rho^2 |e|^2 |y|^2 and x x'; e is x, or the trace."""


def terms_of(stream: Stream, traces: Any = None, with_C: bool = False) -> Callable[[Any], Terms]:
    """A function of steps, given by a slice or their numbers, at most as many as a chunk has rows."""
    if not isinstance(stream.features, np.ndarray):
        return lambda places: _sparse_terms(stream, places, traces, with_C)
    rows, d = DenseRows(stream, chunk_rows(stream.features)), stream.n_features

    def terms(places: Any) -> Terms:
        x, y, of_x, of_y = rows.of(places)
        e, of_e = (x, of_x) if traces is None else (traces[places], lengths(traces[places]))
        both = cross(e, y)
        return both[:, :d], both[:, d], float(of_e @ of_y), cross(x, x) if with_C else 0.0

    return terms


def _sparse_terms(stream: Stream, places: Any, traces: Any, with_C: bool) -> Terms:
    x, y = rows_of(stream, places)
    e, steps = x if traces is None else traces[places], stream.steps[places]
    rho = np.asarray(steps["rho"])
    square = float((rho**2 * lengths(e) * lengths(y)).sum())
    A = cross(e, y.multiply(rho[:, None]).tocsr())
    return A, weighted_sum(e, rho * np.asarray(steps["reward"])), square, cross(x, x) if with_C else 0.0


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
    return widened(stream.features[stream.steps["row"][begins[:-1]] if stream.starts is None else stream.starts])


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


@one_thread()
def influences(stream: Stream, theta: Floats, left: Floats, begins: Integers, traces: Any = None) -> Floats:
    """E / n times the sum of rho delta (x . left) over the steps of each episode."""
    value, along = values_of(stream.features, theta), values_of(stream.features if traces is None else traces, left)
    residual, every = np.empty(len(stream)), np.asarray(stream.steps)  # no record array: each field of one costs 10 us
    for part in chunks(len(stream)):
        steps = every[part]
        row = steps["row"]
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
    terms, rows = terms_of(stream, traces), chunk_rows(stream.features)
    for part in chunks(groups, at_once):
        of_group = np.zeros((part.stop - part.start, d * d + d))
        for k, g in enumerate(range(part.start, part.stop)):
            steps = slice(int(begins[resamples.begins[g]]), int(begins[resamples.begins[g + 1]]))
            of_group[k] = _group_sums(terms, steps, rows)
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
    return np.asarray((mean * scale * solved_each(matrices, -scale * b)).sum(axis=1))


def _group_sums(terms: Callable[[Any], Terms], part: slice, most: int) -> Floats:
    """The sums of rho x y' and of rho r x over a run of steps, in one row."""
    found = [terms(slice(part.start + p.start, part.start + p.stop)) for p in chunks(part.stop - part.start, most)]
    return np.asarray(np.r_[sum(A for A, *_ in found).ravel(), sum(b for _, b, *_ in found)])
