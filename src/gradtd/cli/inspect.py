"""``gradtd inspect`` shows how gradtd interprets a log; ``gradtd sample-log`` writes a log to try gradtd on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from gradtd.cli.messages import typed
from gradtd.cli.options import JSON, LOG, PROBLEM, log_format, with_options
from gradtd.core import checks
from gradtd.core.checks import printable


@with_options(reading=log_format)
def inspect(
    log: Annotated[str, typer.Argument(help="The log, as gradtd evaluate takes it.", metavar="LOG")],
    *,
    reading: Any,
    rows: Annotated[int, typer.Option(help="Number of first steps to show.", rich_help_panel=LOG)] = 5,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Show how gradtd interprets a log: columns, episodes, ends, actions, and its first rows."""
    from gradtd.logs import read_log
    from gradtd.logs.log import first_steps
    from gradtd.output.tables import Table

    read = read_log(log, **vars(reading))
    if as_json:
        print(json.dumps({"log": read.name, "understood": read.understood.to_dict()}, indent=2, default=str))
        return
    print(f"{printable(read.name)}: {len(read)} steps. ? marks a guess.")
    for line in read.understood.lines():
        print("  " + typed(printable(line)))
    print()
    columns, _ = first_steps(read, max(rows, 0))
    print(Table("The first steps as they were read:", list(columns), list(zip(*columns.values(), strict=True))).text())


def sample_log(
    problem: Annotated[str, PROBLEM],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="The log file to write; its name ends in .parquet or .csv.")
    ] = Path("log.parquet"),
    episodes: Annotated[int, typer.Option(help="Number of episodes, for episodic problems.")] = 100,
    steps: Annotated[
        int | None, typer.Option(help="Number of steps, for continuing problems; by default 10000.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the log.")] = 0,
) -> None:
    """Write a sample log with a known true value, to try gradtd evaluate."""
    from gradtd.logs.write import write_log
    from gradtd.problems import as_problem
    from gradtd.problems.sample_log import sample_log as sample
    from gradtd.problems.sample_log import true_value

    checks.file_to_write("--out", out, ".parquet", ".csv")
    task = as_problem(problem)
    log = sample(task, checks.whole_number("--episodes", episodes, 1), steps=steps, seed=seed)
    write_log(log, out)
    truth, _ = true_value(task)
    shown = checks.printable(str(out))
    print(f"{shown}: {len(log)} steps of {task.name}. The true value of its target policy is {truth:.5g}.")
    print(f"Estimate it: gradtd evaluate {shown} --gamma {task.gamma:g}")
