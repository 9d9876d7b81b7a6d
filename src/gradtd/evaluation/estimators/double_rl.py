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
from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.blas import one_thread
from gradtd.core.stream import Stream
from gradtd.evaluation.estimators.least_squares import FoldSums, LeastSquares, sums
from gradtd.evaluation.estimators.products import DenseRows, chunk_rows, chunks, times, values_of
from gradtd.evaluation.estimators.solvers import DENSE, solver_of

FOLDS = 5
"""Folds of the episodes, where there are as many."""


def fold_of_episodes(n_episodes: int, folds: int = FOLDS) -> Any:
    """The fold of every episode: its number mod ``folds``."""
    return (np.arange(n_episodes) % min(folds, n_episodes)).astype(np.int16)  # compared for every step and fold


def fold_of_steps(begins: Integers) -> Any:
    """The fold of every step."""
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


class _Fold(NamedTuple):
    """Sums over some episodes: rho x y', rho r x, the start features; how many steps and episodes."""

    A: Any
    b: Floats
    start: Floats
    steps: int
    episodes: int


def can_cross_fit(stream: Stream, square: LeastSquares) -> bool:
    """Whether the matrices of all folds fit into a moderate amount of memory, and can be solved."""
    return stream.n_features <= DENSE or (not isinstance(square.sums.A, np.ndarray) and "LSMR" not in square.how)


def sums_by_fold(stream: Stream) -> bool:
    """Whether to keep sums by fold when the log is read: where the folds may be solved."""
    return stream.n_features <= DENSE or not isinstance(stream.features, np.ndarray)


@one_thread()
def double_rl(
    stream: Stream,
    starts: Any,
    begins: Integers,
    square: LeastSquares,
    folds: int = FOLDS,
    known: Sequence[FoldSums] = (),
) -> Double:
    """Double reinforcement learning, cross-fitted over episodes; episode e is in fold e mod ``folds``.

    The error is that of a mean of independent contributions, one per episode: they are the estimate's influences.
    ``known`` are sums by fold, where the log was read for them already.
    """
    n = len(begins) - 1
    fold = fold_of_episodes(n, folds)
    of_step = np.repeat(fold, np.diff(begins))
    parts = _folds(known or sums(stream, C=square.sums.C, fold=of_step).folds, starts, fold, of_step)
    solved = [_solution([part for j, part in enumerate(parts) if j != k], square) for k in range(len(parts))]
    theta, left = (np.array(vectors) for vectors in zip(*solved, strict=True))
    surprise = _surprises(stream, of_step, theta, left)
    first = np.asarray(starts @ theta.T)[np.arange(n), fold]
    contribution = first + np.add.reduceat(surprise, begins[:-1])
    error = float(contribution.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan
    return Double(float(contribution.mean()), error, contribution)


def _folds(sums_of: Sequence[FoldSums], starts: Any, fold: Integers, of_step: Integers) -> list[_Fold]:
    """What is solved without: every fold's sums."""
    steps, episodes = np.bincount(of_step), np.bincount(fold)
    first = [np.asarray(starts[fold == k].sum(axis=0)).ravel() for k in range(len(steps))]
    return [_Fold(*sums_of[k], first[k], int(steps[k]), int(episodes[k])) for k in range(len(steps))]


def _solution(others: list[_Fold], square: LeastSquares) -> tuple[Floats, Floats]:
    """Weights of the values, and E / n A^-T m, of the folds given."""
    steps, episodes = sum(part.steps for part in others), sum(part.episodes for part in others)
    A, C = sum((part.A for part in others[1:]), others[0].A) / steps, square.sums.C
    if isinstance(C, np.ndarray) and not isinstance(A, np.ndarray):
        A = A.toarray()
    solver = solver_of(A, C)
    mean = np.sum([part.start for part in others], axis=0) / episodes
    theta = solver.solve(-np.sum([part.b for part in others], axis=0) / steps)
    return theta, solver.solve(mean, transposed=True) * (episodes / steps)


def _surprises(stream: Stream, fold: Integers, theta: Floats, left: Floats) -> Floats:
    """The surprise of every step times its weight, both by the solution without its fold."""
    out = np.empty(len(stream))
    if isinstance(stream.features, np.ndarray):
        most = chunk_rows(stream.features)
        rows, values = DenseRows(stream, most), np.vstack([theta.T, np.ones(len(theta))])
        for part in chunks(len(stream), most):
            block, mine = rows.of(part), (np.arange(part.stop - part.start), fold[part])
            out[part] = -times(block.y, values)[mine] * times(block.x, left.T)[mine]
        return out
    for k in range(len(theta)):
        value, along = values_of(stream.features, theta[k]), values_of(stream.features, left[k])
        steps = stream.steps[fold == k]
        delta = steps["reward"] + steps["discount"] * value[steps["next_row"]] - value[steps["row"]]
        out[fold == k] = -steps["rho"] * delta * along[steps["row"]]
    return out
