"""Sparse rows, and the entries of vectors that they name, asked of the memory before they are needed.

A sparse row is found in four reads, each of which says where the next one is: a step, the beginning of its row, the
row, the entries of vectors. So a whole batch is asked for in four rounds, and what one round asks for is near when the
next one reads it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtd.compiled.kinds import by_storage
from gradtd.compiled.rows import NEAR, touch
from gradtd.core.arrays import Index

LOOKS_AHEAD = 4
"""Steps by which entries of vectors are asked for before a rule that reads the latest step alone gets there."""


def _dense_bring_near(features: Any, traces: Any, steps: Any, batch: Any, table: Any) -> None:
    """Nothing: `fetch_steps` is enough where a step says where its rows are"""


def _sparse_bring_near(features: Any, traces: Any, steps: Any, batch: Any, table: Any) -> None:
    for i in range(batch.shape[0]):
        touch(steps, batch[i])
        if traces is not None:
            touch(traces.begin, batch[i])
    for i in range(batch.shape[0]):
        touch(features.begin, steps[batch[i]].row)
        touch(features.begin, steps[batch[i]].next_row)
        if traces is not None:
            _touch_entries(traces, np.uint64(batch[i]))
    for i in range(batch.shape[0]):
        _touch_entries(features, np.uint64(steps[batch[i]].row))
        _touch_entries(features, np.uint64(steps[batch[i]].next_row))
    if table is not None and table.size > NEAR:
        for i in range(batch.shape[0]):
            _touch_vectors(features, np.uint64(steps[batch[i]].row), table)
            _touch_vectors(features, np.uint64(steps[batch[i]].next_row), table)


def _touch_entries(table: Any, row: Index) -> None:
    """A line has 8 numbers of 64 bits or 16 of 32; a row need not begin with a line."""
    begin, end = table.begin[row], table.begin[row + np.uint64(1)]
    for k in range(begin, end, 8):
        touch(table.data, k)
        touch(table.indices, k)
    if begin < end:
        touch(table.data, end - 1)
        touch(table.indices, end - 1)


def _touch_vectors(features: Any, row: Index, table: Any) -> None:
    for k in range(features.begin[row], features.begin[row + np.uint64(1)]):
        touch(table, features.indices[k])


def _dense_look_ahead(features: Any, steps: Any, t: Index, table: Any) -> None:
    """Nothing: rows in the order of time are near"""


def _sparse_look_ahead(features: Any, steps: Any, t: Index, table: Any) -> None:
    if table is not None and table.size > NEAR and t + LOOKS_AHEAD < steps.shape[0]:
        _touch_vectors(features, np.uint64(steps[t + LOOKS_AHEAD].next_row), table)


bring_near = by_storage(_dense_bring_near, _sparse_bring_near)
look_ahead = by_storage(_dense_look_ahead, _sparse_look_ahead)
