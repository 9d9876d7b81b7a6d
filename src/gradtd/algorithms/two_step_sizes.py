"""Rules with a second vector and a second step-size, eta times the first.

With y = gamma phi' - phi and delta = r + y.theta. Every estimate has the ratio rho once. The trace e is phi if lam is
0; A = E[rho e y'] and b = E[rho r e].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gradtd.algorithms.parameters import ETA
from gradtd.compiled.vectors import add_scaled, dot, scale_by
from gradtd.core.algorithm import Algorithm, Now, Parameter, Storage
from gradtd.core.arrays import Hyper, State
from gradtd.core.checks import above, at_least
from gradtd.core.stream import StreamView
from gradtd.estimates import (
    add_features,
    add_gradient,
    add_trace,
    add_trace_and_next,
    add_trace_less_features,
    projected,
    scale_and_add_trace_less_features,
    td_error,
    traced,
    traced_and_projected,
)


def _second_vector(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    return {"w": np.zeros(n_features)}


def gtd(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """GTD: theta -= alpha rho y (e.u);  u += eta alpha (rho delta e - u).

    Means: -A'u and A theta + b - u. Cost O(d). SGD-like on NEU; converges off-policy to the TD
    solution. Sutton, Szepesvari and Maei (2008), eq. gtd.
    """
    rho = stream.steps[now.t].rho
    delta, along = td_error(stream, now.t, state.theta), traced(stream, now.t, state.w)
    add_gradient(stream, now.t, -now.alpha * rho * along, state.theta)
    scale_by(state.w, 1.0 - hyper.eta * now.alpha)
    add_trace(stream, now.t, hyper.eta * now.alpha * rho * delta, state.w)


def gtd2(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """GTD2: theta -= alpha rho y (e.w);  w += eta alpha (rho delta e - (phi.w) phi).

    Means: -A'w and A theta + b - C w. Cost O(d). Converges off-policy to the TD solution, descending
    MSPBE. Sutton et al. (2009), eq. gtd2.
    """
    rho = stream.steps[now.t].rho
    delta = td_error(stream, now.t, state.theta)
    along_e, along = traced_and_projected(stream, now.t, state.w)
    add_gradient(stream, now.t, -now.alpha * rho * along_e, state.theta)
    add_trace_less_features(stream, now.t, hyper.eta * now.alpha, rho * delta, along, state.w)


def tdc(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """TDC: theta += alpha rho (delta e - gamma (1 - lam) phi' (e.w));  w += eta alpha (rho delta e - (phi.w) phi).

    Means: A theta + b - D'w, with D = E[rho gamma (1 - lam) e phi''], and A theta + b - C w. Cost O(d).
    Converges off-policy to the TD solution for small enough alpha. Sutton et al. (2009), eq. tdc; with traces it
    is the GTD(lam) of Maei (2011).
    """
    rho = stream.steps[now.t].rho
    delta = td_error(stream, now.t, state.theta)
    along_e, along = traced_and_projected(stream, now.t, state.w)
    correction = -(1.0 - hyper.lam) * now.alpha * rho * along_e
    add_trace_and_next(stream, now.t, now.alpha * rho * delta, correction, state.theta)
    add_trace_less_features(stream, now.t, hyper.eta * now.alpha, rho * delta, along, state.w)


def tdc_transposed(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Transposed TDC as printed: theta as GTD2;  w += eta alpha ((rho (r + gamma v') - phi.w) phi - theta).

    Means: -A'w and D theta + b - theta - C w. As printed, its fixed point has C w = D theta + b - theta, but the
    derivation before it needs C w = D theta + b - C theta: the two agree only if C theta = theta. So in general it does
    not converge to the TD solution; `tdc_transposed_corrected` does. Cost O(d), also with sparse rows. Paper, Section
    2, the display before eq. tdc.
    """
    rho = stream.steps[now.t].rho
    value, along = projected(stream, now.t, state.theta), projected(stream, now.t, state.w)
    target = td_error(stream, now.t, state.theta) + value
    beta = hyper.eta * now.alpha
    add_scaled(state.w, -beta, state.theta)
    add_features(stream, now.t, beta * (rho * target - along), state.w)
    add_gradient(stream, now.t, -now.alpha * rho * along, state.theta)


def tdc_transposed_corrected(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Transposed TDC as derived: theta as GTD2;  w += eta alpha ((rho (r + gamma v') - v) e - (phi.w) phi).

    v = phi.theta, v' = phi'.theta. Without traces w + theta is the least-squares answer to rho (r + gamma v'), so w
    tends to C^{-1}(D theta + b) - theta.
    Means: -A'w and A theta + b - C w. On-policy this is exactly GTD2. Cost O(d).
    """
    rho = stream.steps[now.t].rho
    value = projected(stream, now.t, state.theta)
    along_e, along = traced_and_projected(stream, now.t, state.w)
    target = td_error(stream, now.t, state.theta) + value
    add_gradient(stream, now.t, -now.alpha * rho * along_e, state.theta)
    add_trace_less_features(stream, now.t, hyper.eta * now.alpha, rho * target - value, along, state.w)


def tdrc(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """TDRC: theta as TDC;  w += eta alpha (rho delta e - (phi.w) phi - beta w).

    Means: A theta + b - D'w and A theta + b - (C + beta I) w. Cost O(d). Converges off-policy to the
    TD solution under the conditions of Ghiassian et al. (2020).
    """
    rho = stream.steps[now.t].rho
    delta = td_error(stream, now.t, state.theta)
    along_e, along = traced_and_projected(stream, now.t, state.w)
    correction = -(1.0 - hyper.lam) * now.alpha * rho * along_e
    add_trace_and_next(stream, now.t, now.alpha * rho * delta, correction, state.theta)
    shrink, step = 1.0 - hyper.eta * now.alpha * hyper.beta, hyper.eta * now.alpha
    scale_and_add_trace_less_features(stream, now.t, shrink, step, rho * delta, along, state.w)


def htd(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """HTD: theta += alpha (rho delta phi - (rho - 1) y (phi.w));  w += eta alpha (rho delta phi + y (phi.w)).

    Means: A theta + b - (A - A_mu)'w and A theta + b + A_mu'w, with A_mu = E[phi y'] without ratio.
    On-policy it is TD. Cost O(d). With lam see `htd_with_traces`. Hackman (2012), White and White (2016).
    """
    rho = stream.steps[now.t].rho
    delta, along = td_error(stream, now.t, state.theta), projected(stream, now.t, state.w)
    add_features(stream, now.t, now.alpha * rho * delta, state.theta)
    add_gradient(stream, now.t, -now.alpha * (rho - 1.0) * along, state.theta)
    add_features(stream, now.t, hyper.eta * now.alpha * rho * delta, state.w)
    add_gradient(stream, now.t, hyper.eta * now.alpha * along, state.w)


def htd_with_traces(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """HTD(lam): theta += alpha (rho delta e - y (rho e - f).w);  w += eta alpha (rho delta e + y (f.w)).

    f is the behaviour's trace, without a ratio: f = gamma lam f + phi. Cost O(d), also with sparse rows.
    """
    rho = stream.steps[now.t].rho
    delta, along_e = td_error(stream, now.t, state.theta), traced(stream, now.t, state.w)
    along_f = dot(state.w, state.f)
    add_trace(stream, now.t, now.alpha * rho * delta, state.theta)
    add_gradient(stream, now.t, -now.alpha * (rho * along_e - along_f), state.theta)
    add_trace(stream, now.t, hyper.eta * now.alpha * rho * delta, state.w)
    add_gradient(stream, now.t, hyper.eta * now.alpha * along_f, state.w)


def trace_without_ratio(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """f = gamma lam f + phi, and phi where an episode begins"""
    step = stream.steps[now.t]
    goes_on = now.t > 0 and state.episode[0] == step.episode
    scale_by(state.f, hyper.lam * state.carried[0] if goes_on else 0.0)
    add_features(stream, now.t, 1.0, state.f)
    state.carried[0] = step.discount
    state.episode[0] = step.episode


def nasa(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """NASA for NEU: theta -= alpha z / beta;  z += a alpha (rho y (e.u) - z);  u += b alpha (rho delta e - u).

    delta uses the new theta. Averages the GTD direction once more. Cost O(d), also with sparse rows. Ghadimi,
    Ruszczynski and Wang (2020), as the paper writes it in Section 2.4 (tau there is alpha here).
    """
    rho = stream.steps[now.t].rho
    along = traced(stream, now.t, state.u)
    add_scaled(state.theta, -now.alpha / hyper.beta, state.z)
    scale_by(state.z, 1.0 - hyper.a * now.alpha)
    add_gradient(stream, now.t, hyper.a * now.alpha * rho * along, state.z)
    delta = td_error(stream, now.t, state.theta)
    scale_by(state.u, 1.0 - hyper.b * now.alpha)
    add_trace(stream, now.t, hyper.b * now.alpha * rho * delta, state.u)


def _choose_htd(hyper: Mapping[str, Any]) -> Algorithm:
    if hyper["lam"] == 0:
        return replace(_HTD, choose=None)
    return replace(_HTD, update=htd_with_traces, init=_two_traces, observe=trace_without_ratio, storage={}, choose=None)


def _two_traces(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    own = {"f": np.zeros(n_features), "carried": np.zeros(1), "episode": np.full(1, -1)}
    return _second_vector(n_features, hyper) | own


_ROWS = {"theta": Storage.ROWS}
_SCALED = {"theta": Storage.ROWS, "w": Storage.SCALED}
_HTD = Algorithm(
    "htd", htd, init=_second_vector, parameters={"eta": ETA}, traces=True, storage=_ROWS, choose=_choose_htd
)
_NASA = Algorithm(
    "nasa",
    nasa,
    init=lambda n_features, hyper: {"z": np.zeros(n_features), "u": np.zeros(n_features)},
    parameters={
        "a": Parameter(1.0, "speed of the averaged direction", above(0)),
        "b": Parameter(1.0, "speed of the averaged TD update", above(0)),
        "beta": Parameter(1.0, "regulariser of the direction", above(0)),
    },
    traces=True,
)

ALGORITHMS = (
    Algorithm("gtd", gtd, init=_second_vector, parameters={"eta": ETA}, traces=True, storage=_SCALED),
    Algorithm("gtd2", gtd2, init=_second_vector, parameters={"eta": ETA}, traces=True, storage=_ROWS),
    Algorithm("tdc", tdc, init=_second_vector, parameters={"eta": ETA}, traces=True, storage=_ROWS),
    Algorithm(
        "tdc_transposed",
        tdc_transposed,
        init=_second_vector,
        parameters={"eta": ETA},
        traces="as printed it does not reach the TD solution; tdc_transposed_corrected does, and supports lam",
    ),
    Algorithm(
        "tdc_transposed_corrected",
        tdc_transposed_corrected,
        init=_second_vector,
        parameters={"eta": ETA},
        traces=True,
        storage=_ROWS,
    ),
    Algorithm(
        "tdrc",
        tdrc,
        init=_second_vector,
        parameters={"eta": ETA, "beta": Parameter(1.0, "regulariser of the second vector", at_least(0))},
        traces=True,
        storage=_SCALED,
    ),
    _HTD,
    _NASA,
)
