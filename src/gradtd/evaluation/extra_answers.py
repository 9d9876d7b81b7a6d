"""Additional answers from the same decision and equations: fields of an `Evaluation`.

The value of a group of starts is the mean of the value function over them. Its influences contain A^-T times the
group's mean start features. For simultaneous intervals, gradtd bootstraps the largest standardised error over the
groups with normal multipliers of the episodes' influences. Its quantile is the factor that replaces Student's quantile
(max-t).

With an estimated behaviour policy that has scores s and information H, the influence of an episode gets an extra term:
D'H^-1 times the sum of its scores, where D = sum of (rho delta x.left) s is the sensitivity of the value to the model.
Only the part of a step that the scores do not explain remains (`BehaviourModel.explained`), so the error is smaller
than with known probabilities. The gain is smaller in small logs: a model with k parameters also fits the noise of n
effective episodes. The remaining variance is therefore multiplied by (n + k) / (n - k), the factor of Akaike's final
prediction error (1970), but not beyond the variance with known probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.evaluation.checks import Equations
from gradtd.evaluation.decide import JUDGED, Decision
from gradtd.evaluation.estimators.bootstrap import interval_from
from gradtd.evaluation.estimators.importance_sampling import MONTE_CARLO, RETURN, Estimates
from gradtd.evaluation.estimators.least_squares import least_squares, of_behaviour, step_influences
from gradtd.evaluation.estimators.methods import Case
from gradtd.evaluation.estimators.products import values_of
from gradtd.evaluation.fits import Fit, Solution, Solutions
from gradtd.evaluation.intervals import Interval, as_dependent, faults, interval, paired_error
from gradtd.evaluation.limits import DEFAULT
from gradtd.evaluation.log_questions import Groups
from gradtd.evaluation.report.estimate import ENDED_BY_A_CUT, ESTIMATORS, BehaviourValue
from gradtd.evaluation.sensitivity import Against, Bounded, Conditioning, Confounding, anytime, beyond_own, confounding
from gradtd.evaluation.settings import Settings
from gradtd.logs import Log, Ratios

MOST_OBSERVED = 8
"""Maximum number of observation columns on which quantiles are conditioned."""


class SeenLog(NamedTuple):
    """A log in memory for one target: its case, the log with its observations, ratios, and the mean of x x'.

    ``drawn`` contains the importance-sampling estimates on the same bootstrap samples.
    """

    case: Case
    log: Log
    ratios: Ratios
    C: Any
    drawn: Estimates


def extra_answers(
    decision: Decision | None,
    episodes: float,
    settings: Settings,
    seen: SeenLog | None = None,
    of_groups: Sequence[GroupFit] = (),
    own: tuple[Fit | None, float] = (None, np.nan),
) -> dict[str, Any]:
    """All requested additional answers. There are none if the value was not checked.

    ``seen`` is the log if it is in memory; otherwise ``of_groups`` has the fits for groups of starts, and ``own`` the
    behaviour policy's fit and the target's value.
    """
    if decision is None:
        return {} if seen is None else {"behaviour": sampled_behaviour(seen, settings)}
    made: dict[str, Any] = {}
    if seen is not None and not _of_own_policy(seen.case):
        own = own_in_memory(seen, settings), seen.case.square.value
    if own[0] is not None:
        made["behaviour"] = behaviour_value(own[0], own[1], decision, settings)
    if settings.anytime:
        made["anytime"] = anytime(decision, episodes, settings.level, settings.limits)
    if settings.confounding is not None and seen is not None and not _of_own_policy(seen.case):
        made["confounding"] = _confounding(decision, settings, seen)
    if settings.by is not None:
        of_groups = of_groups if seen is None else fits_in_memory(seen.case, decision, settings.by)
        made["groups"] = group_values(of_groups, decision, settings)
    return made


def sampled_behaviour(seen: SeenLog, settings: Settings) -> BehaviourValue | None:
    """`behaviour_value` for importance sampling: the log's own returns, and differences on the same bootstrap
    samples."""
    drawn, method = seen.drawn, settings.method
    whole = method in ENDED_BY_A_CUT or not seen.log.truncated.any()
    if method not in ESTIMATORS or seen.case.on_policy or not whole or len(drawn.resampled) < 2:
        return None
    place = list(ESTIMATORS).index(method)
    values, resampled = drawn.values[[MONTE_CARLO, place]], drawn.resampled[:, [MONTE_CARLO, place]]
    found = []
    for value, column in ((values[0], resampled[:, 0]), (values[1] - values[0], resampled[:, 1] - resampled[:, 0])):
        ends = interval_from(value, column, settings.level, seen.case.n_episodes, settings.interval_method)
        found += [float(value), *ends]
    return BehaviourValue(*found) if np.isfinite(found).all() else None


def own_in_memory(seen: SeenLog, settings: Settings) -> Fit | None:
    """The behaviour policy's value, with influences by episode or by cluster.

    Equations of pairs contain the target's choices, so the behaviour's value comes from the returns of whole episodes.
    """
    case = seen.case
    if _of_pairs(case):
        if seen.log.truncated.any() or settings.block_length is not None:
            return None
        returns = seen.drawn.contributions[:, RETURN]
        value, influences = float(returns.mean()), returns - returns.mean()
    else:
        own = of_behaviour(case.stream, case.starts, case.begins, seen.C)
        value, influences = own.value, own.psi
    return Fit("behaviour", value, summed_by_cluster(influences, settings.cluster), 0.0, 0)


def behaviour_value(own: Fit, value: float, decision: Decision, settings: Settings) -> BehaviourValue | None:
    """The behaviour policy's value, and the target's gain, whose interval includes the bias shown by the checks."""
    gain = value - own.value
    fits = (own, Fit("gain", gain, decision.fit.psi - own.psi, 0.0, 0))
    if settings.block_length is not None:
        fits = (as_dependent(fits[0], settings.limits), as_dependent(fits[1], settings.limits))
    down, up = beyond_own(decision, settings.level, settings.limits)
    (low, high), (least, most) = (interval(fit, settings.level, settings.limits) for fit in fits)
    found = (own.value, low, high, gain, least - down, most + up)
    return BehaviourValue(*found) if np.isfinite(found).all() else None


def summed_by_cluster(psi: Floats, clusters: Groups | None) -> Floats:
    """The influences of episodes, or their sums per cluster, scaled so that the mean does not change."""
    if clusters is None:
        return psi
    sums = np.bincount(clusters.of_episode, psi, len(clusters.names))
    return np.asarray(sums * (len(clusters.names) / len(psi)))


def _of_own_policy(case: Case) -> bool:
    """Whether the target is the behaviour policy, which needs no probabilities."""
    return case.on_policy and not _of_pairs(case)


def _of_pairs(case: Case) -> bool:
    """Whether rows are (observation, action) pairs, so that episodes start before the first action is chosen."""
    return case.stream.starts is not None


def _confounding(decision: Decision, settings: Settings, seen: SeenLog) -> Confounding:
    case, known = seen.case, seen.ratios.behaviour
    if known is None and seen.log.behaviour is not None:
        known = seen.log.behaviour
    real = seen.log.action is not None and not seen.log.discrete_actions
    chance = np.zeros(len(case.stream)) if known is None or real else known
    log = Bounded(case.stream, case.starts, case.begins, seen.C, chance, conditioning(seen))
    assert settings.confounding is not None
    against = _against(log, settings.against, _of_pairs(case))
    return confounding(log, decision, settings.confounding, against, settings.level, settings.limits)


def _against(log: Bounded, given: float | str | None, pairs: bool) -> Against:
    if given is None:
        given = 0.0 if pairs else "behaviour"
    if given != "behaviour":
        return Against(float(given), "zero" if given == 0 else "the value given")
    if pairs:
        raise InputError("against='behaviour' needs state values: give a number, or leave value_function='action' out.")
    own = log.behaviour()
    return Against(own.value, "the behaviour's value", own.psi)


def conditioning(seen: SeenLog) -> Conditioning:
    """Outcomes given the observation and the action: by group if both are discrete, else by regression."""
    case, log = seen.case, seen.log
    steps = np.asarray(case.stream.steps)
    piece = np.repeat(np.arange(case.n_episodes), np.diff(case.begins))
    half = piece % 2 if case.n_episodes > 1 else np.zeros(len(piece), np.int64)
    pairs = _of_pairs(case)
    action = log.action if log.discrete_actions and log.action is not None and not pairs else None
    if log.discrete_observations:
        place = steps["row"] if pairs or not len(log.observations) else log.observations[log.row]
        key = np.unique(place, return_inverse=True)[1]
        if action is not None:
            key = key * (int(action.max()) + 1) + action
        return Conditioning(np.unique(key, return_inverse=True)[1], half)
    group = np.zeros(len(piece), np.int64) if action is None else np.unique(action, return_inverse=True)[1]
    return Conditioning(group, half, _columns(seen, steps["row"]))


def _columns(seen: SeenLog, rows: Any) -> Floats:
    """Columns for the regression: a constant, the standardised value of the row, observation and continuous actions,
    and the squares of these columns."""
    log, case = seen.log, seen.case
    value = values_of(case.stream.features, case.square.theta)[rows]
    parts = [value[:, None]]
    if len(log.observations):
        parts.append(np.asarray(log.observations[log.row], np.float64).reshape(len(rows), -1)[:, :MOST_OBSERVED])
    if log.action is not None and not log.discrete_actions:
        parts.append(np.asarray(log.action, np.float64).reshape(len(rows), -1)[:, :MOST_OBSERVED])
    columns = np.concatenate(parts, axis=1)
    scale = columns.std(axis=0)
    columns = (columns - columns.mean(axis=0))[:, scale > 0] / scale[scale > 0]
    return np.asarray(np.c_[np.ones(len(rows)), columns, columns**2])


DRAWS = 2000
"""Number of draws of the multipliers."""


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
        Its value and interval. The intervals of all groups hold simultaneously at the requested level.
    fault
        Why the log is too small for this group; empty if the log is large enough.
    """

    name: str
    episodes: int
    value: float
    low: float
    high: float
    fault: str


