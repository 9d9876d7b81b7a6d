"""Mirror-Prox (extragradient) on the saddle point w'(A theta + b) - w'M w / 2, with one step-size.

Every step takes a trial step, then updates the original weights with the directions at the trial point, from the same
sample:

    ahead    theta_a = theta - alpha A_t'w            w_a = w + eta alpha (A_t theta + b_t - M_t w)
    step     theta  -=         alpha A_t'w_a          w  += eta alpha (A_t theta_a + b_t - M_t w_a)

Any metric M with a positive definite symmetric part leads to the TD solution; the two rules differ in M.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradtd.algorithms.parameters import ETA
from gradtd.compiled.rows import difference_dot
from gradtd.core.algorithm import Algorithm, Now, Storage
from gradtd.core.arrays import Floats, Hyper, State
from gradtd.core.stream import StreamView
from gradtd.estimates import add_gradient, add_trace_less_features, copy_where_read, projected, td_error, traced


def gtd2_mp(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """GTD2-MP: Mirror-Prox on the saddle point of MSPBE, M = C = E[phi phi'].

    Cost O(d), twice that of GTD2. Liu, Liu, Ghavamzadeh, Mahadevan and Petrik (2015), without a proximal map.
    """
    copy_where_read(stream, now.t, state.ahead, state.theta)
    copy_where_read(stream, now.t, state.ahead_w, state.w)
    _covariance_move(state.theta, state.w, stream, now, hyper.eta, state.ahead, state.ahead_w)
    _covariance_move(state.ahead, state.ahead_w, stream, now, hyper.eta, state.theta, state.w)


def sthtd_mp(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """STHTD-MP: Mirror-Prox with the symmetric part of the behaviour's Bellman matrix, M = -(A_mu + A_mu') / 2.

    A_mu = E[phi y'] without ratio, as in HTD; M_t w = -(y (phi.w) + (y.w) phi) / 2. M is positive definite if TD of the
    behaviour's own values is stable. Cost O(d). The metric and the single step-size follow Chen et al. (2026, arXiv
    2605.28849). gradtd assumes that both half steps use one sample, that M_t has no ratio, and that M has no trace for
    lam above 0.
    """
    copy_where_read(stream, now.t, state.ahead, state.theta)
    copy_where_read(stream, now.t, state.ahead_w, state.w)
    _behaviour_move(state.theta, state.w, stream, now, hyper.eta, state.ahead, state.ahead_w)
    _behaviour_move(state.ahead, state.ahead_w, stream, now, hyper.eta, state.theta, state.w)


def _covariance_move(
    theta: Floats, w: Floats, stream: StreamView, now: Now, eta: float, out: Floats, out_w: Floats
) -> None:
    """out -= alpha A_t'w and out_w += eta alpha (A_t theta + b_t - phi (phi.w))"""
    rho, delta = stream.steps[now.t].rho, td_error(stream, now.t, theta)
    along_e, along = traced(stream, now.t, w), projected(stream, now.t, w)
    add_gradient(stream, now.t, -now.alpha * rho * along_e, out)
    add_trace_less_features(stream, now.t, eta * now.alpha, rho * delta, along, out_w)


def _behaviour_move(
    theta: Floats, w: Floats, stream: StreamView, now: Now, eta: float, out: Floats, out_w: Floats
) -> None:
    """out -= alpha A_t'w and out_w += eta alpha (A_t theta + b_t + (y (phi.w) + (y.w) phi) / 2)"""
    step, delta = stream.steps[now.t], td_error(stream, now.t, theta)
    along_e, along = traced(stream, now.t, w), projected(stream, now.t, w)
    along_y = difference_dot(stream.features, step.row, step.next_row, step.discount, w)
    add_gradient(stream, now.t, -now.alpha * step.rho * along_e, out)
    add_gradient(stream, now.t, 0.5 * eta * now.alpha * along, out_w)
    add_trace_less_features(stream, now.t, eta * now.alpha, step.rho * delta, -0.5 * along_y, out_w)


def _vectors(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    return {name: np.zeros(n_features) for name in ("w", "ahead", "ahead_w")}


ALGORITHMS = (
    Algorithm("gtd2_mp", gtd2_mp, _vectors, parameters={"eta": ETA}, traces=True, storage={"theta": Storage.ROWS}),
    Algorithm("sthtd_mp", sthtd_mp, _vectors, parameters={"eta": ETA}, traces=True, storage={"theta": Storage.ROWS}),
)
