"""What stands behind claims that do not hold, computed from the same curves; and how wide step-sizes range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradtd.paper.criteria import Curves, Outcome, ordered, power_of
from gradtd.problems.exact import exact
from gradtd.problems.metrics import rmsve

IM = "Impression GTD"
Sweeps = Mapping[str, Mapping[str, Any]]


def sizes(*each: int) -> list[str]:
    """Labels of Impression GTD at these batch sizes."""
    return [f"{IM} m={m}" for m in each]


def alphas(*each: float) -> list[str]:
    """Labels of Impression GTD at these step-sizes."""
    return [f"{IM} alpha={alpha:g}" for alpha in each]


def explain_b6(curves: Mapping[str, Curves]) -> str:
    figure = curves["fig:boyan_rmse_imGTD_stepsize"]
    found = ordered(alphas(1, 5, 10), after=9000)(figure)
    answer = "does hold" if found.holds else "does not hold either"
    return (
        f"alpha = .1 has not arrived: its error is still {float(figure.mean(alphas(0.1)[0])[-1]):.2g} at the end, "
        f"so its bias cannot be seen. Among 1, 5 and 10 the order {answer}."
    )


def explain_b7(curves: Mapping[str, Curves]) -> str:
    figure = curves["fig:rmsve_boyan_batchsize_linear_rate"]
    slopes = {a: power_of(figure, a) for a in ("LSTD", "Expected GTD", f"{IM} m=128", "TD")}
    text = ", ".join(f"{a} {slope:.2f}" for a, slope in slopes.items())
    return (
        f"From step 1000 on the raw errors follow powers of the number of steps: {text}. A power of -1/2 is the "
        "sampling error of the data seen so far, which LSTD shows, too."
    )


def explain_c3(curves: Mapping[str, Curves]) -> str:
    A = exact("baird").A
    values = np.linalg.eigvalsh(A.T @ A)
    mu = float(values[values > 1e-10 * values[-1]][0])
    steps = int(curves["fig:baird_results"].steps[-1])
    left = (1 - 0.001 * mu) ** steps
    return (
        f"With importance ratios the smallest nonzero eigenvalue of A'A is {mu:.2g}, so at alpha = .001 the slowest "
        f"part of the error shrinks by the factor (1 - alpha mu)^t = {left:.3f} in {steps} steps, at alpha = .05 by "
        f"{(1 - 0.05 * mu) ** steps:.3f}. Near zero within them it cannot be."
    )


def explain_d6(curves: Mapping[str, Curves]) -> str:
    found = exact("random_walk_dependent")
    at_solution = float(rmsve(found, found.theta_star))
    mean = curves["fig:rwdep_batchsize"].mean(f"{IM} m=32")
    return (
        f"The TD solution has RMSVE {at_solution:.3f}. A curve comes back only if it passes below where it ends; "
        f"that of m = 32 ends at {mean[-1]:.3f}, its lowest point is {mean.min():.3f}. Reading v-mu tests the "
        "likeliest mismatch: errors measured against the values of the behaviour, which the weights pass on their way."
    )


def _octaves(sweep: Mapping[str, Any]) -> float:
    """Neighbouring step-sizes of the grid, the best among them, that never diverge and stay within twice its error."""
    error = np.where(np.asarray(sweep["diverged"]) == 0, np.asarray(sweep["error"]), np.inf)
    best = int(error.argmin())
    good = error < 2 * error[best]
    low, high = best, best
    while low > 0 and good[low - 1]:
        low -= 1
    while high < len(good) - 1 and good[high + 1]:
        high += 1
    return float(high - low + 1)


def widths(sweeps: Sweeps) -> Outcome:
    """Octaves of step-size within which the error stays below twice the algorithm's own best."""
    wide: dict[str, list[float]] = {}
    for by_algorithm in sweeps.values():
        for algorithm, sweep in by_algorithm.items():
            wide.setdefault(algorithm, []).append(_octaves(sweep))
    mean = {algorithm: float(np.mean(octaves)) for algorithm, octaves in wide.items()}
    rivals = ("gtd", "gtd2", "tdc", "tdrc", "htd")
    text = "octaves within a factor 2 of its best, mean over problems: " + ", ".join(
        f"{a} {mean[a]:.1f}" for a in ("impression_gtd", *rivals)
    )
    return Outcome(all(mean["impression_gtd"] > mean[a] for a in rivals), text)
