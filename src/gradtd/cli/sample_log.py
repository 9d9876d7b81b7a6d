"""``gradtd sample-log``: a log for trying ``gradtd evaluate``, with a known true value."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradtd.cli.options import complete_problem
from gradtd.core import checks


def sample_log(
    problem: Annotated[
        str,
        typer.Argument(
            help="Name of a problem, with optional parameters: random_walk_tabular, boyan_chain:n=9. "
            "gradtd list shows them.",
            metavar="PROBLEM",
            autocompletion=complete_problem,
        ),
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="The log file to write; its name ends in .parquet or .csv.")
    ] = Path("log.parquet"),
    episodes: Annotated[int, typer.Option(help="Number of episodes, for episodic problems.")] = 100,
    steps: Annotated[
        int | None, typer.Option(help="Number of steps, for continuing problems; by default 10000.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the log.")] = 0,
) -> None:
    """Write a log with a known true value, for trying evaluate."""
    from gradtd.logs.write import write_log
    from gradtd.problems import as_problem
    from gradtd.problems.sample_log import sample_log as sample
    from gradtd.problems.sample_log import true_value

    checks.file_to_write("--out", out, ".parquet", ".csv")
    task = as_problem(problem)
    log = sample(task, checks.whole_number("--episodes", episodes, 1), steps=steps, seed=seed)
    write_log(log, out)
    truth, _ = true_value(task)
    print(f"{out}: {len(log)} steps of {task.name}. The true value of its target policy is {truth:.5g}.")
    print(f"Estimate it: gradtd evaluate {out} --gamma {task.gamma:g}")
