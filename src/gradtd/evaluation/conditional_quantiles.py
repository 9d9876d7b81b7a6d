"""Conditional quantiles of an outcome, by group or by linear quantile regression.

Each half of the episodes uses quantiles fitted to the other half. A bound built on quantiles is valid for any of them
and sharp for exact ones, and no quantile has seen its own outcome.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gradtd.core.arrays import Floats, Integers

FEWEST = 10
"""With fewer outcomes in the other half than this, a group uses the quantile of all groups."""
MOST_FITTED = 5000
"""Maximum number of outcomes in a regression."""
ROUNDS, WARM_ROUNDS, SMOOTH = 40, 8, 1e-3
"""Iterations of the regression, fewer after a warm start, and its smoothing relative to the standard deviation."""


@dataclass(eq=False)
class Conditioning:
    """The conditioning variables: a group for every step, or columns with one regression per group.

    Parameters
    ----------
    group
        The group of every step.
    half
        The half (0 or 1) of every step's episode.
    columns
        (steps, k), including a constant; None if groups suffice.
    """

    group: Integers
    half: Integers
    columns: Floats | None = None
    _last: dict[tuple[int, int, float], Floats] = field(default_factory=dict)

    @property
    def n_groups(self) -> int:
        return int(self.group.max()) + 1

    def quantile(self, outcome: Floats, share: float, sign: int = 1) -> Floats:
        """The conditional quantile of every step's outcome, fitted to the other half."""
        out = np.empty(len(outcome))
        for own in np.unique(self.half):
            inside, outside = np.flatnonzero(self.half == own), np.flatnonzero(self.half != own)
            outside = outside if len(outside) else inside
            if self.columns is None:
                out[inside] = _by_group(outcome, self.group, inside, outside, share)
            else:
                self._regress(outcome, inside, outside, share, sign, out)
        return out

    def _regress(
        self, outcome: Floats, inside: Integers, outside: Integers, share: float, sign: int, out: Floats
    ) -> None:
        assert self.columns is not None
        overall = float(np.quantile(outcome[outside], share))
        for g in range(self.n_groups):
            mine, other = inside[self.group[inside] == g], outside[self.group[outside] == g]
            if len(other) < FEWEST * self.columns.shape[1]:
                out[mine] = overall
                continue
            some = other[:: max(1, len(other) // MOST_FITTED)]
            key = (sign, g, float(self.half[mine[0]]) if len(mine) else -1.0)
            beta = regress_quantile(self.columns[some], outcome[some], share, self._last.get(key))
            self._last[key] = beta
            out[mine] = self.columns[mine] @ beta


def _by_group(outcome: Floats, group: Integers, inside: Integers, outside: Integers, share: float) -> Floats:
    order = outside[np.lexsort((outcome[outside], group[outside]))]
    n = int(group.max()) + 1
    counts = np.bincount(group[outside], minlength=n)
    first = np.r_[0, np.cumsum(counts)[:-1]]
    at = first + np.clip(np.ceil(share * counts).astype(np.int64) - 1, 0, np.maximum(counts - 1, 0))
    found = outcome[order[np.minimum(at, len(order) - 1)]]
    few = counts < min(FEWEST, len(outside))
    return np.asarray(np.where(few, np.quantile(outcome[outside], share), found)[group[inside]])


def regress_quantile(x: Floats, y: Floats, share: float, beta: Floats | None = None) -> Floats:
    """Weights of linear quantile regression, by majorising (Hunter and Lange 2000)."""
    rounds = ROUNDS if beta is None else WARM_ROUNDS
    ridge = 1e-9 * len(y) * np.eye(x.shape[1])
    smooth = SMOOTH * max(float(y.std()), 1e-300)
    found = np.asarray(np.linalg.solve(x.T @ x + ridge, x.T @ y) if beta is None else beta, np.float64)
    for _ in range(rounds):
        weight = smooth / (smooth + np.abs(y - x @ found))
        weighted = x * weight[:, None]
        found = np.linalg.solve(weighted.T @ x + ridge, weighted.T @ y + smooth * (2 * share - 1) * x.sum(axis=0))
    return found
