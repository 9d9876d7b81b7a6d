"""Products of a tall table of features, a chunk of rows at a time, so that nothing of its size is made beside it.

BLAS shares a product among threads that wait for each other, which on a machine with other work costs far more than it
saves: with four other processes on two cores, X'Y of 500 000 rows of 51 features took over ten seconds instead of 0.1.
Where BLAS is held to one thread, a product is one call. Elsewhere it is a sum of products below `SMALL`, which stay on
the calling thread; with few features that is about as fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gradtd.compiled import engine
from gradtd.compiled.traces import Tracing, keep_traces, traces_of
from gradtd.core import blas
from gradtd.core.arrays import Floats, Integers, Plain
from gradtd.core.stream import Stream, begins_episode

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


class Block(NamedTuple):
    """Rows of some steps: x, (rho y, rho r) with one column more, |x|^2 and rho^2 |y|^2; valid until the next block."""

    x: Floats
    y: Floats
    of_x: Floats
    of_y: Floats


class DenseRows:
    """Makes blocks of at most so many steps, in room that all of them share."""

    def __init__(self, stream: Stream, most: int) -> None:
        most, d = min(most, len(stream)), stream.n_features
        self._view = stream.view
        self._room = np.empty((most, d)), np.empty((most, d + 1)), np.empty((2, most))
        self._fill = engine.compiled(_filler)

    def of(self, places: Any) -> Block:
        """The rows of these steps, given by their numbers or as a slice."""
        at = np.arange(places.start, places.stop) if isinstance(places, slice) else places
        x, y, squares = self._room[0][: len(at)], self._room[1][: len(at)], self._room[2][:, : len(at)]
        self._fill(self._view.features, self._view.steps, at, x, y, squares)
        return Block(x, y, squares[0], squares[1])


def fill_rows(features: Floats, steps: Any, places: Integers, x: Floats, y: Floats, squares: Floats) -> None:
    """x, rho (discount x_next - x) with rho r behind it, and the squared lengths of both."""
    d = features.shape[1]
    for i in range(places.shape[0]):
        step = steps[places[i]]
        row, after, discount, rho = step.row, step.next_row, step.discount, step.rho
        for k in range(d):
            now = features[row, k]
            x[i, k] = now
            y[i, k] = rho * (discount * features[after, k] - now)
        y[i, d] = rho * step.reward
        of_x, of_y = 0.0, 0.0
        for k in range(d):
            of_x += x[i, k] * x[i, k]
            of_y += y[i, k] * y[i, k]
        squares[0, i] = of_x
        squares[1, i] = of_y


def _filler(fingerprint: str) -> Plain:
    def run(features: Floats, steps: Any, places: Integers, x: Floats, y: Floats, squares: Floats) -> None:
        fingerprint  # noqa: B018 (part of the closure, and so of the key of the cache)
        fill_rows(features, steps, places, x, y, squares)

    return run


def trace_rows(stream: Stream, tracing: Tracing | None, episode: Integers | None = None) -> Any:
    """The traces of a log, one row per step, dense or sparse as its features are; None where they are the features.

    ``episode`` numbers the episodes that traces run through, where those of the stream are pieces of them.
    """
    if tracing is None or tracing.lam == 0:
        return None
    if episode is not None:
        keep_traces(stream, tracing, traces_of(_through(stream, episode), tracing))
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


def _through(stream: Stream, episode: Integers) -> Stream:
    """The stream with these episodes."""
    steps: Any = stream.steps.copy()
    steps["episode"] = episode
    return replace(stream, steps=steps)
