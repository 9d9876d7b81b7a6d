"""Variants of Impression GTD: both directions, other similarities W, and ``alpha="auto"`` with each of them.

All are theta -= alpha g with g = A1' W (A2 theta + b2) from two batches of independent episodes. A variant combines a
``gradient`` with the number of directions. Equal choices give the same function objects, so that each is compiled once.
`choose_variant` maps hyper-parameters to one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from gradtd.algorithms.auto_step import AUTO_STORAGE, WATCHES, auto_fields, chosen, with_chosen_step
from gradtd.algorithms.generic_gtd import CLEARED, two_vectors
from gradtd.algorithms.impression_lanes import AUTO_LANES, LANES
from gradtd.algorithms.least_squares import add_to_inverse_of_C
from gradtd.compiled.linalg import copy, matrix_apply
from gradtd.compiled.vectors import add_scaled, fill, scale_by
from gradtd.core import checks
from gradtd.core.algorithm import Algorithm, Now, Storage
from gradtd.core.arrays import Batch, Floats, Hyper, State
from gradtd.core.checks import InputError
from gradtd.core.stream import StreamView
from gradtd.estimates import add_gradient, batch_td_update, batch_transpose_apply, td_error


def correlation_gradient(state: State, stream: StreamView, now: Now, first: Batch, second: Batch, out: Floats) -> None:
    """out = A1'(A2 theta + b2), never forming a matrix."""
    batch_td_update(stream, second, state.theta, state.u)
    batch_transpose_apply(stream, first, state.u, out)


def weighted_gradient(state: State, stream: StreamView, now: Now, first: Batch, second: Batch, out: Floats) -> None:
    """out = A1' U^{-1} (A2 theta + b2), for a fixed S.P.D. matrix U."""
    batch_td_update(stream, second, state.theta, state.u)
    matrix_apply(state.inverse, state.u, state.left)
    batch_transpose_apply(stream, first, state.left, out)


def mspbe_gradient(state: State, stream: StreamView, now: Now, first: Batch, second: Batch, out: Floats) -> None:
    """out = A1' C^{-1} (A2 theta + b2), with C^{-1} estimated during learning: half the gradient of MSPBE."""
    batch_td_update(stream, second, state.theta, state.u)
    matrix_apply(state.inverse, state.u, state.left)
    scale_by(state.left, float(now.seen))
    batch_transpose_apply(stream, first, state.left, out)


@lru_cache(maxsize=64)
def _kernel_gradient(kernel: Callable[..., Any]) -> Callable[..., Any]:
    def gradient(state: State, stream: StreamView, now: Now, first: Batch, second: Batch, out: Floats) -> None:
        """out = mean over all pairs of rho_i y_i kernel(phi_i, phi_j) rho_j delta_j."""
        fill(out, 0.0)
        for j in range(second.shape[0]):
            state.errors[j] = stream.steps[second[j]].rho * td_error(stream, second[j], state.theta)
        for i in range(first.shape[0]):
            step = stream.steps[first[i]]
            impression = 0.0
            for j in range(second.shape[0]):
                other = stream.features[stream.steps[second[j]].row]
                impression += kernel(stream.features[step.row], other) * state.errors[j]
            add_gradient(stream, first[i], step.rho * impression / (first.shape[0] * second.shape[0]), out)

    return gradient


