"""Keeps the sums of a log in a folder: known parts are reused, new ones are read and saved.

A killed evaluation can continue, and files may be added later. `kept_units` assigns files to sums, and `kept_files`
defines the folder.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core.arrays import Integers
from gradtd.core.checks import InputError
from gradtd.core.executors import Executor
from gradtd.core.files import Arrays
from gradtd.core.progress import StageProgress, stage
from gradtd.evaluation.chunks import (
    ChunkReader,
    Folder,
    episodes_of_sample,
    find_roles,
    make_reader,
    refuse_single,
    spanning_note,
)
from gradtd.evaluation.kept_files import (
    Fitted,
    Store,
    code_of_sums,
    open_store,
    question_of,
    read_fitted,
    refuse_other,
    write_fitted,
)
from gradtd.evaluation.kept_units import (
    File,
    Placed,
    Unit,
    check_sample,
    cut_files,
    look_at,
    place,
    refuse_apart,
    refuse_changed,
)
from gradtd.evaluation.part_sums import Job, PartSums, Reduction, Source, SumPart
from gradtd.evaluation.settings import ACTION, Settings
from gradtd.logs import Log, Ratios
from gradtd.logs import parts as cutting
from gradtd.logs.column_names import Roles
from gradtd.logs.files import ParquetTable
from gradtd.logs.parts import Part, Survey, survey
from gradtd.logs.row_episodes import mixed
from gradtd.logs.row_policies import kept_columns

Fit = Callable[[Folder, ChunkReader, Settings, Executor, tuple[Log, Ratios]], Job]
"""A function that fits features and checks to a log, from a sample."""


@contextmanager
def add_to_kept(
    table: ParquetTable, settings: Settings, executor: Executor, progress: StageProgress | None
) -> Iterator[KeptLog]:
    """Evaluate with a folder of sums, which one process at a time may use."""
    if settings.value_function == ACTION:
        raise InputError(
            "a checkpoint needs state values, not action values: leave out value_function='action', or the checkpoint."
        )
    assert settings.checkpoint is not None
    store = open_store(Path(settings.checkpoint))
    with store.locked():
        yield KeptLog(store.folder, table, settings, executor, progress)


def refuse_labels(log: Log) -> None:
    """Refuse action labels: their codes depend on all rows, and later files may add labels."""
    if log.action_labels is not None:
        raise InputError(
            "a checkpoint needs numbered actions, and this log has labels such as "
            f"{log.action_labels[0]!r}: number them, or leave the checkpoint out."
        )


@dataclass(frozen=True, eq=False)
class KeptLog:
    """A log with saved sums."""

    folder: Path
    table: ParquetTable
    settings: Settings
    executor: Executor
    progress: StageProgress | None

    def open(self, name: str, target: Any, fit: Fit) -> tuple[KeptSource, tuple[Log, Ratios]]:
        """Open the sums for one target, and the sample. If there are no fitted features yet, fit them."""
        settings, table, store = self.settings, self.table, Store(self.folder, name)
        keep = tuple(kept_columns(target, settings.behaviour))
        roles = find_roles(table, settings, keep)
        if "episode" not in roles.single:
            raise InputError(
                "a checkpoint needs an episode column, because later files must not change the numbering of "
                "episodes: add one, or leave the checkpoint out."
            )
        reader = make_reader(table, settings, target, keep, roles)
        question = question_of(reader, settings, roles, table.kinds)

        def known() -> Fitted:
            try:
                made = read_fitted(store.fitted, reader, settings)
            except InputError as error:
                raise InputError(f"{error} Give all files to a new folder.") from None
            refuse_other(store.within, made.question, question)
            return made

        fitted = known() if store.fitted.exists() else None  # refuses different settings before anything is read
        folder, units, changed = self._arranged(store, reader, roles, keep)
        placed = place(units, folder.seen)
        if fitted is None:
            episodes = episodes_of_sample(folder.seen)
            sample = read_kept_sample(store, placed, folder.seen, episodes, reader)
            refuse_labels(sample[0])
            job = fit(folder, reader, settings, self.executor, sample)
            write_fitted(store.fitted, question, job, len(folder.table.paths), folder.seen.rows, episodes)
            fitted = known()
        sample = read_kept_sample(store, placed, folder.seen, fitted.episodes, reader)
        paths = {file.identity: path for path, file in zip(folder.table.paths, _files_of(units), strict=True)}
        return KeptSource(store, fitted, folder, placed, paths, changed, self.executor, self.progress), sample

    def _arranged(
        self, store: Store, reader: ChunkReader, roles: Roles, keep: tuple[str, ...]
    ) -> tuple[Folder, list[Unit], list[str]]:
        """The log with known files first, its units, and the names of files that have changed."""
        here = [(look_at(path), path) for path in self.table.paths]
        here = [(file, path) for file, path in here if file.rows]
        _refuse_twice([file for file, _ in here])
        known, changed = _still_there(store, [file for file, _ in here])
        # Known files keep their places, so that their units and sums stay the same.
        before = {file.identity for file in _files_of(known)}
        new = [(file, path) for file, path in here if file.identity not in before]
        paths = {file.identity: path for file, path in here}
        ordered = [paths[file.identity] for file in _files_of(known)] + [path for _, path in new]
        table = ParquetTable(self.table.name, ordered or self.table.paths)
        seen = survey(table, roles.single["episode"], stage(self.progress, "looking for episodes"))
        refuse_single(seen, table.name, later=True)  # before features are fitted to it and saved
        rows = sum(unit.rows for unit in known)
        refuse_apart(seen, rows, [*_files_of(known), *(file for file, _ in new)])
        units = known + cut_files([file for file, _ in new], seen.begins, rows)
        store.write_units(units, changed)
        return Folder(table, roles, keep, seen, tuple(spanning_note(seen)), 0), units, changed


def _refuse_twice(files: Sequence[File]) -> None:
    names: dict[Any, str] = {}
    for file in files:
        if other := names.get(file.identity):
            raise InputError(f"{file.name!r} is a copy of {other!r}, and its rows would count twice: leave one out.")
        names[file.identity] = file.name


def _files_of(units: Sequence[Unit]) -> list[File]:
    return [file for unit in units for file in unit.files]


def _still_there(store: Store, here: Sequence[File]) -> tuple[list[Unit], list[str]]:
    """The units whose files are all unchanged, and the names of changed files."""
    units, changed = store.units()
    now, paths = {file.identity: file for file in here}, {file.path for file in here}
    kept = []
    for unit in units:
        lost = [file for file in unit.files if file.identity not in now]
        if not lost:
            kept.append(Unit(tuple(now[file.identity] for file in unit.files)))
        elif store.has(unit):
            gone = [file.path for file in lost if file.path not in paths]
            if gone:
                more = f" and {len(gone) - 1} more files are" if len(gone) > 1 else " is"
                raise InputError(
                    f"{gone[0]!r}{more} not among the files given, and the sums in {str(store.within)!r} include "
                    "their rows: give all files, the earlier ones and the new ones, or start a new folder."
                )
            changed = sorted({*changed, *(file.name for file in lost)})
    return kept, changed


@dataclass(frozen=True, eq=False)
class _SumPart:
    """The work sent to a worker, with the version of the code, because the worker may have a different version."""

    job: Job

    def __call__(self, part: Part) -> tuple[str, PartSums]:
        return code_of_sums(), SumPart(self.job)(part)


@dataclass(frozen=True, eq=False)
class KeptSource(Source):
    """Sums of a log for one target: reads the parts without stored sums, and adds them."""

    store: Store
    fitted: Fitted
    folder: Folder
    placed: Sequence[Placed]
    paths: Mapping[Any, Path]
    changed: Sequence[str]
    executor: Executor
    progress: StageProgress | None

    @property
    def job(self) -> Job:
        return self.fitted.job

    @property
    def later(self) -> bool:
        now = (self.folder.seen.rows, len(self.folder.table.paths))
        return (self.fitted.rows, self.fitted.files) != now

    @property
    def notes(self) -> tuple[str, ...]:
        notes = list(self.folder.notes)
        if self.later:
            notes.append(
                f"features and checks were fitted to the first {self.fitted.rows} rows in {self.fitted.files} "
                f"files; now there are {self.folder.seen.rows} rows in {len(self.folder.table.paths)} files."
            )
        if self.changed:
            names = ", ".join(self.changed)
            notes.append(f"files changed after their sums were stored, and were read again: {names}.")
        return tuple(notes)

    def steps(self, job: Job, put: Callable[[PartSums], None]) -> None:
        """Pass the sums of all units to ``put``, in order. If rows are states, the sums of each part are passed, with
        its steps."""
        work = _Reading(self, job)
        work.read([one for one in self.placed if not self.store.seems_to_have(one.unit, work.key)])
        for one in self.placed:
            work.hand_on(one, put)
        self.store.tidy([one.unit for one in self.placed])


class _Reading:
    """Reads the parts of units that are not stored."""

    def __init__(self, source: KeptSource, job: Job) -> None:
        self.source, self.job, self.store = source, job, source.store
        self.key = {"fitted": source.fitted.digest, "code": code_of_sums(), "lam": job.lam}

    def look(self, unit: Unit, part: int | None = None) -> PartSums | None:
        return self.store.look(unit, self.key, self.job, part)

    def there(self, unit: Unit, part: int | None = None) -> PartSums:
        """Sums that were stored in this run."""
        made = self.look(unit, part)
        if made is None:
            raise InputError(
                f"the sums in {str(self.store.within)!r} were changed during use: let only one process write to the "
                f"folder, and start again."
            )
        return made

    def parts(self, placed: Placed) -> list[Part]:
        return placed.parts(self.source.folder.seen, cutting.ROWS_OF_A_PART)

    def hand_on(self, placed: Placed, put: Callable[[PartSums], None]) -> None:
        whole = self.look(placed.unit)
        if whole is None:  # damaged
            self.read([placed])
            whole = self.there(placed.unit)
        if not self.job.of_states:
            put(whole)
            return
        for k in range(len(self.parts(placed))):
            made = self.look(placed.unit, k)
            if made is None:  # damaged in the meantime
                self.read([placed])
                made = self.there(placed.unit, k)
            put(made)

    def read(self, placed: Sequence[Placed]) -> None:
        """Read the units that are not stored yet. When all parts of a unit have been read, merge them."""
        source = self.source
        cut = {one.unit: self.parts(one) for one in placed}
        missing = [(unit, k) for unit, parts in cut.items() for k in range(len(parts)) if self.look(unit, k) is None]
        left = Counter(unit for unit, _ in missing)
        for unit in cut.keys() - left.keys():
            self._put_together(unit, self._stored_parts(unit, len(cut[unit])))
        pieces = [cut[unit][k] for unit, k in missing]
        rows = sum(one.unit.rows for one in placed)
        done = rows - sum(map(len, pieces))
        for number, (code, sums) in source.executor.each(_SumPart(self.job), pieces):
            if code != self.key["code"]:
                raise InputError(
                    "a worker runs another version of gradtd than this process: install the same version on both."
                )
            unit, k = missing[number]
            left[unit] -= 1
            if len(cut[unit]) == 1 and not self.job.of_states:
                self._put_together(unit, [sums])
            else:
                self.store.keep(unit, self.key, sums, k)
                if not left[unit]:
                    self._put_together(unit, self._stored_parts(unit, len(cut[unit])))
            done += len(pieces[number])
            if source.progress:
                source.progress("reading", done, rows)

    def _stored_parts(self, unit: Unit, count: int) -> Iterator[PartSums]:
        return (self.there(unit, k) for k in range(count))

    def _put_together(self, unit: Unit, parts: Iterable[PartSums]) -> None:
        """Replace the sums of a unit's parts by their total. The steps of states stay with the parts."""
        for file in unit.files:
            refuse_changed(self.source.paths[file.identity], file)
        total = Reduction()
        for sums in parts:
            # Steps of states stay with the parts, because those of a whole unit might not fit into memory.
            total.put(replace(sums, blocks=[]))
        self.store.keep(unit, self.key, total.total())
        if not self.job.of_states:
            self.store.forget_parts(unit, self.key)


