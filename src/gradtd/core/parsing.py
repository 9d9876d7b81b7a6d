"""Parses values and settings from a command line: ``1/16``, ``true``, ``name:parameter=value,...``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from gradtd.core.checks import InputError

_WORDS = {"true": True, "false": False, "none": None}


def parse_value(text: str) -> Any:
    """A number, a fraction, true, false, none, or else the word itself.

    >>> parse_value("16"), parse_value("1/16"), parse_value("1e3"), parse_value("true"), parse_value("auto")
    (16, 0.0625, 1000.0, True, 'auto')
    """
    for read in (int, float, _fraction):
        try:
            return read(text)
        except (ValueError, ZeroDivisionError):
            continue
    return _WORDS.get(text.lower(), text)


_WHOLE = re.compile(r"\s*-?\d{1,4000}\s*")
"""Matches whole numbers. Excludes superscripts, which Python counts as digits, and numbers too long for ``int``."""


def whole_numbers(words: Iterable[str]) -> list[int] | None:
    """The words as whole numbers, or None if any of them is not a whole number.

    >>> whole_numbers(["10", "-2"]), whole_numbers(["10", "\u00b2"])
    ([10, -2], None)
    """
    every = list(words)
    return [int(word) for word in every] if all(_WHOLE.fullmatch(word) for word in every) else None


_DIGITS = re.compile(r"(\d{1,4000})", re.ASCII)


def by_number(name: str) -> tuple[list[tuple[int, str]], str]:
    """A key that sorts names by the numbers in them.

    >>> sorted(["part-10.parquet", "part-9.parquet"], key=by_number)
    ['part-9.parquet', 'part-10.parquet']
    """
    parts = _DIGITS.split(name)
    return [(int(part) if k % 2 else 0, "" if k % 2 else part) for k, part in enumerate(parts)], name


def _fraction(text: str) -> float | int:
    top, _, bottom = text.partition("/")
    ratio = float(top) / float(bottom)
    return int(ratio) if ratio.is_integer() and "." not in text and "e" not in text.lower() else ratio


def parse_settings(kind: str, text: str, example: str) -> tuple[str, dict[str, Any]]:
    """Parse ``name:parameter=value,...``. ``kind`` and ``example`` are used in the error message.

    >>> parse_settings("problem", "garnet:states=50,gamma=9/10", "garnet:states=50")
    ('garnet', {'states': 50, 'gamma': 0.9})
    """
    name, _, rest = text.partition(":")
    found: dict[str, Any] = {}
    for setting in rest.split(",") if rest.strip() else []:
        key, equals, given = (part.strip() for part in setting.partition("="))
        if not (key and equals and given):
            raise InputError(f"{kind} {text!r} must read name:parameter=value,..., for example {example!r}.")
        if key in found:
            raise InputError(f"{kind} {text!r}: the parameter {key} is given twice.")
        found[key] = parse_value(given)
    return name.strip(), found
