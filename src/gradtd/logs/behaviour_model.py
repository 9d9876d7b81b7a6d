"""A model of an unrecorded behaviour policy, fitted to the log, and the effect of its error on the value.

Estimated probabilities add their own error to the value. The correction is that of a two-step M-estimator: each step's
contribution is projected on the scores of the model, and this projection is replaced by the model's estimation error
(Newey and McFadden 1994, section 6).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.logs.log import Log

FOLDS = 5
MOST = 200_000
"""Maximum number of steps to which a model is fitted. More take longer and change little."""
ADDED, ADDED_LESS = 1.0, 0.25
"""The pseudocount of every action, and a smaller one to measure its effect."""
MOST_RICHER = 40
"""Number of columns of the richer model: squares and products of the observed columns."""


@dataclass(frozen=True, eq=False)
class BehaviourModel:
    """Probabilities of the actions taken, by cross-fitting: each step's model was fitted without its episode."""

    chance: Floats  # the chance of the action taken, for every step
    other: Floats
    """The same probability under a second model: a richer one or, for discrete observations, one with a smaller
    pseudocount."""
    action: Integers  # codes 0, 1, ... of the actions that occur.
    state: Integers | None  # the state of every step if observations are discrete, else None
    x: Floats
    every: Floats
    """``x`` and ``every``, for continuous observations: the columns of the regression, including a constant, and the
    probabilities of all actions."""
    notes: tuple[str, ...]  # sentences to show

    @property
    def parameters(self) -> int:
        """The number of fitted parameters."""
        if self.state is None:
            return int((self.every.shape[1] - 1) * self.x.shape[1])
        pairs = self.state * (int(self.action.max()) + 1) + self.action
        return len(np.unique(pairs)) - len(np.unique(self.state))

    def explained(self, pull: Floats) -> Floats:
        """Project every step's contribution ``pull`` on the scores of the model, by least squares."""
        if self.state is not None:
            return _explained_by_cells(pull, self.state, self.action)
        n, actions = self.every.shape
        off = np.eye(actions)[self.action][:, 1:] - self.every[:, 1:]
        k = self.x.shape[1]
        information, along = np.zeros(((actions - 1) * k,) * 2), np.zeros((actions - 1) * k)
        for part in (slice(a, a + 10_000) for a in range(0, n, 10_000)):
            scores = _scores(self.x[part], off[part])
            information += scores.T @ scores
            along += pull[part] @ scores
        weights = np.linalg.lstsq(information, along, rcond=1e-10)[0]
        return np.asarray(np.einsum("nk,na,ak->n", self.x, off, weights.reshape(actions - 1, k)))


def _scores(x: Floats, off: Floats) -> Floats:
    return np.asarray((off[:, :, None] * x[:, None, :]).reshape(len(x), -1))


def _explained_by_cells(pull: Floats, state: Integers, action: Integers) -> Floats:
    """For frequencies by state: the mean over the (state, action) cell minus the mean over the state."""
    actions = int(action.max()) + 1
    cell = state * actions + action
    n = np.maximum(np.bincount(cell), 1)
    by_cell = np.bincount(cell, pull) / n
    by_state = np.bincount(state, pull) / np.maximum(np.bincount(state), 1)
    return np.asarray(by_cell[cell] - by_state[state])


