"""Bounded memory for endless streams: holds the replayable steps, and compacts them from time to time.

A run over a known stream has buffers that are windows over it (`buffers.py`). Here steps arrive one by one: a `Window`
stores the latest of each buffer and has room for new ones, and `Rows` stores their features. When one of them is full,
steps that no buffer holds are dropped and the rest moves to the front in order. Every buffer therefore always contains
the same steps in the same order as with the whole stream, and draws the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.compiled.buffers import Buffers
from gradtd.compiled.online import DIVERGED, FIRST_UNIT, GIVEN, LATEST, ROWS, SIZE, DenseBits, Own, TraceState
from gradtd.compiled.traces import Tracer, most_entries
from gradtd.core.arrays import Floats, Integers
from gradtd.core.memory_limits import refuse_beyond_memory
from gradtd.core.stream import STEP, StreamView
from gradtd.running.online.growing_rows import GrowingRows, as_bytes, move_to_front, resized, roomy, too_tight
from gradtd.running.settings import Setup

UNBOUNDED = 2**62
LEAST = 1536
"""Minimum capacity of a window in steps."""
SIDES = 1024
"""Number of future episodes that are assigned to buffers in advance."""


class Window:
    """The replayable steps of one run, in order of arrival, and its buffers over them.

    A step takes 49 bytes, 57 with split "episode-index", and 16 more without replacement. A trace takes as much memory
    as a dense row of features, or 12 bytes per entry if rows are sparse. A window without buffers also keeps ``recent``
    steps for `standing`.
    """

    def __init__(self, setup: Setup, seed: int, n_features: int, compile: bool | None = None) -> None:
        self.tracing, self.n_features, self._compile = setup.tracing, n_features, compile
        self.tracer: Tracer | None = None  # set when the storage of rows is known
        self.traces: Floats | GrowingRows | None = None
        self.split, self.seed = setup.split, seed
        self.has_buffers = setup.split.stores
        self.block: int | None = setup.hyper.get("block")
        self.with_stamps = not setup.plan.replacement
        keeps = setup.draws.keeps(setup.m1, setup.plan.fill, setup.hyper.get("capacity"))
        self.keeps, self.recent = UNBOUNDED if keeps is None else keeps, 0
        self.counts = np.zeros(4, np.int64)  # compiled code also updates them
        self.counts[DIVERGED] = -1
        self.listed = np.zeros(2, np.int64)
        self.sides = np.zeros(0, np.uint8)
        self.version = 0  # changes whenever an array is replaced by another
        self.moves = 0  # number of times that steps were moved to the front
        self._allocate(np.zeros(0, STEP), np.zeros(0, np.uint8), np.zeros(0, np.int64), LEAST)
        self._foresee(0)

    @property
    def size(self) -> int:
        """Number of stored steps."""
        return int(self.counts[SIZE])

    @size.setter
    def size(self, size: int) -> None:
        self.counts[SIZE] = size

    @property
    def given(self) -> int:
        """Number of steps so far."""
        return int(self.counts[GIVEN])

    def own(self, place: int) -> Own:
        """The arguments of compiled code for a run, except its state."""
        trace = None
        if self.tracer is not None and self.tracing is not None:
            made = self.tracer
            rows = self.traces.count if isinstance(self.traces, GrowingRows) else self.listed[:0]
            trace = TraceState(self.tracing.numbers, made.latest, made.carried, made.largest, made.episode, rows)
        return Own(self.counts, self.sides, self.listed, place, self.block or 0, trace)

    def store(self, sparse: bool) -> None:
        """Fix the storage of traces to that of rows."""
        if self.tracing is None or (self.tracer and isinstance(self.traces, GrowingRows) == sparse):
            return
        if sparse:
            self.traces = GrowingRows(self.n_features)
            self.traces.grow(len(self.steps), 0)
        else:
            refuse_beyond_memory(
                8.0 * self.n_features * len(self.steps),
                f"dense traces of {self.n_features} features",
                "use fewer features, or give sparse rows",
            )
            self.traces = np.zeros((len(self.steps), self.n_features))
        self.tracer = Tracer(self.tracing, 0 if sparse else self.n_features, self._compile)
        self.version += 1

    def restore(self, given: int, steps: NDArray[Any], side: NDArray[np.uint8], unit: Integers, traces: Any) -> None:
        """Restore these steps, as after ``given`` steps; their traces are stored as set by `store`."""
        self.counts[GIVEN], self.size, self.moves = given, len(steps), self.moves + 1
        if isinstance(self.traces, GrowingRows):
            self.traces.keep(traces)
        else:
            self.traces = traces
        self._allocate(steps, side, unit, max(roomy(len(steps)), len(self.steps)))

    def _allocate(self, steps: NDArray[Any], side: NDArray[np.uint8], unit: Integers, length: int) -> None:
        """Allocate arrays of this length that begin with the stored steps, all of which are in the buffers."""
        self.version += 1
        self.steps = resized(steps, length, self.size).view(np.recarray)
        self.side = resized(side, length, self.size) if self.has_buffers else side
        self.unit = resized(unit, length, self.size) if self.split.dealt else unit
        if isinstance(self.traces, np.ndarray):
            self.traces = resized(self.traces, length, self.size)
        elif self.traces is not None:
            self.traces.grow(length - self.traces.size, 0)
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
            for i in (0, 1):
                places = np.flatnonzero(self.side[: self.size] == i)
                begin = self.buffers.begin[i]
                self.buffers.members[begin : begin + len(places)] = places
                self.buffers.arrived[i] = len(places)
        self.listed[:] = self.buffers.arrived

    def _foresee(self, unit: int) -> None:
        """Assign buffers to the episodes from this one on."""
        if self.has_buffers:
            found = self.split.sides(np.arange(unit, unit + SIDES), (self.seed, 0))
            if len(self.sides) != SIDES:
                self.sides, self.version = np.zeros(SIDES, np.uint8), self.version + 1
            self.sides[:] = found
            self.counts[FIRST_UNIT] = unit

    def make_room(self, more: int, episode: int) -> int:
        """Reserve capacity for more steps; returns how many fit. ``episode`` is the episode of the latest step."""
        if self.size + more > len(self.steps):
            self.drop_the_rest(more)
        free = len(self.steps) - self.size
        if not self.has_buffers:
            return free
        unit = max(episode if self.block is None else self.given // self.block, 0)
        if unit + more >= self.counts[FIRST_UNIT] + SIDES:
            self._foresee(unit)
        return min(free, int(self.counts[FIRST_UNIT]) + SIDES - 1 - unit)

    def lengthen_traces(self, features: Any, row: int) -> None:
        """Reserve space for the sparse trace of the next step, which begins in this row."""
        if isinstance(self.traces, GrowingRows):
            before = self.traces.whole.data
            self.traces.lengthen(int(most_entries(features, row, self.traces.whole, self.size)))
            self.version += self.traces.whole.data is not before

    def view(self, features: Any) -> StreamView:
        """The rule's view of the stored steps."""
        traces = self.traces.whole if isinstance(self.traces, GrowingRows) else self.traces
        return StreamView(features, self.steps, traces)

    def held(self) -> Integers:
        """The positions of replayable steps, and of the step before the latest one."""
        if not self.has_buffers:
            return np.arange(max(0, self.size - self.keeps), self.size)
        begin, arrived, members = self.buffers.begin, self.buffers.arrived, self.buffers.members
        held = np.zeros(self.size, bool)
        for b, a in zip(begin, arrived, strict=True):
            held[members[max(b, b + a - self.keeps) : b + a]] = True
        return np.flatnonzero(held)

    def drop_the_rest(self, more: int) -> None:
        """Move replayable steps to the front, and reserve capacity."""
        before = self.size
        if self._holds_all():
            if too_tight(len(self.steps), before + more):
                self._allocate(self.steps, self.side, self.unit, roomy(before + more))
            return
        kept = self.held() if self.has_buffers else np.arange(max(0, before - max(self.keeps, self.recent)), before)
        for array in (self.steps, self.side, self.unit, self.traces):
            if isinstance(array, GrowingRows):
                array.keep_only(kept)
            elif array is not None and len(array):
                move_to_front(array, kept)
        self.size, self.moves = len(kept), self.moves + 1
        self._forget(before)
        if too_tight(len(self.steps), self.size + more):
            self._allocate(self.steps, self.side, self.unit, roomy(self.size + more))
        else:
            self._all_arrived()

    def _holds_all(self) -> bool:
        """Whether every stored step is replayable."""
        if self.has_buffers:
            return int(self.buffers.arrived.sum()) == self.size and int(self.buffers.arrived.max()) <= self.keeps
        return self.size <= max(self.keeps, self.recent)

    def _forget(self, before: int) -> None:
        """Let unused steps point to row 0, because compiled code may prefetch the rows of the next steps."""
        as_bytes(self.steps)[self.size : before] = as_bytes(np.zeros(1, STEP))

    def clear(self) -> None:
        """Drop all steps of a diverged run."""
        before, self.size = self.size, 0
        self._forget(before)
        if isinstance(self.traces, GrowingRows):
            self.traces.keep_only(np.zeros(0, np.int64))
        self._all_arrived()


