"""Detects faults that the equations do not show: drift, rewards that belong to another row, duplicated episodes.

Rewards are regressed on the observation, the action and the next observation of their row. If the previous row explains
them better, they are one row too late. If the residuals increase or decrease over the log, the environment changed.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.blas import one_thread
from gradtd.logs import Log

FEWEST = 20
"""Minimum number of episodes for these tests."""
MOST_STEPS = 20_000
"""Approximate number of steps in the regressions; longer logs are subsampled by episode."""
BLOCK = 2048
"""Number of rows per block."""
MOST_STATES, MOST_REAL, MOST_ACTIONS = 30, 8, 12
"""Maximum numbers of states, continuous columns and actions in the regressions."""
MOST_FIRST, LEAST_LATER = 0.01, 0.9
"""First rewards are suspicious if at most the first share of them is nonzero, but at least the second share of the
others."""
LEAST_GAINS = {False: (0.3, 4.0), True: (0.2, 3.0)}
"""Rewards count as late if the previous row explains this share of the variance that their own row does not, by this
number of standard errors. The first pair is for rows within an episode; the second pair also uses first rows, whose
previous row ends another episode. The previous row helps if columns do not contain the whole observation, but never for
the first rows of sound logs, so the second pair is lower."""


@one_thread()
def look_for_faults(log: Log, begins: Integers, psi: Floats | None) -> dict[str, Any]:
    """Fields of `Diagnostics` on drift over episodes, rewards of another row, and equal episodes.

    ``psi`` are the influences of episodes in the order of the log. If the environment does not change, their mean is 0
    at any time, even if the behaviour policy changes; the mean of returns is not.
    """
    if len(begins) <= FEWEST:
        return {}
    told: dict[str, Any] = {"repeated": repeated(log, begins)}
    table = _Explained.of(log, begins)
    if psi is not None and len(psi) == len(begins) - 1:
        told["drift"] = max(trend(psi), table.drift(), key=abs)
    told["rewards_late"] = table.late() or None
    first = begins[:-1]
    later = np.ones(len(log), bool)
    later[first] = False
    reward = np.asarray(log.reward)
    if later.any() and not told["rewards_late"]:
        none = (reward[first] != 0).mean() <= MOST_FIRST and (reward[later] != 0).mean() >= LEAST_LATER
        told["first_rewards_none"] = bool(none) or None
    return told


class _Explained(NamedTuple):
    """Regressors (steps, columns) from the rows of several whole episodes, with their rewards and episodes."""

    x: Floats
    reward: Floats
    episode: Integers

    @classmethod
    def of(cls, log: Log, begins: Integers) -> _Explained:
        episodes = len(begins) - 1
        step = max(1, len(log) // MOST_STEPS)
        chosen = np.flatnonzero(np.arange(episodes) % (2 * step) < 2)  # pairs of neighbours, which first rows need
        some = np.concatenate([np.arange(begins[e], begins[e + 1]) for e in chosen])
        columns = [np.ones((len(some), 1))]
        seen = np.asarray(log.observations)
        if len(seen) and seen.dtype.kind in "biuf":  # observations are dropped once features are computed
            columns += [_columns_of(seen, np.asarray(at)[some]) for at in (log.row, log.next_row)]
        if log.action is not None:
            columns.append(_columns_of(np.asarray(log.action), some, MOST_ACTIONS))
        elif log.rho is not None:
            columns.append(np.asarray(log.rho)[some, None] / (1 + np.asarray(log.rho)[some, None]))
        return cls(np.concatenate(columns, axis=1), np.asarray(log.reward)[some], np.asarray(log.episode)[some])

    def residual(self, rows: Integers, told: Integers) -> Floats:
        """Residuals of the given rows' rewards under regressions that were fitted to other rows."""
        y, d = self.reward[rows], self.x.shape[1]
        C, b, left = np.zeros((d, d)), np.zeros(d), np.empty(len(y))
        blocks = [slice(k, k + BLOCK) for k in range(0, len(y), BLOCK)]  # no copy of the whole table
        for some in blocks:
            x = self.x[told[some]]
            C += x.T @ x
            b += x.T @ y[some]
        ridge = 1e-9 * max(float(C.trace()) / d, 1e-300)
        theta = np.linalg.solve(C + ridge * np.eye(d), b)
        for some in blocks:
            left[some] = y[some] - self.x[told[some]] @ theta
        return left

    def late(self) -> bool:
        """Whether the previous row explains the rewards better than their own row does.

        Rewards may be late within each episode, or the whole column may be shifted, so that the first reward of an
        episode is the last one of the previous episode.
        """
        apart = np.diff(self.episode)
        return self._late(np.flatnonzero(apart == 0), False) or self._late(np.flatnonzero(apart <= 1), True)

    def _late(self, before: Integers, first_rows: bool) -> bool:
        rows = before + 1
        if len(rows) < 4 * self.x.shape[1]:
            return False
        least_gain, least_errors = LEAST_GAINS[first_rows]
        own, other = (self.residual(rows, told) ** 2 for told in (rows, before))
        gain = own - other
        error = float(np.sqrt(np.square(np.bincount(self.episode[rows], gain)).sum()))
        explained = float(np.square(self.reward[rows] - self.reward[rows].mean()).sum() - other.sum())
        return bool(gain.sum() > max(least_gain * explained, least_errors * error, 1e-12 * len(rows)))

    def drift(self) -> float:
        """Student's t of the slope of the rewards' residuals over the order of episodes."""
        every = np.arange(len(self.reward))
        if len(every) < 4 * self.x.shape[1] or np.ptp(self.reward) == 0:
            return 0.0
        apart = self.residual(every, every)
        _, at = np.unique(self.episode, return_inverse=True)
        if float(apart @ apart) <= 1e-9 * float(np.square(self.reward - self.reward.mean()).sum()):
            return 0.0
        return trend(np.bincount(at, apart) / np.sqrt(np.bincount(at)))


