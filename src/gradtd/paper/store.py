"""What a reproduction leaves on disk: a manifest, the results of finished jobs, and what is for people.

The results of a job are kept under a digest of its key, which holds all that they depend on. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gradtd.core.checks import InputError
from gradtd.core.files import Arrays, read_arrays, reading, write_arrays
from gradtd.core.results_folder import ResultsFolder

FORMAT = 1


class Kept(NamedTuple):
    """The results of a job: its arrays, and what else it has to tell, as JSON can hold it."""

    arrays: Arrays
    told: Mapping[str, Any] = {}


class Store(ResultsFolder):
    """A results folder of ours: ``kept`` for finished jobs, the rest for people."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "gradtd reproduce", FORMAT)
        self.kept = self.path(".kept")
        self.kept.mkdir(exist_ok=True)

    def fetch(self, key: Mapping[str, Any], compute: Callable[[], Kept]) -> Kept:
        """The results kept under a key; computed and kept where there are none."""
        found = self.look(key)
        return found if found is not None else self.keep(key, compute())

    def look(self, key: Mapping[str, Any]) -> Kept | None:
        """The results kept under a key; None where there are none, or none that are whole."""
        path = self.file_of(key)
        try:
            with reading(path, "a kept result"):
                told, arrays = read_arrays(path)
                return Kept(arrays, told)
        except InputError:
            return None

    def keep(self, key: Mapping[str, Any], made: Kept) -> Kept:
        """Keep results under a key."""
        write_arrays(self.file_of(key), made.arrays, made.told)
        return made

    def file_of(self, key: Mapping[str, Any]) -> Path:
        """Where the results with this key are kept."""
        return self.kept / f"{hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]}.npz"
