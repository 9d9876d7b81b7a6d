"""Quantiles that intervals are made of: the two functions of SciPy, without its statistics, which load for a second."""

from __future__ import annotations


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
