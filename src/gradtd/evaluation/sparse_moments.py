"""Fits for cells (one-hot or aggregated states) from sparse sums. `fits` does the same from dense sums.

A row of the widest table has one entry for its cell, and one entry each for its state and its pair of states, if those
have a column. These sets are nested, so the rank is the number of smallest sets that contain a row. Sums have one entry
per pair of consecutive rows. With traces they would have far more, so a Krylov method solves those equations, which
only multiplies by the matrix: one forward or backward pass over the steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gradtd.compiled import engine
from gradtd.core.arrays import Floats, Integers
from gradtd.evaluation.designs.base import Ladder, Steps
from gradtd.evaluation.designs.log_features import since_start, time_rows
from gradtd.evaluation.estimators.solvers import SparseSolver, feature_scale, krylov
from gradtd.evaluation.fits import REDUNDANT, Equations, Solution, Solutions, jackknife_bias, solved
from gradtd.evaluation.step_blocks import MemoryBlocks, StepBlocks

CLOSE = 1e-10
"""Relative residual at which fits without a tenth of the pieces stop."""
ENTRIES = 2**19
"""Number of entries to buffer before they are added to a sparse matrix, or its number of entries if larger."""


@dataclass(frozen=True, eq=False)
class SparseMoments:
    """Sums by tenth: A (sparse), b and starts (tenths, D), and pieces. Sums over all steps: C, visits of rows, (1 -
    rho) x."""

    table: Any
    A: list[Any]
    b: Floats
    starts: Floats
    pieces: Integers
    C: Any
    missing: Floats
    visits: Integers

    @property
    def A_total(self) -> Any:
        return sum(self.A[1:], self.A[0])

    def dense(self, n: int) -> Equations:
        """The first n columns as dense sums."""
        A = np.array([a[:n][:, :n].toarray() for a in self.A])
        C = self.C[:n][:, :n].toarray()
        return Equations(A, self.b[:, :n], C, self.starts[:, :n], self.pieces.astype(np.float64), self.missing[:n])

    def columns(self, columns: Integers) -> tuple[Any, Any]:
        """A and C of a subset of the columns."""
        return self.A_total[columns][:, columns], self.C[columns][:, columns]


def read_sparse_moments(blocks: StepBlocks, table: Any) -> SparseMoments:
    """Read all steps once, without creating a matrix of all pairs of rows."""
    from scipy.sparse import diags_array

    S, G = table.shape[0], blocks.tenths
    A, b, starts, pieces = [], np.zeros((G, S)), np.zeros((G, S)), np.zeros(G, np.int64)
    visits, missing = np.zeros(S, np.int64), np.zeros(S)
    for g in range(G):
        pairs, own = _Pairs(S), np.zeros(S)
        for _, steps in blocks.of_tenths([g]):
            row, rho = steps.rows.row, np.asarray(steps.rho)
            pairs.add(row, steps.rows.next_row, rho * steps.discount)
            own += np.bincount(row, rho, minlength=S)
            b[g] += np.bincount(row, rho * steps.reward, minlength=S)
            starts[g] += np.bincount(steps.start_rows, minlength=S)
            pieces[g] += steps.n_pieces
            visits += np.bincount(row, minlength=S)
            missing += np.bincount(row, 1.0 - rho, minlength=S)
        A.append((table.T @ ((pairs.total() - diags_array(own)) @ table)).tocsr())
    C = (table.T @ (diags_array(visits.astype(np.float64)) @ table)).tocsr()
    return SparseMoments(table, A, b @ table, starts @ table, pieces, C, missing @ table, visits)


class _Pairs:
    """Sums by pair of rows. Entries are buffered, because adding two sparse matrices costs as much as their size."""

    def __init__(self, rows: int) -> None:
        from scipy.sparse import csr_array

        self._rows, self._count = rows, 0
        self._waiting: list[tuple[Any, Any, Any]] = []
        self._sum: Any = csr_array((rows, rows))

    def add(self, row: Any, column: Any, value: Any) -> None:
        self._waiting.append((value, row, column))
        self._count += len(row)
        if self._count >= max(ENTRIES, self._sum.nnz):
            self.total()

    def total(self) -> Any:
        from scipy.sparse import coo_array

        if self._waiting:
            value, row, column = (np.concatenate(arrays) for arrays in zip(*self._waiting, strict=True))
            made = coo_array((value, (row, column)), shape=(self._rows, self._rows)).tocsr()
            self._sum, self._waiting, self._count = self._sum + made, [], 0
        return self._sum


def solve_sparse(
    sums: SparseMoments, blocks: StepBlocks, ladder: Ladder, lam: float, clock: Floats, asked: bool
) -> Solutions:
    """Every fit that the checks compare. ``asked`` says that traces were requested."""
    own = Traces(blocks, sums, None) if asked else None
    plain = [
        _fit(name, sums, _Plain(sums, columns) if own is None else _Traced(sums, own, columns), columns)
        for name, columns in ladder.sets.items()
    ]
    headlines = [(name, ladder.rungs[name]) for name in ladder.headlines]
    other = Traces(blocks, sums, lam)
    traced = [_fit(name, sums, _Traced(sums, other, columns), columns) for name, columns in headlines]
    timed = []
    if clock.shape[1]:
        time, by_name = _read_time(blocks, sums, clock), {s.name: s for s in plain}
        timed = [_timed(sums, time, clock, by_name[name]) for name, _ in headlines]
    return Solutions(plain, traced, timed)


def _fit(name: str, sums: SparseMoments, system: _Plain | _Traced, columns: Integers) -> Solution:
    """`fits.solve` for sparse sums: the equations solved, and solved again without each tenth of the pieces."""
    starts, n = sums.starts[:, columns], int(sums.pieces.sum())
    total = starts.sum(0)
    theta, left = system.solve(-system.right()), system.solve(total / n, transposed=True)
    value = float(total @ theta / n)
    without = [
        float((total - starts[g]) @ system.solve(-system.right(g), without=g, guess=theta)) / (n - int(pieces))
        for g, pieces in enumerate(sums.pieces)
        if pieces < n
    ]
    C = sums.C[columns][:, columns]
    missing = SparseSolver(C, C).solve(sums.missing[columns])
    # If the Krylov method does not converge without a tenth, that tenth is ignored for the bias.
    bias = jackknife_bias(without, value) if np.isfinite(without).all() else np.nan
    return Solution(name, columns, theta, left, value, bias, rank(sums, columns), missing)


class _Plain:
    """The equations of a subset of the columns: sparse matrices, by tenth."""

    def __init__(self, sums: SparseMoments, columns: Integers) -> None:
        self.A, self.b = [a[columns][:, columns] for a in sums.A], sums.b[:, columns]
        self.total, self.C = sum(self.A[1:], self.A[0]), sums.C[columns][:, columns]
        self.solver = SparseSolver(self.total, self.C)

    def right(self, without: int | None = None) -> Floats:
        """b, optionally without a tenth."""
        return np.asarray(self.b.sum(0) - (0.0 if without is None else self.b[without]))

    def solve(
        self, c: Floats, transposed: bool = False, without: int | None = None, guess: Floats | None = None
    ) -> Floats:
        """The solution, optionally without a tenth."""
        if without is None:
            return self.solver.solve(c, transposed)
        return SparseSolver(self.total - self.A[without], self.C, exact=CLOSE).solve(c, guess=guess)


def rank(sums: SparseMoments, columns: Integers) -> int:
    """The rank of these columns over the visited rows: the number of smallest sets, which are the last columns."""
    part = sums.table[np.flatnonzero(sums.visits)][:, np.sort(columns)].tocsr()
    part.sort_indices()
    ends = part.indptr[1:][np.diff(part.indptr) > 0]
    return len(np.unique(part.indices[ends - 1]))


@dataclass(frozen=True, eq=False)
class _Time:
    """Sums that columns of the time add to those of the features, over all steps. See `Moments`."""

    to: Floats
    back: Floats
    own: Floats
    b: Floats
    C: Floats
    C_own: Floats


def _read_time(blocks: StepBlocks, sums: SparseMoments, clock: Floats) -> _Time:
    """Compute the sums of `_Time`. Sums by row of the table come first, because the features of a row are the same at
    all times."""
    S, K = sums.table.shape[0], clock.shape[1]
    to, back, of_C = np.zeros((K, S)), np.zeros((K, S)), np.zeros((K, S))
    own, b, C_own = np.zeros((K, K)), np.zeros(K), np.zeros((K, K))
    for _, steps in blocks.of_tenths():
        row, after = steps.rows.row, steps.rows.next_row
        rho, discount = np.asarray(steps.rho), np.asarray(steps.discount)
        time = time_rows(clock, since_start(steps.begins, 0, len(steps)), rho, discount)
        for k in range(K):
            to[k] += np.bincount(row, rho * time.y[:, k], minlength=S)
            back[k] += np.bincount(after, discount * time.z[:, k], minlength=S)
            back[k] -= np.bincount(row, time.z[:, k], minlength=S)
            of_C[k] += np.bincount(row, time.t[:, k], minlength=S)
        own += time.z.T @ time.y
        b += np.asarray(steps.reward) @ time.z
        C_own += time.t.T @ time.t
    return _Time((to @ sums.table).T, back @ sums.table, own, b, (of_C @ sums.table).T, C_own)


def _timed(sums: SparseMoments, time: _Time, clock: Floats, plain: Solution) -> Solution:
    """Add columns of the time. Eliminating the other equations leaves the equations of the time.

    Directions of the time within the span of the features are dropped. The jackknife bias is that of the features.
    """
    columns = plain.columns
    A, C = sums.columns(columns)
    solver, of_C = SparseSolver(A, C), SparseSolver(C, C)
    # Only the part of the time orthogonal to the features counts: its Schur complement in C, whitened (W).
    same = np.array([of_C.solve(c) for c in time.C[columns].T]).T
    scale = feature_scale(time.C_own)
    left, turn = np.linalg.eigh(scale[:, None] * (time.C_own - time.C[columns].T @ same) * scale)
    W = scale[:, None] * turn[:, left > REDUNDANT] / np.sqrt(left[left > REDUNDANT])
    to, back, own = time.to[columns] @ W, W.T @ time.back[:, columns], W.T @ time.own @ W
    gone = np.array([solver.solve(c) for c in to.T]).reshape(-1, len(columns)).T
    # Eliminate the features from the block equations [[A, to], [back, own]]: K small equations of the time are left.
    beta = solved(own - back @ gone, -(W.T @ time.b) - back @ plain.theta)
    start = W.T @ clock[0] - to.T @ plain.left
    late = solved((own - back @ gone).T, start)
    return plain._replace(
        theta=np.r_[plain.theta - gone @ beta, W @ beta],
        left=np.r_[plain.left - solver.solve(back.T @ late, transposed=True), W @ late],
        value=plain.value + float(start @ beta),
        rank=plain.rank + W.shape[1],
        missing=np.r_[plain.missing, np.zeros(len(W))],
    )


class Traces:
    """Multiplies vectors by A = sum of z y' and by its transpose, where z is the trace of rho x. No matrix is formed.

    z_t = rho_t (x_t + decay_t z_{t-1}). So A v is the sum of x_t u_t with u_t = rho_t (y_t.v + decay_{t+1} u_{t+1}),
    backward, and A'w that of y_t s_t with s_t = rho_t (x_t.w + decay_t s_{t-1}), forward.
    """

    def __init__(self, blocks: StepBlocks, sums: SparseMoments, lam: float | None) -> None:
        self.blocks, self.table, self.lam = blocks, sums.table, lam
        self._forth, self._back = engine.compile_function(run_forth), engine.compile_function(run_back)

    def _decay(self, steps: Steps) -> Floats:
        """The decay of every step for traces with ``lam``, or for the requested traces if ``lam`` is None."""
        if self.lam is None:
            assert steps.traced is not None
            return steps.traced.decay
        return steps.decay(self.lam)

    def times(self, table: Any, v: Floats | None, without: int | None = None) -> Floats:
        """A v, or b if v is None. ``without`` is a tenth to leave out."""
        out, last = np.zeros(table.shape[0]), np.zeros(1)
        value = out if v is None else table @ v
        factors = (1.0, 0.0) if v is None else (0.0, 1.0)
        # Last block first, since requested traces may continue across blocks.
        for read in self._blocks([g for g in reversed(range(self.blocks.tenths)) if g != without]):
            self._back(value, read, factors, out, last)
        return np.asarray(out @ table)

    def transposed(self, table: Any, w: Floats) -> Floats:
        """A'w."""
        out, value, last = np.zeros(table.shape[0]), table @ w, np.zeros(1)
        for read in self._blocks(range(self.blocks.tenths)):
            self._forth(value, read, out, last)
        return np.asarray(out @ table)

    def _blocks(self, tenths: Sequence[int]) -> Iterator[tuple[Any, ...]]:
        """The blocks of these tenths, in the form of the compiled loops."""
        if isinstance(self.blocks, MemoryBlocks):
            yield from (self._in_memory[g] for g in tenths)
        else:
            yield from (self._read(steps) for _, steps in self.blocks.of_tenths(tenths))

    @cached_property
    def _in_memory(self) -> list[tuple[Any, ...]]:
        return [self._read(steps) for _, steps in self.blocks.of_tenths()]

    def _read(self, steps: Steps) -> tuple[Any, ...]:
        rows = (np.ascontiguousarray(a, np.int64) for a in (steps.rows.row, steps.rows.next_row))
        numbers = (steps.reward, steps.discount, steps.rho, self._decay(steps))
        return *rows, *(np.ascontiguousarray(a, np.float64) for a in numbers)

    def own(self, square: Any) -> Floats:
        """Sums of rho x^2 by tenth, from a table of x^2."""
        S = square.shape[0]
        made = np.zeros((self.blocks.tenths, S))
        for g, steps in self.blocks.of_tenths():
            made[g] += np.bincount(steps.rows.row, steps.rho, minlength=S)
        return np.asarray(made @ square)


