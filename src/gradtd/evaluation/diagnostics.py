"""Whether an estimate can be trusted: numbers, sentences, and a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.stream import Stream
from gradtd.evaluation.importance import BEYOND, ENDED_BY_A_CUT, ESTIMATORS, beyond_cuts, episode_weights
from gradtd.evaluation.least_squares import LeastSquares

FEWEST_EPISODES = 20
LEAST_SAMPLE = 50
"""Steps that the ratios must be worth, at least."""
HEAVY = 0.5
"""Part of the weight that the largest hundredth of the ratios may carry."""
UNSEEN = 0.01
"""Part of the target's choices that the log may never have taken."""
UNSEEN_PAIRS = 0.05
"""The same for actions in the very state, where observations are discrete; rare ones are missing by chance."""
APART = 1.0
"""Standard errors that a rule may be away from the least-squares solution it should converge to."""
OTHER_SOLUTIONS = ("vtrace", "etd", "residual_gradient")
"""Rules that converge elsewhere by design."""
NARROW = 2 / 3
"""A refitted interval narrower than this part of the sandwich's did not follow its resamples."""
UNLIKELY = 4.0
"""Standard errors that the mean ratio may be away from one."""
WIDTH = 1e-9
"""Width of an interval, as a part of the value, that is no width at all."""
ELSEWHERE = 0.5
"""Part of the steps that may lead elsewhere than to the observation of the row after."""
LOST = 0.1
"""Part of the resamples on which a refit may fail."""
FEWEST_STEPS, FEW_STEPS = 5, 20
"""Steps that there must be for every feature in use, at least, and below which there is a warning."""
ROBUST_WARNS, ROBUST_REFUSES = 2.0, 4.0
"""Standard errors that doubly robust may be away: the second where at least `FEWEST_EPISODES` carry its weights."""


def effective_size(weights: Floats) -> float:
    """(sum w)^2 / sum w^2: of how many equal weights these are worth as much.

    >>> float(effective_size(np.array([1.0, 1.0, 1.0, 0.0])))
    3.0
    """
    largest = weights.max(initial=0.0)
    if not 0 < largest < np.inf:
        return 0.0 if largest == 0 else 1.0
    part = weights / largest
    return float(part.sum() ** 2 / (part**2).sum())


