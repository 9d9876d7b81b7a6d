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

from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.stream import Stream
from gradtd.evaluation.least_squares import LeastSquares
from gradtd.evaluation.products import chunk_rows, chunks, cross, rows_of, values_of, weighted_sum
from gradtd.evaluation.solvers import DENSE, solver_of

FOLDS = 5
"""Folds of the episodes, where there are as many."""


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


def double_rl(stream: Stream, starts: Any, begins: Integers, square: LeastSquares, folds: int = FOLDS) -> Double:
    """Double reinforcement learning, cross-fitted over episodes; episode e is in fold e mod ``folds``.

    The error is that of a mean of independent contributions, one per episode: they are the estimate's influences.
    """
    n = len(begins) - 1
    folds = min(folds, n)
    fold = np.arange(n) % folds
    parts = _folds(stream, starts, begins, fold, folds)
    contribution = np.empty(n)
    for k in range(folds):
        theta, left = _solution([part for j, part in enumerate(parts) if j != k], square)
        contribution[fold == k] = _contributions(stream, starts, begins, theta, left)[fold == k]
    error = float(contribution.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan
    return Double(float(contribution.mean()), error, contribution)


def _folds(stream: Stream, starts: Any, begins: Integers, fold: Integers, folds: int) -> list[_Fold]:
    """The sums of every fold, in one pass over the log."""
    A: list[Any] = [0.0] * folds
    b = np.zeros((folds, stream.n_features))
    of_step = np.repeat(fold, np.diff(begins))
    for part in chunks(len(stream), chunk_rows(stream.features)):
        x, y = rows_of(stream, part)
        rho, reward = np.asarray(stream.steps["rho"][part]), np.asarray(stream.steps["reward"][part])
        y = _weighted(y, rho)
        for k in np.unique(of_step[part]):
            mine = of_step[part] == k
            A[k] = A[k] + cross(x[mine], y[mine])
            b[k] += weighted_sum(x[mine], (rho * reward)[mine])
    steps = np.bincount(of_step, minlength=folds)
    first = [np.asarray(starts[fold == k].sum(axis=0)).ravel() for k in range(folds)]
    return [_Fold(A[k], b[k], first[k], int(steps[k]), int((fold == k).sum())) for k in range(folds)]


def _weighted(y: Any, rho: Floats) -> Any:
    """The rows times rho; dense ones are written over."""
    if not isinstance(y, np.ndarray):
        return y.multiply(rho[:, None]).tocsr()
    y *= rho[:, None]
    return y


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


def _contributions(stream: Stream, starts: Any, begins: Integers, theta: Floats, left: Floats) -> Floats:
    """What each episode says: V(s_0) and the weighted surprises of its steps."""
    value, along = values_of(stream.features, theta), values_of(stream.features, left)
    surprise = np.empty(len(stream))
    for part in chunks(len(stream)):
        steps = stream.steps[part]
        row = np.asarray(steps["row"])
        delta = steps["reward"] + steps["discount"] * value[steps["next_row"]] - value[row]
        surprise[part] = -steps["rho"] * delta * along[row]
    return np.asarray(np.asarray(starts @ theta).ravel() + np.add.reduceat(surprise, begins[:-1]))
