"""Sums over a log for many fits at once: those of the widest table, by groups of pieces; a fit takes its columns.

With x the features of a step, y = discount x_next - x and z the trace of rho x (z = rho x where lambda is 0):
A = sum of z y', b = sum of z r, C = sum of x x'. Reading the log once for the widest table costs O(n D^2). Every fit
on some of the columns then costs O(d^3), and none of them reads the log again but for its pieces' influences, O(n D).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gradtd.compiled import engine
from gradtd.core.arrays import Floats, Integers, Plain
from gradtd.evaluation.estimators.products import cross, rows_at
from gradtd.evaluation.trust.clock import TimeRows, TimeSums, since_start, table_sums, time_rows
from gradtd.evaluation.trust.reading import CHUNK, DISCOUNT, REWARD, RHO, Reader
from gradtd.evaluation.trust.records import Record, Wide

GROUPS = 10
"""Groups of neighbouring pieces that the jackknife leaves out one at a time."""
FEW_ROWS = 4
"""With a stored table of fewer rows than one for so many steps, pairs of rows are counted first."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums by group: A (groups, D, D), b (groups, D), starts (groups, D), pieces (groups,).

    C is that of all groups, ``missing`` the sum of (1 - rho) x over all steps.
    """

    A: Floats
    b: Floats
    C: Floats
    starts: Floats
    pieces: Integers
    missing: Floats


def group_edges(n_pieces: int) -> Integers:
    """The first piece of each group, and behind them the number of pieces."""
    return np.linspace(0, n_pieces, min(GROUPS, n_pieces) + 1).round().astype(np.int64)


class Read(NamedTuple):
    """Sums for the fits asked for, for those of the headlines with other traces, and with the time beside them."""

    plain: Moments
    traced: Moments
    timed: Moments | None


def moments(record: Record, wide: Wide, lam: float, clock: Floats | None = None) -> Read:
    """Read the log once, for the fits asked for and for fits of the headlines with the traces of ``lam``.

    With columns of the time, ``clock``, also for fits of the headlines with those beside them.
    """
    edges = group_edges(record.n_pieces)
    groups, narrow = len(edges) - 1, wide.n_headline_columns
    counted = wide.table is not None and FEW_ROWS * wide.n_rows < len(record) and record.traced is None
    own = np.zeros(0 if record.traced is None else wide.n_columns)
    timed = None if clock is None else TimeSums.nothing(groups, narrow, clock)

    def sums(g: int) -> tuple[Floats, ...]:
        def time(start: int, numbers: Floats, y: Floats, x: Floats) -> None:
            assert timed is not None
            timed.add(g, _time_rows(record, clock, start, numbers), y[:, :narrow], x[:, :narrow])

        steps, reader = group_steps(record, edges, g), Reader(record, wide, lam)
        return _of_steps(reader, own, steps, counted, None if timed is None else time)

    found = record.in_turn(sums, groups)
    A, b, C, missing, traced_A, traced_b = (np.array(arrays) for arrays in zip(*found, strict=True))
    C, missing = C.sum(axis=0), missing.sum(axis=0)
    if counted:
        A, b, C, missing = _counted(record, wide, edges)
        if timed is not None:
            count_time(record, wide.table[:, :narrow], edges, timed, clock)
    starts = np.add.reduceat(wide.rows(record.start_rows), edges[:-1], axis=0)
    made = Moments(A, b, C, starts, np.diff(edges), missing)
    like = (C[:narrow, :narrow], starts[:, :narrow], made.pieces, missing[:narrow])
    with_time = None if timed is None or clock is None else joined(made, timed, narrow, clock)
    return Read(made, Moments(traced_A, traced_b, *like), with_time)


def _time_rows(record: Record, clock: Any, start: int, numbers: Floats) -> TimeRows:
    since = since_start(record.begins, start, start + numbers.shape[1])
    return time_rows(clock, since, numbers[RHO], numbers[DISCOUNT], numbers[REWARD])


def count_time(record: Record, table: Any, edges: Integers, sums: TimeSums, clock: Any) -> None:
    """The sums of columns of the time, over a stored table."""
    for g in range(len(edges) - 1):
        steps = group_steps(record, edges, g)
        row, next_row, rho, discount, reward = (
            np.asarray(a[steps]) for a in (record.row, record.next_row, record.rho, record.discount, record.reward)
        )
        now = time_rows(clock, since_start(record.begins, steps.start, steps.stop), rho, discount, reward)
        table_sums((row, next_row, discount), sums, g, now, table)


def joined(made: Moments, timed: TimeSums, d: int, clock: Floats) -> Moments:
    """Sums of the first ``d`` features and of the time behind them."""
    A = np.concatenate(
        [np.concatenate([made.A[:, :d, :d], timed.to], 2), np.concatenate([timed.back, timed.own], 2)], 1
    )
    of_both = timed.C.sum(axis=0)
    C = np.block([[made.C[:d, :d], of_both], [of_both.T, timed.C_own.sum(axis=0)]])
    starts = np.c_[made.starts[:, :d], made.pieces[:, None] * clock[0]]
    b, missing = np.c_[made.b[:, :d], timed.b], np.r_[made.missing[:d], timed.missing.sum(axis=0)]
    return Moments(A, b, C, starts, made.pieces, missing)


def group_steps(record: Record, edges: Integers, g: int) -> slice:
    """The steps of a group of pieces."""
    return slice(int(record.begins[edges[g]]), int(record.begins[edges[g + 1]]))


def _of_steps(
    reader: Reader, own: Floats, steps: slice, counted: bool, time: Callable[..., None] | None
) -> tuple[Floats, ...]:
    """A, b, C and missing over these steps, nothing where rows are counted; then A and b with the other traces.

    Where the value asked for has no traces, z = rho x need not be made: A = sum of x (rho y)'. Else ``own`` has the
    last of its traces, which may run on across blocks. ``time`` adds to the sums of the time, where there are some.
    """
    wide, traces = reader.wide, len(own) > 0
    narrow, D = wide.n_headline_columns, 0 if counted else wide.n_columns
    A, b, C, missing = np.zeros((D, D)), np.zeros(D), np.zeros((D, D)), np.zeros(D)
    traced_A, traced_b = np.zeros((narrow, narrow)), np.zeros(narrow)
    most = min(CHUNK, steps.stop - steps.start)
    room = np.empty((most, len(own) + narrow)), np.empty((most, max(D, narrow)))
    fill, trace = engine.compiled(_filler), np.zeros(narrow)
    for start, feats, here, there, numbers in reader.chunks(steps):
        z, y = (array[: len(here)] for array in room)
        fill(feats, here, there, numbers, trace, own, z, y)
        rho, reward = numbers[RHO], numbers[REWARD]
        traced = z[:, len(own) :]
        traced_A += cross(traced, y[:, :narrow])
        traced_b += reward @ traced
        if counted:
            continue
        x = rows_at(feats, here)
        C += cross(x, x)
        missing += (1.0 - rho) @ x
        if time is not None:
            time(start, numbers, y, x)
        if traces:
            A += cross(z[:, :D], y)
            b += reward @ z[:, :D]
        else:
            y *= rho[:, None]
            A += cross(x, y)
            b += (rho * reward) @ x
    return A, b, C, missing, traced_A, traced_b


def _counted(record: Record, wide: Wide, edges: Integers) -> tuple[Floats, Floats, Floats, Floats]:
    """The same sums from how often each row led to each other: where rows repeat, the log's length is free."""
    from scipy.sparse import coo_array

    table, G = wide.table, len(edges) - 1
    assert table is not None
    S, D = table.shape
    A, b = np.zeros((G, D, D)), np.zeros((G, D))
    for g in range(G):
        steps = group_steps(record, edges, g)
        row, rho = record.row[steps], record.rho[steps]
        pairs = coo_array((rho * record.discount[steps], (row, record.next_row[steps])), shape=(S, S)).tocsr()
        own = np.bincount(row, rho, minlength=S)
        A[g] = table.T @ (pairs @ table - own[:, None] * table)
        b[g] = np.bincount(row, rho * record.reward[steps], minlength=S) @ table
    missing = np.bincount(record.row, 1.0 - record.rho, minlength=S) @ table
    C = (table * np.bincount(record.row, minlength=S)[:, None]).T @ table
    return A, b, C, missing


