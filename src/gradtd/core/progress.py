"""How far work is: who may hear of it, and a bar on the terminal once it has taken a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = Callable[[int, int], Any]
"""Hears how many pieces of the work are done, and of how many."""
StageProgress = Callable[[str, int, int], Any]
"""The same for work of several stages, with the name of the stage in front."""


def stage(progress: StageProgress | None, what: str) -> Progress | None:
    """The progress of one stage of the work, to hand to a function that knows of no stages."""
    return None if progress is None else lambda done, total: progress(what, done, total)


@contextmanager
def progress_bar(label: str, what: bool = False) -> Iterator[Any]:
    """A bar on the terminal once the work has taken a second; nothing where nobody watches.

    ``what``: progress is reported with what is being done in front.
    """
    from rich.console import Console  # not at the top: whoever only names the types above needs no rich
    from rich.progress import BarColumn, MofNCompleteColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    began = time.monotonic()
    counter = TaskProgressColumn() if what else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), counter, TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True, disable=False) as bar:
        task = bar.add_task(label, total=None, visible=False)

        def report(done: float, total: float, description: str = label) -> None:
            visible = time.monotonic() - began > 1
            bar.update(task, completed=done, total=total, description=description, visible=visible)

        yield (lambda doing, done, total: report(done, total, doing)) if what else report