def estimate_behaviour(log: Log, seed: int) -> BehaviourModel:
    """Fit the behaviour on folds of the episodes.

    With N training steps (those with the same observation, if it is discrete) and A actions, p = (N p_model + 1) / (N +
    A), so that every action has a positive probability. The model is a frequency table for discrete observations and a
    multinomial logistic regression on standardised observations otherwise.
    """
    if not log.discrete_actions or log.action is None:
        what = "has no actions" if log.action is None else "has continuous actions"
        raise InputError(
            f"behaviour='estimate' needs discrete actions, and the log {what}: give the behaviour's densities."
        )
    if log.n_episodes < 2:
        raise InputError(
            "behaviour='estimate' needs at least 2 episodes: each episode's model is fitted to the others."
        )
    action = np.unique(log.action, return_inverse=True)[1]
    folds = min(FOLDS, log.n_episodes)
    rng = np.random.default_rng(seed)
    fold = (rng.permutation(log.n_episodes) % folds)[log.episode]
    how = "frequencies" if log.discrete_observations else "logistic regression"
    said = (
        f"The behaviour's probabilities were estimated ({how}, {folds} folds over episodes): the result is "
        f"valid only if this model is right."
    )
    if log.discrete_observations:
        state = np.unique(log.observations[log.row], return_inverse=True)[1]
        both = [_frequencies(state, action, fold, added) for added in (ADDED, ADDED_LESS)]
        nothing = np.zeros((len(log), 0))
        return BehaviourModel(both[0], both[1], action, state, nothing, nothing, (said,))
    seen = np.asarray(log.observations[log.row], np.float64).reshape(len(log), -1)
    x = standardised(seen)
    every, notes = _regression(x, action, fold, rng)
    other, _ = _regression(_richer(x), action, fold, rng)
    at = np.arange(len(log))
    constant = np.c_[np.ones(len(log)), x]
    notes = (said, *dict.fromkeys(notes))
    return BehaviourModel(every[at, action], other[at, action], action, None, constant, every, notes)


def standardised(seen: Floats) -> Floats:
    """Columns scaled to mean 0 and standard deviation 1."""
    spread = seen.std(axis=0)
    spread[spread == 0] = 1.0
    return np.asarray((seen - seen.mean(axis=0)) / spread)


def _richer(x: Floats) -> Floats:
    """The columns with their squares, then products, up to the maximum number of columns."""
    k = x.shape[1]
    pairs = [(i, i) for i in range(k)] + [(i, j) for i in range(k) for j in range(i)]
    more = [x[:, i] * x[:, j] for i, j in pairs[: max(0, MOST_RICHER - k)]]
    return np.c_[x, standardised(np.stack(more, axis=1))] if more else x


def _frequencies(state: Integers, action: Integers, fold: Integers, added: float) -> Floats:
    """Counts of actions per observation in the other folds, plus a pseudocount."""
    n = int(action.max()) + 1
    pair = state * n + action
    cells = (int(state.max()) + 1) * n
    counts, visits = np.bincount(pair, minlength=cells), np.bincount(state)
    chance = np.empty(len(state))
    for k in range(int(fold.max()) + 1):
        own = fold == k
        inside = counts - np.bincount(pair[own], minlength=cells)
        seen = visits - np.bincount(state[own], minlength=len(visits))
        chance[own] = (inside[pair[own]] + added) / (seen[state[own]] + added * n)
    return chance


def _regression(
    x: Floats, action: Integers, fold: Integers, rng: np.random.Generator
) -> tuple[Floats, tuple[str, ...]]:
    """Probabilities of all actions for every step, from regressions on the other folds, with a note if one did not
    converge."""
    actions = int(action.max()) + 1
    every, notes = np.zeros((len(x), actions)), []
    for k in range(int(fold.max()) + 1):
        inside, outside = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        if len(inside) > MOST:
            inside = np.sort(rng.choice(inside, MOST, replace=False))
        seen = np.unique(action[inside])
        if len(seen) == 1:
            every[outside, seen[0]] = 1.0
        else:
            model, converged = _fitted(x[inside], action[inside])
            every[np.ix_(outside, seen)] = model.predict_proba(x[outside])
            if not converged:
                notes.append(
                    "The model of the behaviour did not converge: scale the observations, or give probabilities."
                )
        every[outside] = (len(inside) * every[outside] + ADDED) / (len(inside) + ADDED * actions)
    return every, tuple(notes)


def _fitted(x: Floats, action: Integers) -> tuple[Any, bool]:
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
