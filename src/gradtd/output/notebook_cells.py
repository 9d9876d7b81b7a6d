"""Several policies and comparisons as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gradtd.output.tables import Table

if TYPE_CHECKING:
    from gradtd.evaluation.report.comparison import Comparison
    from gradtd.evaluation.report.result import Evaluation


def shown(number: float | None) -> str:
    """A number, or a dash."""
    return "-" if number is None or number != number else f"{number:.5g}"


def chance(share: float) -> str:
    """A probability, never shown as certain.

    >>> chance(0.42), chance(1.0), chance(0.0), chance(float("nan"))
    ('42.0%', '>99.9%', '<0.1%', '-')
    """
    if share != share:
        return "-"
    return ">99.9%" if share > 0.999 else "<0.1%" if share < 0.001 else f"{share:.1%}"


def comparison_tables(comparison: Comparison) -> tuple[Table, Table]:
    """The differences and the ranking."""
    level = f"{comparison.level:.0%}"
    pairs = [
        (f"{row.first} - {row.second}", *map(shown, (row.value, row.low, row.high)), _verdict(row.verdict, row.reason))
        for row in comparison.differences
    ]
    ranked = [(place.name, shown(place.value), chance(place.best), place.verdict) for place in comparison.ranking]
    head = f"Paired differences on the same episodes, {level} intervals"
    return (
        Table(head, ("difference", "value", "low", "high", "verdict of both"), pairs, words=1),
        Table("", ("target", "value", "probability of being best", "verdict"), ranked, words=1),
    )


def _verdict(verdict: str, reason: str) -> str:
    return f"{verdict}: {reason}" if reason else verdict


def comparison_cell(comparison: Comparison) -> str:
    """Both tables."""
    return "<div>" + "<p></p>".join(table.html() for table in comparison_tables(comparison)) + "</div>"


def evaluations_cell(evaluations: Mapping[str, Evaluation], comparison: Comparison | None) -> str:
    """One row per target with its verdict and the first reason, then the comparison."""
    rows = []
    for name, found in evaluations.items():
        gain = found.behaviour
        against = ("-", "-") if gain is None else (f"{gain.gain:.5g}", f"{gain.gain_low:.5g} to {gain.gain_high:.5g}")
        low, high = found.interval
        numbers = (shown(found.value), f"{shown(low)} to {shown(high)}", *against)
        rows.append((name, *numbers, _verdict(found.verdict, " ".join(found.reasons[:1]))))
    names = ("target", "value", "interval", "gain over the behaviour", "its interval", "verdict")
    warned = dict.fromkeys(warning for found in evaluations.values() for warning in found.warnings)
    notes = [f"warning: {warning}" for warning in warned]
    table = Table("", names, rows, words=1, notes=notes)
    return f"<div>{table.html()}{'' if comparison is None else comparison_cell(comparison)}</div>"
