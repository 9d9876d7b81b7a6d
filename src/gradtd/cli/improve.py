"""``gradtd improve``: finds a better policy in a log, with the evidence for it, or reports that the log shows none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from gradtd.cli.evaluation_output import open_console, refuse_same_file
from gradtd.cli.options import BEHAVIOUR, JSON, OUTPUT, THREADS, block_length, log_format, number, numeric, with_options
from gradtd.core import checks

LEARNING = "Learning"
"""The name of a panel of the help."""


@with_options(reading=log_format)
def improve(
    log: Annotated[str, typer.Argument(help="The log, as gradtd evaluate takes it.", metavar="LOG")],
    gamma: Annotated[float, numeric("Discount factor, 0 to 1: for example 0.99 or 99/100.")],
    behaviour: Annotated[str | None, BEHAVIOUR] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="Features of the value function, as in gradtd evaluate. By default one value per discrete state.",
            rich_help_panel=LEARNING,
        ),
    ] = None,
    bins: Annotated[
        str | None,
        typer.Option(
            help="For continuous actions: the number of bins, by default 5, or their edges, separated by commas.",
            metavar="NUMBERS",
            rich_help_panel=LEARNING,
        ),
    ] = None,
    least: Annotated[
        str | None,
        typer.Option(
            help="Minimum count of an action in a state for its probability to change, separated by commas: "
            "5,20. Each number gives a candidate. By default 1,2,5,20,80, for continuous observations 5,20,80,320.",
            metavar="NUMBERS",
            rich_help_panel=LEARNING,
        ),
    ] = None,
    iterations: Annotated[
        str | None,
        typer.Option(
            help="Policy iterations, separated by commas: each number gives a candidate for every --least. 1 takes the "
            "actions that are best by the behaviour's values. By default 20, for continuous observations 1,20.",
            metavar="NUMBERS",
            rich_help_panel=LEARNING,
        ),
    ] = None,
    caution: Annotated[
        float,
        numeric(
            "Number of standard errors subtracted from the value of an action before the best one is chosen.", LEARNING
        ),
    ] = 2.0,
    level: Annotated[
        float, numeric("Simultaneous confidence level of all candidates' intervals: 0.95 or 19/20.", LEARNING)
    ] = 0.95,
    block_length: Annotated[int | None, block_length(LEARNING)] = None,
    seed: Annotated[int, typer.Option(help="Seed of the two halves of the episodes.", rich_help_panel=LEARNING)] = 0,
    *,
    reading: Any,
    threads: Annotated[int | None, THREADS] = None,
    as_json: Annotated[bool, JSON] = False,
    save: Annotated[
        Path | None,
        typer.Option(
            help="Save the policy to this .npz file, for --target of gradtd evaluate and for gradtd.load_policy.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
) -> None:
    """Learn a better policy from a log, and evaluate it on episodes that it was not learned from."""
    from gradtd.improvement.improve import improve as improve_log

    if save is not None:
        refuse_same_file("--save", checks.file_to_write("--save", save, ".npz"), log)
    found = improve_log(
        log,
        gamma,
        behaviour=behaviour,
        features=features,
        bins=_bins(bins),
        least=_numbers(least),
        iterations=_numbers(iterations),
        caution=caution,
        level=level,
        block_length=block_length,
        seed=seed,
        threads=threads,
        log_format=reading,
    )
    if save is not None and found.policy is not None:
        found.policy.save(save)
    if as_json:
        print(json.dumps(found.to_dict() | {"saved": None if save is None or found.policy is None else str(save)}))
        return
    open_console().print(found)
    if save is not None:
        print(_saved(found.policy is not None, found.better, save))


def _numbers(given: str | None) -> list[Any] | None:
    return None if given is None else [number(one.strip()) for one in given.split(",")]


def _bins(given: str | None) -> Any:
    numbers = _numbers(given)
    return numbers[0] if numbers is not None and len(numbers) == 1 else numbers


def _saved(there: bool, better: bool, path: Path) -> str:
    if not there:
        return f"nothing saved to {path}: the log allows no policy except the behaviour."
    return f"saved: {path}" + ("" if better else " (the candidate; it is not shown to be better than the behaviour)")
