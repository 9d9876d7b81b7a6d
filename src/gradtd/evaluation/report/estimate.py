"""One row of an evaluation: what one method says. And the names of the methods, which everything else refers to."""

from __future__ import annotations

from dataclasses import dataclass

AUTO = "auto"
"""The default: the log's equations, which the rules of the library solve step by step, solved at once."""
UNTRACED = "lstd_without_traces"
"""The row of LSTD with lam = 0, next to a value with traces."""
NETWORK = "network"
"""Features that a network learns from the log, and the row of that network's own value."""
ESTIMATORS = {
    "monte_carlo": "Monte Carlo (the log's own returns)",
    "is": "importance sampling, whole episodes",
    "wis": "weighted importance sampling",
    "pdis": "per-decision importance sampling",
    "wpdis": "weighted per-decision importance sampling",
    "dr": "doubly robust",
    "wdr": "weighted doubly robust",
}
"""Importance-sampling estimators, which learn no value function of their own."""
ENDED_BY_A_CUT = ("monte_carlo", "is", "wis", "pdis", "wpdis")
"""Estimators that know no rewards beyond the last row of an episode."""
COMPUTED = {AUTO: "least squares, solved directly", "lstd": "LSTD", **ESTIMATORS, "drl": "double RL, cross-fitted"}
"""Methods that compute a value in closed form, in the order of the table, and what people call them."""
OTHER_SOLUTIONS = ("vtrace", "etd", "emphatic_lstd", "residual_gradient")
"""Rules that converge to another solution by design."""
_LABELS = {
    "impression_gtd": "Impression GTD",
    UNTRACED: "LSTD without traces",
    NETWORK: "the network's own value",
} | COMPUTED


def method_label(method: str) -> str:
    """A method's name as people read it."""
    return _LABELS.get(method, method)


@dataclass(frozen=True)
class BehaviourValue:
    """What the policy that made the log is worth by itself, in the same features, and the target's gain over it.

    Parameters
    ----------
    value, low, high
        The behaviour's own value with its interval.
    gain, gain_low, gain_high
        The target's value minus it, with the interval of that difference on the same episodes.
    """

    value: float
    low: float
    high: float
    gain: float
    gain_low: float
    gain_high: float


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
    def label(self) -> str:
        """The method's name as people read it."""
        return method_label(self.method)

    @property
    def remark(self) -> str:
        """The mark, its reason and the note, as people read them."""
        weak = f"weak: {self.reason}" if self.mark == "weak" else ""
        return "; ".join(part for part in (weak, self.note if self.note != self.reason else "") if part)
