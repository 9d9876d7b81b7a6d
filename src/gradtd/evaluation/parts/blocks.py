"""Steps of a chunk, a block at a time: rows whose products are the sums of a log.

A block stays in the processor's second cache. Its rows are written once, by compiled code, in the order in which BLAS
reads them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gradtd.compiled import engine
from gradtd.core.arrays import Floats, Integers, Plain
from gradtd.evaluation.parts.job import Job
from gradtd.evaluation.trust.records import Record, Wide

BLOCK = 512
"""Steps of a block, at most."""
RHO, DISCOUNT, REWARD, WEIGHT, DECAY = range(5)
AHEAD, PIECE, SINCE = range(3)


class Layout(NamedTuple):
    """Columns of the rows of a step.

    ``left``: rho x of all D features, traces of the ``narrow`` first ones, the weight of doubly robust, rho t of the
    ``times`` columns of the time. ``right``: discount x_next - x, the reward, discount t_next - t. ``own``: x, t, 1,
    1 - rho.
    """

    D: int
    narrow: int
    times: int

    @property
    def left(self) -> int:
        return self.D + self.narrow + 1 + self.times

    @property
    def right(self) -> int:
        return self.D + 1 + self.times

    @property
    def own(self) -> int:
        return self.D + self.times + 2


class Block(NamedTuple):
    """Rows of some steps, their edges by group, counted from the first, and these groups."""

    left: Floats
    right: Floats
    own: Floats
    edges: list[int]
    groups: list[int]


class Blocks:
    """Makes the blocks of chunks of a log, in the same room for all of them."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.layout = layout = layout_of(job)
        self._left = np.zeros((BLOCK + 1, layout.left))  # before the first row that of the step before
        self._right, self._own = np.empty((BLOCK, layout.right)), np.empty((BLOCK + 1, layout.own))
        self._write, self._fill = job.wide.writer(), engine.compiled(_filler)

    def of(self, record: Record, wide: Wide, weights: Floats, group: Integers, piece_sums: Floats) -> Iterator[Block]:
        """Blocks of some episodes; adds rho x of the first columns by piece. ``group`` is that of every piece."""
        n, fill = len(record), self._fill
        steps, numbers = steps_of(record, wide.n_rows), numbers_of(record, weights, self.job.lam)
        beyond = self.rows(wide, np.arange(n, wide.n_rows))
        for edges, groups in _cut(record.begins, group):
            a, b = edges[0], edges[-1]
            rows, last = b - a, min(b + 1, n)
            self._put(wide, slice(a, last), self._own[: last - a])
            left, right, own = self._left[: rows + 1], self._right[:rows], self._own
            fill(own, beyond, steps[:, a:b], numbers[:, a:b], self.job.clock, piece_sums, left, right)
            yield Block(left[1:], right, own[:rows], [edge - a for edge in edges], groups)
            left[0] = left[rows]

    def rows(self, wide: Wide, index: Integers) -> Floats:
        """These rows of the widest table."""
        out = np.empty((len(index), self.layout.D))
        self._put(wide, index, out)
        return out

    def _put(self, wide: Wide, index: Any, out: Floats) -> None:
        self._write(None if wide.base is None else wide.base[index], wide.observations[index], out)


def layout_of(job: Job) -> Layout:
    return Layout(job.wide.n_columns, job.wide.n_headline_columns, job.clock.shape[1])


def steps_of(record: Record, n_rows: int) -> Integers:
    """For every step its next row, its piece, and the steps since that began.

    The next row is 0 for the row of the step, 1 for the one behind it, and -1 - j for row j behind those of the steps.
    """
    n, lengths = len(record), np.diff(record.begins)
    found = np.empty((3, n), np.int64)
    number = np.arange(n)
    np.subtract(record.next_row, number, out=found[AHEAD], casting="unsafe")
    if n_rows > n:
        elsewhere = np.flatnonzero(np.asarray(record.next_row) >= n)
        found[AHEAD, elsewhere] = n - 1 - np.asarray(record.next_row)[elsewhere].astype(np.int64)
    found[PIECE] = np.repeat(np.arange(len(lengths)), lengths)
    np.subtract(number, np.repeat(record.begins[:-1], lengths), out=found[SINCE])
    return found


