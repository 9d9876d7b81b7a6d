"""Vectors that drift: a multiple of another vector is added to all of their entries at every step, and costs nothing.

    theta += c s        at every step, where s changes in few entries

is kept as theta = values + drift s, with the sum of all c in ``drift``. Where s changes, ``values`` changes against it,
so that theta stays where it is. The lag of its average (`vectors`) grows by C c s with every such step, and is kept as
lag + lagged s in the same way. SVRG and SAGA add the mean of all gradients so. Rounding grows with ``drift``, so it is
added to the entries after as many steps as there are entries, which costs one entry per step.

NASA adds a multiple of z to theta and shrinks z: theta -= (alpha / beta) z and z *= 1 - a alpha. Then
theta - z / (a beta) stays, whatever alpha is, and theta is kept as that plus z / (a beta).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gradtd.core.arrays import Floats, Index

WEIGHT, OUTSIDE, LIMIT = 0, 1, 2
"""Numbers of `vectors.Weights` and of `Drifting`: the sum C of the weights in the average, whether an entry was beyond
the limit, the limit."""
DRIFT, LAGGED, SINCE = 3, 4, 5
"""Further numbers of `Drifting`: how far along its course it has come, its lag, and the steps since it was settled."""
FAR = 1e100
"""Where a factor is beyond this, or below its inverse, it is multiplied into the entries, once in a long while."""
SELDOM = 4096
"""Steps until it is settled, where there are fewer entries."""


class Drifting(NamedTuple):
    """The vector values + drift course; its average is less by (lag + lagged course) / C."""

    values: Floats
    lag: Floats
    numbers: Floats
    course: Floats


class Course(NamedTuple):
    """The vector that another one drifts along."""

    values: Floats
    of: Drifting


class Leading(NamedTuple):
    """Theta as in `vectors.Weights`, where another vector drifts along it."""

    values: Floats
    lag: Floats
    numbers: Floats
    of: Drifting


class Shrinking(NamedTuple):
    """The vector numbers[0] values, which shrinks while theta moves along it: theta less a multiple of it stays."""

    values: Floats
    numbers: Floats
    of: Drifting


def slide(theta: Any, z: Shrinking, alpha: float, a: float, beta: float) -> None:
    """theta -= (alpha / beta) z, then z *= 1 - a alpha"""
    scale = z.numbers[0] * (1.0 - a * alpha)
    if not 1.0 / FAR < abs(scale) < FAR:
        for k in range(z.values.shape[0]):
            z.values[k] *= scale
        scale = 1.0
    z.numbers[0] = scale
    z.of.numbers[DRIFT] = scale / (a * beta)


def shrinking_add_at(out: Shrinking, k: Index, x: float) -> None:
    """out[k] += x, and theta stays"""
    change = x / out.numbers[0]
    out.values[k] += change
    out.of.values[k] -= out.of.numbers[DRIFT] * change
    if not abs(drifting_value_at(out.of, k)) <= out.of.numbers[LIMIT]:
        out.of.numbers[OUTSIDE] = 1.0


def leading_add_at(out: Leading, k: Index, x: float) -> None:
    """out[k] += x, and what drifts along it stays"""
    before = out.values[k]
    after = before + x
    out.values[k] = after
    out.of.values[k] -= out.of.numbers[DRIFT] * (after - before)
    if out.numbers[WEIGHT] != 0.0:
        out.lag[k] += out.numbers[WEIGHT] * (after - before)
    if not abs(after) <= out.numbers[LIMIT]:
        out.numbers[OUTSIDE] = 1.0


def drift(out: Any, c: float, v: Any) -> None:
    """out += c v, where v is the course of out"""
    numbers = v.of.numbers
    numbers[DRIFT] += c
    numbers[LAGGED] += numbers[WEIGHT] * c
    numbers[SINCE] += 1.0
    if numbers[SINCE] > max(SELDOM, v.values.shape[0]):
        settle(v.of)


def settle(v: Drifting) -> None:
    """Add the drift to the entries"""
    for k in range(v.values.shape[0]):
        v.values[k] += v.numbers[DRIFT] * v.course[k]
    for k in range(v.lag.shape[0]):
        v.lag[k] += v.numbers[LAGGED] * v.course[k]
    v.numbers[DRIFT], v.numbers[LAGGED], v.numbers[SINCE] = 0.0, 0.0, 0.0


def drifting_value_at(v: Drifting, k: Index) -> Any:
    """v[k]"""
    return v.values[k] + v.numbers[DRIFT] * v.course[k]


def drifting_add_at(out: Drifting, k: Index, x: float) -> None:
    """out[k] += x"""
    out.values[k] += x
    if out.numbers[WEIGHT] != 0.0:
        out.lag[k] += out.numbers[WEIGHT] * x
    if not abs(drifting_value_at(out, k)) <= out.numbers[LIMIT]:
        out.numbers[OUTSIDE] = 1.0


def course_add_at(out: Course, k: Index, x: float) -> None:
    """out[k] += x, and what drifts stays"""
    numbers = out.of.numbers
    out.values[k] += x
    out.of.values[k] -= numbers[DRIFT] * x
    if numbers[WEIGHT] != 0.0:
        out.of.lag[k] -= numbers[LAGGED] * x


def course_set_at(out: Course, k: Index, x: float) -> None:
    """out[k] = x, and what drifts stays"""
    before: Any = out.values[k]
    course_add_at(out, k, x - before)
    out.values[k] = x
