"""The compiled processing of a learner's step: store its rows and the step, then learn from it.

`put` takes the rows staged by Python and the numbers of one step for all runs, checks them, and queues the step.
`learn` passes the queued steps to every run, which has its own window, buffers, traces and state. A learner does both
in one call (`step_kernel`); a horde queues steps and learns from many at once. Neither allocates memory. If memory is
short or a number is invalid, they return before any change, and Python allocates memory or raises the error.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradtd.compiled.dispatch import by_type
from gradtd.compiled.traces import (
    CLIPPED,
    most_entries,
    step_shares,
    write_dense_trace,
    write_sparse_trace,
)
from gradtd.core.arrays import Floats, Integers, Plain
from gradtd.core.stream_arrays import SparseRows

# Numbers of `Shared.counts`: steps that still fit, steps given, steps queued, rows in the table,
# the row that the latest step led to, the number of the latest episode, whether that one is over.
FREE, SEEN, WAITING, ROWS, LATEST, EPISODE, OVER = range(7)
# Numbers of `Own.counts`: steps in the window, steps given, the step of divergence or -1, the first unit of `sides`.
SIZE, GIVEN, DIVERGED, FIRST_UNIT = range(4)
# What `put` and `learn` return.
DONE, NEWS, FULL, REFUSED, TRACES_FULL = 0, 1, -1, -2, -3
# How a step ends its episode. `NO_STEP`: no new step; learn from the queued ones.
GOES_ON, CUT, NO_STEP = 0, 1, 2
LARGEST = float(np.finfo(np.float64).max)


class StagedRows(NamedTuple):
    """The two sparse rows of a step as they were given: their indices, numbers and lengths.

    A row of ones, as tile coding gives, has a length of -1 - n: then its numbers are not read.
    """

    indices: NDArray[np.int64]
    data: Floats
    length: Integers


class DenseBits(NamedTuple):
    """The table of rows and the two staged ones as bits. A number with all bits of ``mask`` set is not finite.

    Rows are compared and copied as bits: 0 and -0 differ, and NaN equals itself.
    """

    table: NDArray[Any]
    staged: NDArray[Any]
    mask: NDArray[Any]


class SparseStage(NamedTuple):
    """The table of sparse rows with its free ends, and the two staged ones."""

    table: SparseRows
    staged: StagedRows


class Shared(NamedTuple):
    """The data shared by all runs of a learner: counts, rows, and queued steps.

    ``given`` has reward, discount and rho of a new step for every run; ``numbers`` those of the queued steps, and
    ``places`` their row, next row and episode.
    """

    counts: Integers
    rows: Any
    given: Floats
    numbers: NDArray[np.float64]
    places: Integers


class TraceState(NamedTuple):
    """The state of a run's traces, see `gradtd.compiled.traces.Tracer`. ``rows`` is the number of stored rows."""

    numbers: Floats
    latest: Floats
    carried: Floats
    largest: Floats
    episode: Integers
    rows: Integers


class Own(NamedTuple):
    """The data of a run besides its state: counts, the buffer of each future unit, and the steps in each buffer.

    ``place`` is the index of the run, ``block`` the number of steps that count as an episode (0: no blocks).
    """

    counts: Integers
    sides: NDArray[np.uint8]
    listed: Integers
    place: int
    block: int
    trace: Any


# A step is put


def put_numbers(shared: Shared, reward: float, discount: float, rho: float) -> None:
    """The numbers of a step, the same for all runs"""
    for i in range(shared.given.shape[1]):
        shared.given[0, i], shared.given[1, i], shared.given[2, i] = reward, discount, rho


def put(shared: Shared, cut: int) -> int:
    """Queue the step with the staged rows and the given numbers; returns a code, `DONE` if it worked"""
    counts, given = shared.counts, shared.given
    if counts[FREE] <= 0:
        return FULL
    ends = True
    for i in range(given.shape[1]):
        reward, discount, rho = given[0, i], given[1, i], given[2, i]
        if not (abs(reward) <= LARGEST and 0.0 <= discount <= 1.0 and 0.0 <= rho <= LARGEST):
            return REFUSED
        ends = ends and discount == 0.0
    row, code = put_rows(shared.rows, counts)
    if code < 0:
        return code
    k = counts[WAITING]
    counts[EPISODE] += counts[OVER]
    counts[OVER] = 1 if ends or cut == CUT else 0
    shared.places[k, 0], shared.places[k, 1], shared.places[k, 2] = row, counts[LATEST], counts[EPISODE]
    for i in range(given.shape[1]):
        for j in range(3):
            shared.numbers[j, k, i] = given[j, i]
    counts[WAITING] += 1
    counts[SEEN] += 1
    counts[FREE] -= 1
    return DONE


