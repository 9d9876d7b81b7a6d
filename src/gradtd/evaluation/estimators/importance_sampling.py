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
from gradtd.core.arrays import Floats, Integers, Plain
from gradtd.core.stream import Stream
from gradtd.evaluation.estimators.bootstrap import Resamples
from gradtd.evaluation.estimators.products import values_of
from gradtd.evaluation.report.estimate import ESTIMATORS

MONTE_CARLO, IS, WIS, PDIS, WPDIS, DR, WDR = range(len(ESTIMATORS))
BEYOND = 0.01
"""Part of the discounted time that may lie behind the cuts before that matters."""


class Scratch(NamedTuple):
    """Sums over episodes at each time since their start."""

    weight: Floats
    over: Floats
    reward: Floats
    surprise: Floats


def estimate(
    steps: Any, value: Floats, after: Floats, begins: Integers, counts: Integers, scratch: Scratch, out: Floats
) -> None:
    """All estimators at once, with episode e taken ``counts[e]`` times."""
    for t in range(scratch.weight.shape[0]):
        scratch.weight[t] = 0.0
        scratch.over[t] = 0.0
        scratch.reward[t] = 0.0
        scratch.surprise[t] = 0.0
    total, final, start = 0.0, 0.0, 0.0
    returns, whole, decision, robust = 0.0, 0.0, 0.0, 0.0
    for e in range(counts.shape[0]):
        if counts[e] == 0:
            continue
        c = float(counts[e])
        w, g, plain, weighted, surprise = 1.0, 1.0, 0.0, 0.0, 0.0
        for k in range(begins[e], begins[e + 1]):
            step = steps[k]
            t = k - begins[e]
            w *= step.rho
            delta = step.reward + step.discount * after[k] - value[k]
            plain += g * step.reward
            weighted += g * w * step.reward
            surprise += g * w * delta
            scratch.weight[t] += c * w
            scratch.reward[t] += c * g * w * step.reward
            scratch.surprise[t] += c * g * w * delta
            g *= step.discount
        scratch.over[begins[e + 1] - begins[e]] += c * w
        total += c
        final += c * w
        start += c * value[begins[e]]
        returns += c * plain
        whole += c * w * plain
        decision += c * weighted
        robust += c * surprise
    out[MONTE_CARLO] = returns / total
    out[IS] = whole / total
    out[WIS] = whole / final if final > 0.0 else np.nan
    out[PDIS] = decision / total
    out[DR] = (start + robust) / total
    out[WPDIS] = 0.0
    out[WDR] = start / total
    ended = 0.0
    for t in range(scratch.weight.shape[0]):
        ended += scratch.over[t]
        below = scratch.weight[t] + ended
        if below > 0.0:
            out[WPDIS] += scratch.reward[t] / below
            out[WDR] += scratch.surprise[t] / below


def _maker(fingerprint: str) -> Plain:
    def run(
        steps: Any, value: Floats, after: Floats, begins: Integers, counts: Integers, scratch: Scratch, out: Floats
    ) -> None:
        fingerprint  # noqa: B018 (part of the closure, and so of the key of the cache)
        estimate(steps, value, after, begins, counts, scratch, out)

    return run


class Estimates(NamedTuple):
    """Every estimator's value on the log, and its values on the resamples."""

    values: Floats
    resampled: Floats


def importance_estimates(stream: Stream, theta: Floats, begins: Integers, resamples: Resamples) -> Estimates:
    """Every estimator on the log and on every resample of it; one pass of compiled code each."""
    kernel = engine.compiled(_maker)
    of_row = values_of(stream.features, theta)
    value, after = of_row[stream.steps["row"]], of_row[stream.steps["next_row"]]
    longest = int(np.diff(begins).max()) + 1
    scratch = Scratch(*(np.zeros(longest) for _ in Scratch._fields))
    out = np.zeros((len(resamples) + 1, len(ESTIMATORS)))
    kernel(stream.view.steps, value, after, begins, np.ones(len(begins) - 1, np.int64), scratch, out[0])
    for r in range(len(resamples)):
        kernel(stream.view.steps, value, after, begins, resamples.of_episodes(r), scratch, out[r + 1])
    return Estimates(out[0], out[1:])


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
