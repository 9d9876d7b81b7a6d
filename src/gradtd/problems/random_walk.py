"""The off-policy random walk with three sets of features."""

from __future__ import annotations

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.problems.base import MOST_STATES, FiniteMDP, Problem

_FEATURES = ("tabular", "inverted", "dependent")


def random_walk(features: str = "tabular", n: int = 5) -> Problem:
    """A walk over ``n`` states from the middle: -1 past the left end, +1 past the right, gamma 1.

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
    transition[[left_end, right_end], :, [left_end, right_end]] = 1.0
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
        theta0=np.zeros(table.shape[1]),
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
    """The random walk with all features on but the state's own.

    Parameters
    ----------
    n : int
        Number of states, odd.
    """
    return random_walk("inverted", n)


def random_walk_dependent(n: int = 5) -> Problem:
    """The random walk with (n+1)/2 features that overlap.

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
