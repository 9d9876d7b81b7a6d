"""Units of work: one setting and a block of seeds. What a unit comes to depends on nothing but itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from gradtd.compiled import engine
from gradtd.compiled.plan import Snapshots
from gradtd.core.algorithm import Algorithm
from gradtd.core.arrays import Floats, Integers
from gradtd.problems.base import Problem
from gradtd.problems.metrics import METRICS, cached_exact
from gradtd.problems.simulate import sampler
from gradtd.running.fingerprints import code_around, problem_digest
from gradtd.running.runs import attempt
from gradtd.running.session import Session
from gradtd.running.sweeps.grid import Setting

STEPS_OF_A_UNIT = 1_000_000
"""A unit takes about so many steps: some seconds at most, so that a kill costs little and overhead is small."""


@dataclass(frozen=True, eq=False)
class Task:
    """A setting, ready to run: the problem and the rule themselves, and what is measured when."""

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
        """All that the runs depend on but their seeds."""
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
    """What is sent to another process: what was given, nothing that was made of it here."""
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
        """The name of its part: a digest of all that its result depends on."""
        key = self.task.key | {"seed": self.seed, "first": self.first, "count": self.count}
        return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]

    @property
    def work(self) -> float:
        """How long it takes, roughly, in updates of TD."""
        return self.count * self.task.steps * self.task.session.updates_per_step

    def __str__(self) -> str:
        return f"{self.task.setting} seed {self.seed} runs {self.first} to {self.first + self.count - 1}"


@dataclass(frozen=True, eq=False)
class Values:
    """What runs came to.

    Parameters
    ----------
    metrics
        The values of each metric, of shape (runs, steps measured at).
    diverged_at
        The step at which each run was found diverged, -1 where it was not.
    learned
        Whether each run learned at all: its buffers may never have filled.
    """

    metrics: Mapping[str, Floats]
    diverged_at: Integers
    learned: Any

    @staticmethod
    def joined(blocks: Sequence[Values]) -> Values:
        """The runs of several blocks, one after the other."""
        return Values(
            {name: np.concatenate([b.metrics[name] for b in blocks]) for name in blocks[0].metrics},
            np.concatenate([b.diverged_at for b in blocks]),
            np.concatenate([b.learned for b in blocks]),
        )


def compute(unit: Unit) -> tuple[str, Values]:
    """Run a unit. Its digest comes along: elsewhere the code may be another."""
    task, start = unit.task, unit.task.problem.theta0
    draw, at = sampler(task.problem), np.array(task.at, np.int64)
    thetas = np.empty((unit.count, len(at), len(start)))
    diverged_at, learned = np.empty(unit.count, np.int64), np.ones(unit.count, np.bool_)
    for place in range(unit.count):
        seed = (unit.seed, unit.first + place)
        wanted = Snapshots(at, thetas[place], np.empty(len(at)))
        diverged_at[place], never = attempt(task.session, draw(task.steps, *seed), start, seed, wanted)
        learned[place] = never is None
    return unit.digest, Values(task.measured(thetas), diverged_at, learned)


def block_size(steps: int, size: int | None) -> int:
    """Runs of a unit: those asked for, or as many as make about a million steps."""
    return size or max(1, STEPS_OF_A_UNIT // steps)


def blocks(task: Task, seed: int, runs: int, size: int | None) -> Iterator[Unit]:
    """The units of a task. Where more runs are asked for later, full blocks stay what they are."""
    count = block_size(task.steps, size)
    for first in range(0, runs, count):
        yield Unit(task, seed, first, min(count, runs - first))


def tasks_of(
    settings: Sequence[Setting],
    problems: Mapping[str, Problem],
    rules: Mapping[str, Algorithm | str],
    **measured: Any,
) -> list[Task]:
    """Settings with their problems and rules; every one of them is set up once, so what is wrong is found here."""
    found = []
    for setting in settings:
        task = Task(setting, problems[setting.problem], rules[setting.algorithm], **measured)
        task.measured(task.problem.theta0[None, None])
        found.append(task)
    return found