@lru_cache(maxsize=64)
def _one_direction(gradient: Callable[..., Any]) -> Callable[..., Any]:
    def update(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
        gradient(state, stream, now, now.first, now.second, state.g)
        add_scaled(state.theta, -now.alpha, state.g)

    return update


@lru_cache(maxsize=64)
def _both_directions(gradient: Callable[..., Any], share: float) -> Callable[..., Any]:
    def update(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
        gradient(state, stream, now, now.first, now.second, state.g)
        gradient(state, stream, now, now.second, now.first, state.h)
        add_scaled(state.theta, -share * now.alpha, state.g)
        add_scaled(state.theta, -share * now.alpha, state.h)

    return update


# Replace u = A2 theta + b2 by W u, for an automatic step-size


def as_it_is(state: State, now: Now, u: Floats) -> None:
    """W = I, the correlation of features"""


def by_inverse(state: State, now: Now, u: Floats) -> None:
    """W = U^{-1}"""
    matrix_apply(state.inverse, u, state.left)
    copy(u, state.left)


def by_inverse_of_C(state: State, now: Now, u: Floats) -> None:
    """W = C^{-1}, from the inverse of the sum over all steps so far"""
    matrix_apply(state.inverse, u, state.left)
    copy(u, state.left)
    scale_by(u, float(now.seen))


def choose_variant(impression: Algorithm, hyper: Mapping[str, Any]) -> Algorithm:
    """The algorithm for these hyper-parameters of Impression GTD: itself, or a variant."""
    similarity, directions = hyper["similarity"], hyper["directions"]
    if callable(similarity) and hyper["lam"] > 0:
        raise InputError(
            "lam above 0 does not support a kernel as similarity: a trace is a sum of features, and a kernel needs "
            "single rows."
        )
    base = replace(impression, choose=None, lanes=None)
    if isinstance(hyper["alpha"], str):
        return _choose_auto(base, similarity, directions)
    if callable(similarity):
        gradient = _kernel_gradient(similarity)
        base = replace(base, init=_kernel_fields, dense_only=True, storage={})
    elif not isinstance(similarity, str):
        gradient = weighted_gradient
        base = replace(base, init=_fields_for_U, storage={})
    elif similarity == "mspbe":
        gradient = mspbe_gradient
        base = replace(base, init=_fields_for_C, observe=add_to_inverse_of_C, storage={})
    elif directions == "one":
        return replace(base, lanes=LANES)
    else:
        gradient = correlation_gradient
        base = replace(base, init=_scratch, storage={**CLEARED, "h": Storage.CLEARED})
    if directions == "one":
        return replace(base, update=_one_direction(gradient))
    return replace(base, update=_both_directions(gradient, 1.0 if directions == "both" else 0.5))


def _choose_auto(base: Algorithm, similarity: Any, directions: str) -> Algorithm:
    if callable(similarity):
        raise InputError("alpha='auto' does not support a kernel as similarity: give alpha a number.")
    weigh, fields, storage = as_it_is, _auto_fields(_nothing), AUTO_STORAGE
    if not isinstance(similarity, str):
        weigh, fields, storage = by_inverse, _auto_fields(_fields_for_U), {}
    elif similarity == "mspbe":
        weigh, fields, storage = by_inverse_of_C, _auto_fields(_fields_for_C), {}
        base = replace(base, observe=add_to_inverse_of_C)
    update = with_chosen_step(weigh, directions)
    plain = weigh is as_it_is and directions == "one"
    base = replace(base, lanes=AUTO_LANES if plain else None)
    return replace(base, update=update, init=fields, storage=storage, chosen=chosen, watches=WATCHES)


def _nothing(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    return {}


def _auto_fields(more: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    return lambda n_features, hyper: more(n_features, hyper) | auto_fields(n_features, hyper)


def _scratch(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    return two_vectors(n_features, hyper) | {"h": np.zeros(n_features)}


def _kernel_fields(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    return _scratch(n_features, hyper) | {"errors": np.zeros(max(hyper["m1"], hyper["m2"]))}


def _fields_for_U(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    U = hyper["similarity"]
    if U.shape != (n_features, n_features):
        raise InputError(f"similarity as a matrix U needs shape {(n_features, n_features)}, got {U.shape}.")
    return _scratch(n_features, hyper) | {"inverse": np.linalg.inv(U), "left": np.zeros(n_features)}


def _fields_for_C(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    vectors = {name: np.zeros(n_features) for name in ("x", "left", "right")}
    return _scratch(n_features, hyper) | vectors | {"inverse": np.eye(n_features) / hyper["ridge"]}


def check_similarity(name: str, value: Any) -> Any:
    """Check a similarity: a name, a kernel, or a symmetric positive definite matrix."""
    if isinstance(value, str):
        return checks.one_of(name, value, ("correlation", "mspbe"))
    if callable(value):
        return value
    U = checks.finite_array(name, value, 2)
    if U.size == 0 or U.shape[0] != U.shape[1] or not np.allclose(U, U.T) or np.linalg.eigvalsh(U)[0] <= 0:
        raise InputError(f"{name} as a matrix U must be symmetric and positive definite.")
    return U
