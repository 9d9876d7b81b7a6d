"""Computes, in one more pass, the sums per piece of every fit, from which influences follow.

For logs too large for a second pass, the same sums by group come from `Moments`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtd.compiled import engine
from gradtd.core.arrays import Floats, Integers
from gradtd.core.executors import ThreadExecutor
from gradtd.evaluation.designs.base import CHUNK, Steps, read_chunks
from gradtd.evaluation.designs.log_features import since_start
from gradtd.evaluation.estimators.products import times
from gradtd.evaluation.fits import Fit, Solution, Solutions
from gradtd.evaluation.moments import Moments, group_edges

SUMS = 9
"""Number of sums over all steps per fit."""


class PieceSums(NamedTuple):
    """Sums of the fits: by piece, (pieces, fits), and means over steps, (fits,)."""

    start: Floats
    """Index of the start value of a piece."""
    pull: Floats
    """Index of its sum of rho (TD error) x.left, with the trace of x if there are traces."""
    robust: Floats
    """Index of its sum of TD errors times the products of ratios."""
    lack: Floats
    spread: Floats
    missed: Floats
    met: Floats


def fits_from(solved: Sequence[Solution], sums: PieceSums, pieces: Floats, n_steps: int) -> list[Fit]:
    """Fits with their influences; ``pieces`` is the number of pieces in each sum."""
    return [
        Fit(
            s.name,
            s.value,
            psi_of(sums.start[:, j], sums.pull[:, j], s.value, pieces),
            s.bias,
            s.rank,
            float(sums.lack[j]),
            spread=float(sums.spread[j]),
            missed=float(sums.missed[j]) * n_steps,
            met=float(sums.met[j]),
        )
        for j, s in enumerate(solved)
    ]


def psi_of(start: Floats, pull: Floats, value: float, pieces: Floats) -> Floats:
    """psi = start - value - E pull, for each piece, or each group of pieces that has any.

    The influence of a group is the sum over its pieces, scaled to keep the mean of the pieces' influences: the error of
    a mean of G groups must equal that of the mean of all E pieces.
    """
    E, filled = float(pieces.sum()), pieces > 0
    return np.asarray((start - pieces * value - E * pull)[filled] * (filled.sum() / E))


def robust_fit(name: str, values: Floats, pieces: Floats) -> Fit:
    """The doubly robust estimate as a fit, from the sums of its values by piece or group of pieces."""
    E, filled = float(pieces.sum()), pieces > 0
    value = float(values.sum() / E)
    return Fit(name, value, (values - pieces * value)[filled] * (filled.sum() / E), 0.0, 0)


class PieceReader:
    """Reads steps for all solutions at once: first the plain ones, then those with traces of ``lam`` or with the
    time."""

    def __init__(self, solutions: Solutions, n_columns: int, lam: float, clock: Floats) -> None:
        self.plain, self.lam = len(solutions.plain), lam
        self.k, self.timed = len(solutions.every), len(solutions.timed)
        self.weights, self.of_time = _weights(solutions, n_columns, clock)
        self._stored: tuple[Any, Any] = (None, None)
        self._add = engine.compile_function(add_steps)

    def read(self, steps: Steps, products: Floats | None = None) -> tuple[Floats, Floats]:
        """Sums by piece, (pieces, 3, fits), and over all steps, (sums, fits)."""
        E, k, rows = steps.n_pieces, self.k, steps.rows
        stored = self._of_table(rows)
        by_piece, edges = np.zeros((E, 3, k)), group_edges(E)
        carried = np.zeros((SUMS, k))

        def read(g: int) -> Floats:
            by_fit = carried if steps.traced else np.zeros((SUMS, k))
            part = slice(int(steps.begins[edges[g]]), int(steps.begins[edges[g + 1]]))
            for start, feats, here, there, numbers in read_chunks(steps, part, self.lam, products):
                of_row = times(feats, self.weights) if stored is None else stored
                piece = np.searchsorted(steps.begins, start, "right") - 1
                at = np.array([here, there, since_start(steps.begins, start, start + len(here))])
                begins = steps.begins[piece:] - start
                self._add(of_row, self.of_time, at, numbers, begins, self.plain, by_piece[piece:], by_fit)
            return by_fit

        # Requested traces continue across blocks, so there is one thread and one row of last traces.
        pool = ThreadExecutor(steps.threads if steps.traced is None else 1)
        done = dict(pool.each(read, range(len(edges) - 1)))
        by_fit = carried if steps.traced else np.sum([done[g] for g in range(len(edges) - 1)], axis=0)
        if rows.starts is not None:
            self._start_elsewhere(steps, stored, by_piece)
        return by_piece, by_fit

    def _of_table(self, rows: Any) -> Any:
        """The value of every row of a stored table under every fit, cached for the last table."""
        if rows.table is None:
            return None
        if self._stored[0] is not rows.table:
            made = rows.table @ self.weights if rows.sparse else times(rows.table, self.weights)
            self._stored = rows.table, made
        return self._stored[1]

    def _start_elsewhere(self, steps: Steps, stored: Any, by_piece: Floats) -> None:
        """Set the start values if pieces do not start in the row of their first step."""
        k, starts = self.k, steps.start_rows
        for begin in range(0, len(starts), CHUNK):
            some = slice(begin, begin + CHUNK)
            rows = steps.rows.at(starts[some]) @ self.weights[:, :k] if stored is None else stored[starts[some], :k]
            by_piece[some, 0] = rows
            by_piece[some, 0, k - self.timed :] += self.of_time[0, : self.timed]


def _weights(solutions: Solutions, n_columns: int, clock: Floats) -> tuple[Floats, Floats]:
    """The weights of all fits (theta, left, missing), shape (columns, 3 fits), and their weights of the time, shape
    (times, 3 timed)."""
    every, timed = solutions.every, solutions.timed
    k = len(every)
    weights, of_time = np.zeros((n_columns, 3 * k)), np.zeros((1, 3 * len(timed)))
    for j, s in enumerate(every):
        for place, which in enumerate((s.theta, s.left, s.missing)):
            weights[s.columns, place * k + j] = which[: len(s.columns)]
    if timed:
        last = [np.array([s.theta, s.left, s.missing])[:, len(s.columns) :] for s in timed]
        of_time = clock @ np.transpose(last, (2, 1, 0)).reshape(clock.shape[1], -1)
    return weights, of_time


def summed(by_piece: Floats, by_fit: Floats, n: int) -> PieceSums:
    """Make a `PieceSums` from sums by piece or group, shape (pieces, 3, fits), and sums over all n steps, shape (sums,
    fits)."""
    mean, square = by_fit[0] / n, by_fit[1] / n
    weight, surprise = np.maximum(by_fit[5], 1e-300), np.maximum(by_fit[7], 1e-300)
    return PieceSums(
        by_piece[:, 0],
        by_piece[:, 1],
        by_piece[:, 2],
        lack=by_fit[2] / n,
        spread=np.sqrt(np.maximum(square - mean**2, 0.0)),
        missed=by_fit[4] / n * np.sqrt(surprise / n),
        met=weight**2 / np.maximum(by_fit[6], 1e-300) * surprise**2 / np.maximum(by_fit[8], 1e-300) / n,
    )


def by_group(moments: Moments, solutions: Solutions, clock: Floats, sample: PieceSums, n_steps: float) -> PieceSums:
    """The sums by group, from moments by group, for a log that is read once.

    Missing choices and observed TD errors are not sums of products; they come from a ``sample`` of its episodes.
    """
    every, k = solutions.every, len(solutions.plain)
    start, pull, robust = (np.zeros((len(moments.pieces), len(every))) for _ in range(3))
    spread = np.zeros(len(every))
    pull[:, :k] = _pulls(moments.A, moments.b, solutions.plain)
    pull[:, k : k + len(solutions.traced)] = _pulls(moments.traced_A, moments.traced_b, solutions.traced)
    for j, s in enumerate(every):
        theta, left = s.theta[: len(s.columns)], s.left[: len(s.columns)]
        start[:, j] = moments.starts[:, s.columns] @ theta
        if len(s.theta) > len(s.columns):
            late, late_left = s.theta[len(s.columns) :], s.left[len(s.columns) :]
            start[:, j] += moments.pieces * (clock[0] @ late)
            residual = moments.A[:, s.columns[:, None], s.columns] @ theta + moments.b[:, s.columns]
            residual += moments.to[:, s.columns] @ late
            of_time = moments.back[:, :, s.columns] @ theta + moments.own @ late + moments.time_b
            pull[:, j] = residual @ left + of_time @ late_left
        robust[:, j] = moments.robust[:, s.columns] @ theta + moments.robust[:, -1]
        mean = float(moments.x[s.columns] @ theta) / n_steps
        square = float(theta @ moments.C[np.ix_(s.columns, s.columns)] @ theta) / n_steps
        spread[j] = np.sqrt(max(square - mean**2, 0.0))
    return PieceSums(start, pull, robust, sample.lack, spread, sample.missed, sample.met)


def _pulls(A: Floats, b: Floats, solved: Sequence[Solution]) -> Floats:
    """left'(A theta + b) of every group under every solution. All are computed at once, since each would copy its part
    of A."""
    theta, left = np.zeros((2, A.shape[1], len(solved)))
    for j, s in enumerate(solved):
        theta[s.columns, j], left[s.columns, j] = s.theta, s.left
    made = [np.einsum("dk,dk->k", A_g @ theta + b_g[:, None], left) for A_g, b_g in zip(A, b, strict=True)]
    return np.array(made)


def add_steps(
    of_row: Floats,
    of_time: Floats,
    at: Integers,
    numbers: Floats,
    begins: Integers,
    plain: int,
    by_piece: Floats,
    by_fit: Floats,
) -> None:
    """Add steps to their pieces and to the sums of every fit. Row 3 of these sums holds the last trace, along x.left.

    Fits after the first ``plain`` ones have traces; the value of the last ones also depends on the time.
    """
    k, e, timed = by_fit.shape[1], 0, of_time.shape[1] // 3
    last, late = k - timed, of_time.shape[0] - 1
    for i in range(numbers.shape[1]):
        if i == begins[e + 1]:
            e += 1
        here, there, first = at[0, i], at[1, i], i == begins[e]
        rho, discount, reward = numbers[0, i], numbers[1, i], numbers[2, i]
        decay, product, own = numbers[3, i], numbers[4, i], numbers[5, i]
        for j in range(k):
            value, after = of_row[here, j], of_row[there, j]
            left, lack = of_row[here, k + j], of_row[here, 2 * k + j]
            carried = decay if j >= plain else own
            if j >= last:
                now, then, i_time = min(at[2, i], late), min(at[2, i] + 1, late), j - last
                value += of_time[now, i_time]
                after += of_time[then, i_time]
                left += of_time[now, timed + i_time]
                lack += of_time[now, 2 * timed + i_time]
                carried = 0.0
            delta = reward + discount * after - value
            along = left * rho
            # A trace may be infinite, and 0 times infinity is NaN.
            if carried != 0.0:
                along += rho * carried * by_fit[3, j]
            by_fit[3, j] = along
            if first:
                by_piece[e, 0, j] = value
            by_piece[e, 1, j] += delta * along
            by_piece[e, 2, j] += delta * product
            by_fit[0, j] += value
            by_fit[1, j] += value * value
            # If the projection of 1 - rho is negative, ratios are above 1 on average and nothing is missing.
            lack = max(0.0, lack)
            by_fit[2, j] += lack
            by_fit[4, j] += abs(left) * lack
            weight, surprise = along * along, delta * delta
            by_fit[5, j] += weight
            by_fit[6, j] += weight * weight
            by_fit[7, j] += surprise
            by_fit[8, j] += surprise * surprise
