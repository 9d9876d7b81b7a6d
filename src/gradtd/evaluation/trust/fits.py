"""LSTD on some columns of the widest table: the value, and the influence of every piece on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from gradtd.compiled import engine
from gradtd.core.arrays import Floats, Integers, Plain
from gradtd.evaluation.estimators.products import times
from gradtd.evaluation.estimators.whitening import whitener
from gradtd.evaluation.trust.clock import since_start
from gradtd.evaluation.trust.moments import Moments, group_edges, group_steps, moments
from gradtd.evaluation.trust.reading import CHUNK, Reader
from gradtd.evaluation.trust.records import Record, Wide

REDUNDANT = 1e-8
"""Directions with a part of the variance below this, features scaled to one, are left out."""
SUMS = 9
"""Sums over steps that are kept for every fit."""
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
    missed
        How far the choices that the log lacks could move the value, if each were off by a usual surprise.
    met
        Effective number of steps that the error rests on, if surprises fell on any of them alike: with heavy weights
        and rare rewards the largest weights have met no reward yet, and the influences do not show it.
    """

    name: str
    value: float
    psi: Floats = field(repr=False)
    bias: float
    columns: int
    lack: float = 0.0
    error_factor: float = 1.0
    spread: float = 0.0
    missed: float = 0.0
    met: float = np.inf

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


Solved = tuple[str, Integers, Solution]
"""A name, its columns, and the solution on them."""


def solved(A: Floats, b: Floats) -> Floats:
    """The solution of A x = b, not a number where A is singular."""
    try:
        return np.asarray(np.linalg.solve(A, b))
    except np.linalg.LinAlgError:
        return np.full(len(b), np.nan)


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
    theta = solved(total, -total_b)
    left = solved(total.T, total_s / n)
    value = float(total_s @ theta / n)
    without = [
        float((total_s - starts[g]) @ solved(total - A[g], b[g] - total_b) / (n - sums.pieces[g]))
        for g in range(len(A))
    ]
    mean = float(np.mean(without))
    bias = (len(A) - 1) * (mean - value) if np.isfinite(mean) else np.inf
    missing = W @ (W.T @ sums.missing[columns]) / n
    return Solution(W @ theta, W @ left, value, bias, W.shape[1], missing)


def dense_fits(record: Record, wide: Wide, lam: float, clock: Floats | None = None) -> list[Solved]:
    """A fit of every rung and checker; behind them, for every headline, one with other traces and one with the time."""
    sums, traced, timed = moments(record, wide, lam, clock)
    sets = wide.rungs | wide.checkers
    made = [(name, columns, solve(sums, columns)) for name, columns in sets.items()]
    named = [(name, wide.rungs[name]) for name in wide.headlines]
    made += [(name, columns, solve(traced, columns)) for name, columns in named]
    if timed is None:
        return made
    time = np.arange(timed.C.shape[0])[wide.n_headline_columns :]
    return made + [(name, columns, solve(timed, np.r_[columns, time])) for name, columns in named]


def fit_many(
    record: Record,
    wide: Wide,
    solved: list[Solved],
    lam: float,
    products: Floats | None = None,
    clock: Floats | None = None,
) -> tuple[list[Fit], Floats]:
    """Fits in the order of their solutions: their influences, in one more pass over the log.

    With ``products`` of ratios also each piece's doubly robust value by every plain fit, (pieces, fits).
    """
    sets = wide.rungs | wide.checkers
    seen = see(record, wide, solved, len(sets), lam, products, clock)
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
            missed=float(seen.missed[j]) * len(record),
            met=float(seen.met[j]),
        )
        for j, (name, _, s) in enumerate(solved)
    ]
    return fits, seen.start[:, :k] + seen.robust[:, :k]


class Seen(NamedTuple):
    """What the fits make of the log: sums over pieces, (pieces, fits), and means over steps, (fits,)."""

    start: Floats
    pull: Floats
    robust: Floats
    lack: Floats
    spread: Floats
    missed: Floats
    met: Floats


