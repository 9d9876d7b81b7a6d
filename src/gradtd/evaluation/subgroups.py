"""Values of groups of start states, from the same solution, with intervals that hold for all groups at once.

The value of a group is the mean of the value function over its starts. Its influences have A^-T times the group's mean
start features. All groups together: the largest of their errors over standard errors, resampled by normal multipliers
of the episodes' influences, says how much longer intervals have to be (max-t).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.evaluation.decide import Decision
from gradtd.evaluation.estimators.least_squares import step_influences
from gradtd.evaluation.estimators.methods import Case
from gradtd.evaluation.fits import Fit
from gradtd.evaluation.intervals import faults, interval
from gradtd.evaluation.log_questions import Groups

DRAWS = 2000
"""Draws of multipliers."""


@dataclass(frozen=True)
class GroupValue:
    """The value of one group of start states.

    Parameters
    ----------
    name
        The group.
    episodes
        Episodes that start in it.
    value, low, high
        Its value, and an interval; those of all groups hold together at the level asked for.
    fault
        Why the log is too small for this group; empty where it is not.
    """

    name: str
    episodes: int
    value: float
    low: float
    high: float
    fault: str


def group_values(case: Case, decision: Decision, groups: Groups) -> tuple[GroupValue, ...]:
    """The value of every group."""
    level, limits = case.settings.level, case.settings.limits
    fits = [_fit(case, decision, groups.of_episode == g) for g in range(len(groups.names))]
    times = together(np.array([fit.psi for fit in fits]), level, case.settings.seed)
    own = interval(decision.fit, level, limits)
    down, up = max(0.0, own[0] - decision.shown.low), max(0.0, decision.shown.high - own[1])
    made = []
    for g, fit in enumerate(fits):
        low, high = interval(fit, level, limits)
        wider = fit.error / max(decision.fit.error, 1e-300)  # the bias that checks show, in standard errors
        ends = fit.value - times * (fit.value - low) - wider * down, fit.value + times * (high - fit.value) + wider * up
        count = int((groups.of_episode == g).sum())
        made.append(GroupValue(groups.names[g], count, fit.value, *ends, ", ".join(faults(fit, limits))))
    return tuple(made)


def _fit(case: Case, decision: Decision, mine: Floats) -> Fit:
    """The value of a group, and the influences of all episodes on it."""
    square, E = case.square, case.n_episodes
    start = np.asarray(case.starts[mine].mean(axis=0)).ravel()
    value = float(start @ square.theta)
    left = square.solver.solve(start, transposed=True)
    pull = np.add.reduceat(step_influences(case.stream, square.theta, left, case.traces), case.begins[:-1])
    apart = np.asarray(case.starts @ square.theta).ravel() - value
    psi = np.where(mine, apart * (E / mine.sum()), 0.0) - pull * (E / len(case.stream))
    return replace(decision.fit, value=value, psi=psi, bias=0.0)


def together(psi: Floats, level: float, seed: int) -> float:
    """How many times longer intervals of all groups are than those of one, by multipliers of (groups, episodes)."""
    scale = np.sqrt((psi**2).sum(axis=1))
    rng = np.random.default_rng(seed)
    drawn = rng.standard_normal((DRAWS, psi.shape[1])) @ (psi / np.maximum(scale, 1e-300)[:, None]).T
    one = NormalDist().inv_cdf(0.5 + level / 2)
    return max(1.0, float(np.quantile(np.abs(drawn).max(axis=1), level)) / one)
