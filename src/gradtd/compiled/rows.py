"""Reading rows of features, dense or sparse, in explicit loops that the engine compiles.

Every function here has two versions, for a dense table and for compressed rows; the engine selects one (`dispatch`).
With sparse rows a vector may be more than an array (`vectors`), so its entries are read by `value_at` and added to by
`add_at`. Loops are explicit because they are faster than array expressions for the usual numbers of features. Each sum
has a fixed order of terms, so that a seed gives the same bytes everywhere. Features may be float32: an entry becomes
float64 when it is first multiplied by a float64. Numbers from a rule are converted first, because a Python float would
leave the product in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtd.compiled.dispatch import by_storage, by_type
from gradtd.compiled.linalg import FourFloats, ThreeFloats, copy
from gradtd.compiled.vectors import add_at, add_at_two, scale_by, two_values_at, value_at
from gradtd.core.arrays import Floats, Index
from gradtd.core.stream_arrays import SparseRows


def _dense_row_dot(features: Any, row: Index, v: Floats) -> float:
    """x . v"""
    total = 0.0
    for k in range(v.shape[0]):
        total += features[row, k] * v[k]
    return total


def _sparse_row_dot(features: Any, row: Index, v: Floats) -> float:
    total = 0.0
    for k in range(features.begin[row], features.begin[row + np.uint64(1)]):
        total += features.data[k] * value_at(v, features.indices[k])
    return total


def _dense_add_row(features: Any, row: Index, c: float, out: Floats) -> None:
    """out += c x"""
    wide = np.float64(c)
    for k in range(out.shape[0]):
        out[k] += wide * features[row, k]


def _sparse_add_row(features: Any, row: Index, c: float, out: Floats) -> None:
    wide = np.float64(c)
    for k in range(features.begin[row], features.begin[row + np.uint64(1)]):
        add_at(out, features.indices[k], wide * features.data[k])


def _dense_scale_and_add_row(features: Any, row: Index, s: float, c: float, out: Floats) -> None:
    """out = s out + c x, in one pass"""
    wide = np.float64(c)
    for k in range(out.shape[0]):
        out[k] = s * out[k] + wide * features[row, k]


def _sparse_scale_and_add_row(features: Any, row: Index, s: float, c: float, out: Floats) -> None:
    scale_by(out, s)
    _sparse_add_row(features, row, c, out)


def _dense_add_two_rows(
    features: Any, next_row: Index, e: float, table: Any, row: Index, c: float, out: Floats
) -> None:
    """out += c x, with x in ``table``, then out += e x_next: in one pass, because a stored sum is slow to read again"""
    wide_c, wide_e = np.float64(c), np.float64(e)
    for k in range(out.shape[0]):
        out[k] = (out[k] + wide_c * table[row, k]) + wide_e * features[next_row, k]


def _sparse_add_two_rows(
    features: Any, next_row: Index, e: float, table: Any, row: Index, c: float, out: Floats
) -> None:
    _sparse_add_row(table, row, c, out)
    _sparse_add_row(features, next_row, e, out)


def _dense_difference_dot(features: Any, row: Index, next_row: Index, discount: float, v: Floats) -> float:
    """y . v"""
    total = 0.0
    for k in range(v.shape[0]):
        total += (discount * features[next_row, k] - features[row, k]) * v[k]
    return total


def _sparse_difference_dot(features: Any, row: Index, next_row: Index, discount: float, v: Floats) -> float:
    return discount * _sparse_row_dot(features, next_row, v) - _sparse_row_dot(features, row, v)


def _dense_add_difference(features: Any, row: Index, next_row: Index, discount: float, c: float, out: Floats) -> None:
    """out += c y"""
    for k in range(out.shape[0]):
        out[k] += c * (discount * features[next_row, k] - features[row, k])


def _sparse_add_difference(features: Any, row: Index, next_row: Index, discount: float, c: float, out: Floats) -> None:
    _sparse_add_row(features, next_row, c * discount, out)
    _sparse_add_row(features, row, -c, out)


def _dense_copy_read(features: Any, traces: Any, step: Any, t: Index, out: Floats, v: Floats) -> None:
    """out = v, at least where step t has entries"""
    copy(out, v)


def _sparse_copy_read(features: Any, traces: Any, step: Any, t: Index, out: Floats, v: Any) -> None:
    _copy_entries(features, np.uint64(step.row), out, v)
    _copy_entries(features, np.uint64(step.next_row), out, v)
    if traces is not None:
        _copy_entries(traces, np.uint64(t), out, v)


def _copy_entries(table: Any, row: Index, out: Floats, v: Any) -> None:
    for k in range(table.begin[row], table.begin[row + np.uint64(1)]):
        out[table.indices[k]] = value_at(v, table.indices[k])


def _dense_two_row_dots(features: Any, row: Index, u: Floats, v: Floats) -> tuple[float, float]:
    """x . u and x . v"""
    one = 0.0
    two = 0.0
    for k in range(u.shape[0]):
        x = features[row, k]
        one += x * u[k]
        two += x * v[k]
    return one, two


def _sparse_two_row_dots(features: Any, row: Index, u: Floats, v: Floats) -> tuple[float, float]:
    one = 0.0
    two = 0.0
    for k in range(features.begin[row], features.begin[row + np.uint64(1)]):
        on_u, on_v = two_values_at(u, v, features.indices[k])
        one += features.data[k] * on_u
        two += features.data[k] * on_v
    return one, two


def _dense_add_row_to_two(features: Any, row: Index, c: float, e: float, out: Floats, other: Floats) -> None:
    """out += c x and other += e x"""
    for k in range(out.shape[0]):
        x = np.float64(features[row, k])
        out[k] += c * x
        other[k] += e * x


def _sparse_add_row_to_two(features: Any, row: Index, c: float, e: float, out: Floats, other: Floats) -> None:
    for k in range(features.begin[row], features.begin[row + np.uint64(1)]):
        x = np.float64(features.data[k])
        add_at_two(out, other, features.indices[k], c * x, e * x)


def _dense_two_difference_dots(
    features: Any, row: Index, next_row: Index, discount: float, u: Floats, v: Floats
) -> tuple[float, float]:
    """y . u and y . v"""
    one = 0.0
    two = 0.0
    for k in range(u.shape[0]):
        y = discount * features[next_row, k] - features[row, k]
        one += y * u[k]
        two += y * v[k]
    return one, two


def _sparse_two_difference_dots(
    features: Any, row: Index, next_row: Index, discount: float, u: Floats, v: Floats
) -> tuple[float, float]:
    one, two = _sparse_two_row_dots(features, row, u, v)
    next_one, next_two = _sparse_two_row_dots(features, next_row, u, v)
    return discount * next_one - one, discount * next_two - two


def _dense_add_difference_to_two(
    features: Any, row: Index, next_row: Index, discount: float, c: float, e: float, out: Floats, other: Floats
) -> None:
    """out += c y and other += e y"""
    for k in range(out.shape[0]):
        y = discount * features[next_row, k] - features[row, k]
        out[k] += c * y
        other[k] += e * y


def _sparse_add_difference_to_two(
    features: Any, row: Index, next_row: Index, discount: float, c: float, e: float, out: Floats, other: Floats
) -> None:
    _sparse_add_row_to_two(features, next_row, c * discount, e * discount, out, other)
    _sparse_add_row_to_two(features, row, -c, -e, out, other)


def _dense_add_outer(
    features: Any, traces: Any, place: Index, row: Index, next_row: Index, discount: float, c: float, out: Floats
) -> None:
    """out += c e y', with e in row ``place`` of ``traces``"""
    for i in range(out.shape[0]):
        scale = c * np.float64(traces[place, i])
        if scale != 0.0:
            for k in range(out.shape[1]):
                out[i, k] += scale * (discount * features[next_row, k] - features[row, k])


