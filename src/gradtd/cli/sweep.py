"""``gradtd sweep``: a grid of problems, algorithms, hyper-parameters and seeds, into a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradtd.cli.options import FLAG, JSON, OUTPUT, RUN_THREADS, SCHEDULER
from gradtd.cli.signals import keeping

if TYPE_CHECKING:
    from gradtd.running.sweeps.sweep import Status


def sweep(
    file: Annotated[
        Path,
        typer.Argument(
            help="A TOML file that describes the sweep: problems, runs, steps, metrics, at, \\[algorithms.NAME].",
            metavar="FILE",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            help="Folder for the table, the page and the finished units. A restart does not run these again.",
            rich_help_panel=OUTPUT,
        ),
    ] = Path("sweep"),
    status: Annotated[
        bool,
        typer.Option(
            "--status", metavar=FLAG, help="Print the progress without running anything.", rich_help_panel=OUTPUT
        ),
    ] = False,
    missing: Annotated[
        bool,
        typer.Option(
            "--missing", metavar=FLAG, help="List missing units without running anything.", rich_help_panel=OUTPUT
        ),
    ] = False,
    as_json: Annotated[bool, JSON] = False,
    threads: Annotated[int | None, RUN_THREADS] = None,
    scheduler: Annotated[str | None, SCHEDULER] = None,
) -> None:
    """Run a grid of settings in a folder; continues after an interruption."""
    from gradtd.core.executors import n_threads
    from gradtd.running.sweeps.sweep import Sweep

    workers = n_threads(threads, "--threads")
    grid = Sweep.from_file(file)
    if status or missing:
        _tell(grid.status(out), missing, as_json)
        return
    with keeping(lambda: _kept(grid.status(out))):
        found = grid.run(out, threads=workers, scheduler=scheduler)
    if as_json:
        told = {"folder": str(out), "page": str(found.page), "winners": found.winners.to_pylist()}
        print(json.dumps(told | {"notes": list(found.notes)}))
        return
    print(found.table().text())
    print(f"table: {out / 'results.parquet'}\npage: {found.page}")


def _kept(found: Status) -> str:
    return f"{found.done} of {found.done + len(found.missing)} units are saved."


def _tell(found: Status, each: bool, as_json: bool) -> None:
    if as_json:
        told = {"done": found.done, "missing": len(found.missing), "running": found.running}
        print(json.dumps(told | ({"units": [str(unit) for unit in found.missing]} if each else {})))
    elif each:
        for unit in found.missing:
            print(unit)
    else:
        now = "a process is working on it" if found.running else "no process is working on it"
        left = f"{len(found.missing)} missing" if found.missing or not found.winners_known else "complete"
        later = "" if found.winners_known else ", then the winners on fresh seeds"
        print(f"{found.done} units done, {left}{later}; {now}.")
