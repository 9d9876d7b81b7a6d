"""The hyper-parameters that several algorithms share."""

from __future__ import annotations

from typing import Any

from gradtd.core.algorithm import Parameter
from gradtd.core.checks import InputError, above


def _only(kind: str, why: str) -> Parameter:
    """The parameter ``trace`` of a rule that supports one kind of traces."""

    def check(name: str, value: Any) -> str:
        if value != kind:
            raise InputError(f"{name} must be {kind!r} here, got {value!r}: {why}.")
        return kind

    return Parameter(kind, f"the ratio in a trace: {kind}, as {why}", check)


ETA = Parameter(1.0, "ratio of the second step-size to the first", above(0))
RIDGE = Parameter(1.0, "multiple of the identity added to the sum over steps", above(0))
ONLY_RHO = _only("rho", "the emphasis belongs to traces with the full ratio")
ONLY_CLIPPED = _only("clipped", "this rule clips both ratios")
