"""Progress bars, shown on a terminal once the work has taken a second.

Every function that can take long has a parameter ``progress``. None shows the bar after a second, True shows it at
once, and False never shows it. If it is a function, gradtd calls it instead of showing a bar. Bars appear on terminals
and in notebooks only.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import Any, Protocol

from gradtd.core.checks import InputError, printable

Progress = Callable[[int, int], Any]
"""Called with the number of finished pieces and the total."""
StageProgress = Callable[[str, int, int], Any]
"""Called with the name of the stage, the number of finished pieces and the total."""
WAIT = 1.0
"""Seconds of work after which a bar appears."""
_only_one = Lock()
_shown: list[Bar] = []
"""The bar of this process, if any."""


@contextmanager
def progress_bar(label: str, what: bool = False, progress: Any = None) -> Iterator[Any]:
    """The function to call during the work: the caller's own function, a bar, or None without a terminal.

    With ``what`` the work has stages, so the function is a `StageProgress`. Bars are not nested.

        with progress_bar("reading the log", progress=progress) as report:
            ...
            if report:
                report(done, total)
    """
    if callable(progress):
        yield progress
        return
    if progress not in (None, True, False):
        raise InputError(f"progress must be True, False, None or a function, got {progress!r}.")
    shown = None if progress is False else _display()
    if shown is None or not _only_one.acquire(blocking=False):
        yield None
        return
    bar = Bar(label, shown, 0.0 if progress else WAIT)
    _shown.append(bar)
    try:
        yield bar.stage if what else bar.report
    finally:
        _shown.remove(bar)
        bar.close()
        _only_one.release()


def stage(progress: StageProgress | None, what: str) -> Progress | None:
    """The progress function of one stage, for code that has no stages."""
    return None if progress is None else lambda done, total: progress(what, done, total)


def announce(text: str | None) -> None:
    """Show in the bar what the work is waiting for, such as the compiler. None clears the text."""
    for bar in list(_shown):
        bar.announce(text)


class Display(Protocol):
    """An object that can show a bar."""

    def show(self, label: str, done: float, total: float | None) -> None: ...

    def close(self) -> None: ...


class Bar:
    """Counts progress, and shows it after ``wait`` seconds, even before the first piece is done."""

    def __init__(self, label: str, make: Callable[[], Display], wait: float) -> None:
        self._label, self._make = label, make
        self._state: tuple[str, float, float | None] = (label, 0, None)
        self._announced: str | None = None
        self._display: Display | None = None
        self._lock, self._closed = Lock(), False
        self._timer = Timer(wait, self._appear)
        self._timer.daemon = True
        self._timer.start()

    def report(self, done: float, total: float) -> None:
        self.stage(self._label, done, total)

    def stage(self, what: str, done: float, total: float) -> None:
        with self._lock:
            self._state = (what, done, total)
            self._show()

    def announce(self, text: str | None) -> None:
        with self._lock:
            self._announced = text
            self._show()

    def _show(self) -> None:
        """Show the announcement or the progress of a stage. A finished stage has no total, so that the bar does not
        stay at 100 %."""
        if self._display is None or self._closed:
            return
        what, done, total = self._state
        if self._announced is not None:
            self._display.show(self._announced, 0, None)
        elif total is not None and done >= total:
            self._display.show(what, 0, None)
        else:
            self._display.show(what, done, total)

    def close(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._display is not None:
                self._display.close()

    def _appear(self) -> None:
        with self._lock:
            if self._closed:
                return
            try:
                self._display = self._make()
                self._show()
            except Exception as error:  # a failing display must not stop the work
                logging.getLogger(__name__).debug("no progress bar: %s", error)
                self._display = None


def _display() -> Callable[[], Display] | None:
    """A function that creates a bar here. None if it would not be visible."""
    if in_notebook():
        return Notebook
    return Terminal if sys.stderr is not None and sys.stderr.isatty() else None


def in_notebook() -> bool:
    """Whether this runs in a cell of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


class Terminal:
    """A bar on the terminal, removed when the work is done."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=Console(file=sys.stderr), transient=True)
        self._task = self._bar.add_task("", total=None)
        self._bar.start()

    def show(self, label: str, done: float, total: float | None) -> None:
        task, text = self._bar.tasks[0], printable(label).replace("[", "\\[")
        task.total = total  # update would take None for no change
        self._bar.update(self._task, description=text, completed=done, refresh=text != task.description)

    def close(self) -> None:
        self._bar.stop()


class Notebook:
    """A bar under the cell. (Rich needs ipywidgets for this; plain HTML does not.)"""

    def __init__(self) -> None:
        from IPython.display import display

        self._handle = display({"text/plain": ""}, raw=True, display_id=True)

    def show(self, label: str, done: float, total: float | None) -> None:
        import html

        amount = "" if total is None else f' value="{done:g}" max="{total:g}"'
        counted = "" if total is None else f" {done:g} of {total:g}"
        page = f"{html.escape(label)} <progress{amount}></progress>{counted}"
        self._handle.update({"text/html": page, "text/plain": f"{label}{counted}"}, raw=True)

    def close(self) -> None:
        self._handle.update({"text/html": "", "text/plain": ""}, raw=True)
