"""The checks for cells (one-hot states, aggregated ones): the same fits as `fits` makes, from sparse sums.

A row of the widest table has one entry for its cell, and one each for its state and its pair of states where those have
a column. These sets are nested, so the directions that columns have are as many as the deepest sets that rows are in.
Sums have as many entries as there are pairs of rows in a row. With traces they would have far more: those equations are
solved by a Krylov method that only ever multiplies by them, one pass over the steps forth or back.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from gradtd.compiled import engine
from gradtd.core.arrays import Floats, Integers, Plain
from gradtd.evaluation.estimators.solvers import SparseSolver, feature_scale, krylov
from gradtd.evaluation.trust.clock import TimeSums
from gradtd.evaluation.trust.fits import REDUNDANT, Solution, Solved, solved
from gradtd.evaluation.trust.moments import count_time, group_edges
from gradtd.evaluation.trust.records import Record, Wide

CLOSE = 1e-10
"""Residual of fits without a group of pieces, as a part of the right side."""


def cell_fits(record: Record, wide: Wide, lam: float, clock: Floats | None = None) -> list[Solved]:
    """A fit of every rung and checker; behind them, for every headline, one with other traces and one with the time."""
    sums, edges = _sums(record, wide), record.begins[group_edges(record.n_pieces)]
    asked = None if record.traced is None else _Traces(record, wide, record.traced.decay, edges)
    time = None
    if clock is not None:
        time = TimeSums.nothing(1, wide.n_columns, clock)
        count_time(record, wide.table, np.array([0, record.n_pieces]), time, clock)
    return fits_from(sums, wide, asked, _Traces(record, wide, trace_decay(record, lam), edges), time, clock)


def fits_from(
    sums: Sums, wide: Wide, asked: Traces | None, other: Traces, time: TimeSums | None, clock: Floats | None
) -> list[Solved]:
    """The same from sums; ``asked`` are the traces of the value asked for, ``other`` those that check it."""
    made = [(name, columns, _fit(sums, wide, columns, asked)) for name, columns in (wide.rungs | wide.checkers).items()]
    named = [(name, wide.rungs[name]) for name in wide.headlines]
    made += [(name, columns, _traced(sums, other, wide, columns)) for name, columns in named]
    if clock is None or time is None:
        return made
    plain = {name: found for name, _, found in made[: len(wide.rungs)]}
    return made + [(name, columns, _timed(sums, time, clock, columns, plain[name])) for name, columns in named]


def trace_decay(record: Record, lam: float) -> Floats:
    """lambda times the discount of the step before, 0 where a piece begins."""
    decay = np.zeros(len(record))
    decay[1:] = lam * np.asarray(record.discount)[:-1]
    decay[record.begins[:-1]] = 0.0
    return decay


def _fit(sums: Sums, wide: Wide, columns: Integers, asked: Traces | None) -> Solution:
    return _plain(sums, wide, columns) if asked is None else _traced(sums, asked, wide, columns)


class Sums(NamedTuple):
    """Sums by group of pieces: A (sparse), b and starts (groups, D), pieces; C, visits of rows and those missing."""

    A: list[Any]
    b: Floats
    starts: Floats
    pieces: Integers
    C: Any
    missing: Floats
    visited: Any


def _sums(record: Record, wide: Wide) -> Sums:
    from scipy.sparse import coo_array, diags_array

    table: Any = wide.table
    S, edges = table.shape[0], group_edges(record.n_pieces)
    A, b, starts = [], [], []
    for first, last in pairwise(edges):
        steps = slice(int(record.begins[first]), int(record.begins[last]))
        row, rho = record.row[steps], record.rho[steps]
        pairs = coo_array((rho * record.discount[steps], (row, record.next_row[steps])), shape=(S, S)).tocsr()
        own = diags_array(np.bincount(row, rho, minlength=S))
        A.append((table.T @ ((pairs - own) @ table)).tocsr())
        b.append(np.bincount(row, rho * record.reward[steps], minlength=S) @ table)
        starts.append(np.bincount(record.start_rows[first:last], minlength=S) @ table)
    visits = np.bincount(record.row, minlength=S)
    missing = np.bincount(record.row, 1.0 - record.rho, minlength=S) @ table
    C = (table.T @ (diags_array(visits.astype(np.float64)) @ table)).tocsr()
    return Sums(A, np.array(b), np.array(starts), np.diff(edges), C, missing, visits > 0)


def _plain(sums: Sums, wide: Wide, columns: Integers) -> Solution:
    """`fits.solve` for sparse sums."""
    A, C = [a[columns][:, columns] for a in sums.A], sums.C[columns][:, columns]
    b, starts = sums.b[:, columns], sums.starts[:, columns]
    total, total_b, total_s, n = sum(A[1:], A[0]), b.sum(0), starts.sum(0), int(sums.pieces.sum())
    solver = SparseSolver(total, C)
    theta, left = solver.solve(-total_b), solver.solve(total_s / n, transposed=True)
    value = float(total_s @ theta / n)
    without = [
        float((total_s - starts[g]) @ SparseSolver(total - a, C, exact=CLOSE).solve(b[g] - total_b, guess=theta))
        / (n - int(sums.pieces[g]))
        for g, a in enumerate(A)
        if sums.pieces[g] < n
    ]
    missing = SparseSolver(C, C).solve(sums.missing[columns])
    return Solution(theta, left, value, _bias(without, value), rank(wide, columns, sums.visited), missing)


def _bias(without: list[float], value: float) -> float:
    return (len(without) - 1) * (float(np.mean(without)) - value) if without else np.inf


def rank(wide: Wide, columns: Integers, visited: Any) -> int:
    """Directions that these columns have over the rows visited: the deepest sets that rows are in, the last columns."""
    table: Any = wide.table
    part = table[np.flatnonzero(visited)][:, np.sort(columns)].tocsr()
    part.sort_indices()
    ends = part.indptr[1:][np.diff(part.indptr) > 0]
    return len(np.unique(part.indices[ends - 1]))


def _timed(sums: Sums, time: TimeSums, clock: Floats, columns: Integers, plain: Solution) -> Solution:
    """With columns of the time beside these: the equations of the time alone are left when the others are solved.

    Directions of the time that the features have already are left out. The jackknife's bias is that of the features.
    """
    A, C = (a[columns][:, columns] for a in (sum(sums.A[1:], sums.A[0]), sums.C))
    solver, of_C = SparseSolver(A, C), SparseSolver(C, C)
    same = np.array([of_C.solve(c) for c in time.C[0, columns].T]).T
    scale = feature_scale(time.C_own[0])
    left, turn = np.linalg.eigh(scale[:, None] * (time.C_own[0] - time.C[0, columns].T @ same) * scale)
    W = scale[:, None] * turn[:, left > REDUNDANT] / np.sqrt(left[left > REDUNDANT])
    to, back, own = time.to[0, columns] @ W, W.T @ time.back[0][:, columns], W.T @ time.own[0] @ W
    gone = np.array([solver.solve(c) for c in to.T]).reshape(-1, len(columns)).T
    beta = solved(own - back @ gone, -(W.T @ time.b[0]) - back @ plain.theta)
    start = W.T @ clock[0] - to.T @ plain.left
    late = solved((own - back @ gone).T, start)
    return Solution(
        np.r_[plain.theta - gone @ beta, W @ beta],
        np.r_[plain.left - solver.solve(back.T @ late, transposed=True), W @ late],
        plain.value + float(start @ beta),
        plain.bias,
        plain.rank + W.shape[1],
        np.r_[plain.missing, np.zeros(len(W))],
    )


class Traces(Protocol):
    """Multiplies by A = sum of z y' and by its transpose, where z are traces; groups are left out."""

    table: Any

    def times(self, table: Any, v: Floats | None, without: int | None = None) -> Floats:
        """A v, or b where there is no v; without a group where one is given."""

    def turned(self, table: Any, w: Floats) -> Floats:
        """A'w."""

    def own(self, square: Any) -> Floats:
        """Sums of rho x^2 by group, from a table of x^2."""


