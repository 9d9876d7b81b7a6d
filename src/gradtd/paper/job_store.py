"""What a reproduction finds, and what it leaves on disk.

The results of a job are kept under a digest of its key, which holds all that they depend on. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from gradtd.core.arrays import Floats, Integers
from gradtd.core.files import Arrays, read_if_whole, write_arrays
from gradtd.core.results_folder import ResultsFolder
from gradtd.paper.criteria import Curves
from gradtd.paper.figures import RIVALS, Figure

FORMAT = 1


class Kept(NamedTuple):
    """The results of a job: its arrays, and what else it has to tell, as JSON can hold it."""

    arrays: Arrays
    told: Mapping[str, Any] = {}


class Store(ResultsFolder):
    """A results folder of ours: ``kept`` for finished jobs, the rest for people."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "gradtd reproduce", FORMAT)
        self.kept = self.path(".kept")
        self.kept.mkdir(exist_ok=True)

    def fetch(self, key: Mapping[str, Any], compute: Callable[[], Kept]) -> Kept:
        """The results kept under a key; computed and kept where there are none."""
        found = self.look(key)
        return found if found is not None else self.keep(key, compute())

    def look(self, key: Mapping[str, Any]) -> Kept | None:
        """The results kept under a key; None where there are none, or none that are whole."""
        found = read_if_whole(self.file_of(key))
        return None if found is None else Kept(arrays=found[1], told=found[0])

    def keep(self, key: Mapping[str, Any], made: Kept) -> Kept:
        """Keep results under a key."""
        write_arrays(self.file_of(key), made.arrays, made.told)
        return made

    def file_of(self, key: Mapping[str, Any]) -> Path:
        """Where the results with this key are kept."""
        return self.kept / f"{hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]}.npz"


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
        The verdicts, as `gradtd.paper.judge_claims.verdict` words them.
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
        """The sweeps of the algorithms that the paper names."""
        return {
            problem: {name: swept for name, swept in sweeps.items() if name not in RIVALS}
            for problem, sweeps in self.sweeps.items()
        }
