"""Numbers as they are typed: ``0.0625``, ``1e-3``, ``1/16``."""

from __future__ import annotations

from typing import Any

import typer

NUMBER: Any = "NUMBER"
"""How help shows an option that takes a number."""


def number(text: Any) -> float:
    """A number or a fraction; for ``typer.Option(parser=number, metavar=NUMBER)``."""
    top, bar, bottom = str(text).partition("/")
    try:
        return float(top) / float(bottom) if bar else float(top)
    except (ValueError, ZeroDivisionError):
        raise typer.BadParameter(f"{text!r} is not a number; write for example 0.25, 1e-3 or 1/16.") from None
