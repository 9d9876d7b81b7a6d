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
    mark
        "weak" where the interval cannot be trusted, otherwise "ok". It is there for rows that do not learn a value
        function; the verdict is about the method asked for.
    reason
        Why the row is weak.
    """

    method: str
    value: float | None
    low: float | None
    high: float | None
    error: float | None
    note: str = ""
    mark: str = "ok"
    reason: str = ""

    @property
    def remark(self) -> str:
        """The mark, its reason and the note, as people read them."""
        weak = f"weak: {self.reason}" if self.mark == "weak" else ""
        return "; ".join(part for part in (weak, self.note if self.note != self.reason else "") if part)
