"""Problems drawn after everything was decided: alpha="auto" and Krylov GTD on seeds that nobody had run before.

    python benchmarks/fresh_problems.py            # Impression GTD, then TD on-policy, then Krylov GTD
    python benchmarks/fresh_problems.py auto       # one of auto, td, krylov

Parts of the sets in docs/auto-step.md and docs/krylov.md were looked at while the methods were made. The seeds
here (those sets' own, shifted) were fixed once the code was, and run once. ``SHIFT`` moves when a method changes: it
was 9000, then 17 000.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import auto_step
import krylov
import numpy as np

import gradtd

SHIFT = 23_000
AT, RUNS = [1000, 5000, 20_000], 10
AVERAGES = ("polynomial", "none")
HEAD = "| rule | average | step | over the best constant: geometric mean | worst | worse than zero weights | worst |"


def auto() -> None:
    """Impression GTD on 20 Garnets, each with the batch size of its own."""
    cases = [auto_step._garnet(seed, SHIFT) for seed in range(20)]
    print(HEAD, "|---|---|---|---|---|---|---|", sep="\n")
    compare("impression_gtd", cases, [{"batch_size": case.m} for case in cases])


def on_policy_td() -> None:
    """TD and mini-batch TD on 10 of the Garnets whose target is the behaviour."""
    cases = [auto_step._garnet(seed, SHIFT) for seed in range(10)]
    cases = [replace(case, problem=replace(case.problem, target=case.problem.behaviour)) for case in cases]
    print(HEAD, "|---|---|---|---|---|---|---|", sep="\n")
    for name, size in (("td", {}), ("minibatch_td", {"batch_size": 4}), ("minibatch_td", {"batch_size": 32})):
        compare(name, cases, [size] * len(cases))


def compare(name: str, cases: list[auto_step.Case], sizes: list[Mapping[str, Any]]) -> None:
    """Error of auto, with and without average, over that of the best constant at that step, and over that of zeros."""
    found = [measured(name, case, size) for case, size in zip(cases, sizes, strict=True)]
    ratios, from_zeros = np.array([row[0] for row in found]), np.array([row[1] for row in found])
    label = " ".join([name, *map(str, sizes[0].values())]) if name != "impression_gtd" else name
    for a, average in enumerate(AVERAGES):
        for k, step in enumerate(AT):
            mean, worst = auto_step.geometric_mean(ratios[:, a])[k], ratios[:, a, k].max()
            count, most = (from_zeros[:, a, k] > 1).sum(), from_zeros[:, a, k].max()
            print(f"| {label} | {average} | {step} | {mean:.2f} | {worst:.2f} | {count} of {len(cases)} | {most:.2f} |")
    print(f"{label}: {sum(row[2] for row in found)} runs diverged", flush=True)


def measured(name: str, case: auto_step.Case, size: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, int]:
    """Ratios by average and step, and the number of runs of auto that diverged."""
    exact = gradtd.exact(case.problem)
    common = {"runs": RUNS, "steps": AT[-1], "snapshots": AT, **size}
    largest = np.linalg.norm(exact.A, 2) ** (2 if name == "impression_gtd" else 1)
    grid = (2 / largest * 2.0 ** -np.arange(-1, 18)).tolist()
    results = gradtd.sweep(case.problem, name, {"alpha": grid}, average="none", **common)
    best = np.min([auto_step.error(case, exact, r.thetas) for r in results if r.diverged == 0], axis=0)
    zeros = auto_step.error(case, exact, case.problem.theta0[None, None])
    chosen = [gradtd.run(case.problem, name, alpha="auto", average=average, **common) for average in AVERAGES]
    errors = np.array([auto_step.error(case, exact, result.thetas) for result in chosen])
    return errors / best, errors / zeros, sum(result.diverged for result in chosen)


def krylov_gtd() -> None:
    drawn = [p for p in krylov.held_out(SHIFT) if p.name.startswith(("garnet", "star"))]
    found = []
    for problem in drawn:
        settings = {"runs": 10, "steps": krylov.STEPS, "snapshots": [krylov.STEPS]}
        ours = gradtd.run(problem, "krylov_gtd", **settings)
        floor = gradtd.measure(gradtd.run(problem, "lstd", **settings, **krylov.LSTD), "rmspbe").mean()
        found.append((float(gradtd.measure(ours, "rmspbe").mean() / floor), problem.name, ours.diverged))
    found.sort(reverse=True)
    ratios = np.array([ratio for ratio, _, _ in found])
    diverged = sum(count for _, _, count in found)
    print(f"krylov_gtd on {len(found)} drawn problems: median {np.median(ratios):.3f}, {diverged} runs diverged")
    print("worst:", ", ".join(f"{name} {ratio:.2f}" for ratio, name, _ in found[:3]))


if __name__ == "__main__":
    parts = {"auto": auto, "td": on_policy_td, "krylov": krylov_gtd}
    for part in sys.argv[1:] or parts:
        parts[part]()
