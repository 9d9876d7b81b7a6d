"""Bounded memory for experience without end: the steps that may still be drawn, moved to the front now and then.

A run over a known stream has buffers that are windows over it (`buffers.py`). Here steps arrive one by one: a
`Window` holds the latest of each buffer and room for new ones, `Rows` the features they point to. When one of
them is full, what no buffer holds any more is dropped and the rest moves to the front in its order. So every
buffer always holds the same steps in the same order as with the whole stream, and draws the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.compiled.buffers import Buffers
from gradtd.compiled.traces import Tracer, sparse_rows_at
from gradtd.core.arrays import Floats, Integers
from gradtd.core.memory_limits import refuse_beyond_memory
from gradtd.core.stream import STEP, SparseRows, StreamView
from gradtd.running.settings import Setup

LEAST_ROOM = 1024
"""Rows and entries that there is room for, however few are held."""
_PIECE = 4096


def roomy(needed: int) -> int:
    """The size of an array that has to hold so much: half as much again, so that moving stays rare."""
    return needed + needed // 2


def too_tight(length: int, needed: int) -> bool:
    """Whether an array would be full again soon: it grows then, to a size that stays bounded by what is held."""
    return length < needed + needed // 4


def move_to_front(array: NDArray[Any], kept: Integers) -> None:
    """array[:len(kept)] = array[kept], for increasing indices, a piece at a time so that no second copy is made."""
    for i in range(0, len(kept), _PIECE):
        piece = kept[i : i + _PIECE]
        array[i : i + len(piece)] = array[piece]


def resized(array: NDArray[Any], length: int, used: int) -> NDArray[Any]:
    """A new array of another length that begins with the used part of this one."""
    new = np.zeros((length, *array.shape[1:]), array.dtype)
    new[:used] = array[:used]
    return new


class GrowingRows:
    """Compressed rows, and room for more: ``size`` rows are held.

    What stands behind them in ``begin`` is at most the end of the last: rows that are not held have no entries.
    """

    def __init__(self, n_features: int, kind: Any = np.float64) -> None:
        self.n_features, self.size = n_features, 0
        self._data, self._indices = np.zeros(LEAST_ROOM, kind), np.zeros(LEAST_ROOM, np.uint32)
        self._begin = np.zeros(LEAST_ROOM, np.int64)

    @property
    def used(self) -> int:
        """The number of entries held."""
        return int(self._begin[self.size])

    @property
    def table(self) -> SparseRows:
        """What is held, as compiled code reads it; two numbers of ``begin`` at least."""
        begin = self._begin[: max(self.size, 1) + 1]
        return SparseRows(self._data[: self.used], self._indices[: self.used], begin, self.n_features)

    @property
    def whole(self) -> SparseRows:
        """The arrays with their free ends, for who fills them."""
        return SparseRows(self._data, self._indices, self._begin, self.n_features)

    def put(self, rows: SparseRows) -> None:
        """Further rows; there is room for them."""
        count, begin = len(rows.begin) - 1, self.used
        end = begin + len(rows.data)
        self._data[begin:end], self._indices[begin:end] = rows.data, rows.indices
        self._begin[self.size + 1 : self.size + count + 1] = begin + rows.begin[1:]
        self.size += count

    def has_room(self, rows: int, entries: int) -> bool:
        """Whether so many more rows and entries fit."""
        return self.size + rows + 1 < len(self._begin) and self.used + entries <= len(self._data)

    def grow(self, rows: int, entries: int) -> None:
        """Room for so many more rows and entries."""
        if too_tight(len(self._begin), self.size + rows + 2):
            self._begin = resized(self._begin, roomy(self.size + rows + 2), self.size + 1)
        if too_tight(len(self._data), self.used + entries):
            self._lengthen(roomy(self.used + entries), self.used)

    def lengthen(self, entries: int) -> None:
        """Room for so many entries in all, while rows are being filled behind those held."""
        if entries > len(self._data):
            self._lengthen(roomy(entries), len(self._data))

    def _lengthen(self, length: int, used: int) -> None:
        self._data, self._indices = resized(self._data, length, used), resized(self._indices, length, used)

    def keep_only(self, kept: Integers) -> None:
        """Hold these rows only, in their order; what remains moves to the front, with no second copy of all."""
        if len(kept) == self.size:
            return
        held, self.size = self.table, 0
        for i in range(0, len(kept), _PIECE):
            self.put(sparse_rows_at(held, kept[i : i + _PIECE]))
        self._begin[self.size + 1 :] = self.used

    def keep(self, rows: SparseRows) -> None:
        """Hold these rows and no others."""
        self.keep_only(np.zeros(0, np.int64))
        self.grow(len(rows.begin) - 1, len(rows.data))
        self.put(rows)


UNBOUNDED = 2**62
LEAST = 1536
"""Steps that a window has room for, however few it has to hold."""


class Window:
    """The steps that one run may still draw, in order of arrival, and its buffers over them.

    A step takes 49 bytes, 57 with split "episode-index" and 16 more without replacement; its trace, where there are
    traces, as much as a dense row of features, or 12 bytes per entry where rows are sparse.
    """

    def __init__(self, setup: Setup, seed: int, n_features: int, compile: bool | None = None) -> None:
        self.tracing, self.n_features, self._compile = setup.tracing, n_features, compile
        self.tracer: Tracer | None = None  # until it is known how rows are stored
        self.traces: Floats | GrowingRows | None = None
        self.split, self.seed = setup.split, seed
        self.has_buffers = setup.split.stores
        self.block: int | None = setup.hyper.get("block")
        self.with_stamps = not setup.plan.replacement
        keeps = setup.draws.keeps(setup.m1, setup.plan.fill, setup.hyper.get("capacity"))
        self.keeps = UNBOUNDED if keeps is None else keeps
        self.given = self.size = 0
        self._allocate(np.zeros(0, STEP), np.zeros(0, np.uint8), np.zeros(0, np.int64), LEAST)

    def store(self, sparse: bool) -> None:
        """Traces are stored as rows are, which is known from now on."""
        if self.tracing is None or (self.tracer and isinstance(self.traces, GrowingRows) == sparse):
            return
        if sparse:
            self.traces = GrowingRows(self.n_features)
        else:
            refuse_beyond_memory(
                8.0 * self.n_features * len(self.steps),
                f"dense traces of {self.n_features} features",
                "take fewer features, or give sparse rows",
            )
            self.traces = np.zeros((len(self.steps), self.n_features))
        self.tracer = Tracer(self.tracing, 0 if sparse else self.n_features, self._compile)

    def restore(self, given: int, steps: NDArray[Any], side: NDArray[np.uint8], unit: Integers, traces: Any) -> None:
        """Hold these steps, as after so many were given; their traces are stored as `store` was told."""
        self.given, self.size = given, len(steps)
        if isinstance(self.traces, GrowingRows):
            self.traces.keep(traces)
        else:
            self.traces = traces
        self._allocate(steps, side, unit, max(roomy(len(steps)), len(self.steps)))

    def _allocate(self, steps: NDArray[Any], side: NDArray[np.uint8], unit: Integers, length: int) -> None:
        """Arrays of this length that begin with the steps held; all of those have arrived in the buffers."""
        self.steps = resized(steps, length, self.size).view(np.recarray)
        self.side = resized(side, length, self.size) if self.has_buffers else side
        self.unit = resized(unit, length, self.size) if self.split.dealt else unit
        if isinstance(self.traces, np.ndarray):
            self.traces = resized(self.traces, length, self.size)
        places = 2 * len(self.side)
        self.buffers = Buffers(
            side=self.side,
            members=np.zeros(places, np.uint32),
            begin=np.array([0, len(self.side)]),
            arrived=np.zeros(2, np.int64),
            capacity=self.keeps,
            unit=self.unit,
            stamps=np.zeros(places if self.with_stamps else 0, np.int64),
        )
        self._all_arrived()

    def _all_arrived(self) -> None:
        self.buffers.arrived[:] = 0
        if self.has_buffers:
            self.buffers.arrived[:] = self._list_members(0, self.size)

    def append(self, steps: NDArray[Any]) -> int:
        """Put new steps behind those held; returns where they begin. The loop has to insert them into the buffers."""
        if self.size + len(steps) > len(self.steps):
            self.drop_the_rest(len(steps))
        begin, end = self.size, self.size + len(steps)
        self.steps[begin:end] = steps
        if self.has_buffers:
            unit = steps["episode"]
            if self.block is not None:
                unit = np.arange(self.given, self.given + len(steps)) // self.block
            self.side[begin:end] = self.split.sides(unit, (self.seed, 0))
            if len(self.unit):
                self.unit[begin:end] = unit
            self._list_members(begin, end)
        self.given += len(steps)
        self.size = end
        return begin

    def trace(self, features: Any, begin: int) -> None:
        """Make the traces of the steps from ``begin`` on, which have just been appended."""
        if self.tracer is None:
            return
        new, name = self.steps[begin : self.size], "a learner"
        if isinstance(self.traces, GrowingRows):
            self.traces.grow(len(new), 0)
            self.tracer.add_sparse(features, new, None, name, self.traces)
        elif self.traces is not None:
            self.tracer.add(features, new, None, name, self.traces[begin : self.size])

    def view(self, features: Any) -> StreamView:
        """What the rule sees of the steps held."""
        traces = self.traces.table if isinstance(self.traces, GrowingRows) else self.traces
        return StreamView(features, self.steps, traces)

    def _list_members(self, begin: int, end: int) -> tuple[int, int]:
        """Enter the steps from begin to end behind those that arrived in their buffers; returns how many in each."""
        counts = []
        for i in (0, 1):
            places = begin + np.flatnonzero(self.side[begin:end] == i)
            at = self.buffers.begin[i] + self.buffers.arrived[i]
            self.buffers.members[at : at + len(places)] = places
            counts.append(len(places))
        return counts[0], counts[1]

    def held(self) -> Integers:
        """The places of the steps that may still be drawn, or that the latest step follows."""
        if not self.has_buffers:
            return np.arange(max(0, self.size - self.keeps), self.size)
        begin, arrived, members = self.buffers.begin, self.buffers.arrived, self.buffers.members
        parts = [members[max(b, b + a - self.keeps) : b + a] for b, a in zip(begin, arrived, strict=True)]
        return np.sort(np.concatenate(parts)).astype(np.int64)

    def drop_the_rest(self, more: int) -> None:
        """Move the steps that may still be drawn to the front, and see that there is room for some more."""
        kept, before = self.held(), self.size
        for array in (self.steps, self.side, self.unit, self.traces):
            if isinstance(array, GrowingRows):
                array.keep_only(kept)
            elif array is not None and len(array):
                move_to_front(array, kept)
        self.size = len(kept)
        self._forget(before)
        if too_tight(len(self.steps), self.size + more):
            self._allocate(self.steps, self.side, self.unit, roomy(self.size + more))
        else:
            self._all_arrived()

    def _forget(self, before: int) -> None:
        """Steps behind those held point to row 0: compiled code may look where the next ones will lead."""
        self.steps[self.size : before] = np.zeros((), STEP)

    def clear(self) -> None:
        """Forget every step: a run that diverged learns no more."""
        before, self.size = self.size, 0
        self._forget(before)
        if isinstance(self.traces, GrowingRows):
            self.traces.keep_only(np.zeros(0, np.int64))
        self._all_arrived()


class Rows:
    """The features that the steps of some windows point to, each row once where a step follows another.

    ``latest`` is the row the latest step led to: the next one begins there, if its features are the same.
    """

    def __init__(self, n_features: int, room: int, kind: Any = np.float64) -> None:
        self.table = np.zeros((room, n_features), kind)
        self.size = 0
        self.latest = -1

    def add(self, block: Floats, first: int, windows: Sequence[Window]) -> Integers:
        """Keep these rows and return their places; row ``first`` is where the earliest of the new steps begins."""
        shared = self.latest >= 0 and self.table[self.latest].tobytes() == block[first].tobytes()
        new = np.arange(len(block))
        if shared:
            new = new[new != first]
        if self.size + len(new) > len(self.table):
            self._make_room(len(new), windows)
        places = np.full(len(block), self.latest)
        places[new] = self.size + np.arange(len(new))
        self.table[self.size : self.size + len(new)] = block[new]
        self.size += len(new)
        return places

    def widen(self) -> None:
        """Store float64 from now on."""
        self.table = self.table.astype(np.float64)

    def keep(self, features: Floats) -> None:
        """Hold these rows and no others."""
        self.table = resized(features, max(len(self.table), roomy(len(features))), len(features))
        self.size, self.latest = len(features), -1

    def _make_room(self, more: int, windows: Sequence[Window]) -> None:
        """Move the rows that the windows still need to the front, and see that there is room for some more."""
        self.drop_unused(windows)
        if too_tight(len(self.table), self.size + more):
            self.table = resized(self.table, roomy(self.size + more), self.size)

    def drop_unused(self, windows: Sequence[Window]) -> None:
        """Move the rows of steps that may still be drawn to the front."""
        kept, place = places_of_used(len(self.table), windows)
        move_to_front(self.table, kept)
        self.size = len(kept)
        # The latest step is in every window, unless all runs have diverged: then nothing is kept and this is -1.
        self.latest = int(place[self.latest]) if self.latest >= 0 else -1


def places_of_used(rows: int, windows: Sequence[Window]) -> tuple[Integers, Integers]:
    """Which rows the windows still need, and the new place of each; the windows' steps point there from now on."""
    used = np.zeros(rows, bool)
    for window in windows:
        window.drop_the_rest(0)
        for end in ("row", "next_row"):
            used[window.steps[end][: window.size]] = True
    place = np.cumsum(used) - 1
    for window in windows:
        for end in ("row", "next_row"):
            window.steps[end][: window.size] = place[window.steps[end][: window.size]]
    return np.flatnonzero(used), place
