"""The files in a folder of sums: the fitted features and checks, and the sums of every unit.

Sums can be reused only if settings, features, checks, time columns, lambda and groups are the same. All of these are
stored in one file. Files are written atomically, with a checksum and a description. Each target has a folder with the
fitted data, the list of units, and for each unit its sums and its rows of the sample. While a unit is read, each of its
parts has a file; part files with the steps of states stay, since steps are not added.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import gradtd
from gradtd.compiled import engine
from gradtd.core.arrays import entries_under, plain
from gradtd.core.checks import InputError
from gradtd.core.files import Arrays, checksum, header_if_whole, read_arrays, read_if_whole, reading, write_arrays
from gradtd.core.results_folder import ResultsFolder
from gradtd.evaluation.chunks import ChunkReader
from gradtd.evaluation.designs.base import Ladder
from gradtd.evaluation.designs.log_features import is_auto
from gradtd.evaluation.designs.real import RealDesign, Waves
from gradtd.evaluation.designs.states import StateDesign
from gradtd.evaluation.kept_units import Unit, check_fitted, check_sums, read_units
from gradtd.evaluation.moments import BY_GROUP, Moments
from gradtd.evaluation.part_sums import Job, PartSums
from gradtd.evaluation.report.step_sums import StepSums
from gradtd.evaluation.settings import Settings
from gradtd.evaluation.step_blocks import Block
from gradtd.features import Features, from_dict, make_features
from gradtd.logs.column_names import Roles
from gradtd.running.fingerprints import not_in_fingerprint

log = logging.getLogger(__name__)
Question = dict[str, Any]
Kept = TypeVar("Kept")
ROOMS = ("core", "compiled", "features", "logs", "evaluation")
"""The source files that turn rows into sums."""


@lru_cache
def code_of_sums() -> str:
    """A digest of the source that turns rows into sums. Sums from a different version are computed again, and never
    added."""
    digest = hashlib.sha256(np.__version__.encode())
    for room in ROOMS:
        for file in sorted((Path(gradtd.__file__).parent / room).rglob("*.py")):
            digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:32]


def question_of(reader: ChunkReader, settings: Settings, roles: Roles, kinds: Mapping[str, str]) -> Question:
    """All settings that affect the sums. Settings of the output are not part of it."""
    tracing = settings.tracing
    told = {
        "gamma": settings.gamma,
        "target": _policy_told("the target", reader.target),
        "behaviour": _policy_told("behaviour", reader.behaviour),
        "clip": reader.clip,
        "features": _features_told(settings.features),
        "lam": None if tracing is None else [tracing.lam, tracing.kind],
        "log_probabilities": reader.reader.log_probabilities,
        "duplicates": reader.reader.duplicates,
        "columns": {"one": roles.single, "several": roles.several},
        "types": {name: kinds[name] for name in sorted(reader.needed)},
    }
    return dict(plain(told))


def _policy_told(what: str, given: Any) -> Any:
    """A policy as names of columns, a word, or a digest of a function's code."""
    if not callable(given):
        return given if given is None or isinstance(given, str) else list(given)
    if hidden := not_in_fingerprint(given):
        raise InputError(
            f"{what} reads {hidden[0]}. gradtd could not detect a later change of it, so it cannot keep sums: "
            "give a function that reads only numbers, words and arrays, or write its probabilities to a column."
        )
    return {"function": engine.fingerprint(given)}


def _features_told(given: Any) -> Any:
    if is_auto(given):
        return "auto"
    if isinstance(given, str):
        return given
    described = make_features(given).to_dict()  # refuses code with its own message
    arrays = {name: value for name, value in described.items() if isinstance(value, np.ndarray)}
    rest = {name: value for name, value in described.items() if name not in arrays}
    return {"name": described["name"], "digest": checksum(rest, arrays)[:32]}


def refuse_other(folder: Path, before: Question, now: Question) -> None:
    """Refuse settings that differ from those of the saved sums."""
    for name, given in now.items():
        if before.get(name) != given:
            told = f"{name} was {before.get(name)!r} and is now {given!r}"
            if isinstance(given, dict) or isinstance(before.get(name), dict):
                told = f"{name} has changed"
            raise InputError(
                f"the sums in {str(folder)!r} were made with other settings: {told}. Use the same settings, or "
                "another folder."
            )


@dataclass(frozen=True, eq=False)
class Fitted:
    """A job, its settings, and the size of the log that it was fitted to."""

    question: Question  # the settings
    job: Job  # the computation for every part
    files: int
    rows: int  # number of rows; files is the number of files
    episodes: int  # maximum number of episodes in the sample
    digest: str  # digest of all fields


