"""The evidence for a value in five lines, each with a word: good, fair or poor.

A number is poor if it breaks the limit of its rule, and fair near that limit: sizes within four times the limit,
distances from half of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from gradtd.evaluation.limits import DEFAULT, Limits
from gradtd.evaluation.report.diagnostics import Diagnostics
from gradtd.evaluation.report.estimate import ESTIMATORS

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
        said = f"{share:.1%} outside the range of the log's"
        return Grade("Target's actions", said, _distance(share, limits.most_out_of_range))
    if d.on_policy:
        return Grade("Importance ratios", "all 1: the target made the log", GOOD)
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
