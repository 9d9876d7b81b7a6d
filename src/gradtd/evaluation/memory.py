"""Evaluates a log in memory, as a single part: from design rows to moments, fits, a decision and a report."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.core.progress import StageProgress, stage
from gradtd.evaluation.action_values import PairPlan, plan_pairs, traces_as_given
from gradtd.evaluation.checks import products
from gradtd.evaluation.decide import Decision
from gradtd.evaluation.designs.base import known_chances
from gradtd.evaluation.estimators.importance_sampling import DR, marginal_weights
from gradtd.evaluation.estimators.lambda_values import against_lambda
from gradtd.evaluation.estimators.methods import Case, Solved, for_pictures, influences_of, make_case, solve
from gradtd.evaluation.estimators.products import trace_rows
from gradtd.evaluation.extra_answers import SeenLog, extra_answers, with_model_error
from gradtd.evaluation.limits import Limits
from gradtd.evaluation.log_questions import HeldOut, is_by_row
from gradtd.evaluation.past_observations import (
    added_kind,
    described,
    episodes_since,
    remedies,
    unseen_after_cuts,
    with_past,
)
from gradtd.evaluation.plan import Plan, is_network, make_network_plan, make_plan
from gradtd.evaluation.report.comparison import Evaluations
from gradtd.evaluation.report.diagnostics import diagnose
from gradtd.evaluation.report.estimate import ESTIMATORS
from gradtd.evaluation.report.log_faults import look_for_faults
from gradtd.evaluation.report.result import Evaluation, build_evaluation
from gradtd.evaluation.report.step_sums import effective_size, sum_steps
from gradtd.evaluation.settings import ACTION, STATE, Settings, refuse_unknown_chances, refuse_without_ratios
from gradtd.evaluation.value_functions import choosable, with_action_values
from gradtd.features.cells import OneHot
from gradtd.logs import Log, Ratios, ratios
from gradtd.logs.calibration import with_doubt
from gradtd.logs.ratios import is_deterministic
from gradtd.logs.row_policies import stands_beside


def plan_targets(
    log: Log, targets: Mapping[str, Any], settings: Settings, held: HeldOut | None = None
) -> dict[str, tuple[Plan, Ratios]]:
    """The shared inputs of all targets. Targets with state values share the features.

    If episodes are held out, ratios are computed on the whole log, because a policy may be given by row. Everything
    else uses only the held-out episodes.
    """
    plans: dict[str, tuple[Plan, Ratios]] = {}
    whole, log = log, log if held is None else held.log
    for name, policy in targets.items():
        pairs = settings.value_function == ACTION and not is_own(policy)
        if held is not None and (pairs or is_deterministic(log, policy)) and is_by_row(policy):
            raise InputError(
                "trained_on with action values needs the target as a function or a table, but it was given by row: "
                "give a function."
            )
        if pairs:
            plans[name] = plan_pairs(log, policy, settings)
        elif is_deterministic(log, policy):
            of_actions = replace(settings, value_function=ACTION, clip=None)
            refuse_without_ratios(of_actions)
            of_pairs, found = plan_pairs(log, policy, of_actions)
            plans[name] = of_pairs, replace(found, notes=(*found.notes, DETERMINISTIC))
    rest = {name: policy for name, policy in targets.items() if name not in plans}
    given = {"behaviour": settings.behaviour, "clip": settings.clip, "seed": settings.seed}
    made = {name: with_doubt(whole, ratios(whole, one, **given), stands_beside(one)) for name, one in rest.items()}
    if held is not None:
        made = {name: held.ratios(one) for name, one in made.items()}
        plans = {name: (plan, replace(one, notes=(*one.notes, held.note))) for name, (plan, one) in plans.items()}
    if settings.since is not None:
        log, made = episodes_since(log, made, settings.since)
    log = with_past(log, settings)
    if is_network(settings.features):
        plans |= {name: (make_network_plan(log, one.rho, settings), one) for name, one in made.items()}
    elif rest:
        plan = make_plan(log, settings)
        plans |= {name: (plan, one) for name, one in made.items()}
        if len(targets) == 1:  # several are compared with each other, which needs one value function
            plan = replace(plan, choosable=choosable(log, next(iter(rest.values())), settings))
            plans = {name: (plan, one) for name, one in made.items()}
    return {name: plans[name] for name in targets}


DETERMINISTIC = (
    "The target returns one continuous action per observation and no density, so there are no importance ratios, and "
    "gradtd used action values. To confirm, give value_function='action'; for ratios, give a function (observations, "
    "actions) that returns the density of these actions. If the actions are discrete, list them with actions=[...]."
)


def is_own(policy: Any) -> bool:
    """Whether the target is the behaviour policy, whose state values need no probabilities."""
    return isinstance(policy, str) and policy == "behaviour"


def evaluate_targets(
    plans: Mapping[str, tuple[Plan, Ratios]], settings: Settings, progress: StageProgress | None
) -> Evaluations:
    """Evaluate all targets, as many at a time as there are threads. An error or Ctrl-C stops all."""
    alone = replace(settings, threads=1)
    stop = Event()

    def heard(what: str, done: int, total: int) -> None:
        if stop.is_set():
            raise CancelledError
        if progress:
            progress(what, done, total)

    with ThreadPoolExecutor(settings.threads) as pool:
        made = [pool.submit(evaluate_target, *one, name, alone, heard) for name, one in plans.items()]
        try:
            return Evaluations(zip(plans, [future.result() for future in made], strict=True))
        finally:
            stop.set()


def settings_for(plan: Plan, settings: Settings) -> Settings:
    """The settings for one target: the behaviour policy has state values, and ratios 1 in its traces."""
    tracing = settings.tracing
    if isinstance(plan, PairPlan):
        traced = settings.with_trace(None if tracing is None else traces_as_given(tracing))
        return replace(traced, value_function=ACTION)
    if settings.value_function == ACTION and tracing is not None:
        tracing = tracing._replace(kind="rho")
    return replace(settings.with_trace(tracing), value_function=STATE)


def evaluate_target(
    plan: Plan, found: Ratios, name: str, settings: Settings, progress: StageProgress | None
) -> Evaluation:
    """Evaluate one target. If its observations hide something and gradtd chooses the features, also try observations
    with the past added."""
    settings = settings_for(plan, settings)
    decision = decided(plan, found, settings)
    made = evaluate_plan(plan, found, decision, name, settings, progress)
    late = made.diagnostics.rewards_late  # a fault of the log, which features of the past would conceal
    for more in remedies(settings, made.diagnostics, plan.named):
        try:
            other = make_plan(with_past(plan.log, more), more)
            repaired = decided(other, found, more)
            if decision and repaired and decision.refutes(repaired, added_kind(more), settings.limits):
                continue
            again = evaluate_plan(other, found, repaired, name, more, progress, late)
        except InputError:  # these observations allow no features
            continue
        if again.verdict == "usable" or (late and again.verdict == "unchecked" and len(again.reasons) == 1):
            note = f"The observations are not Markov states, so gradtd added {described(more)} to them."
            return replace(again, notes=(*again.notes, note))
    return made if plan.choosable is None else with_action_values(made, plan.choosable, settings)


def decided(plan: Plan, found: Ratios, settings: Settings) -> Decision | None:
    """The decision of the checks for a target."""
    chances = known_chances(plan.log, found)
    refuse_unknown_chances(settings, chances)
    return plan.decide(settings, found.rho, chances)


def evaluate_plan(
    plan: Plan,
    found: Ratios,
    decision: Decision | None,
    name: str,
    settings: Settings,
    progress: StageProgress | None,
    rewards_late: bool | None = None,
) -> Evaluation:
    """Evaluate one plan: from the decision to the estimates and the report."""
    chances = known_chances(plan.log, found)
    ready = plan.features_for(decision)
    stream = ready.stream(found.rho, settings.gamma, chances)
    trace_rows(stream, settings.tracing, ready.log.episode)  # cached on the stream, since traces continue across blocks
    discount = np.asarray(stream.steps["discount"])
    weights = products(found.rho, discount, stream.begins)
    steps = sum_steps(ready.log, found, discount, stream.begins, weights)
    judged = None
    if decision is not None and settings.method not in ESTIMATORS:
        judged = decision.within(*steps.possible(settings.most_discount))
    case = make_case(stream, settings, stage(progress, "least squares"), judged, ready.C)
    more: dict[str, Any] = {}
    if judged is not None and found.model is not None:
        paid, more = with_model_error(case, judged, found, ready.C)
        judged = paid.within(*steps.possible(settings.most_discount))
        case = replace(case, decision=judged)
    solved = solve(case, stage(progress, "refitting"))
    more |= measure(case, solved.theta) | compare_methods(case, solved) | ready.measured(case)
    more |= {"doubt": found.doubt}
    more |= look_for_faults(plan.log, case.begins, None if judged is None else judged.fit.psi)
    if rewards_late:
        more |= {"rewards_late": True}
    by_state = plan.log.discrete_observations and isinstance(ready.features, OneHot)
    if settings.method not in ESTIMATORS and (by_state or settings.with_time):
        more |= {"unseen_after_cuts": unseen_after_cuts(plan.log, by_state, discount)}
    if judged is not None or plan.why_not:
        more |= {"features_named": plan.named, "not_checked": plan.why_not or None}
    more |= {"features": ready.features.n_features, "condition_C": ready.condition_C}
    diagnostics = diagnose(steps, case.square, judged, settings, solved.headline.value, **more)
    if settings.cluster is not None:
        diagnostics = replace(diagnostics, episodes=len(settings.cluster.names))
    return build_evaluation(
        diagnostics,
        (*solved.estimates, *plan.beside),
        settings.level,
        theta=ready.weights(solved.theta),
        features=ready.features,
        resampled=solved.resampled,
        influences=influences_of(case),
        pictured=for_pictures(case, solved.theta) | against_lambda(case, ready.log.episode),
        checks=() if decision is None else decision.checks,
        warnings=found.notes,
        notes=ready.notes,
        extras=extra_answers(judged, case.n_episodes, settings, SeenLog(case, plan.log, found, ready.C, solved.drawn)),
        target=name,
        log=ready.log.name,
        understood=ready.log.understood.with_target(found.shares, ready.log.action_labels),
        limits=settings.limits,
    )


def measure(case: Case, theta: Floats) -> dict[str, Any]:
    """Diagnostics that need every step: the residual of the final weights, and the marginal weights."""
    square = case.square
    residual = square.sums.A @ theta + square.sums.b
    weights = marginal_weights(case.stream, square.left, case.traces)
    return {
        "neu_end": float(residual @ residual),
        "ess_marginal": effective_size(weights),
        "ess_marginal_episodes": effective_size(np.add.reduceat(weights, case.begins[:-1])),
    }


def compare_methods(case: Case, solved: Solved) -> dict[str, Any]:
    """Agreement of the requested method with the others, and the progress of its fit, as fields of `Diagnostics`."""
    told: dict[str, Any] = {"resamples": solved.resamples, "refits": solved.refits}
    if case.settings.value_function == STATE:
        told["from_dr"] = _from_doubly_robust(solved, case.settings.limits)
    fitted, value = solved.fitted, solved.headline.value
    if fitted is None:
        return told
    told |= {"updates": fitted.updates, "hyper": fitted.told, "diverged": fitted.diverged}
    told["moved"] = fitted.moved / case.error
    if solved.refits:
        told["refits_lost"] = float(np.isnan(solved.resampled).mean()) if len(solved.resampled) else 0.0
    if value is not None:
        told["from_lstd"] = abs(value - case.square.value) / case.error
        told["error_ratio"] = _error_ratio(case, solved) if solved.refits else None
    return told


def _error_ratio(case: Case, solved: Solved) -> float:
    """The error by refits relative to the sandwich error. NaN if one of them is missing or consists of rounding
    error."""
    error = solved.headline.error
    if error is None or not len(solved.resampled) or case.square.error < case.error:
        return float("nan")
    return error / case.error


def _from_doubly_robust(solved: Solved, limits: Limits) -> float | None:
    """Distance of the value from the doubly robust estimate, in standard errors of the difference; NaN if there is
    none."""
    row, refits = solved.headline, solved.resampled
    if row.value is None or row.method in ESTIMATORS or not len(refits):
        return None
    robust = solved.drawn.resampled[:, DR]
    apart = (refits - robust)[np.isfinite(refits) & np.isfinite(robust)]
    spread = max(float(apart.std()), limits.rounding * abs(row.value)) if len(apart) > 1 else 0.0
    return abs(row.value - float(solved.drawn.values[DR])) / spread if spread > 0 else float("nan")
