"""Values of groups of start states, from the same solution, with intervals that hold for all groups at once.

The value of a group is the mean of the value function over its starts. Its influences have A^-T times the group's mean
start features. For all groups together, the quantile of the largest standardised error, resampled with normal
multipliers of the episodes' influences, gives the factor by which intervals must be longer (max-t).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.evaluation.checks import Equations
from gradtd.evaluation.decide import Decision
from gradtd.evaluation.estimators.least_squares import step_influences
from gradtd.evaluation.estimators.methods import Case
from gradtd.evaluation.fits import Fit, Solution, Solutions
from gradtd.evaluation.intervals import faults, interval
from gradtd.evaluation.limits import DEFAULT
from gradtd.evaluation.log_questions import Groups
from gradtd.evaluation.settings import Settings

DRAWS = 2000
"""Number of multiplier draws."""


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
        Its value and interval; all groups' intervals hold simultaneously at the requested level.
    fault
        Why the log is too small for this group; empty if it is not.
    """

    name: str
    episodes: int
    value: float
    low: float
    high: float
    fault: str


class GroupFit(NamedTuple):
    """A group, how many episodes start in it, and its value with the influences of all episodes on it."""

    name: str
    episodes: int
    fit: Fit


def group_values(of_groups: Sequence[GroupFit], decision: Decision, settings: Settings) -> tuple[GroupValue, ...]:
    """The value of every group."""
    level, limits = settings.level, settings.limits
    times = together(np.array([one.fit.psi for one in of_groups]), level, settings.seed)
    own = interval(decision.fit, level, limits)
    down, up = max(0.0, own[0] - decision.shown.low), max(0.0, decision.shown.high - own[1])
    made = []
    for name, episodes, fit in of_groups:
        low, high = interval(fit, level, limits)
        wider = fit.error / max(decision.fit.error, 1e-300)  # the bias that checks show, in standard errors
        ends = fit.value - times * (fit.value - low) - wider * down, fit.value + times * (high - fit.value) + wider * up
        made.append(GroupValue(name, episodes, fit.value, *ends, ", ".join(faults(fit, limits))))
    return tuple(made)


def fits_in_memory(case: Case, decision: Decision, groups: Groups) -> list[GroupFit]:
    """The groups of a log in memory."""
    square, E, made = case.square, case.n_episodes, []
    for g, name in enumerate(groups.names):
        mine = groups.of_episode == g
        start = np.asarray(case.starts[mine].mean(axis=0)).ravel()
        value = float(start @ square.theta)
        left = square.solver.solve(start, transposed=True)
        pull = np.add.reduceat(step_influences(case.stream, square.theta, left, case.traces), case.begins[:-1])
        apart = np.asarray(case.starts @ square.theta).ravel() - value
        psi = np.where(mine, apart * (E / mine.sum()), 0.0) - pull * (E / len(case.stream))
        made.append(GroupFit(name, int(mine.sum()), replace(decision.fit, value=value, psi=psi, bias=0.0)))
    return made


class StartSums(NamedTuple):
    """Of a log in parts, by group of episodes and group of starts: episodes, and the sum of the values they start with.

    ``left`` is A^-T times the mean start features of every group of starts, with A the sum over all steps.
    """

    episodes: Floats
    values: Floats
    left: Sequence[Floats]


def fits_in_parts(
    equations: Equations, columns: Integers, theta: Floats, sums: StartSums, whole: Fit, groups: Groups
) -> list[GroupFit]:
    """The groups of a log in parts, from the solution of its equations on some columns."""
    count, pieces = sums.episodes.sum(axis=0), equations.pieces
    values, nothing = sums.values.sum(axis=0) / count, np.zeros(len(columns))
    solved = [
        Solution(name, columns, theta, left, value, 0.0, 0, nothing)
        for name, left, value in zip(groups.names, sums.left, values, strict=True)
    ]
    E, filled = float(pieces.sum()), pieces > 0
    pull = equations.piece_sums(Solutions(solved, [], []), equations.other_lambda(DEFAULT)).pull
    psi = ((sums.values - sums.episodes * values) * (E / count) - E * pull)[filled] * (filled.sum() / E)
    fits = [replace(whole, value=float(value), psi=psi[:, g], bias=0.0) for g, value in enumerate(values)]
    return [GroupFit(name, int(n), fit) for name, n, fit in zip(groups.names, count, fits, strict=True)]


def together(psi: Floats, level: float, seed: int) -> float:
    """The factor by which simultaneous intervals are longer, by multipliers of (groups, episodes)."""
    scale = np.sqrt((psi**2).sum(axis=1))
    rng = np.random.default_rng(seed)
    drawn = rng.standard_normal((DRAWS, psi.shape[1])) @ (psi / np.maximum(scale, 1e-300)[:, None]).T
    one = NormalDist().inv_cdf(0.5 + level / 2)
    return max(1.0, float(np.quantile(np.abs(drawn).max(axis=1), level)) / one)
