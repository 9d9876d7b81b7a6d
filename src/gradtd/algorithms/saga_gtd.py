"""Variance reduction for the saddle point of MSPBE: SAGA as in Du et al. (2017), on data that keep arriving."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradtd.algorithms.parameters import ETA
from gradtd.compiled.linalg import ThreeFloats
from gradtd.compiled.vectors import add_scaled
from gradtd.core.algorithm import Algorithm, Now
from gradtd.core.arrays import Floats, Hyper, Index, State
from gradtd.core.stream import StreamView
from gradtd.estimates import add_gradient, add_trace_less_features, td_error, traced_and_projected


def saga_gtd(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """SAGA on the saddle point of MSPBE: theta -= alpha (mean of all g kept + mean over the batch of g - g kept).

    The saddle function is w'(A theta + b) - w'C w / 2 over all stored steps, as in GTD2 and `svrg_gtd`. The two
    gradients of step t are g y and a e - c x, with g = rho (e.w), a = rho delta and c = x.w, so that three numbers are
    all there is to keep of a step: those of its latest visit, g_t, a_t and c_t, first those of its arrival. With n
    stored steps and a drawn batch B of m,

        theta -= alpha     (sum of g_t y_t / n + sum over B of (g - g_t) y_t / m)
        w     += eta alpha (sum of a_t e_t - c_t x_t / n + sum over B of ((a - a_t) e_t - (c - c_t) x_t) / m)

    from the old theta and w; then the numbers of the batch become the new ones. The sums over all stored steps are kept
    up to date. With ``capacity`` only so many steps, the latest, are stored and drawn from; a step that leaves takes
    its terms along. Mean: that of GTD2; the noise vanishes as theta comes to rest, so there is no floor. Cost O(m d),
    with sparse rows O(d) at least, as the sums are added to theta and w at every step; and three numbers a stored step.
    For fixed data, A nonsingular and alpha small enough it converges linearly. Du, Chen, Li, Xiao and Zhou (2017), who
    have fixed data and a ridge on theta.
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
    # In a loop of its own: a step drawn twice counts twice above, against the numbers of its last visit.
    for i in range(now.first.shape[0]):
        new = state.batch[i]
        put(state, stream, now.first[i], now.first[i] % size, new[0], new[1], new[2])


def enter(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Put the latest step into the table; in a full one the oldest step makes room."""
    size = state.table.shape[0]
    place = (now.seen - 1) % size
    if now.seen > size:
        put(state, stream, np.uint64(now.seen - 1 - size), place, 0.0, 0.0, 0.0)
    g, a, c = gradient_numbers(stream, now.t, state.theta, state.w)
    put(state, stream, now.t, place, g, a, c)


def gradient_numbers(stream: StreamView, t: Index, theta: Floats, w: Floats) -> ThreeFloats:
    """g = rho (e.w), a = rho delta and c = x.w of step t

    Without traces e is x, and the difference is put into a: to subtract it here rounds once less than to do so later.
    """
    rho = stream.steps[t].rho
    along_e, along = traced_and_projected(stream, t, w)
    a = rho * td_error(stream, t, theta)
    if stream.traces is None:
        return rho * along_e, a - along, 0.0
    return rho * along_e, a, along


def put(state: State, stream: StreamView, t: Index, place: Index, g: float, a: float, c: float) -> None:
    """Make g, a and c the numbers of step t, in its place of the table and in the sums."""
    old = state.table[place]
    add_gradient(stream, t, g - old[0], state.sum)
    add_trace_less_features(stream, t, 1.0, a - old[1], c - old[2], state.sum_w)
    old[0], old[1], old[2] = g, a, c


def _fields(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    vectors = {name: np.zeros(n_features) for name in ("w", "sum", "sum_w")}
    capacity = hyper["capacity"]
    size = hyper["n_steps"] if capacity is None else min(capacity, hyper["n_steps"])
    return vectors | {"table": np.zeros((size, 3)), "batch": np.zeros((hyper["batch_size"], 3))}


ALGORITHMS = (
    Algorithm(
        "saga_gtd",
        saga_gtd,
        _fields,
        stored=True,
        observe=enter,
        draws="one batch",
        parameters={"eta": ETA},
        traces=True,
    ),
)
