"""LSTD on a log: sums by group of episodes, the solution with its sandwich error, and refits on resampled episodes.

gradtd reads the log in chunks of steps and so needs little extra memory. Sums of sparse features stay sparse for cells
(one per row, as with one-hot or aggregation), and for more than `solvers.DENSE` features.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from operator import add, iadd
from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.blas import one_thread
from gradtd.core.progress import Progress
from gradtd.core.stream import Stream
from gradtd.evaluation.estimators.bootstrap import Resamples
from gradtd.evaluation.estimators.products import (
    chunk_rows,
    chunks,
    cross,
    rows_at,
    second_moments,
    squared_lengths,
    widened,
)
from gradtd.evaluation.estimators.solvers import DENSE, Solver, SparseSolver, feature_scale, solved_each, solver_of

MOST_NUMBERS, AT_ONCE = 2e7, 2.5e5
"""Maximum size of the dense matrices of all bootstrap samples (160 MB), and of the groups summed at once (2 MB)."""
MOST_ENTRIES = 1e8
"""Maximum number of products of entries of x and y in a sparse log; they are kept by group for refits."""
EXACT_REFIT = 1e-12
"""Relative residual at which a sparse refit stops. The resulting error is far below that of the bootstrap."""


class GroupSums(NamedTuple):
    """Sums over a group of steps: of rho e y', rho r e and rho^2 |e|^2 |y|^2, with y = discount x' - x.

    e is x, or the trace of the step.
    """

    A: Any
    b: Floats
    square: float


@dataclass(frozen=True, eq=False)
class Sums:
    """A = mean of rho x y', b = mean of rho r x, C = mean of x x', over the steps of a log.

    ``square`` is the mean of rho^2 |x|^2 |y|^2, the mean square of the terms of A. ``folds`` are the sums by fold of
    the episodes, if requested.
    """

    A: Any
    b: Floats
    C: Any
    square: float = np.nan
    steps: int = 0
    folds: tuple[GroupSums, ...] = ()


@one_thread()
def sums(
    stream: Stream, progress: Progress | None = None, traces: Any = None, C: Any = None, fold: Integers | None = None
) -> Sums:
    """Read the log once. Cost O(n d^2), for sparse rows O(n k^2) with k entries per row.

    ``traces`` has one row per step, which replaces x as the left factor. ``C`` is the mean of x x', if already
    computed. ``fold``, the fold of every step, asks for sums by fold.
    """
    n = len(stream)
    group: Any = np.zeros(n, np.int8) if fold is None else fold
    if isinstance(stream.features, np.ndarray):
        steps = (np.flatnonzero(group == k) for k in range(int(group.max()) + 1))
        parts = list(dense_sums(stream, steps, traces, progress))
    else:
        parts = _matrices(*sparse_sums(stream, group, traces, progress))
    A, b, square = (reduce(add, column) / n for column in zip(*parts, strict=True))
    C = second_moments(stream.features, stream.steps["row"]) if C is None else C
    if isinstance(C, np.ndarray) and not isinstance(A, np.ndarray):
        A = A.toarray()
    return Sums(A, b, C, float(square), n, () if fold is None else tuple(parts))


def dense_sums(
    stream: Stream, groups: Iterable[Integers], traces: Any = None, progress: Progress | None = None
) -> Iterator[GroupSums]:
    """The sums over every group of steps, given by their numbers."""
    n, done = len(stream), 0
    for group in groups:
        total: Any = None
        for part in chunks(len(group), chunk_rows(stream.features)):
            x, y, reward = weighted_rows(stream, group[part])
            e = x if traces is None else traces[group[part]]
            found = cross(e, y), reward @ e, float(squared_lengths(e) @ squared_lengths(y))
            total = found if total is None else tuple(map(iadd, total, found))
            done += len(y)
            if progress:
                progress(done, n)
        yield GroupSums(*total)


def weighted_rows(stream: Stream, places: Any) -> tuple[Any, Any, Floats]:
    """The features x, rho (discount x_next - x) and rho r of the given steps. The arrays of rows are sparse if the
    features are."""
    steps = np.asarray(stream.steps)[places]
    rho, discount = steps["rho"], steps["discount"]
    x, after = rows_at(stream.features, steps["row"]), rows_at(stream.features, steps["next_row"])
    if isinstance(x, np.ndarray):
        return x, rho[:, None] * (discount[:, None] * after - x), rho * steps["reward"]
    y = (after.multiply(discount[:, None]) - x).multiply(rho[:, None]).tocsr()
    return x, y, rho * steps["reward"]


def sparse_sums(
    stream: Stream, group: Integers, traces: Any = None, progress: Progress | None = None
) -> tuple[Any, Any, Floats]:
    """A, b and the squares of `GroupSums` by group of steps, for sparse features: one row of a sparse matrix per group.

    ``group`` has the group of every step. Entry (i, j) of a group's A is in column i d + j, so that the matrix is as
    sparse as the steps.
    """
    from scipy.sparse import csr_array

    n, d, groups, table = len(stream), stream.n_features, int(group.max()) + 1, stream.features
    A, b, square = csr_array((groups, d * d)), csr_array((groups, d)), np.zeros(groups)
    for part in chunks(n, chunk_rows(table)):
        x, y, reward = weighted_rows(stream, part)
        e = x if traces is None else traces[part]
        pairs, of_pairs = _by_pair(e, group[part], groups)
        product = (of_pairs.T @ y).tocsr()
        owner = np.repeat(pairs, np.diff(product.indptr))
        A += _by_group(owner // d, owner % d * d + product.indices, product.data, (groups, d * d))
        b += _by_group(pairs // d, pairs % d, of_pairs.T @ reward, (groups, d))
        square += np.bincount(group[part], squared_lengths(e) * squared_lengths(y), groups)
        if progress:
            progress(part.stop, n)
    return A, b, square


def _by_pair(x: Any, group: Integers, groups: int) -> tuple[Integers, Any]:
    """Rows with one column per pair (group, feature), and the numbers of these pairs, group * d + feature."""
    from scipy.sparse import csr_array

    pair = np.repeat(group.astype(np.int64), np.diff(x.indptr)) * x.shape[1] + x.indices
    pairs, column = np.arange(groups * x.shape[1]), pair
    if len(pairs) > len(pair):  # with many groups most pairs do not occur and need no column
        pairs, column = np.unique(pair, return_inverse=True)
    return pairs, csr_array((x.data, column, x.indptr), shape=(x.shape[0], len(pairs)))


def _by_group(group: Integers, column: Integers, value: Floats, shape: tuple[int, int]) -> Any:
    """A sparse matrix with one row per group, from entries in the order of groups."""
    from scipy.sparse import csr_array

    return csr_array((value, column, np.searchsorted(group, np.arange(shape[0] + 1))), shape=shape)


def _matrices(A: Any, b: Any, square: Floats) -> list[GroupSums]:
    rows, d = [slice(*ends) for ends in pairwise(A.indptr)], b.shape[1]
    matrices = [_matrix(A.indices[row], A.data[row], d) for row in rows]
    return list(map(GroupSums, matrices, b.toarray(), square))


def _matrix(places: Integers, values: Floats, d: int) -> Any:
    """The d x d matrix that has the given values at the sorted places i d + j."""
    from scipy.sparse import csr_array

    return csr_array((values, places % d, np.searchsorted(places, np.arange(d + 1) * d)), shape=(d, d))


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """The solution of the equations of the log: the weights, the value of the start states, and its standard error.

    ``left`` is A^-T times the mean start features: the sensitivity of the value to each residual. ``psi`` holds the
    influence of every episode, or of every group of episodes, on the value.
    """

    sums: Sums
    theta: Floats
    value: float
    left: Floats
    solver: Solver | SparseSolver
    psi: Floats = field(default_factory=lambda: np.zeros(0))
    error: float = np.nan

    @property
    def singular(self) -> int:
        """Number of directions of feature space that the equations do not determine."""
        return self.solver.singular

    @property
    def condition(self) -> float | None:
        """The condition number of A, if it is dense."""
        return self.solver.condition

    @property
    def how(self) -> str:
        """The name of the solver that was used."""
        return self.solver.how


def start_features(stream: Stream, begins: Integers) -> Any:
    """The start features of every episode: those of its first observation, unless the stream has other start rows."""
    return widened(stream.features[stream.steps["row"][begins[:-1]] if stream.starts is None else stream.starts])


def least_squares(
    stream: Stream,
    starts: Any,
    begins: Integers,
    progress: Progress | None = None,
    traces: Any = None,
    **known: Any,
) -> LeastSquares:
    """LSTD: solves A theta + b = 0 and returns the value of the start states with its sandwich error.

    The error is that of an M-estimate clustered by episodes: with v = mean of phi_0.theta, the influence of episode e
    is psi_e = phi_0e.theta - v - E / n (sum over its steps of rho delta x).(A^-T mean phi_0), and the variance of v is
    the sum of psi_e^2 / (E (E - 1)). It is valid for the solution in the given features, even if they cannot represent
    the value. With ``traces``, one row per step, it is LSTD(lam), with the trace in place of x above. ``known`` values
    (C, or the fold of every step) are passed to `sums`.
    """
    found = solve_sums(sums(stream, progress, traces, **known), np.asarray(starts.mean(axis=0)).ravel())
    of_episode = np.add.reduceat(step_influences(stream, found.theta, found.left, traces), begins[:-1])
    psi = np.asarray(starts @ found.theta).ravel() - found.value - of_episode * (len(of_episode) / len(stream))
    return replace(found, psi=psi, error=float(standard_error(psi)))


def of_behaviour(stream: Stream, starts: Any, begins: Integers, C: Any = None) -> LeastSquares:
    """The value of the log's own policy in the same features, with all ratios 1."""
    return least_squares(stream.changed(rho=1.0), starts, begins, C=C)


