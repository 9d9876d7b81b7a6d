"""``gradtd list``: problems, algorithms and metrics, and details about one of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from inspect import cleandoc, signature
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradtd.cli.options import complete_any, described
from gradtd.core import checks

if TYPE_CHECKING:
    from rich.console import Console


def list_(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A problem, an algorithm or a metric whose parameters to show. By default list all.",
            metavar="NAME",
            autocompletion=complete_any,
        ),
    ] = None,
) -> None:
    """Show problems, algorithms and metrics, or the parameters of one of them."""
    from rich.console import Console

    console = Console()
    if name is not None:
        _show(console, name)
        return
    for title, rows in described().items():
        console.print(f"\n[bold]{title}[/bold]")
        _print_rows(console, [], [[label, text] for label, text in rows.items()])
    console.print("\nFor details and parameters: gradtd list NAME")


def _show(console: Console, name: str) -> None:
    """Details about a problem, an algorithm or a metric."""
    from gradtd.algorithms import ALGORITHMS, as_algorithm
    from gradtd.core.algorithm import REQUIRED
    from gradtd.problems import PROBLEMS
    from gradtd.problems.metrics import METRICS
    from gradtd.running.settings import parameters

    checks.known_name("problem, algorithm or metric", name, [*PROBLEMS, *ALGORITHMS, *METRICS])
    if name in ALGORITHMS:
        algorithm = as_algorithm(name)
        _print_text(console, algorithm.update.__doc__)
        rows = [
            [label, "(required)" if one.default is REQUIRED else str(one.default), one.help]
            for label, one in parameters(algorithm).items()
        ]
        _print_rows(console, ["hyper-parameter", "default", "meaning"], rows)
        if isinstance(algorithm.traces, str):
            _print_text(console, f"It does not support eligibility traces (lam): {algorithm.traces}.")
        _print_text(console, f"Example: gradtd run boyan_chain {name} --set {rows[0][0]}={_example(rows[0])}")
        return
    thing: Any = PROBLEMS.get(name) or METRICS[name]
    text, meanings = documented(thing.__doc__ or "")
    _print_text(console, text)
    if name in METRICS:
        _print_text(console, f"gradtd run PROBLEM ALGORITHM --metric {name}\ngradtd.measure(result, {name!r})")
        return
    rows = [[key, str(p.default), meanings.get(key, "")] for key, p in signature(thing).parameters.items()]
    _print_rows(console, ["parameter", "default", "meaning"], rows)
    _print_text(console, f"Example: gradtd run {name}:{rows[0][0]}={rows[0][1]} impression_gtd")


def documented(text: str) -> tuple[str, Mapping[str, str]]:
    """A docstring without its Parameters section, and the descriptions in that section."""
    before, _, section = cleandoc(text).partition("\nParameters\n----------\n")
    blocks = re.findall(r"^(\w+) : [^\n]*\n((?:    [^\n]*\n?)+)", section, re.MULTILINE)
    return before, {name: " ".join(lines.split()).replace("``", "") for name, lines in blocks}


def _example(row: list[str]) -> str:
    return {"alpha": "1/16", "lam": "4/5"}.get(row[0], row[1])


def _print_text(console: Console, text: str | None) -> None:
    console.print(cleandoc(text or "").replace("``", "") + "\n", markup=False, highlight=False)


def _print_rows(console: Console, titles: list[str], rows: list[list[str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(*titles, box=None, pad_edge=False, show_header=bool(titles))
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
    console.print()
