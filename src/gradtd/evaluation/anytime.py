"""Intervals that hold at every look at a growing log: an asymptotic confidence sequence from the influences.

A 95 % interval holds for one planned look. Someone who looks repeatedly and stops at a pleasing answer is wrong more
often. A confidence sequence holds at all looks at once (`gradtd.core.quantiles.boundary`).
"""

from __future__ import annotations

from dataclasses import dataclass

from gradtd.core.quantiles import boundary, normal
from gradtd.evaluation.decide import Decision
from gradtd.evaluation.intervals import interval
from gradtd.evaluation.limits import DEFAULT, Limits


@dataclass(frozen=True)
class Anytime:
    """A confidence interval that holds at every look.

    Parameters
    ----------
    low, high
        Its ends.
    times
        Width of its statistical part relative to a single-look interval.
    """

    low: float
    high: float
    times: float


def anytime(decision: Decision, episodes: float, level: float, limits: Limits = DEFAULT) -> Anytime:
    """Widen the interval of a decision so that it holds at every look.

    Both sides of the interval by influences are scaled by the ratio of the sequence to a normal interval, which keeps
    the corrections for skew and few effective episodes. The bias shown by the checks is added unscaled.
    """
    fit = decision.fit
    times = boundary(episodes, level) / normal(0.5 + level / 2)
    low, high = interval(fit, level, limits)
    down, up = max(0.0, low - decision.shown.low), max(0.0, decision.shown.high - high)
    return Anytime(fit.value - times * (fit.value - low) - down, fit.value + times * (high - fit.value) + up, times)
