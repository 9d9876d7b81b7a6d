"""The time since an episode began, as columns beside the features: do the observations hide it?

An episode that always ends after so many steps has a value that falls with the time that is left. Where observations do
not tell the time, features of them have one value for all times, and it is wrong at the start. A fit with a few smooth
functions of the time beside the features finds the right one. Where the time does not matter, both have one answer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Floats, Integers

DEGREE = 4
"""Polynomials of the time, each of one degree more."""
NO_CLOCK = np.zeros((1, 0))
"""No columns of the time."""


def clock_of(lengths: Integers) -> Floats:
    """Columns by the time since the start, (times, columns): polynomials of the part of all steps that are earlier.

    ``lengths`` counts the pieces by their length. No column where all pieces have one step. The clock stops at the last
    time at which a step was seen: behind a piece that was cut off the time is not known, and a polynomial that ran on
    there could say anything.

    >>> clock_of(np.array([0, 0, 0, 2])).round(2)[:, :1]
    array([[-0.67],
           [ 0.  ],
           [ 0.67]])
    """
    steps = lengths[::-1].cumsum()[::-1][1:]  # how many pieces have a step at each time
    earlier = (np.cumsum(steps) - steps / 2) / max(steps.sum(), 1)
    made = np.polynomial.legendre.legvander(2 * earlier - 1, min(DEGREE, len(steps) - 1))
    return np.asarray(made[:, 1:], np.float64)


def since_start(begins: Integers, start: int, stop: int) -> Integers:
    """Steps since the start of its piece, of every step from ``start`` on.

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
    """Columns of the time of steps that are so many steps behind the start; the clock stops at its last time."""
    last = len(clock) - 1
    t, after = clock[since.clip(max=last)], clock[(since + 1).clip(max=last)]
    return TimeRows(t, np.asarray(discount)[:, None] * after - t, np.asarray(rho)[:, None] * t)
