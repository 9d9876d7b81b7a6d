"""``alpha="auto"`` of TD and mini-batch TD, on-policy only.

The error of theta follows e <- e + alpha A_t e, plus noise, with A_t from the latest step or from a batch. As in
`auto_step` a unit vector z follows the same recursion and aligns with the direction that becomes unstable first, so
alpha_th = -2 <z.A_t z> / <|A_t z|^2> is the largest step-size for which the mean square shrinks there. On-policy, where
every ratio is 1, A + A' is negative definite with or without traces (Tsitsiklis and Van Roy 1997), so alpha_th is above
zero. If samples are independent, some constant step-sizes with averaging reach the TD solution at the rate 1/n
(Lakshminarayanan and Szepesvari 2018). Off-policy such a step-size may not exist, so alpha="auto" is refused.

alpha is a quarter of alpha_th, from the averages up to the previous update; it grows to that size over the first 1000
updates. If the last weights are reported, it decays as (1 + n / 300)^(-3/4). Consecutive steps are dependent, so with a
constant step-size even the average is biased (Huo, Chen and Xie 2023): for TD on the latest step, alpha also decays
with averaging, as (1 + n / 300)^(-1/2). TD has no second batch, so the one-step-optimal step-size cannot be estimated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradtd.algorithms.auto_step import DECAYS, POWER, SURPRISE, WATCHES
from gradtd.compiled.rows import add_row_to_two, trace_place, two_difference_dots
from gradtd.compiled.vectors import add_scaled, dot, fill, scale_by
from gradtd.core.algorithm import Now, Storage
from gradtd.core.arrays import Hyper, State
from gradtd.core.stream import StreamView
from gradtd.estimates import batch_td_update_and_apply

SHARE, GROWN = 1 / 4, 1000.0
"""The step-size as a share of the threshold, and the number of updates until it has that size."""
AVERAGED = 0.5
"""Power of the decay for TD on the latest step if an average is reported."""


def auto_td(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """TD with an automatic step-size: theta += alpha delta e, all ratios one; e = phi where lam is 0."""
    step = stream.steps[now.t]
    at_theta, at_z = two_difference_dots(stream.features, step.row, step.next_row, step.discount, state.theta, state.z)
    fill(state.u, 0.0)
    fill(state.v, 0.0)
    table, row = trace_place(stream.traces, stream.features, step.row, now.t)
    add_row_to_two(table, row, step.reward + at_theta, at_z, state.u, state.v)
    step_and_watch(state, now)


def auto_minibatch_td(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Mini-batch TD with an automatic step-size: theta += alpha times the mean of delta e, all ratios one."""
    batch_td_update_and_apply(stream, now.first, state.theta, state.z, state.u, state.v)
    step_and_watch(state, now)


def step_and_watch(state: State, now: Now) -> None:
    """theta += alpha u with the previous alpha; then update the averages with u and v = A_t z."""
    n = state.seen[0]
    squared = dot(state.u, state.u)
    if n >= WATCHES:
        alpha = SHARE * state.threshold[0] * now.alpha * min(1.0, n / GROWN) * (1.0 + n / DECAYS) ** -state.decay[0]
        known = SURPRISE * (n / 2.0 + 100.0) * state.squared[0]
        if squared > known:
            alpha *= np.sqrt(known / squared)
        state.alpha[0] = alpha
        add_scaled(state.theta, alpha, state.u)
    n += 1.0
    state.seen[0] = n
    weight = 1.0 / min(n, n / 4.0 + 20.0)
    state.along[0] += weight * (dot(state.z, state.v) - state.along[0])
    state.length[0] += weight * (dot(state.v, state.v) - state.length[0])
    state.squared[0] += (squared - state.squared[0]) / min(n, n / 2.0 + 100.0)
    state.threshold[0] = 0.0
    if state.along[0] < 0.0 and state.length[0] > 0.0:
        state.threshold[0] = -2.0 * state.along[0] / state.length[0]
    add_scaled(state.z, state.threshold[0], state.v)
    size = np.sqrt(dot(state.z, state.z))
    if size > 0.0:
        scale_by(state.z, 1.0 / size)


AUTO_STORAGE = {"theta": Storage.ROWS, "u": Storage.CLEARED, "v": Storage.CLEARED, "z": Storage.SCALED}


def auto_td_fields(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    """The state of TD besides theta."""
    return _fields(n_features, hyper, AVERAGED)


def auto_minibatch_fields(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    """The state of mini-batch TD besides theta."""
    return _fields(n_features, hyper, 0.0)


def _fields(n_features: int, hyper: Mapping[str, Any], averaged: float) -> dict[str, Any]:
    """State of both rules besides theta: the probe z, two directions, moving averages, the step-size."""
    z = np.random.default_rng(0).standard_normal(n_features)
    names = ("seen", "along", "length", "squared", "threshold", "alpha")
    numbers = {name: np.zeros(1) for name in names}
    numbers["decay"] = np.full(1, POWER if hyper.get("average") == "none" else averaged)
    return {"u": np.zeros(n_features), "v": np.zeros(n_features), "z": z / np.linalg.norm(z)} | numbers