class Rows:
    """The feature rows of windows of steps. Consecutive steps share a row.

    ``counts`` holds the number of rows and the row that the latest step led to. The next step begins there if its
    features are the same. Compiled code also updates ``counts``.
    """

    def __init__(self, n_features: int, room: int, kind: Any, counts: Integers) -> None:
        self.counts = counts
        self._resize(np.zeros((room, n_features), kind))
        self.staged = np.zeros((2, n_features), kind)

    def _resize(self, table: NDArray[Any]) -> None:
        self.table = table
        self.version = getattr(self, "version", 0) + 1

    @property
    def size(self) -> int:
        return int(self.counts[ROWS])

    @property
    def held(self) -> NDArray[Any]:
        """The rows in the form of compiled code."""
        return self.table

    @property
    def stage(self) -> DenseBits:
        """The buffers in which compiled code reads and writes the two rows of a step."""
        bits, mask = (np.uint32, 0x7F800000) if self.table.dtype == np.float32 else (np.uint64, 0x7FF0000000000000)
        return DenseBits(self.table.view(bits), self.staged.view(bits), np.array([mask], bits))

    def room(self) -> int:
        """Number of additional steps that fit."""
        return (len(self.table) - self.size) // 2

    def add(self, block: Floats, first: int, windows: Sequence[Window]) -> Integers:
        """Store the given rows and return their positions. Row ``first`` starts the earliest new step."""
        latest = int(self.counts[LATEST])
        new = np.arange(len(block))
        if latest >= 0 and self.table[latest].tobytes() == block[first].tobytes():
            new = new[new != first]
        if self.size + len(new) > len(self.table):
            self.make_room(len(new), windows)
        places = np.full(len(block), self.counts[LATEST])
        places[new] = self.size + np.arange(len(new))
        self.table[self.size : self.size + len(new)] = block[new]
        self.counts[ROWS] += len(new)
        return places

    def widen(self) -> None:
        """Store float64 from now on."""
        self.staged = self.staged.astype(np.float64)
        self._resize(self.table.astype(np.float64))

    def keep(self, features: Floats) -> None:
        """Replace all rows by the given ones."""
        self._resize(resized(features, max(len(self.table), roomy(len(features))), len(features)))
        self.counts[ROWS], self.counts[LATEST] = len(features), -1

    def make_room(self, more: int, windows: Sequence[Window]) -> None:
        """Move the rows that windows still need to the front, and reserve capacity."""
        self.drop_unused(windows)
        if too_tight(len(self.table), self.size + more):
            self._resize(resized(self.table, roomy(self.size + more), self.size))

    def drop_unused(self, windows: Sequence[Window]) -> None:
        """Move the rows of replayable steps to the front."""
        kept, place = places_of_used(len(self.table), windows)
        move_to_front(self.table, kept)
        # The latest step is in every window unless all runs have diverged; then this is -1.
        self.counts[LATEST] = place[self.counts[LATEST]] if self.counts[LATEST] >= 0 else -1
        self.counts[ROWS] = len(kept)


def places_of_used(rows: int, windows: Sequence[Window]) -> tuple[Integers, Integers]:
    """The rows that windows still need and their new positions. The steps of the windows are updated."""
    used = np.zeros(rows, bool)
    for window in windows:
        window.drop_the_rest(0)
    whole = [window for window in windows if 0 < window.size == window.given]  # it has all rows of the others
    for window in whole[:1] or windows:
        for end in ("row", "next_row"):
            used[window.steps[end][: window.size]] = True
    place = np.cumsum(used) - 1
    kept = np.flatnonzero(used)
    if len(kept) and kept[-1] + 1 == len(kept):
        return kept, place  # no row has to move
    for window in windows:
        for end in ("row", "next_row"):
            window.steps[end][: window.size] = place[window.steps[end][: window.size]]
    return kept, place
