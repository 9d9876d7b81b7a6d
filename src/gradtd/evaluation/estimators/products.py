"""Products of a tall table of features, one chunk of rows at a time, and the traces that may replace its rows.

A chunk fits into the cache, so nothing as large as the table is allocated. BLAS splits a product over threads that wait
for each other. When other programs use the cores, this costs far more time than it saves: with four other processes on
two cores, X'Y of 500,000 rows of 51 features took over ten seconds instead of 0.1. If BLAS is limited to one thread, a
product is one call. Otherwise it is a sum of products below `SMALL`, which BLAS computes on the calling thread.

Whitening gives features with C = I: they represent the same values, and gradient methods find them in far fewer steps.
A rule on features W'phi learns weights theta_w, and W theta_w are the weights for phi. With C = mean of phi phi' and W
W' = C^-1, the condition number of A depends only on the problem, not on the choice of features (NEU becomes MSPBE). It
takes one more pass over the log, O(n d^2), and no extra memory: a dense table is changed in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from gradtd.compiled.traces import Tracing, keep_traces, traces_of
from gradtd.core import blas
from gradtd.core.arrays import Floats, Integers
from gradtd.core.blas import one_thread
from gradtd.core.stream import Stream, begins_episode
from gradtd.evaluation.estimators.solvers import DENSE, feature_scale, is_diagonal

CHUNK, FEWEST_ROWS, ENTRIES = 16_384, 2_048, 2**17
"""Largest and smallest number of rows in a chunk. Within these limits a dense chunk has this number of entries (1 MB),
so that it stays in the cache."""
SPARSE_CHUNK = 2**18
"""Number of entries in a chunk of sparse rows. Adding two sparse sums takes time proportional to their entries, so
chunks are large."""
SMALL = 2**18
"""OpenBLAS computes products with at most this number of multiplications on the calling thread."""
FEWEST_SMALL = 64
"""With fewer rows than this in a small product, one large product is much faster."""


def chunks(n: int, most: int = CHUNK) -> Iterator[slice]:
    """Split 0 to n into slices of limited size."""
    for begin in range(0, n, most):
        yield slice(begin, min(begin + most, n))


def chunk_rows(table: Any) -> int:
    """Number of rows of a table to read at a time."""
    if not isinstance(table, np.ndarray):
        return max(FEWEST_ROWS, int(SPARSE_CHUNK * table.shape[0] // max(table.nnz, table.shape[0])))
    return min(CHUNK, max(FEWEST_ROWS, ENTRIES // int(table.shape[1])))


def rows_at(table: Any, rows: Any) -> Any:
    """The given rows of a table in float64, read-only. Consecutive rows, as of the steps of a log, are a view."""
    first, last = int(rows[0]), int(rows[-1])
    if isinstance(table, np.ndarray) and last - first == len(rows) - 1 and (rows[1:] - rows[:-1] == 1).all():
        return widened(table[first : last + 1])
    return widened(table[rows])


def widened(rows: Any) -> Any:
    """Convert rows to float64 for sums. Rows that are already float64 are not copied."""
    return rows if rows.dtype == np.float64 else rows.astype(np.float64)


def cross(x: Any, y: Any) -> Any:
    """x'y of two chunks, dense or sparse."""
    rows = SMALL // (x.shape[1] * y.shape[1])
    if not isinstance(x, np.ndarray) or rows < FEWEST_SMALL or blas.is_held():
        return x.T @ y
    whole = len(x) // rows * rows
    left, right = x[:whole].reshape(-1, rows, x.shape[1]), y[:whole].reshape(-1, rows, y.shape[1])
    return np.matmul(left.transpose(0, 2, 1), right).sum(axis=0) + x[whole:].T @ y[whole:]


def times(x: Floats, W: Floats, out: Floats | None = None) -> Floats:
    """x W of a dense chunk, written to ``out`` if it is given."""
    rows = SMALL // W.size
    out = np.empty((len(x), W.shape[1])) if out is None else out
    if rows < FEWEST_SMALL or blas.is_held():
        return np.matmul(x, W, out=out)
    whole = len(x) // rows * rows
    np.matmul(x[:whole].reshape(-1, rows, x.shape[1]), W, out=out[:whole].reshape(-1, rows, W.shape[1]))
    np.matmul(x[whole:], W, out=out[whole:])
    return out


def values_of(table: Any, theta: Floats) -> Floats:
    """phi.theta for every row of a table."""
    if table.dtype != np.float64:
        return np.concatenate([values_of(widened(table[part]), theta) for part in chunks(table.shape[0])])
    if isinstance(table, np.ndarray):
        return table @ theta if blas.is_held() else np.asarray(np.einsum("ij,j->i", table, theta))
    return np.asarray(table @ theta)