def numbers_of(record: Record, weights: Floats, lam: float) -> Floats:
    """Ratio, discount, reward, weight and decay of the trace of every step."""
    numbers = np.empty((5, len(record)))
    numbers[RHO], numbers[DISCOUNT], numbers[REWARD] = record.rho, record.discount, record.reward
    numbers[WEIGHT] = weights
    np.multiply(lam, numbers[DISCOUNT, :-1], out=numbers[DECAY, 1:])
    numbers[DECAY, record.begins[:-1]] = 0.0
    return numbers


def _cut(begins: Integers, group: Integers) -> Iterator[tuple[list[int], list[int]]]:
    """Edges of runs of one group, as many runs as fit into a block, and the groups; a longer run is cut.

    >>> [e for e, _ in _cut(np.array([0, 100, 300, 500, 600, 1200]), np.array([7, 7, 1, 2, 3]))]
    [[0, 300, 500], [500, 600], [600, 1112], [1112, 1200]]
    """
    first = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    edges, groups = np.r_[begins[first], begins[-1]], group[first]
    if (np.diff(edges) > BLOCK).any():
        count = -(-np.diff(edges) // BLOCK)
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        edges, groups = np.r_[np.repeat(edges[:-1], count) + BLOCK * within, edges[-1]], np.repeat(groups, count)
    at, of = edges.tolist(), groups.tolist()
    begin = 0
    while begin < len(of):
        end = bisect_right(at, at[begin] + BLOCK) - 1
        yield at[begin : end + 1], of[begin:end]
        begin = end


def fill_block(
    own: Floats,
    beyond: Floats,
    steps: Integers,
    numbers: Floats,
    clock: Floats,
    piece_sums: Floats,
    left: Floats,
    right: Floats,
) -> None:
    """The rows of steps, as `Layout` has them; the features of the steps are in ``own`` already.

    The first row of ``left`` is that of the step before, whose trace goes on.
    """
    times, narrow = clock.shape[1], piece_sums.shape[1]
    D, last = right.shape[1] - 1 - times, clock.shape[0] - 1
    for i in range(right.shape[0]):
        rho, discount, decay = numbers[0, i], numbers[1, i], numbers[4, i]
        ahead, piece, since = steps[0, i], steps[1, i], steps[2, i]
        if ahead >= 0:
            for k in range(D):
                right[i, k] = discount * own[i + ahead, k] - own[i, k]
        else:
            for k in range(D):
                right[i, k] = discount * beyond[-1 - ahead, k] - own[i, k]
        for k in range(D):
            left[i + 1, k] = rho * own[i, k]
        for k in range(narrow):
            piece_sums[piece, k] += rho * own[i, k]
        if decay == 0.0:  # the trace before may be infinite
            for k in range(narrow):
                left[i + 1, D + k] = rho * own[i, k]
        else:
            for k in range(narrow):
                left[i + 1, D + k] = rho * (own[i, k] + decay * left[i, D + k])
        right[i, D], left[i + 1, D + narrow] = numbers[2, i], numbers[3, i]
        now, after = min(since, last), min(since + 1, last)
        for k in range(times):
            right[i, D + 1 + k] = discount * clock[after, k] - clock[now, k]
            left[i + 1, D + narrow + 1 + k] = rho * clock[now, k]
            own[i, D + k] = clock[now, k]
        own[i, D + times], own[i, D + times + 1] = 1.0, 1.0 - rho


def _filler(fingerprint: str) -> Plain:
    def run(
        own: Floats,
        beyond: Floats,
        steps: Integers,
        numbers: Floats,
        clock: Floats,
        piece_sums: Floats,
        left: Floats,
        right: Floats,
    ) -> None:
        fingerprint  # noqa: B018 (part of the closure, and so of the key of the cache)
        fill_block(own, beyond, steps, numbers, clock, piece_sums, left, right)

    return run
