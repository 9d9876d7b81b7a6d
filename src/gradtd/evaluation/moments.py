"""Sums over a log for many fits at once: over the widest table, by groups of pieces. Each fit selects its columns.

With x the features of a step, y = discount x_next - x and z the trace of rho x (z = rho x if lambda is 0): A = sum of z
y', b = sum of z r, C = sum of x x'. Reading the log once for the widest table costs O(n D^2). Every fit on some of the
columns then takes O(d^3) without reading the log. Sums of chunks and of parts can be added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gradtd.compiled import engine
from gradtd.core.arrays import Floats, Integers
from gradtd.core.executors import ThreadExecutor
from gradtd.evaluation.designs.base import CHUNK, RHO, Ladder, Steps, read_chunks
from gradtd.evaluation.designs.log_features import since_start
from gradtd.evaluation.estimators.products import cross, rows_at

TENTHS = 10
"""Number of groups that the jackknife leaves out one at a time."""
FEW_ROWS = 4
"""If the table has less than one row per this number of steps, pairs of rows are counted first."""
BY_GROUP = ("products", "starts", "pieces", "behaviour")
"""Names of the sums by group; the other sums are over all steps."""


class Shape(NamedTuple):
    """Numbers of columns: of the widest table (D), of the headlines (n), and of the time (K)."""

    wide: int
    narrow: int
    times: int

    @property
    def left(self) -> int:
        """Columns of the left factor: rho x or the requested trace (D), other traces (n), a weight, rho t (K)."""
        return self.wide + self.narrow + 1 + self.times

    @property
    def right(self) -> int:
        """Columns of the right factor: y = discount x_next - x (D), the reward, discount t_next - t (K)."""
        return self.wide + 1 + self.times


def shape_of(ladder: Ladder, clock: Floats) -> Shape:
    return Shape(ladder.n_columns, ladder.n_headline_columns, clock.shape[1])


@dataclass(eq=False)
class Moments:
    """Sums by group (the first axis of the first four), then sums over all steps.

    ``products`` is the sum of left'right, with the columns of `Shape`. One matrix product per run of steps contains all
    equations, and properties return its parts. ``behaviour`` = sum of x (y, r)' of the headlines' columns, the
    equations of the behaviour policy, whose ratios are 1. ``missing`` = sum of (1 - rho) x. ``marginal`` = sum of rho^2
    x x'; ``marginal_episodes`` is the same for each episode's sum of rho x.
    """

    products: Floats
    starts: Floats
    pieces: Floats
    behaviour: Floats
    C: Floats
    x: Floats
    missing: Floats
    time_C: Floats
    time_own: Floats
    time_missing: Floats
    marginal: Floats
    marginal_episodes: Floats
    marginal_sum: Floats

    @classmethod
    def zeros(cls, groups: int, shape: Shape) -> Moments:
        """Sums of zero steps."""
        G, (D, n, K) = groups, shape
        by_group = ((G, shape.left, shape.right), (G, D), (G,), (G, n, n + 1))
        of_all = ((D, D), (D,), (D,), (n, K), (K, K), (K,), (n, n), (n, n), (n,))
        return cls(*map(np.zeros, (*by_group, *of_all)))

    @property
    def shape(self) -> Shape:
        return Shape(len(self.x), len(self.marginal_sum), len(self.time_missing))

    @property
    def A(self) -> Floats:
        D = len(self.x)
        return self.products[:, :D, :D]

    @property
    def b(self) -> Floats:
        D = len(self.x)
        return self.products[:, :D, D]

    @property
    def traced_A(self) -> Floats:
        """A of the headlines' columns with other traces."""
        D, n, _ = self.shape
        return self.products[:, D : D + n, :n]

    @property
    def traced_b(self) -> Floats:
        D, n, _ = self.shape
        return self.products[:, D : D + n, D]

    @property
    def robust(self) -> Floats:
        """Sum of w (y, r), where w are the products of ratios of the doubly robust estimate."""
        D, n, _ = self.shape
        return self.products[:, D + n, : D + 1]

    @property
    def to(self) -> Floats:
        """Sum of rho x y_t', with t columns of the time."""
        D, n, _ = self.shape
        return self.products[:, :n, D + 1 :]

    @property
    def back(self) -> Floats:
        """Sum of rho t y_x'."""
        D, n, _ = self.shape
        return self.products[:, D + n + 1 :, :n]

    @property
    def own(self) -> Floats:
        """Sum of rho t y_t'."""
        D, n, _ = self.shape
        return self.products[:, D + n + 1 :, D + 1 :]

    @property
    def time_b(self) -> Floats:
        D, n, _ = self.shape
        return self.products[:, D + n + 1 :, D]

    def arrays(self) -> dict[str, Floats]:
        """All sums by name."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    def add(self, other: Moments) -> None:
        """Add the sums of other steps, by the same groups."""
        for name, array in other.arrays().items():
            getattr(self, name).__iadd__(array)

    def add_totals(self, other: Moments) -> None:
        """Add only the sums that are not by group."""
        for name, array in other.arrays().items():
            if name not in BY_GROUP:
                getattr(self, name).__iadd__(array)

    def tenths(self) -> Moments:
        """The same sums by tenths of the groups. If there are fewer than ten groups, each is one part."""
        first = group_edges(len(self.pieces))[:-1]
        if len(first) == len(self.pieces):
            return self
        return replace(self, **{name: np.add.reduceat(getattr(self, name), first) for name in BY_GROUP})


def group_edges(n: int) -> Integers:
    """The first of n pieces in each tenth, followed by n."""
    return np.linspace(0, n, min(TENTHS, n) + 1).round().astype(np.int64)


def tenth_of(n: int) -> Integers:
    """The tenth of each of n neighbouring pieces."""
    edges = group_edges(n)
    return np.repeat(np.arange(len(edges) - 1), np.diff(edges))


def read_moments(
    total: Moments, steps: Steps, group: Integers, lam: float, clock: Floats, weights: Floats | None = None
) -> None:
    """Add the steps of a chunk. ``group`` is the group of every piece. Pieces of one group must be adjacent.

    With ``weights``, the products of ratios, it also adds the sums of the doubly robust estimate and of marginal
    weights, which are needed if no second pass over the log follows.
    """
    edges = np.r_[0, np.flatnonzero(np.diff(group)) + 1, len(group)]
    # Tenths of a log in memory are read on several threads. Many short runs, such as hashed groups, are read in one
    # pass.
    runs = list(pairwise(edges.tolist())) if len(edges) <= TENTHS + 1 else [(0, len(group))]
    reader = _Reader(total, steps, group, lam, clock, weights)
    # Traces that continue across blocks need the steps in order.
    pool = ThreadExecutor(steps.threads if steps.traced is None else 1)
    done = dict(pool.each(reader.read, runs))
    for number in range(len(runs)):
        total.add_totals(done[number])
    if reader.counted:
        _count_rows(total, steps, group, edges)
    np.add.at(total.pieces, group, 1.0)
    at, rows = steps.start_rows, steps.rows
    for begin in range(0, len(at), CHUNK):  # in chunks, because the rows may take more memory than the log
        some = slice(begin, begin + CHUNK)
        new = np.flatnonzero(np.r_[True, np.diff(group[some]) != 0])
        np.add.at(total.starts, group[some][new], np.add.reduceat(rows.at(at[some]), new))  # a group may occur again


class _Reader:
    """Adds runs of pieces to its own totals and to the sums of their groups, which no other run changes."""

    def __init__(
        self, total: Moments, steps: Steps, group: Integers, lam: float, clock: Floats, weights: Floats | None
    ) -> None:
        self.total, self.steps, self.group = total, steps, group
        self.lam, self.clock, self.weights = lam, clock, weights
        self.shape = total.shape
        few = steps.rows.table is not None and FEW_ROWS * steps.rows.n_rows < len(steps)
        self.counted = few and steps.traced is None and weights is None
        # Pairs have no ratios: the behaviour's value comes from returns, which are in ``robust``.
        self.behaviour = weights is not None and steps.rows.starts is None
        self.ones = self.behaviour and steps.traced is None and bool((steps.rho == 1).all())
        self.last_trace = np.zeros(0 if steps.traced is None else self.shape.wide)
        self.fill = engine.compile_function(fill_rows)

    def read(self, run: tuple[int, int]) -> Moments:
        """The totals of the pieces from the first to the last. Products are also added to the sums of their groups."""
        steps, begins, (_, n, K) = self.steps, self.steps.begins, self.shape
        part = slice(int(begins[run[0]]), int(begins[run[1]]))
        made = Moments.zeros(0, self.shape)
        of_piece = np.zeros((0 if self.weights is None else run[1] - run[0], n))
        wide = n if self.counted else self.shape.wide
        narrow = Shape(wide, n, K)
        most = min(CHUNK, part.stop - part.start)
        scratch, trace = [np.empty((most, width)) for width in (narrow.left, narrow.right, K)], np.zeros(n)
        for start, feats, here, there, numbers in read_chunks(steps, part, self.lam, self.weights):
            left, right, time = (array[: len(here)] for array in scratch)
            at = np.array([here, there, since_start(begins, start, start + len(here))])
            self.fill(feats, at, numbers, self.clock, (trace, self.last_trace), wide, (left, right, time))
            x, missing = rows_at(feats[:, :wide] if self.counted else feats, here), 1.0 - numbers[RHO]
            made.time_C += x[:, :n].T @ time
            made.time_own += time.T @ time
            made.time_missing += missing @ time
            for g, a, b in _runs(begins, self.group, start, start + len(here)):
                products = cross(left[a:b], right[a:b])
                self._add(g, products)
                if self.behaviour:
                    own = self.total.behaviour[g]
                    own[:, :n] += products[:n, :n] if self.ones else cross(x[a:b, :n], right[a:b, :n])
                    own[:, n] += right[a:b, wide] @ x[a:b, :n]
            if self.counted:
                continue
            made.C += cross(x, x)
            made.x += x.sum(axis=0)
            made.missing += missing @ x
            if self.weights is not None:
                weighted = np.ascontiguousarray(left[:, :n])
                made.marginal += cross(weighted, weighted)
                first, cuts = _pieces_in(begins, start, start + len(here))
                # A piece may begin in the previous chunk, so add to its sums.
                of_piece[first - run[0] : first - run[0] + len(cuts)] += np.add.reduceat(weighted, cuts)
        made.marginal_episodes += of_piece.T @ of_piece
        made.marginal_sum += of_piece.sum(axis=0)
        return made

    def _add(self, g: int, products: Floats) -> None:
        """Add the products of a run of steps of one group."""
        if not self.counted:
            self.total.products[g] += products
            return
        # Rows were counted for A and b, and only the headlines' columns were multiplied.
        D, n, _ = self.shape
        total = self.total.products[g]
        total[D:, :n] += products[n:, :n]
        total[D:, D:] += products[n:, n:]
        total[:n, D + 1 :] += products[:n, n + 1 :]


def _pieces_in(begins: Integers, start: int, stop: int) -> tuple[int, Integers]:
    """The first piece that contains one of these steps, and where the pieces begin among them."""
    first = int(np.searchsorted(begins, start, "right")) - 1
    last = int(np.searchsorted(begins, stop, "left"))
    return first, (begins[first:last] - start).clip(min=0)


def _runs(begins: Integers, group: Integers, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Runs of steps of one group: the group, the first step and the end, counted from ``start``.

    >>> list(_runs(np.array([0, 100, 300, 1400]), np.array([7, 7, 1]), 50, 400))
    [(7, 0, 250), (1, 250, 350)]
    """
    first, cuts = _pieces_in(begins, start, stop)
    here = group[first : first + len(cuts)]
    new = np.flatnonzero(np.r_[True, here[1:] != here[:-1]])
    edges = [*cuts[new].tolist(), stop - start]
    yield from zip(here[new].tolist(), edges[:-1], edges[1:], strict=True)


