"""Chains of states: Boyan's, the off-policy random walk with three sets of features, and the Collision task."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.problems.base import MOST_STATES, FiniteMDP, Problem

_FEATURES = ("tabular", "inverted", "dependent")


def random_walk(features: str = "tabular", n: int = 5) -> Problem:
    """A random walk over ``n`` states, started in the middle: reward -1 past the left end, +1 past the right, gamma 1.

    The behaviour goes left and right equally often, the target left with probability .4. Sutton et al. (2009), as
    Ghiassian et al. (2020) use it.

    Parameters
    ----------
    features : str
        ``tabular``; ``inverted`` (zeros and ones exchanged, rows of length one); ``dependent`` ((n+1)/2 features, rows
        of length one).
    n : int
        Number of states, odd.
    """
    checks.one_of("features", features, _FEATURES)
    n = checks.whole_number("n", n, 3, MOST_STATES)
    if n % 2 == 0:
        raise InputError(f"n must be odd, so that there is a middle state; got {n}.")
    left_end, right_end = n, n + 1
    transition, reward = np.zeros((n + 2, 2, n + 2)), np.zeros((n + 2, 2, n + 2))
    for s in range(n):
        transition[s, 0, s - 1 if s > 0 else left_end] = 1.0
        transition[s, 1, s + 1 if s < n - 1 else right_end] = 1.0
    reward[0, :, left_end] = -1.0
    reward[n - 1, :, right_end] = 1.0
    table = np.zeros((n + 2, _table(features, n).shape[1]))
    table[:n] = _table(features, n)
    return Problem(
        name=f"random_walk_{features}" + (f"_{n}" if n != 5 else ""),
        mdp=FiniteMDP(transition, reward, np.arange(n + 2) >= n, np.eye(n + 2)[n // 2]),
        behaviour=np.full((n + 2, 2), 0.5),
        target=np.tile([0.4, 0.6], (n + 2, 1)),
        features=table,
        gamma=1.0,
        source="Ghiassian et al. (2020)",
    )


def random_walk_tabular(n: int = 5) -> Problem:
    """The random walk with one feature per state.

    Parameters
    ----------
    n : int
        Number of states, odd.
    """
    return random_walk("tabular", n)


def random_walk_inverted(n: int = 5) -> Problem:
    """The random walk with inverted features: all features are on except the state's own.

    Parameters
    ----------
    n : int
        Number of states, odd.
    """
    return random_walk("inverted", n)


def random_walk_dependent(n: int = 5) -> Problem:
    """The random walk with (n+1)/2 dependent features.

    Parameters
    ----------
    n : int
        Number of states, odd.
    """
    return random_walk("dependent", n)


def _table(kind: str, n: int) -> Floats:
    if kind == "tabular":
        return np.eye(n)
    if kind == "inverted":
        table = 1.0 - np.eye(n)
    else:
        k = (n + 1) // 2
        growing = np.tri(k)
        table = np.vstack([growing, np.triu(np.ones((k, k)), 1)[:-1]])
    return np.asarray(table / np.linalg.norm(table, axis=1, keepdims=True))


def boyan_chain(n: int = 13) -> Problem:
    """Boyan's chain of ``n`` states (Boyan 2002): from i to i-1 or i-2, reward -3; from 1 to 0, reward -2.

    State 0 ends the episode. Every episode starts in state n-1. Gamma is 1 and v(i) = -2 i, which
    is linear in the features: interpolations between unit vectors at every fourth state.

    Parameters
    ----------
    n : int
        Number of states: 5, 9, 13 and so on. Boyan's chain has 13.
    """
    return _chain("boyan_chain", n, single_step_below=2, source="Boyan (2002)")


def boyan_chain_tdrc(n: int = 13) -> Problem:
    """The variant simulated by the authors of TDRC, in which state 2 also always moves one step (reward -3).

    Its values are not linear in the features. (The authors' matrices describe a third chain.)

    Parameters
    ----------
    n : int
        Number of states: 5, 9, 13 and so on.
    """
    return _chain("boyan_chain_tdrc", n, single_step_below=3, source="Ghiassian et al. (2020), their simulator")


def _chain(name: str, n: int, single_step_below: int, source: str) -> Problem:
    n = checks.whole_number("n", n, 5, MOST_STATES)
    if n % 4 != 1:
        raise InputError(f"n must be 4 k + 1 (5, 9, 13, ...) so that the features end at a unit vector, got {n}.")
    transition, reward = np.zeros((n, 1, n)), np.zeros((n, 1, n))
    for i in range(1, n):
        if i < single_step_below:
            transition[i, 0, i - 1] = 1.0
        else:
            transition[i, 0, [i - 1, i - 2]] = 0.5
        reward[i, 0] = -2.0 if i == 1 else -3.0
    terminal, start = np.arange(n) == 0, np.eye(n)[n - 1]
    policy = np.ones((n, 1))
    features = _interpolated_features(n)
    return Problem(
        name=name if n == 13 else f"{name}_{n}",
        mdp=FiniteMDP(transition, reward, terminal, start),
        behaviour=policy,
        target=policy,
        features=features,
        gamma=1.0,
        source=source,
    )


def _interpolated_features(n: int) -> Floats:
    """Feature 0 peaks at the start state n-1, the last feature at state 0, whose row is zero."""
    position = np.arange(n - 1, -1, -1) / 4
    features = np.maximum(0.0, 1.0 - np.abs(position[:, None] - np.arange((n - 1) // 4 + 1)))
    features[0] = 0.0
    return features


def collision(seed: int = 0) -> Problem:
    """Eight states in a row before an obstacle; moving forward from the last one earns 1 and ends the episode.

    Episodes start in one of the first four states, where the behaviour always goes forward; in the other four it goes
    forward or retreats with equal probability. Retreating ends the episode without reward. The target always goes
    forward, gamma is .9. Each state has six binary features, three of which are 1.

    Parameters
    ----------
    seed : int
        Draws which of the 20 possible feature rows the states have.
    """
    n, end = 8, 8
    transition, reward = np.zeros((n + 1, 2, n + 1)), np.zeros((n + 1, 2, n + 1))
    for s in range(n):
        transition[s, 0, s + 1] = 1.0
        transition[s, 1, end] = 1.0
    reward[n - 1, 0, end] = 1.0
    behaviour = np.full((n + 1, 2), 0.5)
    behaviour[: n // 2] = [1.0, 0.0]
    rows = np.array([[k in on for k in range(6)] for on in combinations(range(6), 3)], dtype=np.float64)
    chosen = np.random.default_rng(checks.seed_number(seed)).permutation(len(rows))[:n]
    features = np.zeros((n + 1, 6))
    features[:n] = rows[chosen]
    start = np.zeros(n + 1)
    start[: n // 2] = 0.25
    return Problem(
        name="collision" if seed == 0 else f"collision_{seed}",
        mdp=FiniteMDP(transition, reward, np.arange(n + 1) == end, start),
        behaviour=behaviour,
        target=np.tile([1.0, 0.0], (n + 1, 1)),
        features=features,
        gamma=0.9,
        source="Ghiassian and Sutton (2021)",
    )
