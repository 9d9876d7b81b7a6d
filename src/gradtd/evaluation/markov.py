"""A test of the Markov property that needs no importance ratios: does the past predict the next step?

If observations are Markov states, the target y = r + gamma v(next observation) of any value function v depends on the
observation and the action alone. Earlier steps, the time and the importance ratio add nothing. Therefore both y and
these columns are regressed on the observation and the action, and the residuals must be uncorrelated (the generalised
covariance measure of Shah and Peters, 2020, tested over episodes). The test uses every step of the behaviour policy, so
it has power where products of ratios have none. It does not show in which direction a value is wrong, only the size of
the part of y that the past predicts: over a whole episode, in standard errors of the value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradtd.compiled import engine
from gradtd.core.arrays import Floats, Integers
from gradtd.evaluation.designs.base import Steps, rows_of_chunk
from gradtd.evaluation.estimators.products import rows_at
from gradtd.evaluation.fits import Fit, Solution
from gradtd.evaluation.history import run_means
from gradtd.evaluation.limits import Limits

MOST_STEPS = 20_000
"""Approximate number of steps to read."""
FEWEST_PIECES = 20
"""Minimum number of pieces for this test."""
PIECES_PER_DIRECTION = 5
"""Number of pieces per tested direction of the past, whose covariance is estimated over pieces."""
STEPS_PER_COLUMN = 7
"""Number of steps with an action for each feature in the regressions on continuous observations."""
FEWEST_COLUMNS, MOST_COLUMNS = 4, 300
"""The minimum and maximum number of these features."""
NEIGHBOURS, MOST_PLACES = 10, 6
"""Number of nearest observations whose mean is also subtracted, and number of features that measure the distance.
Larger numbers would be slower and not more accurate."""
MOST_STATES = 40
"""Number of most frequent states, and of actions, that have a separate column in the past."""
MOST_FEATURES = 12
"""Number of first features of continuous observations that are used in the past."""
TIME = "the time since the start"
"""The name of the test for the time."""
DECAYS = (0.5, 0.9)
"""Decay per step of the means over earlier steps."""
ALMOST_KNOWN = 1e-3
"""A column of the past is used if at least this share of its deviation remains after the regression."""
REDUNDANT = 1e-6
"""Directions of the past with a smaller share of the largest variance are dropped."""


class Predicted(NamedTuple):
    """What predicts the next step, its p-value, and its effect.

    ``effect`` is the standard deviation of the predicted part, summed over the target's discounted steps, in standard
    errors of the value, minus what chance would produce.
    """

    what: str
    p: float
    effect: float

    def is_far(self, limits: Limits, endless: bool) -> bool:
        """Whether the prediction is significant. ``endless`` says that observations are continuous, so the regression
        is not exact."""
        chance = limits.most_chance_of_real if endless else limits.most_chance
        return self.p < chance and self.effect > limits.most_predicted


def predicted(steps: Steps, solution: Solution, fit: Fit, n_pieces: float) -> list[Predicted]:
    """The tests of the Markov property, the most significant first. Empty if episodes have one step or are few.

    ``steps`` are the first steps of a log with ``n_pieces`` pieces; ``solution`` and ``fit`` belong to the whole log.
    """
    longest = int(np.diff(steps.begins).max(initial=0))
    of_pairs = steps.rows.choices is not None or (steps.rows.cell is None and steps.rows.table is not None)
    if steps.traced is not None or of_pairs or steps.n_pieces < FEWEST_PIECES or longest < 2 or not fit.error > 0:
        return []
    seen = _see(steps, solution)
    past = _past(steps, seen)
    left = _left(np.concatenate([seen.y[:, None], *past.values()], axis=1), seen.group, seen.known)
    if seen.known is not None:
        left -= _of_neighbours(left, seen, steps.begins)
    scale, at, made = seen.horizon * n_pieces / steps.n_pieces / fit.error, 1, []
    for what, columns in past.items():
        of_past = left[:, at : at + columns.shape[1]]
        of_past = of_past[:, of_past.std(axis=0) > ALMOST_KNOWN * columns.std(axis=0)]
        p, size = _tested(left[:, 0], of_past, steps.begins)
        made.append(Predicted(what, p, scale * size))
        at += columns.shape[1]
    return sorted(made, key=lambda one: one.p)


class _Seen(NamedTuple):
    """The steps in the form that the test needs.

    ``group`` numbers the observation and action of every step if observations are discrete, else the action alone, and
    ``known`` are features of the observation. ``features`` and ``actions`` are columns for the past.
    """

    y: Floats
    group: Integers
    known: Any
    features: Floats
    actions: Floats
    horizon: float


def _see(steps: Steps, solution: Solution) -> _Seen:
    """The target y, and what is known about every step."""
    rows, n = steps.rows, len(steps)
    made, here, there = rows_of_chunk(rows, slice(0, n), rows.writer())
    own = made[:, solution.columns]
    value, left = (np.asarray(own @ weights).ravel() for weights in (solution.theta[: own.shape[1]], solution.left))
    rho, discount, reward = (np.asarray(a, np.float64) for a in (steps.rho, steps.discount, steps.reward))
    y = reward + discount * value[there]
    if steps.action is None:  # without the action, y is that of the target
        y, code = rho * y, np.zeros(n, np.int64)
    else:
        code = np.unique(steps.action, return_inverse=True)[1].ravel()
    if rows.cell is not None:
        known, state = None, np.asarray(rows.cell)[np.asarray(rows.row)]
        group = np.unique(state * (1 + int(code.max())) + code, return_inverse=True)[1].ravel()
        features = _often(state)
    else:
        group, known = code, np.ones((n, 1 + min(made.shape[1], MOST_COLUMNS)))
        known[:, 1:] = rows_at(made[:, :MOST_COLUMNS], here)
        features = known[:, 1 : 1 + MOST_FEATURES]
    return _Seen(y, group, known, features, _often(code)[:, 1:], abs(float(rho @ left[here])))


def _often(code: Integers) -> Floats:
    """One indicator column for each of the most frequent numbers."""
    often = np.argsort(-np.bincount(code), kind="stable")[:MOST_STATES]
    return np.asarray(code[:, None] == often, np.float64)


def _left(columns: Floats, group: Integers, known: Any) -> Floats:
    """Residuals of the given columns after regression on the observation and the action."""
    count = np.bincount(group)
    if known is None:
        means = np.stack([np.bincount(group, column) / count for column in columns.T], axis=1)
        return np.asarray(columns - means[group])
    left = np.zeros_like(columns)
    for a in np.flatnonzero(count >= FEWEST_COLUMNS * STEPS_PER_COLUMN):  # steps with rarer actions are not used
        some = np.flatnonzero(group == a)
        x = known[some, : max(FEWEST_COLUMNS, len(some) // STEPS_PER_COLUMN)]
        square = x.T @ x
        square.flat[:: len(square) + 1] += 1e-9 * np.trace(square) / len(square)
        left[some] = columns[some] - x @ np.linalg.solve(square, x.T @ columns[some])
    return left


def _of_neighbours(left: Floats, seen: _Seen, begins: Integers) -> Floats:
    """The mean of the residuals at the nearest observations with the same action in other pieces.

    Features are smooth, so they miss a jump of y, for example where an episode terminates at a threshold.
    """
    from scipy.sparse import csr_array
    from scipy.spatial import KDTree

    deviation = seen.features.std(axis=0)
    places = (seen.features[:, deviation > 0] / deviation[deviation > 0])[:, :MOST_PLACES]
    piece = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
    means = np.zeros_like(left)
    for a in np.flatnonzero(np.bincount(seen.group) > 2 * NEIGHBOURS):
        some = np.flatnonzero(seen.group == a)
        near = some[KDTree(places[some]).query(places[some], NEIGHBOURS + 1)[1]]
        weight = np.asarray(piece[near] != piece[some][:, None], np.float64)
        weight /= np.maximum(weight.sum(axis=1, keepdims=True), 1.0)
        edges = np.arange(0, weight.size + 1, NEIGHBOURS + 1)
        means[some] = csr_array((weight.ravel(), near.ravel(), edges), (len(some), len(left))) @ left
    return means


def _past(steps: Steps, seen: _Seen) -> dict[str, Floats]:
    """Columns that may predict the next step: the previous step and means over earlier ones, the time, and the
    ratio."""
    n, begins = len(steps), steps.begins
    rho, reward = np.asarray(steps.rho, np.float64), np.asarray(steps.reward, np.float64)
    ratio, reward = rho / (1 + rho), reward / (float(reward.std()) or 1.0)
    told = np.c_[seen.features, ratio, reward, ratio * reward, seen.actions]
    before = []
    for decay in (0.0, *DECAYS):
        means = np.empty_like(told)
        engine.compile_once(run_means)(told, begins, decay, means)
        means[1:] = means[:-1].copy()
        means[begins[:-1]] = 0.0
        before.append(means)
    time = np.arange(n) - np.repeat(begins[:-1], np.diff(begins))
    waves = np.cos(np.pi * np.arange(1, 5) * (time / max(int(time.max()), 1))[:, None])
    more = np.concatenate(before[1:], axis=1)
    made = {"the previous step": before[0], "earlier steps": more, TIME: waves}
    if steps.action is None or seen.known is not None:  # a ratio is not a smooth function of the observation
        return made
    return made | {"the importance ratio": ratio[:, None]}


def _tested(residual: Floats, left: Floats, begins: Integers) -> tuple[float, float]:
    """The p-value for the hypothesis that the columns ``left`` of the past do not predict y, and the size of the
    predicted part."""
    from scipy.special import fdtrc

    if not left.shape[1]:
        return 1.0, 0.0
    n, E = len(left), len(begins) - 1
    squares, turn = np.linalg.eigh(left.T @ left / n)
    squares, turn = squares[::-1], turn[:, ::-1]
    k = min(int((squares > REDUNDANT * squares[0]).sum()), E // PIECES_PER_DIRECTION)
    scores = (left @ (turn[:, :k] / np.sqrt(squares[:k]))) * residual[:, None]
    of_piece = np.add.reduceat(scores, begins[:-1])
    mean, cov = of_piece.mean(axis=0), np.cov(of_piece.T).reshape(k, k) / E
    statistic = float(mean @ np.linalg.pinv(cov) @ mean) * (E - k) / (k * (E - 1))
    beyond = max(float(mean @ mean) - float(np.trace(cov)), 0.0)  # minus what chance would produce
    return float(fdtrc(k, E - k, statistic)), float(np.sqrt(beyond)) * E / n
