"""Additional answers as sentences, for terminals, notebooks and pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradtd.evaluation.report.assumptions import Assumption
    from gradtd.evaluation.report.result import Evaluation


def extra_lines(evaluation: Evaluation) -> list[str]:
    """One sentence for each further answer."""
    lines = []
    if (at_any_time := evaluation.anytime) is not None:
        lines.append(
            f"At every look: {evaluation.level:.0%} confidence sequence {at_any_time.low:.5g} to "
            f"{at_any_time.high:.5g}, {at_any_time.times:.2f} times as wide as for one look."
        )
    if (cause := evaluation.confounding) is not None:
        lines.append(
            f"Unrecorded cause: with one that changes the odds of every {cause.each} by a factor of up to "
            f"{cause.strength:g}, the {evaluation.level:.0%} interval is {cause.low:.5g} to {cause.high:.5g}. "
            f"{cause.tips}"
        )
    if evaluation.groups:
        lines.append(f"Groups of starts, intervals that hold for all of them at {evaluation.level:.0%}:")
    for one in evaluation.groups:
        note = f" (the log is too small for it: {one.fault})" if one.fault else ""
        lines.append(f"  {one.name}, {one.episodes} episodes: {one.value:.5g}, {one.low:.5g} to {one.high:.5g}{note}")
    return lines


HEADING = "Assumptions"


def assumption_lines(evaluation: Evaluation) -> list[str]:
    """One line per assumption: its status, how it was checked, and the effect if it fails."""
    return [_line(one) for one in evaluation.assumptions]


def _line(one: Assumption) -> str:
    fails = f" Else: {one.if_it_fails}" if one.status in ("assumed", "failed") else ""
    return f"{one.assumption} {one.status.capitalize()}: {one.how}{fails}"
