"""Krylov GTD with few features, which keeps A and searches along A^{-1} u, with the factors of an earlier A.

With d features A has d^2 entries, while n steps have 2 n d. Once n is well above d, A is smaller than the data, and a
product with A is cheaper than a pass over the steps.
"""

from __future__ import annotations

import numpy as np

from gradtd.compiled.linalg import add_scaled, copy, matrix_transpose_apply, multiply, weighted_dot
from gradtd.compiled.rows import trace_place, two_difference_dots
from gradtd.compiled.sums import (
    add_to_sums,
    factorise,
    pulled_back,
    row_square,
    scaled_copy,
    solve_transposed,
    square_roots,
)
from gradtd.core.arrays import State
from gradtd.core.stream import StreamView

LARGEST = 512
"""With more features A is not kept: adding a step to it would cost more than an update of Impression GTD."""
PER_FEATURE, CLEAR, LARGER = 16.0, 0.04, 1.2
"""A^{-1} is used from this number of effective steps per feature on, if the noise of the image of A^{-1} u is below
this share of <u, u>, or if the step increases squared TD errors by at most this factor."""
AGAIN = 0.1
"""Whether to use A^{-1} is decided again when this share of the data is new."""
RIDGE = 1e-3
"""Ridge towards the weights at the last decision about A^{-1}, in units of a feature's usual square."""
GROWTH, POOR = 0.25, 0.25
"""A is factorised again when this share of the data is new, or when more than this share of NEU remains after a
search."""
ADDED, REMOVED, FACTORISED, CHANGED, STALE, SOLVES, LOOKED = 5, 6, 7, 8, 9, 10, 11
"""Indices of ``state.counters``: steps added to the sums; steps removed; steps in the sums at the last factorisation;
steps added since; whether the latest search was poor; whether A^{-1} is used; when that was decided."""


def can_solve(state: State, stream: StreamView, oldest: int, seen: int) -> bool:
    """Whether to search along p = A^{-1} u: there must be enough steps, and p must not be dominated by noise.

    Effective steps are (sum of rho)^2 / sum of rho^2. The noise in A p is about the sum of rho^2 <e, e> (y.p)^2, spread
    over d features. If it is too large, the step to theta - p must at least not increase the sum of rho^2 <e, e>
    delta^2, the noise in u. LSTD fails both conditions if the effective number of steps is small and A is close to
    singular. The test is skipped while u is zero.
    """
    d = state.sums.shape[0]
    if not state.ratios[0] ** 2 >= PER_FEATURE * d * state.ratios[1] or d == 0 or state.ratios[1] <= 0.0:
        state.counters[SOLVES] = 0
        return False
    if state.counters[SOLVES] == 1:
        return True
    n = seen - oldest
    nothing = not weighted_dot(state.inverse, state.u, state.u) > 0.0
    if nothing or seen - state.counters[LOOKED] < AGAIN * n:
        return False
    state.counters[LOOKED] = seen
    bring_up_to_date(state, stream, oldest, seen)
    copy(state.anchor, state.theta)
    prepare(state, n)
    length = find_direction(state)
    along, before, after = noise(state, stream, oldest, seen)
    if along < CLEAR * d * length or after < LARGER * before:
        state.counters[SOLVES] = 1
    return state.counters[SOLVES] == 1  # type: ignore[no-any-return]


def bring_up_to_date(state: State, stream: StreamView, oldest: int, seen: int) -> None:
    """Add new steps to the sums, and subtract those that have left the window."""
    add_to_sums(stream.features, stream.traces, stream.steps, state.counters[ADDED], seen, 1.0, state.sums)
    add_to_sums(stream.features, stream.traces, stream.steps, state.counters[REMOVED], oldest, -1.0, state.sums)
    state.counters[CHANGED] += seen - state.counters[ADDED]
    state.counters[ADDED] = seen
    state.counters[REMOVED] = oldest


def prepare(state: State, n: int) -> None:
    """Factorise A - R, with features scaled to a sum of squares of one."""
    square_roots(state.inverse, state.root)
    scaled_copy(state.sums, state.root, RIDGE, state.least, state.factors)
    factorise(state.factors, state.order)
    state.counters[FACTORISED] = n
    state.counters[CHANGED] = 0
    state.counters[STALE] = 0


def find_direction(state: State) -> float:
    """left = u - R (theta - anchor), move = (A0 - R)^{-1} left with the latest factors; returns <left, left> / n."""
    pulled_back(state.u, RIDGE, state.least, state.theta, state.anchor, state.left)
    multiply(state.moved, state.root, state.left)
    solve_transposed(state.factors, state.order, state.moved, state.move)
    multiply(state.move, state.root, state.move)
    return weighted_dot(state.inverse, state.left, state.left)


def noise(state: State, stream: StreamView, oldest: int, seen: int) -> tuple[float, float, float]:
    """The sums of rho^2 <e, e> / n times (y.p)^2, delta^2 and (delta - y.p)^2 over the stored steps, p = move"""
    along, before, after = 0.0, 0.0, 0.0
    for t in range(oldest, seen):
        step = stream.steps[t]
        if step.rho > 0.0:
            at_theta, at_p = two_difference_dots(
                stream.features, step.row, step.next_row, step.discount, state.theta, state.move
            )
            left, row = trace_place(stream.traces, stream.features, step.row, t)
            c = step.rho * step.rho * row_square(left, row, state.inverse)
            delta = step.reward + at_theta
            along += c * at_p * at_p
            before += c * delta * delta
            after += c * (delta - at_p) * (delta - at_p)
    return along, before, after


def solve(state: State, stream: StreamView, oldest: int, seen: int) -> None:
    """theta -= a p along p = (A0 - R)^{-1} (u - R (theta - anchor)), a by a line search on the residual.

    A0 is the sum at the latest factorisation, anchor the weights at the decision to solve, and R the diagonal of
    ``RIDGE`` times the usual squares of features.
    """
    bring_up_to_date(state, stream, oldest, seen)
    n, changed = seen - oldest, state.counters[CHANGED]
    stale = state.counters[STALE] == 1 and 2 * changed > state.sums.shape[0]
    if stale or changed > GROWTH * state.counters[FACTORISED]:
        prepare(state, n)
    before = find_direction(state)
    matrix_transpose_apply(state.sums, state.move, state.moved)
    pulled_back(state.moved, RIDGE, state.least, state.move, state.nowhere, state.image)
    square = weighted_dot(state.inverse, state.image, state.image)
    if square > 0.0:
        along = weighted_dot(state.inverse, state.image, state.left)
        add_scaled(state.theta, -along / square, state.move)
        add_scaled(state.u, -along / square, state.moved)
        state.counters[STALE] = 1 if along * along / square < (1.0 - POOR) * before else 0


def fields(n_features: int) -> dict[str, np.ndarray]:
    """The state arrays for a kept A; empty if A is not kept."""
    d = n_features if n_features <= LARGEST else 0
    vectors = ("anchor", "root", "left", "move", "moved", "image", "nowhere")
    matrices = {name: np.zeros((d, d)) for name in ("sums", "factors")}
    return {name: np.zeros(d) for name in vectors} | matrices | {"order": np.zeros(d, np.int64), "ratios": np.zeros(2)}
