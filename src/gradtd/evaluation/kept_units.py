"""Units of a log: files whose sums are saved together. A unit never changes; later files make new units.

A unit contains whole episodes, so its sums depend only on its files.

Everything read from a folder of sums must be consistent with this log, because a checksum detects damage but not
forgery. Inconsistent data are computed again, or refused if that is impossible. Forged sums that are consistent are not
detected.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gradtd.core.checks import InputError
from gradtd.evaluation.designs.base import EXTREME, Ladder
from gradtd.evaluation.designs.real import RealDesign, are_polynomials
from gradtd.evaluation.designs.states import StateDesign
from gradtd.evaluation.moments import BY_GROUP, Moments, shape_of
from gradtd.evaluation.part_sums import MOST_GROUPS, Job, PartSums, groups_for
from gradtd.evaluation.report.step_sums import BINS, BY_CHUNK, BY_STEP, LARGEST, StepSums
from gradtd.evaluation.step_blocks import KINDS, Block
from gradtd.features import Features
from gradtd.features.cosines import Cosines
from gradtd.logs.files import ParquetTable
from gradtd.logs.parts import Part, Survey

ROWS_OF_A_UNIT = 16_000_000
"""A unit is closed at this number of rows. A larger file is one unit."""
TAIL = 8
"""Number of bytes at the end of a Parquet file: 4 for the length of its footer, and 4 for a mark."""


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
    """The current state of a file."""
    rows = sum(ParquetTable.group_sizes(path))
    try:
        # Size, time and footer, not the rows: a survey must not read the whole folder.
        told = path.stat()
        return File(str(path.resolve()), rows, told.st_size, told.st_mtime_ns, footer_of(path))
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror or error}.") from None


def footer_of(path: Path) -> str:
    """A digest of a Parquet file's metadata, which include the sizes and the ranges of its columns."""
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
    """Consecutive files whose sums are saved together."""

    files: tuple[File, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @cached_property
    def digest(self) -> str:
        """The name under which its sums are stored."""
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
    """Cut files into new units. Row ``at`` of the log is their first row, and ``begins`` holds the first rows of their
    episodes."""
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
    """The position of units in the survey of their files."""
    edges = np.cumsum([0, *(unit.rows for unit in units)])
    at = np.searchsorted(seen.begins, edges)
    return [Placed(unit, int(a), int(b)) for unit, (a, b) in zip(units, itertools.pairwise(at), strict=True)]


def refuse_apart(seen: Survey, known: int, files: Sequence[File]) -> None:
    """Refuse episodes whose rows are not contiguous. The first ``known`` rows belong to earlier units."""
    new = int(np.searchsorted(seen.begins, known))
    again = np.flatnonzero(np.isin(seen.hashes[new:], seen.hashes[:new])) + new
    if known and (len(again) or seen.begins[new] != known):
        row = int(seen.begins[again[0]]) if len(again) else known
        name = files[int(np.searchsorted(np.cumsum([file.rows for file in files]), row, "right"))].name
        raise InputError(
            f"{name!r} repeats episode ids of files whose sums are saved, and an episode must be added as a whole: "
            "give later episodes new ids, or use a new checkpoint folder for all files."
        )
    if not seen.grouped:
        raise InputError(
            "a checkpoint needs the rows of each episode to be consecutive, but in this log rows with the same id are "
            "apart: sort it by episode and time, give the episodes of every file unique ids, or leave the checkpoint "
            "out."
        )


MAY_OVERFLOW = ("r4", "weights", "weights2", "off", "off2")
"""Sums that may be infinite or NaN if products of ratios are too large. All others are at least 0."""


class MisfitError(ValueError):
    """Raised if the contents of a file are inconsistent."""


def need(fits: Any, what: str) -> None:
    if not fits:
        raise MisfitError(what)


def whole(value: Any, low: int, high: float = math.inf) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def real(value: Any, low: float = -math.inf, high: float = math.inf) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and low <= value <= high


def array(value: Any, kind: str, ndim: int) -> bool:
    """Whether a value is an array of finite numbers of this kind and dimension."""
    fits = isinstance(value, np.ndarray) and value.dtype.kind == kind and value.ndim == ndim
    return fits and bool(kind != "f" or np.isfinite(value).all())


def within(value: Any, low: float, high: float) -> bool:
    """Whether all numbers are at least ``low`` and below ``high``."""
    return bool(not value.size or (float(value.min()) >= low and float(value.max()) < high))


def words(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(word, str) for word in value)


def check_fitted(header: Mapping[str, Any], job: Job) -> None:
    """Refuse fitted data that contradict the settings stored with them."""
    need(isinstance(header["question"], dict), "question")
    named = header["question"]["features"] != "auto"
    need(all(whole(header[name], 1) for name in ("files", "rows", "episodes")), "sizes")
    need(job.named is named, "named")
    need(real(job.lam, 0, 1), "lam")
    need(array(job.clock, "f", 2), "clock")
    _check_ladder(job.design.ladder)
    need(whole(job.groups, 1, MOST_GROUPS), "groups")
    need(job.features is None or (isinstance(job.features, Features) and job.features.fitted), "features")
    if isinstance(job.design, StateDesign):
        _check_states(job.design)
    else:
        assert isinstance(job.design, RealDesign)
        _check_real(job.design, named)
        need(job.groups <= groups_for(shape_of(job.design.ladder, job.clock)), "groups")


def _check_ladder(ladder: Ladder) -> None:
    """Check that every column of the widest table belongs to some fit, so that no table is wider than the file
    shows."""
    need(isinstance(ladder.complete, bool) and isinstance(ladder.endless, bool), "ladder")
    need(words(list(ladder.sets)) and words(ladder.headlines), "names of fits")
    need(ladder.headlines and set(ladder.headlines) <= set(ladder.rungs), "headlines")
    for columns in ladder.sets.values():
        need(array(columns, "i", 1) and len(columns) and columns.min() >= 0, "columns of a fit")
        need(len(np.unique(columns)) == len(columns), "columns of a fit")
    used = np.unique(np.concatenate(list(ladder.sets.values())))
    need(len(used) == ladder.n_columns, "columns without a fit")


def _check_real(design: RealDesign, named: bool) -> None:
    need(isinstance(design.cosines, Cosines) and design.cosines.fitted, "cosines")
    need((design.features is not None) == named, "features")
    turns, phases = design.waves
    need(array(turns, "f", 2) and array(phases, "f", 1), "waves")
    need(turns.shape == (design.cosines.n_columns, len(phases)), "waves")
    need(design.polynomials is None or are_polynomials(design.polynomials), "polynomials")
    given = 0
    for first in (design.features, design.polynomials):
        if first is not None:
            given += first.n_features
            need(first.n_columns == design.cosines.n_columns, "features")
    need(design.ladder.n_columns == given + design.cosines.n + len(phases), "columns")


def _check_states(design: StateDesign) -> None:
    states, pairs, table = design.states, design.pairs, design.table
    need(isinstance(states, np.ndarray) and states.ndim == 1 and states.dtype.kind in "biuf" and len(states), "states")
    need(states.dtype.kind != "f" or np.isfinite(states).all(), "states")
    need((states[1:] > states[:-1]).all(), "states")
    need(array(pairs, "i", 2) and pairs.shape[1] == 2, "pairs")
    need(within(pairs[:, 0], 0, len(states) + 1) and within(pairs[:, 1], 0, len(states)), "pairs")
    if not isinstance(table, np.ndarray):
        table.check_format(full_check=True)
        need(array(table.data, "f", 1), "table")
    else:
        need(array(table, "f", 2), "table")
    need(table.shape == (len(states) + len(pairs), design.ladder.n_columns), "table")
    need(within(table if isinstance(table, np.ndarray) else table.data, -2 * EXTREME, 2 * EXTREME), "table")


def read_units(header: Mapping[str, Any]) -> tuple[list[Unit], list[str]]:
    """The list of units, and the names of files that had changed."""
    need(isinstance(header["units"], list) and words(header["changed"]), "units")
    units = [Unit(tuple(_file(told) for told in unit)) for unit in header["units"]]
    known = [file.identity for unit in units for file in unit.files]
    need(all(unit.files for unit in units) and len(set(known)) == len(known), "units")
    return units, list(header["changed"])


def _file(told: Any) -> File:
    need(isinstance(told, list) and len(told) == len(File._fields), "a file")
    made = File(*told)
    need(words([made.path, made.footer]) and whole(made.rows, 1), "a file")
    need(whole(made.size, 0) and whole(made.changed, -(2**63), 2**63), "a file")
    return made


def check_sums(sums: PartSums, job: Job, rows: int) -> None:
    """Refuse sums that this number of rows cannot produce."""
    _check_steps(sums.steps, rows)
    if job.of_states:
        need(sums.moments is None, "moments")
        for block in sums.blocks:
            _check_block(block, job, rows)
        return
    need(sums.moments is not None and not sums.blocks, "moments")
    assert sums.moments is not None
    shape = shape_of(job.design.ladder, job.clock)
    wanted = Moments.zeros(0, shape).arrays()
    for name, found in sums.moments.arrays().items():
        size = (job.groups, *wanted[name].shape[1:]) if name in BY_GROUP else wanted[name].shape
        need(found.shape == size, name)
        # Weights of the doubly robust estimate are products of ratios and may have any size.
        at = shape.wide + shape.narrow
        checked = (found[:, :at], found[:, at + 1 :]) if name == "products" else (found,)
        most = EXTREME**2 * max(rows, 1)
        need(all(not one.size or (one.min() >= -most and one.max() <= most) for one in checked), name)
    need((sums.moments.pieces >= 0).all() and sums.moments.pieces.sum() <= rows, "pieces")


def _check_steps(steps: StepSums, rows: int) -> None:
    need(isinstance(steps.numbers, dict) and set(steps.numbers) == {*BY_STEP, *BY_CHUNK}, "numbers")
    for name, value in steps.numbers.items():
        need(isinstance(value, float) if name in MAY_OVERFLOW else real(value, 0, EXTREME**2 * max(rows, 1)), name)
    need(all(steps.numbers[name] <= rows for name in ("steps", "episodes", "terminated", "truncated")), "steps")
    need(isinstance(steps.largest, dict) and set(steps.largest) == set(LARGEST), "largest")
    need(all(real(value, -EXTREME, EXTREME) or value == -math.inf for value in steps.largest.values()), "largest")
    need(array(steps.ratios, "f", 2) and steps.ratios.shape == (2, BINS) and (steps.ratios >= 0).all(), "ratios")
    need(isinstance(steps.by_time, np.ndarray) and steps.by_time.dtype.kind == "f" and steps.by_time.ndim == 2, "time")
    need(steps.by_time.shape[0] == 2 and steps.by_time.shape[1] <= rows, "time")
    for share in (steps.top, steps.unseen, steps.unseen_pairs):
        need(share is None or real(share, 0, 1 + 1e-9), "a share")
    need(isinstance(steps.alone, bool) and isinstance(steps.estimated, bool), "marks")
    for told in (steps.notes, steps.warnings):
        need(words(list(told)) and all(whole(count, 0) for count in told.values()), "notes")


def _check_block(block: Block, job: Job, rows: int) -> None:
    """Check a block's row numbers, because compiled code reads these rows of the table."""
    for name, kind, values in zip(Block._fields, KINDS, block, strict=True):
        need(array(values, np.dtype(kind).kind, 1), name)
    steps, pieces, table = block.n_steps, len(block.group), job.table
    by_step: Iterable[Any] = (block.next_row, block.reward, block.discount, block.rho, block.decay, block.action)
    need(steps <= rows and all(len(values) == steps for values in by_step), "steps")
    need(len(block.begins) == pieces + 1 and len(block.starts) == pieces, "pieces")
    need(block.begins[0] == 0 and block.begins[-1] == steps and (np.diff(block.begins) > 0).all(), "begins")
    need(all(within(values, 0, table.shape[0]) for values in (block.row, block.next_row, block.starts)), "rows")
    need(within(block.action, 0, math.inf) or (block.action == -1).all(), "actions")
    need(within(block.group, 0, job.groups) and within(block.rho, 0, 2 * EXTREME), "groups")
    need(within(block.reward, -2 * EXTREME, 2 * EXTREME), "rewards")
    need(all(within(values, 0, 1 + 1e-12) for values in (block.discount, block.decay)), "discount")


def check_sample(kept: Mapping[str, Any], rows: Any, hashes: Any, lengths: Any, columns: Iterable[str]) -> None:
    """Refuse rows that do not belong to the episodes with the smallest hashes."""
    count = len(kept["hashes"])
    need(array(kept["hashes"], "u", 1) and array(kept["begins"], "i", 1), "sample")
    need(count <= len(hashes) and np.array_equal(kept["hashes"], hashes[:count]), "episodes of the sample")
    need(np.array_equal(kept["begins"], np.cumsum([0, *lengths[:count]])), "episodes of the sample")
    rows.validate(full=True)
    need(len(rows) == kept["begins"][-1] and rows.column_names == list(columns), "rows of the sample")
