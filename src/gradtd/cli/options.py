"""What the commands share: how a setting is written, and a progress bar."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradtd.algorithms import as_algorithm
from gradtd.core import checks
from gradtd.core.checks import InputError
from gradtd.running.settings import parameters


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
