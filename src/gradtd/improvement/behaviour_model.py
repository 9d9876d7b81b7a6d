"""The behaviour policy in every state: recorded probabilities, frequencies, or a softmax model of features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.logs import Log
from gradtd.logs.given_policies import one_a_step, policy_over, prepared
from gradtd.logs.row_policies import ByRow, InOrder

RIDGE = 1e-4
"""Penalty on the squared weights of the softmax model, per step."""
MOST_STEPS = 50_000
"""Maximum number of steps to fit the softmax model; more steps only take longer."""


def given_probabilities(log: Log, behaviour: Any) -> tuple[ByRow | None, Floats | None]:
    """The behaviour's probabilities of all actions by row, or those of the actions taken; (None, None) if it is
    fitted."""
    given = prepared(log, "behaviour", behaviour)
    if given is None:
        if log.behaviour is None:
            raise InputError(
                "the log does not contain the probabilities of its actions: give the behaviour (a function, a table, "
                "an array "
                "or the name of a column), or behaviour='estimate' to fit a model to the log."
            )
        return None, log.behaviour
    if isinstance(given, InOrder):
        return None, one_a_step(log, "behaviour", given)
    if isinstance(given, str) and given == "estimate":
        return None, None
    if isinstance(given, str) and given in log.extra:
        return None, np.asarray(log.extra[given])
    return policy_over(log, "behaviour", given), None


def known_probabilities(log: Log, behaviour: Any, place: Integers, n_places: int) -> Floats:
    """The behaviour's probabilities of all actions in every discrete state.

    Recorded ones are averaged by state and action; the rest is divided equally among actions never taken there. Without
    records, the probabilities are frequencies, with one step added for every action.
    """
    A = log.n_actions
    asked, taken = given_probabilities(log, behaviour)
    if asked is not None:
        first = np.full(n_places, -1, np.int64)
        first[place[log.row[::-1]]] = log.row[::-1]
        known = np.full((n_places, A), 1.0 / A)
        known[first >= 0] = asked(first[first >= 0])[:, :A]
        return np.asarray(known / known.sum(axis=1, keepdims=True))
    assert log.action is not None
    pair = place[log.row] * A + log.action
    counts = np.bincount(pair, minlength=n_places * A).reshape(n_places, A).astype(np.float64)
    if taken is None:
        return np.asarray((counts + 1.0) / (counts.sum(axis=1, keepdims=True) + A))
    sums = np.bincount(pair, taken, n_places * A).reshape(n_places, A)
    known = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
    never = counts == 0
    rest = np.maximum(1.0 - known.sum(axis=1, keepdims=True), 0.0)
    known += never * rest / np.maximum(never.sum(axis=1, keepdims=True), 1)
    return np.asarray(known / known.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class BehaviourModel:
    """Probabilities of actions as the softmax of ``features @ weights``, weights (features, actions)."""

    weights: Floats

    def __call__(self, features: Floats) -> Floats:
        score = features @ self.weights
        chance = np.exp(score - score.max(axis=1, keepdims=True))
        return np.asarray(chance / chance.sum(axis=1, keepdims=True))


def fit_behaviour(rows: Floats, log: Log, behaviour: Any, ridge: float = RIDGE) -> BehaviourModel:
    """Multinomial logistic regression of the actions, or of their known probabilities, on features."""
    from scipy.optimize import minimize

    assert log.action is not None
    A, steps = log.n_actions, np.arange(len(log))
    if len(steps) > MOST_STEPS:
        steps = np.sort(np.random.default_rng(0).choice(len(steps), MOST_STEPS, replace=False))
    asked, _ = given_probabilities(log, behaviour)
    wanted = np.eye(A)[log.action[steps]] if asked is None else asked(log.row[steps])[:, :A]
    x = rows[steps]
    scale = np.sqrt((x**2).mean(axis=0))
    scale[scale == 0] = 1.0
    x = x / scale

    def loss(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(-1, A)
        score = x @ weights
        score -= score.max(axis=1, keepdims=True)
        chance = np.exp(score)
        total = chance.sum(axis=1, keepdims=True)
        gap = chance / total - wanted
        value = float((np.log(total[:, 0]) - (wanted * score).sum(axis=1)).mean()) + ridge * float(flat @ flat) / 2
        return value, (x.T @ gap / len(x) + ridge * weights).ravel()

    found = minimize(loss, np.zeros(x.shape[1] * A), jac=True, method="L-BFGS-B", options={"maxiter": 300})
    return BehaviourModel(found.x.reshape(-1, A) / scale[:, None])
