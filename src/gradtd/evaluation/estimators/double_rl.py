"""Marginal weights from the least-squares solve, and double reinforcement learning with them.

The value of least squares is linear in the rewards: v = -m.A^-1 b = sum of w_t r_t, with m the mean start features and
w_t = -rho_t x_t.(A^-T m) / n. These weights estimate how often the target is where the log was, discounted, over how
often the log was there (linear DICE). No ratios are multiplied along an episode.

Double reinforcement learning (Kallus and Uehara, 2020) takes both halves, V and w, from episodes that it does not
judge: with theta and A^-T m of the other folds, the mean over the episodes of a fold of
V(s_0) + sum of w_t (r_t + discount V(s_{t+1}) - V(s_t)). On the folds' own episodes the second term would vanish, and
least squares would be left. An error of the features in V is multiplied by one in w.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.blas import one_thread
from gradtd.core.stream import Stream
from gradtd.evaluation.estimators.least_squares import GroupSums, LeastSquares, step_influences, sums
from gradtd.evaluation.estimators.products import values_of
from gradtd.evaluation.estimators.solvers import DENSE, solver_of

FOLDS = 5
"""Folds of the episodes, where there are as many. A convention: a solution without a fold uses four fifths of a log."""


def fold_of_episodes(n_episodes: int, folds: int = FOLDS) -> Any:
    """The fold of every episode: its number mod ``folds``."""
    return (np.arange(n_episodes) % min(folds, n_episodes)).astype(np.int16)  # compared for every step and fold


def fold_of_steps(stream: Stream, begins: Integers) -> Any:
    """The fold of every step; None where the equations of a fold, dense and large, would not be solved."""
    if isinstance(stream.features, np.ndarray) and stream.n_features > DENSE:
        return None
    return np.repeat(fold_of_episodes(len(begins) - 1), np.diff(begins))


def marginal_weights(stream: Stream, left: Floats, traces: Any = None) -> Floats:
    """One weight per step; ``left`` is A^-T times the mean start features. The sum of w r is the value."""
    weights = values_of(stream.features, left)[stream.steps["row"]] if traces is None else values_of(traces, left)
    weights *= stream.steps["rho"]  # in place: arrays as long as a log are what memory goes to
    weights /= -len(stream)
    return np.asarray(weights)


class Double(NamedTuple):
    """The value by double reinforcement learning, its standard error, and what each episode says."""

    value: float
    error: float
    episodes: Floats


@one_thread()
def double_rl(
    stream: Stream,
    starts: Any,
    begins: Integers,
    square: LeastSquares,
    folds: int = FOLDS,
    known: Sequence[GroupSums] = (),
) -> Double:
    """Double reinforcement learning, cross-fitted over episodes; episode e is in fold e mod ``folds``.

    The error is that of a mean of independent contributions, one per episode: they are the estimate's influences.
    ``known`` are sums by fold, where the log was read for them already.
    """
    n = len(begins) - 1
    fold = fold_of_episodes(n, folds)
    of_step = np.repeat(fold, np.diff(begins))
    parts = known or sums(stream, C=square.sums.C, fold=of_step).folds
    solved = []
    for k in range(len(parts)):
        others, episodes, steps = fold != k, int((fold != k).sum()), int((of_step != k).sum())
        rest = [part for j, part in enumerate(parts) if j != k]
        A, b = reduce(add, (part.A for part in rest)) / steps, reduce(add, (part.b for part in rest)) / steps
        if isinstance(square.sums.C, np.ndarray) and not isinstance(A, np.ndarray):
            A = A.toarray()
        solver = solver_of(A, square.sums.C)
        mean = np.asarray(starts[others].sum(axis=0)).ravel() / episodes
        solved.append((solver.solve(-b), solver.solve(mean, transposed=True) * (episodes / steps)))
    theta, left = (np.array(vectors) for vectors in zip(*solved, strict=True))
    weighted = -step_influences(stream, theta, left, fold=of_step)
    first = np.asarray(starts @ theta.T)[np.arange(n), fold]
    contribution = first + np.add.reduceat(weighted, begins[:-1])
    error = float(contribution.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan
    return Double(float(contribution.mean()), error, contribution)
