"""The commands about the paper: ``gradtd reproduce`` and ``gradtd lab``."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from gradtd.cli.options import JSON, MACHINE, OUTPUT, SCHEDULER, SIZE
from gradtd.cli.signals import keeping
from gradtd.core.checks import InputError
from gradtd.core.executors import n_threads
from gradtd.core.progress import progress_bar


def reproduce(
    figures: Annotated[
        list[str] | None,
        typer.Argument(help="Labels of figures, for example boyan_rmse. By default all.", metavar="FIGURE"),
    ] = None,
    runs: Annotated[int, typer.Option(help="Number of independent runs per line.", rich_help_panel=SIZE)] = 100,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            help="Folder for the page, the figures and the tables. Finished parts are not run again.",
            rich_help_panel=OUTPUT,
        ),
    ] = Path("reproduction"),
    as_json: Annotated[bool, JSON] = False,
    threads: Annotated[
        int | None,
        typer.Option(help="Number of threads, by default one for each core.", rich_help_panel=MACHINE),
    ] = None,
    scheduler: Annotated[str | None, SCHEDULER] = None,
) -> None:
    """Reproduce the paper's figures and check its claims; continues after an interruption."""
    from gradtd.paper.report import kind, write_report
    from gradtd.paper.reproduce import reproduce as run_all

    workers = n_threads(threads, "--threads")
    words = ["gradtd reproduce", *(figures or []), f"--runs {runs}"]
    with keeping(lambda: _kept(out)):
        with progress_bar("the paper's figures", what=True) as report:
            found, store = run_all(figures or [], out, runs=runs, threads=workers, scheduler=scheduler, progress=report)
        page = write_report(found, store, " ".join(words))
    if as_json:
        print(json.dumps({"runs": runs, "page": str(page), "claims": found.claims}))
        return
    for claim in found.claims:
        print(f"{claim['id']:4s} {claim['verdict']:34s} {claim['statement']}")
    counted = Counter(kind(claim["verdict"]) for claim in found.claims)
    print("\n" + ", ".join(f"{number} {word}" for word, number in counted.items()))
    print(f"page: {page}")


def _kept(out: Path) -> str:
    finished = len(list(out.glob(".kept/*.npz")))
    return f"{finished} finished job{'s' * (finished != 1)} are saved in {str(out)!r}."


def lab(
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("lab.html"),
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Write the lab: one HTML file with sliders that change the learning curve; it needs no network or server."""
    from gradtd.paper.lab import write_lab

    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--out must be an HTML file, for example lab.html; got {str(out)!r}.")
    page = write_lab(out)
    print(f"page: {page}")
    if show:
        import webbrowser

        if not webbrowser.open(page.resolve().as_uri()):
            print("no browser was found: open the page yourself.")
