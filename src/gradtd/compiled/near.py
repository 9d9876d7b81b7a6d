"""Sparse rows, and the entries of vectors that they name, asked of the memory before they are needed.

A sparse row is found in four reads, each of which says where the next one is: a step, the beginning of its row, the
row, the entries of vectors. So a whole batch is asked for in four rounds, and what one round asks for is near when the
next one reads it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtd.compiled.kinds import by_kind, by_storage
from gradtd.compiled.rows import NEAR, touch
from gradtd.compiled.vectors import Touched
from gradtd.core.arrays import Index

FURTHER = 16
"""Columns by which entries are asked for before a loop over columns gets there."""
LOOKS_AHEAD = 4
"""Steps by which entries of vectors are asked for before a rule that reads the latest step alone gets there."""


def _dense_bring_near(features: Any, traces: Any, steps: Any, batch: Any, table: Any) -> None:
    """Nothing: `fetch_step` is enough where a step says where its rows are"""


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


def _dense_step_near(features: Any, steps: Any, t: Index, u: Any, v: Any) -> None:
    """Have the entries of two vectors that step t names brought near, where there is such a step"""


def _sparse_step_near(features: Any, steps: Any, t: Index, u: Any, v: Any) -> None:
    if u.shape[0] > NEAR and t < steps.shape[0]:
        for row in (np.uint64(steps[t].row), np.uint64(steps[t].next_row)):
            _touch_vectors(features, row, u)
            _touch_vectors(features, row, v)


def _dense_columns_met(met: Any, u: Any) -> Any:
    """How many columns steps have had entries for; all, where rows are dense"""
    return u.shape[0]


def _columns_met(met: Touched, u: Any) -> Any:
    return met.size[0]


def _dense_column_met(met: Any, i: Index, u: Any, v: Any) -> Any:
    """The i-th of them; entries of two vectors that will be asked for soon are brought near"""
    return i


def _column_met(met: Touched, i: Index, u: Any, v: Any) -> Any:
    if u.shape[0] > NEAR and i + FURTHER < met.size[0]:
        touch(u, met.columns[i + FURTHER])
        touch(v, met.columns[i + FURTHER])
    return met.columns[i]


step_near = by_storage(_dense_step_near, _sparse_step_near)
columns_met = by_kind(0, _dense_columns_met, Touched=_columns_met)
column_met = by_kind(0, _dense_column_met, Touched=_column_met)
bring_near = by_storage(_dense_bring_near, _sparse_bring_near)
look_ahead = by_storage(_dense_look_ahead, _sparse_look_ahead)
