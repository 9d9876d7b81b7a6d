"""Variance reduction for the saddle point of MSPBE: SVRG and SAGA (Du et al. 2017), on a stream of data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradtd.algorithms.parameters import ETA
from gradtd.compiled.linalg import ThreeFloats, copy
from gradtd.compiled.rows import difference_dot
from gradtd.compiled.vectors import add_scaled, fill
from gradtd.core.algorithm import Algorithm, Now, Parameter
from gradtd.core.arrays import Floats, Hyper, Index, State
from gradtd.core.checks import whole
from gradtd.core.stream import StreamView
from gradtd.estimates import add_gradient, add_trace_less_features, td_error, traced_and_projected


def svrg_gtd(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """SVRG on the saddle point of MSPBE: theta -= alpha (A'w at the anchor + A_B'(w - w_anchor)), and w likewise.

    The saddle function is w'(A theta + b) - w'C w / 2 over all stored steps, as in GTD2. With the means A, b, C over
    these steps, the means A_B and C_B over a drawn batch, and the anchor (theta0, w0),

        theta -= alpha (A'w0 + A_B'(w - w0))
        w     += eta alpha (A theta0 + b - C w0 + A_B (theta - theta0) - C_B (w - w0))

    from the old theta and w. The sums at the anchor are exact: each arriving step is added to them. The next anchor is
    (theta, w) at the start of a pass over the stored steps. The pass reads M stored steps at each step; when it ends,
    the next pass begins. Mean: that of GTD2; the noise vanishes as theta and its anchor converge to the solution on the
    stored steps, so there is no error floor. Cost O((m + M) d), with sparse rows at least O(d), because the sums at the
    anchor are added to theta and w at every step. For fixed data, A nonsingular and alpha small enough it converges
    linearly. Du, Chen, Li, Xiao and Zhou (2017), for fixed data and with a ridge on theta.
    """
    n, m = 1.0 / now.seen, 1.0 / now.first.shape[0]
    copy(state.difference, state.theta)
    add_scaled(state.difference, -1.0, state.anchor)
    copy(state.difference_w, state.w)
    add_scaled(state.difference_w, -1.0, state.anchor_w)
    for i in range(now.first.shape[0]):
        step, numbers = stream.steps[now.first[i]], state.batch[i]
        numbers[0], numbers[1] = traced_and_projected(stream, now.first[i], state.difference_w)
        numbers[2] = difference_dot(stream.features, step.row, step.next_row, step.discount, state.difference)
    add_scaled(state.theta, -now.alpha * n, state.sum)
    add_scaled(state.w, hyper.eta * now.alpha * n, state.sum_w)
    for i in range(now.first.shape[0]):
        t, rho = now.first[i], stream.steps[now.first[i]].rho
        along_e, along_w, along = state.batch[i, 0], state.batch[i, 1], state.batch[i, 2]
        add_gradient(stream, t, -now.alpha * m * rho * along_e, state.theta)
        add_trace_less_features(stream, t, hyper.eta * now.alpha * m, rho * along, along_w, state.w)


def add_and_read(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Add the latest step to the sums at the anchor, and read stored steps for the next anchor."""
    add_at(stream, now.t, state.anchor, state.anchor_w, state.sum, state.sum_w)
    read_for_next_anchor(state, stream, now, int(hyper.M))


def add_at(stream: StreamView, t: Index, theta: Floats, w: Floats, total: Floats, total_w: Floats) -> None:
    """total += A_t'w and total_w += A_t theta + b_t - C_t w"""
    rho = stream.steps[t].rho
    along_e, along = traced_and_projected(stream, t, w)
    add_gradient(stream, t, rho * along_e, total)
    add_trace_less_features(stream, t, 1.0, rho * td_error(stream, t, theta), along, total_w)


def read_for_next_anchor(state: State, stream: StreamView, now: Now, most: int) -> None:
    """Read stored steps for the sums at the next anchor; after the last one, the next anchor replaces the current
    one."""
    begin = state.read[0]
    if begin == 0:
        begin_pass(state)
    end = min(begin + most, now.seen)
    for t in range(begin, end):
        add_at(stream, np.uint64(t), state.coming, state.coming_w, state.coming_sum, state.coming_sum_w)
    state.read[0] = end
    if end == now.seen:
        end_pass(state)
        state.read[0] = 0


def begin_pass(state: State) -> None:
    """Make the current theta and w the next anchor, with empty sums."""
    copy(state.coming, state.theta)
    copy(state.coming_w, state.w)
    fill(state.coming_sum, 0.0)
    fill(state.coming_sum_w, 0.0)


def end_pass(state: State) -> None:
    """Replace the anchor and its sums by the next anchor and its sums."""
    copy(state.anchor, state.coming)
    copy(state.anchor_w, state.coming_w)
    copy(state.sum, state.coming_sum)
    copy(state.sum_w, state.coming_sum_w)


