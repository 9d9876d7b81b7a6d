"""Theta in the loop: is it within its bounds, how is it averaged, what is reported of it; dense or kept sparsely."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtd.compiled import linalg
from gradtd.compiled.drifting import DRIFT, FAR, LAGGED, OUTSIDE, WEIGHT, Drifting, Leading
from gradtd.compiled.kinds import by_kind
from gradtd.compiled.listed import Recorded
from gradtd.compiled.vectors import Weights
from gradtd.core.arrays import Floats


def _dense_check_every(theta: Floats) -> int:
    """After how many steps weights are checked: all of many features every step would cost more than an update"""
    return 1 + theta.shape[0] // 1000


def _weights_check_every(theta: Any) -> int:
    return 1


def _dense_within(theta: Floats, limit: float) -> bool:
    """Whether every weight lies in [-limit, limit]; NaN does not."""
    inside = True
    for k in range(theta.shape[0]):
        inside = inside and abs(theta[k]) <= limit
    return inside


def _weights_within(theta: Weights, limit: float) -> bool:
    if theta.numbers[OUTSIDE] == 0.0:
        return True
    theta.numbers[OUTSIDE] = 0.0
    return _dense_within(theta.values, limit)


def _dense_blend(theta: Floats, average: Floats, weight: float) -> None:
    """average = (1 - weight) average + weight theta"""
    linalg.scale_by(average, 1.0 - weight)
    linalg.add_scaled(average, weight, theta)


def _drifting_within(theta: Drifting, limit: float) -> bool:
    if theta.numbers[OUTSIDE] == 0.0:
        return True
    theta.numbers[OUTSIDE] = 0.0
    inside = True
    for k in range(theta.values.shape[0]):
        inside = inside and abs(theta.values[k] + theta.numbers[DRIFT] * theta.course[k]) <= limit
    return inside


def _weights_blend(theta: Weights, average: Floats, weight: float) -> None:
    # A weight of one is that of the first of all.
    theta.numbers[WEIGHT] = 1.0 if weight == 1.0 else theta.numbers[WEIGHT] / (1.0 - weight)
    if theta.numbers[WEIGHT] > FAR:
        linalg.scale_by(theta.lag, 1.0 / theta.numbers[WEIGHT])
        theta.numbers[WEIGHT] = 1.0


def _drifting_blend(theta: Drifting, average: Floats, weight: float) -> None:
    theta.numbers[WEIGHT] = 1.0 if weight == 1.0 else theta.numbers[WEIGHT] / (1.0 - weight)
    if theta.numbers[WEIGHT] > FAR:
        linalg.scale_by(theta.lag, 1.0 / theta.numbers[WEIGHT])
        theta.numbers[LAGGED] /= theta.numbers[WEIGHT]
        theta.numbers[WEIGHT] = 1.0


def copy_to(out: Floats, theta: Floats, limit: float) -> None:
    """Copy weights, cut at the limit so that what is kept is always finite."""
    for k in range(theta.shape[0]):
        out[k] = cut(theta[k], limit)


def cut(value: float, limit: float) -> float:
    """The number of [-limit, limit] that is nearest; NaN becomes the limit"""
    if not value <= limit:
        return limit
    if value < -limit:
        return -limit
    return value


def _dense_report(theta: Floats, average: Floats, averaged: int, out: Floats, limit: float) -> None:
    """out = the average where there is one, else theta"""
    copy_to(out, average if averaged > 0 else theta, limit)


def _weights_report(theta: Weights, average: Floats, averaged: int, out: Floats, limit: float) -> None:
    if averaged == 0:
        copy_to(out, theta.values, limit)
        return
    for k in range(out.shape[0]):
        out[k] = cut(theta.values[k] - theta.lag[k] / theta.numbers[WEIGHT], limit)


def _drifting_report(theta: Drifting, average: Floats, averaged: int, out: Floats, limit: float) -> None:
    for k in range(out.shape[0]):
        value = theta.values[k] + theta.numbers[DRIFT] * theta.course[k]
        if not abs(value) <= limit:
            theta.numbers[OUTSIDE] = 1.0  # it may have drifted there, touched by no step
        if averaged > 0:
            value -= (theta.lag[k] + theta.numbers[LAGGED] * theta.course[k]) / theta.numbers[WEIGHT]
        out[k] = cut(value, limit)


def reported(theta: Any, limit: float, *, average: bool = True) -> Floats:
    """The weights that are reported, outside compiled code: theta, or its lazy average where there is one."""
    values = theta
    if isinstance(theta, Drifting):
        values = theta.values + theta.numbers[DRIFT] * theta.course  # what a learner keeps so is not averaged
    elif isinstance(theta, Weights | Leading | Recorded):
        lags = average and theta.numbers[WEIGHT] > 0.0
        values = theta.values - theta.lag / theta.numbers[WEIGHT] if lags else theta.values
    values = np.where(values <= limit, values, limit)
    return np.where(values < -limit, -limit, values)


_WEIGHTS = ("Weights", "Leading", "Recorded")
check_every = by_kind(0, _dense_check_every, **dict.fromkeys((*_WEIGHTS, "Drifting"), _weights_check_every))
within = by_kind(0, _dense_within, Drifting=_drifting_within, **dict.fromkeys(_WEIGHTS, _weights_within))
blend = by_kind(0, _dense_blend, Drifting=_drifting_blend, **dict.fromkeys(_WEIGHTS, _weights_blend))
report = by_kind(0, _dense_report, Drifting=_drifting_report, **dict.fromkeys(_WEIGHTS, _weights_report))
