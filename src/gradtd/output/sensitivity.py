"""Pictures of a sweep: an error against a hyper-parameter, and the winners' learning curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.output.plots import COLOURS, canvas

RAISED = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
"""Characters of a whole number as an exponent."""


class Line(NamedTuple):
    """One algorithm: its error, and how many runs diverged, at each value of a hyper-parameter.

    A value that is a word, such as "auto", is drawn as a level line.
    """

    label: str
    places: Mapping[Any, tuple[float, int]]


def sensitivity_curves(lines: Sequence[Line], name: str, metric: str, *, title: str) -> Any:
    """The error against a hyper-parameter, one line per algorithm; a cross where a run diverged."""
    figure, axes = canvas(title)
    colours = [COLOURS[k % len(COLOURS)] for k in range(len(lines))]
    for colour, line in zip(colours, lines, strict=True):
        numbers = sorted(value for value in line.places if not isinstance(value, str))
        error = np.array([line.places[value][0] for value in numbers])
        diverged = np.array([line.places[value][1] > 0 for value in numbers], np.bool_)
        if numbers:
            axes.plot(numbers, error, color=colour, marker="o", markersize=3, label=line.label)
            axes.plot(
                np.array(numbers)[diverged], error[diverged], color=colour, linestyle="", marker="x", markersize=7
            )
        for word in (value for value in line.places if isinstance(value, str)):
            axes.axhline(line.places[word][0], color=colour, linestyle=":", label=f"{line.label}, {name}={word}")
    taken = [value for line in lines for value in line.places if not isinstance(value, str)]
    if taken and min(taken) > 0:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: _power_of_two(value))
    axes.set_xlabel(f"{name} (x: at least one run diverged)")
    _finish(axes, metric, [error for line in lines for error, _ in line.places.values()])
    return figure


def _power_of_two(value: float) -> str:
    """A label in plain text: setting a formula takes Matplotlib two thirds of the time of a picture."""
    return "2" + str(round(np.log2(value))).translate(RAISED)


def winner_curves(curves: Mapping[str, tuple[Integers, Floats, Floats]], metric: str, *, title: str) -> Any:
    """Means with 95 % intervals at the steps that were measured: ``{label: (steps, mean, error)}``."""
    figure, axes = canvas(title)
    for place, (label, (steps, mean, error)) in enumerate(curves.items()):
        colour = COLOURS[place % len(COLOURS)]
        axes.plot(steps, mean, color=colour, marker="o", markersize=3, label=label)
        axes.fill_between(steps, mean - 1.96 * error, mean + 1.96 * error, color=colour, alpha=0.18, linewidth=0)
    axes.set_xlabel("steps seen")
    _finish(axes, metric, [value for _, mean, _ in curves.values() for value in mean])
    return figure


def _finish(axes: Any, metric: str, drawn: Sequence[float]) -> None:
    """Name the axis; a logarithmic one where the errors span more than one order."""
    positive = [value for value in drawn if value > 0]
    if positive and max(positive) > 10 * min(positive):
        axes.set_yscale("log")
    axes.set_ylabel(metric.upper())
    axes.legend(frameon=False, fontsize=8.5, loc="upper left", bbox_to_anchor=(1.0, 1.0))
