"""Run what the paper's figures need, judge its claims, and leave figures, tables and one page."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.compiled import engine
from gradtd.compiled.plan import room_for
from gradtd.compiled.splits import Split
from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.files import Arrays
from gradtd.paper.claims import CLAIMS, Claim
from gradtd.paper.criteria import Curves, Outcome
from gradtd.paper.figures import (
    BESIDE,
    DIRECTIONS,
    EVERY,
    EXTRA,
    FIGURES,
    GRID,
    LABELS,
    PAPER_PROBLEMS,
    STEPS,
    SWEPT,
    TUNED,
    Figure,
)
from gradtd.paper.store import Store, problem_digest
from gradtd.problems import as_problem
from gradtd.problems.base import Problem
from gradtd.problems.exact import Exact, exact
from gradtd.problems.metrics import rmspbe, rmsve
from gradtd.problems.simulate import outcome_tables, sampler, walk
from gradtd.running.result import measure
from gradtd.running.runs import run, sweep
from gradtd.running.session import Session

SEED, TUNING_SEED = 0, 10_000
Progress = Callable[[str, float, float], None]
"""Called with what is being run, work done and work in all."""


@dataclass(frozen=True)
class Job:
    """One curve to run: both metrics of one line on one problem."""

    problem: str
    algorithm: str
    hyper: Mapping[str, Any]
    reading: str = "A1"

    @property
    def label(self) -> str:
        return f"{LABELS.get(self.algorithm, self.algorithm)} on {self.problem}"

    @property
    def weight(self) -> float:
        """Work a run-step, roughly, in batch entries."""
        default = 32 if self.algorithm == "impression_gtd" else 2
        batch = float(self.hyper.get("batch_size", default)) + 2
        return batch * (2 if self.algorithm == "impression_gtd" and self.reading in ("S2", "S-avg") else 1)


@dataclass
class Reproduction:
    """What was found: everything that the report shows."""

    runs: int
    steps: Integers
    figures: tuple[Figure, ...]
    curves: dict[tuple[str, str], Curves] = field(default_factory=dict)
    sweeps: dict[str, dict[str, Arrays]] = field(default_factory=dict)
    tuned: dict[str, dict[str, float]] = field(default_factory=dict)
    tuned_curves: dict[str, dict[str, Floats]] = field(default_factory=dict)
    claims: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    ideal_seconds: float = 0.0
    run_steps: float = 0.0
    threads: int = 1


def chosen_figures(names: Iterable[str]) -> tuple[Figure, ...]:
    """The figures with these labels (with or without ``fig:``); all of them where none is named."""
    known = {figure.name: figure for figure in FIGURES}
    picked = [checks.known_name("figure", name.removeprefix("fig:"), known) for name in names]
    return tuple(figure for figure in FIGURES if not picked or figure.name in picked)


def reproduce(
    names: Iterable[str], out: Path, *, runs: int = 100, threads: int, progress: Progress | None = None
) -> tuple[Reproduction, Store]:
    """Run (or resume) the reproduction of some figures, or of all, into a folder."""
    figures = chosen_figures(names)
    runs = checks.whole_number("--runs", runs, 2)
    store = Store(out)
    worker = _Worker(store, runs, threads, progress)
    complete = len(figures) == len(FIGURES)
    problems = [p for p in PAPER_PROBLEMS if any(f.problem == p for f in figures)]
    extras = EXTRA if complete else ()
    worker.plan(problems, (*figures, *extras))
    found = Reproduction(runs, worker.at, figures, threads=threads)
    for problem in problems:
        found.sweeps[problem] = {a: worker.sweep(problem, a) for a in SWEPT}
        found.tuned[problem] = {a: best_alpha(s) for a, s in found.sweeps[problem].items()}
    for figure in (*figures, *extras):
        for reading in figure.readings:
            found.curves[figure.label, reading] = worker.curves(figure, reading, found.tuned[figure.problem])
    for problem in problems:
        found.tuned_curves[problem] = {
            LABELS[a]: worker.run(Job(problem, a, {**SWEPT[a], "alpha": alpha}))["rmsve"]
            for a, alpha in found.tuned[problem].items()
        }
        for line in BESIDE:
            found.tuned_curves[problem][line.label] = worker.run(Job(problem, line.algorithm, line.hyper))["rmsve"]
    found.claims = [verdict(claim, found) for claim in CLAIMS if _testable(claim, found)]
    found.seconds, found.ideal_seconds, found.run_steps = worker.seconds, worker.ideal_seconds, worker.run_steps
    _write_tables(store, found)
    return found, store


class _Worker:
    """Runs jobs, or fetches what is finished, and keeps count of time and progress."""

    def __init__(self, store: Store, runs: int, threads: int, progress: Progress | None) -> None:
        self.store, self.runs, self.threads, self.progress = store, runs, threads, progress
        self.tuning_runs = max(3, runs // 4)
        self.at = np.arange(0, STEPS + 1, EVERY)
        self.seconds = self.ideal_seconds = self.run_steps = self.done = 0.0
        self.total = 1.0
        self.seen: set[str] = set()

    def plan(self, problems: list[str], figures: tuple[Figure, ...]) -> None:
        """Count the work, for the progress bar."""
        jobs = {json.dumps([j.problem, j.algorithm, sorted(j.hyper.items()), j.reading], default=str): j
                for f in figures for r in f.readings for j in self._jobs(f, r, {}).values()}  # fmt: skip
        weight = sum(j.weight for j in jobs.values()) * self.runs
        for problem in problems:
            for algorithm, hyper in SWEPT.items():
                job = Job(problem, algorithm, hyper)
                weight += job.weight * (self.tuning_runs * len(GRID) + self.runs)
        self.total = weight

    def _jobs(self, figure: Figure, reading: str, tuned: Mapping[str, float]) -> dict[str, Job]:
        jobs = {}
        for line in (*figure.lines, *BESIDE):
            hyper = dict(line.hyper)
            if hyper.get("alpha") == TUNED:
                hyper["alpha"] = tuned.get(line.algorithm, 1.0)
            own = reading if line.has_readings and reading != "v-mu" else "A1"
            if line.has_readings and DIRECTIONS[own] != "one":
                hyper["directions"] = DIRECTIONS[own]
            jobs[line.label] = Job(figure.problem, line.algorithm, hyper, own)
        return jobs

    def curves(self, figure: Figure, reading: str, tuned: Mapping[str, float]) -> Curves:
        found = {label: self.run(job) for label, job in self._jobs(figure, reading, tuned).items()}
        metric = "rmsve_mu" if reading == "v-mu" else figure.metric
        values = {label: arrays[metric] for label, arrays in found.items()}
        diverged = {label: int((arrays["diverged_at"] >= 0).sum()) for label, arrays in found.items()}
        return Curves(self.at, values, diverged)

    def run(self, job: Job) -> Arrays:
        problem = problem_of(job)
        key = self._key(job, problem, runs=self.runs, seed=SEED, every=EVERY)
        arrays = self.store.fetch(key, lambda: self._compute(job, problem))
        self._count(job, self.runs, arrays, key)
        return arrays

    def _compute(self, job: Job, problem: Problem) -> Arrays:
        began = time.perf_counter()
        result = run(
            problem, job.algorithm, runs=self.runs, steps=STEPS, seed=SEED, snapshots=self.at, threads=self.threads,
            **job.hyper,
        )  # fmt: skip
        truth = exact(job.problem)
        arrays = {
            "rmsve": rmsve(truth, result.thetas),
            "rmspbe": rmspbe(truth, result.thetas),
            "rmsve_mu": rmsve(_behaviours_values(job.problem), result.thetas),
            "diverged_at": result.diverged_at,
        }
        seconds = time.perf_counter() - began
        ideal = self._kernel_seconds(job, problem) * self.runs / self.threads
        return arrays | {"seconds": np.array([seconds, ideal])}

    def _kernel_seconds(self, job: Job, problem: Problem) -> float:
        """Seconds of one run of the compiled loop alone, on data that are there already."""
        session = Session(job.algorithm, job.hyper, n_steps=STEPS, block=problem.block)
        stream, at = sampler(problem)(STEPS, SEED, 0), np.array([STEPS])
        best = np.inf
        for _ in range(3):
            wanted = room_for(at, problem.n_features)
            began = time.perf_counter()
            session.over(stream, problem.theta0, (SEED, 0), wanted)
            best = min(best, time.perf_counter() - began)
        return best

    def sweep(self, problem: str, algorithm: str) -> Arrays:
        """Errors of one algorithm over the grid of step-sizes, on seeds that no figure uses."""
        job = Job(problem, algorithm, SWEPT[algorithm])
        task = as_problem(problem)
        setting = replace(job, hyper={**job.hyper, "alpha": GRID[0]})
        key = self._key(setting, task, runs=self.tuning_runs, seed=TUNING_SEED, grid=list(GRID))
        arrays = self.store.fetch(key, lambda: self._compute_sweep(job, task))
        self._count(job, self.tuning_runs * len(GRID), arrays, key)
        return arrays

    def _compute_sweep(self, job: Job, problem: Problem) -> Arrays:
        began = time.perf_counter()
        results = sweep(
            problem, job.algorithm, {"alpha": GRID}, runs=self.tuning_runs, steps=STEPS, seed=TUNING_SEED,
            snapshots=self.at, threads=self.threads, **job.hyper,
        )  # fmt: skip
        ceiling = 2 * float(rmsve(exact(problem), problem.theta0))
        values = np.minimum(np.array([measure(r, "rmsve") for r in results]), ceiling)
        seconds = time.perf_counter() - began
        setting = replace(job, hyper={**job.hyper, "alpha": GRID[0]})
        ideal = self._kernel_seconds(setting, problem) * self.tuning_runs * len(GRID) / self.threads
        return {
            "alpha": np.array(GRID),
            "error": values[:, :, self.at > 0.9 * STEPS].mean(axis=(1, 2)),
            "area": values.mean(axis=(1, 2)),
            "diverged": np.array([r.diverged for r in results]),
            "ceiling": np.array([ceiling]),
            "seconds": np.array([seconds, ideal]),
        }

    def _key(self, job: Job, problem: Problem, **more: Any) -> dict[str, Any]:
        session = Session(job.algorithm, job.hyper, n_steps=STEPS, block=problem.block)
        return {
            "problem": problem_digest(problem),
            "measured_on": job.problem,
            "algorithm": job.algorithm,
            "hyper": dict(sorted(session.setup.hyper.items())),
            "code": [session.code, code_around()],
            "steps": STEPS,
            **more,
        }

    def _count(self, job: Job, runs: int, arrays: Arrays, key: Mapping[str, Any]) -> None:
        label = json.dumps(key, sort_keys=True)
        if label not in self.seen:
            self.seen.add(label)
            self.done += job.weight * runs
            self.run_steps += runs * STEPS
            self.seconds += float(arrays["seconds"][0])
            self.ideal_seconds += float(arrays["seconds"][1])
        if self.progress:
            self.progress(job.label, self.done, self.total)


@lru_cache
def code_around() -> str:
    """A digest of the code around the rules: simulator, buffers, exact solutions, metrics."""
    return engine.fingerprint(walk, outcome_tables, Split.buffers, Session.over, exact, rmsve, rmspbe)


def problem_of(job: Job) -> Problem:
    """The problem whose data a job learns from; without ratios it is the same with the behaviour for target."""
    problem = as_problem(job.problem)
    return replace(problem, target=problem.behaviour) if job.reading == "no-rho" else problem


@lru_cache
def _behaviours_values(problem: str) -> Exact:
    """The problem with the behaviour for target: its values are the behaviour's."""
    task = as_problem(problem)
    return exact(replace(task, target=task.behaviour))


