"""Lambda on the paper's problems: every family with traces, each with its best step-size or with none to choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd.core.files import Arrays
from gradtd.paper.figures import FLOOR, GRID, LABELS, TUNED, Line
from gradtd.paper.jobs import SEED, TUNING_SEED, Job, best_alpha
from gradtd.paper.store import Kept
from gradtd.problems.exact import exact
from gradtd.problems.metrics import rmsve
from gradtd.running.result import measure
from gradtd.running.runs import run, sweep
from gradtd.running.session import Session

LAMBDAS = (0.0, 0.4, 0.8, 0.95)
STEPS, EVERY = 5000, 100
RECORDED = np.arange(0, STEPS + 1, EVERY)
"""The steps after which errors are measured here: half as many as in the figures."""
M = 16
"""Steps of a batch."""
ONE_STEP_AT_A_TIME = ("td", "tdrc", "tdc", "gtd", "gtd2", "gtd2_mp", "sthtd_mp", "htd", "etd", "vtrace")
OWN = Line("Impression GTD", "impression_gtd", {"alpha": TUNED, "batch_size": M})
FAMILIES: dict[str, Line] = {
    line.label: line
    for line in (
        *(Line(LABELS[n], n, {"alpha": TUNED}) for n in ONE_STEP_AT_A_TIME),
        Line("MiniBatchTD", "minibatch_td", {"alpha": TUNED, "batch_size": M}),
        *(Line(LABELS[n], n, {"alpha": TUNED, "fill": 100}) for n in ("expected_gtd", "at_td", "r1_gtd")),
        OWN,
        Line("Impression GTD (auto)", "impression_gtd", {"batch_size": M}),
        FLOOR,
    )
}
"""One of every family, and the rivals with one step-size.

Krylov GTD follows LSTD at every lambda, and is left out. So are SVRG and SAGA: the same gradient at far more work.
"""


@dataclass(frozen=True)
class LambdaJob(Job):
    """The errors of one family at one lambda; its step-size is the best of a sweep on seeds that no figure uses."""

    family: str
    lam: float

    @property
    def label(self) -> str:
        return f"{self.family}, lambda {self.lam:g}, on {self.problem}"

    @property
    def line(self) -> Line:
        return FAMILIES[self.family]

    @property
    def swept(self) -> bool:
        return bool(self.line.hyper.get("alpha") == TUNED)

    @property
    def tuning_runs(self) -> int:
        return max(2, self.runs // 2)

    @property
    def session(self) -> Session:
        hyper = self._hyper | ({"alpha": GRID[0]} if self.swept else {})
        return Session(self.line.algorithm, hyper, n_steps=STEPS, block=self.task.block)

    @property
    def run_steps(self) -> int:
        return STEPS * (self.runs + (self.tuning_runs * len(GRID) if self.swept else 0))

    @property
    def _hyper(self) -> dict[str, Any]:
        given = {name: value for name, value in self.line.hyper.items() if value != TUNED}
        return given | {"lam": self.lam}

    def key(self) -> dict[str, Any]:
        return self._key(seeds=[SEED, TUNING_SEED], grid=list(GRID) if self.swept else [], lambda_steps=[STEPS, EVERY])

    def compute(self, threads: int) -> Kept:
        common = {"steps": STEPS, "snapshots": RECORDED, "threads": threads, **self._hyper}
        arrays = self._sweep(common) if self.swept else {}
        chosen: dict[str, Any] = {"alpha": best_alpha(arrays)} if self.swept else {}
        result = run(self.task, self.line.algorithm, runs=self.runs, seed=SEED, **common, **chosen)
        known = exact(self.task, self.lam)
        told = {"bias": float(rmsve(known, known.theta_star)), "finite": known.traces.finite, **chosen}
        return Kept({"rmsve": rmsve(exact(self.task), result.thetas), **arrays}, told)

    def _sweep(self, common: Mapping[str, Any]) -> Arrays:
        results = sweep(
            self.task, self.line.algorithm, {"alpha": GRID}, runs=self.tuning_runs, seed=TUNING_SEED, **common
        )
        ceiling = 2 * float(rmsve(exact(self.task), self.task.theta0))
        values = np.minimum(np.array([measure(r, "rmsve") for r in results]), ceiling)
        diverged = np.array([r.diverged for r in results])
        return {"alpha": np.array(GRID), "area": values.mean(axis=(1, 2)), "diverged": diverged}


def lambda_jobs(problem: str, runs: int) -> dict[tuple[str, float], LambdaJob]:
    """One job for every family and lambda, with a quarter of the runs of a figure."""
    few = max(2, runs // 4)
    return {(family, lam): LambdaJob(problem, few, family, lam) for family in FAMILIES for lam in LAMBDAS}
