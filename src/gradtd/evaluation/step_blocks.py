"""Steps of a log over rows of a stored table, in blocks of whole episodes by tenths: in memory, or in a file.

For discrete observations a step is stored in 32 bytes. Fits of many states with traces would need matrices with too
many entries. They read the steps about a hundred times instead, at a few nanoseconds per step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.files import writing
from gradtd.evaluation.designs.base import Rows, Steps, Traced
from gradtd.evaluation.moments import TENTHS, group_edges, tenth_of

IN_MEMORY = 2**21
"""Number of steps held in memory before a file is used."""
BLOCK = 2**17
"""Approximate number of steps per block."""
ELSEWHERE = " Set TMPDIR to a folder with enough space for the log."
"""The advice in the message if the temporary folder is full."""


class Group(NamedTuple):
    """The steps of a subset of the pieces, with the tenth and the group of each piece. None means one group per
    piece."""

    steps: Steps
    tenth: Integers
    group: Integers | None


class StepBlocks(Protocol):
    """Steps that can be read many times."""

    tenths: int

    def chunks(self) -> Iterator[Group]:
        """All steps, in as few blocks as possible."""

    def of_tenths(self, tenths: Sequence[int] | None = None) -> Iterator[tuple[int, Steps]]:
        """Yield the steps of the given tenths, or of all, with the number of the tenth."""

    def first(self, n_steps: int) -> Steps:
        """The first whole pieces with about ``n_steps`` steps, in memory."""


class MemoryBlocks:
    """The steps of a log in memory: one chunk, whose tenths are contiguous pieces."""

    def __init__(self, steps: Steps, group: Integers | None = None) -> None:
        self.steps, self.group = steps, group
        self.tenths = len(group_edges(steps.n_pieces)) - 1

    def chunks(self) -> Iterator[Group]:
        yield Group(self.steps, tenth_of(self.steps.n_pieces), self.group)

    def first(self, n_steps: int) -> Steps:
        return first_pieces(self.steps, n_steps)

    @cached_property
    def _cut(self) -> list[Steps]:
        edges = group_edges(self.steps.n_pieces)
        return [self.steps.cut(int(edges[g]), int(edges[g + 1])) for g in range(self.tenths)]

    def of_tenths(self, tenths: Sequence[int] | None = None) -> Iterator[tuple[int, Steps]]:
        for g in range(self.tenths) if tenths is None else tenths:
            yield g, self._cut[g]


class Block(NamedTuple):
    """Steps of whole episodes in stored form: where each episode begins (the last entry is the end), its first row and
    its group.
    """

    row: Integers
    next_row: Integers
    reward: Floats
    discount: Floats
    rho: Floats
    decay: Floats
    action: Integers
    begins: Integers
    starts: Integers
    group: Integers

    @property
    def n_steps(self) -> int:
        return len(self.row)


KINDS = (np.int32, np.int32, *(np.float64,) * 4, np.int32, np.int64, np.int32, np.int32)
"""The type with which every array of a block is stored in the file."""


class _Place(NamedTuple):
    offset: int
    lengths: tuple[int, ...]


class StepFile:
    """Blocks of steps by tenths of the groups, so that the jackknife can skip a tenth.

    The file is written once there are more than `IN_MEMORY` steps. With ``n_labels`` groups of starts, the group of an
    episode in a block is its group of episodes times ``n_labels``, plus its group of starts. ``cell`` is the state of
    every row of the table.
    """

    def __init__(
        self,
        folder: Path,
        table: Any,
        groups: int,
        lam: float = 0.0,
        in_memory: int | None = None,
        n_labels: int = 0,
        cell: Integers | None = None,
    ) -> None:
        self._path, self.table, self.lam, self.cell = folder / "steps", table, lam, cell
        self._in_memory = IN_MEMORY if in_memory is None else in_memory
        self.n_labels = n_labels or 1
        self._first = group_edges(groups)[:-1]
        self.tenths = min(TENTHS, groups)
        self._waiting: list[list[Block]] = [[] for _ in range(self.tenths)]
        self._blocks: list[list[Block | _Place]] = [[] for _ in range(self.tenths)]
        self.n_steps = 0

    def add(self, block: Block) -> None:
        """Store the steps of more episodes."""
        tenth = np.searchsorted(self._first, block.group // self.n_labels, "right") - 1
        for g in np.unique(tenth):
            self._waiting[g].append(take_pieces(block, np.flatnonzero(tenth == g)))
            if sum(one.n_steps for one in self._waiting[g]) >= BLOCK:
                self._put(g)

    def finish(self) -> None:
        """Finish writing."""
        for g, waiting in enumerate(self._waiting):
            if waiting:
                self._put(g)

    def _put(self, tenth: int) -> None:
        block, self._waiting[tenth] = join_blocks(self._waiting[tenth]), []
        self.n_steps += block.n_steps
        # Two million steps take about 80 MB, so a log of moderate size needs no file.
        if self.n_steps <= self._in_memory:
            self._blocks[tenth].append(block)
            return
        with writing(self._path.parent, ELSEWHERE), self._path.open("ab") as file:
            self._blocks[tenth].append(_Place(file.tell(), tuple(map(len, block))))
            for array, kind in zip(block, KINDS, strict=True):
                array.astype(kind).tofile(file)

    def blocks(self, tenths: Sequence[int] | None = None) -> Iterator[tuple[int, Block]]:
        """The stored blocks."""
        file = self._path.open("rb") if self._path.exists() else None
        try:
            for tenth in range(self.tenths) if tenths is None else tenths:
                for one in self._blocks[tenth]:
                    yield tenth, one if isinstance(one, Block) else _read(file, one)
        finally:
            if file is not None:
                file.close()

    def steps(self, block: Block) -> Steps:
        """A block over the rows of the table."""
        rows = Rows.stored(block.row, block.next_row, self.table, block.starts, self.cell)
        traced = Traced(self.lam, block.decay) if self.lam else None
        action = block.action if len(block.action) and block.action[0] >= 0 else None
        return Steps(rows, block.reward, block.discount, block.rho, block.begins, traced=traced, action=action)

    def chunks(self) -> Iterator[Group]:
        for tenth, block in self.blocks():
            yield Group(self.steps(block), np.full(len(block.group), tenth), block.group // self.n_labels)

    def first(self, n_steps: int) -> Steps:
        blocks: list[Block] = []
        for _, block in self.blocks():
            blocks.append(block)
            if sum(one.n_steps for one in blocks) >= n_steps:
                break
        return first_pieces(self.steps(join_blocks(blocks)), n_steps)

    def of_tenths(self, tenths: Sequence[int] | None = None) -> Iterator[tuple[int, Steps]]:
        for tenth, block in self.blocks(tenths):
            yield tenth, self.steps(block)


def first_pieces(steps: Steps, n_steps: int) -> Steps:
    """The first pieces with about ``n_steps`` steps, at least two."""
    last = max(2, int(np.searchsorted(steps.begins, n_steps, "right")) - 1)
    return steps if last >= steps.n_pieces else steps.cut(0, last)


def _read(file: IO[bytes] | None, place: _Place) -> Block:
    assert file is not None
    file.seek(place.offset)
    arrays: list[Any] = [np.fromfile(file, kind, n) for kind, n in zip(KINDS, place.lengths, strict=True)]
    return Block(*(a.astype(np.int64) if a.dtype == np.int32 else a for a in arrays))


def join_blocks(blocks: Sequence[Block]) -> Block:
    """Join blocks.

    >>> one = Block(*(np.arange(2) for _ in range(7)), np.array([0, 2]), np.array([0]), np.array([7]))
    >>> join_blocks([one, one]).begins
    array([0, 2, 4])
    """
    if len(blocks) == 1:
        return blocks[0]
    made = [np.concatenate(arrays) for arrays in zip(*blocks, strict=True)]
    first = np.cumsum([0, *(block.n_steps for block in blocks)])[:-1]
    begins = [block.begins[1:] + k for block, k in zip(blocks, first, strict=True)]
    return Block(*made)._replace(begins=np.r_[0, np.concatenate(begins)])


def block_of(steps: Steps, group: Integers) -> Block:
    """Steps in stored form."""
    decay = np.zeros(len(steps)) if steps.traced is None else steps.traced.decay
    reward, discount, rho = (np.asarray(a, np.float64) for a in (steps.reward, steps.discount, steps.rho))
    row, after, starts = (np.asarray(a, np.int64) for a in (steps.rows.row, steps.rows.next_row, steps.start_rows))
    action = np.full(len(steps), -1) if steps.action is None else steps.action.astype(np.int64)
    return Block(row, after, reward, discount, rho, decay, action, steps.begins, starts, group)


def take_pieces(block: Block, pieces: Integers) -> Block:
    if len(pieces) == len(block.group):
        return block
    lengths = np.diff(block.begins)[pieces]
    begins = np.r_[0, np.cumsum(lengths)]
    # The steps of the selected pieces in order, without a loop over pieces.
    at = np.repeat(block.begins[:-1][pieces] - begins[:-1], lengths) + np.arange(begins[-1])
    row, after, reward, discount, rho, decay, action = (array[at] for array in block[:7])
    return Block(row, after, reward, discount, rho, decay, action, begins, block.starts[pieces], block.group[pieces])
