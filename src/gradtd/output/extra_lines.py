"""What was asked beside the value, in sentences: for the terminal, the notebook and the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradtd.evaluation.report.result import Evaluation


def extra_lines(evaluation: Evaluation) -> list[str]:
    """One sentence for each further answer."""
    lines = []
    if (at_any_time := evaluation.anytime) is not None:
        lines.append(
            f"At every look: {evaluation.level:.0%} confidence sequence {at_any_time.low:.5g} to "
            f"{at_any_time.high:.5g}, {at_any_time.times:.2f} times as wide as for one look."
        )
    return lines
