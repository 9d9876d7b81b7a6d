"""Row quality: whether the interval of each method can be trusted, and if not, why.

The verdict is about the method asked for. Readers compare its row with the others, so each row says for itself when its
interval is weak.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.stream import Stream
from gradtd.evaluation.estimators.importance_sampling import (
    DECISION,
    RETURN,
    ROBUST,
    WHOLE,
    beyond_cuts,
    episode_weights,
)
from gradtd.evaluation.limits import DEFAULT, Limits
from gradtd.evaluation.report.estimate import ENDED_BY_A_CUT, ESTIMATORS, Estimate

ROUNDING = 1e-12
"""Contributions that differ by less, as a share of their size, are all the same."""
_OF = {"monte_carlo": RETURN, "is": WHOLE, "wis": WHOLE, "pdis": DECISION, "wpdis": DECISION}
"""Which contribution of an episode an estimator is the mean of; the others are doubly robust."""


def carrying(psi: Floats) -> float:
    """Effective number of episodes behind an error: (sum psi^2)^2 / sum psi^4, about the mean of psi.

    >>> carrying(np.r_[np.ones(4), -np.ones(4)]), round(carrying(np.r_[1.0, np.zeros(999)]), 1)
    (8.0, 1.0)
    """
    if not np.isfinite(psi).all():
        return 1.0
    off = np.abs(psi - psi.mean())
    if not off.max() > ROUNDING * np.abs(psi).max():
        return float(len(psi))
    square = np.square(off / off.max())
    return float(square.sum() ** 2 / np.square(square).sum())


def mark_rows(
    rows: dict[str, Estimate],
    stream: Stream,
    contributions: Floats,
    begins: Integers,
    sandwich: float,
    limits: Limits = DEFAULT,
) -> dict[str, Estimate]:
    """The rows with their marks. Rows that learn a value function are always "ok": the verdict judges those.

    Parameters
    ----------
    rows
        Estimates by the name of the method.
    stream
        The steps.
    contributions
        What each episode contributes to the importance-sampling estimators, one row per episode.
    begins
        The first step of every episode, and the number of steps.
    sandwich
        The sandwich error of least squares.
    limits
        The thresholds.
    """
    products = episode_weights(stream, begins)
    cut = beyond_cuts(stream, begins) > limits.most_beyond_cuts
    made = {}
    for name, row in rows.items():
        reason = ""
        if row.low is None:
            reason = row.note
        elif name == "drl":
            reason = row.reason or _small_folds(row, sandwich, limits)
        elif name in ESTIMATORS:
            reason = _weak_products(products, limits) if name != "monte_carlo" else ""
            if not reason and cut and name in ENDED_BY_A_CUT:
                reason = "its sums end where episodes were cut off"
            if not reason:
                reason = few_episodes(_influences(name, row, contributions, products), limits)
        made[name] = replace(row, mark="weak" if reason else "ok", reason=reason)
    return made


def _weak_products(products: Floats, limits: Limits) -> str:
    """Why products of ratios cannot carry an interval, or nothing."""
    if not np.isfinite(products).all():
        return "products of ratios overflow"
    part = products / max(float(products.max()), 1e-300)  # squares of the products themselves might overflow
    worth = float(part.sum() ** 2 / np.square(part).sum()) if part.any() else 0.0
    if worth < limits.row_fewest_products:
        return f"products of ratios are worth {worth:.1f} of {len(products)} episodes"
    error = float(products.std(ddof=1)) / np.sqrt(len(products))
    off = abs(float(products.mean()) - 1) / error if error > 0 else 0.0
    if off > limits.row_most_product_errors:
        return f"the mean product of ratios is {products.mean():.2g}, {off:.0f} standard errors from 1"
    return ""


def _influences(name: str, row: Estimate, contributions: Floats, products: Floats) -> Floats:
    if name == "wis":
        assert row.value is not None
        return np.asarray(contributions[:, WHOLE] - row.value * products)
    return np.asarray(contributions[:, _OF.get(name, ROBUST)])


def few_episodes(psi: Floats, limits: Limits = DEFAULT) -> str:
    """Why an error is weak that rests on few episodes, or nothing."""
    worth = carrying(psi)
    return f"its error rests on {worth:.1f} of {len(psi)} episodes" if worth < limits.row_fewest_episodes else ""


def _small_folds(row: Estimate, sandwich: float, limits: Limits) -> str:
    """Why a cross-fitted error is weak, or nothing."""
    if row.error is not None and row.error > limits.row_most_error_ratio * sandwich > 0:
        times = f"{row.error / sandwich:.1f} times that of least squares"
        return f"its error is {times}: the folds are too small for the features"
    return ""
