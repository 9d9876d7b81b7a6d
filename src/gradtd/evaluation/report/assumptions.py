"""The assumptions behind an interval: how each was checked, or why it cannot be, and what happens if it fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradtd.evaluation.limits import DEFAULT

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


def assumptions(evaluation: Evaluation) -> tuple[Assumption, ...]:
    """The assumptions of an evaluation, in the order in which they usually matter."""
    return (
        _probabilities(evaluation),
        _no_hidden_cause(evaluation),
        _states(evaluation),
        _same_period(evaluation),
        _not_trained(evaluation),
        _one_look(evaluation),
        _even_steps(evaluation),
    )


def _probabilities(e: Evaluation) -> Assumption:
    d, name = e.diagnostics, "The behaviour's probabilities are right."
    bias = "The value is biased by an unknown amount."
    if d.values == "action" or d.on_policy:
        return Assumption(name, NOT_NEEDED, "The value does not use them.", "Nothing changes.")
    if d.estimated_behaviour:
        moves = d.model_moves
        if moves is None:
            return Assumption(name, ASSUMED, "They were estimated, and the interval treats them as known.", bias)
        how = f"They were estimated. A second model moves the value by {moves:.2f} times the allowed distance."
        return Assumption(name, FAILED if moves > 1 else HELD, how, bias)
    off = d.mean_ratio_distance
    if d.doubt:
        return Assumption(name, FAILED, "Given the observation, they do not fit the actions taken.", bias)
    how = f"The mean ratio is {d.mean_ratio:.3f}, {off:.1f} standard errors from 1. That shows coarse errors only."
    return Assumption(name, FAILED if off > DEFAULT.most_mean_ratio_errors else CHECKED, how, bias)


def _no_hidden_cause(e: Evaluation) -> Assumption:
    name = "No unrecorded cause drives both actions and outcomes."
    if e.diagnostics.on_policy and e.diagnostics.values is None:
        return Assumption(name, NOT_NEEDED, "The value is that of the log's own policy.", "Nothing changes.")
    if e.confounding is None:
        how = "The log cannot show it. confounding=1.5 shows how strong a cause would change the answer."
        return Assumption(name, ASSUMED, how, "The value is biased, and the interval does not show it.")
    return Assumption(name, ASSUMED, "The log cannot show it.", e.confounding.tips)


def _states(e: Evaluation) -> Assumption:
    name = "Observations and features contain what the value depends on."
    d, bias = e.diagnostics, "The value is biased."
    if not e.checks:
        return Assumption(name, ASSUMED, f"{e.method} was not checked by other fits.", bias)
    if d.hidden_time or d.hidden_state or d.differs:
        return Assumption(name, FAILED, "Fits with the time, the past or richer features differ.", bias)
    if not (d.memory_checks and (d.richer_checks or d.complete)):
        return Assumption(name, ASSUMED, "The log is too small for fits that would show it.", bias)
    count = (d.richer_checks or 0) + d.memory_checks
    how = f"{count} fits with richer features or with memory agree; the interval includes their differences."
    return Assumption(name, CHECKED, how, bias)


def _same_period(e: Evaluation) -> Assumption:
    name = "Episodes are independent, and the environment does not change over time."
    drift = e.diagnostics.drift
    effect = "The value describes no single period, and the future may differ."
    if drift is None:
        return Assumption(name, ASSUMED, "No trend over the order of episodes was tested.", effect)
    how = f"The trend over the order of episodes has t = {drift:.1f}."
    return Assumption(name, FAILED if abs(drift) > DEFAULT.most_drift else CHECKED, how, effect)


def _not_trained(e: Evaluation) -> Assumption:
    name = "The target was not learned from these episodes."
    effect = "The value is too high, by an unknown amount."
    if e.diagnostics.trained_on:
        return Assumption(name, HELD, "Episodes that it was learned from were left out.", effect)
    return Assumption(name, ASSUMED, "The log cannot show it. Name such episodes with trained_on='train'.", effect)


def _one_look(e: Evaluation) -> Assumption:
    name = "The interval is used once, at a planned time."
    effect = "With 36 looks, a single-look interval was wrong at some look in 20 % of logs."
    if e.anytime is not None:
        how = f"The interval for every look is {e.anytime.low:.5g} to {e.anytime.high:.5g}."
        return Assumption(name, HELD, how, "Nothing changes for that interval.")
    return Assumption(name, ASSUMED, "Use anytime=True for a growing log.", effect)


def _even_steps(e: Evaluation) -> Assumption:
    name = "Steps are evenly spaced."
    if e.diagnostics.time_column:
        how = f"Steps are discounted by the times in {e.diagnostics.time_column!r}."
        return Assumption(name, HELD, how, "Nothing changes.")
    how = "If they are not, name a column of times: time_column='hours'."
    return Assumption(name, ASSUMED, how, "Later rewards get too much or too little weight.")
