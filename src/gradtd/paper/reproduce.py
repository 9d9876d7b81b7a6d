"""Run what the paper's figures need, or fetch what is finished; judge the claims; leave the tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from gradtd.core import checks
from gradtd.core.executors import Executor, n_threads, open_executor
from gradtd.paper.criteria import Curves
from gradtd.paper.figures import Figure
from gradtd.paper.jobs import RECORDED, Job, best_alpha
from gradtd.paper.lambdas import lambda_jobs
from gradtd.paper.plan import Plan, Tuned, chosen_figures
from gradtd.paper.record import Reproduction
from gradtd.paper.store import Kept, Store
from gradtd.paper.tables import write_tables
from gradtd.paper.verdicts import verdicts

Progress = Callable[[str, float, float], None]
"""Called with what has been run, work done and work in all."""


def reproduce(
    names: Iterable[str],
    out: Path,
    *,
    runs: int = 100,
    threads: int | None = None,
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> tuple[Reproduction, Store]:
    """Run the reproduction of some figures, or of all, into a folder, or resume it there.

    Parameters
    ----------
    names
        Labels of figures, with or without ``fig:``; none for all of them.
    out
        The folder for results. What is finished there is not run again.
    runs
        Independent runs of every line.
    threads
        Threads, by default one per core.
    scheduler
        A Dask scheduler whose workers run the jobs, or ``local:2``; by default threads do.
    progress
        Called after every job.
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
    """Every job of these figures; nothing is judged or written yet."""
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
    """Runs jobs, or fetches what is finished, and keeps count of time and progress.

    By default a job has all threads. A executor takes many jobs at a time, each with one.
    """

    def __init__(
        self, store: Store, threads: int, progress: Progress | None = None, executor: Executor | None = None
    ) -> None:
        self.store, self.threads, self.progress, self.executor = store, threads, progress, executor
        self.total = self.done = 0.0
        self.seconds: dict[Job, float] = {}
        self.used: set[int] = set()

    def expect(self, jobs: Iterable[Job]) -> None:
        """Count the work to come, for the progress bar."""
        self.total = sum(job.work for job in set(jobs))

    def ahead(self, jobs: Iterable[Job]) -> None:
        """Let the executor, where there is one, run what is not finished."""
        if self.executor is None:
            return
        missing = [job for job in dict.fromkeys(jobs) if self.store.look(job.key()) is None]
        for number, kept in self.executor.each(timed, missing):
            self.store.keep(missing[number].key(), kept)
            self.do(missing[number])

    def do(self, job: Job) -> Kept:
        """The results of a job, as they were kept or as they are now."""
        kept = self.store.fetch(job.key(), lambda: timed(job, self.threads))
        if job not in self.seconds:
            self.seconds[job] = float(kept.told["seconds"])
            self.used.add(int(kept.told["threads"]))
            self.done += job.work
        if self.progress:
            self.progress(job.label, self.done, self.total)
        return kept


def timed(job: Job, threads: int = 1) -> Kept:
    """The results of a job, and how long it took."""
    began = time.perf_counter()
    arrays, told = job.compute(threads)
    return Kept(arrays, {**told, "seconds": time.perf_counter() - began, "threads": threads})