def solve_sums(found: Sums, start: Floats) -> LeastSquares:
    """The solution of A theta + b = 0 and its value at these mean start features, without its error."""
    solver = solver_of(found.A, found.C)
    theta = solver.solve(-found.b)
    return LeastSquares(found, theta, float(start @ theta), solver.solve(start, transposed=True), solver)


@one_thread()
def step_influences(
    stream: Stream, theta: Floats, left: Floats, traces: Any = None, fold: Integers | None = None
) -> Floats:
    """rho delta (e.left) of every step, where delta = r + discount V(s') - V(s) by theta, and e is x or the trace.

    With ``fold``, theta and left have one row per fold, and each step uses its fold's.
    """
    of_values, of_left = np.atleast_2d(theta).T, np.atleast_2d(left).T
    out, every = np.empty(len(stream)), np.asarray(stream.steps)  # each access to a field of a record array costs 10 us
    for part in chunks(len(stream), chunk_rows(stream.features)):
        steps = every[part]
        mine = np.arange(len(steps)), 0 if fold is None else fold[part]
        x, after = rows_at(stream.features, steps["row"]), rows_at(stream.features, steps["next_row"])
        along = ((x if traces is None else traces[part]) @ of_left)[mine]
        delta = steps["reward"] + steps["discount"] * (after @ of_values)[mine] - (x @ of_values)[mine]
        out[part] = steps["rho"] * delta * along
    return out