def best_alpha(swept: Arrays) -> float:
    """The step-size with the least mean error over all steps, among those that never diverged."""
    area = np.where(swept["diverged"] == 0, swept["area"], np.inf)
    return float(swept["alpha"][int(area.argmin())])


def _testable(claim: Claim, found: Reproduction) -> bool:
    there = {label for label, _ in found.curves}
    return set(claim.figures) <= there if claim.parts else set(found.sweeps) == set(PAPER_PROBLEMS)


def verdict(claim: Claim, found: Reproduction) -> dict[str, Any]:
    """Judge a claim under every reading that its figures have."""
    if claim.sweep is not None:
        outcomes = {"A1": claim.sweep(found.sweeps)}
    else:
        shared = [{r for label, r in found.curves if label == figure} for figure in claim.figures]
        readings = [r for r in DIRECTIONS if all(r in each or each == {"A1"} for each in shared)]
        outcomes = {r: claim.judge(_under(claim, found, r)) for r in readings}
        outcomes = _distinct(outcomes)
    holding = [r for r, outcome in outcomes.items() if outcome.holds]
    if outcomes["A1"].holds:
        word = "reproduces"
    elif holding:
        word = f"reproduces under reading {holding[0]}"
    elif outcomes["A1"].holds is None:
        word = "undecided"
    else:
        word = "does not reproduce"
    explanation = ""
    if not outcomes["A1"].holds and claim.explain is not None:
        explanation = claim.explain(_under(claim, found, "A1"))
    return {
        "id": claim.id,
        "statement": claim.statement,
        "figures": list(claim.figures),
        "verdict": word,
        "readings": {r: {"holds": outcome.holds, "measured": outcome.measured} for r, outcome in outcomes.items()},
        "explanation": explanation,
    }


