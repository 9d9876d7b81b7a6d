"""Steps of a chunk, a piece at a time: rows whose products are the sums of a log.

Features of a piece are written first. Then compiled code makes the rows of some hundred steps, multiplies them while
they are in the processor's nearest caches, and writes the next ones over them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradtd.compiled import engine
from gradtd.compiled.prefetch import prefetch_row
from gradtd.compiled.tiles import ACROSS, DOWN, add_product, add_square, room_for
from gradtd.core.arrays import Floats, Integers, Plain
from gradtd.evaluation.parts.job import Job
from gradtd.evaluation.trust.records import Record, Wide

PIECE_ROWS = 2048
"""Steps whose features are written at a time: few enough to stay in a cache, enough to call compiled code seldom."""
BLOCK, ENOUGH = 128, 64
"""Steps whose rows are multiplied at a time, at most, and from which on a block may end with its episode."""
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


class Steps(NamedTuple):
    """Steps of a chunk, where its pieces begin and their groups, and what the rows of all steps need."""

    next_row: Any
    rho: Floats
    discount: Floats
    reward: Floats
    weight: Floats
    begins: Integers
    group: Integers
    clock: Floats
    lam: float


class Rows(NamedTuple):
    """Room for the rows of a block; before the first of ``left`` is that of the step before it."""

    left: Floats
    right: Floats
    tile: Floats


class Added(NamedTuple):
    """What steps are added to: products and first x by group, squares of all, rho x by piece. Squares are half ones."""

    products: Floats
    own: Floats
    marginal: Floats
    pieces: Floats
    starts: Floats


class Blocks:
    """Adds the steps of chunks of a log, in the same room for all of them."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.layout = layout = layout_of(job)
        self._rows = Rows(room_for(BLOCK + 1, layout.left), room_for(BLOCK, layout.right), np.zeros((DOWN, ACROSS)))
        self._own = room_for(PIECE_ROWS + 1, layout.own)
        self._write, self._add = job.wide.writer(), engine.compiled(_adder)

    def add(self, record: Record, wide: Wide, weights: Floats, group: Integers, arrays: dict[str, Floats]) -> None:
        """Add the steps of some episodes to the sums of a part. ``group`` is that of every piece."""
        n, narrow, job = len(record), self.layout.narrow, self.job
        rho, discount, reward, clock = map(
            np.ascontiguousarray, (record.rho, record.discount, record.reward, job.clock)
        )
        steps = Steps(record.next_row, rho, discount, reward, weights, record.begins, group, clock, job.lam)
        own, marginal = np.zeros_like(arrays["own"]), np.zeros_like(arrays["marginal"])
        pieces = np.zeros((record.n_pieces, narrow))
        added = Added(arrays["products"], own, marginal, pieces, arrays["starts"])
        beyond = self.rows(wide, np.arange(n, wide.n_rows))
        for first in range(0, n, PIECE_ROWS):
            last = min(first + PIECE_ROWS, n)
            seen = slice(first, min(last + 1, n))
            self._put(wide, seen, self._own[: seen.stop - first])
            self._add(steps, first, last, self._own, beyond, self._rows, added)
        for name, square in (("own", own), ("marginal", marginal)):
            arrays[name] += np.tril(square) + np.tril(square, -1).T
        arrays["marginal_episodes"] += pieces.T @ pieces
        arrays["marginal_sum"] += pieces.sum(axis=0)

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


def add_steps(steps: Any, first: int, last: int, own: Floats, beyond: Floats, rows: Any, added: Any) -> None:
    """Add some steps, whose features, and those of the step behind them, are in ``own``."""
    begins, group, left = steps.begins, steps.group, rows.left[1:]
    piece: Any = np.searchsorted(begins, first, "right") - 1
    run, count = 0, 0  # rows that are waiting are those of the run, and before them others
    for i in range(first, last):
        if i == begins[piece + 1]:
            piece += 1
        write_rows(steps, i, piece, own[i - first :], beyond, rows, count, added)
        if count - run < added.products.shape[1]:
            prefetch_row(added.products[group[piece]], count - run)
        count += 1
        full = count == rows.right.shape[0] or i + 1 == last
        end = i + 1 == begins[piece + 1] and (i + 1 == last or group[piece + 1] != group[piece])
        if full or end:
            add_product(left, rows.right, run, count, added.products[group[piece]], rows.tile)
            run = count
        if full or (end and count >= ENOUGH):
            at = i + 1 - first
            add_square(own, at - count, at, added.own, rows.tile)
            add_square(left, 0, count, added.marginal, rows.tile)
            for k in range(left.shape[1]):
                rows.left[0, k] = rows.left[count, k]
            run, count = 0, 0


def write_rows(steps: Any, i: int, piece: int, own: Floats, beyond: Floats, rows: Any, count: int, added: Any) -> None:
    """The rows of a step, as `Layout` has them, behind ``count`` others; its features are first in ``own``."""
    clock, n = steps.clock, steps.rho.shape[0]
    x, y, before, z, right = own[0], own[1], rows.left[count], rows.left[count + 1], rows.right[count]
    pieces, times, last = added.pieces[piece], clock.shape[1], clock.shape[0] - 1
    D, narrow = added.starts.shape[1], pieces.shape[0]
    rho, discount, ahead, since = steps.rho[i], steps.discount[i], steps.next_row[i], i - steps.begins[piece]
    if ahead >= n:
        y = beyond[ahead - n]
    elif ahead == i:
        y = x
    for k in range(D):
        right[k] = discount * y[k] - x[k]
        z[k] = rho * x[k]
    if since == 0:  # the trace before may be infinite
        start = added.starts[steps.group[piece]]
        for k in range(D):
            start[k] += x[k]
        for k in range(narrow):
            z[D + k] = z[k]
            pieces[k] += z[k]
    else:
        decay = steps.lam * steps.discount[i - 1]
        for k in range(narrow):
            z[D + k] = rho * (x[k] + decay * before[D + k])
            pieces[k] += rho * x[k]
    right[D], z[D + narrow] = steps.reward[i], steps.weight[i]
    now, after = min(since, last), min(since + 1, last)
    for k in range(times):
        right[D + 1 + k] = discount * clock[after, k] - clock[now, k]
        z[D + narrow + 1 + k] = rho * clock[now, k]
        x[D + k] = clock[now, k]
    x[D + times], x[D + times + 1] = 1.0, 1.0 - rho


def _adder(fingerprint: str) -> Plain:
    def run(steps: Any, first: int, last: int, own: Floats, beyond: Floats, rows: Any, added: Any) -> None:
        fingerprint  # noqa: B018 (part of the closure, and so of the key of the cache)
        add_steps(steps, first, last, own, beyond, rows, added)

    return run
