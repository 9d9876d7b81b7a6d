"""Vectors and small matrices, in explicit loops that the engine compiles.

Loops are explicit because they are faster than array expressions for the usual numbers of features.
"""

from __future__ import annotations

from gradtd.core.arrays import Floats

ThreeFloats = tuple[float, float, float]
FourFloats = tuple[float, float, float, float]


def dot(u: Floats, v: Floats) -> float:
    """u . v"""
    total = 0.0
    for k in range(u.shape[0]):
        total += u[k] * v[k]
    return total


def fill(out: Floats, value: float) -> None:
    """out = value, in every entry"""
    for k in range(out.shape[0]):
        out[k] = value


def copy(out: Floats, v: Floats) -> None:
    """out = v"""
    for k in range(out.shape[0]):
        out[k] = v[k]


def scale_by(out: Floats, c: float) -> None:
    """out *= c"""
    for k in range(out.shape[0]):
        out[k] *= c


def add_scaled(out: Floats, c: float, v: Floats) -> None:
    """out += c v"""
    for k in range(out.shape[0]):
        out[k] += c * v[k]


def multiply(out: Floats, u: Floats, v: Floats) -> None:
    """out = u v, entry by entry"""
    for k in range(out.shape[0]):
        out[k] = u[k] * v[k]


def matrix_apply(matrix: Floats, v: Floats, out: Floats) -> None:
    """out = M v"""
    for i in range(out.shape[0]):
        total = 0.0
        for k in range(v.shape[0]):
            total += matrix[i, k] * v[k]
        out[i] = total


def matrix_transpose_apply(matrix: Floats, u: Floats, out: Floats) -> None:
    """out = M' u, along the rows of M in memory order"""
    fill(out, 0.0)
    for i in range(u.shape[0]):
        add_scaled(out, u[i], matrix[i])


def add_to_inverse(inverse: Floats, u: Floats, v: Floats, left: Floats, right: Floats) -> None:
    """Replace the inverse of M by that of M + u v' (Sherman-Morrison). ``left`` becomes the new inverse times u.

    If M + u v' is singular to rounding, the step is skipped and ``left`` is zero.
    """
    matrix_apply(inverse, u, left)
    matrix_transpose_apply(inverse, v, right)
    denominator = 1.0 + dot(v, left)
    if abs(denominator) < 1e-12:
        fill(left, 0.0)
        return
    scale = 1.0 / denominator
    for i in range(left.shape[0]):
        left[i] *= scale
        add_scaled(inverse[i], -left[i], right)


def weighted_dot(w: Floats, a: Floats, b: Floats) -> float:
    """sum of w a b"""
    total = 0.0
    for k in range(w.shape[0]):
        total += w[k] * a[k] * b[k]
    return total


def weighted(out: Floats, c: float, w: Floats, v: Floats) -> None:
    """out = c w v, entry by entry"""
    for k in range(out.shape[0]):
        out[k] = c * w[k] * v[k]


def line_sums(p: Floats, q: Floats, u: Floats, s: Floats, inverse: Floats, least: Floats) -> FourFloats:
    """The sums of q u / s, of q^2 / s, of p^2 s and of p^2 least, in one pass"""
    along, square, size, small = 0.0, 0.0, 0.0, 0.0
    for k in range(u.shape[0]):
        scaled = q[k] * inverse[k]
        along += scaled * u[k]
        square += scaled * q[k]
        size += p[k] * p[k] * s[k]
        small += p[k] * p[k] * least[k]
    return along, square, size, small
