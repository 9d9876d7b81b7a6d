"""Rules with one step-size that use the latest step, or a batch of past steps, as TD does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gradtd.algorithms.auto_step import WATCHES, chosen, number_or_auto
from gradtd.algorithms.auto_td import AUTO_STORAGE, auto_minibatch_fields, auto_minibatch_td, auto_td, auto_td_fields
from gradtd.algorithms.parameters import ONLY_CLIPPED, ONLY_RHO
from gradtd.compiled.vectors import add_scaled
from gradtd.core.algorithm import REQUIRED, Algorithm, Now, Parameter, Storage
from gradtd.core.arrays import Hyper, Plain, State
from gradtd.core.stream import StreamView
from gradtd.estimates import add_features, add_gradient, add_trace, batch_td_update, td_error


def td(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Off-policy TD(lam): theta += alpha rho delta e, with e = phi where lam is 0.

    Mean: A theta + b. Cost O(d). Converges on-policy; off-policy it may diverge (Baird, two_state). On-policy,
    ``alpha="auto"`` chooses the step-size (`gradtd.algorithms.auto_td`). Sutton (1988); with ratios, Precup, Sutton and
    Singh (2000).
    """
    rho_delta = stream.steps[now.t].rho * td_error(stream, now.t, state.theta)
    add_trace(stream, now.t, now.alpha * rho_delta, state.theta)


def vtrace(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """TD with the ratio clipped at one: theta += alpha min(rho, 1) delta e, with e = phi where lam is 0.

    Both ratios are clipped, that of the step and those in the trace. Cost O(d). Less variance, but its solution belongs
    to another policy. Espeholt et al. (2018), as the paper uses it.
    """
    clipped = min(stream.steps[now.t].rho, 1.0)
    add_trace(stream, now.t, now.alpha * clipped * td_error(stream, now.t, state.theta), state.theta)


def follow_on(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """F = rho_{t-1} gamma F + 1, and 1 where an episode begins."""
    step = stream.steps[now.t]
    if now.t == 0 or state.episode[0] != step.episode:
        state.follow_on[0] = 1.0
    else:
        state.follow_on[0] = state.carried[0] * state.follow_on[0] + 1.0
    state.carried[0] = step.rho * step.discount
    state.episode[0] = step.episode


def etd(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Emphatic TD(0): F = rho_{t-1} gamma F + 1, theta += alpha F rho delta phi.

    F starts at 1 in every episode. With lam the features enter the trace as (lam + (1 - lam) F) phi, and
    theta += alpha rho delta e. Cost O(d). Stable off-policy, but its variance can be infinite, and its solution is
    not the TD solution. Sutton, Mahmood and White (2016).
    """
    rho_delta = stream.steps[now.t].rho * td_error(stream, now.t, state.theta)
    add_features(stream, now.t, now.alpha * state.follow_on[0] * rho_delta, state.theta)


def residual_gradient(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Residual gradient: theta -= alpha rho delta (gamma phi' - phi).

    SGD on E[rho delta^2] / 2. Cost O(d). Converges, but to the TD solution only if transitions are deterministic. Baird
    (1995).
    """
    rho_delta = stream.steps[now.t].rho * td_error(stream, now.t, state.theta)
    add_gradient(stream, now.t, -now.alpha * rho_delta, state.theta)


def minibatch_td(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Mini-batch TD: theta += alpha times the mean of rho delta e over a batch of past steps; e = phi where lam is 0.

    Mean: A theta + b. Cost O(m d). Less noise than TD, but diverges where TD does. On-policy, ``alpha="auto"`` chooses
    the step-size. Paper, Section 4.
    """
    batch_td_update(stream, now.first, state.theta, state.u)
    add_scaled(state.theta, now.alpha, state.u)


def _trace(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    return {"follow_on": np.zeros(1), "carried": np.zeros(1), "episode": np.full(1, -1)}


def _choose_etd(hyper: Mapping[str, Any]) -> Algorithm:
    """With traces, ETD is TD whose traces include the emphasis."""
    if hyper["lam"] == 0:
        return replace(_ETD, choose=None)
    return replace(_ETD, update=td, init=_nothing, observe=None, emphatic=True, choose=None)


def _nothing(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    return {}


def _choose_td(hyper: Mapping[str, Any]) -> Algorithm:
    return _with_auto(_TD, auto_td, auto_td_fields, hyper)


def _choose_minibatch_td(hyper: Mapping[str, Any]) -> Algorithm:
    return _with_auto(_MINIBATCH_TD, auto_minibatch_td, auto_minibatch_fields, hyper)


def _with_auto(rule: Algorithm, update: Plain, init: Plain, hyper: Mapping[str, Any]) -> Algorithm:
    """The rule itself, or its version for alpha="auto"."""
    if not isinstance(hyper["alpha"], str):
        return replace(rule, choose=None)
    return replace(
        rule,
        update=update,
        init=init,
        chosen=chosen,
        watches=WATCHES,
        on_policy=True,
        storage=AUTO_STORAGE,
        choose=None,
    )


_ROWS = {"theta": Storage.ROWS}
_ALPHA = {"alpha": Parameter(REQUIRED, "step-size: a number, or (on-policy only) auto", number_or_auto)}
_TD = Algorithm("td", td, parameters=_ALPHA, traces=True, storage=_ROWS, choose=_choose_td)
_MINIBATCH_TD = Algorithm(
    "minibatch_td",
    minibatch_td,
    init=lambda n_features, hyper: {"u": np.zeros(n_features)},
    draws="one batch",
    parameters=_ALPHA,
    traces=True,
    storage={"theta": Storage.ROWS, "u": Storage.CLEARED},
    choose=_choose_minibatch_td,
)
_ETD = Algorithm(
    "etd",
    etd,
    init=_trace,
    observe=follow_on,
    parameters={"trace": ONLY_RHO},
    traces=True,
    storage=_ROWS,
    choose=_choose_etd,
)

ALGORITHMS = (
    _TD,
    Algorithm(
        "vtrace",
        vtrace,
        traces=True,
        storage=_ROWS,
        parameters={"trace": ONLY_CLIPPED},
    ),
    _ETD,
    Algorithm(
        "residual_gradient",
        residual_gradient,
        storage=_ROWS,
        traces="the gradient of a squared lambda-error contains the TD errors of future steps",
    ),
    _MINIBATCH_TD,
)
