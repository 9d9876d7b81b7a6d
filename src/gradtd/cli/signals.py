"""What a command says when it is stopped: by whom, what was kept, and how to go on. Ctrl-C and SIGTERM alike."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from gradtd.core.checks import printable

AGAIN = "The same command goes on from there."
ANEW = "nothing was kept, and the same command begins anew."


class Terminated(KeyboardInterrupt):
    """SIGTERM: whoever lets go of its work on Ctrl-C does so now."""


class Stopped(BaseException):
    """A command was stopped and has something to say."""

    def __init__(self, cause: KeyboardInterrupt, kept: str) -> None:
        self.code = 143 if isinstance(cause, Terminated) else 130
        who = "SIGTERM" if isinstance(cause, Terminated) else "Ctrl-C"
        super().__init__(f"stopped by {who}; {kept}")


def listen() -> None:
    """Turn SIGTERM into an exception, as Python does with Ctrl-C."""

    def stop(number: int, frame: Any) -> NoReturn:
        raise Terminated

    signal.signal(signal.SIGTERM, stop)


@contextmanager
def keeping(kept: Callable[[], str]) -> Iterator[None]:
    """For a command that keeps what is finished: ``kept()`` says what, when it is stopped."""
    try:
        yield
    except KeyboardInterrupt as cause:
        raise Stopped(cause, f"{kept()} {AGAIN}") from None


def end(sentence: str, code: int) -> NoReturn:
    """One line on stderr, and the end."""
    print(f"gradtd: {printable(sentence, lines=True)}", file=sys.stderr)
    raise SystemExit(code) from None
