"""One row of an evaluation: what one method says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """One method's value of the start states, with its interval.

    Parameters
    ----------
    method
        The name of the method.
    value
        Its value of the start states; None where it has none.
    low, high
        The interval; None where it has none.
    error
        The standard error of the value; None where it has none.
    note
        What to know of the row, and why something is missing.
    """

    method: str
    value: float | None
    low: float | None
    high: float | None
    error: float | None
    note: str = ""
