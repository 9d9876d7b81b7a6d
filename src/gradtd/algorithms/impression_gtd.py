"""Impression GTD: the paper's Algorithm 1. **A run with ``alpha=0.1`` executes `impression_gtd`.**

The lines of Algorithm 1, and the functions that implement them:

    theta <- theta_0;  B_1 <- [];  B_2 <- []                 `gradtd.running.session.Session.begin`, `.buffers`
    for every episode e and every time step of it:           `drive` in `gradtd.compiled.loop`
        observe phi, take an action, observe phi', r         `gradtd.problems.simulate.walk`, or a log
        append them to B_1 if e is odd, else to B_2          `odd_or_even` and `insert` in `gradtd.compiled.buffers`
        if len(B_2) > M (here: both hold more than a batch)  `both_filled` in `gradtd.compiled.buffers`
            sample m_2 steps from B_2 and m_1 from B_1       `draw_from_both` in `gradtd.compiled.buffers`
            u     <- mean over batch 2 of delta_j phi_j      `batch_td_update`, below
            theta <- theta - alpha times the mean over       `batch_transpose_apply` and `add_scaled`, below
                     batch 1 of (gamma phi_i' - phi_i) (phi_i . u)

By default ``alpha`` is "auto": the same direction, with a step-size that `gradtd.algorithms.auto_step` estimates in the
same passes over the batches. The polynomial average of the weights is then reported. Both directions and similarities
other than phi_i . phi_j are in `gradtd.algorithms.impression_variants`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradtd.algorithms.auto_step import number_or_auto
from gradtd.algorithms.generic_gtd import CLEARED, two_vectors
from gradtd.algorithms.impression_variants import check_similarity, choose_variant
from gradtd.algorithms.parameters import RIDGE
from gradtd.compiled.vectors import add_scaled
from gradtd.core.algorithm import Algorithm, Now, Parameter
from gradtd.core.arrays import Hyper, State
from gradtd.core.checks import choice
from gradtd.core.stream import StreamView
from gradtd.estimates import batch_td_update, batch_transpose_apply


def impression_gtd(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Impression GTD: theta -= alpha A1'(A2 theta + b2), both factors averages over drawn batches.

    u = mean over batch 2 of rho delta e;  theta -= alpha mean over batch 1 of rho y (e.u), with
    y = gamma phi' - phi and e = phi where lam is 0; with ``lam`` the stored trace of a step replaces its features in A
    and b. One step-size, which ``alpha="auto"``, the default, chooses during learning. Cost O((m1 + m2) d). With a
    constant step it converges linearly to a neighbourhood of the TD solution. Paper, Algorithm 1 and eq. imgtd; m1 = m2
    = 1 is the single pair of eq. one_update.
    """
    batch_td_update(stream, now.second, state.theta, state.u)
    batch_transpose_apply(stream, now.first, state.u, state.g)
    add_scaled(state.theta, -now.alpha, state.g)


def _choose(hyper: Mapping[str, Any]) -> Algorithm:
    return choose_variant(_IMPRESSION, hyper)


_IMPRESSION = Algorithm(
    "impression_gtd",
    impression_gtd,
    two_vectors,
    draws="two batches",
    traces=True,
    storage=CLEARED,
    parameters={
        "alpha": Parameter("auto", "step-size: a number, or auto to choose it during learning", number_or_auto),
        "directions": Parameter(
            "one",
            "one (Algorithm 1), both (each with the full step), averaged (half of each)",
            choice("one", "both", "averaged"),
        ),
        "similarity": Parameter(
            "correlation",
            "correlation, mspbe, an S.P.D. matrix U (phi' U^{-1} phi), or a kernel function",
            check_similarity,
        ),
        "ridge": RIDGE,
    },
    choose=_choose,
)

ALGORITHMS = (_IMPRESSION,)
