"""Least-squares policy iteration that moves probability only between actions that are frequent enough in the log.

At a place (a state, or an observation in features) an action is *known* if the log took it there at least ``least``
times. All other actions are treated as one, which keeps the behaviour's probability. Therefore all compared values are
estimated from steps of the log:

    x(s, a) = phi(s) in the block of a if a is known in s, else in the block of the other actions
    A = sum of x (x - discount E_pi x(s', .))',  b = sum of r x,  q = A^-1 b
    pi(.|s): the known action with the largest q gets the probability of all known ones; the rest is unchanged

With one iteration the policy is greedy on the behaviour's values, which needs no data from other policies
(Brandfonbrener et al. 2021); further iterations can gain more but fail more easily.

q is lowered by ``caution`` standard errors before it is compared. With features other than one per state, the count is
1 / phi'(sum of phi phi' over steps with a)^-1 phi, which equals the count of (s, a) if each state has its own feature.
The iteration is due to Lagoudakis and Parr (2003); keeping the behaviour for rare actions (SPIBB) is due to Laroche,
Trichelair and Tachet des Combes (2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.blas import one_thread
from gradtd.improvement.experience import Experience

MOST_ITERATIONS = 20
RIDGE = 1e-8
"""Share of the mean diagonal that is added to a matrix of features before solving."""
FEW = 5
"""Number of steps with the mean squared error that are added to every pair, since few steps can agree by chance."""
TABLE_RIDGE = 1e-3
"""Number of steps of value 0 that are added to every pair of a table, so that cycles without exit also have a value."""


@dataclass(frozen=True, eq=False)
class Learned:
    """The result of learning from one part of the episodes.

    For every place, ``known`` marks the actions that were taken often enough, and ``best`` is the best of them (-1 if
    fewer than two are known). If values are linear in features, ``weights`` (features, actions) and ``inverse``
    (actions, features, features) give the same for any observation.
    """

    known: Any
    best: Integers
    least: float
    weights: Floats | None = None
    inverse: Floats | None = None
    spread: Floats | None = None

    def probabilities(self, behaviour: Floats) -> Floats:
        """The policy at every place."""
        return moved(behaviour, self.known, self.best)

    def elsewhere(self, rows: Floats, behaviour: Floats) -> Floats:
        """The policy at observations with these features."""
        assert self.weights is not None
        assert self.inverse is not None
        assert self.spread is not None
        counts = _counts(rows, self.inverse)
        known = counts >= self.least
        return moved(behaviour, known, _greedy(rows @ self.weights, self.spread / np.sqrt(counts), known, behaviour))


def moved(behaviour: Floats, known: Any, best: Integers) -> Floats:
    """The behaviour's probabilities, with those of all known actions moved to the best of them."""
    pi = np.array(behaviour)
    rows = np.flatnonzero(best >= 0)
    mass = np.minimum((pi[rows] * known[rows]).sum(axis=1), 1.0)
    pi[rows] = np.where(known[rows], 0.0, pi[rows])
    pi[rows, best[rows]] = mass
    return pi


def _greedy(q: Floats, error: Floats, known: Any, behaviour: Floats) -> Integers:
    """The known action with the largest lower bound, or, if several are equal, the behaviour's most frequent one; -1
    with fewer than two known actions.

    ``error`` is the amount subtracted from each value.
    """
    rows = np.arange(len(q))
    usual = np.where(known, behaviour, -1.0).argmax(axis=1)
    low = np.where(known, q - error, -np.inf)
    best = low.argmax(axis=1)
    with np.errstate(invalid="ignore"):
        gain = low[rows, best] - low[rows, usual]
    best = np.where(gain > 1e-9 * (1 + np.abs(q[rows, usual])), best, usual)
    return np.where(known.sum(axis=1) > 1, best, -1)


def _counts(rows: Floats, inverse: Floats) -> Floats:
    """The effective number of steps with every action at these features."""
    leverage = np.stack([((rows @ one) * rows).sum(axis=1) for one in inverse], axis=1)
    return np.asarray(1.0 / np.maximum(leverage, 1e-12))


@one_thread()
def learn(
    experience: Experience, steps: Integers, least: float, caution: float = 0.0, iterations: int = MOST_ITERATIONS
) -> Learned:
    """Policy iteration on these steps of the log, until the policy no longer changes or ``iterations`` are done."""
    if experience.table is None:
        return _learn_table(experience, steps, least, caution, iterations)
    return _learn_linear(experience, steps, least, caution, iterations)


