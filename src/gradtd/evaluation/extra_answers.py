"""Additional answers from the same decision and equations: fields of an `Evaluation`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.evaluation.anytime import anytime
from gradtd.evaluation.conditional_quantiles import Conditioning
from gradtd.evaluation.decide import Decision
from gradtd.evaluation.estimators.bootstrap import interval_from
from gradtd.evaluation.estimators.importance_sampling import MONTE_CARLO, RETURN, Estimates
from gradtd.evaluation.estimators.least_squares import of_behaviour
from gradtd.evaluation.estimators.methods import Case
from gradtd.evaluation.estimators.products import values_of
from gradtd.evaluation.fits import Fit
from gradtd.evaluation.intervals import as_dependent, interval
from gradtd.evaluation.log_questions import Groups
from gradtd.evaluation.report.estimate import ENDED_BY_A_CUT, ESTIMATORS, BehaviourValue
from gradtd.evaluation.sensitivity import Against, Bounded, Confounding, confounding
from gradtd.evaluation.settings import Settings
from gradtd.evaluation.subgroups import GroupFit, fits_in_memory, group_values
from gradtd.logs import Log, Ratios

MOST_OBSERVED = 8
"""Columns of the observation that quantiles are conditioned on."""


class SeenLog(NamedTuple):
    """A log in memory for one target: its case, the log with its observations, ratios, and the mean of x x'.

    ``drawn`` are the estimates by importance sampling on the same resamples.
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
) -> dict[str, Any]:
    """All requested additional answers; none if the value was not checked.

    ``seen`` is the log where it is in memory, else ``of_groups`` has the fits of groups of starts.
    """
    if decision is None:
        return {} if seen is None else {"behaviour": sampled_behaviour(seen, settings)}
    made: dict[str, Any] = {}
    if seen is not None and (_of_pairs(seen.case) or not seen.case.on_policy):
        made["behaviour"] = behaviour_value(seen, decision, settings)
    if settings.anytime:
        made["anytime"] = anytime(decision, episodes, settings.level, settings.limits)
    if settings.confounding is not None and seen is not None and not _of_own_policy(seen.case):
        made["confounding"] = _confounding(decision, settings, seen)
    if settings.by is not None:
        of_groups = of_groups if seen is None else fits_in_memory(seen.case, decision, settings.by)
        made["groups"] = group_values(of_groups, decision, settings)
    return made


def sampled_behaviour(seen: SeenLog, settings: Settings) -> BehaviourValue | None:
    """The same beside importance sampling: the log's own returns, and differences on the same resamples."""
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


def behaviour_value(seen: SeenLog, decision: Decision, settings: Settings) -> BehaviourValue | None:
    """The behaviour policy's value, and the target's gain, whose interval includes the bias shown by the checks.

    Equations of pairs hold the target's choices, so beside them stand the returns of whole episodes.
    """
    case = seen.case
    if _of_pairs(case):
        if seen.log.truncated.any() or settings.block_length is not None:
            return None
        returns = seen.drawn.contributions[:, RETURN]
        own_value, influences = float(returns.mean()), returns - returns.mean()
    else:
        own = of_behaviour(case.stream, case.starts, case.begins, seen.C)
        own_value, influences = own.value, own.psi
    psi, value, own_psi = decision.fit.psi, case.square.value, summed_by_cluster(influences, settings.cluster)
    fits = (Fit("behaviour", own_value, own_psi, 0.0, 0), Fit("gain", value - own_value, psi - own_psi, 0.0, 0))
    if settings.block_length is not None:
        fits = (as_dependent(fits[0], settings.limits), as_dependent(fits[1], settings.limits))
    plain = interval(decision.fit, settings.level, settings.limits)
    down, up = max(0.0, plain[0] - decision.shown.low), max(0.0, decision.shown.high - plain[1])
    (low, high), (least, most) = (interval(fit, settings.level, settings.limits) for fit in fits)
    found = (own_value, low, high, value - own_value, least - down, most + up)
    return BehaviourValue(*found) if np.isfinite(found).all() else None


def summed_by_cluster(psi: Floats, clusters: Groups | None) -> Floats:
    """Influences of episodes, or their sums per cluster, scaled to keep the mean."""
    if clusters is None:
        return psi
    sums = np.bincount(clusters.of_episode, psi, len(clusters.names))
    return np.asarray(sums * (len(clusters.names) / len(psi)))


def _of_own_policy(case: Case) -> bool:
    """Whether the value is that of the log's own policy, which needs no probabilities."""
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
        raise InputError(
            "against='behaviour' needs values of states: give a number, or leave value_function='action' out."
        )
    own = log.behaviour()
    return Against(own.value, "the behaviour's value", own.psi)


def conditioning(seen: SeenLog) -> Conditioning:
    """Outcomes given the observation and the action: by group where both are discrete, else by regression."""
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
    """A constant, the value of the row and its square, the observation and its squares, real actions; scaled."""
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
