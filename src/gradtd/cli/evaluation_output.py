"""What `gradtd evaluate` prints and writes."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from gradtd.cli.messages import typed
from gradtd.cli.options import OUTPUT
from gradtd.core import checks
from gradtd.core.checks import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from gradtd.evaluation import Evaluation, Evaluations

AS_JSON = typer.Option("--json", help="Print one JSON object instead of text.", rich_help_panel=OUTPUT)
VERBOSE = typer.Option("--verbose", help="Also print all diagnostics and the table of checks.", rich_help_panel=OUTPUT)
PAGE = typer.Option(help="Write one self-contained HTML page to this file, with all plots.", rich_help_panel=OUTPUT)
PLOT = typer.Option(
    help="Draw the intervals of all methods, or the paired differences of several targets, to this file (.png, "
    ".svg, .pdf).",
    rich_help_panel=OUTPUT,
)
SAVE = typer.Option(help="Save the evaluation to this .npz file, for gradtd.load_evaluation.", rich_help_panel=OUTPUT)
AS_LONG_AS_IT_IS = 10_000
"""A line width that prevents wrapping."""
Files = tuple[Path | None, Path | None, Path | None]
"""The requested page, plot and saved file of an evaluation."""


def check_outputs(page: Path | None, plot: Path | None, save: Path | None, several: bool) -> None:
    """Refuse impossible outputs before the work begins."""
    if several and save:
        raise InputError("--save takes one target; --page shows several.")
    if plot is not None:
        checks.picture_file("--plot", plot)
    for name, path, ending in (("--page", page, ".html"), ("--save", save, ".npz")):
        if path is not None:
            checks.file_to_write(name, path, ending)


def show(found: Evaluation | Evaluations, files: Files, as_json: bool, verbose: bool) -> None:
    """Write the requested files and print the result."""
    from gradtd.evaluation import Evaluations
    from gradtd.output.evaluation_page import write_page
    from gradtd.output.evaluation_text import on_terminal

    page, plot, save = files
    several = isinstance(found, Evaluations)
    named = found if isinstance(found, Evaluations) else {"target": found}
    evaluations = Evaluations({name: _typed(evaluation) for name, evaluation in named.items()})
    comparison = evaluations.compare() if several else None
    if save is not None:
        evaluations["target"].save(save)
    if plot is not None:
        (comparison or evaluations["target"]).plot(plot)
    if page is not None:
        write_page(evaluations, page, "gradtd " + shlex.join(sys.argv[1:]), comparison)
    if as_json:
        told = {name: evaluation.to_dict() for name, evaluation in evaluations.items()}
        every = {"targets": told, "comparison": comparison.to_dict()} if comparison else told["target"]
        print(json.dumps(every))
        return
    for name, evaluation in evaluations.items():
        open_console().print(on_terminal(evaluation, f"{name}: " if several else "", verbose, typed))
    if comparison:
        open_console().print(comparison)
    for what, path in (("page", page), ("picture", plot), ("saved", save)):
        if path is not None:
            print(f"{what}: {path}")


def _typed(evaluation: Evaluation) -> Evaluation:
    """The text of an evaluation, with parameters spelled as options."""
    said: dict[str, Any] = {
        name: tuple(map(typed, getattr(evaluation, name))) for name in ("reasons", "warnings", "notes")
    }
    return replace(evaluation, **said)


def open_console() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = AS_LONG_AS_IT_IS  # readers of a file or a pipe wrap lines themselves
    return console