class _Traces:
    """Multiplies by A = sum of z y' and by its transpose; z is the trace of rho x, and no matrix is made.

    z_t = rho_t (x_t + decay_t z_{t-1}). So A v is the sum of x_t u_t with u_t = rho_t (y_t.v + decay_{t+1} u_{t+1}),
    backward, and A'w that of y_t s_t with s_t = rho_t (x_t.w + decay_t s_{t-1}), forward.
    """

    def __init__(self, record: Record, wide: Wide, decay: Floats, edges: Integers) -> None:
        self.edges, self.table = edges, wide.table
        self.rho, self.discount, self.reward = (
            np.ascontiguousarray(a, np.float64) for a in (record.rho, record.discount, record.reward)
        )
        self.row, self.next_row = (np.ascontiguousarray(a, np.int64) for a in (record.row, record.next_row))
        self.decay = np.r_[decay, 0.0]
        self.forth, self.back = engine.compiled(forth_maker), engine.compiled(back_maker)

    def times(self, table: Any, v: Floats | None, without: int | None = None) -> Floats:
        """A v, or b where there is no v; the steps of a group left out where one is given."""
        left_out = (0, 0) if without is None else (int(self.edges[without]), int(self.edges[without + 1]))
        out = np.zeros(table.shape[0])
        value = out if v is None else table @ v
        times = (1.0, 0.0) if v is None else (0.0, 1.0)
        steps = (self.row, self.next_row, self.reward, self.discount, self.rho, self.decay)
        self.back(value, steps, times, left_out, out)
        return np.asarray(out @ table)

    def turned(self, table: Any, w: Floats) -> Floats:
        """A'w."""
        out = np.zeros(table.shape[0])
        self.forth(table @ w, (self.row, self.next_row, self.discount, self.rho, self.decay), out)
        return np.asarray(out @ table)

    def own(self, square: Any) -> Floats:
        """Sums of rho x^2 by group."""
        parts, S = [slice(*edges) for edges in pairwise(self.edges)], square.shape[0]
        return np.array([np.bincount(self.row[p], self.rho[p], minlength=S) @ square for p in parts])