def _sparse_add_outer(
    features: Any, traces: Any, place: Index, row: Index, next_row: Index, discount: float, c: float, out: Floats
) -> None:
    for i in range(traces.begin[place], traces.begin[place + np.uint64(1)]):
        scale = c * np.float64(traces.data[i])
        _sparse_add_difference(features, row, next_row, discount, scale, out[traces.indices[i]])


# The location of a step's trace. The branch is known at compile time.


def _traced_place(traces: Any, features: Any, row: Index, t: Index) -> tuple[Any, Any]:
    """The table and the row that hold e of step t: without traces, its own features"""
    return traces, np.uint64(t)


def _own_place(traces: Any, features: Any, row: Index, t: Index) -> tuple[Any, Any]:
    return features, row


def trace_and_row_dot(traces: Any, features: Any, row: Index, t: Index, v: Floats) -> tuple[float, float]:
    """e . v and x . v"""
    if traces is None:
        along = row_dot(features, row, v)
        return along, along
    return row_dot(traces, np.uint64(t), v), row_dot(features, row, v)


def add_trace_and_row(
    traces: Any, features: Any, row: Index, t: Index, scale: float, a: float, b: float, out: Floats
) -> None:
    """out += scale (a e - b x)"""
    if traces is None:
        add_row(features, row, scale * (a - b), out)
    else:
        add_row(traces, np.uint64(t), scale * a, out)
        add_row(features, row, -scale * b, out)