def read_kept_sample(
    store: Store, placed: Sequence[Placed], seen: Survey, episodes: int, reader: ChunkReader
) -> tuple[Log, Ratios]:
    """The episodes of the sample. From known files, only rows that are not saved are read.

    The sample has the episodes whose ids have the smallest hashes over all files, so it does not depend on their order.
    Each unit saves the rows of its episodes in the sample.
    """
    order = mixed(seen.hashes)
    last = np.sort(order)[:episodes][-1]
    wanted = [int((order[one.first : one.last] <= last).sum()) for one in placed]
    made = [
        _sample_of_unit(store, one, seen, count, reader.needed)
        for one, count in zip(placed, wanted, strict=True)
        if count
    ]
    return reader.read(*_together(made, episodes))


def _sample_of_unit(store: Store, placed: Placed, seen: Survey, wanted: int, columns: Sequence[str]) -> Arrays:
    """The wanted episodes of a unit (or more), from its saved rows, or read now and saved."""
    own = placed.survey(seen)
    order = np.argsort(mixed(own.hashes), kind="stable")

    def check(kept: Arrays) -> None:
        lengths = np.diff(own.begins)[order[: len(kept["hashes"])]]
        check_sample(kept, _table_of(kept["rows"]), own.hashes[order], lengths, columns)

    kept = store.sample(placed.unit, check)
    if kept is not None and len(kept["hashes"]) >= wanted:
        return kept
    rows, begins = own.sample(wanted, columns)
    hashes = own.hashes[order[:wanted]]
    made = {"rows": _bytes_of(rows), "begins": begins, "hashes": hashes}
    store.keep_sample(placed.unit, made)
    return made


def _together(found: Sequence[Arrays], episodes: int) -> tuple[Any, Integers]:
    """The rows of the episodes with the smallest hashes, and where each begins among them."""
    import pyarrow as pa

    tables = [_table_of(one["rows"]) for one in found]
    places = [(k, int(a), int(b)) for k, one in enumerate(found) for a, b in itertools.pairwise(one["begins"])]
    order = np.argsort(mixed(np.concatenate([one["hashes"] for one in found])), kind="stable")[:episodes]
    chosen = [places[k] for k in order]
    rows = pa.concat_tables([tables[k].slice(a, b - a) for k, a, b in chosen])
    return rows, np.cumsum([0, *(b - a for _, a, b in chosen)])


def _bytes_of(table: Any) -> Any:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _table_of(stored: Any) -> Any:
    import pyarrow as pa

    return pa.ipc.open_stream(pa.py_buffer(stored.tobytes())).read_all()
