"""The paper's framework: theta -= alpha A1'(A2 theta + b2) (eq. alg:generic_gtd), here and in `impression_gtd.py`.

| algorithm        | A1'                  | A2, b2               | cost per step |
|------------------|----------------------|----------------------|---------------|
| impression_gtd   | samples of buffer 1  | samples of buffer 2  | (m1 + m2) d   |
| expected_gtd     | sums of buffer 1     | sums of buffer 2     | d^2           |
| at_td            | sums of both         | the latest step      | d^2           |
| r1_gtd           | the latest step      | sums of both         | d^2           |
| shrunken_r1_gtd  | the latest step      | samples of the past  | m d           |
| shrunken_at_td   | samples of the past  | the latest step      | m d           |
| direct_gtd       | the latest step      | the step f(t) before | d             |

All have the mean -A'(A theta + b), half the negative gradient of NEU, so they converge to the TD solution whenever A is
nonsingular, on- or off-policy. The two factors must come from independent data; "samples of the past" are drawn from
the buffer that does not hold the latest step. With ``lam`` the trace e replaces the features phi in A and b
(`gradtd.compiled.traces`), and nothing else changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gradtd.compiled.vectors import add_scaled
from gradtd.core.algorithm import Algorithm, Now, Parameter, Storage
from gradtd.core.arrays import Hyper, State
from gradtd.core.checks import above, choice
from gradtd.core.stream import StreamView
from gradtd.estimates import (
    add_to_sums,
    batch_td_update,
    batch_transpose_apply,
    sample_td_update,
    sample_transpose_apply,
    sums_td_update,
    sums_transpose_apply,
)


def expected_gtd(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Expected GTD: theta -= alpha A1'(A2 theta + b2), from all steps of buffer 1 and of buffer 2.

    ``buffers="two"`` follows the framework. ``"one"`` uses all steps in both factors (eq. expectedGTD, Yao and Liu
    2008). ``"both"`` is the two-directional descent of the empirical NEU (Section 4), half of each direction. The paper
    uses sums; gradtd divides by the number of steps, so that alpha does not have to shrink like 1/t^2. Cost O(d^2).
    """
    sums_td_update(state.A2, state.b2, state.n2[0], state.theta, state.u)
    sums_transpose_apply(state.A1, state.n1[0], state.u, state.g)
    add_scaled(state.theta, -now.alpha, state.g)


