"""Mini-batch TDC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradtd.algorithms.parameters import ETA
from gradtd.compiled.vectors import add_scaled, fill
from gradtd.core.algorithm import Algorithm, Now, Storage
from gradtd.core.arrays import Hyper, State
from gradtd.core.stream import StreamView
from gradtd.estimates import add_trace_and_next, add_trace_less_features, td_error, traced_and_projected


def minibatch_tdc(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Mini-batch TDC: both directions of TDC, averaged over m new steps; one update every m steps.

    Mean of the directions: that of TDC. Cost O(d) per step. Xu and Liang (2021).
    """
    _update_from_batch(state, stream, now, hyper)


def minibatch_tdc_replay(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Mini-batch TDC with replay: both directions of TDC, averaged over a batch of past steps, every step.

    Mean of the directions: that of TDC. Cost O(m d) per step, like mini-batch TD.
    """
    _update_from_batch(state, stream, now, hyper)


def _update_from_batch(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    fill(state.g, 0.0)
    fill(state.h, 0.0)
    scale = 1.0 / now.first.shape[0]
    for j in range(now.first.shape[0]):
        t = now.first[j]
        rho = stream.steps[t].rho
        delta = td_error(stream, t, state.theta)
        along_e, along = traced_and_projected(stream, t, state.w)
        add_trace_and_next(stream, t, scale * rho * delta, -(1.0 - hyper.lam) * scale * rho * along_e, state.g)
        add_trace_less_features(stream, t, scale, rho * delta, along, state.h)
    add_scaled(state.theta, now.alpha, state.g)
    add_scaled(state.w, hyper.eta * now.alpha, state.h)


def _vectors(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    return {name: np.zeros(n_features) for name in ("w", "g", "h")}


_CLEARED = {"theta": Storage.ROWS, "g": Storage.CLEARED, "h": Storage.CLEARED}

ALGORITHMS = (
    Algorithm(
        "minibatch_tdc",
        minibatch_tdc,
        _vectors,
        draws="new batch",
        parameters={"eta": ETA},
        traces=True,
        storage=_CLEARED,
    ),
    Algorithm(
        "minibatch_tdc_replay",
        minibatch_tdc_replay,
        _vectors,
        draws="one batch",
        parameters={"eta": ETA},
        traces=True,
        storage=_CLEARED,
    ),
)
