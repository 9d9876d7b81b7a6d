"""Impression GTD: the rule of the paper's Algorithm 1, its variants, and what ``alpha="auto"`` runs, in this order.

All are theta -= alpha g with a direction g = A1' W (A2 theta + b2) from two batches of independent episodes. With
``lam`` above 0 they are Impression GTD(lam): the stored trace of a step stands for its features in A and b.

1. `impression_gtd` is Algorithm 1: W = I, a step-size that is given. **A run with ``alpha=0.1`` executes this.**
2. Variants: both directions, other similarities W, matrices formed explicitly. Each is put together from a
   ``gradient`` and from how often it is used. The same choices give the same functions, so they are compiled once.
3. `with_chosen_step` makes the same direction and, in the same passes over the batches, learns its step-size with
   `gradtd.algorithms.auto_step`. **A run with default settings, ``alpha="auto"``, executes this**, and reports the
   polynomial average of its weights.
4. `_choose` maps hyper-parameters to one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from gradtd.algorithms.auto_step import AUTO_KEPT, WATCHES, auto_fields, chosen, number_or_auto, step_and_learn
from gradtd.algorithms.generic_gtd import CLEARED, two_vectors
from gradtd.algorithms.least_squares import add_to_inverse_of_C
from gradtd.algorithms.parameters import RIDGE
from gradtd.compiled.linalg import matrix_apply
from gradtd.compiled.vectors import add_scaled, copy, dot, fill, scale_by
from gradtd.core import checks
from gradtd.core.algorithm import Algorithm, Now, Parameter
from gradtd.core.arrays import Batch, Floats, Hyper, State
from gradtd.core.checks import InputError, choice
from gradtd.core.stream import StreamView
from gradtd.estimates import (
    add_gradient,
    add_to_sums,
    batch_td_update,
    batch_td_update_and_apply,
    batch_transpose_apply,
    batch_transpose_apply_to_two,
    sums_td_update,
    sums_transpose_apply,
    td_error,
)

# 1. Algorithm 1


def impression_gtd(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Impression GTD: theta -= alpha A1'(A2 theta + b2), both factors averages over drawn batches.

    u = mean over batch 2 of rho delta e;  theta -= alpha mean over batch 1 of rho y (e.u), with
    y = gamma phi' - phi and e = phi where lam is 0. One step-size, and with ``alpha="auto"``, the default, that is
    chosen as it goes (`with_chosen_step`). Cost O((m1 + m2) d). With a constant step it converges linearly to a
    neighbourhood of the TD solution. Paper, Algorithm 1 and eq. imgtd; m1 = m2 = 1 is the single pair of
    eq. one_update.
    """
    batch_td_update(stream, now.second, state.theta, state.u)
    batch_transpose_apply(stream, now.first, state.u, state.g)
    add_scaled(state.theta, -now.alpha, state.g)


# 2. Variants


def correlation_gradient(state: State, stream: StreamView, now: Now, first: Batch, second: Batch, out: Floats) -> None:
    """out = A1'(A2 theta + b2), never forming a matrix."""
    batch_td_update(stream, second, state.theta, state.u)
    batch_transpose_apply(stream, first, state.u, out)


def matrix_gradient(state: State, stream: StreamView, now: Now, first: Batch, second: Batch, out: Floats) -> None:
    """out = A1'(A2 theta + b2), forming the batches' matrices (the paper's footnote).

    It costs (m1 + m2) d^2 where samples cost (m1 + m2) 3 d, and measured it is the slower one at every
    number of features, 1 included (`docs/decisions.md`), so ``form="auto"`` means samples.
    """
    _sum_batch(state, stream, second)
    sums_td_update(state.A, state.b, second.shape[0], state.theta, state.u)
    _sum_batch(state, stream, first)
    sums_transpose_apply(state.A, first.shape[0], state.u, out)


def _sum_batch(state: State, stream: StreamView, batch: Batch) -> None:
    for i in range(state.A.shape[0]):
        fill(state.A[i], 0.0)
    fill(state.b, 0.0)
    for j in range(batch.shape[0]):
        add_to_sums(stream, batch[j], state.A, state.b)


def weighted_gradient(state: State, stream: StreamView, now: Now, first: Batch, second: Batch, out: Floats) -> None:
    """out = A1' U^{-1} (A2 theta + b2), for a fixed S.P.D. matrix U."""
    batch_td_update(stream, second, state.theta, state.u)
    matrix_apply(state.inverse, state.u, state.left)
    batch_transpose_apply(stream, first, state.left, out)


def mspbe_gradient(state: State, stream: StreamView, now: Now, first: Batch, second: Batch, out: Floats) -> None:
    """out = A1' C^{-1} (A2 theta + b2), with C^{-1} estimated as it goes: half the gradient of MSPBE."""
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


# 3. What alpha="auto" runs


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


