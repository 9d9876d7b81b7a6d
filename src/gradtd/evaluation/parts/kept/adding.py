"""The sums of a log from a folder: what is kept there is taken, what is not is read and kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gradtd.core.checks import InputError
from gradtd.core.executors import Executor
from gradtd.core.progress import StageProgress, stage
from gradtd.evaluation.parts.episodes import refuse_single
from gradtd.evaluation.parts.fitting import episodes_of_sample
from gradtd.evaluation.parts.job import Job, Reading
from gradtd.evaluation.parts.kept.files import File, look_at, refuse_changed
from gradtd.evaluation.parts.kept.fitted import Fitted, read_fitted, write_fitted
from gradtd.evaluation.parts.kept.plan import Placed, Unit, cut_files, place, refuse_apart
from gradtd.evaluation.parts.kept.question import Question, code_of_sums, refuse_other
from gradtd.evaluation.parts.kept.sample import kept_sample
from gradtd.evaluation.parts.kept.store import Store
from gradtd.evaluation.parts.preparing import Looked, Sample, looked_at
from gradtd.evaluation.parts.sums import Reduction, Sums, part_sums
from gradtd.logs import parts as cutting
from gradtd.logs.files import ParquetTable
from gradtd.logs.parts import Part, Survey, survey

Fit = Callable[[ParquetTable, Survey, Sample], Job]
"""Fits features and checks to a log, of which a sample is given."""


class Added(NamedTuple):
    """The sums of all files, with all that is needed to judge them; ``later`` says that some came after the fit."""

    job: Job
    sums: Sums
    looked: Looked
    notes: list[str]
    later: bool


@dataclass(frozen=True, eq=False)
class Asking:
    """What is asked of a folder: for which target, of which log, how it is read, and how features would be fitted."""

    store: Store
    question: Question
    table: ParquetTable
    reading: Reading
    fit: Fit


def add_to_kept(asking: Asking, crew: Executor, progress: StageProgress | None) -> Added:
    """The sums of a log, of which only what is not kept is read."""
    store, reading = asking.store, asking.reading
    if store.fitted.exists():
        _read_fitted(asking)  # refuses another question before anything is read
    table, units, seen, changed = _arranged(asking, progress)
    placed = place(units, seen)
    if not store.fitted.exists():
        _fit(asking, table, placed, seen)
    fitted = _read_fitted(asking)
    sample = kept_sample(store, placed, seen, fitted.episodes, reading, table.name)
    paths = {file.identity: path for path, file in zip(table.paths, _files_of(units), strict=True)}
    work = _Adding(store, fitted, seen, paths, crew, progress)
    total = work.total(placed)
    store.tidy(units)
    later = (fitted.rows, fitted.files) != (seen.rows, len(table.paths))
    notes = _notes(fitted, seen, len(table.paths) if later else None, changed)
    return Added(fitted.job, total, looked_at(fitted.job, sample), notes, later)


def _read_fitted(asking: Asking) -> Fitted:
    try:
        fitted = read_fitted(asking.store.fitted, asking.reading, asking.question["gamma"], asking.table.name)
    except InputError as error:
        raise InputError(f"{error} Give all files to a new folder.") from None
    refuse_other(asking.store.within, fitted.question, asking.question)
    return fitted


def _arranged(asking: Asking, progress: StageProgress | None) -> tuple[ParquetTable, list[Unit], Survey, list[str]]:
    """The log with known files first, its units, where episodes begin, and the names of files that have changed."""
    store, table = asking.store, asking.table
    here = [(look_at(path), path) for path in table.paths]
    here = [(file, path) for file, path in here if file.rows]
    _refuse_twice([file for file, _ in here])
    known, changed = _still_there(store, [file for file, _ in here])
    before = {file.identity for file in _files_of(known)}
    new = [(file, path) for file, path in here if file.identity not in before]
    paths = {file.identity: path for file, path in here}
    ordered = [paths[file.identity] for file in _files_of(known)] + [path for _, path in new]
    table = ParquetTable(table.name, ordered or table.paths)
    seen = survey(table, asking.reading.episode, stage(progress, "looking for episodes"))
    refuse_single(seen, table.name, later=True)  # before features are fitted to it, which would stay
    rows = sum(unit.rows for unit in known)
    refuse_apart(seen, rows, [*_files_of(known), *(file for file, _ in new)])
    units = known + cut_files([file for file, _ in new], seen.begins, rows)
    store.write_units(units, changed)
    return table, units, seen, changed


def _refuse_twice(files: Sequence[File]) -> None:
    names: dict[Any, str] = {}
    for file in files:
        if other := names.get(file.identity):
            raise InputError(f"{file.name!r} is a copy of {other!r}, and its rows would count twice: leave one out.")
        names[file.identity] = file.name


def _files_of(units: Sequence[Unit]) -> list[File]:
    return [file for unit in units for file in unit.files]


def _still_there(store: Store, here: Sequence[File]) -> tuple[list[Unit], list[str]]:
    """The units all of whose files are there as they were, and the names of files that are not as they were."""
    units, changed = store.units()
    now, paths = {file.identity: file for file in here}, {file.path for file in here}
    kept = []
    for unit in units:
        lost = [file for file in unit.files if file.identity not in now]
        if not lost:
            kept.append(Unit(tuple(now[file.identity] for file in unit.files)))
        elif store.has(unit):
            _refuse_gone(store, [file.path for file in lost if file.path not in paths])
            changed = sorted({*changed, *(file.name for file in lost)})
    return kept, changed


def _refuse_gone(store: Store, gone: Sequence[str]) -> None:
    if gone:
        more = f" and {len(gone) - 1} more files are" if len(gone) > 1 else " is"
        raise InputError(
            f"{gone[0]!r}{more} not among the files given, and the sums in {str(store.within)!r} hold their rows: give "
            "all files, earlier ones and new ones, or start a new folder."
        )


def _fit(asking: Asking, table: ParquetTable, placed: Sequence[Placed], seen: Survey) -> None:
    """Fit to all files that there are, and write down what was fitted."""
    episodes = episodes_of_sample(seen)
    sample = kept_sample(asking.store, placed, seen, episodes, asking.reading, table.name)
    job = asking.fit(table, seen, sample)
    write_fitted(asking.store.fitted, asking.question, job, len(table.paths), seen.rows, episodes)


@dataclass(frozen=True, eq=False)
class _PartWork:
    """What a worker is sent. It says which code it has, because elsewhere that may be another."""

    job: Job

    def __call__(self, part: Part) -> tuple[str, Sums]:
        return code_of_sums(), part_sums(self.job, part)


class _Adding:
    """Reads what is not kept, and adds up."""

    def __init__(
        self,
        store: Store,
        fitted: Fitted,
        seen: Survey,
        paths: Mapping[Any, Path],
        crew: Executor,
        progress: StageProgress | None,
    ) -> None:
        self.store, self.job, self.seen, self.paths = store, fitted.job, seen, paths
        self.crew, self.progress = crew, progress
        self.key = {"fitted": fitted.digest, "code": code_of_sums()}

    def total(self, placed: Sequence[Placed]) -> Sums:
        """The sums of all units, in their order."""
        self.read([one for one in placed if not self.store.has(one.unit)])
        reduction = Reduction()
        for number, one in enumerate(placed):
            reduction.put(number, self._of_unit(one))
        return reduction.total()

    def _of_unit(self, placed: Placed) -> Sums:
        found = self.store.look(placed.unit, self.key, self.job)
        if found is None:  # damaged, or made by other code
            self.read([placed])
            found = self.store.look(placed.unit, self.key, self.job)
        assert found is not None
        return found

    def read(self, placed: Sequence[Placed]) -> None:
        """Read the parts of units that are not kept yet; a unit whose parts are all there is put together."""
        cut = {one.unit: one.parts(self.seen, cutting.ROWS_OF_A_PART) for one in placed}
        missing = [(unit, k) for unit, parts in cut.items() for k in range(len(parts)) if not self._is_kept(unit, k)]
        left = Counter(unit for unit, _ in missing)
        for unit in cut.keys() - left.keys():
            self._put_together(unit, len(cut[unit]))
        pieces = [cut[unit][k] for unit, k in missing]
        rows, done = sum(one.unit.rows for one in placed), sum(one.unit.rows for one in placed) - sum(map(len, pieces))
        for number, (code, sums) in self.crew.each(_PartWork(self.job), pieces):
            unit, k = missing[number]
            self._keep_part(unit, k, code, sums)
            left[unit] -= 1
            if not left[unit]:
                self._put_together(unit, len(cut[unit]))
            done += len(pieces[number])
            if self.progress:
                self.progress("reading", done, rows)

    def _is_kept(self, unit: Unit, part: int) -> bool:
        return self.store.look(unit, self.key, self.job, part) is not None

    def _keep_part(self, unit: Unit, part: int, code: str, sums: Sums) -> None:
        if code != self.key["code"]:
            raise InputError("a worker has another version of gradtd than this process: install the same on both.")
        self.store.keep(unit, self.key, sums, part)

    def _put_together(self, unit: Unit, parts: int) -> None:
        """The sums of a unit in place of those of its parts."""
        for file in unit.files:
            refuse_changed(self.paths[file.identity], file)
        reduction = Reduction()
        for k in range(parts):
            found = self.store.look(unit, self.key, self.job, k)
            assert found is not None
            reduction.put(k, found)
        self.store.keep(unit, self.key, reduction.total())
        self.store.forget_parts(unit)


def _notes(fitted: Fitted, seen: Survey, files: int | None, changed: Sequence[str]) -> list[str]:
    """What a reader has to know of sums that were added one after the other."""
    notes = []
    if seen.spanning:
        notes.append(f"{seen.spanning} episode{'s' * (seen.spanning > 1)} went on in the next file.")
    if files is not None:
        notes.append(
            f"features and checks are those fitted at first, to {fitted.rows} rows in {fitted.files} files; now there "
            f"are {seen.rows} rows in {files}."
        )
    if changed:
        notes.append(f"files changed after their sums had been kept, and were read again: {', '.join(changed)}.")
    return notes
