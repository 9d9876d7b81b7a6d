"""Operations of Krylov GTD on rows of features and square matrices: sums over steps, factorisation, and solves.

Matrices are stored transposed: row k of ``sums`` is the sum of rho y_k e. Products with A and solves are then sums of
rows, which compiled code vectorises. The two sparse rows of a step are merged, so that each entry of y is processed
once, in the order of dense features, and the sums are bit-identical.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtd.compiled.dispatch import by_storage
from gradtd.compiled.linalg import ThreeFloats, add_scaled, fill
from gradtd.compiled.rows import add_row, difference_dot, trace_place
from gradtd.core.arrays import Floats, Index, Integers

ROWS = 4096
"""Maximum number of rows used to estimate the typical size of a feature."""


def _dense_add_to_sums(features: Any, traces: Any, steps: Any, begin: int, end: int, sign: float, out: Floats) -> None:
    """out += sign times the sum of rho y e' over the steps from begin to end: four at a time, one pass over out"""
    t = begin
    while t + 4 <= end:
        a, b, c, e = steps[t], steps[t + 1], steps[t + 2], steps[t + 3]
        row_a, row_b, row_c, row_e = features[a.row], features[b.row], features[c.row], features[e.row]
        next_a, next_b = features[a.next_row], features[b.next_row]
        next_c, next_e = features[c.next_row], features[e.next_row]
        left, at_a = trace_place(traces, features, a.row, t)
        _, at_b = trace_place(traces, features, b.row, t + 1)
        _, at_c = trace_place(traces, features, c.row, t + 2)
        _, at_e = trace_place(traces, features, e.row, t + 3)
        left_a, left_b, left_c, left_e = left[at_a], left[at_b], left[at_c], left[at_e]
        for k in range(out.shape[0]):
            of_a = sign * a.rho * (a.discount * next_a[k] - row_a[k])
            of_b = sign * b.rho * (b.discount * next_b[k] - row_b[k])
            of_c = sign * c.rho * (c.discount * next_c[k] - row_c[k])
            of_e = sign * e.rho * (e.discount * next_e[k] - row_e[k])
            if of_a != 0.0 or of_b != 0.0 or of_c != 0.0 or of_e != 0.0:
                line = out[k]
                for i in range(out.shape[1]):
                    line[i] += (of_a * left_a[i] + of_b * left_b[i]) + (of_c * left_c[i] + of_e * left_e[i])
        t += 4
    for last in range(t, end):
        a = steps[last]
        left, at_a = trace_place(traces, features, a.row, last)
        for k in range(out.shape[0]):
            of_a = sign * a.rho * (a.discount * features[a.next_row, k] - features[a.row, k])
            if of_a != 0.0:
                add_row(left, at_a, of_a, out[k])


def _sparse_add_to_sums(features: Any, traces: Any, steps: Any, begin: int, end: int, sign: float, out: Floats) -> None:
    for t in range(begin, end):
        step = steps[t]
        c = sign * step.rho
        left, row = trace_place(traces, features, step.row, t)
        for k in range(features.begin[step.next_row], features.begin[step.next_row + np.uint64(1)]):
            add_row(left, row, c * step.discount * features.data[k], out[features.indices[k]])
        for k in range(features.begin[step.row], features.begin[step.row + np.uint64(1)]):
            add_row(left, row, -c * features.data[k], out[features.indices[k]])


