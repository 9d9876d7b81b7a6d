"""Traces that a rule keeps itself, and what follows from them, where rows are sparse.

* `Listed`: a vector with a list of the columns that it has entries in. To multiply or to clear it costs as many entries
  as there are. One that has decayed to nothing leaves the list, as it leaves a trace that is stored (`traces`).
* `Recorded`: theta, with a list of how the latest update has changed it.
* `Former`: theta before that update.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradtd.compiled.drifting import LIMIT, OUTSIDE, WEIGHT
from gradtd.core.arrays import Floats, Index, Integers

DROPPED = 1e-16
"""An entry below this times the largest that was added since the trace began is dropped.

As in `gradtd.compiled.traces`, what is kept then differs from the full trace, entry by entry, by at most as much times
the trace that a constant feature 1 would have. What one episode added has no say in the next."""


class Listed(NamedTuple):
    """Entry ``columns[i]`` is ``values[i]`` for i below ``size[0]``, others are 0.

    Column k is at ``place[k]``, if it is there. ``largest`` holds the largest number that was added.
    """

    values: Floats
    columns: NDArray[np.uint32]
    place: NDArray[np.uint32]
    size: Integers
    largest: Floats


class Recorded(NamedTuple):
    """Theta as in `vectors.Weights`, and its latest changes."""

    values: Floats
    lag: Floats
    numbers: Floats
    changes: Listed


class Former(NamedTuple):
    """The vector theta - changes."""

    theta: Floats
    changes: Listed


def empty_list(d: int) -> Listed:
    """A vector of zeros."""
    indices = np.zeros(d, np.uint32), np.zeros(d, np.uint32)  # a file may hold them
    return Listed(np.zeros(d), *indices, np.zeros(1, np.int64), np.zeros(1))


def listed_value_at(v: Listed, k: Index) -> Any:
    """v[k]"""
    i = v.place[k]
    return v.values[i] if i < v.size[0] and v.columns[i] == k else 0.0


def listed_add_at(out: Listed, k: Index, x: float) -> None:
    """out[k] += x"""
    i: Any = out.place[k]
    if i >= out.size[0] or out.columns[i] != k:
        i = np.uint32(out.size[0])
        out.place[k], out.columns[i], out.values[i] = i, k, 0.0
        out.size[0] += 1
    out.values[i] += x
    out.largest[0] = max(out.largest[0], abs(x))


def empty(out: Listed, value: float) -> None:
    """out = 0, the only value there is"""
    out.size[0] = 0
    out.largest[0] = 0.0


def shrink(out: Listed, c: float) -> None:
    """out *= c, and what is left of nothing leaves the list; what is not a number stays, so that it is seen"""
    if c == 0.0:
        empty(out, 0.0)
    least, i = DROPPED * out.largest[0], 0
    while i < out.size[0]:
        x = c * out.values[i]
        if not abs(x) <= least:
            out.values[i] = x
            i += 1
        else:
            last = out.size[0] - 1
            out.values[i], out.columns[i] = out.values[last], out.columns[last]
            out.place[out.columns[i]] = np.uint32(i)
            out.size[0] = last


def recorded_add_at(out: Recorded, k: Index, x: float) -> None:
    """out[k] += x"""
    before: Any = out.values[k]
    after = before + x
    out.values[k] = after
    listed_add_at(out.changes, k, after - before)
    if out.numbers[WEIGHT] != 0.0:
        out.lag[k] += out.numbers[WEIGHT] * (after - before)
    if not abs(after) <= out.numbers[LIMIT]:
        out.numbers[OUTSIDE] = 1.0


def former_value_at(v: Former, k: Index) -> Any:
    """v[k]"""
    return v.theta[k] - listed_value_at(v.changes, k)


def begin_record(out: Former, theta: Recorded) -> None:
    """out = theta: there are no changes yet"""
    out.changes.size[0] = 0


def list_to_recorded(out: Recorded, c: float, v: Listed) -> None:
    """out += c v"""
    for i in range(v.size[0]):
        recorded_add_at(out, v.columns[i], c * v.values[i])


def list_to_dense(out: Floats, c: float, v: Listed) -> None:
    """out += c v"""
    for i in range(v.size[0]):
        out[v.columns[i]] += c * v.values[i]


def dot_list(u: Floats, v: Listed) -> Any:
    """u . v"""
    total = 0.0
    for i in range(v.size[0]):
        total += u[v.columns[i]] * v.values[i]
    return total
