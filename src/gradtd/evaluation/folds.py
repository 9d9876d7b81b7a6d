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


def fold_of_episodes(n_episodes: int, folds: int = FOLDS) -> Integers:
    """The fold of every episode: its number mod ``folds``."""
    return np.arange(n_episodes) % min(folds, n_episodes)


def fold_of_steps(begins: Integers) -> Integers:
    """The fold of every step."""
    return np.repeat(fold_of_episodes(len(begins) - 1), np.diff(begins))


def by_fold(fold: Integers, part: slice) -> tuple[Integers, list[tuple[int, slice]]]:
    """Steps of a part in the order of their folds, and where those of each fold are."""
    here = fold[part]
    order = np.argsort(here, kind="stable")
    kinds, first = np.unique(here[order], return_index=True)
    ends = np.append(first[1:], len(here))
    runs = [(int(k), slice(int(a), int(b))) for k, a, b in zip(kinds, first, ends, strict=True)]
    return part.start + order, runs
