"""Control with linear action values: the next value is that of the greedy action, or of an epsilon-greedy policy.

Rows of features belong to pairs of state and action, those of one state together: row = state n_actions + action. A
step's ``next_row`` is the first row of the next state, and the rule looks at all its ``n_actions`` rows. gradtd refuses
streams with another layout. With n_actions=1, the default, every rule equals the state-value rule that it extends. With
phi'(pi) = sum_a pi(a|s') phi(s', a), where pi is greedy by theta or epsilon-greedy, delta = r + gamma phi'(pi).theta -
phi.theta. The mean of delta phi is A_pi theta + b, linear between changes of pi.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradtd.algorithms.generic_gtd import CLEARED, two_vectors
from gradtd.algorithms.parameters import ETA
from gradtd.compiled.vectors import add_scaled, fill
from gradtd.core import checks
from gradtd.core.algorithm import Algorithm, Now, Parameter, Storage
from gradtd.core.arrays import Hyper, State
from gradtd.core.checks import whole
from gradtd.core.stream import StreamView
from gradtd.estimates import add_features, add_next_pairs, greedy_action, pair_td_error, projected


def q_learning(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Q-learning: theta += alpha rho delta phi, with delta = r + gamma max_a phi'_a.theta - phi.theta.

    Mean: A_pi theta + b with the greedy pi. Cost O(n_actions d). Converges with tabular features; with others it may
    diverge. Watkins (1989).
    """
    actions = int(hyper.n_actions)
    best = greedy_action(stream, now.t, actions, state.theta)
    delta = pair_td_error(stream, now.t, actions, 0.0, best, state.theta)
    add_features(stream, now.t, now.alpha * stream.steps[now.t].rho * delta, state.theta)


def expected_sarsa(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Expected Sarsa: theta += alpha rho delta phi, with the mean of phi'_a.theta over an epsilon-greedy policy.

    Mean: A_pi theta + b. Cost O(n_actions d). With epsilon=0 it is Q-learning. van
    Seijen, van Hasselt, Whiteson and Wiering (2009).
    """
    actions = int(hyper.n_actions)
    best = greedy_action(stream, now.t, actions, state.theta)
    delta = pair_td_error(stream, now.t, actions, hyper.epsilon, best, state.theta)
    add_features(stream, now.t, now.alpha * stream.steps[now.t].rho * delta, state.theta)


def greedy_gq(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Greedy-GQ: theta += alpha rho (delta phi - gamma phi'(pi) (phi.w));  w += eta alpha (rho delta - phi.w) phi.

    Means: A_pi theta + b - D_pi'w, with D_pi = E[rho gamma phi phi'(pi)'], and A_pi theta + b - C w. Cost
    O(n_actions d). It is TDC with the greedy next features; for a fixed policy use TDC with that policy's mean next
    features, which is GQ(0). Converges to a stationary point of the MSPBE of a policy that changes with theta. Maei,
    Szepesvari, Bhatnagar and Sutton (2010).
    """
    actions, rho = int(hyper.n_actions), stream.steps[now.t].rho
    best = greedy_action(stream, now.t, actions, state.theta)
    delta = pair_td_error(stream, now.t, actions, hyper.epsilon, best, state.theta)
    along = projected(stream, now.t, state.w)
    add_features(stream, now.t, now.alpha * rho * delta, state.theta)
    add_next_pairs(stream, now.t, actions, hyper.epsilon, best, -now.alpha * rho * along, state.theta)
    add_features(stream, now.t, hyper.eta * now.alpha * (rho * delta - along), state.w)


def impression_gq(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Impression GQ: u = mean over batch 2 of rho delta phi;  theta -= alpha mean over batch 1 of rho y (phi.u).

    Impression GTD with y = gamma phi'(pi) - phi, pi greedy by theta in both batches. Mean: -A_pi'(A_pi theta + b), the
    gradient of half of NEU(theta) wherever the greedy policy does not change. One step-size, no second vector. Cost
    O((m1 + m2) n_actions d).
    """
    actions, epsilon = int(hyper.n_actions), hyper.epsilon
    fill(state.u, 0.0)
    fill(state.g, 0.0)
    for j in range(now.second.shape[0]):
        t = now.second[j]
        best = greedy_action(stream, t, actions, state.theta)
        delta = pair_td_error(stream, t, actions, epsilon, best, state.theta)
        add_features(stream, t, stream.steps[t].rho * delta / now.second.shape[0], state.u)
    for i in range(now.first.shape[0]):
        t = now.first[i]
        best = greedy_action(stream, t, actions, state.theta)
        c = stream.steps[t].rho * projected(stream, t, state.u) / now.first.shape[0]
        add_next_pairs(stream, t, actions, epsilon, best, c, state.g)
        add_features(stream, t, -c, state.g)
    add_scaled(state.theta, -now.alpha, state.g)


def _second_vector(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    return {"w": np.zeros(n_features)}


_ACTIONS = {"n_actions": Parameter(1, "number of actions; the rows of a state's actions are consecutive", whole(1))}
_GREEDY = _ACTIONS | {"epsilon": Parameter(0.0, "the target policy is epsilon-greedy; 0: greedy", checks.fraction)}
_ROWS = {"theta": Storage.ROWS}
_WHY = "a trace ends where the action taken is not the target policy's, which changes with theta"

ALGORITHMS = (
    Algorithm("q_learning", q_learning, parameters=_ACTIONS, storage=_ROWS, traces=_WHY),
    Algorithm(
        "expected_sarsa",
        expected_sarsa,
        parameters=_GREEDY
        | {"epsilon": Parameter(0.1, "epsilon of the epsilon-greedy target policy", checks.fraction)},
        storage=_ROWS,
        traces=_WHY,
    ),
    Algorithm(
        "greedy_gq",
        greedy_gq,
        init=_second_vector,
        parameters=_GREEDY | {"eta": ETA},
        storage=_ROWS,
        traces=_WHY,
    ),
    Algorithm(
        "impression_gq",
        impression_gq,
        init=two_vectors,
        draws="two batches",
        parameters=_GREEDY,
        storage=CLEARED,
        traces=_WHY,
    ),
)
