"""The hyper-parameters that several algorithms share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradtd import checks
from gradtd.types import Parameter


def above(low: float) -> Callable[[str, Any], float]:
    return lambda name, value: checks.number_above(name, value, low)


def at_least(low: float) -> Callable[[str, Any], float]:
    return lambda name, value: checks.number_at_least(name, value, low)


def whole(low: int) -> Callable[[str, Any], int]:
    return lambda name, value: checks.whole_number(name, value, low)


def choice(*allowed: str) -> Callable[[str, Any], Any]:
    return lambda name, value: checks.one_of(name, value, allowed)


ETA = Parameter(1.0, "second step-size over the first", above(0))
RIDGE = Parameter(1.0, "multiple of the identity added to the sum over steps", above(0))
