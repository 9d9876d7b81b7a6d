"""Messages for stopped commands (Ctrl-C or SIGTERM): what was saved, and how to continue."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from gradtd.core.checks import printable

AGAIN = "Run the same command to continue."
ANEW = "Nothing was saved; run the command again."


class Terminated(KeyboardInterrupt):
    """Raised on SIGTERM, handled like Ctrl-C."""


class Stopped(BaseException):
    """Raised when a command was stopped, with a message."""

    def __init__(self, cause: KeyboardInterrupt, kept: str) -> None:
        self.code = 143 if isinstance(cause, Terminated) else 130
        who = "SIGTERM" if isinstance(cause, Terminated) else "Ctrl-C"
        super().__init__(f"stopped by {who}. {kept[0].upper()}{kept[1:]}")


def listen() -> None:
    """Turn SIGTERM into an exception, as Python does with Ctrl-C."""

    def stop(number: int, frame: Any) -> NoReturn:
        raise Terminated

    signal.signal(signal.SIGTERM, stop)


@contextmanager
def keeping(kept: Callable[[], str]) -> Iterator[None]:
    """For commands that save finished work: if they are stopped, the message includes the description from
    ``kept()``."""
    try:
        yield
    except KeyboardInterrupt as cause:
        raise Stopped(cause, f"{kept()} {AGAIN}") from None


def end(sentence: str, code: int) -> NoReturn:
    """Print one line on stderr and exit."""
    print(f"gradtd: {printable(sentence, lines=True)}", file=sys.stderr)
    raise SystemExit(code) from None
