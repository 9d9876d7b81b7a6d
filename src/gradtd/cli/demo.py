"""``gradtd demo``: four algorithms on the same data, and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gradtd.core import checks
from gradtd.output.plots import learning_curves, mean_and_error, save
from gradtd.running.result import measure
from gradtd.running.runs import run

LINES: dict[str, tuple[str, dict[str, Any]]] = {
    "Impression GTD (alpha 5, m 32)": ("impression_gtd", {"alpha": 5, "batch_size": 32}),
    "TD (alpha 1/16)": ("td", {"alpha": 1 / 16}),
    "TDRC (alpha 1/16)": ("tdrc", {"alpha": 1 / 16}),
    "LSTD": ("lstd", {}),
}


def demo(
    plot: Annotated[
        Path, typer.Option(metavar="FILE", help="Draw the picture to this file, which ends in .png, .svg or .pdf.")
    ] = Path("demo.png"),
    runs: Annotated[int, typer.Option(help="Number of independent runs of each algorithm.")] = 100,
    steps: Annotated[int, typer.Option(help="Number of steps in each run.")] = 5000,
) -> None:
    """Compare Impression GTD, TD, TDRC and LSTD on Boyan's chain, with a picture."""
    checks.picture_file("--plot", plot)
    curves = {}
    for label, (algorithm, hyper) in LINES.items():
        result = run("boyan_chain", algorithm, runs=runs, steps=steps, **hyper)
        curves[label] = (result.steps, measure(result, "rmsve"))
        mean, error = mean_and_error(curves[label][1])
        print(f"{label:32s} RMSVE after {steps} steps: {mean[-1]:.3f} +- {error[-1]:.3f}")
    save(learning_curves(curves, title="Boyan's chain", metric="rmsve", log=True), plot)
    print(f"picture: {plot}")