def _learn_table(experience: Experience, steps: Integers, least: float, caution: float, iterations: int) -> Learned:
    from scipy.sparse import csc_array, csr_array, identity
    from scipy.sparse.linalg import splu

    S, A = experience.n_places, experience.n_actions
    place, action, after = experience.place[steps], experience.action[steps], experience.after[steps]
    counts = np.bincount(place * A + action, minlength=S * A).reshape(S, A)
    known = counts >= least
    block = np.where(known, np.arange(A), A)
    pair = place * (A + 1) + block[place, action]
    met, column = np.unique(pair, return_inverse=True)
    n = len(met)
    number = np.full(S * (A + 1), -1)
    number[met] = np.arange(n)
    times = np.bincount(column, minlength=n).astype(np.float64)
    leads = csr_array((experience.discount[steps], (column, after)), shape=(n, S))
    reward, discount = experience.reward[steps], experience.discount[steps]
    right = np.bincount(column, reward, n)
    behaviour, best = experience.behaviour, np.full(S, -1)
    for _ in range(iterations):
        pi = moved(behaviour, known, best)
        blocks = np.zeros((S, A + 1))
        blocks[:, :A] = pi * known
        blocks[:, A] = (pi * ~known).sum(axis=1)
        at, label = np.nonzero((blocks > 0) & (number.reshape(S, A + 1) >= 0))
        chosen = csr_array((blocks[at, label], (at, number[at * (A + 1) + label])), shape=(S, n))
        M = csc_array(identity(n, format="csc").multiply(times + TABLE_RIDGE) - leads @ chosen)
        value = splu(M).solve(right)
        q = _table(value, met, S, A)
        delta = reward + discount * (chosen @ value)[after] - value[column]
        square = np.bincount(column, delta**2, n)
        error = caution * np.sqrt((square + FEW * square.sum() / len(steps)) / (times + FEW) / times)
        new = _greedy(q, _table(error, met, S, A), known, behaviour)
        if (new == best).all():
            break
        best = new
    return Learned(known, best, least)


def _table(values: Floats, met: Integers, S: int, A: int) -> Floats:
    """Numbers of the observed pairs as a table of states and actions; 0 elsewhere."""
    table = np.zeros(S * (A + 1))
    table[met] = values
    return table.reshape(S, A + 1)[:, :A]


def _learn_linear(experience: Experience, steps: Integers, least: float, caution: float, iterations: int) -> Learned:
    assert experience.table is not None
    table, A = experience.table, experience.n_actions
    place, action, after = experience.place[steps], experience.action[steps], experience.after[steps]
    d = table.shape[1]
    rows, following = table[place], table[after]
    inverse = np.empty((A, d, d))
    for a in range(A):
        of_a = rows[action == a]
        gram = of_a.T @ of_a
        inverse[a] = np.linalg.pinv(gram + RIDGE * max(float(np.trace(gram)), 1e-300) / d * np.eye(d), hermitian=True)
    counts = _counts(table, inverse)
    known = counts >= least
    block = np.where(known[place, action], action, A)
    x = _in_blocks(rows, np.eye(A + 1)[block])
    gram, right = x.T @ x, x.T @ experience.reward[steps]
    ridge = RIDGE * max(float(np.trace(gram)), 1e-300) / len(gram) * np.eye(len(gram))
    known_after, behaviour_after = known[after], experience.behaviour[after]
    discounted = x * experience.discount[steps][:, None]
    best = np.full(len(table), -1)
    weights: Floats = np.zeros((d, A))
    spread: Floats = np.zeros(A)
    for _ in range(iterations):
        pi = moved(behaviour_after, known_after, best[after])
        chosen = np.c_[pi * known_after, (pi * ~known_after).sum(axis=1)]
        z = _in_blocks(following, chosen)
        every = np.linalg.lstsq(gram + ridge - discounted.T @ z, right, rcond=1e-10)[0]
        weights = np.asarray(every, np.float64).reshape(d, A + 1)[:, :A]
        delta = experience.reward[steps] + experience.discount[steps] * (z @ every) - x @ every
        of_action = [delta[block == a] for a in range(A)]
        spread = np.array([caution * np.sqrt((one**2).mean()) if len(one) else 0.0 for one in of_action])
        new = _greedy(table @ weights, spread / np.sqrt(counts), known, experience.behaviour)
        if (new == best).all():
            break
        best = new
    return Learned(known, best, least, weights, inverse, spread)


def _in_blocks(rows: Floats, chances: Floats) -> Floats:
    """Features in the blocks of actions, weighted by probabilities: (steps, features * blocks)."""
    return np.asarray((rows[:, :, None] * chances[:, None, :]).reshape(len(rows), -1))
