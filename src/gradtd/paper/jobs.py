"""The three kinds of jobs that a reproduction runs: a line of a figure, a sweep of step-sizes, a problem's theory.

The key of a job contains everything its results depend on: settings, seeds, the problem's arrays and the code. A
`Store` keeps the results under a digest of that key, so a finished job does not run again. Nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import gradtd.theory
from gradtd.core.arrays import Floats, Integers
from gradtd.core.files import Arrays, read_if_whole, write_arrays
from gradtd.core.results_folder import ResultsFolder
from gradtd.paper.criteria import Curves
from gradtd.paper.figures import EVERY, GRID, LABELS, PUBLISHED, RIVALS, STEPS, SWEPT, Figure
from gradtd.problems import as_problem
from gradtd.problems.base import Problem
from gradtd.problems.exact import Exact, exact
from gradtd.problems.metrics import rmspbe, rmsve
from gradtd.running.fingerprints import AROUND as AROUND
from gradtd.running.fingerprints import code_around, problem_digest
from gradtd.running.result import measure
from gradtd.running.runs import run, sweep
from gradtd.running.session import Session
from gradtd.theory import summary
from gradtd.theory.curves import ALGORITHM, LONGEST, theory_curves, trajectory_settings

SEED, TUNING_SEED = 0, 10_000
RECORDED = np.arange(0, STEPS + 1, EVERY)
"""The steps after which errors are measured."""
NUMPY = 10
"""Independent draws for the theory are simulated in NumPy, which is slower than the compiled loop by about this
factor."""


@dataclass(frozen=True)
class Job(ABC):
    """A unit of work on one problem, with a number of runs."""

    problem: str
    runs: int

    @property
    @abstractmethod
    def label(self) -> str:
        """The label of the progress bar."""

    @property
    @abstractmethod
    def session(self) -> Session:
        """The rule with the settings of the job, or with one of them if there are several."""

    @property
    @abstractmethod
    def run_steps(self) -> int:
        """Steps of the paper's experiment, over all runs."""

    @abstractmethod
    def key(self) -> dict[str, Any]:
        """Everything on which the results depend."""

    @abstractmethod
    def compute(self, threads: int) -> Kept:
        """Run it."""

    @property
    def work(self) -> float:
        """Approximate cost in TD updates, for the progress bar."""
        return self.run_steps * self.session.updates_per_step

    @property
    def task(self) -> Problem:
        """The problem whose data the job learns from."""
        return as_problem(self.problem)

    def _tuned(self, algorithm: str, runs: int, recorded: Integers, **how: Any) -> Arrays:
        """Errors of every step-size of the grid on the tuning seed; diverged runs count with twice the error of 0."""
        how |= {"steps": int(recorded[-1]), "snapshots": recorded, "seed": TUNING_SEED}
        results = sweep(self.task, algorithm, {"alpha": GRID}, runs=runs, **how)
        ceiling = 2 * float(rmsve(exact(self.task), self.task.theta0))
        values = np.minimum(np.array([measure(r, "rmsve") for r in results]), ceiling)
        return {
            "alpha": np.array(GRID),
            "error": values[:, :, recorded > 0.9 * recorded[-1]].mean(axis=(1, 2)),
            "area": values.mean(axis=(1, 2)),
            "diverged": np.array([r.diverged for r in results]),
        }

    def _key(self, **more: Any) -> dict[str, Any]:
        session = self.session
        return {
            "job": type(self).__name__,
            "problem": problem_digest(self.task),
            "measured_on": self.problem,
            "algorithm": session.rule.name,
            "hyper": dict(sorted(session.setup.hyper.items())),
            "code": [session.code, code_around()],
            "steps": STEPS,
            "runs": self.runs,
            **more,
        }


@dataclass(frozen=True)
class LineJob(Job):
    """One line of a figure: the errors of a rule in every run.

    Without ``ratios`` the behaviour is also the target policy; errors are measured on the original problem.
    """

    algorithm: str
    hyper: Mapping[str, Any] = field(hash=False)
    ratios: bool = True

    @property
    def label(self) -> str:
        return _label(self.algorithm, self.problem)

    @property
    def task(self) -> Problem:
        return as_problem(self.problem) if self.ratios else _behaviours_own(self.problem)

    @property
    def session(self) -> Session:
        return Session(self.algorithm, self.hyper, n_steps=STEPS, block=self.task.block)

    @property
    def run_steps(self) -> int:
        return self.runs * STEPS

    def key(self) -> dict[str, Any]:
        return self._key(seed=SEED, every=EVERY)

    def compute(self, threads: int) -> Kept:
        result = run(
            self.task,
            self.algorithm,
            runs=self.runs,
            steps=STEPS,
            seed=SEED,
            snapshots=RECORDED,
            threads=threads,
            **self.hyper,
        )
        truth = exact(self.problem)
        arrays: Arrays = {
            "rmsve": rmsve(truth, result.thetas),
            "rmspbe": rmspbe(truth, result.thetas),
            "rmsve_mu": rmsve(_behaviours_values(self.problem), result.thetas),
            "diverged_at": result.diverged_at,
        }
        return Kept(arrays)


