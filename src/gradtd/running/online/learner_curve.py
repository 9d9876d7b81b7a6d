"""Plots a learner: the start value over time, next to least squares."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.output.plots import COLOURS, canvas, save
from gradtd.output.svg import svg
from gradtd.running.online.standing import Standing


def draw(steps: Any, values: Floats, standing: Standing, title: str) -> Any:
    """The figure: value over steps, and the 95 % interval of least squares."""
    if not len(steps):
        raise InputError("there is no curve yet: a learner records its weights from step 1000 on.")
    figure, axes = canvas(title)
    axes.plot(steps, values, color=COLOURS[0], label="learner")
    if standing.start_least_squares is not None and standing.start_error is not None:
        middle, half = standing.start_least_squares, 1.96 * standing.start_error
        axes.axhline(middle, color=COLOURS[1], linestyle="--", label="least squares, 95 %")
        axes.axhspan(middle - half, middle + half, color=COLOURS[1], alpha=0.15)
    axes.set_xlabel("steps")
    axes.set_ylabel("value at the start of episodes")
    axes.legend(frameon=False)
    return figure


def write(figure: Any, path: str | Path | None) -> Any:
    """Save the figure, or return it."""
    if path is None:
        return figure
    target = checks.picture_file("plot", Path(path))
    save(figure, target)
    return target


def page(title: str, standing: Standing, figure: Any | None) -> str:
    """The HTML that a notebook shows."""
    drawn = "" if figure is None else svg(figure)
    return f"<p><b>{escape(title)}</b></p>{standing._repr_html_()}{drawn}"


def start_row(queue: Any) -> Floats | None:
    """The mean features at the starts of the stored episodes. None without steps."""
    window, rows = queue.runs[0].window, queue.rows
    if rows is None or not window.size or not isinstance(rows.table, np.ndarray):
        return None
    episode = window.steps.episode[: window.size]
    first = window.steps.row[: window.size][np.r_[True, episode[1:] != episode[:-1]]]
    found: Floats = np.asarray(rows.table[first], np.float64).mean(axis=0)
    return found
