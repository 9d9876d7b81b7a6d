"""`value_function="auto"`: state values, or the value of action values in the interval of the state values.

Where the observation and the action determine the next step, action values need no ratios and have almost no error.
Their own interval would be too narrow: it has no width if all steps agree, and does not include what the log lacks. So
interval and verdict remain those of the state values, and the interval is extended to contain the value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradtd.core.checks import InputError
from gradtd.evaluation.action_values import plan_pairs
from gradtd.evaluation.designs.choices import refuse_probabilities_of_taken
from gradtd.evaluation.designs.log_features import is_auto
from gradtd.evaluation.estimators.methods import make_case
from gradtd.evaluation.options import Inference, names_of
from gradtd.evaluation.report.estimate import AUTO
from gradtd.evaluation.report.result import Evaluation
from gradtd.evaluation.settings import ACTION, Settings
from gradtd.features import Grouped, OneHot
from gradtd.logs import Log
from gradtd.logs.given_policies import policy_over

WIDTH = 2 * 1.96
"""Width of a 95 % interval, in standard errors."""


@dataclass(frozen=True, eq=False)
class Choosable:
    """The inputs that action values need: the log with its observations, and the target."""

    log: Log
    target: Any


def may_choose(target: Any, settings: Settings) -> bool:
    """Whether the value function may be chosen: only defaults were asked for, and the target has a form that can give
    the probabilities of every action."""
    options = Inference(**{name: getattr(settings, name) for name in names_of(Inference)})
    named = settings.method != AUTO or not is_auto(settings.features) or options != Inference()
    return settings.chooses_values and not named and target is not None and not _is_column(target)


def _is_column(target: Any) -> bool:
    """Whether a target is the name of one column, or the behaviour policy."""
    return isinstance(target, str) and target != "uniform"


def choosable(log: Log, target: Any, settings: Settings) -> Choosable | None:
    """The inputs of action values, or None if state values are kept without a comparison."""
    discrete = log.discrete_observations and log.action is not None and log.discrete_actions
    if not discrete or not may_choose(target, settings) or len(log) > settings.limits.most_compared_steps:
        return None
    limits, one_step = settings.limits, len(log.starts) == len(log)
    if one_step or agreement(log) < limits.least_agreement or lacking_pairs(log, target) > limits.most_lacking_pairs:
        return None
    return Choosable(log, target)


def worth_reading(made: Evaluation, target: Any, settings: Settings) -> bool:
    """Whether a log that was evaluated in parts is read into memory for the choice."""
    discrete = isinstance(made.features, OneHot | Grouped)
    return discrete and made.steps <= settings.limits.most_compared_steps and may_choose(target, settings)


def agreement(log: Log) -> float:
    """The share of repeated visits to a pair that lead to the same next observation as the visit before."""
    assert log.action is not None
    state = np.unique(log.observations, return_inverse=True)[1].ravel()
    pair = state[log.row] * log.n_actions + log.action
    after = np.where(log.terminated, -1, state[log.next_row])
    order = np.argsort(pair, kind="stable")
    pair, after = pair[order], after[order]
    again = pair[1:] == pair[:-1]
    return float((after[1:] == after[:-1])[again].mean()) if again.any() else 0.0


def lacking_pairs(log: Log, target: Any) -> float:
    """The share of the target's choices, at next observations and starts, that the log never took there.

    The target is asked once for each observation. 1 if it gives probabilities of only the actions taken.
    """
    assert log.action is not None
    _, first, state = np.unique(log.observations, return_index=True, return_inverse=True)
    state = state.ravel()
    asked = np.r_[state[log.next_row[~log.terminated]], state[log.row[log.starts]]]
    often = np.bincount(asked, minlength=len(first))
    some = np.flatnonzero(often)
    try:
        law = policy_over(log, "target", refuse_probabilities_of_taken(log, target))(first[some])
    except InputError:
        return 1.0
    taken = np.zeros((len(first), max(log.n_actions, law.shape[1])), bool)
    taken[state[log.row], log.action] = True
    lacking = np.where(taken[some, : law.shape[1]], 0.0, law).sum(axis=1)
    return float(often[some] @ lacking / len(asked))


def with_action_values(made: Evaluation, given: Choosable, settings: Settings) -> Evaluation:
    """The evaluation by state values, with the value of action values if these are more precise and agree with it."""
    limits, state = settings.limits, made.estimates[0]
    if state.value is None or state.error is None or state.low is None or state.high is None:
        return made
    settings = replace(settings, value_function=ACTION)
    try:
        plan, found = plan_pairs(given.log, given.target, settings)
    except InputError:  # probabilities by row, and none for a next observation that is not a row
        return made
    decision = plan.decide(settings, found.rho, None)
    if decision is None:
        return made
    features, fit = plan.features_for(decision), decision.fit
    case = make_case(features.stream(found.rho, settings.gamma), settings, None, decision, features.C)
    lacking = (features.measured(case).get("never_taken_effect") or 0.0) * case.error
    value, wide = case.square.value, max(fit.error, decision.hull.width / WIDTH)
    bias = fit.bias if fit.error > limits.no_error * abs(value) else 0.0  # else it is the choices that a tenth lacks
    error = float(np.sqrt(wide**2 + lacking**2 + bias**2))
    near = abs(value - state.value) <= limits.most_contradiction * state.error
    if not (near and error <= limits.most_error_of_pairs * state.error):
        return made
    low, high = min(state.low, value), max(state.high, value)
    row = replace(state, value=value, low=low, high=high, note=f"action values, interval of state values; {state.note}")
    told = replace(made.diagnostics, action_error=error, state_value=state.value)
    rows = (row, *made.estimates[1:])
    return replace(made, value=value, interval=(low, high), estimates=rows, diagnostics=told)