def _put_dense_rows(rows: DenseBits, counts: Integers) -> tuple[int, int]:
    """Store the two staged rows, the first only if it is not the latest next row; returns its place"""
    table, staged, mask = rows.table, rows.staged, rows.mask[0]
    latest, size = counts[LATEST], counts[ROWS]
    same = latest >= 0
    if same:
        for k in range(staged.shape[1]):
            if table[latest, k] != staged[0, k]:
                same = False
                break
    bad = 0
    if not same:
        for k in range(staged.shape[1]):
            bad |= (staged[0, k] & mask) == mask
    for k in range(staged.shape[1]):
        bad |= (staged[1, k] & mask) == mask
    if bad:
        return 0, REFUSED
    row = latest
    if not same:
        row = size
        for k in range(staged.shape[1]):
            table[size, k] = staged[0, k]
        size += 1
    for k in range(staged.shape[1]):
        table[size, k] = staged[1, k]
    counts[LATEST], counts[ROWS] = size, size + 1
    return row, DONE


def _put_sparse_rows(rows: SparseStage, counts: Integers) -> tuple[int, int]:
    table, staged = rows.table, rows.staged
    latest, size = counts[LATEST], counts[ROWS]
    for i in range(2):
        if not _sort_staged(staged, i, table.n_columns):
            return 0, REFUSED
    if table.begin[size] + staged.length[0] + staged.length[1] > table.data.shape[0]:
        return 0, FULL
    row = latest
    if latest < 0 or not _is_row(table, latest, staged):
        row = size
        _append_staged(table, size, staged, 0)
        size += 1
    _append_staged(table, size, staged, 1)
    counts[LATEST], counts[ROWS] = size, size + 1
    return row, DONE


def _sort_staged(staged: StagedRows, i: int, n_columns: int) -> bool:
    """Sort the entries of a row by column and add up duplicates; False if the row is invalid"""
    indices, data = staged.indices[i], staged.data[i]
    ones, end = staged.length[i] < 0, 0
    for j in range(-1 - staged.length[i] if ones else staged.length[i]):
        column = indices[j]
        x = 1.0 if ones else np.float64(data[j])
        if column < 0 or column >= n_columns or not abs(x) <= LARGEST:
            return False
        k = end
        while k > 0 and indices[k - 1] > column:
            k -= 1
        if k > 0 and indices[k - 1] == column:
            data[k - 1] += x
            continue
        for m in range(end, k, -1):
            indices[m], data[m] = indices[m - 1], data[m - 1]
        indices[k], data[k] = column, x
        end += 1
    staged.length[i] = end
    return True


def _is_row(table: SparseRows, row: int, staged: StagedRows) -> bool:
    """Whether the first staged row equals this row of the table; 0 and -0 count as different"""
    begin = table.begin[row]
    if table.begin[row + 1] - begin != staged.length[0]:
        return False
    for j in range(staged.length[0]):
        x = staged.data[0, j]
        if table.indices[begin + j] != staged.indices[0, j] or table.data[begin + j] != x or x == 0.0:
            return False
    return True


def _append_staged(table: SparseRows, row: int, staged: StagedRows, i: int) -> None:
    begin = table.begin[row]
    for j in range(staged.length[i]):
        table.indices[begin + j], table.data[begin + j] = staged.indices[i, j], staged.data[i, j]
    table.begin[row + 1] = begin + staged.length[i]


put_rows = by_type(0, _put_dense_rows, {DenseBits: _put_dense_rows, SparseStage: _put_sparse_rows})


# A run takes a queued step


def take_step(stream: Any, buffers: Any, own: Own, shared: Shared, k: int) -> int:
    """Move queued step k into the window of a run, and list it for the buffer that it will enter"""
    t, place = own.counts[SIZE], own.place
    row, next_row, episode = shared.places[k, 0], shared.places[k, 1], shared.places[k, 2]
    if not has_trace_room(stream.traces, stream.features, row, t):
        return TRACES_FULL
    step = stream.steps[t]
    step.row, step.next_row, step.episode = row, next_row, episode
    step.reward, step.discount, step.rho = (
        shared.numbers[0, k, place],
        shared.numbers[1, k, place],
        shared.numbers[2, k, place],
    )
    if buffers.side.shape[0] > 0:
        unit = episode if own.block == 0 else own.counts[GIVEN] // own.block
        side = np.int64(own.sides[unit - own.counts[FIRST_UNIT]])
        buffers.side[t] = side
        if buffers.unit.shape[0] > 0:
            buffers.unit[t] = unit
        buffers.members[buffers.begin[side] + own.listed[side]] = t
        own.listed[side] += 1
    write_trace(stream.traces, stream, own.trace, t)
    own.counts[SIZE] += 1
    own.counts[GIVEN] += 1
    return DONE


