"""The theory's picture: exact curve, bounds and means of runs. Draws, computes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core.files import Arrays
from gradtd.output.plots import COLOURS, save

LINES: dict[str, tuple[str, dict[str, Any]]] = {
    "exact": ("exact", {"color": COLOURS[6], "linewidth": 2}),
    "as printed": ("Theorem 2 as printed", {"color": COLOURS[1], "linestyle": "--"}),
    "corrected": ("Theorem C, corrected", {"color": COLOURS[2], "linestyle": "--"}),
    "long run": ("Theorem E, long run", {"color": COLOURS[3], "linestyle": ":"}),
}
MEASURED = {"independent draws": COLOURS[0], "trajectories": COLOURS[4]}


def theory_picture(found: dict[str, Any], curves: Arrays, paths: Sequence[Path]) -> None:
    """Draw what `theory_curves` computed for a summary."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    at = curves["at"]
    lines = [(label, curves[name], style) for name, (label, style) in LINES.items() if name in curves]
    measured = [(name, curves[name], colour) for name, colour in MEASURED.items()]
    share = found["alpha"] / found["alpha_star"]
    title = f"{found['problem']}: batches of {found['batch_size']}, alpha {found['alpha']:.3g} = {share:.2g} alpha*"
    figure = Figure(figsize=(9, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    x = np.maximum(at, 0.5)
    for label, values, colour in measured:
        mean = values.mean(axis=0)
        error = 1.96 * values.std(axis=0, ddof=1) / np.sqrt(len(values))
        axes.plot(x, mean, color=colour, linewidth=3, alpha=0.6, label=f"{label},\nmean of {len(values)} runs")
        axes.fill_between(x, np.maximum(mean - error, 1e-300), mean + error, color=colour, alpha=0.2, linewidth=0)
    for label, values, style in lines:
        axes.plot(x, values, label=label, **style)
    axes.set_xscale("log")
    axes.set_yscale("log")
    shown = np.concatenate([values.mean(axis=0) for _, values, _ in measured] + [values for _, values, _ in lines])
    positive = shown[(shown > 0) & np.isfinite(shown)]
    top = min(float(positive.max()), 1e4 * float(measured[0][1][:, 0].mean()))
    axes.set_ylim(float(positive.min()) / 2, 2 * top)
    axes.set_xlim(x[1], x[-1])
    axes.set_xlabel("updates (trajectories: steps seen)")
    axes.set_ylabel("E|theta - theta*|^2")
    axes.set_title(title, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, loc="outside right upper", fontsize=9)
    for path in paths:
        save(figure, path)
