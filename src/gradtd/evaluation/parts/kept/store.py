"""The folder of sums: every file in it is whole, has a checksum, and says what it is of.

For every target there is a folder with what was fitted, the plan of units, and for each unit its sums and its rows of
the sample. While a unit is read, each of its parts has a file of its own.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core.checks import InputError
from gradtd.core.files import Arrays, read_if_whole, write_arrays
from gradtd.core.results_folder import ResultsFolder
from gradtd.evaluation.parts.job import Job
from gradtd.evaluation.parts.kept.files import File
from gradtd.evaluation.parts.kept.plan import Unit
from gradtd.evaluation.parts.sums import Sums, nothing

MADE_BY, FORMAT = "gradtd evaluate --sums", 1
BY_GROUP = ("products", "starts", "pieces")
"""Sums by group of episodes. Only those of groups that have an episode are written."""
ENDING = ".npz"


def open_folder(folder: Path) -> ResultsFolder:
    """The folder of sums; made where there is none."""
    return ResultsFolder(folder, MADE_BY, FORMAT, option="folder")


class Store:
    """What is kept for one target."""

    def __init__(self, folder: Path, target: str) -> None:
        self.within = folder
        told = re.sub(r"\W+", "-", target)[:40]
        self.folder = folder / f"{told}-{hashlib.sha256(target.encode()).hexdigest()[:8]}"
        self.folder.mkdir(exist_ok=True)
        self.fitted, self.plan = self.folder / f"fitted{ENDING}", self.folder / f"plan{ENDING}"

    def units(self) -> tuple[list[Unit], list[str]]:
        """The units planned so far, and the names of files that were read again because they had changed."""
        header, _ = read_if_whole(self.plan) or ({"units": [], "changed": []}, {})
        return [Unit(tuple(File(*file) for file in unit)) for unit in header["units"]], header["changed"]

    def write_units(self, units: Iterable[Unit], changed: list[str]) -> None:
        self._write(self.plan, {}, {"units": [unit.files for unit in units], "changed": changed})

    def has(self, unit: Unit) -> bool:
        """Whether a unit was read to its end once."""
        return self._path(unit).exists()

    def look(self, unit: Unit, key: dict[str, str], job: Job, part: int | None = None) -> Sums | None:
        """The sums of a unit or of a part of it; None where there are none, or they are damaged or of other code."""
        path = self._path(unit, part)
        header, arrays = read_if_whole(path) or ({}, {})
        if not header or {name: header.get(name) for name in key} != key:
            return None
        return _restored(job, header, arrays)

    def keep(self, unit: Unit, key: dict[str, str], sums: Sums, part: int | None = None) -> None:
        """Keep the sums of a unit or of a part of it."""
        arrays, header = _stored(sums)
        self._write(self._path(unit, part), arrays, header | key)

    def forget_parts(self, unit: Unit) -> None:
        for path in self.folder.glob(f"{unit.digest}-*{ENDING}"):
            path.unlink(missing_ok=True)

    def tidy(self, units: Iterable[Unit]) -> None:
        """Remove what is of no unit of the plan, and what a kill left of parts: all units are whole now."""
        known = {self.fitted, self.plan} | {path for unit in units for path in (self._path(unit), self._rows(unit))}
        for path in self.folder.glob(f"*{ENDING}"):
            if path not in known:
                path.unlink(missing_ok=True)

    def sample(self, unit: Unit) -> Arrays | None:
        """Rows of a unit that are of the sample, as bytes, with the hashes of their episodes."""
        found = read_if_whole(self._rows(unit))
        return None if found is None else found[1]

    def keep_sample(self, unit: Unit, arrays: Arrays) -> None:
        self._write(self._rows(unit), arrays, {})

    def _path(self, unit: Unit, part: int | None = None) -> Path:
        return self.folder / f"{unit.digest}{'' if part is None else f'-{part:06d}'}{ENDING}"

    def _rows(self, unit: Unit) -> Path:
        return self.folder / f"{unit.digest}.rows{ENDING}"

    def _write(self, path: Path, arrays: Arrays, header: dict[str, Any]) -> None:
        try:
            write_arrays(path, arrays, header)
        except OSError as error:
            raise InputError(f"cannot keep sums in {str(self.within)!r}: {error.strerror or error}.") from None


def _stored(sums: Sums) -> tuple[Arrays, dict[str, Any]]:
    groups = np.flatnonzero(sums["pieces"])
    arrays: Arrays = {name: array[groups] if name in BY_GROUP else array for name, array in sums.arrays.items()}
    header = {"largest": sums.largest, "unseen": sums.unseen, "notes": dict(sums.notes)}
    return arrays | {"groups": groups, "by_time": sums.by_time}, header


def _restored(job: Job, header: dict[str, Any], arrays: Arrays) -> Sums:
    sums = nothing(job)
    for name, array in sums.arrays.items():
        array[arrays["groups"] if name in BY_GROUP else ...] = arrays[name]
    sums.by_time, sums.largest = arrays["by_time"], header["largest"]
    sums.unseen, sums.notes = header["unseen"], Counter(header["notes"])
    return sums
