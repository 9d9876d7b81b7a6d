"""Second-order rules, O(d^2) per step: LSTD, emphatic LSTD, Newton TD, LSPE.

With ``lam`` the trace e replaces the features phi in A and b.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gradtd.algorithms.parameters import ONLY_RHO, RIDGE
from gradtd.compiled.linalg import add_scaled, add_to_inverse, copy, fill, matrix_apply
from gradtd.core import checks
from gradtd.core.algorithm import Algorithm, Now, Parameter
from gradtd.core.arrays import Hyper, State
from gradtd.core.checks import at_least, choice
from gradtd.core.stream import StreamView
from gradtd.estimates import add_features, add_gradient, add_to_sums, add_trace, td_error


def add_step_to_inverse(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """state.inverse = (ridge I - sum of rho e y')^{-1}, the latest step added; state.left = inverse rho e."""
    fill(state.x, 0.0)
    add_trace(stream, now.t, stream.steps[now.t].rho, state.x)
    fill(state.y, 0.0)
    add_gradient(stream, now.t, -1.0, state.y)
    add_to_inverse(state.inverse, state.x, state.y, state.left, state.right)


def _inverse(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    vectors = {name: np.zeros(n_features) for name in ("x", "y", "left", "right")}
    return {"inverse": np.eye(n_features) / hyper["ridge"], **vectors}


def lstd(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """LSTD: theta solves (sum of A_t) theta + sum of b_t = 0 over all steps so far. No step-size.

    With a ridge, ridge (theta0 - theta) is added to the sum. ``solver="recursive"`` keeps the inverse of
    ridge I - sum A_t by Sherman-Morrison, O(d^2) per step. ``solver="batch"`` sums A and b and solves at each snapshot,
    O(d^2) per step and O(d^3) per snapshot, with the minimum-norm solution if the system is singular. Bradtke and
    Barto (1996), Boyan (2002).
    """
    add_scaled(state.theta, td_error(stream, now.t, state.theta), state.left)


def emphatic_lstd(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Emphatic LSTD: LSTD whose traces include the emphasis; its solution is the limit of emphatic TD.

    F = rho_{t-1} gamma F + 1, and features enter the trace as (lam + (1 - lam) F) phi. Solvers and ridge as in `lstd`.
    Its variance can be infinite. Yu (2015), Sutton, Mahmood and White (2016).
    """
    lstd(state, stream, now, hyper)


def add_step(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Add the latest step to the sums A and b."""
    add_to_sums(stream, now.t, state.A, state.b)


def keep_start(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Store the initial weights, towards which a ridge regularises."""
    if now.seen == 1:
        copy(state.anchor, state.theta)


def solve(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """theta = the least-squares solution of A theta + b = 0, ridge included."""
    scale = 1.0 / now.seen
    system = state.A * scale
    for i in range(state.theta.shape[0]):
        system[i, i] -= hyper.ridge * scale
    right = -scale * (state.b + hyper.ridge * state.anchor)
    state.theta[:] = np.linalg.lstsq(system, right, 1e-10)[0]


def newton_td(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Newton TD: theta -= alpha A_t^{-1} rho delta e, with A_t the mean over all steps so far.

    The inverse is kept by Sherman-Morrison, with -ridge I added to the sum. Mean direction:
    -A^{-1}(A theta + b), on- and off-policy. Cost O(d^2). Yao and Liu (2008), eq. 2ndordertd.
    """
    delta = td_error(stream, now.t, state.theta)
    add_scaled(state.theta, now.alpha * now.seen * delta, state.left)


def add_step_and_inverse_of_C(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Add the latest step to the sums A and b and to the inverse of ridge I + sum of phi phi'."""
    add_step(state, stream, now, hyper)
    add_to_inverse_of_C(state, stream, now, hyper)


def add_to_inverse_of_C(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """state.inverse = (ridge I + sum of phi phi')^{-1}, the latest step added."""
    fill(state.x, 0.0)
    add_features(stream, now.t, 1.0, state.x)
    add_to_inverse(state.inverse, state.x, state.x, state.left, state.right)


def lspe(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """LSPE(lam): theta += alpha C_t^{-1}(A_t theta + b_t), with the means over all steps so far.

    C_t^{-1} by Sherman-Morrison, with ridge I added to the sum. Cost O(d^2). Converges on-policy for
    alpha = 1; off-policy it may diverge. Nedic and Bertsekas (2003).
    """
    matrix_apply(state.A, state.theta, state.left)
    add_scaled(state.left, 1.0, state.b)
    matrix_apply(state.inverse, state.left, state.right)
    add_scaled(state.theta, now.alpha, state.right)


def _sums(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    return {"A": np.zeros((n_features, n_features)), "b": np.zeros(n_features), "anchor": np.zeros(n_features)}


def _choose(hyper: Mapping[str, Any]) -> Algorithm:
    return _with_solver(_LSTD, hyper)


def _choose_emphatic(hyper: Mapping[str, Any]) -> Algorithm:
    return _with_solver(_EMPHATIC, hyper)


def _with_solver(algorithm: Algorithm, hyper: Mapping[str, Any]) -> Algorithm:
    if hyper["solver"] == "batch":
        return replace(algorithm, update=add_step, observe=keep_start, read=solve, init=_sums, choose=None)
    checks.number_above("ridge (of the recursive solver)", hyper["ridge"], 0)
    return replace(algorithm, choose=None)


_LSTD = Algorithm(
    "lstd",
    lstd,
    init=_inverse,
    observe=add_step_to_inverse,
    step_size=False,
    traces=True,
    parameters={
        "solver": Parameter(
            "recursive", "recursive (every step) or batch (at snapshots)", choice("recursive", "batch")
        ),
        "ridge": Parameter(1e-3, "multiple of the identity added to the sum over steps", at_least(0)),
    },
    choose=_choose,
)
_EMPHATIC = replace(
    _LSTD,
    name="emphatic_lstd",
    update=emphatic_lstd,
    emphatic=True,
    parameters={**_LSTD.parameters, "trace": ONLY_RHO},
    choose=_choose_emphatic,
)

ALGORITHMS = (
    _LSTD,
    _EMPHATIC,
    Algorithm(
        "newton_td", newton_td, init=_inverse, observe=add_step_to_inverse, parameters={"ridge": RIDGE}, traces=True
    ),
    Algorithm(
        "lspe",
        lspe,
        init=lambda n_features, hyper: _inverse(n_features, hyper) | _sums(n_features, hyper),
        observe=add_step_and_inverse_of_C,
        parameters={"ridge": RIDGE},
        traces=True,
    ),
)
