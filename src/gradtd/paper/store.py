"""What a reproduction leaves on disk: a manifest, the results of finished jobs, and what is for people.

Every file is written as `gradtd.core.files` does it, so a kill at any time leaves whole files only. The results of a
job are kept under a digest of its key, which holds all that they depend on. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gradtd.core.checks import InputError
from gradtd.core.files import Arrays, read_arrays, reading, replace_file, write_arrays
from gradtd.problems.base import Problem

FORMAT = 1


class Kept(NamedTuple):
    """The results of a job: its arrays, and what else it has to tell, as JSON can hold it."""

    arrays: Arrays
    told: Mapping[str, Any] = {}


class Store:
    """A results folder of ours: ``kept`` for finished jobs, the rest for people."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept = folder / ".kept"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._check_ours()
            self.kept.mkdir(exist_ok=True)
            self.write_text("manifest.json", json.dumps({"made_by": "gradtd reproduce", "format": FORMAT}))
        except OSError as error:
            raise InputError(f"cannot write results to {str(folder)!r}: {error.strerror}.") from None

    def _check_ours(self) -> None:
        manifest = self.folder / "manifest.json"
        if not manifest.exists():
            if any(self.folder.iterdir()):
                raise InputError(
                    f"{str(self.folder)!r} is not empty and was not written by gradtd reproduce: give another --out."
                )
            return
        try:
            found = json.loads(manifest.read_text()).get("format")
        except (ValueError, AttributeError):
            found = None
        if found != FORMAT:
            raise InputError(
                f"{str(self.folder)!r} was written in format {found!r}, this version writes {FORMAT}: "
                "give another --out, nothing was changed."
            )

    def fetch(self, key: Mapping[str, Any], compute: Callable[[], Kept]) -> Kept:
        """The results kept under a key; computed and kept where there are none."""
        path = self.file_of(key)
        try:
            with reading(path, "a kept result"):
                told, arrays = read_arrays(path)
                return Kept(arrays, told)
        except InputError:
            made = compute()  # not there, or not whole
        write_arrays(path, made.arrays, made.told)
        return made

    def file_of(self, key: Mapping[str, Any]) -> Path:
        """Where the results with this key are kept."""
        return self.kept / f"{hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]}.npz"

    def write_text(self, name: str, text: str) -> Path:
        return self._replace(self.folder / name, lambda part: part.write_text(text))

    def write_table(self, name: str, columns: Mapping[str, Any]) -> Path:
        """A tidy table as Parquet; the same numbers give the same bytes."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.table({label: _column(pa, values) for label, values in columns.items()})
        return self._replace(self.folder / name, lambda part: pq.write_table(table, part, compression="zstd"))

    def path(self, name: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _replace(self, path: Path, write: Callable[[Path], Any]) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        return replace_file(path, write)


def _column(pa: Any, values: Any) -> Any:
    if isinstance(values, np.ndarray):
        return pa.array(values)
    words, codes = values
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(list(words)))


def problem_digest(problem: Problem) -> str:
    """A digest of a problem's arrays."""
    digest = hashlib.sha256(f"{problem.name}|{problem.gamma}|{problem.block}".encode())
    mdp = problem.mdp
    arrays = (mdp.transition, mdp.reward, mdp.terminal, mdp.start)
    for array in (*arrays, problem.behaviour, problem.target, problem.features, problem.theta0):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]
