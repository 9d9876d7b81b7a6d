"""Products of a tall table of features, a chunk of rows at a time, so that nothing of its size is made beside it.

BLAS shares a product among threads that wait for each other, which on a machine with other work costs far more than it
saves: with four other processes on two cores, X'Y of 500 000 rows of 51 features took over ten seconds instead of 0.1.
Where BLAS is held to one thread, a product is one call. Elsewhere it is a sum of products below `SMALL`, which stay on
the calling thread; with few features that is about as fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gradtd.core import blas
from gradtd.core.arrays import Floats
from gradtd.core.stream import Stream

CHUNK, FEWEST_ROWS, ENTRIES = 16_384, 2_048, 2**17
"""Rows of a chunk, at most and at least; between them a dense chunk has so many numbers, 1 MB."""
SPARSE_CHUNK = 2**18
"""Entries of a chunk of sparse rows: adding a sparse sum costs as much as the sum has entries, so there are few."""
SMALL = 2**18
"""A product with at most so many multiplications is done on the calling thread (OpenBLAS)."""
FEWEST_SMALL = 64
"""With fewer rows than this in a small product, a large one is much faster."""


def chunks(n: int, most: int = CHUNK) -> Iterator[slice]:
    for begin in range(0, n, most):
        yield slice(begin, min(begin + most, n))


def chunk_rows(table: Any) -> int:
    """How many rows of a table to read at a time."""
    if not isinstance(table, np.ndarray):
        return max(FEWEST_ROWS, int(SPARSE_CHUNK * table.shape[0] // max(table.nnz, table.shape[0])))
    return min(CHUNK, max(FEWEST_ROWS, ENTRIES // int(table.shape[1])))


def rows_at(table: Any, rows: Any) -> Any:
    """These rows of a table, to be read only: no copy where they follow each other, as the steps of a log do.

    What is stored as float32 is widened here, a chunk at a time.
    """
    first, last = int(rows[0]), int(rows[-1])
    if isinstance(table, np.ndarray) and last - first == len(rows) - 1 and (rows[1:] - rows[:-1] == 1).all():
        return widened(table[first : last + 1])
    return widened(table[rows])


def widened(rows: Any) -> Any:
    """Rows in float64, as sums are: the same ones where they are so already."""
    return rows if rows.dtype == np.float64 else rows.astype(np.float64)


def rows_of(stream: Stream, part: Any) -> tuple[Any, Any]:
    """x, to be read only, and y = discount x_next - x for a chunk of steps, dense or sparse as the features are.

    The chunk is a slice, or the numbers of its steps.
    """
    steps = stream.steps[part]
    x = rows_at(stream.features, steps["row"])
    discount = steps["discount"][:, None]
    if isinstance(x, np.ndarray):
        y = widened(stream.features.take(steps["next_row"], axis=0))
        y *= discount
        y -= x
        return x, y
    return x, (stream.features[steps["next_row"]].multiply(discount) - x).tocsr()


def cross(x: Any, y: Any) -> Any:
    """x'y of two chunks, dense or sparse."""
    rows = SMALL // (x.shape[1] * y.shape[1])
    if not isinstance(x, np.ndarray) or rows < FEWEST_SMALL or blas.is_held():
        return x.T @ y
    whole = len(x) // rows * rows
    left, right = x[:whole].reshape(-1, rows, x.shape[1]), y[:whole].reshape(-1, rows, y.shape[1])
    return np.matmul(left.transpose(0, 2, 1), right).sum(axis=0) + x[whole:].T @ y[whole:]


def times(x: Floats, W: Floats, out: Floats | None = None) -> Floats:
    """x W of a dense chunk, written to ``out`` where that is given."""
    rows = SMALL // W.size
    out = np.empty((len(x), W.shape[1])) if out is None else out
    if rows < FEWEST_SMALL or blas.is_held():
        return np.matmul(x, W, out=out)
    whole = len(x) // rows * rows
    np.matmul(x[:whole].reshape(-1, rows, x.shape[1]), W, out=out[:whole].reshape(-1, rows, W.shape[1]))
    np.matmul(x[whole:], W, out=out[whole:])
    return out


def weighted_sum(x: Any, weights: Floats) -> Floats:
    """x'weights: the weighted sum of rows."""
    if isinstance(x, np.ndarray):
        return np.asarray(np.einsum("ij,i->j", x, weights))
    return np.asarray(x.T @ weights)


def values_of(table: Any, theta: Floats) -> Floats:
    """phi.theta for every row of a table."""
    if table.dtype != np.float64:
        return np.concatenate([values_of(widened(table[part]), theta) for part in chunks(table.shape[0])])
    if isinstance(table, np.ndarray):
        return table @ theta if blas.is_held() else np.asarray(np.einsum("ij,j->i", table, theta))
    return np.asarray(table @ theta)


def lengths(rows: Any) -> Floats:
    """The squared length of every row."""
    if isinstance(rows, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", rows, rows))
    return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