def ratio_numbers(stream: Stream, begins: Integers) -> dict[str, Any]:
    """How much of the data the ratios leave, how far their mean is from one, in standard errors, and what cuts hide."""
    rho = np.asarray(stream.steps["rho"])
    largest = max(1, len(rho) // 100)
    top = float(np.partition(rho, -largest)[-largest:].sum() / rho.sum()) if rho.sum() > 0 else 1.0
    lengths = np.diff(begins)
    off = np.add.reduceat(rho, begins[:-1]) - lengths
    error = float(np.sqrt((off**2).sum()))
    return {
        "ess": effective_size(rho),
        "ess_episodes": effective_size(episode_weights(stream, begins)),
        "largest_ratio": float(rho.max()),
        "mean_ratio": float(rho.mean()),
        "mean_ratio_off": float(off.sum() / error) if error > 0 else 0.0,
        "top_hundredth_carries": top,
        "beyond_cuts": beyond_cuts(stream, begins),
    }


def equation_numbers(found: LeastSquares, theta: Floats | None) -> dict[str, Any]:
    """Conditioning of A, and NEU = |A theta + b|^2 at the weights against that at zero."""
    A, b = found.sums.A, found.sums.b
    numbers: dict[str, Any] = {"condition_A": found.condition, "undetermined_directions": found.singular}
    numbers["neu_start"] = float(b @ b)
    if theta is not None:
        residual = A @ theta + b
        numbers["neu_end"] = float(residual @ residual)
    return numbers


def condition(C: Floats) -> float:
    """The condition number of C with every feature scaled to mean square one, directions of no variance left out."""
    scale = np.sqrt(np.where(np.diag(C) > 0, np.diag(C), 1.0))
    eigenvalues = np.linalg.eigvalsh(C / scale[:, None] / scale)
    kept = eigenvalues[eigenvalues > 1e-12 * eigenvalues[-1]]
    return float(kept[-1] / kept[0]) if len(kept) else float("inf")


@dataclass(frozen=True)
class Verdict:
    """``usable`` or not, the reasons against, and what to know even so."""

    usable: bool
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def word(self) -> str:
        return "usable" if self.usable else "not usable"


def judge(numbers: Mapping[str, Any]) -> Verdict:
    """What speaks against the estimate, from the numbers and its row ``headline``; see the constants of this file."""
    reasons: list[str] = []
    warnings: list[str] = []
    get = numbers.get
    if get("diverged"):
        reasons.append(f"{numbers['method']} diverged on this log: its weights mean nothing.")
    if (headline := get("headline")) is not None and headline.low is None:
        what = "value" if headline.value is None else "interval"
        reasons.append(f"{headline.method} gives no {what}: {headline.note}.")
    if numbers["episodes"] < FEWEST_EPISODES:
        reasons.append(
            f"the log has {numbers['episodes']} independent pieces, and an interval from fewer than {FEWEST_EPISODES} "
            "cannot be trusted: collect more episodes, or take shorter blocks."
        )
    if numbers["ess"] < LEAST_SAMPLE:
        reasons.append(
            f"the ratios leave an effective sample of {numbers['ess']:.0f} of {numbers['steps']} steps: the log says "
            "too little about the target."
        )
    if numbers["top_hundredth_carries"] > HEAVY and numbers["steps"] >= 100:
        reasons.append(
            f"the largest hundredth of the ratios carries {numbers['top_hundredth_carries']:.0%} of the weight: "
            "the estimate rests on a few steps."
        )
    if abs(numbers["mean_ratio_off"]) > UNLIKELY:
        advice = "clip less" if get("clipped") else "check the probability columns"
        reasons.append(
            f"the mean ratio is {numbers['mean_ratio']:.3g}, {abs(numbers['mean_ratio_off']):.0f} standard errors from "
            f"1, where ratios of right probabilities have it: {advice}."
        )
    if (get("unseen_mass") or 0.0) > UNSEEN:
        reasons.append(
            f"the target takes actions that the log never took, with probability {numbers['unseen_mass']:.2g} a step: "
            "nothing in the log says what they lead to."
        )
    if (get("unseen_pairs") or 0.0) > UNSEEN_PAIRS:
        reasons.append(
            f"in the states it visited the log never took what the target would do {numbers['unseen_pairs']:.1%} of "
            "the time: nothing in it says what that leads to."
        )
    if not get("ends_known", True):
        reasons.append(
            "nothing in the log says whether its episodes terminated or were cut off, and the value depends on it: "
            "give a column terminated, or truncated."
        )
    apart = get("from_lstd")
    if apart is not None and apart > APART and numbers["method"] in OTHER_SOLUTIONS:
        reasons.append(
            f"{numbers['method']} solves other equations than those of the target's value, and is {apart:.1f} standard "
            "errors away from their solution by least squares."
        )
    elif apart is not None and apart > APART:
        reasons.append(
            f"{numbers['method']} is {apart:.1f} standard errors away from the least-squares solution: it has not "
            "converged; give it more updates, or take algorithm='lstd'."
        )
    if get("refits_lost", 0.0) > LOST:
        reasons.append(
            f"{numbers['refits_lost']:.0%} of the refits failed or diverged: the interval is not to be trusted."
        )
    narrow = get("error_ratio")
    if narrow is not None and narrow < NARROW:
        reasons.append(
            f"the interval is {narrow:.0%} as wide as the sandwich's: the refits did not follow their resamples; "
            "give more updates, or take algorithm='lstd'."
        )
    if numbers["steps"] < FEWEST_STEPS * numbers["features_used"]:
        reasons.append(
            f"the log has {numbers['steps']} steps for {numbers['features_used']} features: they fit its noise, and an "
            f"interval would be too narrow; take fewer features, {FEW_STEPS} steps or more for each."
        )
    if _far_from_robust(numbers):
        reasons.append(
            f"the doubly robust estimate is {numbers['from_dr']:.1f} standard errors away: these features cannot "
            "represent the value of the target; take others, or algorithm='dr'."
        )
    if get("gamma") == 1 and get("terminated") == 0:
        reasons.append(
            "gamma is 1 and no episode terminated, so the value is a sum without end: give gamma below 1, or check the "
            "column terminated."
        )
    reasons += _against_importance(numbers)
    _warn(warnings, numbers)
    return Verdict(not reasons, tuple(reasons), tuple(warnings))


def _against_importance(numbers: Mapping[str, Any]) -> list[str]:
    """What speaks against an estimator that multiplies the ratios of an episode, and not against others."""
    method, reasons = numbers["method"], []
    if method in ESTIMATORS and numbers["ess_episodes"] < FEWEST_EPISODES <= numbers["episodes"]:
        reasons.append(
            f"the products of ratios leave {method} an effective sample of {numbers['ess_episodes']:.1f} of "
            f"{numbers['episodes']} episodes, and an interval from fewer than {FEWEST_EPISODES} cannot be trusted: "
            "take an algorithm that learns a value function."
        )
    if method in ENDED_BY_A_CUT and numbers["beyond_cuts"] > BEYOND:
        reasons.append(
            f"{method} ends its sums where episodes were cut off, with {numbers['beyond_cuts']:.0%} of the "
            "discounted time still to come: take algorithm='dr', or one that learns a value function."
        )
    return reasons


def _far_from_robust(numbers: Mapping[str, Any]) -> bool:
    robust = numbers.get("from_dr")
    return robust is not None and robust > ROBUST_REFUSES and numbers["ess_episodes"] >= FEWEST_EPISODES


def _warn(warnings: list[str], numbers: Mapping[str, Any]) -> None:
    get = numbers.get
    if get("undetermined_directions"):
        warnings.append(
            f"{numbers['undetermined_directions']} of the {numbers['features_used']} directions of feature space are "
            "not determined by the log; the solution of least norm is taken."
        )
    if (get("condition_A") or 0.0) > 1e8:
        warnings.append(f"the equations are ill-conditioned ({numbers['condition_A']:.1e}): fewer features would do.")
    if (moved := get("moved")) is not None and moved > 0.25:
        warnings.append(f"the value still moved by {moved:.2f} standard errors in the second half of the updates.")
    headline = get("headline")
    if headline and headline.low is not None and headline.high - headline.low <= WIDTH * abs(headline.value):
        warnings.append("the interval has no width: every episode and every resample says the same.")
    if get("leading_elsewhere", 0.0) > ELSEWHERE:
        warnings.append(
            f"the next observation of {numbers['leading_elsewhere']:.0%} of the steps is not the observation of the "
            "row after: check that the two columns are not mixed up, and that no rows are missing."
        )
    if FEWEST_STEPS * numbers["features_used"] <= numbers["steps"] < FEW_STEPS * numbers["features_used"]:
        warnings.append(
            f"the log has {numbers['steps']} steps for {numbers['features_used']} features: fewer features would make "
            "the interval more reliable."
        )
    if "from_dr" not in numbers and numbers["method"] not in ESTIMATORS:
        warnings.append(
            "without refits the value was not compared with the doubly robust estimate: whether the features can "
            "represent it is not known; give resamples, or fewer features."
        )
    if (robust := get("from_dr")) is not None and robust > ROBUST_WARNS and not _far_from_robust(numbers):
        warnings.append(
            f"the doubly robust estimate is {robust:.1f} standard errors away: the features may not be able to "
            "represent the value, and the interval is then about the best fit in these features."
        )
    if numbers["truncated"] and get("terminated", 0) == 0 and numbers["method"] not in ENDED_BY_A_CUT:
        warnings.append(
            "every episode was cut off: rewards beyond the cut are known through the value function only; where "
            "episodes do end by themselves, the value is wrong, and the log needs a column terminated."
        )
