"""Units of a log: files whose sums are saved together. A unit never changes; later files make new units.

A unit contains whole episodes, so its sums depend only on its files.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gradtd.core.checks import InputError
from gradtd.logs.files import ParquetTable
from gradtd.logs.parts import Part, Survey

ROWS_OF_A_UNIT = 16_000_000
"""A unit is closed at this number of rows. A larger file is one unit."""
TAIL = 8
"""Bytes at the end of a Parquet file: the length of its footer, in 4 of them, and a mark."""


class File(NamedTuple):
    """A Parquet file at the time of the survey; ``footer`` is a digest of its metadata.

    A moved or renamed file counts as the same file. A different file at the same path counts as changed.
    """

    path: str
    rows: int
    size: int
    changed: int
    footer: str

    @property
    def name(self) -> str:
        return Path(self.path).name

    @property
    def identity(self) -> tuple[Any, ...]:
        """The properties that identify unchanged rows."""
        return tuple(self[1:])


def look_at(path: Path) -> File:
    """A file as it is now."""
    rows = sum(ParquetTable.group_sizes(path))
    try:
        # Size, time and footer, not the rows: a survey must not read the whole folder.
        told = path.stat()
        return File(str(path.resolve()), rows, told.st_size, told.st_mtime_ns, _footer(path))
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror or error}.") from None


def _footer(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(-TAIL, os.SEEK_END)
        length = int.from_bytes(file.read(TAIL)[:4], "little")
        file.seek(-TAIL - length, os.SEEK_END)
        return hashlib.sha256(file.read(length)).hexdigest()[:32]


def refuse_changed(path: Path, before: File) -> None:
    """Refuse a file that changed while it was read."""
    if look_at(path).identity != before.identity:
        raise InputError(f"{path.name!r} was changed while it was read: wait until it is complete, and start again.")


@dataclass(frozen=True)
class Unit:
    """Consecutive files."""

    files: tuple[File, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @cached_property
    def digest(self) -> str:
        """The name of its sums."""
        told = json.dumps([file.identity for file in self.files])
        return hashlib.sha256(told.encode()).hexdigest()[:32]


@dataclass(frozen=True, eq=False)
class Placed:
    """A unit in a survey: its episodes are those from ``first`` to ``last``."""

    unit: Unit
    first: int
    last: int

    def survey(self, seen: Survey) -> Survey:
        """The survey of its episodes."""
        part = seen.part(self.first, self.last)
        return Survey(part.stretches, part.begins, part.hashes, True, 0)

    def parts(self, seen: Survey, rows: int) -> list[Part]:
        """Cut the unit into parts of about this many rows, independently of other units."""
        begins = seen.begins[self.first : self.last + 1]
        wanted = np.arange(begins[0], begins[-1] - rows // 2, rows)
        cuts = np.unique(np.r_[0, np.searchsorted(begins, wanted), len(begins) - 1])
        return [seen.part(self.first + int(a), self.first + int(b)) for a, b in itertools.pairwise(cuts)]


def cut_files(files: Sequence[File], begins: Any, at: int) -> list[Unit]:
    """New units of files whose first row is row ``at`` of a log; ``begins`` are the first rows of its episodes."""
    made: list[Unit] = []
    waiting: list[File] = []
    for file in files:
        place = np.searchsorted(begins, at)
        # An episode may continue in the next file, and a unit ends only at the end of an episode.
        if sum(one.rows for one in waiting) >= ROWS_OF_A_UNIT and begins[place] == at:
            made.append(Unit(tuple(waiting)))
            waiting = []
        waiting.append(file)
        at += file.rows
    return [*made, Unit(tuple(waiting))] if waiting else made


def place(units: Sequence[Unit], seen: Survey) -> list[Placed]:
    """Where units are in the survey of their files."""
    edges = np.cumsum([0, *(unit.rows for unit in units)])
    at = np.searchsorted(seen.begins, edges)
    return [Placed(unit, int(a), int(b)) for unit, (a, b) in zip(units, itertools.pairwise(at), strict=True)]


def refuse_apart(seen: Survey, known: int, files: Sequence[File]) -> None:
    """Refuse episodes whose rows are not together; ``known`` rows are of units that were planned before."""
    new = int(np.searchsorted(seen.begins, known))
    again = np.flatnonzero(np.isin(seen.hashes[new:], seen.hashes[:new])) + new
    if known and (len(again) or seen.begins[new] != known):
        row = int(seen.begins[again[0]]) if len(again) else known
        name = files[int(np.searchsorted(np.cumsum([file.rows for file in files]), row, "right"))].name
        raise InputError(
            f"{name!r} repeats episode ids of files whose sums are saved, and an episode must be added as a whole: "
            "give "
            "later episodes new ids, or use a new checkpoint folder for all files."
        )
    if not seen.grouped:
        raise InputError(
            "a checkpoint needs the rows of each episode to be consecutive, and in this log rows with the same id are "
            "apart: sort it by episode and time, give the episodes of every file unique ids, or leave the checkpoint "
            "out."
        )
