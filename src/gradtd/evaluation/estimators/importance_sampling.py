"""Importance sampling on a log: what users compare with, whole-episode and per decision, weighted, doubly robust.

With w_t the product of the ratios of an episode up to and with step t, g_t that of the discounts before it, and V the
value function that was learned:

* ``monte_carlo``: mean of sum g_t r_t, where the log is the target's own;
* ``is``, ``wis``: mean of w_T sum g_t r_t; weighted: divided by the mean of w_T;
* ``pdis``, ``wpdis``: mean of sum g_t w_t r_t; weighted: at every t divided by the mean of w_t, episodes that are
  over keeping their last weight;
* ``dr``, ``wdr``: mean of V(s_0) + sum g_t w_t (r_t + discount V(s_{t+1}) - V(s_t)); weighted alike. A V of states
  needs no model of actions: E[w_t | past] = w_{t-1}, so what V adds has mean zero, and where V is right, little
  variance is left.

An episode that was cut off ends the sums of the first five where it was cut; ``dr`` goes on with V there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradtd.compiled import engine
from gradtd.core.arrays import Floats, Integers
from gradtd.core.stream import Stream
from gradtd.evaluation.estimators.bootstrap import Resamples
from gradtd.evaluation.estimators.products import values_of
from gradtd.evaluation.report.estimate import ESTIMATORS

MONTE_CARLO, IS, WIS, PDIS, WPDIS, DR, WDR = range(len(ESTIMATORS))
RETURN, WHOLE, DECISION, ROBUST, START, PRODUCT = range(6)
"""What an episode contributes: its return, that times its product of ratios, its terms of ``pdis`` and of ``dr``, the
value of its start, and its product of ratios."""
_WEIGHT, _REWARD, _ERROR, _OVER = range(4)


def contribute(steps: Any, values: Floats, begins: Integers, of_step: Floats, of_episode: Floats) -> None:
    """For every step w_t, g_t w_t r_t and g_t w_t delta_t; for every episode what it contributes.

    ``values`` are those of the rows of features. All estimators are made from these products of ratios.
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
    """All estimators at once, with episode e taken ``counts[e]`` times; ``by_time`` is scratch, a row for each time."""
    for t in range(by_time.shape[0]):
        for j in range(by_time.shape[1]):
            by_time[t, j] = 0.0
    total, returns, whole, decision, robust, start, product = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for e in range(counts.shape[0]):
        if counts[e] == 0:  # not only for speed: what is infinite would leave nan
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
    """Every estimator's value on the log and on the resamples, and what each episode contributes."""

    values: Floats
    resampled: Floats
    contributions: Floats


def importance_estimates(stream: Stream, theta: Floats, begins: Integers, resamples: Resamples) -> Estimates:
    """Every estimator on the log and on every resample of it; one pass of compiled code each."""
    n, values = len(begins) - 1, values_of(stream.features, theta)
    of_step, of_episode = np.empty((len(stream), 3)), np.empty((n, 6))
    engine.compile_once(contribute)(stream.view.steps, values, begins, of_step, of_episode)
    del values  # as long as the log
    by_time, out = np.empty((int(np.diff(begins).max()) + 1, 4)), np.empty((len(resamples) + 1, len(ESTIMATORS)))
    kernel = engine.compile_once(combine)
    kernel(of_step, of_episode, begins, np.ones(n, np.int64), by_time, out[0])
    for r in range(len(resamples)):
        kernel(of_step, of_episode, begins, resamples.of_episodes(r), by_time, out[r + 1])
    return Estimates(out[0], out[1:], of_episode)


def episode_weights(stream: Stream, begins: Integers) -> Floats:
    """The product of the ratios of each episode, from their logarithms; infinite where it overflows."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(np.exp(np.add.reduceat(np.log(stream.steps["rho"]), begins[:-1])))


def beyond_cuts(stream: Stream, begins: Integers) -> float:
    """The mean over episodes of the product of their discounts, which is 0 where one terminated.

    With a reward that is the same at every step, it is the part of an endless return that comes after the cut.
    """
    with np.errstate(divide="ignore"):
        return float(np.exp(np.add.reduceat(np.log(stream.steps["discount"]), begins[:-1])).mean())
