"""Features of the time since the start of an episode, to check whether the observations hide it.

If episodes have a fixed length, the value falls with the remaining time. If observations do not contain the time, the
features give one value for all times, which is wrong at the start. A fit with a few smooth functions of the time as
extra features finds the right value. If the time does not matter, both fits agree.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Floats, Integers

DEGREE = 4
"""Number of polynomials of the time."""
NO_CLOCK = np.zeros((1, 0))
"""No columns of the time."""


def clock_of(lengths: Integers) -> Floats:
    """Columns by time since the start, (times, columns): polynomials of the share of steps that are earlier.

    ``lengths`` counts the pieces by length. There are no columns if all pieces have one step. The time is capped at the
    last one in the log, because a polynomial could take any value beyond it.

    >>> clock_of(np.array([0, 0, 0, 2])).round(2)[:, :1]
    array([[-0.67],
           [ 0.  ],
           [ 0.67]])
    """
    steps = lengths[::-1].cumsum()[::-1][1:]  # number of pieces with a step at each time
    earlier = (np.cumsum(steps) - steps / 2) / max(steps.sum(), 1)
    made = np.polynomial.legendre.legvander(2 * earlier - 1, min(DEGREE, len(steps) - 1))
    return np.asarray(made[:, 1:], np.float64)


def since_start(begins: Integers, start: int, stop: int) -> Integers:
    """Number of steps since the start of the piece, for every step from ``start`` on.

    >>> since_start(np.array([0, 3, 6]), 2, 6)
    array([2, 0, 1, 2])
    """
    first, last = np.searchsorted(begins, start, "right") - 1, np.searchsorted(begins, stop, "left")
    edges = begins[first : last + 1]
    return np.asarray(np.arange(start, stop) - np.repeat(edges[:-1], np.diff(edges.clip(start, stop))))


class TimeRows(NamedTuple):
    """Columns of the time of some steps, t; y = discount next - t, z = rho t."""

    t: Floats
    y: Floats
    z: Floats


def time_rows(clock: Floats, since: Integers, rho: Any, discount: Any) -> TimeRows:
    """Columns of the time for steps at these distances from the start, capped at the last known time."""
    last = len(clock) - 1
    t, after = clock[since.clip(max=last)], clock[(since + 1).clip(max=last)]
    return TimeRows(t, np.asarray(discount)[:, None] * after - t, np.asarray(rho)[:, None] * t)
