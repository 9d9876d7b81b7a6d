"""LSTD on some columns of the widest table: the value, and the influence of every piece on it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.evaluation.trust.moments import CHUNK, Moments, rows_of, traces
from gradtd.evaluation.trust.records import Record, Wide
from gradtd.evaluation.whitening import whitener

REDUNDANT = 1e-8
"""Directions with a part of the variance below this, features scaled to one, are left out."""
TINY = 1e-9
"""Added to the diagonal of whitened equations: a direction that a group of pieces never met stays at zero."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A value and its pieces' influences.

    Parameters
    ----------
    bias
        The jackknife's, by groups of pieces.
    columns
        Directions of the features.
    lack
        Part of the target's choices that the log lacks, as the features see it.
    error_factor
        How many times larger the error is than that of independent pieces.
    spread
        Deviation of the value function over the states visited.
    """

    name: str
    value: float
    psi: Floats = field(repr=False)
    bias: float
    columns: int
    lack: float = 0.0
    error_factor: float = 1.0
    spread: float = 0.0

    @property
    def error(self) -> float:
        """The standard error of the value, by the influences."""
        E = len(self.psi)
        return float(np.sqrt((self.psi**2).sum() / (E * max(E - 1, 1)))) * self.error_factor

    @property
    def effective(self) -> float:
        """(sum psi^2)^2 / sum psi^4: on how many pieces' influence the value rests."""
        square = _scaled(self.psi) ** 2
        total = float((square**2).sum())
        return float(square.sum() ** 2 / total) if total > 0 else 0.0

    @property
    def skew(self) -> float:
        """The skewness of the value, by that of the influences."""
        psi = _scaled(self.psi)
        m2 = float((psi**2).mean())
        return float((psi**3).mean() / m2**1.5 / np.sqrt(len(psi))) if m2 > 0 else 0.0


def _scaled(psi: Floats) -> Floats:
    """Influences of size one, so that their powers are numbers."""
    largest = float(np.abs(psi).max(initial=0.0))
    return psi / largest if 0 < largest < np.inf else np.zeros_like(psi)


@dataclass(frozen=True, eq=False)
class Solution:
    """Weights, A^-T mean phi_0, the value, the jackknife's bias, directions, weights of the projection of 1 - rho."""

    theta: Floats
    left: Floats
    value: float
    bias: float
    rank: int
    missing: Floats


def solve(sums: Moments, columns: Integers) -> Solution:
    """Solve on these columns, and without each group of pieces."""
    pick = np.ix_(columns, columns)
    n = int(sums.pieces.sum())
    if not (np.isfinite(sums.A[:, columns][:, :, columns]).all() and np.isfinite(sums.C[pick]).all()):
        nothing = np.full(len(columns), np.nan)
        return Solution(nothing, nothing, np.nan, np.nan, len(columns), nothing)
    W = whitener(sums.C[pick] / n, REDUNDANT)
    W = W[:, W.any(axis=0)]
    A = np.array([W.T @ a[pick] @ W for a in sums.A])
    b, starts = sums.b[:, columns] @ W, sums.starts[:, columns] @ W
    total, total_b, total_s = A.sum(0), b.sum(0), starts.sum(0)
    total = total - TINY * n * np.eye(W.shape[1])
    if not W.shape[1]:
        return Solution(W @ total_b, W @ total_b, 0.0, 0.0, 0, W @ total_b)
    theta = np.linalg.solve(total, -total_b)
    left = np.linalg.solve(total.T, total_s / n)
    value = float(total_s @ theta / n)
    without = [
        float((total_s - starts[g]) @ np.linalg.solve(total - A[g], b[g] - total_b) / (n - sums.pieces[g]))
        for g in range(len(A))
    ]
    bias = (len(A) - 1) * (float(np.mean(without)) - value)
    missing = W @ (W.T @ sums.missing[columns]) / n
    return Solution(W @ theta, W @ left, value, bias, W.shape[1], missing)


def fit_many(
    record: Record, wide: Wide, sums: Moments, traced: Moments, lam: float, products: Floats | None = None
) -> tuple[list[Fit], list[Fit], Floats]:
    """One fit for every rung and checker, one with traces for every rung; influences of all in one pass over the steps.

    With ``products`` of ratios also each piece's doubly robust value by every plain fit, (pieces, fits).
    """
    sets = wide.rungs | wide.checkers
    solved = [(name, columns, solve(sums, columns)) for name, columns in sets.items()]
    solved += [(name, columns, solve(traced, columns)) for name, columns in wide.rungs.items()]
    seen = _Seen(record, wide, solved, len(sets), lam, products)
    E, k = record.n_pieces, len(sets)
    fits = [
        Fit(
            name,
            s.value,
            seen.start[:, j] - s.value - E * seen.pull[:, j],
            s.bias,
            s.rank,
            float(seen.lack[j]),
            spread=float(seen.spread[j]),
        )
        for j, (name, _, s) in enumerate(solved)
    ]
    return fits[:k], fits[k:], seen.start[:, :k] + seen.robust


class _Seen:
    """What the fits make of the log, read a chunk at a time: sums over pieces, and means over steps."""

    def __init__(
        self,
        record: Record,
        wide: Wide,
        solved: list[tuple[str, Integers, Solution]],
        plain: int,
        lam: float,
        products: Floats | None,
    ) -> None:
        k, E = len(solved), record.n_pieces
        weights = np.zeros((wide.n_columns, 3 * k))
        for j, (_, columns, s) in enumerate(solved):
            for place, which in enumerate((s.theta, s.left, s.missing)):
                weights[columns, place * k + j] = which
        self.start, self.pull, self.robust = np.zeros((E, k)), np.zeros((E, k)), np.zeros((E, plain))
        lack, mean, square, trace = np.zeros(k), np.zeros(k), np.zeros(k), np.zeros(k - plain)
        for begin in range(0, len(record), CHUNK):
            part = slice(begin, min(begin + CHUNK, len(record)))
            feats, here, there = rows_of(record, wide, part)
            of_row = feats @ weights
            value, along = of_row[here, :k], of_row[here, k : 2 * k]
            delta = np.asarray(record.discount[part])[:, None] * of_row[there, :k] - value
            delta += np.asarray(record.reward[part])[:, None]
            along[:, :plain] *= np.asarray(record.rho[part])[:, None]
            along[:, plain:] = traces(record, along[:, plain:], part, lam, trace)
            self._add(record, part, self.pull, delta * along)
            if products is not None:
                self._add(record, part, self.robust, delta[:, :plain] * products[part, None])
            if record.starts is None:
                first, last = np.searchsorted(record.begins[:-1], [part.start, part.stop])
                self.start[first:last] = value[record.begins[first:last] - part.start]
            lack += np.maximum(0.0, of_row[here, 2 * k :]).sum(0)
            mean += value.sum(0)
            square += (value**2).sum(0)
        for begin in range(0, E if record.starts is not None else 0, CHUNK):
            self.start[begin : begin + CHUNK] = wide.rows(record.start_rows[begin : begin + CHUNK]) @ weights[:, :k]
        n = len(record)
        self.lack = lack / n
        self.spread = np.sqrt(np.maximum(square / n - (mean / n) ** 2, 0.0))

    @staticmethod
    def _add(record: Record, part: slice, to: Floats, steps: Floats) -> None:
        """Add a chunk's steps to their pieces."""
        first = int(np.searchsorted(record.begins, part.start, "right")) - 1
        last = int(np.searchsorted(record.begins, part.stop, "left"))
        cuts = np.maximum(record.begins[first:last], part.start) - part.start
        to[first:last] += np.add.reduceat(steps, cuts, axis=0)
