"""Garnets: random problems of chosen size (Archibald, McKinnon and Thomas 1995)."""

from __future__ import annotations

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats
from gradtd.problems.base import MOST_STATES, FiniteMDP, Problem


def garnet(
    states: int = 30,
    actions: int = 4,
    branching: int = 3,
    n_features: int = 8,
    features: str = "dense",
    off_policy: float = 0.5,
    gamma: float = 0.9,
    seed: int = 0,
) -> Problem:
    """A random continuing problem: from each state and action to ``branching`` random states.

    Transition probabilities are gaps between uniform numbers, mean rewards are standard normal. The first feature is
    always one, and rows of features have length one.

    Parameters
    ----------
    states : int
        Number of states.
    actions : int
        Number of actions.
    branching : int
        Number of states that a state and an action can lead to.
    n_features : int
        Number of features.
    features : str
        ``dense`` (standard normal), ``binary`` (a quarter of them on) or ``positive`` (uniform in [0, 1]).
    off_policy : float
        From 0 (target = behaviour) to 1: the weight of an independent random policy in the target.
    gamma : float
        The discount.
    seed : int
        A different seed gives a different problem.
    """
    states = checks.whole_number("states", states, 2, MOST_STATES)
    actions = checks.whole_number("actions", actions, 1, MOST_STATES)
    branching = checks.whole_number("branching", branching, 1, states)
    n_features = checks.whole_number("n_features", n_features, 1, MOST_STATES)
    checks.one_of("features", features, ("dense", "binary", "positive"))
    off_policy, gamma = checks.fraction("off_policy", off_policy), checks.fraction("gamma", gamma)
    rng = np.random.default_rng(checks.seed_number(seed))
    transition = np.zeros((states, actions, states))
    for s in range(states):
        for a in range(actions):
            cuts = np.sort(rng.random(branching - 1))
            successors = rng.choice(states, branching, replace=False)
            # With probability .001 the next state is any state, so that every state is visited.
            transition[s, a, successors] = 0.999 * np.diff(np.r_[0.0, cuts, 1.0])
            transition[s, a] += 0.001 / states
    reward = np.repeat(rng.standard_normal((states, actions, 1)), states, axis=2)
    behaviour = rng.dirichlet(np.full(actions, 2.0), size=states)
    other = rng.dirichlet(np.full(actions, 2.0), size=states)
    return Problem(
        name=f"garnet_{states}_{actions}_{branching}_{n_features}_{features}_{off_policy:g}_{gamma:g}_{seed}",
        mdp=FiniteMDP(transition, reward, np.zeros(states, bool), np.full(states, 1 / states)),
        behaviour=behaviour,
        target=(1 - off_policy) * behaviour + off_policy * other,
        features=_features(rng, states, n_features, features),
        gamma=gamma,
        source=f"random, seed {seed}",
        block=50,
    )


def _features(rng: np.random.Generator, states: int, n_features: int, kind: str) -> Floats:
    if kind == "dense":
        table = rng.standard_normal((states, n_features))
    elif kind == "positive":
        table = rng.random((states, n_features))
    else:
        on = max(1, n_features // 4)
        table = (rng.random((states, n_features)).argsort(axis=1) < on).astype(np.float64)
    table[:, 0] = 1.0
    return np.asarray(table / np.linalg.norm(table, axis=1, keepdims=True))