def _dense_usual_squares(features: Any, out: Floats, scratch: Floats) -> None:
    """out = sum of x^4 / sum of x^2 for every feature, the typical size of x^2; 0 if the feature is always 0"""
    fill(out, 0.0)
    fill(scratch, 0.0)
    # A sample of the rows is enough for a typical size, and a table may be as long as a log.
    for row in range(0, features.shape[0], 1 + features.shape[0] // ROWS):
        for k in range(out.shape[0]):
            x = np.float64(features[row, k])
            square = x * x
            scratch[k] += square
            out[k] += square * square
    divide_where_positive(out, scratch)


def _sparse_usual_squares(features: Any, out: Floats, scratch: Floats) -> None:
    fill(out, 0.0)
    fill(scratch, 0.0)
    rows = features.begin.shape[0] - 1
    for row in range(0, rows, 1 + rows // ROWS):
        for k in range(features.begin[row], features.begin[row + 1]):
            x = np.float64(features.data[k])
            square = x * x
            scratch[features.indices[k]] += square
            out[features.indices[k]] += square * square
    divide_where_positive(out, scratch)


add_to_sums = by_storage(_dense_add_to_sums, _sparse_add_to_sums)
usual_squares = by_storage(_dense_usual_squares, _sparse_usual_squares)


def divide_where_positive(out: Floats, by: Floats) -> None:
    """out /= by, 0 where by is not above 0"""
    for k in range(out.shape[0]):
        out[k] = out[k] / by[k] if by[k] > 0.0 else 0.0


def square_roots(v: Floats, out: Floats) -> None:
    """out = sqrt(v), entry by entry"""
    for k in range(out.shape[0]):
        out[k] = np.sqrt(v[k])


def pulled_back(u: Floats, c: float, s: Floats, v: Floats, towards: Floats, out: Floats) -> None:
    """out = u - c s (v - towards), entry by entry"""
    for k in range(out.shape[0]):
        out[k] = u[k] - c * s[k] * (v[k] - towards[k])


def scaled_copy(sums: Floats, scale: Floats, c: float, s: Floats, out: Floats) -> None:
    """out[k, i] = scale[k] scale[i] (sums[k, i] minus c s[k] where k = i)"""
    for k in range(out.shape[0]):
        for i in range(out.shape[1]):
            out[k, i] = scale[k] * scale[i] * sums[k, i]
        out[k, k] -= scale[k] * scale[k] * c * s[k]


def factorise(matrix: Floats, order: Integers) -> None:
    """Replace M by L and U of M[order] = L U, rows exchanged for the largest pivot; L has ones on its diagonal."""
    d = matrix.shape[0]
    for k in range(d):
        order[k] = k
    for k in range(d):
        best = k
        for i in range(k + 1, d):
            if abs(matrix[i, k]) > abs(matrix[best, k]):
                best = i
        if best != k:
            order[k], order[best] = order[best], order[k]
            for j in range(d):
                matrix[k, j], matrix[best, j] = matrix[best, j], matrix[k, j]
        if matrix[k, k] == 0.0:
            continue
        for i in range(k + 1, d):
            if matrix[i, k] != 0.0:
                matrix[i, k] /= matrix[k, k]
                add_scaled(matrix[i, k + 1 :], -matrix[i, k], matrix[k, k + 1 :])


def solve_transposed(factors: Floats, order: Integers, v: Floats, out: Floats) -> None:
    """Solve M'out = v with the factors of M: U'w = v, then L'w = w, then out[order] = w. Overwrites v."""
    d = v.shape[0]
    for k in range(d):
        v[k] = v[k] / factors[k, k] if factors[k, k] != 0.0 else 0.0
        add_scaled(v[k + 1 :], -v[k], factors[k, k + 1 :])
    for k in range(d - 1, 0, -1):
        add_scaled(v[:k], -v[k], factors[k, :k])
    for k in range(d):
        out[order[k]] = v[k]


# One arriving step


def _dense_entries_a_row(features: Any) -> float:
    """Mean number of entries per row"""
    return float(features.shape[1])


def _sparse_entries_a_row(features: Any) -> float:
    return float(features.data.shape[0] / (features.begin.shape[0] - 1))


def _dense_add_squares(features: Any, row: Index, least: Floats, squares: Floats, s: Floats, inverse: Floats) -> None:
    """For x != 0: squares += x^2, s = max(squares, least) and inverse = 1 / s"""
    for k in range(s.shape[0]):
        x = np.float64(features[row, k])
        if x != 0.0:
            squares[k] += x * x
            s[k] = max(squares[k], least[k])
            if s[k] > 0.0:
                inverse[k] = 1.0 / s[k]


def _sparse_add_squares(features: Any, row: Index, least: Floats, squares: Floats, s: Floats, inverse: Floats) -> None:
    for k in range(features.begin[row], features.begin[row + np.uint64(1)]):
        at, x = features.indices[k], np.float64(features.data[k])
        squares[at] += x * x
        s[at] = max(squares[at], least[at])
        if s[at] > 0.0:
            inverse[at] = 1.0 / s[at]


def _dense_row_square(features: Any, row: Index, w: Floats) -> float:
    """sum of w x^2"""
    total = 0.0
    for k in range(w.shape[0]):
        total += w[k] * features[row, k] * features[row, k]
    return total


def _sparse_row_square(features: Any, row: Index, w: Floats) -> float:
    total = 0.0
    for k in range(features.begin[row], features.begin[row + np.uint64(1)]):
        total += w[features.indices[k]] * features.data[k] * features.data[k]
    return total


def _dense_difference_sums(
    features: Any, step: Any, v: Floats, w: Floats, p: Floats, n: int, along: Floats
) -> ThreeFloats:
    """y . v, the sum of |y v| and that of w y^2; along[i] = y . p[i] for the first n rows of p"""
    one, size, square = 0.0, 0.0, 0.0
    for k in range(v.shape[0]):
        y = step.discount * features[step.next_row, k] - features[step.row, k]
        one += y * v[k]
        size += abs(y * v[k])
        square += w[k] * y * y
    for i in range(n):
        along[i] = difference_dot(features, step.row, step.next_row, step.discount, p[i])
    return one, size, square


def _sparse_difference_sums(
    features: Any, step: Any, v: Floats, w: Floats, p: Floats, n: int, along: Floats
) -> ThreeFloats:
    one, size, square = 0.0, 0.0, 0.0
    for i in range(n):
        along[i] = 0.0
    j, end = features.begin[step.row], features.begin[step.row + np.uint64(1)]
    k, next_end = features.begin[step.next_row], features.begin[step.next_row + np.uint64(1)]
    while j < end or k < next_end:
        column = np.int64(features.indices[j]) if j < end else features.n_columns
        next_column = np.int64(features.indices[k]) if k < next_end else features.n_columns
        at = min(column, next_column)
        y = 0.0
        if next_column == at:
            y = step.discount * features.data[k]
            k += 1
        if column == at:
            y -= features.data[j]
            j += 1
        one += y * v[at]
        size += abs(y * v[at])
        square += w[at] * y * y
        for i in range(n):
            along[i] += y * p[i, at]
    return one, size, square


entries_a_row = by_storage(_dense_entries_a_row, _sparse_entries_a_row)
add_squares = by_storage(_dense_add_squares, _sparse_add_squares)
row_square = by_storage(_dense_row_square, _sparse_row_square)
difference_sums = by_storage(_dense_difference_sums, _sparse_difference_sums)