def see(
    record: Record,
    wide: Wide,
    solved: list[Solved],
    plain: int,
    lam: float,
    products: Floats | None,
    clock: Floats | None = None,
) -> Seen:
    """Read the log once more, a chunk at a time; solutions behind the first ``plain`` ones have traces of ``lam``.

    Those with more weights than columns have the others for columns of the time, and no traces; they come last.
    """
    k, E = len(solved), record.n_pieces
    weights, of_time, stored = looked_up(wide, solved, clock)
    timed = of_time.shape[1] // 3
    by_piece, add, edges = np.zeros((E, 3, k)), engine.compiled(step_adder), group_edges(E)

    def sums(g: int) -> Floats:
        reader, by_fit = Reader(record, wide, lam, products), carried if record.traced else np.zeros((SUMS, k))
        for start, feats, here, there, numbers in reader.chunks(group_steps(record, edges, g)):
            of_row = times(feats, weights) if stored is None else stored
            piece = np.searchsorted(record.begins, start, "right") - 1
            since = since_start(record.begins, start, start + len(here))
            at, begins = np.array([here, there, since]), record.begins[piece:] - start
            add(of_row, of_time, at, numbers, begins, plain, by_piece[piece:], by_fit)
        return by_fit

    carried = np.zeros((SUMS, k))
    of_groups = record.in_turn(sums, len(edges) - 1)
    by_fit = carried if record.traced else np.sum(of_groups, axis=0)
    for begin in range(0, E if record.starts is not None else 0, CHUNK):
        by_piece[begin : begin + CHUNK, 0] = wide.rows(record.start_rows[begin : begin + CHUNK]) @ weights[:, :k]
        by_piece[begin : begin + CHUNK, 0, k - timed :] += of_time[0, :timed]
    return seen_of(by_piece, by_fit, len(record))


def looked_up(wide: Wide, solved: list[Solved], clock: Floats | None) -> tuple[Floats, Floats, Any]:
    """Weights of all fits, (columns, 3 fits): theta, left, missing; what the time adds; the rows of a stored table."""
    k = len(solved)
    timed = sum(len(s.theta) > len(columns) for _, columns, s in solved)
    weights, of_time = np.zeros((wide.n_columns, 3 * k)), np.zeros((1, 3 * timed))
    if clock is not None and timed:
        last = [np.array([s.theta, s.left, s.missing])[:, len(columns) :] for _, columns, s in solved[k - timed :]]
        of_time = clock @ np.transpose(last, (2, 1, 0)).reshape(clock.shape[1], -1)
    for j, (_, columns, s) in enumerate(solved):
        for place, which in enumerate((s.theta, s.left, s.missing)):
            weights[columns, place * k + j] = which[: len(columns)]
    stored = None
    if wide.table is not None:
        stored = wide.table @ weights if wide.sparse else times(wide.table, weights)
    return weights, of_time, stored


def seen_of(by_piece: Floats, by_fit: Floats, n: int) -> Seen:
    """What the sums by piece, (pieces, 3, fits), and of all n steps, (sums, fits), say."""
    mean, square = by_fit[0] / n, by_fit[1] / n
    weight, surprise = np.maximum(by_fit[5], 1e-300), np.maximum(by_fit[7], 1e-300)
    return Seen(
        by_piece[:, 0],
        by_piece[:, 1],
        by_piece[:, 2],
        lack=by_fit[2] / n,
        spread=np.sqrt(np.maximum(square - mean**2, 0.0)),
        missed=by_fit[4] / n * np.sqrt(surprise / n),
        met=weight**2 / np.maximum(by_fit[6], 1e-300) * surprise**2 / np.maximum(by_fit[8], 1e-300) / n,
    )


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
    """Add steps to their pieces and to the sums of every fit: value, its square, choices missing; the trace is kept.

    Of the last fits part of the value is one of the time.
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
            if carried != 0.0:
                along += rho * carried * by_fit[3, j]
            by_fit[3, j] = along
            if first:
                by_piece[e, 0, j] = value
            by_piece[e, 1, j] += delta * along
            by_piece[e, 2, j] += delta * product
            by_fit[0, j] += value
            by_fit[1, j] += value * value
            lack = max(0.0, lack)
            by_fit[2, j] += lack
            by_fit[4, j] += abs(left) * lack
            weight, surprise = along * along, delta * delta
            by_fit[5, j] += weight
            by_fit[6, j] += weight * weight
            by_fit[7, j] += surprise
            by_fit[8, j] += surprise * surprise


def step_adder(fingerprint: str) -> Plain:
    def run(
        of_row: Floats,
        of_time: Floats,
        at: Integers,
        numbers: Floats,
        begins: Integers,
        plain: int,
        by_piece: Floats,
        by_fit: Floats,
    ) -> None:
        fingerprint  # noqa: B018 (part of the closure, and so of the key of the cache)
        add_steps(of_row, of_time, at, numbers, begins, plain, by_piece, by_fit)

    return run