def _traced(sums: Sums, traced: Traces, wide: Wide, columns: Integers) -> Solution:
    """The same with traces; without a number where the Krylov method does not arrive."""
    n, starts = int(sums.pieces.sum()), sums.starts[:, columns]
    system = _System(sums, traced, columns)
    theta = system.solve(-system.right())
    left = system.solve(starts.sum(0) / n, turned=True)
    value, without = float(starts.sum(0) @ theta / n), []
    for g in range(len(starts)):
        found = system.solve(-system.right(g), without=g, guess=theta)
        without.append(float((starts.sum(0) - starts[g]) @ found / (n - int(sums.pieces[g]))))
    C = sums.C[columns][:, columns]
    missing = SparseSolver(C, C).solve(sums.missing[columns])
    return Solution(theta, left, value, _bias(without, value), rank(wide, columns, sums.visited), missing)


class _System:
    """Equations with traces, in units in which features have mean square one; a column that no ratio reaches stays 0.

    ``own`` are sums of rho x^2 by group of pieces: about the diagonal of -A.
    """

    def __init__(self, sums: Sums, traced: Traces, columns: Integers) -> None:
        self.traced, self.table = traced, traced.table[:, columns].tocsr()
        self.scale = feature_scale(sums.C[columns][:, columns])
        self.own = traced.own(self.table.multiply(self.table).tocsr()) * self.scale**2

    def right(self, without: int | None = None) -> Floats:
        """b, without a group where one is given."""
        return self.traced.times(self.table, None, without)

    def solve(self, c: Floats, turned: bool = False, without: int | None = None, guess: Floats | None = None) -> Floats:
        """The solution, without a group where one is given; NaN where it was not found."""
        from scipy.sparse.linalg import LinearOperator

        own = self.own.sum(0) - (0.0 if without is None else self.own[without])
        live = np.flatnonzero(own > 1e-12 * self.own.sum(0))
        scale, full = self.scale[live], np.zeros(len(c))

        def product(v: Floats) -> Floats:
            full[live] = scale * v
            found = self.traced.turned(self.table, full) if turned else self.traced.times(self.table, full, without)
            return np.asarray(scale * found[live])

        begin = None if guess is None else guess[live] / scale
        matrix = LinearOperator((len(live), len(live)), product, dtype=np.float64)
        found = krylov(matrix, scale * c[live], lambda v: -v / own[live], begin, CLOSE)
        if found is None:
            return np.full(len(c), np.nan)
        out = np.zeros(len(c))
        out[live] = scale * found
        return out


def run_forth(value: Floats, steps: Any, out: Floats) -> None:
    """s_t = rho_t (value of the row + decay_t s_{t-1}), added to the next row, discounted, and taken from the row."""
    row, next_row, discount, rho, decay = steps
    s = 0.0
    for t in range(row.shape[0]):
        s = rho[t] * (value[row[t]] + decay[t] * s)
        out[next_row[t]] += discount[t] * s
        out[row[t]] -= s


def run_back(value: Floats, steps: Any, times: Any, without: Any, out: Floats) -> None:
    """u_t = rho_t (e_t + decay_{t+1} u_{t+1}), added to its row; e_t is reward and y.v, each times a number."""
    row, next_row, reward, discount, rho, decay = steps
    u = 0.0
    for t in range(row.shape[0] - 1, -1, -1):
        e = 0.0
        if t < without[0] or t >= without[1]:
            if times[0] != 0.0:
                e = times[0] * reward[t]
            if times[1] != 0.0:
                e += times[1] * (discount[t] * value[next_row[t]] - value[row[t]])
        u = rho[t] * (e + decay[t + 1] * u)
        out[row[t]] += u


def forth_maker(fingerprint: str) -> Plain:
    def run(value: Floats, steps: Any, out: Floats) -> None:
        fingerprint  # noqa: B018 (part of the closure, and so of the key of the cache)
        run_forth(value, steps, out)

    return run


def back_maker(fingerprint: str) -> Plain:
    def run(value: Floats, steps: Any, times: Any, without: Any, out: Floats) -> None:
        fingerprint  # noqa: B018 (part of the closure, and so of the key of the cache)
        run_back(value, steps, times, without, out)

    return run
