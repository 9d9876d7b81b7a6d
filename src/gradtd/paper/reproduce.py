"""Plans the jobs of the paper's figures, runs them or loads finished ones, judges the claims, and writes the tables."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.executors import Executor, n_threads, open_executor
from gradtd.core.files import Arrays
from gradtd.paper.criteria import Curves
from gradtd.paper.figures import (
    BESIDE,
    DIRECTIONS,
    EXTRA,
    FIGURES,
    GRID,
    LABELS,
    PAPER_PROBLEMS,
    SWEPT,
    TUNED,
    Figure,
    Line,
)
from gradtd.paper.jobs import RECORDED, Job, Kept, LineJob, Reproduction, Store, SweepJob, TheoryJob, best_alpha
from gradtd.paper.judge_claims import verdicts
from gradtd.paper.lambda_runs import lambda_jobs, lambda_table

Tuned = Mapping[str, Mapping[str, float]]
"""For each problem the best step-size of each algorithm."""


def chosen_figures(names: Iterable[str]) -> tuple[Figure, ...]:
    """The figures with these labels (with or without ``fig:``); by default all of them."""
    known = {figure.name: figure for figure in FIGURES}
    picked = [checks.known_name("figure", name.removeprefix("fig:"), known) for name in names]
    return tuple(figure for figure in FIGURES if not picked or figure.name in picked)


class Plan:
    """The jobs of some figures. With all figures, the runs that only claims use and those over lambda are included.

    A sweep takes a quarter of the runs.
    """

    def __init__(self, figures: tuple[Figure, ...], runs: int) -> None:
        self.runs, self.tuning_runs = runs, max(3, runs // 4)
        self.whole = len(figures) == len(FIGURES)
        self.figures = (*figures, *EXTRA) if self.whole else figures
        self.problems = [p for p in PAPER_PROBLEMS if any(f.problem == p for f in figures)]

    def sweeps(self, problem: str) -> dict[str, SweepJob]:
        """One job for every algorithm that is swept."""
        return {algorithm: SweepJob(problem, self.tuning_runs, algorithm) for algorithm in SWEPT}

    def lines(self, figure: Figure, reading: str, tuned: Tuned) -> dict[str, LineJob]:
        """The lines of a figure under a reading, by label."""
        best = tuned.get(figure.problem, {})
        return {line.label: self._line(figure.problem, line, reading, best) for line in (*figure.lines, *BESIDE)}

    def _line(self, problem: str, line: Line, reading: str, best: Mapping[str, float]) -> LineJob:
        hyper = dict(line.hyper)
        if hyper.get("alpha") == TUNED:
            hyper["alpha"] = best.get(line.algorithm, 1.0)
        if not line.has_readings:
            return LineJob(problem, self.runs, line.algorithm, hyper)
        if DIRECTIONS[reading] != "one":
            hyper["directions"] = DIRECTIONS[reading]
        return LineJob(problem, self.runs, line.algorithm, hyper, ratios=reading != "no-rho")

    def tuned_lines(self, problem: str, tuned: Tuned) -> dict[str, LineJob]:
        """Every swept algorithm with its best step-size, and the lines added to those of the paper."""
        best = tuned.get(problem, {})
        swept = {
            LABELS[a]: LineJob(problem, self.runs, a, {**hyper, "alpha": best.get(a, 1.0)})
            for a, hyper in SWEPT.items()
        }
        return swept | {line.label: LineJob(problem, self.runs, line.algorithm, line.hyper) for line in BESIDE}

    def theory(self, problem: str) -> TheoryJob:
        """The theory for the problem."""
        return TheoryJob(problem, self.runs)

    def jobs(self, tuned: Tuned) -> Iterator[Job]:
        """All jobs, some of them repeated; a step-size that is not yet tuned is 1."""
        for problem in self.problems:
            yield from self.sweeps(problem).values()
            yield from self.tuned_lines(problem, tuned).values()
            yield self.theory(problem)
            yield from lambda_jobs(problem, self.runs).values() if self.whole else ()
        for figure in self.figures:
            for reading in figure.readings:
                yield from self.lines(figure, reading, tuned).values()


Progress = Callable[[str, float, float], None]
"""Called with the job, the work done and the total work."""


def reproduce(
    names: Iterable[str],
    out: Path,
    *,
    runs: int = 100,
    threads: int | None = None,
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> tuple[Reproduction, Store]:
    """Reproduce some or all figures into a folder, or resume there.

    By default all figures are reproduced. Finished jobs in the folder are not run again. Jobs run on the workers of a
    Dask scheduler, if one is given, otherwise on threads.
    """
    figures = chosen_figures(names)
    runs = checks.whole_number("--runs", runs, 2)
    workers = n_threads(threads, "--threads")
    store = Store(out)
    with store.locked(), ExitStack() as stack:
        executor = None if scheduler is None else stack.enter_context(open_executor(scheduler=scheduler))
        found = run_all(figures, runs, Worker(store, workers, progress, executor))
        found.claims = verdicts(found.curves, found.papers_sweeps)
        write_tables(store, found)
    return found, store


def run_all(figures: tuple[Figure, ...], runs: int, worker: Worker) -> Reproduction:
    """Run every job of these figures, without verdicts or tables."""
    plan = Plan(figures, runs)
    worker.expect(plan.jobs({}))
    found = Reproduction(runs, RECORDED, figures)
    worker.ahead([job for problem in plan.problems for job in plan.sweeps(problem).values()])
    for problem in plan.problems:
        found.sweeps[problem] = {a: worker.do(job).arrays for a, job in plan.sweeps(problem).items()}
        found.tuned[problem] = {a: best_alpha(swept) for a, swept in found.sweeps[problem].items()}
    worker.expect(plan.jobs(found.tuned))
    worker.ahead(plan.jobs(found.tuned))
    for figure in plan.figures:
        for reading in figure.readings:
            found.curves[figure.label, reading] = _curves(plan, figure, reading, found.tuned, worker)
    for problem in plan.problems:
        lines = plan.tuned_lines(problem, found.tuned)
        found.tuned_curves[problem] = {label: worker.do(job).arrays["rmsve"] for label, job in lines.items()}
        found.theory[problem] = worker.do(plan.theory(problem))
        if plan.whole:
            found.lambdas[problem] = {key: worker.do(job) for key, job in lambda_jobs(problem, runs).items()}
    found.seconds, found.run_steps = sum(worker.seconds.values()), sum(job.run_steps for job in worker.seconds)
    found.threads = tuple(sorted(worker.used))
    return found


def _curves(plan: Plan, figure: Figure, reading: str, tuned: Tuned, worker: Worker) -> Curves:
    done = {label: worker.do(job).arrays for label, job in plan.lines(figure, reading, tuned).items()}
    metric = "rmsve_mu" if reading == "v-mu" else figure.metric
    values = {label: arrays[metric] for label, arrays in done.items()}
    diverged = {label: int((arrays["diverged_at"] >= 0).sum()) for label, arrays in done.items()}
    return Curves(RECORDED, values, diverged)


class Worker:
    """Runs jobs, or loads finished ones, and records time and progress.

    By default a job uses all threads. An executor runs many jobs at a time, each on one thread.
    """

    def __init__(
        self, store: Store, threads: int, progress: Progress | None = None, executor: Executor | None = None
    ) -> None:
        self.store, self.threads, self.progress, self.executor = store, threads, progress, executor
        self.total = self.done = 0.0
        self.seconds: dict[Job, float] = {}
        self.used: set[int] = set()

    def expect(self, jobs: Iterable[Job]) -> None:
        """Add to the total work of the progress bar."""
        self.total = sum(job.work for job in set(jobs))

    def ahead(self, jobs: Iterable[Job]) -> None:
        """Run unfinished jobs on the executor, if there is one."""
        if self.executor is None:
            return
        missing = [job for job in dict.fromkeys(jobs) if self.store.look(job.key()) is None]
        for number, kept in self.executor.each(timed, missing):
            self.store.keep(missing[number].key(), kept)
            self.do(missing[number])

    def do(self, job: Job) -> Kept:
        """The results of a job, loaded or computed."""
        kept = self.store.fetch(job.key(), lambda: timed(job, self.threads))
        if job not in self.seconds:
            self.seconds[job] = float(kept.told["seconds"])
            self.used.add(int(kept.told["threads"]))
            self.done += job.work
        if self.progress:
            self.progress(job.label, self.done, self.total)
        return kept


def timed(job: Job, threads: int = 1) -> Kept:
    """The results of a job, and the time it took."""
    began = time.perf_counter()
    arrays, told = job.compute(threads)
    return Kept(arrays, {**told, "seconds": time.perf_counter() - began, "threads": threads})


def write_tables(store: Store, found: Reproduction) -> None:
    """Write ``curves/*.parquet`` and ``claims.json``."""
    for figure in found.figures:
        store.write_table(f"curves/{figure.name}.parquet", tidy(_lines(figure, found), found.steps))
    for problem, sweeps in found.sweeps.items():
        store.write_table(f"curves/sensitivity_{problem}.parquet", _sweep_table(sweeps))
        tuned = {("A1", label): values for label, values in found.tuned_curves[problem].items()}
        store.write_table(f"curves/tuned_{problem}.parquet", tidy(tuned, found.steps))
    if found.lambdas:
        store.write_table("curves/lambda.parquet", lambda_table(found))
    store.write_text("claims.json", json.dumps(found.claims, indent=1))


def _lines(figure: Figure, found: Reproduction) -> dict[tuple[str, str], Floats]:
    """The curves of a figure by reading and label; a line is left out if a reading does not change it."""
    lines = {line.label: line for line in (*figure.lines, *BESIDE)}
    return {
        (reading, label): values
        for reading in figure.readings
        for label, values in found.curves[figure.label, reading].values.items()
        if reading in ("A1", "v-mu") or lines[label].has_readings
    }


def _sweep_table(sweeps: Mapping[str, Arrays]) -> dict[str, Any]:
    """One row per algorithm and step-size."""
    names = list(sweeps)
    columns = {name: np.concatenate([sweeps[a][name] for a in names]) for name in ("error", "area", "diverged")}
    algorithm = (names, np.repeat(np.arange(len(names)), len(GRID)))
    return {"algorithm": algorithm, "alpha": np.tile(np.array(GRID), len(names)), **columns}


def tidy(rows: Mapping[tuple[str, str], Floats], steps: Integers) -> dict[str, Any]:
    """One row per line, reading, run and recorded step; ``rows`` has the curves by reading and label."""
    readings, labels = list(dict.fromkeys(r for r, _ in rows)), list(dict.fromkeys(label for _, label in rows))
    runs, n = next(iter(rows.values())).shape
    size = runs * n
    return {
        "line": (labels, np.repeat([labels.index(label) for _, label in rows], size)),
        "reading": (readings, np.repeat([readings.index(r) for r, _ in rows], size)),
        "run": np.tile(np.repeat(np.arange(runs, dtype=np.int32), n), len(rows)),
        "step": np.tile(steps.astype(np.int32), runs * len(rows)),
        "value": np.concatenate([values.ravel() for values in rows.values()]),
    }
