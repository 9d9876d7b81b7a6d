"""A comparison as people read it: on the terminal, and as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradtd.evaluation.shown import COLOUR
from gradtd.output.plots import COLOURS, canvas

if TYPE_CHECKING:
    from rich.console import Group

    from gradtd.evaluation.comparing import Comparison

SHADES = {"usable": COLOURS[0], "unchecked": COLOURS[4], "not usable": "#a8a8a8"}
"""Colours of the verdicts in the picture."""


def on_terminal(comparison: Comparison) -> Group:
    """The differences, then the ranking."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    pairs = Table("difference", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("value", "low", "high"):
        pairs.add_column(name, justify="right", no_wrap=True)
    pairs.add_column("verdict of both")
    for row in comparison.differences:
        cells = ["-" if number is None else f"{number:.5g}" for number in (row.value, row.low, row.high)]
        verdict = Text(row.verdict, COLOUR[row.verdict]).append(f": {row.reason}" if row.reason else "", "none")
        pairs.add_row(Text(f"{row.first} - {row.second}"), *cells, verdict)
    ranked = Table("target", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("value", "probability of being best"):
        ranked.add_column(name, justify="right")
    ranked.add_column("verdict")
    for place in comparison.ranking:
        best = "-" if place.best != place.best else f"{place.best:.1%}"
        ranked.add_row(Text(place.name), f"{place.value:.5g}", best, Text(place.verdict, COLOUR[place.verdict]))
    head = Text(f"paired differences on the same episodes, {comparison.level:.0%} intervals", "bold")
    return Group(head, pairs, "", ranked, "")


def differences_figure(comparison: Comparison) -> Any:
    """Every difference with its interval, and a line where there is none; not usable ones are grey and hollow."""
    rows = [row for row in comparison.differences if row.low is not None]
    figure, axes = canvas(f"Paired differences, {comparison.level:.0%} intervals")
    figure.set_size_inches(7.6, min(4.2, 1.6 + 0.4 * len(rows)))
    axes.axvline(0, color="#333333", linewidth=1)
    for y, row in enumerate(rows):
        colour = SHADES[row.verdict]
        axes.plot([row.low, row.high], [-y, -y], color=colour, linewidth=2.5, solid_capstyle="butt")
        inside = colour if row.verdict == "usable" else "white"
        axes.plot([row.value], [-y], "o", color=colour, markerfacecolor=inside, markersize=6)
    axes.set_yticks([-y for y in range(len(rows))], [f"{row.first} - {row.second}" for row in rows], fontsize=9)
    axes.set_ylim(-len(rows) + 0.4, 0.6)
    axes.set_xlabel("difference of the values from the start states")
    return figure