@lru_cache(maxsize=64)
def with_chosen_step(weigh: Callable[..., Any], directions: str) -> Callable[..., Any]:
    """The update of Impression GTD with its step-size chosen; ``weigh(state, now, u)`` makes W u of u."""
    share = 0.5 if directions == "averaged" else 1.0

    def look(state: State, stream: StreamView, now: Now, first: Batch, second: Batch, g: Floats, q: Floats) -> float:
        """g = A1' W (A2 theta + b2) and q = A1' W A2 z, one pass over each batch; returns b1' W (A2 theta + b2)"""
        batch_td_update_and_apply(stream, second, state.theta, state.z, state.u, state.v)
        weigh(state, now, state.u)
        weigh(state, now, state.v)
        return batch_transpose_apply_to_two(stream, first, state.u, state.v, g, q)

    def one_direction(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
        loss = look(state, stream, now, now.first, now.second, state.g, state.q)
        step_and_learn(state, now, loss + dot(state.theta, state.g))

    def both_directions(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
        loss = look(state, stream, now, now.first, now.second, state.g, state.q)
        loss += look(state, stream, now, now.second, now.first, state.h, state.r)
        for out, other in ((state.g, state.h), (state.q, state.r)):
            add_scaled(out, 1.0, other)
            scale_by(out, share)
        step_and_learn(state, now, share * loss + dot(state.theta, state.g))

    return one_direction if directions == "one" else both_directions


# 4. Which of them is meant


def _choose(hyper: Mapping[str, Any]) -> Algorithm:
    similarity, directions = hyper["similarity"], hyper["directions"]
    plain = isinstance(similarity, str) and similarity == "correlation"
    explicit = hyper["form"] == "matrix"
    if explicit and not plain:
        raise InputError("form='matrix' goes with similarity='correlation' only.")
    if callable(similarity) and hyper["lam"] > 0:
        raise InputError(
            "lam above 0 is not offered with a kernel as similarity: a trace is a sum of features, not one."
        )
    if isinstance(hyper["alpha"], str):
        return _choose_auto(similarity, directions, explicit)
    if plain and not explicit and directions == "one":
        return replace(_IMPRESSION, choose=None)
    gradient: Callable[..., Any] = correlation_gradient
    observe, fields, kept = None, _scratch, None
    if callable(similarity):
        gradient, fields = _kernel_gradient(similarity), _kernel_fields
    elif not isinstance(similarity, str):
        gradient, fields = weighted_gradient, _fields_for_U
    elif similarity == "mspbe":
        gradient, observe, fields = mspbe_gradient, add_to_inverse_of_C, _fields_for_C
    elif explicit:
        gradient, fields = matrix_gradient, _fields_for_matrix
    else:
        kept = {**CLEARED, "h": "cleared"}
    if directions == "one":
        update = _one_direction(gradient)
    else:
        update = _both_directions(gradient, 1.0 if directions == "both" else 0.5)
    dense_only = callable(similarity)
    return replace(
        _IMPRESSION, update=update, init=fields, observe=observe, dense_only=dense_only, kept=kept, choose=None
    )


def _choose_auto(similarity: Any, directions: str, explicit: bool) -> Algorithm:
    if callable(similarity) or explicit:
        what = "a kernel as similarity" if callable(similarity) else "form='matrix'"
        raise InputError(f"alpha='auto' is not offered with {what}: give alpha a number.")
    weigh, fields, observe, kept = as_it_is, _auto_fields(_nothing), None, None
    if not isinstance(similarity, str):
        weigh, fields = by_inverse, _auto_fields(_fields_for_U)
    elif similarity == "mspbe":
        weigh, fields, observe = by_inverse_of_C, _auto_fields(_fields_for_C), add_to_inverse_of_C
    else:
        kept = AUTO_KEPT
    made = replace(_IMPRESSION, update=with_chosen_step(weigh, directions), init=fields, observe=observe, kept=kept)
    return replace(made, chosen=chosen, watches=WATCHES, choose=None)


def _nothing(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    return {}


def _auto_fields(more: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    return lambda n_features, hyper: more(n_features, hyper) | auto_fields(n_features, hyper)


def _scratch(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    return two_vectors(n_features, hyper) | {"h": np.zeros(n_features)}


def _kernel_fields(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    return _scratch(n_features, hyper) | {"errors": np.zeros(max(hyper["m1"], hyper["m2"]))}


def _fields_for_matrix(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    square = np.zeros((n_features, n_features))
    return _scratch(n_features, hyper) | {"A": square, "b": np.zeros(n_features)}


def _fields_for_U(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    U = hyper["similarity"]
    if U.shape != (n_features, n_features):
        raise InputError(f"similarity as a matrix U needs shape {(n_features, n_features)}, got {U.shape}.")
    return _scratch(n_features, hyper) | {"inverse": np.linalg.inv(U), "left": np.zeros(n_features)}


def _fields_for_C(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    vectors = {name: np.zeros(n_features) for name in ("x", "left", "right")}
    return _scratch(n_features, hyper) | vectors | {"inverse": np.eye(n_features) / hyper["ridge"]}


def _similarity(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return checks.one_of(name, value, ("correlation", "mspbe"))
    if callable(value):
        return value
    U = checks.finite_array(name, value, 2)
    if U.size == 0 or U.shape[0] != U.shape[1] or not np.allclose(U, U.T) or np.linalg.eigvalsh(U)[0] <= 0:
        raise InputError(f"{name} as a matrix U must be symmetric and positive definite.")
    return U


_IMPRESSION = Algorithm(
    "impression_gtd",
    impression_gtd,
    two_vectors,
    draws="two batches",
    traces=True,
    kept=CLEARED,
    parameters={
        "alpha": Parameter("auto", "step-size: a number, or auto, which chooses it as it goes", number_or_auto),
        "directions": Parameter(
            "one",
            "one (Algorithm 1), both (each with the full step), averaged (half of each)",
            choice("one", "both", "averaged"),
        ),
        "similarity": Parameter(
            "correlation", "correlation, mspbe, an S.P.D. matrix U (phi' U^{-1} phi), or a kernel function", _similarity
        ),
        "form": Parameter("auto", "samples, matrix, or auto: the cheaper one", choice("auto", "samples", "matrix")),
        "ridge": RIDGE,
    },
    choose=_choose,
)

ALGORITHMS = (_IMPRESSION,)
