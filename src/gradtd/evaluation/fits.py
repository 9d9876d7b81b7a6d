"""LSTD on a subset of the columns of the widest table: the solution, and a fit with the influence of every piece."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.evaluation.designs.base import Ladder
from gradtd.evaluation.estimators.products import whitener
from gradtd.evaluation.estimators.solvers import feature_scale
from gradtd.evaluation.moments import Moments
from gradtd.evaluation.report.step_sums import effective_size

REDUNDANT = 1e-8
"""With scaled features, directions with a smaller share of the variance are dropped."""
REGULAR = 1e-4
"""Equations are solved without whitening if every direction has at least this share of the largest variance."""
TINY = 1e-9
"""This multiple of C is subtracted from A, so that directions missing from a group of pieces stay at zero."""


@dataclass(frozen=True, eq=False)
class Fit:
    """The value of one fit, and the influence of every piece on it."""

    name: str
    value: float
    psi: Floats = field(repr=False)
    bias: float  # the jackknife bias, by tenths of the pieces
    columns: int  # rank of the features
    lack: float = 0.0  # share of the target's choices that the log lacks, measured in the features
    error_factor: float = 1.0  # the error relative to that of independent pieces
    spread: float = 0.0  # standard deviation of the value function over the visited states
    missed: float = 0.0  # the largest shift of the value by missing choices, if each had a typical TD error
    met: float = np.inf
    """Effective number of steps behind the error, if TD errors were equal at all steps. With large weights and rare
    rewards, the log may not contain a reward at the steps with the largest weights. The influences do not show this."""

    @property
    def error(self) -> float:
        """The standard error of the value, from the influences."""
        E = len(self.psi)
        return float(np.sqrt((self.psi**2).sum() / (E * max(E - 1, 1)))) * self.error_factor

    @property
    def effective(self) -> float:
        """(sum psi^2)^2 / sum psi^4: the effective number of pieces behind the value."""
        return effective_size(_scaled(self.psi) ** 2)

    @property
    def skew(self) -> float:
        """The skewness of the value, from that of the influences."""
        psi = _scaled(self.psi)
        m2 = float((psi**2).mean())
        return float((psi**3).mean() / m2**1.5 / np.sqrt(len(psi))) if m2 > 0 else 0.0


def _scaled(psi: Floats) -> Floats:
    """The influences scaled to size one, so that their powers do not overflow."""
    largest = float(np.abs(psi).max(initial=0.0))
    return psi / largest if 0 < largest < np.inf else np.zeros_like(psi)


class Solution(NamedTuple):
    """The solution of the equations on a subset of the columns.

    ``theta`` are the weights of the columns, then of columns of the time; ``left`` = A^-T mean phi_0;
    ``bias`` is the jackknife bias, ``rank`` is the number of directions, and ``missing`` are the weights of the
    projection of 1 - rho.
    """

    name: str
    columns: Integers
    theta: Floats
    left: Floats
    value: float
    bias: float
    rank: int
    missing: Floats


class Solutions(NamedTuple):
    """Solutions of every rung and checker, and of the headlines with other traces and with time features."""

    plain: list[Solution]
    traced: list[Solution]
    timed: list[Solution]

    @property
    def every(self) -> list[Solution]:
        return [*self.plain, *self.traced, *self.timed]


class Equations(NamedTuple):
    """Sums by tenths, from which fits select columns."""

    A: Floats
    b: Floats
    C: Floats
    starts: Floats
    pieces: Floats
    missing: Floats


def solve_all(moments: Moments, ladder: Ladder, clock: Floats) -> Solutions:
    """Every fit that the checks compare, from the sums of one pass."""
    sums = moments.tenths()
    headlines = [(name, ladder.rungs[name]) for name in ladder.headlines]
    plain = plain_sums(sums)
    n = sums.traced_b.shape[1]
    of_all = (sums.C[:n, :n], sums.starts[:, :n], sums.pieces, sums.missing[:n])
    traced = Equations(sums.traced_A, sums.traced_b, *of_all)
    timed = []
    if clock.shape[1]:
        with_time, time = _with_time(sums, clock), np.arange(n, n + clock.shape[1])
        timed = [solve(name, with_time, columns, time) for name, columns in headlines]
    return Solutions(
        [solve(name, plain, columns) for name, columns in ladder.sets.items()],
        [solve(name, traced, columns) for name, columns in headlines],
        timed,
    )


def plain_sums(sums: Moments) -> Equations:
    """The sums of the features alone."""
    return Equations(sums.A, sums.b, sums.C, sums.starts, sums.pieces, sums.missing)


def _with_time(sums: Moments, clock: Floats) -> Equations:
    """The equations of the headlines' columns, followed by those of the time."""
    n = sums.traced_b.shape[1]
    top, bottom = np.concatenate([sums.A[:, :n, :n], sums.to], 2), np.concatenate([sums.back, sums.own], 2)
    C = np.block([[sums.C[:n, :n], sums.time_C], [sums.time_C.T, sums.time_own]])
    starts = np.c_[sums.starts[:, :n], sums.pieces[:, None] * clock[0]]
    b, missing = np.c_[sums.b[:, :n], sums.time_b], np.r_[sums.missing[:n], sums.time_missing]
    return Equations(np.concatenate([top, bottom], 1), b, C, starts, sums.pieces, missing)


def solved(A: Floats, b: Floats) -> Floats:
    """The solution of A x = b; NaN if A is singular."""
    try:
        return np.asarray(np.linalg.solve(A, b))
    except np.linalg.LinAlgError:
        return np.full(len(b), np.nan)


