"""One row of an evaluation: the estimate of one method. Also the names of the methods."""

from __future__ import annotations

from dataclasses import dataclass

AUTO = "auto"
"""The default: direct solution of the equations that the library's algorithms solve iteratively."""
UNTRACED = "lstd_without_traces"
"""The row of LSTD with lam = 0, shown with a value with traces."""
NETWORK = "network"
"""Features learned by a network, and the row of the network's value."""
ESTIMATORS = {
    "monte_carlo": "Monte Carlo (the log's own returns)",
    "is": "importance sampling, whole episodes",
    "wis": "weighted importance sampling",
    "pdis": "per-decision importance sampling",
    "wpdis": "weighted per-decision importance sampling",
    "dr": "doubly robust",
    "wdr": "weighted doubly robust",
}
"""Importance-sampling estimators, which do not learn a value function."""
ENDED_BY_A_CUT = ("monte_carlo", "is", "wis", "pdis", "wpdis")
"""Estimators that ignore rewards after the last row of an episode."""
COMPUTED = {AUTO: "least squares, solved directly", "lstd": "LSTD", **ESTIMATORS, "drl": "double RL, cross-fitted"}
"""Methods with a closed-form value, in the order of the table, and their names."""
OTHER_SOLUTIONS = ("vtrace", "etd", "emphatic_lstd", "residual_gradient")
"""Rules that converge to a different solution by design."""
_LABELS = {
    "impression_gtd": "Impression GTD",
    UNTRACED: "LSTD without traces",
    NETWORK: "the network's value",
} | COMPUTED


def method_label(method: str) -> str:
    """The display name of a method."""
    return _LABELS.get(method, method)


@dataclass(frozen=True)
class BehaviourValue:
    """The behaviour policy's value, in the same features, and the target's gain over it.

    Parameters
    ----------
    value, low, high
        The behaviour policy's value with its interval.
    gain, gain_low, gain_high
        The target's value minus the behaviour's, with the interval of this difference on the same episodes.
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
        Its value of the start states, or None.
    low, high
        The interval, or None.
    error
        The standard error of the value, or None.
    note
        A remark about the row, or the reason why a number is missing.
    mark
        "weak" if the interval cannot be trusted, otherwise "ok". It marks rows that do not learn a value function; the
        verdict is about the requested method.
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
        """The method's display name."""
        return method_label(self.method)

    @property
    def remark(self) -> str:
        """The mark, its reason and the note, as text."""
        weak = f"weak: {self.reason}" if self.mark == "weak" else ""
        return "; ".join(part for part in (weak, self.note if self.note != self.reason else "") if part)
