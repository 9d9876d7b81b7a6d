"""Vectors of a rule on sparse features, whose cost is the number of entries read.

A rule is written once, with the functions below. On dense features they work on arrays like `linalg`. On sparse
features a rule declares how it uses its vectors (`gradtd.core.algorithm.Storage`), and the cost of an update is the
number of entries in the rows it reads, for any number of features:

* `Cleared`: a vector that every update clears and refills. Its entries are stored in the order in which they were
  touched, and all such vectors of a rule share the list of columns.
* `Scaled`: a vector that is multiplied by numbers. The product of these numbers is kept separately.
* `Weights`: theta. Its average over time changes in every entry at every step, but

      sum of c_t theta_t = C_n theta_n - sum of C_{t-1} (theta_t - theta_{t-1}),        C_t = c_1 + ... + c_t

  so that only the second sum, the ``lag``, is stored, and it changes only where theta does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradtd.compiled import linalg
from gradtd.compiled.dispatch import by_type
from gradtd.core.arrays import Floats, Index, Integers

WEIGHT, OUTSIDE, LIMIT = 0, 1, 2
"""Numbers of `Weights`: the sum C of the weights in the average, whether an entry was beyond the limit, the limit."""
SCALE, SQUARE, PEAK = 0, 1, 2
"""Numbers of `Scaled`: the factor, the sum of squares without it or NaN, and the largest since all were added up."""
FAR = 1e100
"""A factor above this, or below its inverse, is multiplied into the entries before it can overflow."""
SHRUNK = 1 / 4
"""The sum of squares is computed again when it falls below this share of its peak, because it keeps the peak's rounding
error."""


class Touched(NamedTuple):
    """The columns that an update has touched, ``columns[:size[0]]``; column k is at ``place[k]`` if touched."""

    place: NDArray[np.uint32]
    columns: NDArray[np.uint32]
    size: Integers


class Cleared(NamedTuple):
    """A vector that is refilled at every update: entry ``touched.columns[i]`` is ``values[i]``, others are 0."""

    values: Floats
    touched: Touched


class Scaled(NamedTuple):
    """The vector ``numbers[SCALE] values``."""

    values: Floats
    numbers: Floats


class Weights(NamedTuple):
    """Theta, and with averaging the lag of its average: average = values - lag / C."""

    values: Floats
    lag: Floats
    numbers: Floats


def begin_update(touched: Any, cleared: Any) -> None:
    """Begin an update: no column is touched."""
    if touched is not None:
        for i in range(cleared.shape[0]):
            linalg.fill(cleared[i, : touched.size[0]], 0.0)
        touched.size[0] = 0


# An entry


def _dense_value_at(v: Floats, k: Index) -> Any:
    """v[k]"""
    return v[k]


def _weights_value_at(v: Weights, k: Index) -> Any:
    return v.values[k]


def _scaled_value_at(v: Scaled, k: Index) -> Any:
    return v.numbers[SCALE] * v.values[k]


def _cleared_value_at(v: Cleared, k: Index) -> Any:
    i = v.touched.place[k]
    return v.values[i] if i < v.touched.size[0] and v.touched.columns[i] == k else 0.0


def _two_values_at(u: Any, v: Any, k: Index) -> tuple[Any, Any]:
    """u[k] and v[k]"""
    return value_at(u, k), value_at(v, k)


def _cleared_two_values_at(u: Cleared, v: Cleared, k: Index) -> tuple[Any, Any]:
    i = v.touched.place[k]
    if i < v.touched.size[0] and v.touched.columns[i] == k:
        return u.values[i], v.values[i]
    return 0.0, 0.0


def _dense_add_at(out: Floats, k: Index, x: float) -> None:
    """out[k] += x"""
    out[k] += x


def _cleared_add_at(out: Cleared, k: Index, x: float) -> None:
    out.values[_place_of(out.touched, k)] += x


def _place_of(touched: Touched, k: Index) -> Any:
    """The position of column k among the touched ones, to which it is added if new"""
    i: Any = touched.place[k]
    if i >= touched.size[0] or touched.columns[i] != k:
        i = np.uint32(touched.size[0])
        touched.place[k], touched.columns[i] = i, k
        touched.size[0] += 1
    return i


def _add_at_two(out: Any, other: Any, k: Index, x: float, y: float) -> None:
    """out[k] += x and other[k] += y"""
    add_at(out, k, x)
    add_at(other, k, y)


def _cleared_add_at_two(out: Cleared, other: Cleared, k: Index, x: float, y: float) -> None:
    i = _place_of(out.touched, k)
    out.values[i] += x
    other.values[i] += y


def _scaled_add_at(out: Scaled, k: Index, x: float) -> None:
    out.values[k] += x / out.numbers[SCALE]
    out.numbers[SQUARE] = np.nan


def _weights_add_at(out: Weights, k: Index, x: float) -> None:
    before = out.values[k]
    after = before + x
    out.values[k] = after
    if out.numbers[WEIGHT] != 0.0:
        out.lag[k] += out.numbers[WEIGHT] * (after - before)
    if not abs(after) <= out.numbers[LIMIT]:
        out.numbers[OUTSIDE] = 1.0


def _clear(out: Cleared, value: float) -> None:
    linalg.fill(out.values[: out.touched.size[0]], value)


def _scale_touched(out: Cleared, c: float) -> None:
    linalg.scale_by(out.values[: out.touched.size[0]], c)


def _scale_all(out: Scaled, c: float) -> None:
    scale = out.numbers[SCALE] * c
    if 1.0 / FAR < abs(scale) < FAR:
        out.numbers[SCALE] = scale
        return
    linalg.scale_by(out.values, scale)
    out.numbers[SCALE], out.numbers[SQUARE] = 1.0, np.nan


def _add_touched(out: Any, c: float, v: Cleared) -> None:
    add_touched(out, c, v)


def _touched_to_dense(out: Floats, c: float, v: Cleared) -> None:
    """out += c v"""
    for i in range(v.touched.size[0]):
        out[v.touched.columns[i]] += c * v.values[i]


def _touched_to_cleared(out: Cleared, c: float, v: Cleared) -> None:
    for i in range(v.touched.size[0]):
        out.values[i] += c * v.values[i]


def _touched_to_scaled(out: Scaled, c: float, v: Cleared) -> None:
    c, change = c / out.numbers[SCALE], 0.0
    for i in range(v.touched.size[0]):
        k = v.touched.columns[i]
        before = out.values[k]
        after = before + c * v.values[i]
        out.values[k] = after
        change += (after - before) * (after + before)
    out.numbers[SQUARE] += change


def _touched_to_weights(out: Weights, c: float, v: Cleared) -> None:
    weight, limit, inside = out.numbers[WEIGHT], out.numbers[LIMIT], True
    for i in range(v.touched.size[0]):
        k = v.touched.columns[i]
        before = out.values[k]
        after = before + c * v.values[i]
        out.values[k] = after
        inside = inside and abs(after) <= limit
        if weight != 0.0:
            out.lag[k] += weight * (after - before)
    if not inside:
        out.numbers[OUTSIDE] = 1.0


def _dot_touched(u: Any, v: Cleared) -> Any:
    return dot_touched(u, v)


def _dense_dot_touched(u: Any, v: Cleared) -> Any:
    total = 0.0
    for i in range(v.touched.size[0]):
        total += value_at(u, v.touched.columns[i]) * v.values[i]
    return total


def _cleared_dot_touched(u: Cleared, v: Cleared) -> Any:
    total = 0.0
    for i in range(v.touched.size[0]):
        total += u.values[i] * v.values[i]
    return total


def _own_square(u: Scaled, v: Scaled) -> Any:
    v.numbers[PEAK] = max(v.numbers[PEAK], v.numbers[SQUARE])
    if not v.numbers[SQUARE] >= SHRUNK * v.numbers[PEAK]:
        v.numbers[SQUARE] = linalg.dot(v.values, v.values)
        v.numbers[PEAK] = v.numbers[SQUARE]
    return v.numbers[SCALE] * v.numbers[SCALE] * v.numbers[SQUARE]


# Vectors of the same kind are updated together, so that each column is looked up only once.

_EACH = {Weights: _two_values_at, Scaled: _two_values_at}
_BOTH = {Weights: _add_at_two, Scaled: _add_at_two}
value_at = by_type(
    0, _dense_value_at, {Cleared: _cleared_value_at, Weights: _weights_value_at, Scaled: _scaled_value_at}
)
add_at = by_type(0, _dense_add_at, {Cleared: _cleared_add_at, Weights: _weights_add_at, Scaled: _scaled_add_at})
two_values_at = by_type(0, _two_values_at, {Cleared: _cleared_two_values_at, **_EACH})
add_at_two = by_type(0, _add_at_two, {Cleared: _cleared_add_at_two, **_BOTH})
add_touched = by_type(
    0, _touched_to_dense, {Cleared: _touched_to_cleared, Weights: _touched_to_weights, Scaled: _touched_to_scaled}
)
dot_touched = by_type(
    0, _dense_dot_touched, {Cleared: _cleared_dot_touched, Weights: _dense_dot_touched, Scaled: _dense_dot_touched}
)
fill = by_type(0, linalg.fill, {Cleared: _clear})
scale_by = by_type(0, linalg.scale_by, {Cleared: _scale_touched, Scaled: _scale_all})
add_scaled = by_type(2, linalg.add_scaled, {Cleared: _add_touched})
dot = by_type(1, linalg.dot, {Cleared: _dot_touched, Scaled: _own_square})
