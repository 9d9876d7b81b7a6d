"""What the commands share: numbers and settings as they are typed, names for the shell to complete, help panels.

The modules of the commands import what computes inside their functions, so that help appears at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import typer

from gradtd.core import checks, parsing
from gradtd.core.checks import InputError
from gradtd.core.parsing import parse_value

NUMBER: Any = "NUMBER"
"""How help shows an option that takes a number."""


def number(text: Any) -> float:
    """A number or a fraction; for ``typer.Option(parser=number, metavar=NUMBER)``."""
    found = parse_value(text) if isinstance(text, str) else text
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        raise typer.BadParameter(f"{text!r} is not a number; write for example 0.25, 1e-3 or 1/16.")
    return float(found)


def step_size(text: Any) -> float | str:
    """A number, or the word auto."""
    return "auto" if text == "auto" else number(text)


METHOD, SIZE, OUTPUT, MACHINE = "Method", "Amount of data", "Output", "Machine"
"""Panels in which the help shows options."""
FLAG = " "
"""How help shows an option that takes no value; Typer would write <bool> behind it."""
SCHEDULER: Any = typer.Option(
    "--scheduler",
    metavar="ADDRESS",
    help="Address of a Dask scheduler whose workers do the work, or local:2 for two processes. "
    r"Needs gradtd\[cluster].",
    rich_help_panel=MACHINE,
)
CHECKPOINT: Any = typer.Option(
    "--checkpoint",
    metavar="FOLDER",
    help="Keep what was fitted and the sums of every part of a Parquet log in this folder. Started again it goes on "
    "where it was killed, and reads only files that were added since.",
    rich_help_panel=MACHINE,
)
JSON: Any = typer.Option("--json", metavar=FLAG, help="Print one JSON object instead of text.", rich_help_panel=OUTPUT)


def setting(text: str) -> tuple[str, Any]:
    """``name=value``, the value a number, true, false, none or a word."""
    name, sign, value = text.partition("=")
    if not sign or not name or not value:
        raise InputError(f"--set takes name=value, got {text!r}.")
    return name, parsing.parse_value(value)


def hyper_parameters(algorithm: str, texts: Iterable[str], **options: Any) -> dict[str, Any]:
    """The settings of an algorithm, each of a name that it has, and given once.

    ``options`` have options of their own beside --set; None where they are not typed. A rule without traces is asked
    for lam all the same, and says why it has none.
    """
    from gradtd.algorithms import as_algorithm
    from gradtd.running.settings import TRACES, parameters

    hyper: dict[str, Any] = {}
    own = {name: value for name, value in options.items() if value is not None}
    for name, value in (*own.items(), *map(setting, texts)):
        known = {**TRACES, **parameters(as_algorithm(algorithm))}
        checks.known_name(f"hyper-parameter of {algorithm}", name, known)
        if name in hyper:
            both = f"beside --{name}: leave one of them out" if name in own else "twice"
            raise InputError(f"--set {name} is given {both}.")
        hyper[name] = value
    return hyper


def first_line(text: str | None) -> str:
    """The first line of a docstring, as help shows it."""
    return (text or "").strip().partition("\n")[0].replace("``", "")


def described() -> dict[str, Mapping[str, str]]:
    """Everything that has a name, with one line about it."""
    from gradtd.algorithms import ALGORITHMS
    from gradtd.problems import PROBLEMS
    from gradtd.problems.metrics import METRICS

    return {
        "Problems": {name: first_line(make.__doc__) for name, make in PROBLEMS.items()},
        "Algorithms": {name: first_line(rule.summary) for name, rule in ALGORITHMS.items()},
        "Metrics": {name: first_line(metric.__doc__) for name, metric in METRICS.items()},
    }


def _beginning(names: Mapping[str, str], incomplete: str) -> list[tuple[str, str]]:
    return [(name, text) for name, text in names.items() if name.startswith(incomplete)]


def complete_problem(incomplete: str) -> list[tuple[str, str]]:
    """Names of problems, for the shell."""
    return _beginning(described()["Problems"], incomplete)


def complete_algorithm(incomplete: str) -> list[tuple[str, str]]:
    """Names of algorithms, for the shell."""
    return _beginning(described()["Algorithms"], incomplete)


def complete_metric(incomplete: str) -> list[tuple[str, str]]:
    """Names of metrics, for the shell."""
    return _beginning(described()["Metrics"], incomplete)


def complete_any(incomplete: str) -> list[tuple[str, str]]:
    """Names of problems, algorithms and metrics, for the shell."""
    return [pair for names in described().values() for pair in _beginning(names, incomplete)]


def complete_setting(ctx: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    """Names of the hyper-parameters of the algorithm that was typed before, for the shell."""
    from gradtd.algorithms import ALGORITHMS
    from gradtd.running.settings import parameters

    algorithm = ctx.params.get("algorithm")
    if algorithm in ALGORITHMS:
        known = parameters(ALGORITHMS[algorithm])
        yield from _beginning({f"{name}=": parameter.help for name, parameter in known.items()}, incomplete)
