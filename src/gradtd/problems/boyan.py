"""Boyan's chain: on-policy, episodic, four features that represent the values exactly."""

from __future__ import annotations

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.problems.base import MOST_STATES, FiniteMDP, Problem


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
    """The variant simulated by the authors of TDRC: state 2, too, always moves one step (reward -3).

    Its values are not linear in the features. (Their matrices describe yet another chain.)

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
    transition[0, 0, 0] = 1.0
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
        theta0=np.zeros(features.shape[1]),
        source=source,
    )


def _interpolated_features(n: int) -> Floats:
    """Feature 0 peaks at the start state n-1, the last one at state 0, whose own row stays zero."""
    position = np.arange(n - 1, -1, -1) / 4
    features = np.maximum(0.0, 1.0 - np.abs(position[:, None] - np.arange((n - 1) // 4 + 1)))
    features[0] = 0.0
    return features
