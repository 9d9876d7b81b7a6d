"""Draws the theory's figure, without computing: exact curve, bounds and means of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.core.files import Arrays
from gradtd.output.plots import COLOURS, canvas, save

LINES: dict[str, tuple[str, dict[str, Any]]] = {
    "exact": ("exact", {"color": COLOURS[6], "linewidth": 2}),
    "as printed": ("Theorem 2 as printed", {"color": COLOURS[1], "linestyle": "--"}),
    "corrected": ("Theorem C, corrected", {"color": COLOURS[2], "linestyle": "--"}),
    "long run": ("Theorem E, long run", {"color": COLOURS[3], "linestyle": ":"}),
}
MEASURED = {"independent draws": COLOURS[0], "trajectories": COLOURS[4]}


def theory_picture(found: Mapping[str, Any], curves: Arrays, paths: Sequence[Path]) -> Any:
    """Draw what `theory_curves` computed for a summary, once per path. Returns the figure.

    Parameters
    ----------
    found
        The result of `gradtd.theory.summary` for the problem.
    curves
        The result of `gradtd.theory.curves.theory_curves` for it.
    paths
        The files to write; their extensions determine the format.
    """

    share = found["alpha"] / found["alpha_star"]
    traces = f", lam {found['lam']:g}" if found.get("lam") else ""
    title = (
        f"{found['problem']}{traces}: batches of {found['batch_size']}, alpha {found['alpha']:.3g} = {share:.2g} alpha*"
    )
    figure, axes = canvas(title)
    figure.set_size_inches(9, 4.4)
    x = np.maximum(curves["at"], 0.5)
    for name, colour in MEASURED.items():
        if name in curves:
            _draw_measured(axes, x, curves[name], name, colour)
    for name, (label, style) in LINES.items():
        if name in curves:
            axes.plot(x, curves[name], label=label, **style)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(*_range(curves))
    axes.set_xlim(x[1], x[-1])
    axes.set_xlabel("updates (trajectories: steps seen)")
    axes.set_ylabel("E|theta - theta*|^2")
    figure.legend(frameon=False, loc="outside right upper", fontsize=9)
    for path in paths:
        save(figure, path)
    return figure


def _draw_measured(axes: Any, x: Floats, values: Floats, name: str, colour: str) -> None:
    """The mean of runs and its 95 % interval."""
    mean = values.mean(axis=0)
    error = 1.96 * values.std(axis=0, ddof=1) / np.sqrt(len(values))
    axes.plot(x, mean, color=colour, linewidth=3, alpha=0.6, label=f"{name},\nmean of {len(values)} runs")
    axes.fill_between(x, np.maximum(mean - error, 1e-300), mean + error, color=colour, alpha=0.2, linewidth=0)


def _range(curves: Arrays) -> tuple[float, float]:
    """The range of errors to show; diverging lines leave the plot, so that they do not flatten the others."""
    shown = [curves[name].mean(axis=0) for name in MEASURED if name in curves]
    shown += [curves[name] for name in LINES if name in curves]
    values = np.concatenate(shown)
    positive = values[(values > 0) & np.isfinite(values)]
    top = min(float(positive.max()), 1e4 * float(curves["exact"][0]))
    return float(positive.min()) / 2, 2 * top
