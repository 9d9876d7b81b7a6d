"""The folder of sums: every file in it is whole, has a checksum, and says what it is of.

For every target there is a folder with what was fitted, the list of units, and for each unit its sums and its rows of
the sample. While a unit is read, each of its parts has a file of its own; files of parts stay where they hold the steps
of states, which are not added up.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core.checks import InputError
from gradtd.core.files import Arrays, read_if_whole, write_arrays
from gradtd.core.results_folder import ResultsFolder
from gradtd.evaluation.kept.units import File, Unit
from gradtd.evaluation.moments.blocks import Block
from gradtd.evaluation.moments.dense import BY_GROUP, Moments
from gradtd.evaluation.part_sums import PartSums
from gradtd.evaluation.report.step_sums import StepSums

MADE_BY, FORMAT = "gradtd evaluate --sums", 2
ENDING = ".npz"
ARRAYS = ("ratios", "by_time")
"""Arrays of `StepSums`; its other fields go to the header of a file."""


def open_store(folder: Path) -> ResultsFolder:
    """The folder of sums; made where there is none."""
    return ResultsFolder(folder, MADE_BY, FORMAT, option="folder")


class Store:
    """What is kept for one target."""

    def __init__(self, folder: Path, target: str) -> None:
        self.within = folder
        told = re.sub(r"\W+", "-", target)[:40]
        self.folder = folder / f"{told}-{hashlib.sha256(target.encode()).hexdigest()[:8]}"
        self.folder.mkdir(exist_ok=True)
        self.fitted, self.list = self.folder / f"fitted{ENDING}", self.folder / f"units{ENDING}"

    def units(self) -> tuple[list[Unit], list[str]]:
        """The units known so far, and the names of files that were read again because they had changed."""
        header, _ = read_if_whole(self.list) or ({"units": [], "changed": []}, {})
        return [Unit(tuple(File(*file) for file in unit)) for unit in header["units"]], header["changed"]

    def write_units(self, units: Iterable[Unit], changed: list[str]) -> None:
        self._write(self.list, {}, {"units": [unit.files for unit in units], "changed": changed})

    def has(self, unit: Unit) -> bool:
        """Whether a unit was read to its end once, with any lambda."""
        return any("-" not in path.name for path in self.folder.glob(f"{unit.digest}_*{ENDING}"))  # parts have one

    def look(self, unit: Unit, key: dict[str, Any], part: int | None = None) -> PartSums | None:
        """The sums of a unit or of a part of it; None where there are none, or they are damaged or of other code."""
        header, arrays = read_if_whole(self._path(unit, key, part)) or ({}, {})
        if not header or {name: header.get(name) for name in key} != key:
            return None
        return _restored(header, arrays)

    def keep(self, unit: Unit, key: dict[str, Any], sums: PartSums, part: int | None = None) -> None:
        """Keep the sums of a unit or of a part of it."""
        arrays, header = _stored(sums)
        self._write(self._path(unit, key, part), arrays, header | key)

    def forget_parts(self, unit: Unit, key: dict[str, Any]) -> None:
        for path in self.folder.glob(f"{self._stem(unit, key)}-*{ENDING}"):
            path.unlink(missing_ok=True)

    def tidy(self, units: Iterable[Unit]) -> None:
        """Remove what is of no unit that is known."""
        known = {unit.digest for unit in units}
        for path in self.folder.glob(f"*{ENDING}"):
            if path not in (self.fitted, self.list) and path.name[:32] not in known:
                path.unlink(missing_ok=True)

    def sample(self, unit: Unit) -> Arrays | None:
        """Rows of a unit that are of the sample, as bytes, with the hashes of their episodes."""
        found = read_if_whole(self._rows(unit))
        return None if found is None else found[1]

    def keep_sample(self, unit: Unit, arrays: Arrays) -> None:
        self._write(self._rows(unit), arrays, {})

    def _stem(self, unit: Unit, key: dict[str, Any]) -> str:
        return f"{unit.digest}_{round(1e6 * key['lam'])}"

    def _path(self, unit: Unit, key: dict[str, Any], part: int | None = None) -> Path:
        return self.folder / f"{self._stem(unit, key)}{'' if part is None else f'-{part:06d}'}{ENDING}"

    def _rows(self, unit: Unit) -> Path:
        return self.folder / f"{unit.digest}.rows{ENDING}"

    def _write(self, path: Path, arrays: Arrays, header: dict[str, Any]) -> None:
        try:
            write_arrays(path, arrays, header)
        except OSError as error:
            raise InputError(f"cannot keep sums in {str(self.within)!r}: {error.strerror or error}.") from None


def _stored(sums: PartSums) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and the rest; of sums by group only those of groups that have an episode."""
    arrays: Arrays = {name: getattr(sums.steps, name) for name in ARRAYS}
    header = {f.name: getattr(sums.steps, f.name) for f in fields(StepSums) if f.name not in ARRAYS}
    header["blocks"] = len(sums.blocks)
    for k, block in enumerate(sums.blocks):
        arrays |= {f"block.{k}.{name}": array for name, array in zip(Block._fields, block, strict=True)}
    if sums.moments is not None:
        groups = np.flatnonzero(sums.moments.pieces)
        header["groups"] = len(sums.moments.pieces)
        arrays["groups"] = groups
        for name, array in sums.moments.arrays().items():
            arrays[f"moments.{name}"] = array[groups] if name in BY_GROUP else array
    return arrays, header


def _restored(header: dict[str, Any], arrays: Arrays) -> PartSums:
    given: dict[str, Any] = {f.name: header[f.name] for f in fields(StepSums) if f.name not in ARRAYS}
    given |= {name: Counter(given[name]) for name in ("notes", "warnings")}
    given |= {name: arrays[name] for name in ARRAYS}
    steps = StepSums(**given)
    blocks = [Block(*(arrays[f"block.{k}.{name}"] for name in Block._fields)) for k in range(header["blocks"])]
    if "groups" not in header:
        return PartSums(steps, None, blocks)
    whole: dict[str, Any] = {}
    for entry in fields(Moments):
        array = arrays[f"moments.{entry.name}"]
        if entry.name in BY_GROUP:
            spread = np.zeros((header["groups"], *array.shape[1:]))
            spread[arrays["groups"]] = array
            array = spread
        whole[entry.name] = np.array(array, np.float64)
    return PartSums(steps, Moments(**whole), blocks)
