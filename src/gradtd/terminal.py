"""What the commands share: how a setting is written, and a progress bar."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from gradtd import checks
from gradtd.algorithms import as_algorithm
from gradtd.checks import InputError
from gradtd.settings import parameters


def setting(text: str) -> tuple[str, Any]:
    """``name=value``, the value a number, true, false, none or a word."""
    name, sign, value = text.partition("=")
    if not sign or not name or not value:
        raise InputError(f"--set takes name=value, got {text!r}.")
    words = {"true": True, "false": False, "none": None}
    if value.lower() in words:
        return name, words[value.lower()]
    try:
        top, bar, bottom = value.partition("/")
        number = float(top) / float(bottom) if bar else float(value)
    except (ValueError, ZeroDivisionError):
        return name, value
    return name, int(number) if number.is_integer() and "." not in value and "e" not in value.lower() else number


def hyper_parameters(algorithm: str, texts: Iterable[str]) -> dict[str, Any]:
    """The settings of an algorithm, each of a name that it has, and given once."""
    hyper: dict[str, Any] = {}
    for name, value in map(setting, texts):
        checks.known_name(f"hyper-parameter of {algorithm}", name, parameters(as_algorithm(algorithm)))
        if name in hyper:
            raise InputError(f"--set {name} is given twice.")
        hyper[name] = value
    return hyper


@contextmanager
def progress_bar(label: str, what: bool = False) -> Iterator[Any]:
    """A bar on the terminal once the work has taken a second; nothing where nobody watches.

    ``what``: progress is reported with what is being done in front.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    began = time.monotonic()
    counter = TaskProgressColumn() if what else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), counter, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=False) as bar:
        task = bar.add_task(label, total=None, visible=False)

        def report(done: float, total: float, description: str = label) -> None:
            visible = time.monotonic() - began > 1
            bar.update(task, completed=done, total=total, description=description, visible=visible)

        yield (lambda doing, done, total: report(done, total, doing)) if what else report
