"""Folds of the episodes, for estimates that judge an episode by what the others say."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Floats, Integers

FOLDS = 5
"""Folds of the episodes, where there are as many."""


class FoldSums(NamedTuple):
    """Sums over the steps of some episodes: of rho x y' and of rho r x."""

    A: Any
    b: Floats


def fold_of_episodes(n_episodes: int, folds: int = FOLDS) -> Any:
    """The fold of every episode: its number mod ``folds``."""
    return (np.arange(n_episodes) % min(folds, n_episodes)).astype(np.int16)  # compared for every step and fold


def fold_of_steps(begins: Integers) -> Any:
    """The fold of every step."""
    return np.repeat(fold_of_episodes(len(begins) - 1), np.diff(begins))
