"""Variance reduction for the saddle point of MSPBE: SVRG as in Du et al. (2017), on data that keep arriving."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradtd.algorithms.parameters import ETA
from gradtd.compiled.near import LOOKS_AHEAD, column_met, columns_met, step_near
from gradtd.compiled.rows import difference_dot, meet_step
from gradtd.compiled.vectors import add_scaled, set_at, subtract, value_at
from gradtd.core.algorithm import Algorithm, Now, Parameter
from gradtd.core.arrays import Floats, Hyper, Index, State
from gradtd.core.checks import whole
from gradtd.core.stream import StreamView
from gradtd.estimates import add_gradient, add_trace_less_features, td_error, traced_and_projected


def svrg_gtd(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """SVRG on the saddle point of MSPBE: theta -= alpha (A'w at the anchor + A_B'(w - w_anchor)), w alike.

    The saddle function is w'(A theta + b) - w'C w / 2 over all stored steps, as in GTD2. With the means A, b, C over
    them, those over a drawn batch, A_B and C_B, and the anchor (theta0, w0),

        theta -= alpha (A'w0 + A_B'(w - w0))
        w     += eta alpha (A theta0 + b - C w0 + A_B (theta - theta0) - C_B (w - w0))

    from the old theta and w. The sums at the anchor are exact: each arriving step is added to them. The next anchor is
    the theta and w of the moment its pass over the stored steps begins; the pass reads M of them each step, and a new
    one begins where it ends. Mean: that of GTD2; the noise vanishes as theta and its anchor meet the solution on the
    stored steps, so there is no floor. Cost O((m + M) d). For fixed data, A nonsingular and alpha small enough it
    converges linearly. Du, Chen, Li, Xiao and Zhou (2017), who have fixed data and a ridge on theta.
    """
    n, m = 1.0 / now.seen, 1.0 / now.first.shape[0]
    subtract(state.difference, state.theta, state.anchor)
    subtract(state.difference_w, state.w, state.anchor_w)
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
    """Add the latest step to the sums at the anchor, and read stored steps for the coming one."""
    meet_step(stream.features, stream.traces, stream.steps[now.t], now.t, state.met)
    add_at(stream, now.t, state.anchor, state.anchor_w, state.sum, state.sum_w)
    read_for_next_anchor(state, stream, now, int(hyper.M))


def add_at(stream: StreamView, t: Index, theta: Floats, w: Floats, total: Floats, total_w: Floats) -> None:
    """total += A_t'w and total_w += A_t theta + b_t - C_t w"""
    rho = stream.steps[t].rho
    along_e, along = traced_and_projected(stream, t, w)
    add_gradient(stream, t, rho * along_e, total)
    add_trace_less_features(stream, t, 1.0, rho * td_error(stream, t, theta), along, total_w)


def read_for_next_anchor(state: State, stream: StreamView, now: Now, most: int) -> None:
    """Read the next stored steps for the sums at the coming anchor; after the last one it becomes the anchor."""
    begin = state.read[0]
    if begin == 0:
        begin_pass(state)
    end = min(begin + most, now.seen)
    for t in range(begin, end):
        step_near(stream.features, stream.steps, t + LOOKS_AHEAD, state.coming, state.coming_sum)
        add_at(stream, np.uint64(t), state.coming, state.coming_w, state.coming_sum, state.coming_sum_w)
    state.read[0] = end
    if end == now.seen:
        end_pass(state)
        state.read[0] = 0


# A pass reads every column that any step so far has an entry for, so copies of those alone cost no more than the pass.


def begin_pass(state: State) -> None:
    """The coming anchor is the theta and w of now, and its sums are empty."""
    for i in range(columns_met(state.met, state.coming)):
        k = column_met(state.met, i, state.coming, state.coming_sum)
        set_at(state.coming, k, value_at(state.theta, k))
        set_at(state.coming_w, k, value_at(state.w, k))
        set_at(state.coming_sum, k, 0.0)
        set_at(state.coming_sum_w, k, 0.0)


def end_pass(state: State) -> None:
    """The coming anchor becomes the anchor, with its sums."""
    for i in range(columns_met(state.met, state.coming)):
        k = column_met(state.met, i, state.coming, state.coming_sum)
        set_at(state.anchor, k, value_at(state.coming, k))
        set_at(state.anchor_w, k, value_at(state.coming_w, k))
        set_at(state.sum, k, value_at(state.coming_sum, k))
        set_at(state.sum_w, k, value_at(state.coming_sum_w, k))


def _fields(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    names = ("anchor", "sum", "coming", "coming_sum", "difference")
    vectors = {name + suffix: np.zeros(n_features) for name in names for suffix in ("", "_w")}
    numbers = {"batch": np.zeros((hyper["batch_size"], 3)), "read": np.zeros(1, np.int64), "met": np.zeros(0)}
    return {"w": np.zeros(n_features)} | vectors | numbers  # what an update reads first, so that it is in one line


_KEPT = {
    "sum": "course of theta",
    "sum_w": "course of w",
    "difference": "theta less anchor",
    "difference_w": "w less anchor_w",
    "anchor": "begins as theta",
    "coming": "begins as theta",
    "met": "met",
}


ALGORITHMS = (
    Algorithm(
        "svrg_gtd",
        svrg_gtd,
        _fields,
        stored=True,
        observe=add_and_read,
        draws="one batch",
        traces=True,
        kept=_KEPT,
        parameters={"eta": ETA, "M": Parameter(32, "stored steps read each step for the next anchor", whole(2))},
    ),
)
