"""Computes intervals, the faults of a fit to a log that is too small, and the error of dependent pieces."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.core.quantiles import student
from gradtd.evaluation.fits import Fit
from gradtd.evaluation.limits import DEFAULT, Limits


def faults(fit: Fit, limits: Limits = DEFAULT) -> list[str]:
    """The reasons why the log is too small for this fit. Empty if it is large enough."""
    error = fit.error
    if not np.isfinite(fit.value) or not np.isfinite(error):
        return ["no number"]
    if error <= limits.no_error * max(abs(fit.value), 1e-300):
        return ["no width"]
    made = []
    if fit.effective < limits.fewest_effective_pieces:
        made.append(f"depends on {fit.effective:.1f} pieces")
    if abs(fit.bias) > limits.most_bias * error:
        made.append(f"refits are biased by {abs(fit.bias) / error:.1f} errors")
    return made


def freedom_of(fit: Fit, limits: Limits = DEFAULT) -> float:
    """Satterthwaite degrees of freedom of the error, 2 E / (kurtosis - 1), reduced because samples show too little
    kurtosis.

    They are E / 3 for normal influences, and two thirds of the number of successes if these are rare.
    """
    E = len(fit.psi) / fit.error_factor**2
    return limits.freedom_share * 2 * E / max(E / max(fit.effective, 1e-9) - 1, 1e-9)


def interval(fit: Fit, level: float = 0.95, limits: Limits = DEFAULT) -> tuple[float, float]:
    """value -+ t error, with degrees of freedom from the effective number of pieces, and longer on the side of the
    skew."""
    freedom = max(1.0, min(len(fit.psi) - 1.0, freedom_of(fit, limits)))
    half, more = student(0.5 + level / 2, freedom) * fit.error, limits.skew_share * fit.skew * fit.error
    return fit.value - half + min(more, 0.0), fit.value + half + max(more, 0.0)


def chance_above_zero(fit: Fit, limits: Limits = DEFAULT) -> float:
    """The probability that a positive value is above zero: the level at which its interval begins at zero. At least
    0.5.
    """
    from scipy.special import stdtr

    freedom = max(1.0, min(len(fit.psi) - 1.0, freedom_of(fit, limits)))
    more = limits.skew_share * fit.skew * fit.error
    return max(0.5, float(stdtr(freedom, (fit.value + min(more, 0.0)) / fit.error)))


def inflation(psi: Floats, limits: Limits = DEFAULT) -> float:
    """Variance of a mean of dependent neighbouring pieces, relative to independent ones (Newey-West)."""
    E = len(psi)
    square = float((psi**2).mean())
    if square <= 0:
        return 1.0
    lags = min(limits.most_lags, max(1, E // 10))
    r = np.array([(psi[k:] * psi[:-k]).mean() for k in range(1, lags + 1)]) / square
    used = int(np.cumprod(r > 2 / np.sqrt(E)).sum())  # up to the first insignificant lag
    weights = 1 - np.arange(1, used + 1) / (2 * used + 2)
    return float(max(1.0, 1 + 2 * (weights * r[:used]).sum()))


def as_dependent(fit: Fit, limits: Limits = DEFAULT) -> Fit:
    """The fit with its error increased by the dependence of neighbouring blocks."""
    return replace(fit, error_factor=float(np.sqrt(inflation(fit.psi, limits))))


def paired_error(a: Fit, b: Fit) -> float:
    """The standard error of the difference of two values on the same pieces. If one fit has fewer pieces, the values
    count as independent."""
    E = len(a.psi)
    if len(b.psi) != E:
        return float(np.hypot(a.error, b.error))
    return float(np.sqrt(((a.psi - b.psi) ** 2).sum() / (E * max(E - 1, 1))))


class Interval(NamedTuple):
    low: float
    high: float

    @property
    def width(self) -> float:
        return self.high - self.low


NO_INTERVAL = Interval(np.nan, np.nan)


class Compared(NamedTuple):
    """A fit that is compared with a reference, its kind, and the extrapolation factor of the difference."""

    kind: str
    base: Fit
    fit: Fit
    times: float = 1.0

    @property
    def apart(self) -> float:
        return self.fit.value - self.base.value

    @property
    def error(self) -> float:
        """The paired error of the difference from the reference."""
        return paired_error(self.base, self.fit)

    @property
    def apart_errors(self) -> float:
        return abs(self.apart) / max(self.error, 1e-300)

    def is_far(self, fit: Fit, limits: Limits) -> bool:
        """Whether the difference is larger than its own error and the value's error can explain."""
        return abs(self.apart) > max(limits.far * self.error, fit.error)

    @property
    def bias(self) -> float:
        """The bias implied by the difference, beyond its own error."""
        return float(np.sign(self.apart) * np.sqrt(max(0.0, self.apart**2 - self.error**2)) * self.times)


def extrapolation(columns: int, other: int) -> float:
    """Distance to the limit of infinitely many columns, in units of the step between two numbers of columns.

    It assumes an error inversely proportional to the number of columns (Richardson extrapolation).

    >>> extrapolation(10, 20), extrapolation(20, 10)
    (2.0, -1.0)
    """
    ratio = max(other, 1) / max(columns, 1)
    return ratio / (ratio - 1) if ratio > 1 else -ratio / max(1 - ratio, 1e-9)