def squared_lengths(rows: Any) -> Floats:
    if isinstance(rows, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", rows, rows))
    return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()


def trace_rows(stream: Stream, tracing: Tracing | None, episode: Integers | None = None) -> Any:
    """The traces of a log, one row per step, dense or sparse like its features, or None if they equal the features.

    They replace x as the left factor of the equations. ``episode`` numbers the episodes that traces run through, if the
    stream's episodes are pieces of longer ones.
    """
    if tracing is None or tracing.lam == 0:
        return None
    if episode is not None:
        steps: Any = stream.steps.copy()
        steps["episode"] = episode
        keep_traces(stream, tracing, traces_of(replace(stream, steps=steps), tracing))
    made = traces_of(stream, tracing)
    if isinstance(made, np.ndarray):
        return made
    from scipy.sparse import csr_array

    return csr_array((made.data, made.indices, made.begin), shape=(len(stream), stream.n_features))


def decays(tracing: Tracing, rho: Floats, discount: Floats, episode: Integers, target: Floats | None) -> Floats:
    """d of every step in z_t = rho_t (x_t + d_t z_{t-1}), for z = rho e with the trace e; 0 where an episode begins."""
    ratio = tracing.ratios({"rho": rho}, target, "the log")
    share = np.divide(ratio, rho, out=np.zeros(len(rho)), where=rho > 0)
    decay = np.zeros(len(rho))
    decay[1:] = tracing.lam * discount[:-1] * share[:-1]
    decay[begins_episode(episode)] = 0.0
    return decay


REDUNDANT = 1e-10
"""With features scaled to variance one, directions with a smaller share of the variance are dropped as redundant."""
AS_DENSE, AS_DENSE_SOLVED = 2**25, 2**22
"""Sparse tables with at most this number of entries, including zeros, are made dense for whitening: the first limit is
for rules that make updates, the second for direct solutions, which need no whitening. Cells stay sparse, because their
C is diagonal."""


@one_thread()
def second_moments(table: Any, rows: Any) -> Any:
    """C = mean of x x' over these rows. C is sparse for cells and for many sparse features."""
    C: Any = 0.0
    for part in chunks(len(rows), chunk_rows(table)):
        x = rows_at(table, rows[part])
        C += cross(x, x)
    stays = isinstance(C, np.ndarray) or table.shape[1] > DENSE or is_diagonal(C)
    return (C if stays else C.toarray()) / len(rows)


def condition(C: Any) -> float | None:
    """The condition number of C with every feature scaled to mean square one, without directions of zero variance.

    It is one for cells, and None for any other sparse C.
    """
    if not isinstance(C, np.ndarray):
        return 1.0 if is_diagonal(C) else None
    scale = np.sqrt(np.where(np.diag(C) > 0, np.diag(C), 1.0))
    eigenvalues = np.linalg.eigvalsh(C / scale[:, None] / scale)
    kept = eigenvalues[eigenvalues > 1e-12 * eigenvalues[-1]]
    return float(kept[-1] / kept[0]) if len(kept) else float("inf")


def whitener(C: Floats, redundant: float = REDUNDANT) -> Floats:
    """W with W'C W = I, and zero columns for directions that do not occur."""
    scale = feature_scale(C)
    eigenvalues, vectors = np.linalg.eigh(scale[:, None] * C * scale)
    kept = eigenvalues > redundant * eigenvalues[-1]
    lengths = np.sqrt(np.where(kept, eigenvalues, 1.0))
    return np.asarray(scale[:, None] * vectors * np.where(kept, 1.0 / lengths, 0.0))


@one_thread()
def whiten(table: Any, C: Any, as_dense: int = AS_DENSE) -> tuple[Any, Floats]:
    """Whiten a table. Returns the new table and W (a vector if W is diagonal). A dense table is changed in place."""
    n_rows, d = table.shape
    if not isinstance(table, np.ndarray):
        if d > DENSE or n_rows * d > as_dense or is_diagonal(C):
            scale = feature_scale(C)
            table.data *= scale[table.indices]
            return table, scale
        table = table.toarray()
    W, rows = whitener(C), chunk_rows(table)
    room = np.empty((min(rows, n_rows), d))
    for part in chunks(n_rows, rows):
        table[part] = times(table[part], W, room[: part.stop - part.start])
    return table, W


def whitened_moments(table: Any, C: Any, W: Floats | None) -> Any:
    """C of a dense table that was whitened by W, or left unchanged. None for a sparse one."""
    if not isinstance(table, np.ndarray) or not isinstance(C, np.ndarray):
        return None
    return C if W is None else W.T @ C @ W


def original(W: Floats | None, theta: Floats) -> Floats:
    """The weights of the original features."""
    if W is None:
        return theta
    return np.asarray(W * theta if W.ndim == 1 else W @ theta)
