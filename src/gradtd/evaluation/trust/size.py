"""Is the log large enough for a fit? Limits, intervals, and errors of dependent pieces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.core.quantiles import student
from gradtd.evaluation.trust.fits import Fit

EFFECTIVE = 2.5
"""Pieces whose influence a value must rest on, at least.

With few of them the interval is wide: it has two thirds as many degrees of freedom. Below this not even their number
is known, because it rests on the same few pieces."""
BIAS = 0.5
"""Standard errors that the jackknife's bias may have."""
CAUTION = 1 / 3
"""Part of the degrees of freedom that the observed kurtosis gives."""
SKEWED = 1.45
"""By how much of the skew one side of an interval is longer."""
WIDTH = 1e-8
"""A standard error, as a part of the value, that is none at all: fits are regularised by 1e-9."""
NO_WIDTH = 30 * WIDTH
"""Width of an interval whose standard error is none: t of one degree of freedom on both sides, and some skew."""
LAGS = 20
"""Most lags of the correlation between neighbouring blocks."""
DEPENDENT = 3.0
"""Times that the variance may be larger than that of independent blocks before the blocks are too short."""


def faults(fit: Fit) -> list[str]:
    """Why the log is too small for this fit; nothing where it is sound."""
    error = fit.error
    if not np.isfinite(fit.value) or not np.isfinite(error):
        return ["no number"]
    if error <= WIDTH * max(abs(fit.value), 1e-300):
        return ["no width"]
    found = []
    if fit.effective < EFFECTIVE:
        found.append(f"rests on {fit.effective:.1f} pieces")
    if abs(fit.bias) > BIAS * error:
        found.append(f"refits are biased by {abs(fit.bias) / error:.1f} errors")
    return found


def freedom_of(fit: Fit) -> float:
    """Degrees of freedom of the error by Satterthwaite, 2 E / (kurtosis - 1), cut as kurtosis is seen small.

    E / 3 for normal influences, two thirds of the number of successes where these are rare.
    """
    E = len(fit.psi) / fit.error_factor**2
    return CAUTION * 2 * E / max(E / max(fit.effective, 1e-9) - 1, 1e-9)


def interval(fit: Fit, level: float = 0.95) -> tuple[float, float]:
    """value -+ t error, few effective pieces for few degrees of freedom, the side of the skew longer."""
    freedom = max(1.0, min(len(fit.psi) - 1.0, freedom_of(fit)))
    half, more = student(0.5 + level / 2, freedom) * fit.error, SKEWED * fit.skew * fit.error
    return fit.value - half + min(more, 0.0), fit.value + half + max(more, 0.0)


def inflation(psi: Floats) -> float:
    """How many times larger the variance of a mean of neighbouring, dependent pieces is: Newey-West."""
    E = len(psi)
    square = float((psi**2).mean())
    if square <= 0:
        return 1.0
    lags = min(LAGS, max(1, E // 10))
    r = np.array([(psi[k:] * psi[:-k]).mean() for k in range(1, lags + 1)]) / square
    used = int(np.cumprod(r > 2 / np.sqrt(E)).sum())  # up to the first that could be chance
    weights = 1 - np.arange(1, used + 1) / (2 * used + 2)
    return float(max(1.0, 1 + 2 * (weights * r[:used]).sum()))


def as_dependent(fit: Fit) -> Fit:
    """The fit with its error made larger by what neighbouring blocks share."""
    return replace(fit, error_factor=float(np.sqrt(inflation(fit.psi))))