def scale_and_add_trace_and_row(
    traces: Any, features: Any, row: Index, t: Index, s: float, amounts: ThreeFloats, out: Floats
) -> None:
    """out = s out + scale (a e - b x), with (scale, a, b) = ``amounts``"""
    scale, a, b = amounts
    if traces is None:
        scale_and_add_row(features, row, s, scale * (a - b), out)
    else:
        scale_by(out, s)
        add_trace_and_row(traces, features, row, t, scale, a, b, out)


# Four rows at once: additions of one sum depend on each other, those of four sums do not. This is two to three times
# faster, and every sum is the same to the last bit.


def _dense_four_row_dots(features: Any, a: Index, b: Index, c: Index, e: Index, v: Floats) -> FourFloats:
    """x . v for four rows"""
    of_a, of_b, of_c, of_e = 0.0, 0.0, 0.0, 0.0
    for k in range(v.shape[0]):
        of_a += features[a, k] * v[k]
        of_b += features[b, k] * v[k]
        of_c += features[c, k] * v[k]
        of_e += features[e, k] * v[k]
    return of_a, of_b, of_c, of_e


def _sparse_four_row_dots(features: Any, a: Index, b: Index, c: Index, e: Index, v: Floats) -> FourFloats:
    return (
        _sparse_row_dot(features, a, v),
        _sparse_row_dot(features, b, v),
        _sparse_row_dot(features, c, v),
        _sparse_row_dot(features, e, v),
    )


def _dense_four_difference_dots(features: Any, a: Any, b: Any, c: Any, e: Any, v: Floats) -> FourFloats:
    """y . v for four steps"""
    of_a, of_b, of_c, of_e = 0.0, 0.0, 0.0, 0.0
    for k in range(v.shape[0]):
        of_a += (a.discount * features[a.next_row, k] - features[a.row, k]) * v[k]
        of_b += (b.discount * features[b.next_row, k] - features[b.row, k]) * v[k]
        of_c += (c.discount * features[c.next_row, k] - features[c.row, k]) * v[k]
        of_e += (e.discount * features[e.next_row, k] - features[e.row, k]) * v[k]
    return of_a, of_b, of_c, of_e


def _sparse_four_difference_dots(features: Any, a: Any, b: Any, c: Any, e: Any, v: Floats) -> FourFloats:
    return (
        _sparse_difference_dot(features, a.row, a.next_row, a.discount, v),
        _sparse_difference_dot(features, b.row, b.next_row, b.discount, v),
        _sparse_difference_dot(features, c.row, c.next_row, c.discount, v),
        _sparse_difference_dot(features, e.row, e.next_row, e.discount, v),
    )


def _dense_four_two_row_dots(
    features: Any, a: Index, b: Index, c: Index, e: Index, u: Floats, v: Floats
) -> tuple[FourFloats, FourFloats]:
    """x . u for four rows, and x . v"""
    u_a, u_b, u_c, u_e = 0.0, 0.0, 0.0, 0.0
    v_a, v_b, v_c, v_e = 0.0, 0.0, 0.0, 0.0
    for k in range(v.shape[0]):
        x_a, x_b, x_c, x_e = features[a, k], features[b, k], features[c, k], features[e, k]
        u_a += x_a * u[k]
        v_a += x_a * v[k]
        u_b += x_b * u[k]
        v_b += x_b * v[k]
        u_c += x_c * u[k]
        v_c += x_c * v[k]
        u_e += x_e * u[k]
        v_e += x_e * v[k]
    return (u_a, u_b, u_c, u_e), (v_a, v_b, v_c, v_e)