def expected_gtd_one_buffer(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Expected GTD with one matrix from all steps: theta -= alpha A'(A theta + b)."""
    sums_td_update(state.A, state.b, now.seen, state.theta, state.u)
    sums_transpose_apply(state.A, now.seen, state.u, state.g)
    add_scaled(state.theta, -now.alpha, state.g)


def expected_gtd_both(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Expected GTD in both directions: theta -= alpha/2 (A1'(A2 theta + b2) + A2'(A1 theta + b1))."""
    sums_td_update(state.A2, state.b2, state.n2[0], state.theta, state.u)
    sums_transpose_apply(state.A1, state.n1[0], state.u, state.g)
    sums_td_update(state.A1, state.b1, state.n1[0], state.theta, state.u)
    sums_transpose_apply(state.A2, state.n2[0], state.u, state.h)
    add_scaled(state.theta, -0.5 * now.alpha, state.g)
    add_scaled(state.theta, -0.5 * now.alpha, state.h)


def at_td(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """A'TD: theta -= alpha A_t' rho delta phi, A_t from all steps so far, the latest one included.

    Cost O(d^2). Sutton, Szepesvari and Maei (2008), eq. attd.
    """
    sample_td_update(stream, now.t, state.theta, state.u)
    sums_transpose_apply(state.A, now.seen, state.u, state.g)
    add_scaled(state.theta, -now.alpha, state.g)


def r1_gtd(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """R1-GTD: theta -= alpha rho y phi'(A_t theta + b_t), A_t and b_t from all steps so far.

    Cost O(d^2). Paper, eq. R1-GTD.
    """
    sums_td_update(state.A, state.b, now.seen, state.theta, state.u)
    sample_transpose_apply(stream, now.t, state.u, state.g)
    add_scaled(state.theta, -now.alpha, state.g)


def shrunken_r1_gtd(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Shrunken R1-GTD: theta -= alpha rho y (phi.u), u averaged over a batch from the other buffer.

    Impression GTD with the latest step as batch 1. Cost O(m d). Paper, Section 4.
    """
    batch_td_update(stream, now.first, state.theta, state.u)
    sample_transpose_apply(stream, now.t, state.u, state.g)
    add_scaled(state.theta, -now.alpha, state.g)


def shrunken_at_td(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Shrunken A'TD: theta -= alpha A1' rho delta phi, A1 averaged over a batch from the other buffer.

    Impression GTD with the latest step as batch 2. Cost O(m d).
    """
    sample_td_update(stream, now.t, state.theta, state.u)
    batch_transpose_apply(stream, now.first, state.u, state.g)
    add_scaled(state.theta, -now.alpha, state.g)


def direct_gtd(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Direct GTD: theta -= alpha A_t'(A_{t-f} theta + b_{t-f}), two single steps f(t) apart.

    f(t) = 1 + gap ln(t+1)^2, rounded down, so the dependence between the two steps vanishes while the memory needed
    grows slowly. Cost O(d). Qian and Zhang (2023).
    """
    gap = 1 + int(hyper.gap * np.log(float(now.seen)) ** 2)
    if now.seen > gap:
        sample_td_update(stream, now.seen - 1 - gap, state.theta, state.u)
        sample_transpose_apply(stream, now.t, state.u, state.g)
        add_scaled(state.theta, -now.alpha, state.g)


def add_to_own_buffer(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Add the latest step to the sums of the buffer it belongs to."""
    if now.side == 0:
        add_to_sums(stream, now.t, state.A1, state.b1)
        state.n1[0] += 1
    else:
        add_to_sums(stream, now.t, state.A2, state.b2)
        state.n2[0] += 1


def add_to_all(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Add the latest step to the sums over both buffers."""
    add_to_sums(stream, now.t, state.A, state.b)


CLEARED = {"theta": Storage.ROWS, "u": Storage.CLEARED, "g": Storage.CLEARED}


def two_vectors(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    return {"u": np.zeros(n_features), "g": np.zeros(n_features)}


def _sums(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    sums = {"A": np.zeros((n_features, n_features)), "b": np.zeros(n_features)}
    return sums | two_vectors(n_features, hyper)


def _sums_of_two_buffers(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    sums: dict[str, Any] = {}
    for i in ("1", "2"):
        sums["A" + i] = np.zeros((n_features, n_features))
        sums["b" + i] = np.zeros(n_features)
        sums["n" + i] = np.zeros(1, np.int64)
    return sums | two_vectors(n_features, hyper) | {"h": np.zeros(n_features)}


def _choose_expected(hyper: Mapping[str, Any]) -> Algorithm:
    if hyper["buffers"] == "one":
        return replace(_EXPECTED, update=expected_gtd_one_buffer, init=_sums, observe=add_to_all, choose=None)
    update = expected_gtd if hyper["buffers"] == "two" else expected_gtd_both
    return replace(_EXPECTED, update=update, init=_sums_of_two_buffers, observe=add_to_own_buffer, choose=None)


_EXPECTED = Algorithm(
    "expected_gtd",
    expected_gtd,
    draws="two buffers",
    parameters={"buffers": Parameter("two", "two, one, or both directions", choice("two", "one", "both"))},
    traces=True,
    choose=_choose_expected,
)

ALGORITHMS = (
    _EXPECTED,
    Algorithm("at_td", at_td, _sums, observe=add_to_all, draws="two buffers", traces=True),
    Algorithm("r1_gtd", r1_gtd, _sums, observe=add_to_all, draws="two buffers", traces=True),
    Algorithm("shrunken_r1_gtd", shrunken_r1_gtd, two_vectors, draws="other batch", traces=True, storage=CLEARED),
    Algorithm("shrunken_at_td", shrunken_at_td, two_vectors, draws="other batch", traces=True, storage=CLEARED),
    Algorithm(
        "direct_gtd",
        direct_gtd,
        two_vectors,
        stored=True,
        traces=True,
        storage=CLEARED,
        parameters={"gap": Parameter(1.0, "how fast the distance between the two steps grows", above(0))},
    ),
)
