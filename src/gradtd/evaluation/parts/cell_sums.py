"""Sums of a log with many states, read again and again from its steps: no matrix of all pairs of states is made."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradtd.compiled import engine
from gradtd.core.arrays import Floats
from gradtd.evaluation.parts.step_file import Block, StepFile
from gradtd.evaluation.trust.cells import Sums, back_maker, forth_maker, trace_decay
from gradtd.evaluation.trust.clock import TimeSums, since_start
from gradtd.evaluation.trust.fits import SUMS, Seen, Solved, looked_up, seen_of, step_adder
from gradtd.evaluation.trust.moments import count_time
from gradtd.evaluation.trust.reading import Reader
from gradtd.evaluation.trust.records import Wide
from gradtd.evaluation.trust.robust import products

ENTRIES = 2**19
"""Entries that wait before they are added to a sparse matrix; as many as it has where those are more."""


class _Pairs:
    """The sum of numbers by pair of rows."""

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


def cell_sums(steps: StepFile, wide: Wide) -> Sums:
    """The sums of `gradtd.evaluation.trust.cells`, by tenths of the episodes."""
    from scipy.sparse import diags_array

    table: Any = wide.table
    S, G = table.shape[0], steps.tenths
    A, b, starts, pieces = [], np.zeros((G, S)), np.zeros((G, S)), np.zeros(G, np.int64)
    visits, missing = np.zeros(S, np.int64), np.zeros(S)
    for g in range(G):
        pairs, own = _Pairs(S), np.zeros(S)
        for _, block in steps.blocks([g]):
            rho = block.rho
            pairs.add(block.row, block.next_row, rho * block.discount)
            own += np.bincount(block.row, rho, minlength=S)
            b[g] += np.bincount(block.row, rho * block.reward, minlength=S)
            starts[g] += np.bincount(block.starts, minlength=S)
            pieces[g] += len(block.group)
            visits += np.bincount(block.row, minlength=S)
            missing += np.bincount(block.row, 1.0 - rho, minlength=S)
        A.append((table.T @ ((pairs.total() - diags_array(own)) @ table)).tocsr())
    C = (table.T @ (diags_array(visits.astype(np.float64)) @ table)).tocsr()
    return Sums(A, b @ table, starts @ table, pieces, C, missing @ table, visits > 0)


def time_of(steps: StepFile, wide: Wide, clock: Floats) -> TimeSums:
    """Sums of columns of the time since the start, of all episodes."""
    time = TimeSums.nothing(1, wide.n_columns, clock)
    for _, block in steps.blocks():
        count_time(block.record, wide.table, np.array([0, len(block.group)]), time, clock)
    return time


class StoredTraces:
    """Multiplies by A = sum of z y' and by its transpose, as `gradtd.evaluation.trust.cells.Traces` says."""

    def __init__(self, steps: StepFile, wide: Wide, lam: float) -> None:
        self.steps, self.table, self.lam = steps, wide.table, lam
        self._forth, self._back = engine.compiled(forth_maker), engine.compiled(back_maker)

    def _decay(self, block: Block) -> Floats:
        return np.append(trace_decay(block.record, self.lam), 0.0)

    def times(self, table: Any, v: Floats | None, without: int | None = None) -> Floats:
        """A v, or b where there is no v; without a tenth where one is given."""
        out = np.zeros(table.shape[0])
        value = out if v is None else table @ v
        factors = (1.0, 0.0) if v is None else (0.0, 1.0)
        for _, one in self.steps.blocks([g for g in range(self.steps.tenths) if g != without]):
            read = (one.row, one.next_row, one.reward, one.discount, one.rho, self._decay(one))
            self._back(value, read, factors, (0, 0), out)
        return np.asarray(out @ table)

    def turned(self, table: Any, w: Floats) -> Floats:
        """A'w."""
        out, value = np.zeros(table.shape[0]), table @ w
        for _, one in self.steps.blocks():
            self._forth(value, (one.row, one.next_row, one.discount, one.rho, self._decay(one)), out)
        return np.asarray(out @ table)

    def own(self, square: Any) -> Floats:
        """Sums of rho x^2 by tenth."""
        S = square.shape[0]
        found = np.zeros((self.steps.tenths, S))
        for g, block in self.steps.blocks():
            found[g] += np.bincount(block.row, block.rho, minlength=S)
        return np.asarray(found @ square)


class Looking(NamedTuple):
    """What the fits are looked at with: how many have no traces, the lambda of the others, the time, groups."""

    plain: int
    lam: float
    clock: Floats | None
    groups: int


def look(steps: StepFile, wide: Wide, solved: list[Solved], how: Looking) -> Seen:
    """What the fits make of the log, summed by group of episodes; doubly robust by every plain fit with it."""
    _, of_time, stored = looked_up(wide, solved, how.clock)
    k, timed = len(solved), of_time.shape[1] // 3
    by_group, by_fit, add = np.zeros((how.groups, 3, k)), np.zeros((SUMS, k)), engine.compiled(step_adder)
    for _, block in steps.blocks():
        record, by_piece = block.record, np.zeros((len(block.group), 3, k))
        numbers = Reader(record, wide, how.lam, products(record)).numbers(slice(0, block.steps))
        at = np.array([block.row, block.next_row, since_start(block.begins, 0, block.steps)])
        by_fit[3] = 0.0
        add(stored, of_time, at, numbers, block.begins, how.plain, by_piece, by_fit)
        by_piece[:, 0] = stored[block.starts, :k]
        by_piece[:, 0, k - timed :] += of_time[0, :timed]
        np.add.at(by_group, block.group, by_piece)
    return seen_of(by_group, by_fit, steps.steps)


class Weighed(NamedTuple):
    """Sums of marginal weights and of their squares over steps, of squares by episode; starts and next rows by row."""

    total: float
    squares: float
    by_episode: float
    starts: Floats
    after: Floats


def weigh(steps: StepFile, along: Floats) -> Weighed:
    """Marginal weights rho x.left, with x.left by row."""
    found, starts, after = np.zeros(3), np.zeros(len(along)), np.zeros(len(along))
    for _, block in steps.blocks():
        weights = block.rho * along[block.row]
        found += [weights.sum(), weights @ weights, (np.add.reduceat(weights, block.begins[:-1]) ** 2).sum()]
        starts += np.bincount(block.starts, minlength=len(along))
        after += np.bincount(block.next_row, minlength=len(along))
    return Weighed(float(found[0]), float(found[1]), float(found[2]), starts, after)
