"""The plot of `gradtd watch`: value and intervals at every look."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gradtd.output.plots import COLOURS, canvas, save

if TYPE_CHECKING:
    from gradtd.evaluation.watch import Look

MARKS = {"usable": "o", "unchecked": "s", "not usable": "x"}
FAR = 4.0
"""Early looks further from the last value than this multiple of the last interval are cut."""


def draw_looks(looks: Sequence[Look], level: float, path: Path) -> Path:
    """Draw the looks: the line is the value, the wide band holds at every look, the narrow one at a single look."""
    figure, axes = canvas(f"Value after every file, {level:.0%} intervals")
    x = [one.episodes for one in looks]
    axes.fill_between(
        x,
        [one.anytime_low for one in looks],
        [one.anytime_high for one in looks],
        color=COLOURS[0],
        alpha=0.15,
        linewidth=0,
        label="holds at every look",
    )
    axes.fill_between(
        x,
        [one.low for one in looks],
        [one.high for one in looks],
        color=COLOURS[0],
        alpha=0.3,
        linewidth=0,
        label="holds at one look",
    )
    axes.plot(x, [one.value for one in looks], color=COLOURS[0], linewidth=1.4)
    for verdict, mark in MARKS.items():
        some = [one for one in looks if one.verdict == verdict]
        if some:
            where = ([one.episodes for one in some], [one.value for one in some])
            axes.plot(*where, mark, color=COLOURS[0], markersize=4, label=verdict)
    last = looks[-1]
    reach = FAR * (last.anytime_high - last.anytime_low)
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, last.anytime_low - reach), min(high, last.anytime_high + reach))
    axes.set_xlabel("episodes")
    axes.set_ylabel("value from the start states")
    figure.legend(frameon=False, fontsize=9, loc="outside lower center", ncols=4)
    save(figure, path)
    return path
