"""Variance reduction for the saddle point of MSPBE: SAGA as in Du et al. (2017), on data that keep arriving."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gradtd.algorithms.parameters import ETA
from gradtd.compiled.linalg import ThreeFloats
from gradtd.compiled.vectors import add_scaled
from gradtd.core.algorithm import Algorithm, Now
from gradtd.core.arrays import Floats, Hyper, Index, State
from gradtd.core.stream import StreamView
from gradtd.estimates import (
    add_features,
    add_gradient,
    add_trace_less_features,
    projected,
    td_error,
    traced_and_projected,
)


def saga_gtd(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """SAGA on the saddle point of MSPBE: theta -= alpha (mean of all g kept + mean over the batch of g - g kept).

    The saddle function is w'(A theta + b) - w'C w / 2 over all stored steps, as in GTD2 and `svrg_gtd`. The two
    gradients of step t are g y and h x, with g = rho (x.w) and h = rho delta - x.w, so that two numbers are all there
    is to keep of a step: those of its latest visit, g_t and h_t, first those of its arrival. With n stored steps and a
    drawn batch B of m,

        theta -= alpha     (sum of g_t y_t / n + sum over B of (g - g_t) y_t / m)
        w     += eta alpha (sum of h_t x_t / n + sum over B of (h - h_t) x_t / m)

    from the old theta and w; then g_t and h_t of the batch become g and h. The sums over all stored steps are kept up
    to date. With ``capacity`` only so many steps, the latest, are stored and drawn from; a step that leaves takes its
    terms along. Mean: that of GTD2; the noise vanishes as theta comes to rest, so there is no floor. Cost O(m d), and
    two numbers a stored step. For fixed data, A nonsingular and alpha small enough it converges linearly. Du, Chen, Li,
    Xiao and Zhou (2017), who have fixed data and a ridge on theta.
    """
    size = state.table.shape[0]
    n, m = 1.0 / min(now.seen, size), 1.0 / now.first.shape[0]
    for i in range(now.first.shape[0]):
        state.batch[i, 0], state.batch[i, 1] = gradient_numbers(stream, now.first[i], state.theta, state.w)
    add_scaled(state.theta, -now.alpha * n, state.sum)
    add_scaled(state.w, hyper.eta * now.alpha * n, state.sum_w)
    for i in range(now.first.shape[0]):
        t, g, h = now.first[i], state.batch[i, 0], state.batch[i, 1]
        add_gradient(stream, t, -now.alpha * m * (g - state.table[t % size, 0]), state.theta)
        add_features(stream, t, hyper.eta * now.alpha * m * (h - state.table[t % size, 1]), state.w)
    # In a loop of its own: a step drawn twice counts twice above, against the numbers of its last visit.
    for i in range(now.first.shape[0]):
        put(state, stream, now.first[i], now.first[i] % size, state.batch[i, 0], state.batch[i, 1])


def enter(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Put the latest step into the table; in a full one the oldest step makes room."""
    size = state.table.shape[0]
    place = (now.seen - 1) % size
    if now.seen > size:
        put(state, stream, np.uint64(now.seen - 1 - size), place, 0.0, 0.0)
    g, h = gradient_numbers(stream, now.t, state.theta, state.w)
    put(state, stream, now.t, place, g, h)


def gradient_numbers(stream: StreamView, t: Index, theta: Floats, w: Floats) -> tuple[float, float]:
    """g = rho (x.w) and h = rho delta - x.w of step t"""
    rho, along = stream.steps[t].rho, projected(stream, t, w)
    return rho * along, rho * td_error(stream, t, theta) - along


def put(state: State, stream: StreamView, t: Index, place: Index, g: float, h: float) -> None:
    """Make g and h the numbers of step t, in its place of the table and in the sums."""
    add_gradient(stream, t, g - state.table[place, 0], state.sum)
    add_features(stream, t, h - state.table[place, 1], state.sum_w)
    state.table[place, 0], state.table[place, 1] = g, h


# With traces the gradient of w is a e - c x with a = rho delta and c = x.w: three numbers are kept of a step.


def saga_gtd_with_traces(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """SAGA on the saddle point of MSPBE with traces: as `saga_gtd`, with three numbers kept of a step.

    The two gradients of step t are g y and a e - c x, with g = rho (e.w), a = rho delta and c = x.w.
    """
    size = state.table.shape[0]
    n, m = 1.0 / min(now.seen, size), 1.0 / now.first.shape[0]
    beta = hyper.eta * now.alpha
    for i in range(now.first.shape[0]):
        g, a, c = three_numbers(stream, now.first[i], state.theta, state.w)
        state.batch[i, 0], state.batch[i, 1], state.batch[i, 2] = g, a, c
    add_scaled(state.theta, -now.alpha * n, state.sum)
    add_scaled(state.w, beta * n, state.sum_w)
    for i in range(now.first.shape[0]):
        t, new = now.first[i], state.batch[i]
        kept = state.table[t % size]
        add_gradient(stream, t, -now.alpha * m * (new[0] - kept[0]), state.theta)
        add_trace_less_features(stream, t, beta * m, new[1] - kept[1], new[2] - kept[2], state.w)
    for i in range(now.first.shape[0]):
        new = state.batch[i]
        put_three(state, stream, now.first[i], now.first[i] % size, new[0], new[1], new[2])


def enter_with_traces(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Put the latest step into the table; in a full one the oldest step makes room."""
    size = state.table.shape[0]
    place = (now.seen - 1) % size
    if now.seen > size:
        put_three(state, stream, np.uint64(now.seen - 1 - size), place, 0.0, 0.0, 0.0)
    g, a, c = three_numbers(stream, now.t, state.theta, state.w)
    put_three(state, stream, now.t, place, g, a, c)


def three_numbers(stream: StreamView, t: Index, theta: Floats, w: Floats) -> ThreeFloats:
    """g = rho (e.w), a = rho delta and c = x.w of step t"""
    rho = stream.steps[t].rho
    along_e, along = traced_and_projected(stream, t, w)
    return rho * along_e, rho * td_error(stream, t, theta), along


def put_three(state: State, stream: StreamView, t: Index, place: Index, g: float, a: float, c: float) -> None:
    """Make g, a and c the numbers of step t, in its place of the table and in the sums."""
    kept = state.table[place]
    add_gradient(stream, t, g - kept[0], state.sum)
    add_trace_less_features(stream, t, 1.0, a - kept[1], c - kept[2], state.sum_w)
    kept[0], kept[1], kept[2] = g, a, c


def _fields(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    vectors = {name: np.zeros(n_features) for name in ("w", "sum", "sum_w")}
    capacity = hyper["capacity"]
    size = hyper["n_steps"] if capacity is None else min(capacity, hyper["n_steps"])
    numbers = 3 if hyper["lam"] > 0 else 2
    return vectors | {"table": np.zeros((size, numbers)), "batch": np.zeros((hyper["batch_size"], numbers))}


def _choose(hyper: Mapping[str, Any]) -> Algorithm:
    if hyper["lam"] == 0:
        return replace(_SAGA, choose=None)
    return replace(_SAGA, update=saga_gtd_with_traces, observe=enter_with_traces, choose=None)


_SAGA = Algorithm(
    "saga_gtd",
    saga_gtd,
    _fields,
    stored=True,
    observe=enter,
    draws="one batch",
    parameters={"eta": ETA},
    traces=True,
    kept={"sum": "course of theta", "sum_w": "course of w"},
    choose=_choose,
)

ALGORITHMS = (_SAGA,)
