"""Intervals that hold at every look at a growing log: an asymptotic confidence sequence from the influences.

A 95 % interval holds for one planned look. Someone who looks repeatedly and stops at a pleasing answer is wrong more
often. A confidence sequence holds at all looks at once. With t episodes whose influences have standard deviation s it
is (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, arXiv 2103.06476, theorem 2.2)

    value -+ sqrt(2 (t s^2 rho^2 + 1) / (t^2 rho^2) log(sqrt(t s^2 rho^2 + 1) / alpha)).

Here rho = r / s, with r fixed before the log is seen. The boundary is then s / sqrt(t) times a factor that depends on t
alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from statistics import NormalDist

from gradtd.evaluation.decide import Decision
from gradtd.evaluation.intervals import interval
from gradtd.evaluation.limits import DEFAULT, Limits

NARROWEST = 500
"""Number of episodes at which the sequence is tightest relative to a single-look interval. Fixed before the log is
seen.
"""


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


def boundary(episodes: float, level: float, narrowest: float = NARROWEST) -> float:
    """The half-width of the sequence in standard errors of the value.

    It is tightest, relative to 1.96 for one look at 95 %, at this number of episodes: there x = t r^2 solves x - log(1
    + x) = -2 log alpha.

    >>> round(boundary(500, 0.95), 2), round(boundary(50, 0.95), 2), round(boundary(50_000, 0.95), 2)
    (3.04, 3.82, 3.57)
    """
    alpha = 1 - level
    at_best = 1 - 2 * log(alpha)
    for _ in range(60):
        at_best = log(1 + at_best) - 2 * log(alpha)
    grown = episodes * at_best / narrowest
    return sqrt(2 * (grown + 1) / grown * log(sqrt(grown + 1) / alpha))


def anytime(decision: Decision, episodes: float, level: float, limits: Limits = DEFAULT) -> Anytime:
    """Widen the interval of a decision so that it holds at every look.

    Both sides of the interval by influences are scaled by the ratio of the sequence to a normal interval, which keeps
    the corrections for skew and few effective episodes. The bias shown by the checks is added unscaled.
    """
    fit = decision.fit
    times = boundary(episodes, level) / NormalDist().inv_cdf(0.5 + level / 2)
    low, high = interval(fit, level, limits)
    down, up = max(0.0, low - decision.shown.low), max(0.0, decision.shown.high - high)
    return Anytime(fit.value - times * (fit.value - low) - down, fit.value + times * (high - fit.value) + up, times)