def solve_with_traces(sums: SparseMoments, blocks: StepBlocks, columns: Integers) -> Solution:
    """The requested value with traces."""
    return _fit("", sums, _Traced(sums, Traces(blocks, sums, None), columns), columns)


def left_with_traces(
    sums: SparseMoments, blocks: StepBlocks, columns: Integers, starts: Sequence[Floats]
) -> list[Floats]:
    """A^-T times each of the given mean start features, for A with traces."""
    traced = _Traced(sums, Traces(blocks, sums, None), columns)
    return [traced.solve(start, transposed=True) for start in starts]


class _Traced:
    """The equations with traces, with features scaled to mean square one. A column that has only zero ratios stays 0.

    ``own`` are sums of rho x^2 by tenth, approximately the diagonal of -A.
    """

    def __init__(self, sums: SparseMoments, traces: Traces, columns: Integers) -> None:
        self.traces, self.table = traces, traces.table[:, columns].tocsr()
        self.scale = feature_scale(sums.C[columns][:, columns])
        self.own = traces.own(self.table.multiply(self.table).tocsr()) * self.scale**2

    def right(self, without: int | None = None) -> Floats:
        """b, optionally without a tenth."""
        return self.traces.times(self.table, None, without)

    def solve(
        self, c: Floats, transposed: bool = False, without: int | None = None, guess: Floats | None = None
    ) -> Floats:
        """The solution, optionally without a tenth. NaN if the method did not converge."""
        from scipy.sparse.linalg import LinearOperator

        own = self.own.sum(0) - (0.0 if without is None else self.own[without])
        # A column that occurs only in the omitted tenth has an empty equation and keeps weight 0.
        live = np.flatnonzero(own > 1e-12 * self.own.sum(0))
        scale, full = self.scale[live], np.zeros(len(c))

        def product(v: Floats) -> Floats:
            full[live] = scale * v
            by = self.traces
            made = by.transposed(self.table, full) if transposed else by.times(self.table, full, without)
            return np.asarray(scale * made[live])

        begin = None if guess is None else guess[live] / scale
        matrix = LinearOperator((len(live), len(live)), product, dtype=np.float64)
        arrived = krylov(matrix, scale * c[live], lambda v: -v / own[live], begin, CLOSE)
        if arrived is None:
            return np.full(len(c), np.nan)
        out = np.zeros(len(c))
        out[live] = scale * arrived
        return out


def run_forth(value: Floats, steps: Any, out: Floats, last: Floats) -> None:
    """Compute s_t = rho_t (value of the row + decay_t s_{t-1}). Its discounted value is added to the next row, and s_t
    is subtracted from the row."""
    row, next_row, _, discount, rho, decay = steps
    s = last[0]
    for t in range(row.shape[0]):
        s = rho[t] * (value[row[t]] + decay[t] * s)
        out[next_row[t]] += discount[t] * s
        out[row[t]] -= s
    last[0] = s


def run_back(value: Floats, steps: Any, factors: Any, out: Floats, last: Floats) -> None:
    """Compute u_t = rho_t (e_t + decay_{t+1} u_{t+1}) and add it to its row. e_t is the sum of reward and y.v, each
    times a factor.

    ``last`` holds decay u of the step after the last one.
    """
    row, next_row, reward, discount, rho, decay = steps
    carried = last[0]
    for t in range(row.shape[0] - 1, -1, -1):
        e = factors[0] * reward[t]
        if factors[1] != 0.0:
            e += factors[1] * (discount[t] * value[next_row[t]] - value[row[t]])
        u = rho[t] * (e + carried)
        out[row[t]] += u
        carried = decay[t] * u
    last[0] = carried
