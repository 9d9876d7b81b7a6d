"""Units of work, one setting and a block of seeds each, and their files.

The result of a unit depends only on the unit. Every finished unit has one Parquet file, and the manifest has the
checksum of each. A file is moved into place when it is complete; then its line is added to the manifest. A kill between
the two leaves a file without a line, which is used if it is valid. If a checksum does not match, the file was damaged
or changed, and its unit runs again.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.compiled import engine
from gradtd.compiled.plan import Snapshots
from gradtd.core.algorithm import Algorithm
from gradtd.core.arrays import Floats, Integers
from gradtd.core.files import append_line, read_file, replace_file
from gradtd.core.results_folder import STORED
from gradtd.problems.base import Problem
from gradtd.problems.metrics import METRICS, cached_exact
from gradtd.problems.simulate import sampler
from gradtd.running.fingerprints import code_around, problem_digest
from gradtd.running.runs import attempt
from gradtd.running.session import Session
from gradtd.running.sweeps.grid import Setting

STEPS_OF_A_UNIT = 1_000_000
"""Approximate steps per unit: some seconds at most, so that a kill costs little and overhead is small."""


@dataclass(frozen=True, eq=False)
class Task:
    """A setting, ready to run: problem, rule, and what to measure when."""

    setting: Setting
    problem: Problem
    rule: Algorithm | str
    steps: int
    at: tuple[int, ...]
    metrics: tuple[str, ...]

    def __getstate__(self) -> dict[str, Any]:
        return _fields(self)

    @cached_property
    def session(self) -> Session:
        return Session(self.rule, self.setting.given, n_steps=self.steps, block=self.problem.block)

    @cached_property
    def key(self) -> dict[str, Any]:
        """Everything that the runs depend on, except their seeds."""
        session = self.session
        hyper = {name: value for name, value in sorted(session.setup.hyper.items()) if value is not None}
        return {
            "problem": problem_digest(self.problem),
            "algorithm": session.rule.name,
            "hyper": hyper,
            "code": [session.code, code_around(), _code_of_metrics(self.metrics)],
            "steps": self.steps,
            "at": self.at,
            "metrics": self.metrics,
        }

    def measured(self, thetas: Floats) -> dict[str, Floats]:
        """Every metric of weights[run, snapshot, d]; run by run, so that no number depends on the size of a block."""
        hyper = self.session.setup.hyper
        truth = cached_exact(self.problem, hyper.get("lam", 0.0), hyper.get("trace", "rho"))
        return {name: np.stack([METRICS[name](truth, own) for own in thetas]) for name in self.metrics}


def _fields(record: Any) -> dict[str, Any]:
    """Pickle only the inputs, not derived objects."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


@lru_cache
def _code_of_metrics(names: tuple[str, ...]) -> str:
    return engine.fingerprint(*(METRICS[name] for name in names))


@dataclass(frozen=True, eq=False)
class Unit:
    """Some runs of a task: those with numbers from ``first`` on, of a seed."""

    task: Task
    seed: int
    first: int
    count: int

    def __getstate__(self) -> dict[str, Any]:
        return _fields(self)

    @cached_property
    def digest(self) -> str:
        """The name of its file: a digest of everything its result depends on."""
        key = self.task.key | {"seed": self.seed, "first": self.first, "count": self.count}
        return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]

    @property
    def work(self) -> float:
        """Approximate cost in TD updates."""
        return self.count * self.task.steps * self.task.session.updates_per_step

    def __str__(self) -> str:
        return f"{self.task.setting} seed {self.seed} runs {self.first} to {self.first + self.count - 1}"


@dataclass(frozen=True, eq=False)
class Values:
    """The outcomes of runs.

    Parameters
    ----------
    metrics
        The values of each metric, of shape (runs, steps measured at).
    diverged_at
        The step at which each run diverged, -1 if it did not.
    learned
        Whether each run made any update; its buffers may never have filled.
    """

    metrics: Mapping[str, Floats]
    diverged_at: Integers
    learned: Any

    @staticmethod
    def joined(blocks: Sequence[Values]) -> Values:
        """Concatenate the runs of several blocks."""
        return Values(
            {name: np.concatenate([b.metrics[name] for b in blocks]) for name in blocks[0].metrics},
            np.concatenate([b.diverged_at for b in blocks]),
            np.concatenate([b.learned for b in blocks]),
        )


def compute(unit: Unit) -> tuple[str, Values]:
    """Run a unit. Its digest is passed along, because a worker may have other code."""
    task, start = unit.task, unit.task.problem.theta0
    draw, at = sampler(task.problem), np.array(task.at, np.int64)
    thetas = np.empty((unit.count, len(at), len(start)))
    diverged_at, learned = np.empty(unit.count, np.int64), np.ones(unit.count, np.bool_)
    for place in range(unit.count):
        # Seeds belong to runs, not units, so blocks of any size give the same bytes.
        seed = (unit.seed, unit.first + place)
        wanted = Snapshots(at, thetas[place], np.empty(len(at)))
        diverged_at[place], never = attempt(task.session, draw(task.steps, *seed), start, seed, wanted)
        learned[place] = never is None
    return unit.digest, Values(task.measured(thetas), diverged_at, learned)


