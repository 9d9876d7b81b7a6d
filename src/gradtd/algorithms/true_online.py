"""True online TD and GTD with traces: rules that equal a forward view, the lambda-return, at every step.

Their traces include step-sizes ("Dutch" traces), so they belong to a run and not to the stream. With x for phi, g for
the discount into the state of the step (0 where an episode begins) and v = theta_t.x, v_old = theta_{t-1}.x:

    e = rho (g lam e + alpha (1 - rho g lam x.e) x)
    theta += (delta + v - v_old) e - alpha rho (v - v_old) x                                     true_online_td

e includes the ratio of the latest step. Steps before the ``start`` of learning do not enter the trace. Traces and the
previous theta are arrays, so a step costs O(d) with sparse rows, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradtd.algorithms.parameters import ETA
from gradtd.compiled.linalg import copy
from gradtd.compiled.vectors import add_scaled, dot, fill, scale_by
from gradtd.core.algorithm import Algorithm, Now, Parameter
from gradtd.core.arrays import Floats, Hyper, Index, State
from gradtd.core.checks import fraction
from gradtd.core.stream import StreamView
from gradtd.estimates import add_features, add_next_features, projected, td_error


def true_online_td(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """True online TD(lam): theta += (delta + v - v_old) e - alpha rho (v - v_old) phi, e a Dutch trace.

    On-policy its weights equal those of the online lambda-return algorithm at every step. Cost O(d). Off-policy it may
    diverge as TD does. van Seijen and Sutton (2014); with ratios, van Hasselt, Mahmood and Sutton (2014).
    """
    decay, change = carried_decay(state, stream, now, hyper.lam), value_change(state, stream, now)
    delta, rho = td_error(stream, now.t, state.theta), stream.steps[now.t].rho
    copy(state.old, state.theta)
    grow_dutch_trace(stream, now.t, rho * decay, rho, now.alpha, state.e)
    add_scaled(state.theta, delta + change, state.e)
    add_features(stream, now.t, -now.alpha * rho * change, state.theta)


def true_online_gtd(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """True online GTD(lam): true online TD with the correction -alpha gamma (1 - lam) (z.w) phi' of TDC.

    z = rho (g lam z + phi) is the accumulating trace, f = rho_{t-1} g lam f + eta alpha (1 - rho_{t-1} g lam phi.f) phi
    that of w, and w += rho delta f - eta alpha (phi.w) phi. Cost O(d). Converges as TDC does.
    van Hasselt, Mahmood and Sutton (2014).
    """
    decay, change = carried_decay(state, stream, now, hyper.lam), value_change(state, stream, now)
    delta, rho, beta = td_error(stream, now.t, state.theta), stream.steps[now.t].rho, hyper.eta * now.alpha
    copy(state.old, state.theta)
    grow_dutch_trace(stream, now.t, rho * decay, rho, now.alpha, state.e)
    grow_dutch_trace(stream, now.t, state.rho[0] * decay, 1.0, beta, state.f)
    scale_by(state.z, rho * decay)
    add_features(stream, now.t, rho, state.z)
    state.rho[0] = rho
    along_z, along = dot(state.w, state.z), projected(stream, now.t, state.w)
    add_scaled(state.theta, delta + change, state.e)
    add_features(stream, now.t, -now.alpha * rho * change, state.theta)
    add_next_features(stream, now.t, -now.alpha * (1.0 - hyper.lam) * along_z, state.theta)
    add_scaled(state.w, rho * delta, state.f)
    add_features(stream, now.t, -beta * along, state.w)


def carried_decay(state: State, stream: StreamView, now: Now, lam: float) -> float:
    """g lam, or 0 with every trace reset: at the start of an episode, or if the previous step was before learning
    started."""
    step = stream.steps[now.t]
    goes_on = now.t > 0 and state.episode[0] == step.episode and state.seen[0] == now.seen - 1
    decay = lam * state.carried[0] if goes_on else 0.0
    state.carried[0], state.episode[0], state.seen[0] = step.discount, step.episode, now.seen
    if not goes_on:
        fill(state.e, 0.0)
        fill(state.f, 0.0)
        fill(state.z, 0.0)
        copy(state.old, state.theta)
    return decay


def value_change(state: State, stream: StreamView, now: Now) -> float:
    """v - v_old: how the latest update changed the value of the current state"""
    return projected(stream, now.t, state.theta) - projected(stream, now.t, state.old)


def grow_dutch_trace(stream: StreamView, t: Index, decay: float, rho: float, alpha: float, e: Floats) -> None:
    """e = decay e + rho alpha (1 - decay x.e) x, where decay includes the ratio"""
    along = projected(stream, t, e)
    scale_by(e, decay)
    add_features(stream, t, rho * alpha * (1.0 - decay * along), e)


def _fields(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    vectors = {name: np.zeros(n_features) for name in ("w", "e", "f", "z", "old")}
    numbers = {"carried": np.zeros(1), "rho": np.zeros(1), "episode": np.full(1, -1), "seen": np.zeros(1, np.int64)}
    return vectors | numbers


LAM = Parameter(0.0, "decay of the traces, from 0 to 1", fraction)

ALGORITHMS = (
    Algorithm("true_online_td", true_online_td, _fields, parameters={"lam": LAM}),
    Algorithm("true_online_gtd", true_online_gtd, _fields, parameters={"eta": ETA, "lam": LAM}),
)
