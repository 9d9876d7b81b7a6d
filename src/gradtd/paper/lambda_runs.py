"""Runs over lambda on the paper's problems: every family with traces, each with its best step-size or without one.

First the jobs, then the page's section: a table and a picture per problem, with the gain and the cost of lambda.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.output.plots import OWN_COLOUR, STYLE, canvas, save
from gradtd.output.svg import picture
from gradtd.paper.figures import FLOOR, GRID, LABELS, TUNED, Line
from gradtd.paper.jobs import SEED, TUNING_SEED, Job, Kept, Reproduction, Store, best_alpha
from gradtd.problems.exact import exact
from gradtd.problems.metrics import rmsve
from gradtd.running.runs import run
from gradtd.running.session import Session

LAMBDAS = (0.0, 0.4, 0.8, 0.95)
STEPS, EVERY = 5000, 100
RECORDED = np.arange(0, STEPS + 1, EVERY)
"""The steps after which errors are measured here: half as many as in the figures."""
M = 16
"""Number of steps per batch."""
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
"""The rules that are run at every lambda: one of each family, and the rivals with one step-size.

Krylov GTD is left out because it equals LSTD approximately at every lambda, SVRG and SAGA because they use the same
gradient at a much higher cost.
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
        how = {"threads": threads, **self._hyper}
        arrays = self._tuned(self.line.algorithm, self.tuning_runs, RECORDED, **how) if self.swept else {}
        chosen: dict[str, Any] = {"alpha": best_alpha(arrays)} if self.swept else {}
        given = how | chosen | {"steps": STEPS, "snapshots": RECORDED}
        result = run(self.task, self.line.algorithm, runs=self.runs, seed=SEED, **given)
        known = exact(self.task, self.lam)
        told = {"bias": float(rmsve(known, known.theta_star)), "finite": known.traces.finite, **chosen}
        return Kept({"rmsve": rmsve(exact(self.task), result.thetas), **arrays}, told)


def lambda_jobs(problem: str, runs: int) -> dict[tuple[str, float], LambdaJob]:
    """One job for every family and lambda, with a quarter of the runs of a figure."""
    few = max(2, runs // 4)
    return {(family, lam): LambdaJob(problem, few, family, lam) for family in FAMILIES for lam in LAMBDAS}


Found = Mapping[tuple[str, float], Kept]
TAIL = 0.9 * RECORDED[-1] < RECORDED


def lambda_sections(found: Reproduction, titles: Mapping[str, str], store: Store) -> list[dict[str, Any]]:
    """The content of the template for every problem."""
    return [_section(problem, titles[problem], by_lambda, store) for problem, by_lambda in found.lambdas.items()]


def _section(problem: str, title: str, by_lambda: Found, store: Store) -> dict[str, Any]:
    rows = [{"label": label, "cells": [_cell(by_lambda[label, lam]) for lam in LAMBDAS]} for label in FAMILIES]
    solution = [by_lambda["LSTD", lam].told for lam in LAMBDAS]
    return {
        "title": title,
        "image": _draw(problem, title, by_lambda, store),
        "rows": rows,
        "bias": [told["bias"] for told in solution],
        "infinite": [lam for lam, told in zip(LAMBDAS, solution, strict=True) if not told["finite"]],
        "words": [_words(label, by_lambda) for label in (OWN.label, "Impression GTD (auto)", "TD", "LSTD")],
    }


def _cell(kept: Kept) -> dict[str, Any]:
    values = kept.arrays["rmsve"]
    return {"area": float(values.mean()), "end": float(values[:, TAIL].mean()), "alpha": kept.told.get("alpha")}


def _ends(label: str, by_lambda: Found) -> Floats:
    """The error over the last tenth of the steps, by lambda and run."""
    return np.array([by_lambda[label, lam].arrays["rmsve"][:, TAIL].mean(axis=1) for lam in LAMBDAS])


def _words(label: str, by_lambda: Found) -> str:
    """A sentence about the lambda with the lowest final error, and whether the runs suffice to show it; runs are paired
    by data."""
    ends = _ends(label, by_lambda)
    best, last = int(ends.mean(axis=1).argmin()), len(LAMBDAS) - 1
    cost = f"lambda {LAMBDAS[last]:g} makes its error {ends[last].mean() / ends[0].mean():.2f} times that of lambda 0"
    if best == 0:
        return f"{label} is best without traces; {cost}."
    apart = ends[best] - ends[0]
    clear = abs(float(apart.mean())) > 2 * float(apart.std(ddof=1)) / np.sqrt(len(apart))
    share = ends[best].mean() / ends[0].mean()
    unsure = "" if clear else " (within two standard errors of no difference)"
    return f"{label} is best with lambda {LAMBDAS[best]:g}: {share:.2f} times the error of lambda 0{unsure}; {cost}."


def _draw(problem: str, title: str, by_lambda: Found, store: Store) -> str:
    figure, axes = canvas(f"{title}: error against lambda")
    for label in (label for label in FAMILIES if label in OWN_COLOUR):  # the table has all of them
        ends = _ends(label, by_lambda).mean(axis=1)
        axes.plot(
            LAMBDAS,
            ends,
            color=OWN_COLOUR[label],
            linestyle=STYLE.get(label, "-"),
            marker="o",
            markersize=3,
            linewidth=1 if label == "LSTD" else 1.6,
            label=label,
        )
    biases = [by_lambda["LSTD", lam].told["bias"] for lam in LAMBDAS]
    if max(biases) > 1e-3 * max(float(_ends("LSTD", by_lambda).max()), 1e-300):
        axes.plot(LAMBDAS, biases, color="#777777", linestyle=":", label="the solution itself")
    axes.set_yscale("log")
    axes.set_xlabel("lambda")
    axes.set_ylabel("RMSVE over the last tenth of the steps")
    figure.legend(frameon=False, fontsize=8, loc="outside right upper")
    for ending in ("png", "svg"):
        save(figure, store.path(f"figures/lambda_{problem}.{ending}"))
    return picture(figure, phone=False)


def lambda_table(found: Reproduction) -> dict[str, Any]:
    """One row per problem, family and lambda, for ``curves/lambda.parquet``."""
    problems, labels = list(found.lambdas), list(FAMILIES)
    keys = [(p, label, lam) for p in problems for label in labels for lam in LAMBDAS]
    cells = [_cell(found.lambdas[p][label, lam]) for p, label, lam in keys]
    return {
        "problem": (problems, np.array([problems.index(p) for p, _, _ in keys])),
        "line": (labels, np.array([labels.index(label) for _, label, _ in keys])),
        "lambda": np.array([lam for _, _, lam in keys]),
        "alpha": np.array([np.nan if cell["alpha"] is None else cell["alpha"] for cell in cells]),
        "area": np.array([cell["area"] for cell in cells]),
        "end": np.array([cell["end"] for cell in cells]),
    }
