"""``gradtd evaluate``: a log in, a value with an interval and a verdict out."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from gradtd.cli.options import hyper_parameters, setting
from gradtd.core import checks
from gradtd.core.checks import InputError
from gradtd.core.progress import progress_bar
from gradtd.evaluation import Evaluation
from gradtd.evaluation import evaluate as evaluate_log
from gradtd.evaluation.evaluating import known_method
from gradtd.evaluation.page import explained, label, plot_evaluation, write_page


def evaluate(
    log: Annotated[str, typer.Argument(help="A Parquet or CSV file, a folder of Parquet files, a Minari dataset.")],
    gamma: Annotated[float, typer.Option(help="Discount factor.")],
    target: Annotated[
        list[str] | None,
        typer.Option(help="Column of the target's probabilities, or 'behaviour'; again for several targets."),
    ] = None,
    behaviour: Annotated[
        str | None, typer.Option(help="Column of the behaviour's probabilities, or 'estimate' to fit them.")
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(help="identity, polynomial, fourier, rbf, tiles, aggregation, one-hot; e.g. fourier:order=3."),
    ] = None,
    algorithm: Annotated[
        str, typer.Option(help="Any algorithm (gradtd list), or is, wis, pdis, wpdis, dr, wdr, monte_carlo.")
    ] = ("impression_gtd"),
    set_: Annotated[list[str] | None, typer.Option("--set", help="A hyper-parameter, e.g. --set alpha=0.1.")] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="Our name for a column of the log, e.g. --column reward=r.")
    ] = None,
    observation: Annotated[str | None, typer.Option(help="The observation columns, e.g. x,v.")] = None,
    level: Annotated[float, typer.Option(help="Level of the interval.")] = 0.95,
    resamples: Annotated[int | None, typer.Option(help="Resamples of the episodes (default 100); 0: sandwich.")] = None,
    percentile: Annotated[bool, typer.Option("--percentile", help="Take percentiles of the refits.")] = False,
    updates: Annotated[int | None, typer.Option(help="Updates of the fit (default: until it stands still).")] = None,
    block: Annotated[int | None, typer.Option(help="Steps that count as one episode, for one long episode.")] = None,
    no_whiten: Annotated[bool, typer.Option("--no-whiten", help="Learn on the features as they are.")] = False,
    clip: Annotated[float | None, typer.Option(help="Cut ratios at this number.")] = None,
    log_probabilities: Annotated[
        bool, typer.Option("--log-probabilities", help="The probability columns are logarithms: convert them.")
    ] = False,
    drop_duplicates: Annotated[bool, typer.Option("--drop-duplicates", help="Drop rows that repeat another.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the resamples and of the batches.")] = 0,
    threads: Annotated[int | None, typer.Option(help="Threads (default: all cores).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    page: Annotated[Path | None, typer.Option(help="Write everything to this HTML file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the methods' intervals to this file.")] = None,
    save: Annotated[Path | None, typer.Option(help="Keep the evaluation in this .npz file.")] = None,
) -> None:
    """Estimate what a policy is worth from a log of another one: value, interval, diagnostics, verdict."""
    _check_outputs(page, plot, save, several=len(target or []) > 1)
    names = target or []
    known_method(algorithm, dict(map(setting, set_ or [])))
    hyper = hyper_parameters(algorithm, set_ or [])
    chosen: Any = {name: name for name in names} if len(names) > 1 else names[0] if names else None
    with progress_bar(log, what=True) as report:
        found = evaluate_log(
            log,
            gamma=gamma,
            target=chosen,
            behaviour=behaviour,
            features=features,
            algorithm=algorithm,
            columns=_columns(column, observation),
            level=level,
            resamples=resamples,
            interval="percentile" if percentile else "student",
            updates=updates,
            block=block,
            whiten=not no_whiten,
            clip=clip,
            log_probabilities="convert" if log_probabilities else "refuse",
            duplicates="drop" if drop_duplicates else "refuse",
            seed=seed,
            threads=threads,
            progress=report,
            **hyper,
        )
    several = isinstance(found, Mapping)
    evaluations: dict[str, Evaluation] = dict(found) if several else {"target": found}
    if save is not None:
        found.save(save)
    if plot is not None:
        plot_evaluation(found, plot)
    if page is not None:
        write_page(evaluations, page, "gradtd " + shlex.join(sys.argv[1:]))
    if as_json:
        told = {name: evaluation.to_dict() for name, evaluation in evaluations.items()}
        print(json.dumps({"targets": told} if several else told["target"]))
        return
    for name, evaluation in evaluations.items():
        print_evaluation(evaluation, f"{name}: " if several else "")
    for what, path in (("page", page), ("picture", plot), ("saved", save)):
        if path is not None:
            print(f"{what}: {path}")


def print_evaluation(evaluation: Evaluation, name: str = "") -> None:
    """The evaluation as text: value and verdict first, then the methods and the diagnostics."""
    low, high = evaluation.interval
    print(f"{name}value {evaluation.value:.5g}, {evaluation.level:.0%} interval {low:.5g} to {high:.5g}")
    print(f"{evaluation.verdict}" + ("" if evaluation.reasons else ": none of the checks speaks against it"))
    for sentence in evaluation.reasons:
        print(f"  - {sentence}")
    for title, sentences in (("to know", evaluation.warnings), ("done to the log", evaluation.notes)):
        for sentence in sentences:
            print(f"{title}: {sentence}")
    print(f"\n{evaluation.steps} steps, {evaluation.episodes} episodes; {evaluation.features.describe()}\n")
    print(f"{'method':44}{'value':>11}{'low':>11}{'high':>11}")
    for row in evaluation.estimates:
        cells = [f"{value:>11.5g}" if value is not None else f"{'-':>11}" for value in (row.value, row.low, row.high)]
        print(f"{label(row.method):44}" + "".join(cells) + (f"  {row.note}" if row.note else ""))
    print()
    for text, number in explained(evaluation):
        print(f"{text:76}{number:>10}")
    print()


def _columns(column: list[str] | None, observation: str | None) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    for text in column or []:
        ours, sign, theirs = text.partition("=")
        if not (ours and sign and theirs):
            raise InputError(f"--column takes ours=theirs, for example reward=r; got {text!r}.")
        found[ours] = theirs
    if observation:
        found["observation"] = [name.strip() for name in observation.split(",")]
    return found or None


def _check_outputs(page: Path | None, plot: Path | None, save: Path | None, several: bool) -> None:
    """Refuse what could not be written before the work begins."""
    if several and (plot or save):
        raise InputError("--plot and --save take one target; --page shows several.")
    if plot is not None:
        checks.picture_file("--plot", plot)
    for name, path, ending in (("--page", page, ".html"), ("--save", save, ".npz")):
        if path is not None:
            checks.file_to_write(name, path, ending)