def block_size(steps: int, size: int | None) -> int:
    """Runs per unit: as requested, or about a million steps."""
    return size or max(1, STEPS_OF_A_UNIT // steps)


def blocks(task: Task, seed: int, runs: int, size: int | None) -> Iterator[Unit]:
    """The units of a task. If more runs are requested later, full blocks do not change."""
    count = block_size(task.steps, size)
    for first in range(0, runs, count):
        yield Unit(task, seed, first, min(count, runs - first))


def tasks_of(
    settings: Sequence[Setting],
    problems: Mapping[str, Problem],
    rules: Mapping[str, Algorithm | str],
    **measured: Any,
) -> list[Task]:
    """Settings with their problems and rules; each is set up once, so that errors show here."""
    found = []
    for setting in settings:
        task = Task(setting, problems[setting.problem], rules[setting.algorithm], **measured)
        task.measured(task.problem.theta0[None, None])
        found.append(task)
    return found


log = logging.getLogger(__name__)
UNIT = b"gradtd unit"
"""Metadata key of a file's unit digest."""


class Parts:
    """The finished units of a sweep, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.manifest = folder, folder / "manifest.jsonl"
        self.listed = _listed(self.manifest)

    def look(self, unit: Unit) -> Values | None:
        """The outcome of a unit; None if it is unfinished or its file is damaged."""
        try:
            content = read_file(self.file_of(unit))
        except FileNotFoundError:
            return None
        # A file without a line was written just before a kill: it counts if it is valid; `adopt` lists it.
        listed = self.listed.get(unit.digest)
        if listed is not None and listed != _checksum(content):
            log.warning("the file of %s is damaged or changed, so the unit runs again", unit)
            return None
        return _read(content, unit)

    def keep(self, unit: Unit, values: Values) -> None:
        """Save the outcome of a unit."""
        import pyarrow.parquet as pq

        self.folder.mkdir(exist_ok=True)
        path = self.file_of(unit)
        table = _table(unit, values)
        replace_file(path, lambda file: pq.write_table(table, file, **STORED))
        self._list(unit, path.read_bytes())

    def adopt(self, units: Iterable[Unit]) -> None:
        """Add valid files without a line to the manifest."""
        for unit in units:
            path = self.file_of(unit)
            if unit.digest not in self.listed and path.exists() and self.look(unit) is not None:
                self._list(unit, path.read_bytes())

    def file_of(self, unit: Unit) -> Path:
        return self.folder / f"{unit.digest}.parquet"

    def _list(self, unit: Unit, content: bytes) -> None:
        told = {"unit": unit.digest, "of": str(unit), "bytes": len(content), "sha256": _checksum(content)}
        append_line(self.manifest, json.dumps(told))
        self.listed[unit.digest] = told["sha256"]


def _listed(manifest: Path) -> dict[str, Any]:
    """The checksums in a manifest. Its last line may be half written; a later line of a unit holds."""
    found: dict[str, Any] = {}
    if manifest.exists():
        for line in read_file(manifest).splitlines():
            try:
                told = json.loads(line)
                found[told["unit"]] = told["sha256"]
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
    return found


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _table(unit: Unit, values: Values) -> Any:
    """One row for every run, metric and step."""
    import pyarrow as pa

    at, names = unit.task.at, list(values.metrics)
    per_run = len(names) * len(at)
    columns = {
        "run": np.repeat(np.arange(unit.first, unit.first + unit.count), per_run),
        "metric": np.tile(np.repeat(names, len(at)), unit.count),
        "step": np.tile(at, unit.count * len(names)),
        "value": np.stack([values.metrics[name] for name in names], axis=1).ravel(),
        "diverged_at": np.repeat(values.diverged_at, per_run),
        "learned": np.repeat(values.learned, per_run),
    }
    return pa.table(columns).replace_schema_metadata({UNIT: unit.digest.encode()})


def _read(content: bytes, unit: Unit) -> Values | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Single-threaded: an Arrow thread that frees memory while Python exits would abort the process.
        with pq.ParquetFile(pa.BufferReader(content), pre_buffer=False, page_checksum_verification=True) as file:
            table = file.read(use_threads=False)
        value = table["value"].to_numpy().reshape(unit.count, len(unit.task.metrics), len(unit.task.at))
        first = slice(None, None, len(unit.task.metrics) * len(unit.task.at))
        found = Values(
            {name: np.ascontiguousarray(value[:, place]) for place, name in enumerate(unit.task.metrics)},
            table["diverged_at"].to_numpy()[first],
            table["learned"].to_numpy()[first],
        )
        # A checksum does not detect forgery, so the contents must be plausible for these runs.
        kinds = [str(column.dtype) for column in (value, found.diverged_at, found.learned)]
        fits = kinds == ["float64", "int64", "bool"] and not np.isnan(value).any()
        fits = fits and found.diverged_at.min() >= -1 and found.diverged_at.max() <= unit.task.steps
        return found if fits and table.equals(_table(unit, found), check_metadata=True) else None
    except Exception:  # a damaged part raises Arrow's errors and Python's
        return None
