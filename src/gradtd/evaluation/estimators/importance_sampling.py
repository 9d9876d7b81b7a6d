"""Importance-sampling estimators: whole-episode and per-decision, weighted, and doubly robust.

Let w_t be the product of the ratios of an episode up to and including step t, g_t the product of the discounts before
it, and V the learned value function:

** ``monte_carlo``: mean of sum g_t r_t, if the log is the target's own;
* ``is``, ``wis``: mean of w_T sum g_t r_t; weighted: divided by the mean of w_T;
* ``pdis``, ``wpdis``: mean of sum g_t w_t r_t; weighted: divided by the mean of w_t at every t, where
  finished episodes keep their last weight;
* ``dr``, ``wdr``: mean of V(s_0) + sum g_t w_t (r_t + discount V(s_{t+1}) - V(s_t)); ``wdr`` is weighted in the same
  way. With state values V no model of actions is needed: E[w_t | past] = w_{t-1}, so the terms with V have mean zero,
  and if V is right, they remove most of the variance.

At a truncation, the sums of the first five estimators end; ``dr`` continues with V.

The module also has double reinforcement learning (Kallus and Uehara, 2020), with marginal weights from the
least-squares solve. The value of least squares is linear in the rewards: v = -m.A^-1 b = sum of w_t r_t, with m the
mean start features and w_t = -rho_t x_t.(A^-T m) / n. These weights estimate the discounted frequency of the target's
states, relative to their frequency in the log (linear DICE). They need no products of ratios along an episode. ``drl``
takes both V and w from episodes that it does not evaluate: with theta and A^-T m of the other folds, the mean over the
episodes of a fold of V(s_0) + sum of w_t (r_t + discount V(s_{t+1}) - V(s_t)). On the same folds, the second term would
vanish and leave least squares. The error is the product of the errors in V and w.

The verdict is about the requested method. Because readers compare its row with the others, `mark_rows` marks rows with
a weak interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from gradtd.compiled import engine
from gradtd.core.arrays import Floats, Integers
from gradtd.core.blas import one_thread
from gradtd.core.stream import Stream
from gradtd.evaluation.estimators.bootstrap import Resamples
from gradtd.evaluation.estimators.least_squares import GroupSums, LeastSquares, step_influences, sums
from gradtd.evaluation.estimators.products import values_of
from gradtd.evaluation.estimators.solvers import DENSE, solver_of
from gradtd.evaluation.limits import DEFAULT, Limits
from gradtd.evaluation.report.estimate import ENDED_BY_A_CUT, ESTIMATORS, Estimate
from gradtd.evaluation.report.step_sums import effective_size

MONTE_CARLO, IS, WIS, PDIS, WPDIS, DR, WDR = range(len(ESTIMATORS))
RETURN, WHOLE, DECISION, ROBUST, START, PRODUCT = range(6)
"""The contributions of an episode: its return, its return times its product of ratios, its terms of ``pdis`` and of
``dr``, the value of its start, and its product of ratios."""
_WEIGHT, _REWARD, _ERROR, _OVER = range(4)


def contribute(steps: Any, values: Floats, begins: Integers, of_step: Floats, of_episode: Floats) -> None:
    """Compute w_t, g_t w_t r_t and g_t w_t delta_t for every step, and the contributions of every episode.

    ``values`` contains the values of the rows of features. All estimators are computed from these products of ratios.
    """
    for e in range(begins.shape[0] - 1):
        w, g, plain, decision, errors = 1.0, 1.0, 0.0, 0.0, 0.0
        for k in range(begins[e], begins[e + 1]):
            step = steps[k]
            w *= step.rho
            of_step[k, _WEIGHT] = w
            of_step[k, _REWARD] = g * w * step.reward
            of_step[k, _ERROR] = g * w * (step.reward + step.discount * values[step.next_row] - values[step.row])
            plain += g * step.reward
            decision += of_step[k, _REWARD]
            errors += of_step[k, _ERROR]
            g *= step.discount
        start = values[steps[begins[e]].row]
        of_episode[e, RETURN] = plain
        of_episode[e, WHOLE] = w * plain
        of_episode[e, DECISION] = decision
        of_episode[e, ROBUST] = start + errors
        of_episode[e, START] = start
        of_episode[e, PRODUCT] = w


def combine(
    of_step: Floats, of_episode: Floats, begins: Integers, counts: Integers, by_time: Floats, out: Floats
) -> None:
    """Compute all estimators at once, with episode e taken ``counts[e]`` times. ``by_time`` is a buffer with one row
    per time."""
    for t in range(by_time.shape[0]):
        for j in range(by_time.shape[1]):
            by_time[t, j] = 0.0
    total, returns, whole, decision, robust, start, product = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for e in range(counts.shape[0]):
        if counts[e] == 0:  # needed for correctness: 0 times infinity would give nan
            continue
        c = float(counts[e])
        for k in range(begins[e], begins[e + 1]):
            for j in range(3):
                by_time[k - begins[e], j] += c * of_step[k, j]
        by_time[begins[e + 1] - begins[e], _OVER] += c * of_episode[e, PRODUCT]
        total += c
        returns += c * of_episode[e, RETURN]
        whole += c * of_episode[e, WHOLE]
        decision += c * of_episode[e, DECISION]
        robust += c * of_episode[e, ROBUST]
        start += c * of_episode[e, START]
        product += c * of_episode[e, PRODUCT]
    out[MONTE_CARLO] = returns / total
    out[IS] = whole / total
    out[WIS] = whole / product if product > 0.0 else np.nan
    out[PDIS] = decision / total
    out[DR] = robust / total
    out[WPDIS] = 0.0
    out[WDR] = start / total
    over = 0.0
    for t in range(by_time.shape[0]):
        over += by_time[t, _OVER]
        below = by_time[t, _WEIGHT] + over
        if below > 0.0:
            out[WPDIS] += by_time[t, _REWARD] / below
            out[WDR] += by_time[t, _ERROR] / below


class Estimates(NamedTuple):
    """Every estimator's value on the log and on the bootstrap samples, and each episode's contributions."""

    values: Floats
    resampled: Floats
    contributions: Floats


def importance_estimates(stream: Stream, theta: Floats, begins: Integers, resamples: Resamples) -> Estimates:
    """Every estimator on the log and on every bootstrap sample, each in one compiled pass."""
    n, values = len(begins) - 1, values_of(stream.features, theta)
    of_step, of_episode = np.empty((len(stream), 3)), np.empty((n, 6))
    engine.compile_once(contribute)(stream.view.steps, values, begins, of_step, of_episode)
    del values  # it is as long as the log
    by_time, out = np.empty((int(np.diff(begins).max()) + 1, 4)), np.empty((len(resamples) + 1, len(ESTIMATORS)))
    kernel = engine.compile_once(combine)
    kernel(of_step, of_episode, begins, np.ones(n, np.int64), by_time, out[0])
    for r in range(len(resamples)):
        kernel(of_step, of_episode, begins, resamples.of_episodes(r), by_time, out[r + 1])
    return Estimates(out[0], out[1:], of_episode)


def episode_weights(stream: Stream, begins: Integers) -> Floats:
    """The product of the ratios of each episode, computed from logarithms. It is infinite where it overflows."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(np.exp(np.add.reduceat(np.log(stream.steps["rho"]), begins[:-1])))