def _sparse_four_two_row_dots(
    features: Any, a: Index, b: Index, c: Index, e: Index, u: Floats, v: Floats
) -> tuple[FourFloats, FourFloats]:
    u_a, v_a = _sparse_two_row_dots(features, a, u, v)
    u_b, v_b = _sparse_two_row_dots(features, b, u, v)
    u_c, v_c = _sparse_two_row_dots(features, c, u, v)
    u_e, v_e = _sparse_two_row_dots(features, e, u, v)
    return (u_a, u_b, u_c, u_e), (v_a, v_b, v_c, v_e)


def _dense_four_two_difference_dots(
    features: Any, a: Any, b: Any, c: Any, e: Any, u: Floats, v: Floats
) -> tuple[FourFloats, FourFloats]:
    """y . u for four steps, and y . v"""
    u_a, u_b, u_c, u_e = 0.0, 0.0, 0.0, 0.0
    v_a, v_b, v_c, v_e = 0.0, 0.0, 0.0, 0.0
    for k in range(v.shape[0]):
        y_a = a.discount * features[a.next_row, k] - features[a.row, k]
        y_b = b.discount * features[b.next_row, k] - features[b.row, k]
        y_c = c.discount * features[c.next_row, k] - features[c.row, k]
        y_e = e.discount * features[e.next_row, k] - features[e.row, k]
        u_a += y_a * u[k]
        v_a += y_a * v[k]
        u_b += y_b * u[k]
        v_b += y_b * v[k]
        u_c += y_c * u[k]
        v_c += y_c * v[k]
        u_e += y_e * u[k]
        v_e += y_e * v[k]
    return (u_a, u_b, u_c, u_e), (v_a, v_b, v_c, v_e)


def _sparse_four_two_difference_dots(
    features: Any, a: Any, b: Any, c: Any, e: Any, u: Floats, v: Floats
) -> tuple[FourFloats, FourFloats]:
    u_a, v_a = _sparse_two_difference_dots(features, a.row, a.next_row, a.discount, u, v)
    u_b, v_b = _sparse_two_difference_dots(features, b.row, b.next_row, b.discount, u, v)
    u_c, v_c = _sparse_two_difference_dots(features, c.row, c.next_row, c.discount, u, v)
    u_e, v_e = _sparse_two_difference_dots(features, e.row, e.next_row, e.discount, u, v)
    return (u_a, u_b, u_c, u_e), (v_a, v_b, v_c, v_e)


trace_place = by_type(0, _traced_place, {SparseRows: _traced_place, type(None): _own_place})
row_dot = by_storage(_dense_row_dot, _sparse_row_dot)
add_row = by_storage(_dense_add_row, _sparse_add_row)
scale_and_add_row = by_storage(_dense_scale_and_add_row, _sparse_scale_and_add_row)
add_two_rows = by_storage(_dense_add_two_rows, _sparse_add_two_rows)
difference_dot = by_storage(_dense_difference_dot, _sparse_difference_dot)
add_difference = by_storage(_dense_add_difference, _sparse_add_difference)
add_outer = by_storage(_dense_add_outer, _sparse_add_outer)
two_row_dots = by_storage(_dense_two_row_dots, _sparse_two_row_dots)
add_row_to_two = by_storage(_dense_add_row_to_two, _sparse_add_row_to_two)
two_difference_dots = by_storage(_dense_two_difference_dots, _sparse_two_difference_dots)
add_difference_to_two = by_storage(_dense_add_difference_to_two, _sparse_add_difference_to_two)
four_row_dots = by_storage(_dense_four_row_dots, _sparse_four_row_dots)
four_difference_dots = by_storage(_dense_four_difference_dots, _sparse_four_difference_dots)
four_two_row_dots = by_storage(_dense_four_two_row_dots, _sparse_four_two_row_dots)
four_two_difference_dots = by_storage(_dense_four_two_difference_dots, _sparse_four_two_difference_dots)
copy_read = by_storage(_dense_copy_read, _sparse_copy_read)
