"""The command line: ``gradtd list``, ``run``, ``demo``, ``theory``, ``evaluate``, ``reproduce``, ``lab``."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from gradtd.algorithms import ALGORITHMS, as_algorithm
from gradtd.cli.evaluate import evaluate
from gradtd.cli.lab import lab
from gradtd.cli.options import hyper_parameters
from gradtd.cli.theory import theory
from gradtd.core import checks
from gradtd.core.algorithm import REQUIRED
from gradtd.core.checks import InputError
from gradtd.core.progress import progress_bar
from gradtd.output.plots import learning_curves, mean_and_error
from gradtd.problems import PROBLEMS
from gradtd.problems.metrics import METRICS
from gradtd.running.result import Result, measure
from gradtd.running.runs import run as run_algorithm
from gradtd.running.settings import parameters

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Estimate what a policy is worth from data that another policy produced.",
)


@app.command("list")
def list_(
    name: Annotated[str | None, typer.Argument(help="One of them, to see its parameters.")] = None,
) -> None:
    """Show problems, algorithms and metrics; with a name, what it does and its parameters."""
    console = Console()
    if name is not None:
        _show(console, name)
        return
    for title, rows in (
        ("Problems", {n: make.__doc__ for n, make in PROBLEMS.items()}),
        ("Algorithms", {n: a.summary for n, a in ALGORITHMS.items()}),
        ("Metrics", {n: metric.__doc__ for n, metric in METRICS.items()}),
    ):
        console.print(f"\n[bold]{title}[/bold]")
        table = Table(box=None, show_header=False, pad_edge=False)
        for label, text in rows.items():
            table.add_row(label, _first_line(text))
        console.print(table)
    console.print("\nMore about one of them, its parameters too: gradtd list NAME")


def _first_line(text: str | None) -> str:
    return (text or "").strip().splitlines()[0].replace("``", "")


def _show(console: Console, name: str) -> None:
    """What there is to know about a problem, an algorithm or a metric."""
    checks.known_name("problem, algorithm or metric", name, [*PROBLEMS, *ALGORITHMS, *METRICS])
    if name not in ALGORITHMS:
        thing: Any = PROBLEMS.get(name) or METRICS[name]
        console.print(f"{name}{signature(thing)}", markup=False, highlight=False)
        console.print((thing.__doc__ or "").replace("\n    ", "\n"), markup=False, highlight=False)
        return
    algorithm = as_algorithm(name)
    console.print((algorithm.update.__doc__ or "").replace("\n    ", "\n"), markup=False, highlight=False)
    table = Table("hyper-parameter", "default", "meaning", box=None, pad_edge=False)
    for label, parameter in parameters(algorithm).items():
        default = "(required)" if parameter.default is REQUIRED else str(parameter.default)
        table.add_row(label, default, parameter.help)
    console.print(table)


@app.command()
def run(
    problem: Annotated[str, typer.Argument(help="Name of a problem (gradtd list).")],
    algorithm: Annotated[str, typer.Argument(help="Name of an algorithm (gradtd list).")],
    set_: Annotated[list[str] | None, typer.Option("--set", help="A hyper-parameter, e.g. --set alpha=5.")] = None,
    runs: Annotated[int, typer.Option(help="Independent runs.")] = 100,
    steps: Annotated[int, typer.Option(help="Steps in each run.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed; a run's data depend on it and on the run alone.")] = 0,
    metric: Annotated[str, typer.Option(help="What to measure (gradtd list).")] = "rmsve",
    at: Annotated[str | None, typer.Option(help="Steps to measure at, e.g. 500,1500,10000.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads (default: all cores).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the learning curve to this file.")] = None,
) -> None:
    """Run an algorithm on a problem and print the metric's mean and standard error."""
    hyper = hyper_parameters(algorithm, set_ or [])
    checks.known_name("metric", metric, METRICS)
    if plot is not None:
        checks.picture_file("--plot", plot)
    points = _points(at, steps)
    dense = sorted({*points, *range(max(1, steps // 100), steps + 1, max(1, steps // 100))}) if plot else points
    with progress_bar(f"{algorithm} on {problem}") as report:
        result = run_algorithm(
            problem, algorithm, runs=runs, steps=steps, seed=seed, snapshots=dense, threads=threads,
            progress=report, **hyper,
        )  # fmt: skip
    values = measure(result, metric)
    mean, error = mean_and_error(values[:, [dense.index(k) for k in points]])
    if plot is not None:
        learning_curves({result.label: (result.steps, values)}, plot, title=result.problem, metric=metric)
    if as_json:
        print(json.dumps(_as_json(result, metric, points, mean, error, steps)))
    else:
        _print_table(result, metric, points, mean, error)
        if plot is not None:
            print(f"picture: {plot}")


@app.command()
def demo(
    plot: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("demo.png"),
    runs: Annotated[int, typer.Option(help="Independent runs.")] = 100,
    steps: Annotated[int, typer.Option(help="Steps in each run.")] = 5000,
) -> None:
    """Boyan's chain: Impression GTD beside TD, TDRC and LSTD on the same data, with a picture."""
    checks.picture_file("--plot", plot)
    lines: dict[str, tuple[str, dict[str, Any]]] = {
        "Impression GTD (alpha 5, m 32)": ("impression_gtd", {"alpha": 5, "batch_size": 32}),
        "TD (alpha 1/16)": ("td", {"alpha": 1 / 16}),
        "TDRC (alpha 1/16)": ("tdrc", {"alpha": 1 / 16}),
        "LSTD": ("lstd", {}),
    }
    curves = {}
    for label, (algorithm, hyper) in lines.items():
        with progress_bar(label) as report:
            result = run_algorithm("boyan_chain", algorithm, runs=runs, steps=steps, progress=report, **hyper)
        curves[label] = (result.steps, measure(result, "rmsve"))
        mean, error = mean_and_error(curves[label][1])
        print(f"{label:32s} RMSVE after {steps} steps: {mean[-1]:.3f} +- {error[-1]:.3f}")
    learning_curves(curves, plot, title="Boyan's chain", metric="rmsve", log=True)
    print(f"picture: {plot}")


@app.command()
def reproduce(
    figures: Annotated[
        list[str] | None, typer.Argument(help="Labels of figures, e.g. boyan_rmse (default: all).")
    ] = None,
    runs: Annotated[int, typer.Option(help="Independent runs of every line.")] = 100,
    out: Annotated[Path, typer.Option(help="Folder for the page, figures and tables.")] = Path("reproduction"),
    threads: Annotated[int | None, typer.Option(help="Threads (default: all cores).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON.")] = False,
) -> None:
    """Reproduce the paper's figures and judge its claims; resumes where it was interrupted."""
    from gradtd.paper.report import kind, write_report
    from gradtd.paper.reproduce import reproduce as run_all

    workers = (os.cpu_count() or 1) if threads is None else checks.whole_number("--threads", threads, 1)
    with progress_bar("the paper's figures", what=True) as report:
        found, store = run_all(figures or [], out, runs=runs, threads=workers, progress=report)
    words = ["gradtd reproduce", *(figures or []), f"--runs {runs}"]
    page = write_report(found, store, " ".join(words))
    if as_json:
        print(json.dumps({"runs": runs, "page": str(page), "claims": found.claims}))
        return
    for claim in found.claims:
        print(f"{claim['id']:4s} {claim['verdict']:34s} {claim['statement']}")
    counted = Counter(kind(claim["verdict"]) for claim in found.claims)
    print("\n" + ", ".join(f"{number} {word}" for word, number in counted.items()))
    print(f"page: {page}")


def _points(at: str | None, steps: int) -> list[int]:
    checks.whole_number("--steps", steps, 1)
    if at is None:
        return sorted({max(1, steps // 10), max(1, steps // 2), steps})
    try:
        points = sorted({int(k) for k in at.split(",")})
    except ValueError:
        raise InputError(f"--at takes step numbers separated by commas, got {at!r}.") from None
    return [checks.whole_number("--at", k, 0, steps) for k in points]


def _as_json(result: Result, metric: str, points: list[int], mean: Any, error: Any, steps: int) -> dict[str, Any]:
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
        "alpha": [None if value != value else value for value in _step_sizes(result, points)],
        "diverged": result.diverged,
        "seed": result.seed,
        "versions": dict(result.versions),
    }


def _step_sizes(result: Result, points: list[int]) -> list[float]:
    """The median over runs of the step-size in force; NaN where no run has made an update."""
    columns = result.alphas[:, np.isin(result.steps, points)].T
    return [float(np.median(known)) if (known := column[~np.isnan(column)]).size else np.nan for column in columns]


def _print_table(result: Result, metric: str, points: list[int], mean: Any, error: Any) -> None:
    print(f"{result.label} on {result.problem}, {len(result.diverged_at)} runs, seed {result.seed}")
    chosen = result.hyper.get("alpha") == "auto"
    print(f"{'step':>8}  {metric:>10}  {'se':>10}" + f"  {'alpha':>10}" * chosen)
    for k, value, se, alpha in zip(points, mean, error, _step_sizes(result, points), strict=True):
        print(f"{k:>8}  {value:>10.5g}  {se:>10.2g}" + f"  {alpha:>10.3g}" * chosen)
    if result.diverged:
        print(f"{result.diverged} of {len(result.diverged_at)} runs diverged; each is frozen where it did.")


app.command()(theory)
app.command()(evaluate)
app.command()(lab)


def main() -> None:
    """Run the command line; bad input ends with one sentence and exit code 2."""
    try:
        app()
    except InputError as error:
        print(f"gradtd: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except OSError as error:
        print(f"gradtd: {error.filename or 'a file'}: {error.strerror}.", file=sys.stderr)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
