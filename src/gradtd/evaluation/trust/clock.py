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


def clock_of(begins: Integers) -> Floats:
    """Columns by the time since the start, (times, columns): polynomials of the part of all steps that are earlier.

    No column where all pieces have one step. ``begins`` are the first steps of the pieces and the number of steps.
    The clock stops at the last time that a step was seen at: behind a piece that was cut off the time is not known, and
    a polynomial that ran on there would say anything.

    >>> clock_of(np.array([0, 3, 6])).round(2)[:, :1]
    array([[-0.67],
           [ 0.  ],
           [ 0.67]])
    """
    lengths = np.bincount(np.diff(begins))
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


class TimeSums(NamedTuple):
    """Sums by group that columns of the time add to those of features, (groups, ...).

    With x features, t columns of the time, y = discount next - now: ``to`` = sum of rho x y_t', ``back`` = sum of
    rho t y_x', ``own`` = sum of rho t y_t'.
    """

    to: Floats
    back: Floats
    own: Floats
    b: Floats
    C: Floats
    C_own: Floats
    missing: Floats

    @classmethod
    def nothing(cls, groups: int, d: int, clock: Floats) -> TimeSums:
        K = clock.shape[1]
        shapes = (
            (groups, d, K),
            (groups, K, d),
            (groups, K, K),
            (groups, K),
            (groups, d, K),
            (groups, K, K),
            (groups, K),
        )
        return cls(*map(np.zeros, shapes))

    def add(self, g: int, now: TimeRows, y: Floats, x: Floats) -> None:
        """Steps of a group with features x, y = discount x_next - x."""
        self.to[g] += x.T @ (now.rho[:, None] * now.y)
        self.back[g] += now.z.T @ y
        self.C[g] += x.T @ now.t
        self.add_own(g, now)

    def add_own(self, g: int, now: TimeRows) -> None:
        """The sums of a group that have no features in them."""
        self.own[g] += now.z.T @ now.y
        self.b[g] += now.reward @ now.z
        self.C_own[g] += now.t.T @ now.t
        self.missing[g] += (1.0 - now.rho) @ now.t


class TimeRows(NamedTuple):
    """Columns of the time of some steps, t; y = discount next - t, z = rho t."""

    t: Floats
    y: Floats
    z: Floats
    rho: Floats
    reward: Floats


def time_rows(clock: Floats, since: Integers, rho: Any, discount: Any, reward: Any) -> TimeRows:
    """Columns of the time of steps that are so many steps behind the start; the clock stops at its last time."""
    last = len(clock) - 1
    t, after = clock[since.clip(max=last)], clock[(since + 1).clip(max=last)]
    rho = np.asarray(rho)
    return TimeRows(t, np.asarray(discount)[:, None] * after - t, rho[:, None] * t, rho, np.asarray(reward))


def table_sums(steps: Any, sums: TimeSums, g: int, now: TimeRows, table: Any) -> None:
    """Add steps of a group over the rows of a stored table, dense or sparse.

    ``steps`` are their rows, next rows and discounts.
    """
    row, next_row, discount = steps
    S = table.shape[0]
    for k in range(now.t.shape[1]):
        left = np.bincount(next_row, discount * now.z[:, k], minlength=S) - np.bincount(row, now.z[:, k], minlength=S)
        sums.to[g, :, k] += np.bincount(row, now.rho * now.y[:, k], minlength=S) @ table
        sums.back[g, k] += left @ table
        sums.C[g, :, k] += np.bincount(row, now.t[:, k], minlength=S) @ table
    sums.add_own(g, now)
