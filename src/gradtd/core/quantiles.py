"""Quantiles for intervals, from SciPy without its statistics module, which takes a second to load."""

from __future__ import annotations

from math import log, sqrt
from typing import Any

from gradtd.core import checks
from gradtd.core.checks import InputError

NARROWEST = 500
"""Number of episodes at which a confidence sequence is narrowest relative to a fixed-sample interval, chosen in
advance."""


def level_of(level: Any) -> float:
    """The level of an interval, validated."""
    if not 0 < checks.number("level", level) < 1:
        raise InputError(f"level must lie between 0 and 1, for example 0.95, got {level!r}.")
    return float(level)


def student(chance: float, freedom: float) -> float:
    """Quantile of Student's t distribution with these degrees of freedom.

    >>> round(student(0.975, 9), 6)
    2.262157
    """
    from scipy.special import stdtrit

    return float(stdtrit(freedom, chance)) if freedom > 0 else float("nan")


def normal(chance: float) -> float:
    """Quantile of the standard normal distribution.

    >>> round(normal(0.975), 6)
    1.959964
    """
    from scipy.special import ndtri

    return float(ndtri(chance))


def boundary(episodes: float, level: float) -> float:
    """The half-width of an asymptotic confidence sequence in standard errors, which holds at every look at growing
    data.

    With t episodes whose influences have standard deviation s the sequence is (Waudby-Smith, Arbour, Sinha, Kennedy and
    Ramdas, arXiv 2103.06476, theorem 2.2)

        value -+ sqrt(2 (t s^2 rho^2 + 1) / (t^2 rho^2) log(sqrt(t s^2 rho^2 + 1) / alpha)).

    Here rho = r / s, with a number r that is fixed before the data are seen, so that the half-width is s / sqrt(t)
    times a factor that depends only on t. It is narrowest relative to 1.96, the half-width for a single look at 95 %,
    at the number of episodes t where x = t r^2 solves x - log(1 + x) = -2 log alpha.

    >>> round(boundary(500, 0.95), 2), round(boundary(50, 0.95), 2), round(boundary(50_000, 0.95), 2)
    (3.04, 3.82, 3.57)
    """
    alpha = 1 - level
    at_best = 1 - 2 * log(alpha)
    for _ in range(60):
        at_best = log(1 + at_best) - 2 * log(alpha)
    grown = episodes * at_best / NARROWEST
    return sqrt(2 * (grown + 1) / grown * log(sqrt(grown + 1) / alpha))
