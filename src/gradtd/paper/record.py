"""What a reproduction found: all that the tables and the page show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gradtd.core.arrays import Floats, Integers
from gradtd.core.files import Arrays
from gradtd.paper.criteria import Curves
from gradtd.paper.figures import RIVALS, Figure
from gradtd.paper.store import Kept


@dataclass
class Reproduction:
    """Curves, sweeps, theory and verdicts of some figures.

    Parameters
    ----------
    runs, steps, figures
        Runs of every line, the steps at which errors were measured, and the figures that were asked for.
    curves
        The lines of a figure under one reading, by the label of the figure and the reading.
    sweeps, tuned, tuned_curves
        For each problem: the errors over the grid of step-sizes, the best step-size of each algorithm, and the RMSVE of
        every algorithm with it.
    theory
        For each problem: the summary of `gradtd.theory` (``told``) and the curves of its picture (``arrays``).
    lambdas
        For each problem, where all figures were asked for: every family at every lambda.
    claims
        The verdicts, as `gradtd.paper.verdicts.verdict` words them.
    seconds, run_steps, threads
        Wall-clock seconds of all jobs, steps of the experiment over all runs, and the numbers of threads used.
    """

    runs: int
    steps: Integers
    figures: tuple[Figure, ...]
    curves: dict[tuple[str, str], Curves] = field(default_factory=dict)
    sweeps: dict[str, dict[str, Arrays]] = field(default_factory=dict)
    tuned: dict[str, dict[str, float]] = field(default_factory=dict)
    tuned_curves: dict[str, dict[str, Floats]] = field(default_factory=dict)
    theory: dict[str, Kept] = field(default_factory=dict)
    lambdas: dict[str, dict[tuple[str, float], Kept]] = field(default_factory=dict)
    claims: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    run_steps: int = 0
    threads: tuple[int, ...] = ()

    @property
    def papers_sweeps(self) -> dict[str, dict[str, Arrays]]:
        """The sweeps of the algorithms that the paper speaks of."""
        return {
            problem: {name: swept for name, swept in sweeps.items() if name not in RIVALS}
            for problem, sweeps in self.sweeps.items()
        }