def _under(claim: Claim, found: Reproduction, reading: str) -> dict[str, Curves]:
    return {f: found.curves.get((f, reading), found.curves[f, "A1"]) for f in claim.figures}


def _distinct(outcomes: dict[str, Outcome]) -> dict[str, Outcome]:
    """The first reading, and those under which something else was measured."""
    first = outcomes["A1"]
    return {r: o for r, o in outcomes.items() if r == "A1" or o.measured != first.measured}


def _write_tables(store: Store, found: Reproduction) -> None:
    for figure in found.figures:
        store.write_table(f"curves/{figure.name}.parquet", _tidy(figure, found))
    for problem, by_algorithm in found.sweeps.items():
        names = list(by_algorithm)
        store.write_table(
            f"curves/sensitivity_{problem}.parquet",
            {
                "algorithm": (names, np.repeat(np.arange(len(names)), len(GRID))),
                "alpha": np.tile(np.array(GRID), len(names)),
                "error": np.concatenate([by_algorithm[a]["error"] for a in names]),
                "area": np.concatenate([by_algorithm[a]["area"] for a in names]),
                "diverged": np.concatenate([by_algorithm[a]["diverged"] for a in names]),
            },
        )
        tuned = found.tuned_curves[problem]
        store.write_table(
            f"curves/tuned_{problem}.parquet", _tidy_curves({("A1", k): v for k, v in tuned.items()}, found)
        )
    store.write_text("claims.json", json.dumps(found.claims, indent=1))