class GroupFit(NamedTuple):
    """A group, the number of episodes that start in it, and its value with the influences of all episodes."""

    name: str
    episodes: int
    fit: Fit


def group_values(of_groups: Sequence[GroupFit], decision: Decision, settings: Settings) -> tuple[GroupValue, ...]:
    level, limits = settings.level, settings.limits
    times = together(np.array([one.fit.psi for one in of_groups]), level, settings.seed)
    down, up = beyond_own(decision, level, limits)
    made = []
    for name, episodes, fit in of_groups:
        low, high = interval(fit, level, limits)
        wider = fit.error / max(decision.fit.error, 1e-300)  # the bias that checks show, in standard errors
        ends = fit.value - times * (fit.value - low) - wider * down, fit.value + times * (high - fit.value) + wider * up
        made.append(GroupValue(name, episodes, fit.value, *ends, ", ".join(faults(fit, limits))))
    return tuple(made)


def fits_in_memory(case: Case, decision: Decision, groups: Groups) -> list[GroupFit]:
    """The fits of the groups of starts in a log in memory."""
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
    """For a log in parts, by group of episodes and group of starts: the number of episodes, and the sum of their start
    values.

    ``left`` is A^-T times the mean start features of every group of starts, with A the sum over all steps.
    """

    episodes: Floats
    values: Floats
    left: Sequence[Floats]


