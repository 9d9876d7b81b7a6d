"""A progress bar, once work has taken a second."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn


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
