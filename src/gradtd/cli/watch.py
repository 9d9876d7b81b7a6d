"""``gradtd watch``: evaluates a growing folder, with an interval that is valid at every look."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from gradtd.cli.options import COLUMN, FLAG, JSON, LOG, OBSERVATION, OUTPUT, named_columns, numeric
from gradtd.cli.signals import keeping
from gradtd.core.checks import printable


def watch(
    folder: Annotated[Path, typer.Argument(help="A folder in which Parquet files arrive.", metavar="FOLDER")],
    gamma: Annotated[float, numeric("Discount factor, as in gradtd evaluate.")],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            help="Folder for the looks, the plot and the sums of files. A restart continues from there.",
            rich_help_panel=OUTPUT,
        ),
    ] = Path("watch"),
    target: Annotated[
        str | None,
        typer.Option(help="The policy to evaluate, as in gradtd evaluate: a column, or FILE.py:FUNCTION."),
    ] = None,
    behaviour: Annotated[
        str | None, typer.Option(help="A column with the behaviour's probabilities of the actions taken.")
    ] = None,
    features: Annotated[str | None, typer.Option(help="Features, as in gradtd evaluate.")] = None,
    column: Annotated[list[str] | None, COLUMN] = None,
    observation: Annotated[str | None, OBSERVATION] = None,
    first: Annotated[
        int,
        typer.Option(
            help="Number of files in the first look. Features are fitted only to these, so use enough of them.",
            rich_help_panel=LOG,
        ),
    ] = 1,
    level: Annotated[float, numeric("Simultaneous confidence level of all looks.")] = 0.95,
    every: Annotated[float, numeric("Seconds between two checks of the folder.")] = 10.0,
    once: Annotated[bool, typer.Option("--once", metavar=FLAG, help="Evaluate once and exit.")] = False,
    threads: Annotated[int | None, typer.Option(help="Number of threads.")] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Evaluate a folder after every new file, with intervals that are valid at all looks simultaneously."""
    from gradtd.cli.targets import targets
    from gradtd.evaluation.options import LogFormat, Machine
    from gradtd.evaluation.watch import keep_watching, start_watch
    from gradtd.output.evaluation_page import draw_looks

    given = targets([target] if target else [], [], [])
    asked: dict[str, Any] = {
        "gamma": gamma,
        "target": next(iter(given.values()), None),
        "behaviour": behaviour,
        "features": features,
        "log_format": LogFormat(columns=named_columns(column, observation)),
        "level": level,
        "machine": Machine(threads=threads),
        "progress": False,
    }
    watching = start_watch(folder, out, first, **asked)
    picture = out / "looks.svg"
    if watching.looks():
        draw_looks(watching.looks(), level, picture)
    elif not as_json:
        print(f"{'episodes':>9} {'value':>10} {'at every look':>24}  verdict, last file")
    with keeping(lambda: f"{len(watching.looks())} looks are saved in {str(out)!r}."):
        for look in keep_watching(watching, every, once):
            draw_looks(watching.looks(), level, picture)
            if as_json:
                print(json.dumps(asdict(look)), flush=True)
                continue
            ends = f"{look.anytime_low:.5g} to {look.anytime_high:.5g}"
            print(f"{look.episodes:>9} {look.value:>10.5g} {ends:>24}  {look.verdict}, {look.file}", flush=True)
    if not as_json:
        print(f"picture: {printable(str(picture))}")
