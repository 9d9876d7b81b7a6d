"""Explains why some claims do not hold, from the same curves: error floors, and the range of good step-sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from gradtd.paper.criteria import IM, Criterion, Curves, Outcome, Sweeps, alphas, lower, ordered, power_of
from gradtd.problems.exact import exact
from gradtd.problems.metrics import rmsve
from gradtd.theory.exact import stationary

RIVALS = ("gtd", "gtd2", "tdc", "tdrc", "htd")


def floors_ordered(problem: str, m: int, steps: tuple[float, ...]) -> Criterion:
    """The exact floor of the RMSVE, with fresh batches of m, increases along these step-sizes."""

    def judge(curves: Curves) -> Outcome:
        found = exact(problem)
        X = found.problem.features[found.states]
        spread = [stationary(problem, alpha, m) for alpha in steps]
        floors = [float(np.sqrt(np.einsum("ki,ij,kj->k", X, S, X).mean())) for S in spread]
        text = ", ".join(f"{floor:.3g} (alpha {alpha:g})" for floor, alpha in zip(floors, steps, strict=True))
        return Outcome(all(a < b for a, b in pairwise(floors)), f"exact floors of the RMSVE {text}")

    return judge


def explain_b6(curves: Mapping[str, Curves]) -> str:
    figure = curves["fig:boyan_rmse_imGTD_stepsize"]
    found = ordered(alphas(1, 5, 10), after=9000)(figure)
    answer = "does hold" if found.holds else "does not hold either"
    return (
        f"alpha = .1 has not converged. Its error is still {float(figure.mean(alphas(0.1)[0])[-1]):.2g} at the end, "
        f"so its bias cannot be seen. Among 1, 5 and 10 the order {answer}."
    )


def explain_b7(curves: Mapping[str, Curves]) -> str:
    figure = curves["fig:rmsve_boyan_batchsize_linear_rate"]
    slopes = {a: power_of(figure, a) for a in ("LSTD", "Expected GTD", f"{IM} m=128", "TD")}
    text = ", ".join(f"{a} {slope:.2f}" for a, slope in slopes.items())
    return (
        f"From step 1000 on the raw errors follow powers of the number of steps: {text}. A power of -1/2 is "
        "the sampling error of the data seen so far, which LSTD shows as well."
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
        f"{(1 - 0.05 * mu) ** steps:.3f}. It cannot get near zero within these steps."
    )


def explain_d6(curves: Mapping[str, Curves]) -> str:
    found = exact("random_walk_dependent")
    at_solution = float(rmsve(found, found.theta_star))
    mean = curves["fig:rwdep_batchsize"].mean(f"{IM} m=32")
    return (
        f"The TD solution has RMSVE {at_solution:.3f}. A curve rises again only if it passes below its final value; "
        f"that of m = 32 ends at {mean[-1]:.3f}, its lowest point is {mean.min():.3f}. Reading v-mu tests the "
        "likeliest mismatch: errors measured against the values of the behaviour, which the weights pass on their way."
    )


def explain_i4(curves: Mapping[str, Curves]) -> str:
    figure = curves["fig:rwinvpbe"]
    gtd = figure.over("GTD", 4000, np.inf)[0] / figure.over("GTD2", 4000, np.inf)[0]
    return (
        "GTD2 and HTD differ by less than 100 runs can detect. In 1000 fresh runs (seed 77) HTD / GTD2 was 1.006 "
        "[1.001, 1.010], so GTD2 is not above HTD. GTD here, with a step-size tuned for RMSVE, is at "
        f"{gtd:.2g} times GTD2 and is left out of the comparison."
    )


def explain_d3(curves: Mapping[str, Curves]) -> str:
    ratio = {}
    for metric, label in (("RMSVE", "fig:rwdep_rmsve"), ("RMSPBE", "fig:rwdep_pbe")):
        figure = curves[label]
        ratio[metric] = figure.over("Vtrace", 9000, np.inf)[0] / figure.over("TDRC", 9000, np.inf)[0]
    return (
        f"In the end Vtrace is at {ratio['RMSVE']:.3g} times TDRC in RMSVE and at {ratio['RMSPBE']:.3g} times in "
        "RMSPBE. There is little contrast between the two."
    )


def explain_g2(after: float = 0, until: float = np.inf) -> Callable[[Mapping[str, Curves]], str]:
    """The problems on which R1-GTD is ahead of A'TD, behind it, or tied with it."""

    def explain(curves: Mapping[str, Curves]) -> str:
        words = {True: "ahead", False: "behind", None: "a tie"}
        told = []
        for label, figure in curves.items():
            found = lower("R1-GTD", "A'TD", after=after, until=until)(figure)
            told.append(f"{label.partition('framework_')[2]} {words[found.holds]}")
        return f"R1-GTD against A'TD, problem by problem: {', '.join(told)}."

    return explain


def _octaves(sweep: Mapping[str, Any], limit: float | None = None) -> float:
    """Number of octaves of neighbouring step-sizes around the best one that never diverge and stay below a limit.

    The default limit is twice the best error.
    """
    error = np.where(np.asarray(sweep["diverged"]) == 0, np.asarray(sweep["error"]), np.inf)
    best = int(error.argmin())
    good = error < (2 * error[best] if limit is None else limit)
    if not good[best]:
        return 0.0
    low, high = best, best
    while low > 0 and good[low - 1]:
        low -= 1
    while high < len(good) - 1 and good[high + 1]:
        high += 1
    return float(high - low + 1)


def widths_of_its_own_best(sweeps: Sweeps) -> Outcome:
    """Octaves of step-size within which the error stays below twice the algorithm's own best."""
    mean = {a: float(np.mean([_octaves(each[a]) for each in sweeps.values()])) for a in ("impression_gtd", *RIVALS)}
    return _widest(mean, "octaves within a factor 2 of its own best")


def widths_of_the_common_best(sweeps: Sweeps) -> Outcome:
    """Octaves of step-size within which the error stays below twice, 1.5 or 3 times the best of all.

    The decision uses twice; the other factors, and the range around the algorithm's own best, are also printed.
    """
    outcomes = {factor: _widest(_common(sweeps, factor), f"octaves within a factor {factor:g} of the common best")
                for factor in (2.0, 1.5, 3.0)}  # fmt: skip
    more = [f"({outcomes[factor].measured})" for factor in (1.5, 3.0)]
    own = widths_of_its_own_best(sweeps)
    return Outcome(outcomes[2.0].holds, " ".join([outcomes[2.0].measured, *more, f"({own.measured})"]))


def _common(sweeps: Sweeps, factor: float) -> dict[str, float]:
    wide: dict[str, list[float]] = {}
    for each in sweeps.values():
        errors = {a: np.where(np.asarray(each[a]["diverged"]) == 0, each[a]["error"], np.inf) for a in each}
        best = min(float(errors[a].min()) for a in ("impression_gtd", *RIVALS))
        for a in ("impression_gtd", *RIVALS):
            wide.setdefault(a, []).append(_octaves(each[a], factor * best))
    return {a: float(np.mean(octaves)) for a, octaves in wide.items()}


def _widest(mean: Mapping[str, float], words: str) -> Outcome:
    text = f"{words}, mean over problems: " + ", ".join(f"{a} {octaves:.1f}" for a, octaves in mean.items())
    return Outcome(all(mean["impression_gtd"] > mean[a] for a in RIVALS), text)
