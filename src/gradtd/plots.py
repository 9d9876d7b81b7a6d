"""Pictures from numbers that were already computed; nothing here runs an algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from gradtd.types import Floats, Integers

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, which people with colour-blindness can tell apart."""


def mean_and_error(values: Floats) -> tuple[Floats, Floats]:
    """Mean over runs and its standard error (NaN for a single run)."""
    runs = values.shape[0]
    error = values.std(axis=0, ddof=1) / np.sqrt(runs) if runs > 1 else np.full(values.shape[1:], np.nan)
    return values.mean(axis=0), error


def learning_curves(
    curves: Mapping[str, tuple[Integers, Floats]], path: str | Path, *, title: str, metric: str, log: bool = False
) -> None:
    """Draw ``{label: (steps, values[run, step])}`` as means with 95 % intervals, to a file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for colour, (label, (steps, values)) in zip(COLOURS, curves.items(), strict=False):
        mean, error = mean_and_error(values)
        axes.plot(steps, mean, color=colour, label=label)
        axes.fill_between(steps, mean - 1.96 * error, mean + 1.96 * error, color=colour, alpha=0.2, linewidth=0)
    runs = {values.shape[0] for _, values in curves.values()}
    axes.set_xlabel("steps seen")
    axes.set_ylabel(metric.upper())
    axes.set_title(title, loc="left")
    axes.set_yscale("log" if log else "linear")
    if not log:
        axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, title=f"mean of {'/'.join(map(str, sorted(runs)))} runs, 95 % interval")
    figure.savefig(path, dpi=150)
