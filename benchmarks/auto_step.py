"""Impression GTD with alpha="auto" against the best constant step-size in hindsight.

It writes docs/measurements/auto-step.md.
For every case all step-sizes of a factor-2 grid are run on the same data, without and with the average that auto
reports, and the one with the least mean error at a step is taken for that step. The error is the distance to the TD
solution: on the paper's problems the root mean squared difference of values (RMSVE where the values are linear), on
Garnets RMSPBE. The bounds were not tuned on the Garnets, seeds 0 to 19; see benchmarks/fresh_problems.py.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import gradtd
from gradtd.problems.base import Problem
from gradtd.problems.exact import Exact
from gradtd.problems.metrics import rmspbe

PAGE = Path(__file__).parent.parent / "docs" / "measurements" / "auto-step.md"
BEGIN, END = "<!-- measured by benchmarks/auto_step.py: begin -->", "<!-- end -->"
PAPER = ("boyan_chain", "random_walk_tabular", "random_walk_inverted", "random_walk_dependent", "baird")
AT = [1000, 5000]
RUNS = 24


@dataclass(frozen=True)
class Case:
    label: str
    problem: Problem
    m: int
    scale: float = 1.0


@dataclass(frozen=True)
class Row:
    """What was measured on a case, at the steps ``AT``."""

    case: Case
    auto: np.ndarray
    best: np.ndarray
    best_averaged: np.ndarray
    alpha: np.ndarray
    best_alpha: np.ndarray
    diverged: int
    diverged_in_grid: int


def cases() -> list[Case]:
    paper = [Case(name, gradtd.PROBLEMS[name](), m) for name in PAPER for m in (4, 32)]
    return paper + [_garnet(seed) for seed in range(20)]


def _garnet(seed: int, shift: int = 0) -> Case:
    """Garnets of 4 to 50 features, near to and far from the behaviour, batches of 4 to 64, two scales."""
    d = (4, 5, 7, 10, 12, 15, 20, 30, 40, 50)[seed % 10]
    m = (64, 4, 8, 32, 16, 4, 48, 8, 16, 32, 4, 64, 16, 8, 64, 32, 4, 16, 64, 8)[seed]
    off_policy, gamma = (0.3, 0.6, 0.9)[seed % 3], (0.85, 0.9, 0.95, 0.98)[seed % 4]
    kind = ("dense", "binary")[seed // 5 % 2]
    scale = (1e-3, 1e3)[seed // 2 % 2]
    problem = gradtd.PROBLEMS["garnet"](
        states=40 + 2 * d, n_features=d, off_policy=off_policy, gamma=gamma, features=kind, seed=seed + shift
    )
    problem = replace(problem, features=problem.features * scale)
    return Case(f"garnet {seed} ({kind}, off {off_policy}, gamma {gamma})", problem, m, scale)


def error(case: Case, exact: Exact, thetas: np.ndarray) -> np.ndarray:
    """Mean over runs of the distance to the TD solution."""
    if case.label.startswith("garnet"):
        distance = rmspbe(exact, thetas)
    else:
        values = (thetas - exact.theta_star) @ exact.problem.features[exact.states].T
        distance = np.sqrt((values**2).mean(axis=-1))
    return np.asarray(distance.mean(axis=0))


def measure(case: Case) -> Row:
    exact = gradtd.exact(case.problem)
    common = {"runs": RUNS, "steps": max(AT), "snapshots": AT, "batch_size": case.m}
    grid = (2 / np.linalg.norm(exact.A, 2) ** 2 * 2.0 ** -np.arange(-1, 18)).tolist()
    tables, failed = [], 0
    for average in ("none", "polynomial"):
        results = gradtd.sweep(case.problem, "impression_gtd", {"alpha": grid}, average=average, **common)
        failed += sum(r.diverged for r in results)
        errors = [np.full(len(AT), np.inf) if r.diverged else error(case, exact, r.thetas) for r in results]
        tables.append(np.array(errors))
    auto = gradtd.run(case.problem, "impression_gtd", **common)
    plain, averaged = tables
    return Row(
        case=case,
        auto=error(case, exact, auto.thetas),
        best=plain.min(axis=0),
        best_averaged=averaged.min(axis=0),
        alpha=np.median(auto.alphas, axis=0),
        best_alpha=np.array(grid)[plain.argmin(axis=0)],
        diverged=auto.diverged,
        diverged_in_grid=failed,
    )


def heavy_garnet(seed: int) -> Problem:
    """Ratios of up to 200, and one state in ten with features five times as long."""
    d = (3, 6, 12, 30)[seed % 4]
    problem = gradtd.PROBLEMS["garnet"](
        states=max(20, 2 * d), n_features=d, gamma=(0.9, 0.95, 0.99)[seed % 3], seed=5000 + seed
    )
    rng = np.random.default_rng(seed)
    states, actions = problem.behaviour.shape
    behaviour = 0.98 * rng.dirichlet(np.full(actions, 0.3), size=states) + 0.02 / actions
    target = rng.dirichlet(np.full(actions, 0.3), size=states)
    features = problem.features * np.where(rng.random((states, 1)) < 0.1, 5.0, 1.0)
    return replace(problem, behaviour=behaviour, target=target, features=features)


def stress() -> str:
    """What becomes of auto, its last iterates, where ratios are large and batches small."""
    count, runs, diverged, largest = 40, 8, 0, 0.0
    for m in (1, 4, 16):
        for seed in range(count):
            problem = heavy_garnet(seed)
            result = gradtd.run(
                problem, "impression_gtd", batch_size=m, average="none", runs=runs, steps=4000, snapshots=50
            )
            start = rmspbe(gradtd.exact(problem), problem.theta0)
            diverged += result.diverged
            largest = max(largest, float((gradtd.measure(result, "rmspbe") / start).max()))
    return (
        f"{count} Garnets with ratios of up to 200 and batches of 1, 4 and 16: {diverged} of {3 * count * runs} runs "
        f"diverged; the largest RMSPBE of an iterate, not averaged, was {largest:.0f} times that at the start."
    )


def geometric_mean(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(np.log(values).mean(axis=0)))


def table(rows: list[Row]) -> list[str]:
    lines = [
        "| case | d | m | scale | auto at 1000 | best | ratio | averaged | auto at 5000 | best | ratio | averaged |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [row.case.label, str(row.case.problem.n_features), str(row.case.m), f"{row.case.scale:g}"]
        for k in range(len(AT)):
            cells += [f"{row.auto[k]:.3g}", f"{row.best[k]:.3g}"]
            cells += [f"{row.auto[k] / row.best[k]:.2f}", f"{row.auto[k] / row.best_averaged[k]:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def summary(rows: list[Row]) -> list[str]:
    lines = [
        "| error of auto relative to | cases | step | geometric mean | worst |",
        "|---|---|---|---|---|",
    ]
    groups = {
        "paper's problems": [r for r in rows if not r.case.label.startswith("garnet")],
        "Garnets": [r for r in rows if r.case.label.startswith("garnet")],
        "all": rows,
    }
    for against in ("the best constant", "the best constant, averaged"):
        for name, group in groups.items():
            ratios = np.array([r.auto / (r.best if against == "the best constant" else r.best_averaged) for r in group])
            for k, step in enumerate(AT):
                mean, worst = geometric_mean(ratios)[k], ratios[:, k].max()
                cells = [
                    against,
                    f"{name} ({len(group)})",
                    str(step),
                    f"{mean:.2f}",
                    f"{worst:.2f}",
                ]
                lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        f"{sum(r.diverged for r in rows)} of {RUNS * len(rows)} runs of auto diverged; in the grids of constants "
        f"{sum(r.diverged_in_grid for r in rows)} runs did.",
    ]
    return lines


def main() -> None:
    began, rows = time.monotonic(), []
    for case in cases():
        rows.append(measure(case))
        row = rows[-1]
        print(
            f"{case.label:42s} m {case.m:2d}  ratio {row.auto / row.best}  averaged {row.auto / row.best_averaged}  "
            f"alpha {row.alpha} best {row.best_alpha}",
            flush=True,
        )
    heavy = stress()
    text = "\n".join([BEGIN, "", *summary(rows), "", heavy, "", *table(rows), "", END])
    page = PAGE.read_text()
    PAGE.write_text(page[: page.index(BEGIN)] + text + page[page.index(END) + len(END) :])
    print("\n".join([*summary(rows), heavy]))
    print(f"written: {PAGE} ({time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    main()
