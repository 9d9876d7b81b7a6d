"""Quantiles of an outcome given where it was seen: by group, or by linear quantile regression.

Each half of the episodes is given the quantiles of the other half. A bound that is made of quantiles is then right
for any of them, exact ones make it sharp, and none is right by chance because it saw its own outcome.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gradtd.core.arrays import Floats, Integers

FEWEST = 10
"""Outcomes of the other half below which a group takes the quantile of all groups."""
MOST_FITTED = 5000
"""Outcomes that a regression is fitted to."""
ROUNDS, WARM_ROUNDS, SMOOTH = 40, 8, 1e-3
"""Rounds of the regression, fewer where it starts from an earlier one, and its smoothing over the deviation."""


@dataclass(eq=False)
class Conditioning:
    """What outcomes are conditioned on: a group of every step; or columns, with one regression for every group.

    Parameters
    ----------
    group
        The group of every step.
    half
        The half of the episodes that every step is in, 0 or 1; of one step alone where all are in half 0.
    columns
        (steps, k), a constant among them; None where groups tell all.
    """

    group: Integers
    half: Integers
    columns: Floats | None = None
    _last: dict[tuple[int, int, float], Floats] = field(default_factory=dict)

    @property
    def n_groups(self) -> int:
        return int(self.group.max()) + 1

    def quantile(self, outcome: Floats, share: float, sign: int = 1) -> Floats:
        """The quantile of every step's outcome given its place, by outcomes of the other half."""
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