def write_fitted(path: Path, question: Question, job: Job, files: int, rows: int, episodes: int) -> None:
    """Write the fitted data to a file."""
    design = job.design
    ladder = design.ladder
    arrays: Arrays = {"clock": job.clock}
    header: dict[str, Any] = {"question": question, "files": files, "rows": rows, "episodes": episodes}
    header |= {"groups": job.groups, "lam": job.lam, "named": job.named, "complete": ladder.complete}
    header |= {"endless": ladder.endless, "headlines": ladder.headlines}
    for kind, sets in (("rungs", ladder.rungs), ("checkers", ladder.checkers)):
        header[kind] = list(sets)
        arrays |= {f"{kind}.{k}": columns for k, columns in enumerate(sets.values())}
    header["features"] = _put("features", job.features, arrays)
    if isinstance(design, RealDesign):
        header["cosines"] = _put("cosines", design.cosines, arrays)
        header["polynomials"] = _put("polynomials", design.polynomials, arrays)
        arrays |= {"waves.frequencies": design.waves.frequencies, "waves.phases": design.waves.phases}
    else:
        assert isinstance(design, StateDesign)
        table: Any = design.table
        arrays |= {"states": design.states, "pairs": design.pairs}
        if isinstance(table, np.ndarray):
            arrays["table"] = table
        else:
            arrays |= {f"table.{name}": getattr(table, name) for name in ("data", "indices", "indptr")}
            header["shape"] = list(table.shape)
    write_arrays(path, arrays, header)


def _put(kind: str, features: Features | None, arrays: Arrays) -> dict[str, Any] | None:
    """The features without their arrays, which are stored separately."""
    if features is None:
        return None
    told = features.to_dict()
    arrays |= {f"{kind}.{name}": value for name, value in told.items() if isinstance(value, np.ndarray)}
    return {name: value for name, value in told.items() if not isinstance(value, np.ndarray)}


def read_fitted(path: Path, reader: ChunkReader, settings: Settings) -> Fitted:
    """Read the fitted data for a log with this reader and these settings."""
    with reading(path, "a file of features that gradtd fitted to a log"):
        header, arrays = read_arrays(path)
        features = _restored("features", header, arrays)
        given = (
            _design(header, arrays, features),
            features,
            arrays["clock"],
            header["groups"],
            header["lam"],
            header["named"],
        )
        job = Job(reader, settings.gamma, settings.tracing, *given)
        check_fitted(header, job)
        digest = checksum(header, arrays)[:32]
        return Fitted(header["question"], job, header["files"], header["rows"], header["episodes"], digest)


def _restored(kind: str, header: dict[str, Any], arrays: Arrays) -> Any:
    if header[kind] is None:
        return None
    return from_dict(header[kind] | entries_under(arrays, f"{kind}."))


def _design(header: dict[str, Any], arrays: Arrays, features: Features | None) -> RealDesign | StateDesign:
    rungs, checkers = (
        {name: arrays[f"{kind}.{k}"] for k, name in enumerate(header[kind])} for kind in ("rungs", "checkers")
    )
    ladder = Ladder(rungs, checkers, tuple(header["headlines"]), header["complete"], header["endless"])
    if "states" in arrays:
        return StateDesign(ladder, _table(header, arrays), arrays["states"], arrays["pairs"])
    waves = Waves(arrays["waves.frequencies"], arrays["waves.phases"])
    cosines, polynomials = (_restored(kind, header, arrays) for kind in ("cosines", "polynomials"))
    return RealDesign(ladder, cosines, waves, features, polynomials=polynomials)


def _table(header: dict[str, Any], arrays: Arrays) -> Any:
    if "table" in arrays:
        return arrays["table"]
    from scipy.sparse import csr_array

    parts = tuple(arrays[f"table.{name}"] for name in ("data", "indices", "indptr"))
    return csr_array(parts, shape=tuple(header["shape"]))


MADE_BY, FORMAT = "gradtd evaluate --sums", 2
ENDING = ".npz"
ARRAYS = ("ratios", "by_time")
"""The fields of `StepSums` that are arrays; the others are in the header of a file."""


def open_store(folder: Path) -> ResultsFolder:
    """Open the folder of sums, or create it if there is none."""
    return ResultsFolder(folder, MADE_BY, FORMAT, option="folder")