def solve(name: str, sums: Equations, own: Integers, beside: Integers | None = None) -> Solution:
    """Solve the equations of these and the additional columns, and again without each tenth of the pieces."""
    columns = own if beside is None else np.r_[own, beside]
    part = columns_as_slice(columns)
    n = int(sums.pieces.sum())
    A, C = sums.A[:, part][:, :, part], sums.C[part][:, part]
    if not (np.isfinite(A).all() and np.isfinite(C).all()):
        nothing = np.full(len(columns), np.nan)
        return Solution(name, own, nothing, nothing, np.nan, np.nan, len(columns), nothing)
    C = C / n
    scale = feature_scale(C)
    C = scale[:, None] * C * scale
    # Finding redundant directions costs more than solving, so it is done only if there are any.
    basis = _plain_basis(C, len(own)) or _whitened_basis(C)
    C = basis.turned(C)
    by_tenth = [basis.turned(scale[:, None] * a * scale) for a in A]
    b, starts, missing = (basis.along(array[..., part] * scale) for array in (sums.b, sums.starts, sums.missing))
    total, total_b, total_s = sum(by_tenth, -TINY * n * C), b.sum(0), starts.sum(0)
    if not len(C):
        nothing = np.zeros(len(columns))
        return Solution(name, own, nothing, nothing, 0.0, 0.0, 0, nothing)
    theta = solved(total, -total_b)
    # The sensitivity of the value to each equation: influences are residuals of the steps times this.
    left = solved(total.T, total_s / n)
    value = float(total_s @ theta / n)
    # The jackknife subtracts the sums of one tenth; the log is not read again.
    without = [
        float((total_s - starts[g]) @ solved(total - by_tenth[g], b[g] - total_b) / (n - sums.pieces[g]))
        for g in range(len(by_tenth))
    ]
    theta, left, missing = (scale * basis.back(one, len(columns)) for one in (theta, left, solved(C, missing) / n))
    return Solution(name, own, theta, left, value, jackknife_bias(without, value), len(C), missing)


def columns_as_slice(columns: Integers) -> Any:
    """Turn neighbouring columns into a slice, because a slice gives a view of the sums and indices make a copy."""
    if len(columns) and (np.diff(columns) == 1).all():
        return slice(int(columns[0]), int(columns[-1]) + 1)
    return columns


class Basis(NamedTuple):
    """Directions in the space of some columns: the columns ``first`` unchanged, then combinations (``turn``) of the
    columns ``rest``, plus combinations (``mix``) of ``first``.
    """

    first: Integers
    rest: Integers
    turn: Floats
    mix: Floats

    def along(self, vectors: Floats) -> Floats:
        """Express vectors, which are on the last axis, in these directions."""
        plain = vectors[..., columns_as_slice(self.first)]
        if not len(self.rest):
            return plain
        mixed = vectors[..., columns_as_slice(self.rest)] @ self.turn + plain @ self.mix
        return np.concatenate([plain, mixed], axis=-1)

    def turned(self, matrix: Floats) -> Floats:
        """Express a matrix in these directions, on both sides."""
        return self.along(self.along(matrix).T).T

    def back(self, weights: Floats, n_columns: int) -> Floats:
        """Convert weights of the directions to weights of the columns."""
        made, n = np.zeros(n_columns), len(self.first)
        made[self.first], made[self.rest] = weights[:n] + self.mix @ weights[n:], self.turn @ weights[n:]
        return made


def _plain_basis(C: Floats, own: int) -> Basis | None:
    """Drop empty columns, and replace the columns after the first ``own`` by the whitened residuals of their regression
    on the first ones.

    None if the first columns are nearly redundant. A Cholesky factor shows this at a tenth of the cost of directions.
    """
    live = np.flatnonzero(C.diagonal())
    first, rest = live[live < own], live[live >= own]
    if not len(first) or not _regular(C[np.ix_(first, first)]):
        return None
    turn, mix = np.zeros((0, 0)), np.zeros((len(first), 0))
    if len(rest):
        both = C[np.ix_(first, rest)]
        explained = np.linalg.solve(C[np.ix_(first, first)], both)
        left, directions = np.linalg.eigh(C[np.ix_(rest, rest)] - both.T @ explained)
        kept = left > REDUNDANT * len(rest)
        turn = directions[:, kept] / np.sqrt(left[kept])
        mix = -explained @ turn
    return Basis(first, rest, turn, mix)


def _regular(C: Floats) -> bool:
    """Whether every direction has at least `REGULAR` of the largest variance."""
    try:
        np.linalg.cholesky(C - REGULAR * np.abs(C).sum(axis=0).max() * np.eye(len(C)))
    except np.linalg.LinAlgError:
        return False
    return True


def _whitened_basis(C: Floats) -> Basis:
    """Directions with unit variance. Directions that do not occur in the log are left out."""
    W = whitener(C, REDUNDANT)
    turn = W[:, W.any(axis=0)]
    return Basis(np.zeros(0, np.int64), np.arange(len(C)), turn, np.zeros((0, turn.shape[1])))


def jackknife_bias(without: list[float], value: float) -> float:
    """The jackknife bias of a value. It is infinite if one of the values is not finite."""
    mean = float(np.mean(without)) if without else np.nan
    return (len(without) - 1) * (mean - value) if np.isfinite(mean) else np.inf
