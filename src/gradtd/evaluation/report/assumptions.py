"""The assumptions behind an interval: how each was checked, or why it cannot be checked, and what happens if it fails.

It also grades the evidence for a value in a few lines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradtd.evaluation.limits import DEFAULT, Limits
from gradtd.evaluation.report.diagnostics import Diagnostics
from gradtd.evaluation.report.estimate import ESTIMATORS

if TYPE_CHECKING:
    from gradtd.evaluation.report.result import Evaluation

CHECKED, FAILED, ASSUMED, NOT_NEEDED, HELD = "checked", "failed", "assumed", "not needed", "taken into account"


@dataclass(frozen=True)
class Assumption:
    """One assumption behind an interval.

    Parameters
    ----------
    assumption
        The assumption, as a sentence.
    status
        "checked", "failed", "assumed" if the log cannot show it, "not needed", or "taken into account".
    how
        How it was checked or taken into account, or what to do if it is assumed.
    if_it_fails
        The effect on the answer.
    """

    assumption: str
    status: str
    how: str
    if_it_fails: str


Found = tuple[str, str, str]
"""Status, how it was checked or why it cannot be checked, and what happens if it fails."""


def _probabilities(e: Evaluation) -> Found:
    d = e.diagnostics
    bias = "The value is biased by an unknown amount."
    if d.values == "action" or d.on_policy:
        return NOT_NEEDED, "The value does not use them.", "Nothing changes."
    if d.estimated_behaviour:
        moves = d.model_moves
        if moves is None:
            return ASSUMED, "They were estimated, and the interval treats them as known.", bias
        how = f"They were estimated. A second model moves the value by {moves:.2f} times the allowed distance."
        return FAILED if moves > 1 else HELD, how, bias
    off = d.mean_ratio_distance
    if d.doubt:
        return FAILED, "Given the observation, they do not fit the actions taken.", bias
    how = (
        f"The mean ratio is {d.mean_ratio:.3f}, {off:.1f} standard errors from 1. This test detects only large errors."
    )
    return FAILED if off > DEFAULT.most_mean_ratio_errors else CHECKED, how, bias


def _no_hidden_cause(e: Evaluation) -> Found:
    if e.diagnostics.on_policy and e.diagnostics.values is None:
        return NOT_NEEDED, "The value is that of the log's own policy.", "Nothing changes."
    if e.confounding is None:
        how = "The log cannot show it. confounding=1.5 shows how strong a cause would change the answer."
        return ASSUMED, how, "The value is biased, and the interval does not show it."
    return ASSUMED, "The log cannot show it.", e.confounding.tips


def _states(e: Evaluation) -> Found:
    d, bias = e.diagnostics, "The value is biased."
    if not e.checks:
        return ASSUMED, f"{e.method} was not checked by other fits.", bias
    if d.hidden_time or d.hidden_state or d.differs:
        return FAILED, "Fits with the time, the past or richer features differ.", bias
    if not (d.memory_checks and (d.richer_checks or d.complete)):
        return ASSUMED, "The log is too small for fits that would show it.", bias
    count = (d.richer_checks or 0) + d.memory_checks
    how = f"{count} fits with richer features or with memory agree; the interval includes their differences."
    return CHECKED, how, bias


def _same_period(e: Evaluation) -> Found:
    drift = e.diagnostics.drift
    effect = "The value describes no single period, and the future may differ."
    if drift is None:
        return ASSUMED, "No trend over the order of episodes was tested.", effect
    how = f"The trend over the order of episodes has t = {drift:.1f}."
    return FAILED if abs(drift) > DEFAULT.most_drift else CHECKED, how, effect


def _not_trained(e: Evaluation) -> Found:
    effect = "The value is too high, by an unknown amount."
    if e.diagnostics.trained_on:
        return HELD, "Episodes that it was learned from were left out.", effect
    return ASSUMED, "The log cannot show it. Name such episodes with trained_on='train'.", effect


def _one_look(e: Evaluation) -> Found:
    effect = "With 36 looks, an interval for one look missed the value at least once in 20 % of logs."
    if e.anytime is not None:
        how = f"The interval for every look is {e.anytime.low:.5g} to {e.anytime.high:.5g}."
        return HELD, how, "Nothing changes for that interval."
    return ASSUMED, "Use anytime=True for a growing log.", effect


def _even_steps(e: Evaluation) -> Found:
    if e.diagnostics.time_column:
        how = f"Steps are discounted by the times in {e.diagnostics.time_column!r}."
        return HELD, how, "Nothing changes."
    how = "If they are not, name a column of times: time_column='hours'."
    return ASSUMED, how, "Later rewards get too much or too little weight."


ASSUMPTIONS: dict[str, Callable[[Evaluation], Found]] = {
    "The behaviour's probabilities are right.": _probabilities,
    "No unrecorded cause drives both actions and outcomes.": _no_hidden_cause,
    "Observations and features contain what the value depends on.": _states,
    "Episodes are independent, and the environment does not change over time.": _same_period,
    "The target was not learned from these episodes.": _not_trained,
    "The interval is used once, at a planned time.": _one_look,
    "Steps are evenly spaced.": _even_steps,
}


def assumptions(evaluation: Evaluation) -> tuple[Assumption, ...]:
    """The assumptions of an evaluation, in the order in which they usually matter."""
    return tuple(Assumption(name, *check(evaluation)) for name, check in ASSUMPTIONS.items())


GOOD, FAIR, POOR = "good", "fair", "poor"


@dataclass(frozen=True)
class Grade:
    """One line of the evidence.

    Parameters
    ----------
    what
        What is measured.
    number
        The number, as text.
    word
        "good", "fair" or "poor".
    """

    what: str
    number: str
    word: str


def grade(d: Diagnostics, limits: Limits = DEFAULT) -> tuple[Grade, ...]:
    """The five lines of an evaluation."""
    return (_sample(d, limits), _episodes(d, limits), _policies(d, limits), _choices(d, limits), _fits(d, limits))


def _size(number: float, least: float) -> str:
    return GOOD if number >= 4 * least else FAIR if number >= least else POOR


def _distance(number: float, most: float) -> str:
    return GOOD if number <= most / 2 else FAIR if number <= most else POOR


def _sample(d: Diagnostics, limits: Limits) -> Grade:
    if d.ess_marginal is not None:
        word = _size(d.ess_marginal, limits.fewest_marginal_steps)
        return Grade("Effective sample size", f"{d.ess_marginal:.0f} of {d.steps} steps", word)
    word = _size(d.ess, limits.fewest_effective_steps)
    return Grade("Effective sample size", f"{d.ess:.0f} of {d.steps} steps", word)


def _episodes(d: Diagnostics, limits: Limits) -> Grade:
    if d.effective_pieces is None:
        word = _size(min(d.ess_episodes, d.episodes), limits.fewest_episodes)
        return Grade("Episodes behind the value", f"{d.ess_episodes:.0f} of {d.episodes}", word)
    both = min(d.effective_pieces / limits.fewest_effective_pieces, d.episodes / limits.fewest_episodes)
    return Grade("Episodes behind the value", f"{d.effective_pieces:.0f} of {d.episodes}", _size(both, 1.0))


def _policies(d: Diagnostics, limits: Limits) -> Grade:
    if d.values is not None:
        share = d.outside_range or 0.0
        said = f"{share:.1%} outside the range of the log's actions"
        return Grade("Target's actions", said, _distance(share, limits.most_out_of_range))
    if d.on_policy:
        return Grade("Importance ratios", "all 1: the target is the behaviour policy", GOOD)
    off = abs(d.mean_ratio_off)
    said = f"mean {d.mean_ratio:.4g}, {off:.1f} standard errors from 1"
    return Grade("Importance ratios", said, _distance(d.mean_ratio_distance, limits.most_mean_ratio_errors))


def _choices(d: Diagnostics, limits: Limits) -> Grade:
    what = "Target's choices that the log lacks"
    if d.values is not None and d.never_taken is not None:
        return Grade(what, f"{d.never_taken:.1%}", _distance(d.never_taken, limits.most_never_taken))
    if d.lacking is None:
        share = d.unseen_mass or 0.0
        return Grade(what, f"{share:.1%}", _distance(share, limits.most_unseen))
    word = _distance(d.lacking, limits.most_lacking)
    if word == POOR and (d.lacking_moves or 0.0) <= 1:  # they hardly move the value
        word = FAIR
    return Grade(what, f"{d.lacking:.1%}", word)


def _fits(d: Diagnostics, limits: Limits) -> Grade:
    what = "Fits that check the features"
    if d.method in ESTIMATORS:
        share = d.top_hundredth_carries
        said = f"{share:.0%} of the weight"
        return Grade("Largest 1% of ratios hold", said, _distance(share, limits.most_top_weight))
    if d.richer_checks is None or d.memory_checks is None:
        return Grade(what, "none", POOR)
    said = f"{d.richer_checks} richer, {d.memory_checks} with memory"
    if d.hull_times is not None:
        said += f"; interval {d.hull_times:.1f} times as wide"
    failed = bool(d.differs) or d.hidden_time is not None or d.hidden_state is not None
    unchecked = d.memory_checks == 0 or (d.richer_checks == 0 and d.complete is False)
    word = _distance(d.hull_of_limit or 0.0, 1.0)
    return Grade(what, said, POOR if failed or unchecked else word)