class Store:
    """The saved files of one target."""

    def __init__(self, folder: Path, target: str) -> None:
        self.within = folder
        told = re.sub(r"\W+", "-", target)[:40]
        self.folder = folder / f"{told}-{hashlib.sha256(target.encode()).hexdigest()[:8]}"
        self.folder.mkdir(exist_ok=True)
        self.fitted, self.list = self.folder / f"fitted{ENDING}", self.folder / f"units{ENDING}"

    def units(self) -> tuple[list[Unit], list[str]]:
        """The known units, and the names of files that were reread because they had changed."""
        return self._fitting(self.list, lambda header, _: read_units(header)) or ([], [])

    def write_units(self, units: Iterable[Unit], changed: list[str]) -> None:
        self._write(self.list, {}, {"units": [unit.files for unit in units], "changed": changed})

    def has(self, unit: Unit) -> bool:
        """Whether a unit was ever read completely, with any lambda."""
        return any("-" not in path.name for path in self.folder.glob(f"{unit.digest}_*{ENDING}"))

    def seems_to_have(self, unit: Unit, key: dict[str, Any]) -> bool:
        """Whether the header of a unit's file has this key. Its sums are not read."""
        header = header_if_whole(self._path(unit, key))
        return header is not None and {name: header.get(name) for name in key} == key

    def look(self, unit: Unit, key: dict[str, Any], job: Job, part: int | None = None) -> PartSums | None:
        """The sums of a unit or part, or None if missing, inconsistent or of another version of the code."""

        def restored(header: dict[str, Any], arrays: Arrays) -> PartSums | None:
            if {name: header.get(name) for name in key} != key:
                return None
            made = _restored_sums(header, arrays, job.groups)
            check_sums(made, job, unit.rows)
            return made

        return self._fitting(self._path(unit, key, part), restored)

    def _fitting(self, path: Path, restore: Callable[[dict[str, Any], Arrays], Kept]) -> Kept | None:
        """The contents of a file, or None if it is missing, damaged or inconsistent."""
        found = read_if_whole(path)
        if found is None:
            return None
        try:
            with reading(path, "a file of sums that gradtd saved"):
                return restore(*found)
        except InputError:
            log.warning("%s does not fit this log and is computed again", path)
            return None

    def keep(self, unit: Unit, key: dict[str, Any], sums: PartSums, part: int | None = None) -> None:
        arrays, header = _stored(sums)
        self._write(self._path(unit, key, part), arrays, header | key)

    def forget_parts(self, unit: Unit, key: dict[str, Any]) -> None:
        for path in self.folder.glob(f"{self._stem(unit, key)}-*{ENDING}"):
            path.unlink(missing_ok=True)

    def tidy(self, units: Iterable[Unit]) -> None:
        """Remove files of unknown units."""
        known = {unit.digest for unit in units}
        for path in self.folder.glob(f"*{ENDING}"):
            if path not in (self.fitted, self.list) and path.name[:32] not in known:
                path.unlink(missing_ok=True)

    def sample(self, unit: Unit, check: Callable[[Arrays], None]) -> Arrays | None:
        """Rows of a unit that belong to the sample, as bytes, with the hashes of their episodes. ``check`` validates
        them."""

        def restored(_: dict[str, Any], arrays: Arrays) -> Arrays:
            check(arrays)
            return arrays

        return self._fitting(self._rows(unit), restored)

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
    """The arrays and the header that a file of sums contains. Of sums by group, only groups with episodes are
    stored."""
    arrays: Arrays = {name: getattr(sums.steps, name) for name in ARRAYS}
    header = {f.name: getattr(sums.steps, f.name) for f in fields(StepSums) if f.name not in ARRAYS}
    header["blocks"] = len(sums.blocks)
    for k, block in enumerate(sums.blocks):
        arrays |= {f"block.{k}.{name}": array for name, array in zip(Block._fields, block, strict=True)}
    if sums.moments is not None:
        groups = np.flatnonzero(sums.moments.pieces)
        header["groups"] = len(sums.moments.pieces)
        arrays["groups"] = groups
        complete = len(groups) == len(sums.moments.pieces)
        for name, array in sums.moments.arrays().items():
            arrays[f"moments.{name}"] = array if complete or name not in BY_GROUP else array[groups]
    return arrays, header


def _restored_sums(header: dict[str, Any], arrays: Arrays, groups: int) -> PartSums:
    given: dict[str, Any] = {f.name: header[f.name] for f in fields(StepSums) if f.name not in ARRAYS}
    given |= {name: Counter(given[name]) for name in ("notes", "warnings")}
    given |= {name: arrays[name] for name in ARRAYS}
    steps = StepSums(**given)
    blocks = [Block(*(arrays[f"block.{k}.{name}"] for name in Block._fields)) for k in range(header["blocks"])]
    if "groups" not in header:
        return PartSums(steps, None, blocks)
    if header["groups"] != groups:
        raise ValueError("the sums have other groups")
    whole: dict[str, Any] = {}
    complete = np.array_equal(arrays["groups"], np.arange(groups))
    for entry in fields(Moments):
        array = arrays[f"moments.{entry.name}"]
        if entry.name in BY_GROUP and not complete:
            spread = np.zeros((groups, *array.shape[1:]))
            spread[arrays["groups"]] = array
            array = spread
        whole[entry.name] = np.asarray(array, np.float64)
    return PartSums(steps, Moments(**whole), blocks)
