"""A folder for the results of long work: ours, for one process at a time, with whole files only.

Every file is written as `gradtd.core.files` does it, so a kill at any time leaves whole files.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core.checks import InputError
from gradtd.core.files import is_part, open_own, read_file, remove_part, replace_file, write_text, writing

MANIFEST, LOCK = "manifest.json", ".lock"
STORED: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}
"""How a table of ours is stored: with a checksum per page, which readers can verify."""


class ResultsFolder:
    """A results folder that one command writes to.

    It is made where there is none. One that is not empty must have been written by this command, in this format.
    ``option`` names the option that takes another folder.
    """

    def __init__(self, folder: Path, made_by: str, format: int, option: str = "--out") -> None:
        self.folder, self.made_by, self.format, self.option = folder, made_by, format, option
        with self.keeping():
            folder.mkdir(parents=True, exist_ok=True)
            self._check_ours()
            self.write_text(MANIFEST, json.dumps({"made_by": made_by, "format": format}))

    def _check_ours(self) -> None:
        manifest, name = self.folder / MANIFEST, repr(str(self.folder))
        if not manifest.exists():
            if any(not _half_made(path.name) for path in self.folder.iterdir()):
                raise InputError(
                    f"{name} is not empty and was not written by {self.made_by}: give another {self.option}."
                )
            return
        try:
            found = dict(json.loads(read_file(manifest)))
        except (ValueError, TypeError, RecursionError):
            raise InputError(
                f"{str(manifest)!r} is damaged, so {name} may not be ours: give another {self.option}, "
                "nothing was changed."
            ) from None
        if (maker := found.get("made_by", self.made_by)) != self.made_by:
            raise InputError(f"{name} was written by {maker}: give another {self.option}, nothing was changed.")
        if found.get("format") != self.format:
            raise InputError(
                f"{name} was written in format {found.get('format')!r}, this version writes {self.format}: "
                f"give another {self.option}, nothing was changed."
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other process out; refused where one is in already. A kill opens the folder again."""
        with ExitStack() as stack:
            with self.keeping():
                self._lock(stack.enter_context(open_own(self.folder / LOCK, "ab+")))
                self._sweep_up()
            yield

    def _lock(self, file: Any) -> None:
        if not _lock(file):
            file.seek(0)
            who = file.read().decode(errors="replace").strip() or "another process"
            raise InputError(
                f"{who} is writing to {str(self.folder)!r}: wait until it has ended, or give another {self.option}."
            )
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())

    def keeping(self) -> AbstractContextManager[None]:
        """Say in a sentence that something could not be written to the folder."""
        again = f" What is finished is kept: make room, or give another {self.option}, and start it again."
        return writing(self.folder, again, "results ")

    def _sweep_up(self) -> None:
        """Remove what a killed process was writing. No other process writes here now."""
        for path in self.folder.rglob(".*.part"):
            if is_part(path.name):
                remove_part(path)

    def write_text(self, name: str, text: str) -> Path:
        return write_text(self.path(name), text)

    def write_table(self, name: str, columns: Mapping[str, Any]) -> Path:
        """A tidy table as Parquet; the same numbers give the same bytes."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.table({label: _column(pa, values) for label, values in columns.items()})
        return replace_file(self.path(name), lambda file: pq.write_table(table, file, **STORED))

    def path(self, name: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def _half_made(name: str) -> bool:
    """Whether a process that was killed right after it made the folder left a file of this name."""
    return name == LOCK or (name.startswith(f".{MANIFEST}.") and is_part(name))


def in_use(folder: Path) -> bool:
    """Whether a process is writing to a folder now."""
    if not (folder / LOCK).exists():
        return False
    with open_own(folder / LOCK, "rb") as file:  # the folder may be read-only
        return not _lock(file)


def _lock(file: Any) -> bool:
    """Lock an open file until it is closed. Where the system has no such locks everybody gets in."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _column(pa: Any, values: Any) -> Any:
    """Numbers, words with the code of each entry (stored as a dictionary), or a column that is one already."""
    if isinstance(values, np.ndarray):
        return pa.array(values)
    if isinstance(values, tuple):
        words, codes = values
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(list(words)))
    return values
