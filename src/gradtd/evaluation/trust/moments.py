"""Sums over a log for many fits at once: those of the widest table, by groups of pieces; a fit takes its columns.

With x the features of a step, y = discount x_next - x and z the trace of rho x (z = rho x where lambda is 0):
A = sum of z y', b = sum of z r, C = sum of x x'. Reading the log once for the widest table costs O(n D^2). Every fit
on some of the columns then costs O(d^3), and none of them reads the log again but for its pieces' influences, O(n D).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd.compiled import engine
from gradtd.core.arrays import Floats, Integers, Plain
from gradtd.evaluation.products import cross
from gradtd.evaluation.trust.records import Record, Wide

GROUPS = 10
"""Groups of neighbouring pieces that the jackknife leaves out one at a time."""
CHUNK = 8192
"""Steps that are read at a time."""
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


def moments(record: Record, wide: Wide, lam: float | None) -> tuple[Moments, Moments | None]:
    """Read the log once, for fits without traces and, where lambda is given, for fits of the rungs with them."""
    edges = group_edges(record.n_pieces)
    D, G = wide.n_columns, len(edges) - 1
    narrow = wide.n_rung_columns if lam is not None else 0
    plain, traced = _Sums(G, D), _Sums(G, narrow)
    shared = _Shared(D)
    counted = wide.table is not None and FEW_ROWS * wide.n_rows < len(record)
    trace = np.zeros(narrow)
    for g in range(G):
        steps = slice(int(record.begins[edges[g]]), int(record.begins[edges[g + 1]]))
        if counted:
            plain.A[g], plain.b[g] = _counted(record, wide, steps)
        for part, x, y in _chunks(record, wide, steps) if not counted or lam is not None else ():
            rho, reward = np.asarray(record.rho[part]), np.asarray(record.reward[part])
            if not counted:
                z = x * rho[:, None]
                plain.A[g] += cross(z, y)
                plain.b[g] += reward @ z
                shared.C += cross(x, x)
                shared.missing += (1.0 - rho) @ x
            if lam is not None:
                z = traces(record, x[:, :narrow], part, lam, trace)
                traced.A[g] += cross(z, np.ascontiguousarray(y[:, :narrow]))
                traced.b[g] += reward @ z
    _finish(shared, record, wide, edges, counted)
    made = Moments(plain.A, plain.b, shared.C, shared.starts, np.diff(edges), shared.missing)
    if lam is None:
        return made, None
    like = (made.C[:narrow, :narrow], made.starts[:, :narrow], made.pieces, made.missing[:narrow])
    return made, Moments(traced.A, traced.b, *like)


class _Sums:
    def __init__(self, groups: int, D: int) -> None:
        self.A, self.b = np.zeros((groups, D, D)), np.zeros((groups, D))


class _Shared:
    """What does not depend on lambda."""

    def __init__(self, D: int) -> None:
        self.C, self.missing, self.starts = np.zeros((D, D)), np.zeros(D), np.zeros((0, D))


def _finish(shared: _Shared, record: Record, wide: Wide, edges: Integers, counted: bool) -> None:
    first = wide.rows(record.start_rows)
    shared.starts = np.add.reduceat(first, edges[:-1], axis=0)
    if counted and wide.table is not None:
        shared.missing = np.bincount(record.row, 1.0 - record.rho, minlength=wide.n_rows) @ wide.table
        visits = np.bincount(record.row, minlength=wide.n_rows)
        shared.C = (wide.table * visits[:, None]).T @ wide.table


def _chunks(record: Record, wide: Wide, steps: slice) -> Iterator[tuple[slice, Floats, Floats]]:
    """A chunk of steps with x and y = discount x_next - x."""
    for begin in range(steps.start, steps.stop, CHUNK):
        part = slice(begin, min(begin + CHUNK, steps.stop))
        feats, here, there = rows_of(record, wide, part)
        x = feats[here]
        y = feats[there]
        y *= np.asarray(record.discount[part])[:, None]
        y -= x
        yield part, x, y


def rows_of(record: Record, wide: Wide, part: slice) -> tuple[Floats, Integers, Integers]:
    """The rows that a chunk of steps begins or ends in, each made once, and where those of every step are."""
    both = np.concatenate([record.row[part], record.next_row[part]])
    rows, where = np.unique(both, return_inverse=True)
    n = part.stop - part.start
    return wide.rows(rows), where[:n], where[n:]


def _counted(record: Record, wide: Wide, steps: slice) -> tuple[Any, Any]:
    """The same sums from how often each row led to each other: where rows repeat, the log's length is free."""
    from scipy.sparse import coo_array

    table = wide.table
    assert table is not None
    row, rho = record.row[steps], record.rho[steps]
    S = len(table)
    pairs = coo_array((rho * record.discount[steps], (row, record.next_row[steps])), shape=(S, S)).tocsr()
    own = np.bincount(row, rho, minlength=S)
    A = table.T @ (pairs @ table - own[:, None] * table)
    return A, np.bincount(row, rho * record.reward[steps], minlength=S) @ table


def run_traces(x: Any, decay: Floats, rho: Any, trace: Floats, z: Any) -> None:
    """z_t = rho_t (x_t + decay_t z_{t-1}) for every column, the last one kept in ``trace``."""
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            trace[k] = rho[i] * (x[i, k] + decay[i] * trace[k])
            z[i, k] = trace[k]


def _maker(fingerprint: str) -> Plain:
    def run(x: Any, decay: Floats, rho: Any, trace: Floats, z: Any) -> None:
        fingerprint  # noqa: B018 (part of the closure, and so of the key of the cache)
        run_traces(x, decay, rho, trace, z)

    return run


def traces(record: Record, x: Floats, part: slice, lam: float, trace: Floats) -> Floats:
    """z of a chunk of steps: traces begin at nothing where a piece does; ``trace`` is carried on."""
    rho = np.ascontiguousarray(record.rho[part])
    if lam == 0:
        return np.asarray(x * rho[:, None])
    z = np.empty(x.shape)
    engine.compiled(_maker)(np.ascontiguousarray(x), _decay(record, part, lam), rho, trace, z)
    return z


def _decay(record: Record, part: slice, lam: float) -> Floats:
    decay = np.zeros(part.stop - part.start)
    decay[1:] = lam * record.discount[part.start : part.stop - 1]
    decay[0] = lam * record.discount[part.start - 1] if part.start else 0.0
    first, last = np.searchsorted(record.begins, [part.start, part.stop])
    decay[record.begins[first:last] - part.start] = 0.0
    return decay