def _svrg_fields(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    names = ("anchor", "sum", "coming", "coming_sum", "difference")
    vectors = {name + suffix: np.zeros(n_features) for name in names for suffix in ("", "_w")}
    numbers = {"batch": np.zeros((hyper["batch_size"], 3)), "read": np.zeros(1, np.int64)}
    return {"w": np.zeros(n_features)} | vectors | numbers


def saga_gtd(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """SAGA on the saddle point of MSPBE: theta -= alpha (mean of all g kept + mean over the batch of g - g kept).

    The saddle function is w'(A theta + b) - w'C w / 2 over all stored steps, as in GTD2 and `svrg_gtd`. The two
    gradients of step t are g y and a e - c x, with g = rho (e.w), a = rho delta and c = x.w, so three numbers per step
    suffice: g_t, a_t and c_t of its latest visit, at first those of its arrival. With n stored steps and a drawn batch
    B of m,

        theta -= alpha     (sum of g_t y_t / n + sum over B of (g - g_t) y_t / m)
        w     += eta alpha (sum of a_t e_t - c_t x_t / n + sum over B of ((a - a_t) e_t - (c - c_t) x_t) / m)

    from the old theta and w; then the numbers of the batch are replaced by the new ones. The sums over all stored steps
    are kept up to date. With ``capacity``, only that number of latest steps is stored and drawn from; the terms of a
    removed step are subtracted. Mean: that of GTD2; the noise vanishes as theta converges, so there is no error floor.
    Cost O(m d), with sparse rows at least O(d), because the sums are added to theta and w at every step; and three
    numbers per stored step. For fixed data, A nonsingular and alpha small enough it converges linearly. Du, Chen, Li,
    Xiao and Zhou (2017), for fixed data and with a ridge on theta.
    """
    size = state.table.shape[0]
    n, m = 1.0 / min(now.seen, size), 1.0 / now.first.shape[0]
    beta = hyper.eta * now.alpha
    for i in range(now.first.shape[0]):
        g, a, c = gradient_numbers(stream, now.first[i], state.theta, state.w)
        state.batch[i, 0], state.batch[i, 1], state.batch[i, 2] = g, a, c
    add_scaled(state.theta, -now.alpha * n, state.sum)
    add_scaled(state.w, beta * n, state.sum_w)
    for i in range(now.first.shape[0]):
        t, new = now.first[i], state.batch[i]
        old = state.table[t % size]
        add_gradient(stream, t, -now.alpha * m * (new[0] - old[0]), state.theta)
        add_trace_less_features(stream, t, beta * m, new[1] - old[1], new[2] - old[2], state.w)
    # A separate loop, because above a step drawn twice counts twice, both times against the numbers of its last visit.
    for i in range(now.first.shape[0]):
        new = state.batch[i]
        put(state, stream, now.first[i], now.first[i] % size, new[0], new[1], new[2])


def enter(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Put the latest step into the table; if the table is full, it replaces the oldest step."""
    size = state.table.shape[0]
    place = (now.seen - 1) % size
    if now.seen > size:
        put(state, stream, np.uint64(now.seen - 1 - size), place, 0.0, 0.0, 0.0)
    g, a, c = gradient_numbers(stream, now.t, state.theta, state.w)
    put(state, stream, now.t, place, g, a, c)


def gradient_numbers(stream: StreamView, t: Index, theta: Floats, w: Floats) -> ThreeFloats:
    """g = rho (e.w), a = rho delta and c = x.w of step t

    Without traces e is x, and a holds the difference a - c: subtracting it here saves one rounding.
    """
    rho = stream.steps[t].rho
    along_e, along = traced_and_projected(stream, t, w)
    a = rho * td_error(stream, t, theta)
    if stream.traces is None:
        return rho * along_e, a - along, 0.0
    return rho * along_e, a, along


def put(state: State, stream: StreamView, t: Index, place: Index, g: float, a: float, c: float) -> None:
    """Store g, a and c as the numbers of step t, in the table and in the sums."""
    old = state.table[place]
    add_gradient(stream, t, g - old[0], state.sum)
    add_trace_less_features(stream, t, 1.0, a - old[1], c - old[2], state.sum_w)
    old[0], old[1], old[2] = g, a, c


def _saga_fields(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    vectors = {name: np.zeros(n_features) for name in ("w", "sum", "sum_w")}
    capacity = hyper["capacity"]
    size = hyper["n_steps"] if capacity is None else min(capacity, hyper["n_steps"])
    return vectors | {"table": np.zeros((size, 3)), "batch": np.zeros((hyper["batch_size"], 3))}


ALGORITHMS = (
    Algorithm(
        "svrg_gtd",
        svrg_gtd,
        _svrg_fields,
        stored=True,
        observe=add_and_read,
        draws="one batch",
        traces=True,
        parameters={"eta": ETA, "M": Parameter(32, "stored steps read at each step for the next anchor", whole(2))},
    ),
    Algorithm(
        "saga_gtd",
        saga_gtd,
        _saga_fields,
        stored=True,
        observe=enter,
        draws="one batch",
        parameters={"eta": ETA},
        traces=True,
    ),
)