def _columns_of(values: Any, at: Integers, most: int = MOST_STATES) -> Floats:
    """Columns for a regression: one for each frequent value, or continuous columns and their squares."""
    if values.ndim == 1 and values.dtype.kind in "biu":
        kinds, index = np.unique(values[at], return_inverse=True)
        often = np.argsort(-np.bincount(index), kind="stable")[: min(most, len(kinds) - 1)]
        return np.asarray((index[:, None] == often).astype(np.float64))
    real = values.reshape(len(values), -1)[at, :MOST_REAL].astype(np.float64)
    scale = np.abs(real).max(axis=0)
    real = real / np.where(scale > 0, scale, 1.0)
    return np.asarray(np.c_[real, real**2])


def trend(values: Floats) -> float:
    """Student's t of the slope of values over their order. It is 0 if all values are equal.

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

    Short episodes of discrete problems can be equal by chance. Therefore only episodes of at least the median length
    count, and only if rewards or observations have more distinct values than a tenth of the steps. A log in which every
    episode occurs an even number of times was read twice, regardless of its values.
    """
    seen_rows = np.asarray(log.observations)
    known = len(seen_rows) and seen_rows.dtype.kind in "biuf"  # observations are dropped once features are computed
    columns = [np.asarray(log.reward)] if log.rho is None else [np.asarray(log.rho), np.asarray(log.reward)]
    varied = [seen_rows.reshape(len(seen_rows), -1)[:, -1][log.row], columns[-1]] if known else columns
    many = max(len(np.unique(column)) for column in varied) >= 0.1 * len(log)
    lengths = np.diff(begins)
    middle = np.median(lengths)
    counts: dict[bytes, int] = {}
    twice = total = 0
    for e in range(len(lengths)):
        steps = slice(begins[e], begins[e + 1])
        digest = blake2b(digest_size=16)  # using episodes as keys would copy the log
        for column in columns:
            digest.update(column[steps].tobytes())
        if known:
            digest.update(seen_rows[log.row[steps]].tobytes())
        key = digest.digest()
        counts[key] = counts.get(key, 0) + 1
        if lengths[e] >= middle:
            twice, total = twice + (counts[key] > 1), total + 1
    if len(counts) >= FEWEST // 2 and all(count % 2 == 0 for count in counts.values()):
        return max(twice / max(total, 1), 0.5)
    return twice / max(total, 1) if many else 0.0
