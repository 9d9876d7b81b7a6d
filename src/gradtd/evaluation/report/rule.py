"""One rule of the verdict: a condition and its sentence. And the conditions that several rules share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from string import Formatter

from gradtd.evaluation.estimators.importance_sampling import BEYOND
from gradtd.evaluation.estimators.methods import ROUNDING
from gradtd.evaluation.limits import FEWEST_EPISODES, LEAST_MARGINAL, LEAST_MARGINAL_EPISODES, PLAIN, ROBUST_REFUSES
from gradtd.evaluation.report.diagnostics import Diagnostics
from gradtd.evaluation.report.estimate import ENDED_BY_A_CUT, ESTIMATORS, OTHER_SOLUTIONS, Estimate
from gradtd.evaluation.trust.size import EFFECTIVE, NO_WIDTH


class Kind(Enum):
    """What a rule that holds makes of an estimate."""

    REASON = "not usable"
    UNCHECKED = "unchecked"
    WARNING = "a warning"


@dataclass(frozen=True)
class Evidence:
    """What a rule may look at: the diagnostics ``d``, and the estimates, of which ``row`` is the one asked for."""

    d: Diagnostics
    estimates: Sequence[Estimate]

    @property
    def row(self) -> Estimate:
        return self.estimates[0]


@dataclass(frozen=True)
class Rule:
    """One row of the table.

    Parameters
    ----------
    name
        Two or three words.
    when
        The condition in words, thresholds included, for the docs.
    test
        The condition.
    sentence
        What is said where it holds: ``{d.ess:.0f}`` stands for a number of the diagnostics, ``{row.method}`` for one of
        the estimate.
    kind
        Whether that makes the estimate unusable, leaves it unchecked, or is to be known only.
    """

    name: str
    when: str
    test: Callable[[Evidence], bool]
    sentence: str
    kind: Kind = Kind.REASON

    def said(self, evidence: Evidence) -> str:
        """The sentence about this evaluation."""
        return self.sentence.format(d=evidence.d, row=evidence.row)

    def shown(self) -> str:
        """The sentence with names in place of numbers."""
        parts = Formatter().parse(self.sentence)
        return "".join(text + (f"*{name.partition('.')[2]}*" if name else "") for text, name, _, _ in parts)


def above(value: float | None, limit: float) -> bool:
    """Whether a number that may not be known is above a limit."""
    return value is not None and value > limit


def other_solution(e: Evidence) -> bool:
    return e.d.method in OTHER_SOLUTIONS


def far_from_robust(e: Evidence) -> bool:
    return e.d.lacking is None and above(e.d.from_dr, ROBUST_REFUSES) and e.d.ess_episodes >= FEWEST_EPISODES


def heavy_products(e: Evidence) -> bool:
    return e.d.method in ESTIMATORS and e.d.ess_episodes < FEWEST_EPISODES <= e.d.episodes


def behind_cuts(e: Evidence) -> bool:
    return e.d.method in ENDED_BY_A_CUT and e.d.beyond_cuts > BEYOND


def small_marginal(e: Evidence) -> bool:
    if e.d.method in ESTIMATORS or e.d.ess_marginal is None or e.d.ess_marginal_episodes is None:
        return False
    return e.d.ess_marginal < LEAST_MARGINAL or e.d.ess_marginal_episodes < LEAST_MARGINAL_EPISODES


def no_width(e: Evidence) -> bool:
    value, low, high = e.row.value, e.row.low, e.row.high
    return (
        value is not None
        and low is not None
        and high is not None
        and high - low <= (NO_WIDTH if e.d.values is None else ROUNDING) * abs(value)
    )


def few_pieces(e: Evidence) -> bool:
    found = e.d.effective_pieces
    return found is not None and found < EFFECTIVE and not no_width(e)


def narrower(e: Evidence) -> bool:
    """Whether an interval by refits is narrower than the hull of the checks."""
    low, high = e.row.low, e.row.high
    if not e.d.refits or e.d.hull_low is None or e.d.hull_high is None or low is None or high is None:
        return False
    return e.d.hull_high - e.d.hull_low > PLAIN * (high - low)