def beyond_cuts(stream: Stream, begins: Integers) -> float:
    """The mean over episodes of the product of their discounts, which is 0 where one terminated.

    For a constant reward, this is the share of an infinite return that comes after the truncation.
    """
    with np.errstate(divide="ignore"):
        return float(np.exp(np.add.reduceat(np.log(stream.steps["discount"]), begins[:-1])).mean())


FOLDS = 5
"""Number of folds of episodes, by convention 5: a solution without one fold uses four fifths of the log."""


def fold_of_episodes(n_episodes: int, folds: int = FOLDS) -> Any:
    """The fold of every episode: its number mod ``folds``."""
    return (np.arange(n_episodes) % min(folds, n_episodes)).astype(np.int16)  # compared for every step and fold


def fold_of_steps(stream: Stream, begins: Integers) -> Any:
    """The fold of every step, or None if the equations of a fold are too large to solve."""
    if isinstance(stream.features, np.ndarray) and stream.n_features > DENSE:
        return None
    return np.repeat(fold_of_episodes(len(begins) - 1), np.diff(begins))


def marginal_weights(stream: Stream, left: Floats, traces: Any = None) -> Floats:
    """One weight per step. ``left`` is A^-T times the mean start features. The value is the sum of w r."""
    weights = values_of(stream.features, left)[stream.steps["row"]] if traces is None else values_of(traces, left)
    weights *= stream.steps["rho"]  # in place, because arrays as long as the log dominate memory
    weights /= -len(stream)
    return np.asarray(weights)