def _tidy(figure: Figure, found: Reproduction) -> dict[str, Any]:
    rows = {}
    for reading in figure.readings:
        for label, values in found.curves[figure.label, reading].values.items():
            line = next(line for line in (*figure.lines, *BESIDE) if line.label == label)
            if reading in ("A1", "v-mu") or line.has_readings:
                rows[reading, label] = values
    return _tidy_curves(rows, found)


def _tidy_curves(rows: Mapping[tuple[str, str], Floats], found: Reproduction) -> dict[str, Any]:
    """One row a line, reading, run and recorded step."""
    readings, labels = list(dict.fromkeys(r for r, _ in rows)), list(dict.fromkeys(label for _, label in rows))
    runs, n = next(iter(rows.values())).shape
    size = runs * n
    return {
        "line": (labels, np.repeat([labels.index(label) for _, label in rows], size)),
        "reading": (readings, np.repeat([readings.index(r) for r, _ in rows], size)),
        "run": np.tile(np.repeat(np.arange(runs, dtype=np.int32), n), len(rows)),
        "step": np.tile(found.steps.astype(np.int32), runs * len(rows)),
        "value": np.concatenate([values.ravel() for values in rows.values()]),
    }


__all__ = ["Reproduction", "best_alpha", "chosen_figures", "reproduce", "verdict"]
