"""Which jobs the chosen figures need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gradtd.core import checks
from gradtd.paper.figures import (
    BESIDE,
    DIRECTIONS,
    EXTRA,
    FIGURES,
    LABELS,
    PAPER_PROBLEMS,
    SWEPT,
    TUNED,
    Figure,
    Line,
)
from gradtd.paper.jobs import Job, LineJob, SweepJob, TheoryJob
from gradtd.paper.lambdas import lambda_jobs

Tuned = Mapping[str, Mapping[str, float]]
"""For each problem the best step-size of each algorithm."""


def chosen_figures(names: Iterable[str]) -> tuple[Figure, ...]:
    """The figures with these labels (with or without ``fig:``); all of them where none is named."""
    known = {figure.name: figure for figure in FIGURES}
    picked = [checks.known_name("figure", name.removeprefix("fig:"), known) for name in names]
    return tuple(figure for figure in FIGURES if not picked or figure.name in picked)


class Plan:
    """The jobs of some figures.

    Parameters
    ----------
    figures
        The figures that were asked for. All of them bring the runs that only claims use, and those over lambda.
    runs
        Runs of every line. A sweep takes a quarter of them.
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
        """The lines of a figure under a reading, by their labels."""
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
        """Every swept algorithm with its best step-size, and what stands beside the paper's lines."""
        best = tuned.get(problem, {})
        swept = {
            LABELS[a]: LineJob(problem, self.runs, a, {**hyper, "alpha": best.get(a, 1.0)})
            for a, hyper in SWEPT.items()
        }
        return swept | {line.label: LineJob(problem, self.runs, line.algorithm, line.hyper) for line in BESIDE}

    def theory(self, problem: str) -> TheoryJob:
        """What theory says of the problem."""
        return TheoryJob(problem, self.runs)

    def jobs(self, tuned: Tuned) -> Iterator[Job]:
        """All jobs, some of them more than once; a step-size that is not tuned yet is 1."""
        for problem in self.problems:
            yield from self.sweeps(problem).values()
            yield from self.tuned_lines(problem, tuned).values()
            yield self.theory(problem)
            yield from lambda_jobs(problem, self.runs).values() if self.whole else ()
        for figure in self.figures:
            for reading in figure.readings:
                yield from self.lines(figure, reading, tuned).values()
