"""Least squares on resampled episodes, for sparse features: nothing is made that has as many entries as d x d.

The sums of every group of episodes are kept as their entries that are not zero, at most as many as the steps make.
Those of a resample are a weighted count of them. Its equations are solved by a Krylov method that starts from the
weights of the whole log and takes what solved the equations of the whole log as preconditioner.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.progress import Progress
from gradtd.core.stream import Stream
from gradtd.evaluation.estimators.bootstrap import Resamples
from gradtd.evaluation.estimators.products import chunk_rows, chunks, rows_of
from gradtd.evaluation.estimators.solvers import Solver, SparseSolver

MOST_ENTRIES = 1e8
"""Entries that the steps of a log may make, products of those of x and y."""
EXACT_REFIT = 1e-12
"""Residual of a refit, as a part of its right side."""


def can_refit_sparsely(stream: Stream, solver: Solver | SparseSolver, traces: Any = None) -> bool:
    """Whether the entries of all groups fit into a moderate amount of memory, and equations like these were solved."""
    table: Any = stream.features
    a_row = max(1.0, table.nnz / table.shape[0])
    left = len(stream) * a_row if traces is None else traces.nnz
    return 2 * left * a_row <= MOST_ENTRIES and "LSMR" not in solver.how


class Grouped(NamedTuple):
    """Entries of a vector or matrix by group of episodes: entry k of group g is at ``place[k]``."""

    group: Integers
    place: Integers
    value: Floats
    size: int

    def resampled(self, counts: Floats) -> Floats:
        """The sum over groups, each as often as ``counts`` says."""
        return np.bincount(self.place, self.value * counts[self.group], minlength=self.size).astype(np.float64)


def sparse_refits(
    stream: Stream,
    starts: Any,
    begins: Integers,
    resamples: Resamples,
    fit: Any,
    progress: Progress | None = None,
    traces: Any = None,
) -> Floats:
    """The value of the start states on every resample; see `least_squares.refit_values`."""
    from scipy.sparse import csr_array

    d, counts = stream.n_features, resamples.counts.astype(np.float64)
    A, keys, b = _grouped(stream, begins[resamples.begins], traces)
    columns, ends = keys % d, np.searchsorted(keys, np.arange(d + 1) * d)
    first = _grouped_starts(starts.tocsr(), resamples.begins)
    taken = counts @ np.diff(resamples.begins)
    values, like = np.empty(len(counts)), fit.solver.like
    for r, count in enumerate(counts):
        matrix = csr_array((A.resampled(count), columns, ends), shape=(d, d))
        solver = SparseSolver(matrix, fit.sums.C, like, EXACT_REFIT)
        theta = solver.solve(-b.resampled(count), guess=fit.theta)
        values[r] = first.resampled(count) @ theta / taken[r]
        if progress:
            progress(r + 1, len(counts))
    return values


def _grouped(stream: Stream, edges: Integers, traces: Any = None) -> tuple[Grouped, Integers, Grouped]:
    """The sums of rho x y' and of rho r x by group, and the keys (row * d + column) of the former's places."""
    d, n = stream.n_features, len(stream)
    group = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    found: list[tuple[Integers, Integers, Floats]] = []
    right: list[tuple[Integers, Integers, Floats]] = []
    for part in chunks(n, chunk_rows(stream.features)):
        steps = stream.steps[part]
        x, y = rows_of(stream, part)
        pairs, of_x = _by_group(x if traces is None else traces[part], group[part])
        product = (of_x.T @ y.multiply(np.asarray(steps["rho"])[:, None])).tocoo()
        owner = pairs[product.row]
        found.append((owner // d, owner % d * d + product.col, product.data))
        right.append((pairs // d, pairs % d, of_x.T @ np.asarray(steps["rho"] * steps["reward"])))
    g, key, value = (np.concatenate(column) for column in zip(*found, strict=True))
    keys, place = np.unique(key, return_inverse=True)
    return Grouped(g, place, value, len(keys)), keys, _joined(right, d)


def _joined(parts: list[tuple[Integers, Integers, Floats]], size: int) -> Grouped:
    g, place, value = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Grouped(g, place, value, size)


def _by_group(x: Any, group: Integers) -> tuple[Integers, Any]:
    """Rows with a column for each pair (group, feature) that occurs, and the keys (group * d + feature) of those."""
    from scipy.sparse import csr_array

    key = np.repeat(group, np.diff(x.indptr)) * x.shape[1] + x.indices
    pairs, where = np.unique(key, return_inverse=True)
    return pairs, csr_array((x.data, where, x.indptr), shape=(x.shape[0], len(pairs)))


def _grouped_starts(starts: Any, edges: Integers) -> Grouped:
    group = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    pairs, of_row = _by_group(starts, group)
    d = starts.shape[1]
    return Grouped(pairs // d, pairs % d, np.asarray(of_row.sum(axis=0)).ravel(), d)
