"""The interval of a value while episodes arrive, computed from moments that a learner stores on request.

With e the trace of a step or its features, over the finished episodes,

    A = sum of rho e (discount x' - x)',    b = sum of rho r e,    A theta + b = 0,

and s the mean row at the starts of episodes, the value s . theta has the influences

    psi = -s'(A/n)^-1 g + theta.(x_0 - s),    g = sum over the episode of rho delta e.

Episodes are not stored. When an episode ends, its (g, x_0) is added to second moments, with delta from an earlier
solution. The equations are solved again whenever the number of episodes has doubled, and moments from before the
previous solution are dropped. The error therefore follows the solution, in bounded memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.core.files import Arrays
from gradtd.core.quantiles import boundary, normal, student

MOST_FEATURES = 500
"""Moments take 80 bytes for each pair of features."""
FIRST = 16
"""Number of episodes before the first solution."""
FEWEST_EFFECTIVE = 10.0
"""Minimum effective number of episodes, from their sums of ratios: with fewer, a single episode can determine the
value."""
REDUNDANT = 1e10
"""Equations with a larger condition number have no unique solution."""


@dataclass(frozen=True)
class ValueInterval:
    """A value by least squares on all finished episodes, and its confidence interval.

    Parameters
    ----------
    value, low, high : float
        The value and the ends of its interval.
    error : float
        Its standard error.
    episodes : int
        Number of finished episodes used.
    level : float
        The level of the interval.
    anytime : bool
        Whether it is valid at all looks simultaneously, or only at one planned look.
    """

    value: float
    low: float
    high: float
    error: float
    episodes: int
    level: float
    anytime: bool

    def __str__(self) -> str:
        holds = "at every look" if self.anytime else "at one planned look"
        return (
            f"{self.value:.5g}, {self.level:.0%} interval {self.low:.5g} to {self.high:.5g} ({holds}; "
            f"{self.episodes} episodes)"
        )


def intervals_of(given: Any, sparse: Any) -> bool:
    """Whether moments are stored, validated."""
    if not checks.yes_or_no("intervals", given):
        return False
    if sparse:
        raise InputError("intervals=True needs rows of numbers, because its moments are dense: leave sparse=True out.")
    return True


class EpisodeMoments:
    """The moments of one run. Their state is in arrays, which are also saved to files."""

    def __init__(self, n_features: int) -> None:
        d = n_features
        if d > MOST_FEATURES:
            raise InputError(
                f"intervals=True supports at most {MOST_FEATURES} features, because its moments grow with their "
                f"square; got {d}."
            )
        self.A, self.b, self.starts = np.zeros((d, d)), np.zeros(d), np.zeros(d)
        self.theta = np.zeros(d)  # of the latest solution
        # The current episode: its A, b and first row.
        self.own_A, self.own_b, self.own_start = np.zeros((d, d)), np.zeros(d), np.zeros(d)
        # Sums and second moments of (g, x_0) since the latest solution, and between the two latest solutions.
        self.sums, self.squares = np.zeros((2, 2 * d)), np.zeros((2, 2 * d, 2 * d))
        # Steps taken, the current episode (-1: none), episodes finished, solutions computed, and the number of episodes
        # at which the next solution is due.
        self.counts = np.array([0, -1, 0, 0, FIRST], np.int64)
        self.since = np.zeros(2, np.int64)  # episodes in each of the sums
        # Sums of the episodes' ratios and of their squares, and the sum of ratios of the current episode.
        self.ratios = np.zeros(3)

    def arrays(self) -> Arrays:
        """The arrays to save in a file."""
        return dict(self.__dict__)

    def restore(self, arrays: Arrays, given: int | None) -> None:
        """Restore from a file."""
        for name, own in self.__dict__.items():
            found = arrays[name]
            if found.dtype != own.dtype or found.shape != own.shape or not np.isfinite(found).all():
                raise InputError(f"the file's moments have {name} of type {found.dtype} and shape {found.shape}.")
            own[...] = found
        if (
            given not in (None, self.counts[0])
            or self.counts[2] < 0
            or self.counts[4] <= self.counts[2]
            or not self.since.sum() <= self.counts[2] <= self.counts[0]
            or (self.since < 0).any()
        ):
            raise InputError("the file's moments have impossible counts: it is damaged.")
        own = self.squares.diagonal(axis1=1, axis2=2)
        sizes = np.sqrt(np.maximum(own, 0.0)) * (1 + 1e-6)
        if (
            (own < 0).any()
            or (np.abs(self.sums) > sizes * np.sqrt(self.since)[:, None]).any()
            or (np.abs(self.squares) > sizes[:, :, None] * sizes[:, None, :]).any()
        ):  # the inequality of Cauchy and Schwarz
            raise InputError("the file's moments have impossible squares: it is damaged.")

    def take(self, steps: Any, x: Floats, after: Floats, e: Floats) -> None:
        """Take the next steps: their records, features, next features and traces."""
        self.counts[0] += len(steps)
        episode = np.asarray(steps["episode"])
        if 0 <= self.counts[1] != episode[0]:
            self.finish()
        change, weighted = steps["discount"][:, None] * after - x, steps["rho"][:, None] * e
        begin = np.flatnonzero(np.r_[True, episode[1:] != episode[:-1]])
        first = 0
        while first < len(begin) - 1:  # whole episodes, up to the next solution
            last = min(len(begin) - 1, first + int(self.counts[4] - self.counts[2]))
            some = slice(begin[first], begin[last])
            self._add_whole(steps["reward"][some], x, change[some], weighted[some], begin[first:last])
            self._add_ratios(np.add.reduceat(steps["rho"][some], begin[first:last] - begin[first]))
            first = last
        rest = slice(begin[-1], None)
        if self.counts[1] != episode[-1]:
            self.counts[1], self.own_start[:] = episode[-1], x[begin[-1]]
        self.own_A += weighted[rest].T @ change[rest]
        self.own_b += steps["reward"][rest] @ weighted[rest]
        self.ratios[2] += steps["rho"][rest].sum()

    def _add_whole(self, reward: Floats, x: Floats, change: Floats, weighted: Floats, begin: Integers) -> None:
        """Add complete episodes. The first one may have begun earlier."""
        moved = (reward + change @ self.theta)[:, None] * weighted
        g, starts = np.add.reduceat(moved, begin - begin[0], axis=0), x[begin]
        if self.counts[1] >= 0:
            g[0] += self.own_A @ self.theta + self.own_b
            starts[0] = self.own_start
        self.A += weighted.T @ change + self.own_A
        self.b += reward @ weighted + self.own_b
        self._add(np.hstack([g, starts]))

    def finish(self) -> None:
        """End the current episode."""
        if self.counts[1] >= 0:
            g = self.own_A @ self.theta + self.own_b
            self.A += self.own_A
            self.b += self.own_b
            self._add(np.concatenate([g, self.own_start])[None])
            self._add_ratios(np.zeros(1))

    def _add_ratios(self, sums: Floats) -> None:
        """Add the ratios of finished episodes. The first one may have begun earlier."""
        sums[0] += self.ratios[2]
        self.ratios[:] = self.ratios[0] + sums.sum(), self.ratios[1] + sums @ sums, 0.0

    def _add(self, ended: Floats) -> None:
        """Add the rows (g, x_0) of finished episodes, and solve again if it is time."""
        d = len(self.b)
        self.own_A[:], self.own_b[:], self.counts[1] = 0.0, 0.0, -1
        self.counts[2] += len(ended)
        self.since[0] += len(ended)
        self.starts += ended[:, d:].sum(axis=0)
        self.sums[0] += ended.sum(axis=0)
        self.squares[0] += ended.T @ ended
        if self.counts[2] < self.counts[4]:
            return
        self.counts[4] *= 2
        if np.linalg.cond(self.A) > REDUNDANT:
            return
        self.theta[:] = -np.linalg.solve(self.A, self.b)
        known = self.counts[3] > 0  # sums from before the first solution had no delta
        for own in (self.since, self.sums, self.squares):
            own[1], own[0] = own[0] if known else 0, 0
        self.counts[3] += 1

    def interval(self, row: Floats | None, level: float, anytime: bool) -> ValueInterval:
        """The value at the start of episodes, or of a row, with its interval."""
        n, d = int(self.counts[2]), len(self.b)
        freedom = int(np.maximum(self.since - 1, 0).sum()) if self.counts[3] else 0
        needed = max(2 * FIRST, 5 * d)
        if n < needed or freedom < FIRST - 1:
            raise InputError(
                f"an interval needs at least {needed} finished episodes, and equations with a unique solution; "
                f"there are {n} episodes. Take more steps, or end episodes with terminated= or truncated=."
            )
        if np.linalg.cond(self.A) > REDUNDANT:
            raise InputError(
                "the features are redundant in the finished episodes: leave out features that depend linearly on "
                "others."
            )
        with np.errstate(over="ignore", invalid="ignore"):
            effective = self.ratios[0] ** 2 / self.ratios[1] if self.ratios[1] > 0 else 0.0
        if not effective >= FEWEST_EFFECTIVE:
            raise InputError(
                f"the ratios leave an effective number of {effective:.2g} of {n} episodes, but an interval "
                f"needs {FEWEST_EFFECTIVE:.0f}: take more steps, or a target closer to the behaviour policy."
            )
        theta = -np.linalg.solve(self.A, self.b)
        s = self.starts / n if row is None else row
        c = np.concatenate([-np.linalg.solve(self.A.T / n, s), theta if row is None else np.zeros(d)])
        square = np.float64(0.0)
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            for count, total, moment in zip(self.since, self.sums, self.squares, strict=True):
                if count:
                    # Python's max() would drop NaN
                    square += np.maximum(0.0, c @ moment @ c - (c @ total) ** 2 / int(count))
        error, value = float(np.sqrt(square / freedom / n)), float(s @ theta)
        times = student(0.5 + level / 2, freedom)
        if anytime:
            times *= boundary(n, level) / normal(0.5 + level / 2)
        if not np.isfinite([value, error]).all():
            raise InputError("the values are too large for an interval: scale rewards or features.")
        return ValueInterval(value, value - times * error, value + times * error, error, n, level, anytime)