def _always(traces: Any, features: Any, row: int, t: int) -> bool:
    """Whether the trace of step t fits"""
    return True


def _has_sparse_room(traces: SparseRows, features: Any, row: int, t: int) -> bool:
    return bool(most_entries(features, row, traces, t) <= traces.data.shape[0])


def _shares(state: TraceState, step: Any) -> tuple[float, float]:
    c = min(step.rho, 1.0) if state.numbers[CLIPPED] != 0.0 else step.rho
    return step_shares(state.numbers, state.carried, state.episode, step.episode, (step.discount, step.rho, c))


def _write_no_trace(traces: Any, stream: Any, state: Any, t: int) -> None:
    """The trace of step t"""


def _write_dense(traces: Floats, stream: Any, state: TraceState, t: int) -> None:
    taken, weight = _shares(state, stream.steps[t])
    write_dense_trace(stream.features, stream.steps[t].row, taken, weight, state.latest, traces, t)


def _write_sparse(traces: SparseRows, stream: Any, state: TraceState, t: int) -> None:
    taken, weight = _shares(state, stream.steps[t])
    write_sparse_trace(stream.features, stream.steps[t].row, taken, weight, state.largest, traces, t)
    state.rows[0] += 1


has_trace_room = by_type(0, _always, {type(None): _always, SparseRows: _has_sparse_room})
write_trace = by_type(0, _write_dense, {type(None): _write_no_trace, SparseRows: _write_sparse})


# A kernel for a rule


@lru_cache(maxsize=256)  # the same function for the same rule and types: it is compiled once
def step_kernel(drive: Plain, unpack: Plain) -> Plain:
    """A kernel around the loop ``drive``: one call queues a step and lets all runs learn from it."""

    def enter(packed: Any, runs: int, reward: float, discount: float, rho: float, cut: int) -> int:
        if cut != NO_STEP:
            shared = unpack(packed, 0)[6]
            put_numbers(shared, reward, discount, rho)
            code = put(shared, cut)
            if code < 0:
                return code
        found = DONE
        for i in range(runs):
            stream, buffers, run, plan, wanted, own, shared = unpack(packed, i)
            if own.counts[DIVERGED] >= 0:
                continue
            seen = shared.counts[SEEN]
            while own.counts[GIVEN] < seen:
                waiting = shared.counts[WAITING] - (seen - own.counts[GIVEN])
                code = take_step(stream, buffers, own, shared, waiting)
                if code < 0:
                    return code
            averaged, count = run.clock[0].averaged, seen - run.clock[0].seen
            begin = own.counts[SIZE] - max(count, 1)  # the latest step, if there is no new one
            diverged_at = drive(stream, buffers, run, plan, wanted, begin, count, False)
            if diverged_at >= 0:
                own.counts[DIVERGED] = diverged_at
                found = NEWS
            if averaged == 0 and run.clock[0].averaged > 0:
                found = NEWS
        if cut != NO_STEP:
            shared.counts[WAITING] = 0
        return found

    return enter


@lru_cache(maxsize=64)
def put_kernel(unpack: Plain) -> Plain:
    """A kernel that only queues a step, for a horde, whose numbers are in ``given``."""

    def enter(packed: Any, cut: int) -> int:
        return put(unpack(packed, 0), cut)

    return enter


# Queries of a learner


def sum_at(values: Floats, lag: Floats, share: float, indices: Integers, data: Floats) -> float:
    """The value of a sparse row: sum of x_k (values_k - share lag_k), NaN if an index is invalid

    A row without numbers is one of ones.
    """
    total = 0.0
    for j in range(indices.shape[0]):
        k = indices[j]
        if k < 0 or k >= values.shape[0]:
            return np.nan
        weight = values[k]
        if share != 0.0:
            weight -= share * lag[k]
        total += weight * data[j] if data.shape[0] > 0 else weight
    return total


def sums_at(values: Floats, lag: Floats, share: float, indices: Integers, out: Floats) -> None:
    """`sum_at` for many rows of ones with the same number of entries"""
    for i in range(indices.shape[0]):
        out[i] = sum_at(values, lag, share, indices[i], out[:0])
