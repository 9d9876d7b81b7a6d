"""The two buffers of a run: step indices, as windows over one list. Inserting and drawing, compiled.

The stream is known, so the buffers are, too: ``members`` lists the step indices of buffer 1 and
then those of buffer 2, in the order they arrive. Inserting a step moves a counter, and a bounded
buffer is a window that ends at the counter (oldest leaves first). Nothing is ever copied.

Which buffer a step belongs to is the business of `gradtd.compiled.splits`, which batches a rule gets that of
`gradtd.compiled.draws`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradtd.compiled.random import next_below
from gradtd.core.arrays import Batch, Index, Integers, Words


class Buffers(NamedTuple):
    """The two buffers of a run, as windows over ``members``."""

    side: NDArray[np.uint8]
    members: NDArray[np.uint32]
    begin: Integers
    arrived: Integers
    capacity: int
    unit: Integers
    stamps: Integers


def no_buffers(n_steps: int) -> Buffers:
    """For a rule that draws nothing."""
    nothing = np.zeros(0, np.int64)
    return Buffers(nothing.astype(np.uint8), nothing.astype(np.uint32), nothing, nothing, n_steps, nothing, nothing)


def fill_up(buffers: Buffers) -> None:
    """Let every step have arrived, as in a second pass over the stream."""
    if len(buffers.members):
        buffers.arrived[:] = buffers.begin[1], len(buffers.members) - buffers.begin[1]


def insert(buffers: Buffers, t: Index) -> Any:
    """Step t arrives in its buffer; returns which. In a second pass over the stream all have arrived already."""
    side = np.int64(buffers.side[t])
    end = buffers.begin[1] if side == 0 else buffers.members.shape[0]
    if buffers.begin[side] + buffers.arrived[side] < end:
        buffers.arrived[side] += 1
    return side


def stored(buffers: Buffers, side: int) -> Any:
    """How many steps a buffer holds."""
    return min(buffers.arrived[side], buffers.capacity)


def draw(buffers: Buffers, side: int, rng: Words, batch: Batch, stamp: int) -> None:
    """Fill ``batch`` with step indices of one buffer, uniformly; a ``stamp`` draws each at most once."""
    n = stored(buffers, side)
    begin = np.uint64(buffers.begin[side] + buffers.arrived[side] - n)
    members = buffers.members
    if stamp == 0:
        for i in range(batch.shape[0]):
            batch[i] = members[begin + next_below(rng, n)]
        return
    # Floyd's algorithm: a subset in as many draws as it has elements.
    m = batch.shape[0]
    for i in range(m):
        last = n - m + i
        place = begin + next_below(rng, last + 1)
        if buffers.stamps[place] == stamp:
            place = begin + np.uint64(last)
        buffers.stamps[place] = stamp
        batch[i] = members[place]
