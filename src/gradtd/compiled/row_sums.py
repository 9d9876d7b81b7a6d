"""What Krylov GTD asks of an arriving step: sums over one row of features, or over two, dense or sparse.

Sparse rows are merged, so that an entry of y where both have one is met once, and in the order of dense features: the
sums are the same to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtd.compiled.kinds import by_storage
from gradtd.compiled.linalg import ThreeFloats
from gradtd.compiled.rows import difference_dot
from gradtd.core.arrays import Floats, Index


def _dense_entries_a_row(features: Any) -> float:
    """How many entries a row holds, on average"""
    return float(features.shape[1])


def _sparse_entries_a_row(features: Any) -> float:
    return float(features.data.shape[0] / (features.begin.shape[0] - 1))


def _dense_add_squares(features: Any, row: Index, least: Floats, squares: Floats, s: Floats, inverse: Floats) -> None:
    """squares += x^2;  s = squares, or ``least`` where that is more, and inverse = 1 / s, where x is not 0"""
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
