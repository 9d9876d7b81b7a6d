"""Learns from many steps at once, a block at a time: a part of a log, or tables of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.compiled.online import EPISODE, OVER
from gradtd.core.stream import Stream
from gradtd.running.online.queue import StepQueue
from gradtd.running.online.sparse_rows import SparseTable, compressed, scipy_rows


def put_stream(queue: StepQueue, stream: Stream, numbers: NDArray[np.float64]) -> None:
    """Learn from a part of a log; ``numbers`` holds reward, discount and rho, (3, steps, runs)."""
    queue.work_off()
    given_sparse = not isinstance(stream.features, np.ndarray)
    queue.take_kind(stream.features.dtype == np.float32)
    sparse = isinstance(queue.store(given_sparse), SparseTable)
    if given_sparse and not sparse:
        queue.refuse_wide(stream.name)
    steps = stream.steps
    episode = queue.episodes.numbers_of(steps["episode"], bool((numbers[1, -1] == 0).all()))
    for begin in range(0, len(stream), queue.most):
        part = slice(begin, begin + queue.most)
        ends = np.stack([steps["row"][part], steps["next_row"][part]])
        used, index = np.unique(ends, return_inverse=True)
        table: Any = stream.features[used]
        if sparse:
            table = compressed(scipy_rows(table), queue.kind)
        else:
            table = np.asarray(table.toarray() if given_sparse else table, queue.kind)
        queue.put_block(table, index.reshape(ends.shape), numbers[:, part], episode[part])


def put_many(
    queue: StepQueue, tables: list[NDArray[Any]], numbers: NDArray[np.float64], over: NDArray[np.bool_]
) -> None:
    """Learn from consecutive steps; ``over`` marks those that end an episode."""
    queue.work_off()
    queue.take_kind(all(table.dtype == np.float32 for table in tables))
    sparse = isinstance(queue.store(False), SparseTable)
    first, after = (np.asarray(table, queue.kind) for table in tables)
    goes_on = np.r_[False, (first[1:] == after[:-1]).all(axis=1)]
    queue.episodes.begin_step(None)
    episode = queue.episodes.number + np.cumsum(np.r_[queue.episodes.over, over[:-1]])
    for begin in range(0, len(over), queue.most):
        part = slice(begin, begin + queue.most)
        fresh = np.r_[True, ~goes_on[part][1:]]
        # Each step's next row, preceded by its own row if that is not the previous next row.
        place = np.cumsum(1 + fresh) - 1
        table = np.empty((place[-1] + 1, queue.n_features), queue.kind)
        table[place], table[place[fresh] - 1] = after[part], first[part][fresh]
        held = compressed(scipy_rows(table), queue.kind) if sparse else table
        queue.put_block(held, np.stack([place - 1, place]), numbers[:, part], episode[part])
    queue.counts[EPISODE], queue.counts[OVER] = episode[-1], over[-1]
    queue.episodes.labelled = False
