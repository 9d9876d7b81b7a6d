"""Steps of a log as numbers of rows of a table, in blocks of whole episodes: some in memory, the rest in a file.

Fits with traces of many states multiply by matrices that would have too many entries. They read the steps instead,
some hundred times. Here a step takes 32 bytes, and reading it again takes some nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.files import writing
from gradtd.evaluation.trust.records import Record

KEPT = 2**21
"""Steps that stay in memory."""
ELSEWHERE = " TMPDIR says where temporary folders are: give it one with room for the log."
"""What to do where a temporary folder is full."""
STEPS = 2**17
"""Steps of a block, about."""


class Block(NamedTuple):
    """Steps of whole episodes; where each begins (the last is the end), the row that it starts in, and its group."""

    row: Integers
    next_row: Integers
    reward: Floats
    discount: Floats
    rho: Floats
    begins: Integers
    starts: Integers
    group: Integers

    @property
    def steps(self) -> int:
        return len(self.row)

    @property
    def record(self) -> Record:
        """The same for the checks."""
        return Record(self.row, self.next_row, self.reward, self.discount, self.rho, self.begins, False, self.starts)


IN_FILE = (np.int32, np.int32, np.float64, np.float64, np.float64, np.int64, np.int32, np.int32)
"""What every array of a block is in the file."""


class _Place(NamedTuple):
    offset: int
    steps: int
    episodes: int


class StepFile:
    """Blocks of steps by tenths of the episodes: what the jackknife leaves out can be passed over."""

    def __init__(self, folder: Path, tenths: int) -> None:
        self._path = folder / "steps"
        self._waiting: list[list[Block]] = [[] for _ in range(tenths)]
        self._blocks: list[list[Block | _Place]] = [[] for _ in range(tenths)]
        self.steps = 0

    @property
    def tenths(self) -> int:
        return len(self._blocks)

    def add(self, tenth: int, block: Block) -> None:
        """Keep the steps of some episodes."""
        self._waiting[tenth].append(block)
        if sum(block.steps for block in self._waiting[tenth]) >= STEPS:
            self._put(tenth)

    def finish(self) -> None:
        """Nothing is added any more."""
        for tenth, waiting in enumerate(self._waiting):
            if waiting:
                self._put(tenth)

    def _put(self, tenth: int) -> None:
        block, self._waiting[tenth] = joined(self._waiting[tenth]), []
        self.steps += block.steps
        if self.steps <= KEPT:
            self._blocks[tenth].append(block)
            return
        with writing(self._path.parent, ELSEWHERE), self._path.open("ab") as file:
            self._blocks[tenth].append(_Place(file.tell(), block.steps, len(block.group)))
            for array, kind in zip(block, IN_FILE, strict=True):
                array.astype(kind).tofile(file)

    def blocks(self, tenths: Sequence[int] | None = None) -> Iterator[tuple[int, Block]]:
        """All blocks with their tenths, or those of some tenths."""
        file = self._path.open("rb") if self._path.exists() else None
        try:
            for tenth in range(self.tenths) if tenths is None else tenths:
                for one in self._blocks[tenth]:
                    yield tenth, one if isinstance(one, Block) else _read(file, one)
        finally:
            if file is not None:
                file.close()


def _read(file: IO[bytes] | None, place: _Place) -> Block:
    assert file is not None
    file.seek(place.offset)
    n, e = place.steps, place.episodes
    sizes = (n, n, n, n, n, e + 1, e, e)
    found: list[Any] = [np.fromfile(file, kind, size) for kind, size in zip(IN_FILE, sizes, strict=True)]
    return Block(*(a.astype(np.int64) if a.dtype == np.int32 else a for a in found))


def joined(blocks: Sequence[Block]) -> Block:
    """Blocks as one.

    >>> one = Block(*(np.arange(2) for _ in range(5)), np.array([0, 2]), np.array([0]), np.array([7]))
    >>> joined([one, one]).begins
    array([0, 2, 4])
    """
    if len(blocks) == 1:
        return blocks[0]
    made = [np.concatenate(arrays) for arrays in zip(*blocks, strict=True)]
    first = np.cumsum([0, *(block.steps for block in blocks)])[:-1]
    made[5] = np.r_[0, np.concatenate([b.begins[1:] + k for b, k in zip(blocks, first, strict=True)])]
    return Block(*made)


def taken(record: Record, group: Integers, pieces: Integers) -> Block:
    """Some of the pieces of a record, all of whose pieces are of these groups."""
    lengths = np.diff(record.begins)[pieces]
    begins = np.r_[0, np.cumsum(lengths)]
    steps = np.repeat(record.begins[:-1][pieces] - begins[:-1], lengths) + np.arange(begins[-1])
    whole = (np.asarray(a)[steps] for a in (record.row, record.next_row, record.reward, record.discount, record.rho))
    row, next_row, reward, discount, rho = whole
    return Block(row, next_row, reward, discount, rho, begins, record.start_rows[pieces], group[pieces])