def fill_rows(
    feats: Floats,
    here: Integers,
    there: Integers,
    numbers: Floats,
    trace: Floats,
    own: Floats,
    z: Floats,
    y: Floats,
) -> None:
    """z = rho x of as many columns as there are before those of the traces, then traces; y = discount x_next - x.

    A trace is rho_t (x_t + decay_t z_{t-1}), the last one kept in ``trace``; where ``own`` has room for them, so are
    the columns before.
    """
    plain = z.shape[1] - trace.shape[0]
    for i in range(y.shape[0]):
        a, b = here[i], there[i]
        rho, discount, decay = numbers[0, i], numbers[1, i], numbers[3, i]
        for k in range(y.shape[1]):
            y[i, k] = discount * feats[b, k] - feats[a, k]
        for k in range(plain):
            z[i, k] = rho * feats[a, k]
        for k in range(own.shape[0]):
            own[k] = rho * (feats[a, k] + numbers[5, i] * own[k])
            z[i, k] = own[k]
        for k in range(trace.shape[0]):
            trace[k] = rho * (feats[a, k] + decay * trace[k])
            z[i, plain + k] = trace[k]


def _filler(fingerprint: str) -> Plain:
    def run(
        feats: Floats,
        here: Integers,
        there: Integers,
        numbers: Floats,
        trace: Floats,
        own: Floats,
        z: Floats,
        y: Floats,
    ) -> None:
        fingerprint  # noqa: B018 (part of the closure, and so of the key of the cache)
        fill_rows(feats, here, there, numbers, trace, own, z, y)

    return run
