"""Problems drawn after everything was decided: alpha="auto" and Krylov GTD on seeds that nobody had run before.

    python benchmarks/fresh_problems.py

Parts of the sets in docs/auto-step.md and docs/krylov.md were looked at while the methods were made. The seeds
here (those sets' own, shifted by 9000) were fixed once the code was, and run once.
"""

from __future__ import annotations

import auto_step
import krylov
import numpy as np

import gradtd

SHIFT = 9000


def auto() -> None:
    rows = [auto_step.measure(auto_step._garnet(seed, SHIFT)) for seed in range(20)]
    ratios = np.array([row.auto / row.best for row in rows])
    for k, step in enumerate(auto_step.AT):
        mean, worst = auto_step.geometric_mean(ratios)[k], ratios[:, k].max()
        print(
            f"auto over the best constant, {len(rows)} Garnets, step {step}: "
            f"geometric mean {mean:.2f}, worst {worst:.2f}"
        )
    print(f"auto: {sum(row.diverged for row in rows)} runs diverged")


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
    auto()
    krylov_gtd()
