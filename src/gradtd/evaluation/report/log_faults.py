"""Faults that a log may have and its equations do not show: drift, rewards one row late, episodes that appear twice."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.logs import Log

FEWEST = 20
"""Episodes from which on a fault is looked for."""
MOST_FIRST, LEAST_LATER = 0.01, 0.9
"""Rewards are late where at most this share of the first ones is not 0, and at least that share of the others."""


def look_for_faults(log: Log, begins: Integers, psi: Floats | None) -> dict[str, Any]:
    """Fields of `Diagnostics`: what the order of episodes, first rewards and equal episodes say.

    ``psi`` are the influences of episodes in the order of the log. Their mean is 0 at any time if the world stays what
    it is, also where the behaviour policy changes; that of returns is not.
    """
    if len(begins) <= FEWEST:
        return {}
    told: dict[str, Any] = {"repeated": repeated(log, begins)}
    if psi is not None and len(psi) == len(begins) - 1:
        told["drift"] = trend(psi)
    first = begins[:-1]
    later = np.ones(len(log), bool)
    later[first] = False
    reward = np.asarray(log.reward)
    if later.any():
        late = (reward[first] != 0).mean() <= MOST_FIRST and (reward[later] != 0).mean() >= LEAST_LATER
        told["rewards_late"] = bool(late) or None
    return told


def trend(values: Floats) -> float:
    """Student's t of the slope of values over their order; 0 where all are the same.

    >>> round(trend(np.array([1.0, 2.0, 3.5, 4.0, 5.0])), 1)
    12.2
    """
    n = len(values)
    if n < 3 or not np.isfinite(values).all() or np.ptp(values) == 0:
        return 0.0
    r = float(np.corrcoef(np.arange(n), values)[0, 1])
    return float(r * np.sqrt((n - 2) / max(1 - r * r, 1e-12)))


def repeated(log: Log, begins: Integers) -> float:
    """Share of the longer episodes that are equal to an earlier one, row by row.

    Short episodes of discrete worlds are equal by chance. So those of at least the median length are looked at, and
    only where their numbers are many: rewards or observations with more values than a tenth of the steps.
    """
    seen_rows = np.asarray(log.observations)
    known = len(seen_rows) and seen_rows.dtype.kind in "biuf"  # observations are dropped once features were computed
    rows = seen_rows[log.row].reshape(len(log), -1).astype(np.float64) if known else np.zeros((len(log), 0))
    table = np.c_[rows, np.asarray(log.reward)]
    if max(len(np.unique(column)) for column in table.T[-2:]) < 0.1 * len(table):
        return 0.0
    lengths = np.diff(begins)
    seen: set[bytes] = set()
    twice = total = 0
    for e in np.flatnonzero(lengths >= np.median(lengths)):
        key = np.ascontiguousarray(table[begins[e] : begins[e + 1]]).tobytes()
        twice, total = twice + (key in seen), total + 1
        seen.add(key)
    return twice / max(total, 1)
