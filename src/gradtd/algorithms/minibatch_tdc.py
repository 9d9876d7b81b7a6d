"""Mini-batch TDC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gradtd.algorithms.parameters import ETA, choice, whole
from gradtd.estimates import add_features, add_next_features, projected, td_error
from gradtd.linalg import add_scaled, fill
from gradtd.types import Algorithm, Hyper, Index, Now, Parameter, State, StreamView


def _add_directions(stream: StreamView, t: Index, scale: float, state: State) -> None:
    """Add one step's share of both TDC directions to ``g`` and ``h``."""
    rho = stream.steps[t].rho
    delta, along = td_error(stream, t, state.theta), projected(stream, t, state.w)
    add_features(stream, t, scale * rho * delta, state.g)
    add_next_features(stream, t, -scale * rho * along, state.g)
    add_features(stream, t, scale * (rho * delta - along), state.h)


def minibatch_tdc(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Mini-batch TDC: both directions of TDC, averaged over each m new steps; one update every m steps.

    Mean of the directions: that of TDC. Cost O(d) a step. Xu and Liang (2021). With
    ``source="replay"`` it updates every step from a batch drawn from the past, O(m d).
    """
    m = int(hyper.batch_size)
    if now.seen % m == 0:
        fill(state.g, 0.0)
        fill(state.h, 0.0)
        for t in range(now.seen - m, now.seen):
            _add_directions(stream, t, 1.0 / m, state)
        add_scaled(state.theta, now.alpha, state.g)
        add_scaled(state.w, hyper.eta * now.alpha, state.h)


def replayed_tdc(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Mini-batch TDC from a batch drawn from the past, every step."""
    fill(state.g, 0.0)
    fill(state.h, 0.0)
    for j in range(now.first.shape[0]):
        _add_directions(stream, now.first[j], 1.0 / now.first.shape[0], state)
    add_scaled(state.theta, now.alpha, state.g)
    add_scaled(state.w, hyper.eta * now.alpha, state.h)


def _choose(hyper: Mapping[str, Any]) -> Algorithm:
    if hyper["source"] == "replay":
        return replace(_FRESH, update=replayed_tdc, draws="one batch", choose=None)
    return replace(_FRESH, choose=None)


_FRESH = Algorithm(
    "minibatch_tdc",
    minibatch_tdc,
    init=lambda n_features, hyper: {name: np.zeros(n_features) for name in ("w", "g", "h")},
    parameters={
        "eta": ETA,
        "batch_size": Parameter(16, "steps in a batch", whole(1)),
        "source": Parameter("fresh", "new steps, or replay of drawn ones", choice("fresh", "replay")),
    },
    choose=_choose,
)


ALGORITHMS = (_FRESH,)
