"""``gradtd run`` runs an algorithm on a problem many times and prints the metric's mean. ``gradtd demo`` compares four
algorithms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradtd.cli.options import (
    JSON,
    METHOD,
    NUMBER,
    OUTPUT,
    PROBLEM,
    RUN_THREADS,
    SIZE,
    complete_algorithm,
    complete_metric,
    complete_setting,
    hyper_parameters,
    numeric,
    step_size,
)
from gradtd.core import checks
from gradtd.core.checks import InputError

if TYPE_CHECKING:
    from gradtd.running.result import Result


def run(
    problem: Annotated[str | None, PROBLEM] = None,
    algorithm: Annotated[
        str | None,
        typer.Argument(
            help="Name of an algorithm: impression_gtd, td, lstd. gradtd list shows them.",
            metavar="ALGORITHM",
            autocompletion=complete_algorithm,
        ),
    ] = None,
    paper: Annotated[
        str | None,
        typer.Option(
            metavar="FIGURE",
            help="Run the lines of a figure of the paper instead of a problem and an algorithm: boyan_rmse. "
            "An unknown name lists them.",
            rich_help_panel=METHOD,
        ),
    ] = None,
    alpha: Annotated[
        Any,
        typer.Option(
            parser=step_size,
            metavar=NUMBER,
            help="Step-size, for example 0.1 or 1/16, or auto for impression_gtd and (on-policy) td. "
            "The same as --set alpha=NUMBER.",
            rich_help_panel=METHOD,
        ),
    ] = None,
    lam: Annotated[
        float | None,
        numeric("Decay of eligibility traces, 0 (none) to 1: --lam 0.8. The same as --set lam=NUMBER.", METHOD),
    ] = None,
    trace: Annotated[
        str | None,
        typer.Option(
            metavar="WORD",
            help="The ratio in a trace: rho, clipped (at 1), or tree (the target's probability of the action taken). "
            "The same as --set trace=WORD.",
            rich_help_panel=METHOD,
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A hyper-parameter of the algorithm, for example --set batch_size=16. May be given several times. "
            "gradtd list ALGORITHM shows them.",
            rich_help_panel=METHOD,
            autocompletion=complete_setting,
        ),
    ] = None,
    runs: Annotated[int, typer.Option(help="Number of independent runs.", rich_help_panel=SIZE)] = 100,
    steps: Annotated[int, typer.Option(help="Number of steps in each run.", rich_help_panel=SIZE)] = 10_000,
    seed: Annotated[
        int,
        typer.Option(help="Seed of the data: a run uses the same steps for every algorithm.", rich_help_panel=SIZE),
    ] = 0,
    metric: Annotated[
        str,
        typer.Option(
            help="The error to measure, for example rmsve, neu or rmspbe. gradtd list shows them.",
            rich_help_panel=OUTPUT,
            autocompletion=complete_metric,
        ),
    ] = "rmsve",
    at: Annotated[
        str | None,
        typer.Option(
            metavar="STEPS",
            help="Steps after which to measure, separated by commas: 500,1500,10000. By default a tenth, half and all "
            "of the steps.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    as_json: Annotated[bool, JSON] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw the learning curve to this file, which ends in .png, .svg or .pdf.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the curve, the numbers and the settings to this .html file.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    threads: Annotated[int | None, RUN_THREADS] = None,
) -> None:
    """Run an algorithm on a problem many times; print the error's mean and standard error."""
    from gradtd.problems.metrics import METRICS
    from gradtd.running.runs import run as run_algorithm

    if paper is not None:
        chosen = (problem, algorithm, alpha, lam, trace, *(set_ or []), at, page, *("--json" for _ in range(as_json)))
        if any(one is not None for one in chosen):
            raise InputError("--paper sets the problem and the settings: give only --runs, --steps, --seed and --plot.")
        run_figure(paper, runs, steps, seed, plot, threads)
        return
    if problem is None or algorithm is None:
        raise InputError("run takes a problem and an algorithm, for example: gradtd run boyan_chain td --alpha 1/16.")
    hyper = hyper_parameters(algorithm, set_ or [], alpha=alpha, lam=lam, trace=trace)
    checks.known_name("metric", metric, METRICS)
    if plot is not None:
        checks.picture_file("--plot", plot)
    if page is not None:
        checks.file_to_write("--page", page, ".html")
    points = _points(at, steps)
    every = max(1, steps // 100)
    dense = sorted({*points, *range(every, steps + 1, every)}) if plot or page else points
    result = run_algorithm(
        problem, algorithm, runs=runs, steps=steps, seed=seed, snapshots=dense, threads=threads, **hyper
    )
    if plot is not None:
        result.plot(plot, metric)
    if page is not None:
        result.page(page, metric)
    if as_json:
        print(json.dumps(_as_json(result, metric, points, steps)))
        return
    print(result.table(metric, points).text())
    for what, path in (("picture", plot), ("page", page)):
        if path is not None:
            print(f"{what}: {path}")


def run_figure(name: str, runs: int, steps: int, seed: int, plot: Path | None, threads: int | None) -> None:
    """Run every line of a figure of the paper, with its settings; print one row per line, and draw a plot."""
    from gradtd.output.plots import learning_curves, mean_and_error, save
    from gradtd.paper.figures import FIGURES, TUNED
    from gradtd.running.result import measure
    from gradtd.running.runs import run as run_algorithm

    known = {figure.name: figure for figure in FIGURES}
    figure = known[checks.known_name("figure", name.removeprefix("fig:"), known)]
    if plot is not None:
        checks.picture_file("--plot", plot)
    every = max(1, checks.whole_number("--steps", steps, 1) // 100)
    points = list(range(every, steps + 1, every))
    print(f"{figure.label}: {figure.title}; {figure.problem}, {runs} runs of {steps} steps")
    curves, tuned = {}, []
    for line in figure.lines:
        if line.hyper.get("alpha") == TUNED:
            tuned.append(line.label)
            continue
        how: dict[str, Any] = {
            "runs": runs,
            "steps": steps,
            "seed": seed,
            "snapshots": points,
        }
        result = run_algorithm(figure.problem, line.algorithm, threads=threads, **how, **line.hyper)
        values = measure(result, figure.metric)
        if line.shown:
            curves[line.label] = (result.steps, values)
        mean, error = mean_and_error(values)
        told = ", ".join(f"{key}={value:g}" for key, value in line.hyper.items() if isinstance(value, (int, float)))
        print(
            f"{line.label:40s} {figure.metric} {mean[-1]:10.4g} +- {error[-1]:.2g}   {line.algorithm} {told}".rstrip()
        )
    if tuned:
        print(f"left out: {', '.join(tuned)}; gradtd reproduce tunes their step-sizes on other seeds")
    if figure.note:
        print(f"note: {figure.note}")
    if plot is not None:
        save(learning_curves(curves, title=figure.title, metric=figure.metric, log=figure.log), plot)
        print(f"picture: {plot}")


def _points(at: str | None, steps: int) -> list[int]:
    checks.whole_number("--steps", steps, 1)
    if at is None:
        return sorted({max(1, steps // 10), max(1, steps // 2), steps})
    try:
        points = sorted({int(k) for k in at.split(",")})
    except ValueError:
        raise InputError(f"--at takes step numbers separated by commas, got {at!r}.") from None
    return [checks.whole_number("--at", k, 0, steps) for k in points]


def _as_json(result: Result, metric: str, points: list[int], steps: int) -> dict[str, Any]:
    import numpy as np

    from gradtd.output.plots import mean_and_error
    from gradtd.running.result import measure

    where = np.searchsorted(result.steps, points)
    mean, error = mean_and_error(measure(result, metric)[:, where])
    return {
        "problem": result.problem,
        "algorithm": result.algorithm,
        "hyper": {name: value for name, value in result.hyper.items() if isinstance(value, (int, float, str, bool))},
        "metric": metric,
        "runs": len(result.diverged_at),
        "steps": steps,
        "at": points,
        "mean": [float(value) for value in mean],
        "se": [None if value != value else float(value) for value in error],
        "alpha": [None if value != value else value for value in result.step_sizes(where)],
        "diverged": result.diverged,
        "seed": result.seed,
        "versions": dict(result.versions),
    }


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
    """Compare Impression GTD, TD, TDRC and LSTD on Boyan's chain, with a plot."""
    from gradtd.output.plots import learning_curves, mean_and_error, save
    from gradtd.running.result import measure
    from gradtd.running.runs import run as run_algorithm

    checks.picture_file("--plot", plot)
    curves = {}
    for label, (algorithm, hyper) in LINES.items():
        result = run_algorithm("boyan_chain", algorithm, runs=runs, steps=steps, **hyper)
        curves[label] = (result.steps, measure(result, "rmsve"))
        mean, error = mean_and_error(curves[label][1])
        print(f"{label:32s} RMSVE after {steps} steps: {mean[-1]:.3f} +- {error[-1]:.3f}")
    save(learning_curves(curves, title="Boyan's chain", metric="rmsve", log=True), plot)
    print(f"picture: {plot}")
