"""Prefetches features and entries of vectors before they are needed. Results do not change.

Drawn steps are far apart in a large table. A dense row is prefetched while earlier steps are processed. A sparse row
needs four dependent reads: the step, the beginning of its row, the row, and the entries of vectors. So a whole batch is
prefetched in four rounds; the data of one round have arrived when the next one reads them. On tables larger than the
caches, a batch then takes half the time or less.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtd.compiled.dispatch import by_storage
from gradtd.core.arrays import Index

AHEAD = 4
"""Number of steps by which rows are prefetched ahead."""
LARGE = 2**15
"""A table with more numbers than this does not fit into the fastest caches."""
MANY = 2**14
"""More steps than this do not fit either, nor do the steps of such a table, which fills the caches."""


def prefetch_row(table: Any, row: Index) -> None:
    """Does nothing in interpreted code; the engine compiles it to prefetch instructions (`intrinsics`)."""


def prefetch_entry(array: Any, k: Index) -> None:
    """Does nothing in interpreted code; the engine compiles it to a prefetch instruction (`intrinsics`)."""


def prefetch_first_steps(features: Any, traces: Any, steps: Any, batch: Any) -> None:
    """`prefetch_step` for the first steps of a batch"""
    for i in range(-AHEAD, AHEAD):
        prefetch_step(features, traces, steps, batch, i)


def prefetch_step(features: Any, traces: Any, steps: Any, batch: Any, i: int) -> None:
    """Prefetch the dense rows of step i of a batch, and the record of a later step, which points to its rows.

    One step at a time, in parallel with computation, because a processor has about a dozen loads in flight.
    """
    far = traces is not None and _is_large(traces)
    if i + AHEAD < batch.shape[0] and (far or _is_large(features) or steps.shape[0] > MANY):
        prefetch_entry(steps, batch[i + AHEAD])
    if 0 <= i < batch.shape[0]:
        if _is_large(features):
            step = steps[batch[i]]
            prefetch_row(features, np.uint64(step.row))
            prefetch_row(features, np.uint64(step.next_row))
        if far:
            prefetch_row(traces, np.uint64(batch[i]))


def _dense_is_large(table: Any) -> bool:
    return table.size > LARGE


def _sparse_is_large(table: Any) -> bool:
    """Always false: sparse rows are short, and `prefetch_batch` handles them"""
    return False


def _dense_batch(features: Any, traces: Any, steps: Any, batch: Any, table: Any) -> None:
    """Prefetch the sparse rows of a batch, and their entries in ``table``, the vectors of a rule"""


def _sparse_batch(features: Any, traces: Any, steps: Any, batch: Any, table: Any) -> None:
    for i in range(batch.shape[0]):
        prefetch_entry(steps, batch[i])
        if traces is not None:
            prefetch_entry(traces.begin, batch[i])
    for i in range(batch.shape[0]):
        prefetch_entry(features.begin, steps[batch[i]].row)
        prefetch_entry(features.begin, steps[batch[i]].next_row)
        if traces is not None:
            _prefetch_sparse_row(traces, np.uint64(batch[i]))
    for i in range(batch.shape[0]):
        _prefetch_sparse_row(features, np.uint64(steps[batch[i]].row))
        _prefetch_sparse_row(features, np.uint64(steps[batch[i]].next_row))
    if table is not None and table.size > LARGE:
        for i in range(batch.shape[0]):
            _prefetch_vectors(features, np.uint64(steps[batch[i]].row), table)
            _prefetch_vectors(features, np.uint64(steps[batch[i]].next_row), table)


def _prefetch_sparse_row(table: Any, row: Index) -> None:
    """A cache line has 8 numbers of 64 bits or 16 of 32; a row need not begin with a line."""
    begin, end = table.begin[row], table.begin[row + np.uint64(1)]
    for k in range(begin, end, 8):
        prefetch_entry(table.data, k)
        prefetch_entry(table.indices, k)
    if begin < end:
        prefetch_entry(table.data, end - 1)
        prefetch_entry(table.indices, end - 1)


def _prefetch_vectors(features: Any, row: Index, table: Any) -> None:
    for k in range(features.begin[row], features.begin[row + np.uint64(1)]):
        prefetch_entry(table, features.indices[k])


def _dense_coming_step(features: Any, steps: Any, t: Index, table: Any) -> None:
    """Prefetch the entries of vectors for a step soon after t; the processor prefetches consecutive dense rows"""


def _sparse_coming_step(features: Any, steps: Any, t: Index, table: Any) -> None:
    if table is not None and table.size > LARGE and t + AHEAD < steps.shape[0]:
        _prefetch_vectors(features, np.uint64(steps[t + AHEAD].next_row), table)


_is_large = by_storage(_dense_is_large, _sparse_is_large)
prefetch_batch = by_storage(_dense_batch, _sparse_batch)
prefetch_coming_step = by_storage(_dense_coming_step, _sparse_coming_step)