class Double(NamedTuple):
    """The value by double reinforcement learning, its standard error, and each episode's contribution."""

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
    """Double reinforcement learning, cross-fitted over episodes. Episode e is in fold e mod ``folds``.

    The error is that of a mean of independent contributions, one per episode, which are the influences of the estimate.
    ``known`` contains sums by fold, if already computed.
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


ROUNDING = 1e-12
"""Contributions with a smaller relative difference count as equal."""
_OF = {"monte_carlo": RETURN, "is": WHOLE, "wis": WHOLE, "pdis": DECISION, "wpdis": DECISION}
"""The contribution that each estimator averages; the others are doubly robust."""


def carrying(psi: Floats) -> float:
    """Effective number of episodes behind an error: (sum psi^2)^2 / sum psi^4, with psi centred.

    >>> carrying(np.r_[np.ones(4), -np.ones(4)]), round(carrying(np.r_[1.0, np.zeros(999)]), 1)
    (8.0, 1.0)
    """
    if not np.isfinite(psi).all():
        return 1.0
    off = np.abs(psi - psi.mean())
    if not off.max() > ROUNDING * np.abs(psi).max():
        return float(len(psi))
    return effective_size(np.square(off / off.max()))


def mark_rows(
    rows: dict[str, Estimate],
    stream: Stream,
    contributions: Floats,
    begins: Integers,
    sandwich: float,
    limits: Limits = DEFAULT,
) -> dict[str, Estimate]:
    """The rows with their marks. Rows that learn a value function are always "ok": the verdict evaluates them."""
    products = episode_weights(stream, begins)
    cut = beyond_cuts(stream, begins) > limits.most_beyond_cuts
    made = {}
    for name, row in rows.items():
        reason = ""
        if row.low is None:
            reason = row.note
        elif name == "drl":
            reason = row.reason or _small_folds(row, sandwich, limits)
        elif name in ESTIMATORS:
            reason = _weak_products(products, limits) if name != "monte_carlo" else ""
            if not reason and cut and name in ENDED_BY_A_CUT:
                reason = "its sums end at truncations"
            if not reason:
                reason = few_episodes(_influences(name, row, contributions, products), limits)
        made[name] = replace(row, mark="weak" if reason else "ok", reason=reason)
    return made


def _weak_products(products: Floats, limits: Limits) -> str:
    """The reason why products of ratios cannot support an interval, or an empty string."""
    if not np.isfinite(products).all():
        return "products of ratios overflow"
    worth = effective_size(products)
    if worth < limits.row_fewest_products:
        return f"products of ratios leave an effective number of {worth:.1f} of {len(products)} episodes"
    error = float(products.std(ddof=1)) / np.sqrt(len(products))
    off = abs(float(products.mean()) - 1) / error if error > 0 else 0.0
    if off > limits.row_most_product_errors:
        return f"the mean product of ratios is {products.mean():.2g}, {off:.0f} standard errors from 1"
    return ""


def _influences(name: str, row: Estimate, contributions: Floats, products: Floats) -> Floats:
    if name == "wis":
        assert row.value is not None
        return np.asarray(contributions[:, WHOLE] - row.value * products)
    return np.asarray(contributions[:, _OF.get(name, ROBUST)])


def few_episodes(psi: Floats, limits: Limits = DEFAULT) -> str:
    """The reason why an error is weak if it depends on few episodes, or an empty string."""
    worth = carrying(psi)
    return f"its error depends on {worth:.1f} of {len(psi)} episodes" if worth < limits.row_fewest_episodes else ""


def _small_folds(row: Estimate, sandwich: float, limits: Limits) -> str:
    """The reason why a cross-fitted error is weak, or an empty string."""
    if row.error is not None and row.error > limits.row_most_error_ratio * sandwich > 0:
        times = f"{row.error / sandwich:.1f} times that of least squares"
        return f"its error is {times}: the folds are too small for the features"
    return ""
