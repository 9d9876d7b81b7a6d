"""The Collision task of Ghiassian and Sutton (2021)."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from gradtd.core import checks
from gradtd.problems.base import FiniteMDP, Problem


def collision(seed: int = 0) -> Problem:
    """Eight states in a row before an obstacle; forward out of the last one earns 1 and ends the episode.

    Episodes start in one of the first four states, where only forward is taken; in the other four the
    behaviour goes forward or retreats, which ends the episode with nothing, with equal probability.
    The target always goes forward, gamma is .9. Each state has six binary features, three of them on.

    Parameters
    ----------
    seed : int
        Draws which of the 20 such rows of features belong to the states.
    """
    n, end = 8, 8
    transition, reward = np.zeros((n + 1, 2, n + 1)), np.zeros((n + 1, 2, n + 1))
    for s in range(n):
        transition[s, 0, s + 1] = 1.0
        transition[s, 1, end] = 1.0
    transition[end, :, end] = 1.0
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
        theta0=np.zeros(6),
        source="Ghiassian and Sutton (2021)",
    )