@dataclass(frozen=True)
class SweepJob(Job):
    """The errors of one algorithm over the grid of step-sizes, on seeds that no figure uses."""

    algorithm: str

    @property
    def label(self) -> str:
        return f"step-sizes of {_label(self.algorithm, self.problem)}"

    @property
    def session(self) -> Session:
        hyper = {**SWEPT[self.algorithm], "alpha": GRID[0]}
        return Session(self.algorithm, hyper, n_steps=STEPS, block=self.task.block)

    @property
    def run_steps(self) -> int:
        return self.runs * STEPS * len(GRID)

    def key(self) -> dict[str, Any]:
        return self._key(seed=TUNING_SEED, grid=list(GRID))

    def compute(self, threads: int) -> Kept:
        return Kept(self._tuned(self.algorithm, self.runs, RECORDED, threads=threads, **SWEPT[self.algorithm]))


@dataclass(frozen=True)
class TheoryJob(Job):
    """The theory for the published setting of Impression GTD: a summary and curves."""

    @property
    def label(self) -> str:
        return f"theory of {self.problem}"

    @property
    def session(self) -> Session:
        alpha, m = PUBLISHED[self.problem]
        return Session(ALGORITHM, trajectory_settings(alpha, m), n_steps=STEPS, block=self.task.block)

    @property
    def run_steps(self) -> int:
        return 0

    @property
    def work(self) -> float:
        return self.runs * LONGEST * (1 + NUMPY) * self.session.updates_per_step

    def key(self) -> dict[str, Any]:
        return self._key(theory=theory_code())

    def compute(self, threads: int) -> Kept:
        alpha, m = PUBLISHED[self.problem]
        told = summary(self.problem, m, alpha, t=STEPS)
        return Kept(theory_curves(self.problem, told, None, self.runs, threads=threads), told)


def best_alpha(swept: Arrays) -> float:
    """The step-size with the least mean error over all steps, among those that never diverged."""
    area = np.where(swept["diverged"] == 0, swept["area"], np.inf)
    return float(swept["alpha"][int(area.argmin())])


def _label(algorithm: str, problem: str) -> str:
    return f"{LABELS.get(algorithm, algorithm)} on {problem}"


def _behaviours_own(problem: str) -> Problem:
    task = as_problem(problem)
    return replace(task, target=task.behaviour)


@lru_cache
def _behaviours_values(problem: str) -> Exact:
    """The exact solution whose values are the behaviour's."""
    return exact(_behaviours_own(problem))


@lru_cache
def theory_code() -> str:
    """A digest of the theory's files.

    Most of the theory is in methods, which a fingerprint of functions does not cover. The plotting module is left out.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(gradtd.theory.__file__).parent.glob("*.py")):
        if path.name != "picture.py":
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:24]


FORMAT = 1


class Kept(NamedTuple):
    """The results of a job: its arrays, and everything else as JSON."""

    arrays: Arrays
    told: Mapping[str, Any] = {}


class Store(ResultsFolder):
    """A results folder with finished jobs in ``kept``; the other files are for readers."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "gradtd reproduce", FORMAT)
        self.kept = self.path(".kept")
        self.kept.mkdir(exist_ok=True)

    def fetch(self, key: Mapping[str, Any], compute: Callable[[], Kept]) -> Kept:
        """The results under a key; computed and stored if missing."""
        found = self.look(key)
        return found if found is not None else self.keep(key, compute())

    def look(self, key: Mapping[str, Any]) -> Kept | None:
        """The results under a key, or None if missing or incomplete."""
        found = read_if_whole(self.file_of(key))
        return None if found is None else Kept(arrays=found[1], told=found[0])

    def keep(self, key: Mapping[str, Any], made: Kept) -> Kept:
        """Store results under a key."""
        write_arrays(self.file_of(key), made.arrays, made.told)
        return made

    def file_of(self, key: Mapping[str, Any]) -> Path:
        """The file with the results for this key."""
        return self.kept / f"{hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]}.npz"


@dataclass
class Reproduction:
    """Curves, sweeps, theory and verdicts of some figures."""

    runs: int
    steps: Integers
    figures: tuple[Figure, ...]
    """``runs``, ``steps`` and ``figures``: the number of runs per line, the steps at which errors were measured, and
    the requested figures."""
    curves: dict[tuple[str, str], Curves] = field(default_factory=dict)
    """The lines of a figure under one reading, by the label of the figure and the reading."""
    sweeps: dict[str, dict[str, Arrays]] = field(default_factory=dict)
    tuned: dict[str, dict[str, float]] = field(default_factory=dict)
    tuned_curves: dict[str, dict[str, Floats]] = field(default_factory=dict)
    """``sweeps``, ``tuned`` and ``tuned_curves``, for each problem: the errors over the grid of step-sizes, the best
    step-size of each algorithm, and the RMSVE of every algorithm with it."""
    theory: dict[str, Kept] = field(default_factory=dict)
    """For each problem: the summary of `gradtd.theory` (``told``) and the curves of its picture (``arrays``)."""
    lambdas: dict[str, dict[tuple[str, float], Kept]] = field(default_factory=dict)
    """For each problem, if all figures were requested: every family at every lambda."""
    claims: list[dict[str, Any]] = field(default_factory=list)
    """The verdicts, in the wording of `gradtd.paper.judge_claims.verdict`."""
    seconds: float = 0.0
    run_steps: int = 0
    threads: tuple[int, ...] = ()
    """``seconds``, ``run_steps`` and ``threads``: wall-clock seconds of all jobs, steps of the experiment over all
    runs, and the numbers of threads used."""

    @property
    def papers_sweeps(self) -> dict[str, dict[str, Arrays]]:
        """The sweeps of the paper's algorithms."""
        return {
            problem: {name: swept for name, swept in sweeps.items() if name not in RIVALS}
            for problem, sweeps in self.sweeps.items()
        }
