"""The mark of every row beside the headline: whether its interval can be trusted, and if not, why.

The verdict is about the method asked for. A reader compares it with the other rows, so each says for itself when its
interval is worth little.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gradtd.compiled import engine
from gradtd.core.arrays import Floats, Integers, Plain
from gradtd.core.stream import Stream
from gradtd.evaluation.estimators.importance_sampling import BEYOND, beyond_cuts, episode_weights
from gradtd.evaluation.estimators.products import values_of
from gradtd.evaluation.report.estimate import ENDED_BY_A_CUT, ESTIMATORS, Estimate

FEWEST_PRODUCTS = 20.0
"""Episodes that products of ratios must be worth."""
UNLIKELY = 3.0
"""Standard errors that the mean product may be away from one, which it is for right probabilities."""
FEWEST_CARRYING = 8.0
"""Episodes that must carry the error of a row: (sum psi^2)^2 / sum psi^4, with psi what each of them adds to it."""
WIDER = 1.5
"""A cross-fitted error this many times the sandwich's says that the folds are too small for the features."""
ROUNDING = 1e-12
"""Contributions that differ by less, as a part of their size, are all the same."""
_GIVEN, _WHOLE, _DECISION, _ROBUST = range(4)
_OF = {"monte_carlo": _GIVEN, "is": _WHOLE, "wis": _WHOLE, "pdis": _DECISION, "wpdis": _DECISION}
"""Which contribution of an episode an estimator is the mean of; the others are doubly robust."""


def contribute(steps: Any, value: Floats, after: Floats, begins: Integers, out: Floats) -> None:
    """What each episode adds to Monte Carlo, is, pdis and dr, which are means of these."""
    for e in range(begins.shape[0] - 1):
        w, g, plain, weighted, surprise = 1.0, 1.0, 0.0, 0.0, 0.0
        for k in range(begins[e], begins[e + 1]):
            step = steps[k]
            w *= step.rho
            plain += g * step.reward
            weighted += g * w * step.reward
            surprise += g * w * (step.reward + step.discount * after[k] - value[k])
            g *= step.discount
        out[e, _GIVEN] = plain
        out[e, _WHOLE] = w * plain
        out[e, _DECISION] = weighted
        out[e, _ROBUST] = value[begins[e]] + surprise


def _maker(fingerprint: str) -> Plain:
    def run(steps: Any, value: Floats, after: Floats, begins: Integers, out: Floats) -> None:
        fingerprint  # noqa: B018 (part of the closure, and so of the key of the cache)
        contribute(steps, value, after, begins, out)

    return run


def contributions(stream: Stream, theta: Floats, begins: Integers) -> Floats:
    """One row per episode: what it adds to Monte Carlo, is, pdis and dr."""
    of_row = values_of(stream.features, theta)
    out = np.zeros((len(begins) - 1, 4))
    steps = stream.view.steps
    engine.compiled(_maker)(steps, of_row[steps["row"]], of_row[steps["next_row"]], begins, out)
    return out


def carrying(psi: Floats) -> float:
    """Of how many episodes that say equally much the error is: (sum psi^2)^2 / sum psi^4 about their mean.

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


def marked(
    rows: dict[str, Estimate], stream: Stream, theta: Floats, begins: Integers, sandwich: float
) -> dict[str, Estimate]:
    """The rows with their marks; rows that learn a value function are the verdict's business."""
    products = episode_weights(stream, begins)
    said = contributions(stream, theta, begins)
    cut = beyond_cuts(stream, begins) > BEYOND
    made = {}
    for name, row in rows.items():
        reason = ""
        if row.low is None:
            reason = row.note
        elif name == "drl":
            reason = row.reason or _cross_fitted(row, sandwich)
        elif name in ESTIMATORS:
            reason = _products(products) if name != "monte_carlo" else ""
            if not reason and cut and name in ENDED_BY_A_CUT:
                reason = "its sums end where episodes were cut off"
            if not reason:
                reason = few(_influences(name, row, said, products))
        made[name] = replace(row, mark="weak" if reason else "ok", reason=reason)
    return made


def _products(products: Floats) -> str:
    """Why products of ratios cannot carry an interval, or nothing."""
    if not np.isfinite(products).all():
        return "products of ratios overflow"
    part = products / max(float(products.max()), 1e-300)  # squares of the products themselves might overflow
    worth = float(part.sum() ** 2 / np.square(part).sum()) if part.any() else 0.0
    if worth < FEWEST_PRODUCTS:
        return f"products of ratios are worth {worth:.1f} of {len(products)} episodes"
    error = float(products.std(ddof=1)) / np.sqrt(len(products))
    off = abs(float(products.mean()) - 1) / error if error > 0 else 0.0
    if off > UNLIKELY:
        return f"the mean product of ratios is {products.mean():.2g}, {off:.0f} standard errors from 1"
    return ""


def _influences(name: str, row: Estimate, said: Floats, products: Floats) -> Floats:
    if name == "wis":
        assert row.value is not None
        return np.asarray(said[:, _WHOLE] - row.value * products)
    return np.asarray(said[:, _OF.get(name, _ROBUST)])


def few(psi: Floats) -> str:
    """What to say where few episodes carry the error, or nothing."""
    worth = carrying(psi)
    return f"its error is carried by {worth:.1f} of {len(psi)} episodes" if worth < FEWEST_CARRYING else ""


def _cross_fitted(row: Estimate, sandwich: float) -> str:
    if row.error is not None and row.error > WIDER * sandwich > 0:
        times = f"{row.error / sandwich:.1f} times that of least squares"
        return f"its error is {times}: the folds are small for the features"
    return ""
