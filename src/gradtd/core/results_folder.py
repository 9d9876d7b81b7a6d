"""A folder for the results of long work, used by one process at a time, with complete files only.

Every file is written as in `gradtd.core.files`, so a kill at any time leaves complete files.
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
from gradtd.core.files import (
    is_part,
    open_own,
    read_file,
    remove_part,
    remove_strays,
    replace_file,
    write_text,
    writing,
)

MANIFEST, LOCK = "manifest.json", ".lock"
STORED: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}
"""Parquet settings of the tables: a checksum per page, which readers can verify."""


class ResultsFolder:
    """A results folder that one command writes to.

    It is created if it does not exist. A non-empty folder must have been written by this command, in this format.
    ``option`` is the option that sets the folder.
    """

    def __init__(self, folder: Path, made_by: str, format: int, option: str = "--out") -> None:
        self.folder, self.made_by, self.format, self.option = folder, made_by, format, option
        with self.keeping():
            folder.mkdir(parents=True, exist_ok=True)
            if not self._is_ours():
                self.write_text(MANIFEST, json.dumps({"made_by": made_by, "format": format}))

    def _is_ours(self) -> bool:
        """Whether this command created the folder earlier. False if the folder is new; other folders are refused."""
        manifest, name = self.folder / MANIFEST, repr(str(self.folder))
        others = any(not _half_made(path.name) for path in self.folder.iterdir())
        if not manifest.exists():  # looked at last: another process that starts now writes it first
            if others:
                raise InputError(
                    f"{name} is not empty and was not written by {self.made_by}: give another {self.option}."
                )
            return False
        try:
            found = dict(json.loads(read_file(manifest)))
        except (ValueError, TypeError, RecursionError):
            raise InputError(
                f"{str(manifest)!r} is damaged, so {name} may not be from gradtd: give another {self.option}, "
                "nothing was changed."
            ) from None
        if (maker := found.get("made_by", self.made_by)) != self.made_by:
            raise InputError(f"{name} was written by {maker}: give another {self.option}, nothing was changed.")
        if found.get("format") != self.format:
            raise InputError(
                f"{name} was written in format {found.get('format')!r}, this version writes {self.format}: "
                f"give another {self.option}, nothing was changed."
            )
        return True

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Exclude all other processes; raises an error if one is using the folder. If the process is killed, the system
        releases the folder."""
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
        """Explain in one sentence that something could not be written to the folder."""
        again = f" Finished work is saved: free some space, or give another {self.option}, and start again."
        return writing(self.folder, again, "results ")

    def _sweep_up(self) -> None:
        """Remove the partial files of killed processes. Others write only the manifest now, before they ask for the
        lock."""
        remove_strays(self.folder, MANIFEST)
        for path in self.folder.rglob(".*.part"):
            if is_part(path.name) and not _half_made(path.name):
                remove_part(path)

    def write_text(self, name: str, text: str) -> Path:
        return write_text(self.path(name), text)

    def write_table(self, name: str, columns: Mapping[str, Any]) -> Path:
        """A tidy table as Parquet. The same numbers give the same bytes."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.table({label: _column(pa, values) for label, values in columns.items()})
        return replace_file(self.path(name), lambda file: pq.write_table(table, file, **STORED))

    def path(self, name: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def _half_made(name: str) -> bool:
    """Whether a file with this name can remain from a process that was killed right after it created the folder."""
    return name == LOCK or (name.startswith(f".{MANIFEST}.") and is_part(name))


def in_use(folder: Path) -> bool:
    """Whether a process is writing to a folder now."""
    if not (folder / LOCK).exists():
        return False
    with open_own(folder / LOCK, "rb") as file:  # the folder may be read-only
        return not _lock(file)


def _lock(file: Any) -> bool:
    """Lock an open file until it is closed. Systems without such locks let every process in."""
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
    """An Arrow column: from numbers, from (words, codes) as a dictionary column, or from an existing column."""
    if isinstance(values, np.ndarray):
        return pa.array(values)
    if isinstance(values, tuple):
        words, codes = values
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(list(words)))
    return values
