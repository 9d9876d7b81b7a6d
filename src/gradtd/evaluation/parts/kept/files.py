"""Which files the sums are of: what tells a file from another one, and from what it was before."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, NamedTuple

from gradtd.core.checks import InputError
from gradtd.logs.files import ParquetTable

TAIL = 8
"""Bytes at the end of a Parquet file: the length of its footer, in 4 of them, and a mark."""


class File(NamedTuple):
    """A Parquet file as it was when it was looked at; ``footer`` is a digest of what it says of its columns and rows.

    A file that was moved or renamed is the same file. One of the same path that is not the same has changed.
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
        """What has to be the same for the rows to be taken as the same."""
        return tuple(self[1:])


def look_at(path: Path) -> File:
    """A file as it is now."""
    rows = sum(ParquetTable.group_sizes(path))
    try:
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
    """Refuse a file that somebody wrote to while it was read."""
    if look_at(path).identity != before.identity:
        raise InputError(f"{path.name!r} was changed while it was read: wait until it is written, and start again.")