def standard_error(psi: Floats) -> Floats:
    """The standard error of a value from the influences of episodes, which are on the last axis. NaN for a single
    episode."""
    n = psi.shape[-1]
    return np.asarray(np.sqrt((psi**2).sum(axis=-1) / (n * (n - 1) if n > 1 else np.nan)))


def can_refit(stream: Stream, fit: LeastSquares, resamples: int, traces: Any = None) -> bool:
    """Whether refits are affordable in memory and time, and their equations can be solved."""
    table: Any = stream.features
    if isinstance(table, np.ndarray):
        return stream.n_features <= DENSE and resamples * stream.n_features**2 <= MOST_NUMBERS
    a_row = max(1.0, table.nnz / table.shape[0])
    left = len(stream) * a_row if traces is None else traces.nnz
    return 2 * left * a_row <= MOST_ENTRIES and "LSMR" not in fit.how


@one_thread()
def refit_least_squares(
    stream: Stream,
    starts: Any,
    begins: Integers,
    resamples: Resamples,
    fit: LeastSquares,
    progress: Progress | None = None,
    traces: Any = None,
) -> Floats:
    """The value of the start states by LSTD on every bootstrap sample.

    gradtd reads the log once, for the sums of each group of episodes. The sums of a bootstrap sample are those of its
    groups, weighted by how often it contains them.
    """
    if not isinstance(stream.features, np.ndarray):
        return _sparse_refits(stream, starts, begins, resamples, fit, progress, traces)
    counts, edges, d = resamples.counts.astype(np.float64), resamples.begins, stream.n_features
    groups = dense_sums(stream, (np.arange(*ends) for ends in pairwise(begins[edges])), traces)
    both = np.zeros((len(counts), d * d + d))
    for part in chunks(counts.shape[1], max(1, int(AT_ONCE) // (d * d))):
        of_groups = np.empty((part.stop - part.start, d * d + d))
        for row, (A, b, _) in zip(of_groups, groups, strict=False):  # continues with the next groups
            row[: d * d], row[d * d :] = A.ravel(), b
        both += counts[:, part] @ of_groups
        if progress:
            progress(part.stop, counts.shape[1])
    mean = counts @ np.add.reduceat(starts, edges[:-1], axis=0) / (counts @ np.diff(edges))[:, None]
    scale = feature_scale(fit.sums.C)
    matrices = both[:, : d * d].reshape(-1, d, d) * scale[:, None] * scale
    matrices *= np.asarray(matrices.any(axis=2))[:, None, :]  # features missing from a bootstrap sample keep weight 0
    return np.asarray((mean * scale * solved_each(matrices, -scale * both[:, d * d :])).sum(axis=1))


def _sparse_refits(
    stream: Stream,
    starts: Any,
    begins: Integers,
    resamples: Resamples,
    fit: LeastSquares,
    progress: Progress | None,
    traces: Any,
) -> Floats:
    """Solve by a Krylov method from the weights of the whole log, preconditioned by the solver of its equations."""
    from scipy.sparse import csr_array

    counts, edges, d = resamples.counts.astype(np.float64), resamples.begins, stream.n_features
    group = np.repeat(np.arange(len(edges) - 1), np.diff(begins[edges]))
    A, b, _ = sparse_sums(stream, group, traces)
    places, column = np.unique(A.indices, return_inverse=True)
    by_place = csr_array((A.data, column, A.indptr), shape=(len(edges) - 1, len(places)))
    first = csr_array((np.ones(len(begins) - 1), np.arange(len(begins) - 1), edges)) @ starts
    taken, values = counts @ np.diff(edges), np.empty(len(counts))
    for r, count in enumerate(counts):
        solver = SparseSolver(_matrix(places, by_place.T @ count, d), fit.sums.C, fit.solver.like, EXACT_REFIT)
        theta = solver.solve(-(b.T @ count), guess=fit.theta)
        values[r] = (first.T @ count) @ theta / taken[r]
        if progress:
            progress(r + 1, len(counts))
    return values
