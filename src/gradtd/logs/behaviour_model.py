"""The behaviour's probabilities, estimated where nobody wrote them down."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.logs.log import Log

FOLDS = 5
MOST = 200_000
"""How many steps a model is fitted to at most; more would only take longer."""


def estimate_behaviour(log: Log, seed: int) -> tuple[Floats, tuple[str, ...]]:
    """The probability of each action taken, from a model that never saw the step's episode.

    With N training steps (of the same observation, if that is discrete) and A actions,
    p = (N p_model + 1) / (N + A): no action is impossible. The model is a frequency for discrete
    observations, else multinomial logistic regression on standardised ones.
    """
    if not log.discrete_actions or log.action is None:
        what = "has no actions" if log.action is None else "has real-valued actions"
        raise InputError(f"behaviour='estimate' needs discrete actions, and the log {what}: give its densities.")
    if log.n_episodes < 2:
        raise InputError("behaviour='estimate' needs at least 2 episodes, to judge each by a model that never saw it.")
    labels, action = np.unique(log.action, return_inverse=True)
    folds = min(FOLDS, log.n_episodes)
    rng = np.random.default_rng(seed)
    fold = (rng.permutation(log.n_episodes) % folds)[log.episode]
    chance, notes = np.empty(len(log)), []
    for k in range(folds):
        inside, outside = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        if log.discrete_observations:
            chance[outside] = _frequencies(log, action, len(labels), inside, outside)
            continue
        if len(inside) > MOST:
            inside = np.sort(rng.choice(inside, MOST, replace=False))
        chance[outside], converged = _regression(log, action, len(labels), inside, outside)
        if not converged:
            notes.append("the model of the behaviour did not converge: scale the observations, or give probabilities.")
    how = "frequencies" if log.discrete_observations else "logistic regression"
    said = (
        f"the behaviour's probabilities were estimated ({how}, {folds} folds over episodes): "
        "what is computed from them is only as good as that model."
    )
    return chance, (said, *dict.fromkeys(notes))


def _frequencies(log: Log, action: Integers, n_actions: int, inside: Integers, outside: Integers) -> Floats:
    """Add-one counts of actions at each observation."""
    states, state = np.unique(log.observations[log.row], return_inverse=True)
    pair = state * n_actions + action
    counts = np.bincount(pair[inside], minlength=len(states) * n_actions)
    visits = np.bincount(state[inside], minlength=len(states))
    return np.asarray((counts[pair[outside]] + 1.0) / (visits[state[outside]] + n_actions))


def _regression(log: Log, action: Integers, n_actions: int, inside: Integers, outside: Integers) -> tuple[Floats, bool]:
    """Chances under a regression fitted inside, for the steps outside, and whether it converged."""
    seen = np.unique(action[inside])
    converged = True
    if len(seen) == 1:
        chance = (action[outside] == seen[0]).astype(np.float64)
    else:
        x = log.observations[log.row[inside]]
        mean, spread = x.mean(axis=0), x.std(axis=0)
        spread[spread == 0] = 1.0
        model, converged = _fitted((x - mean) / spread, action[inside])
        column = np.full(n_actions, -1)
        column[seen] = np.arange(len(seen))
        every = model.predict_proba((log.observations[log.row[outside]] - mean) / spread)
        mine = column[action[outside]]
        chance = np.where(mine < 0, 0.0, every[np.arange(len(outside)), np.maximum(mine, 0)])
    return (len(inside) * chance + 1) / (len(inside) + n_actions), converged


def _fitted(x: NDArray[Any], action: Integers) -> tuple[Any, bool]:
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise InputError(
            "behaviour='estimate' needs scikit-learn: pip install gradtd[sklearn], or give the probabilities."
        ) from None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = LogisticRegression(max_iter=1000).fit(x, action)
    return model, not any(issubclass(w.category, ConvergenceWarning) for w in caught)
