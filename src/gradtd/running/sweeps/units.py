"""Units of work, one setting and a block of seeds each, and their files.

The result of a unit depends only on the unit. Every finished unit has one file with its own checksum, which is moved
into place when it is complete. If the checksum does not match, the file was damaged or changed: its unit runs again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.compiled import engine
from gradtd.compiled.plan import Snapshots
from gradtd.core.algorithm import Algorithm
from gradtd.core.arrays import Floats, Integers
from gradtd.core.files import Arrays, read_if_whole, write_arrays
from gradtd.problems.base import Problem
from gradtd.problems.metrics import METRICS, cached_exact
from gradtd.problems.simulate import sampler
from gradtd.running.fingerprints import code_around, problem_digest
from gradtd.running.runs import attempt
from gradtd.running.session import Session
from gradtd.running.sweeps.grid import Setting

STEPS_OF_A_UNIT = 1_000_000
"""Approximate number of steps per unit: a few seconds of work, so that a kill loses little and the overhead is
small."""


@dataclass(frozen=True, eq=False)
class Task:
    """A setting, ready to run: the problem, the rule, the metrics and the steps to measure at."""

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
        """Every metric of weights[run, snapshot, d], computed run by run, so that no number depends on the size of a
        block."""
        hyper = self.session.setup.hyper
        truth = cached_exact(self.problem, hyper.get("lam", 0.0), hyper.get("trace", "rho"))
        return {name: np.stack([METRICS[name](truth, own) for own in thetas]) for name in self.metrics}


def _fields(record: Any) -> dict[str, Any]:
    """The fields to pickle: only inputs, not derived objects."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


@lru_cache
def _code_of_metrics(names: tuple[str, ...]) -> str:
    return engine.fingerprint(*(METRICS[name] for name in names))


@dataclass(frozen=True, eq=False)
class Unit:
    """A block of runs of a task with one seed, from run ``first`` on."""

    task: Task
    seed: int
    first: int
    count: int

    def __getstate__(self) -> dict[str, Any]:
        return _fields(self)

    @cached_property
    def digest(self) -> str:
        """The name of the unit's file: a digest of everything that its result depends on."""
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
    """The outcomes of runs."""

    metrics: Mapping[str, Floats]  # the values of each metric, of shape (runs, steps measured at)
    diverged_at: Integers  # the step at which each run diverged, -1 if it did not
    learned: Any  # whether each run made any update; its buffers may never have filled

    @staticmethod
    def joined(blocks: Sequence[Values]) -> Values:
        """Concatenate the runs of several blocks."""
        return Values(
            {name: np.concatenate([b.metrics[name] for b in blocks]) for name in blocks[0].metrics},
            np.concatenate([b.diverged_at for b in blocks]),
            np.concatenate([b.learned for b in blocks]),
        )


def compute(unit: Unit) -> tuple[str, Values]:
    """Run a unit. Its digest is returned with it, because a worker may have different code."""
    task, start = unit.task, unit.task.problem.theta0
    draw, at = sampler(task.problem), np.array(task.at, np.int64)
    thetas = np.empty((unit.count, len(at), len(start)))
    diverged_at, learned = np.empty(unit.count, np.int64), np.ones(unit.count, np.bool_)
    for place in range(unit.count):
        # Seeds belong to runs, not to units, so blocks of any size give the same bytes.
        seed = (unit.seed, unit.first + place)
        wanted = Snapshots(at, thetas[place], np.empty(len(at)))
        diverged_at[place], never = attempt(task.session, draw(task.steps, *seed), start, seed, wanted)
        learned[place] = never is None
    return unit.digest, Values(task.measured(thetas), diverged_at, learned)


def block_size(steps: int, size: int | None) -> int:
    """Number of runs per unit: as requested, or as many as make about a million steps."""
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
    """Tasks for all settings; each is set up once here, so that errors appear early."""
    found = []
    for setting in settings:
        task = Task(setting, problems[setting.problem], rules[setting.algorithm], **measured)
        task.measured(task.problem.theta0[None, None])
        found.append(task)
    return found


class Parts:
    """The finished units of a sweep, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def look(self, unit: Unit) -> Values | None:
        """The outcome of a unit, or None if it is unfinished or its file is damaged."""
        found = read_if_whole(self.file_of(unit))
        return None if found is None else _restored(unit, *found)

    def keep(self, unit: Unit, values: Values) -> None:
        """Save the outcome of a unit."""
        self.folder.mkdir(exist_ok=True)
        value = np.stack([*values.metrics.values()], axis=1)  # by run, metric and step
        own: Arrays = {"value": value, "diverged_at": values.diverged_at, "learned": values.learned}
        write_arrays(self.file_of(unit), own, {"unit": unit.digest})

    def file_of(self, unit: Unit) -> Path:
        return self.folder / f"{unit.digest}.npz"


def _restored(unit: Unit, header: Mapping[str, Any], arrays: Arrays) -> Values | None:
    """The values in a unit's file, or None unless they are plausible for its runs, since a checksum can be forged."""
    runs, task = unit.count, unit.task
    wanted = {
        "value": ("float64", (runs, len(task.metrics), len(task.at))),
        "diverged_at": ("int64", (runs,)),
        "learned": ("bool", (runs,)),
    }
    if header.get("unit") != unit.digest or {k: (str(a.dtype), a.shape) for k, a in arrays.items()} != wanted:
        return None
    value, diverged_at = arrays["value"], arrays["diverged_at"]
    if np.isnan(value).any() or diverged_at.min() < -1 or diverged_at.max() > task.steps:
        return None
    metrics = {name: np.ascontiguousarray(value[:, place]) for place, name in enumerate(task.metrics)}
    return Values(metrics, diverged_at, arrays["learned"])