def fits_in_parts(
    equations: Equations, columns: Integers, theta: Floats, sums: StartSums, whole: Fit, groups: Groups
) -> list[GroupFit]:
    """The fits of the groups of starts in a log in parts, from the solution of its equations on some columns."""
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
    """The max-t quantile of simultaneous intervals, by multipliers of the influences psi (groups, episodes)."""
    scale = np.sqrt((psi**2).sum(axis=1))
    rng = np.random.default_rng(seed)
    drawn = rng.standard_normal((DRAWS, psi.shape[1])) @ (psi / np.maximum(scale, 1e-300)[:, None]).T
    one = NormalDist().inv_cdf(0.5 + level / 2)
    return max(1.0, float(np.quantile(np.abs(drawn).max(axis=1), level)) / one)


def with_model_error(case: Case, decision: Decision, found: Ratios, C: Any) -> tuple[Decision, dict[str, Any]]:
    """Add the behaviour model's error to the influences of a decision, and widen its interval by the shift under a
    second model. Also returns diagnostics.

    Traces multiply the ratios of several steps, so evaluations with traces are not corrected.
    """
    if found.model is None or found.other is None or case.traces is not None:
        return decision, {}
    square, fit, limits = case.square, decision.fit, case.settings.limits
    explained = found.model.explained(step_influences(case.stream, square.theta, square.left))
    more = np.add.reduceat(explained, case.begins[:-1]) * (case.n_episodes / len(case.stream))
    paid = _with_noise(replace(fit, psi=fit.psi + more), fit.error, found.model.parameters)
    value, psi = _by_other_model(case, found.other, C)
    apart = value - square.value
    error = paired_error(fit, replace(fit, psi=psi))
    bias = float(np.sign(apart) * np.sqrt(max(0.0, apart**2 - error**2)))
    # Fits were judged with the errors of known probabilities. So is the bias that refits show, because they keep the
    # model.
    told = {
        "model_moves": abs(apart) / max(limits.far * error, paid.error, 1e-300),
        "refit_bias": abs(fit.bias) / max(fit.error, 1e-300),
    }
    return _moved(decision, paid, bias, case.settings.level), told


def _with_noise(fit: Fit, known: float, parameters: int) -> Fit:
    """The fit with its error corrected for a model with ``parameters`` parameters. ``known`` is the error with known
    probabilities."""
    n = fit.effective
    factor = np.sqrt((n + parameters) / (n - parameters)) if n > parameters else np.inf
    return replace(fit, error_factor=fit.error_factor * max(1.0, min(factor, known / max(fit.error, 1e-300))))


def _by_other_model(case: Case, rho: Floats, C: Any) -> tuple[float, Floats]:
    """The value and its influences with the ratios of a different behaviour model."""
    made = least_squares(case.stream.changed(rho=rho), case.starts, case.begins, C=C)
    return made.value, made.psi


def _moved(decision: Decision, fit: Fit, bias: float, level: float) -> Decision:
    """The decision with a different fit and an additional bias, but the same results of the checks."""

    def longer(before: Interval, at: float) -> tuple[Interval, Interval]:
        was, now = interval(decision.fit, at), interval(fit, at)
        down, up = max(0.0, was[0] - before.low, -bias), max(0.0, before.high - was[1], bias)
        return Interval(*now), Interval(now[0] - down, now[1] + up)

    own, hull = longer(decision.hull, JUDGED)
    shown = longer(decision.shown, level)[1]
    return replace(decision, fit=fit, own=own, hull=hull, shown=shown, bias=max(decision.bias, abs(bias)))
