"""Numbers as they are typed: ``0.0625``, ``1e-3``, ``1/16``."""

from __future__ import annotations

from typing import Any

import typer

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