def _count_rows(total: Moments, steps: Steps, group: Integers, edges: Integers) -> None:
    """A, b, C and missing from transition counts between rows: if rows recur, the time does not grow with the log."""
    from scipy.sparse import coo_array

    rows = steps.rows
    table, S = rows.table, rows.n_rows
    for first, last in pairwise(edges.tolist()):
        part = slice(int(steps.begins[first]), int(steps.begins[last]))
        row, rho, g = rows.row[part], steps.rho[part], group[first]
        # The sum of rho x (discount x_next)' is table' P table, with P the weights by pair of rows.
        pairs = coo_array((rho * steps.discount[part], (row, rows.next_row[part])), shape=(S, S)).tocsr()
        own = np.bincount(row, rho, minlength=S)
        total.A[g] += table.T @ (pairs @ table - own[:, None] * table)
        total.b[g] += np.bincount(row, rho * steps.reward[part], minlength=S) @ table
    visits = np.bincount(rows.row, minlength=S)
    total.missing += np.bincount(rows.row, 1.0 - steps.rho, minlength=S) @ table
    total.C += (table * visits[:, None]).T @ table
    total.x += visits @ table


def fill_rows(
    feats: Floats,
    at: Integers,
    numbers: Floats,
    clock: Floats,
    traces: tuple[Floats, Floats],
    wide: int,
    written: tuple[Floats, Floats, Floats],
) -> None:
    """The factors of every step, with the columns of `Shape`, and its columns of the time.

    ``at`` holds the row, the next row and the number of steps since the piece began, for every step; the time is capped
    at its last value. A trace is rho_t (x_t + decay_t z_{t-1}); the last one is kept in the first of ``traces``. If the
    second has columns, the first columns are also traces, with the decay of the requested traces. The left factor, the
    right factor and the columns of the time are ``written``.
    """
    (trace, last_trace), (left, right, time) = traces, written
    narrow, last = trace.shape[0], clock.shape[0] - 1
    for i in range(right.shape[0]):
        a, b = at[0, i], at[1, i]
        rho, discount, decay = numbers[0, i], numbers[1, i], numbers[3, i]
        for k in range(wide):
            right[i, k] = discount * feats[b, k] - feats[a, k]
            left[i, k] = rho * feats[a, k]
        for k in range(last_trace.shape[0]):
            last_trace[k] = rho * (feats[a, k] + numbers[5, i] * last_trace[k])
            left[i, k] = last_trace[k]
        if decay == 0.0:  # the previous piece's trace may be infinite, and 0 times infinity is NaN
            trace[:] = 0.0
        for k in range(narrow):
            trace[k] = rho * (feats[a, k] + decay * trace[k])
            left[i, wide + k] = trace[k]
        right[i, wide] = numbers[2, i]
        left[i, wide + narrow] = numbers[4, i]
        now, then = min(at[2, i], last), min(at[2, i] + 1, last)
        for k in range(clock.shape[1]):
            time[i, k] = clock[now, k]
            left[i, wide + narrow + 1 + k] = rho * clock[now, k]
            right[i, wide + 1 + k] = discount * clock[then, k] - clock[now, k]
