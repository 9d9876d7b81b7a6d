"""The targets of a log in memory: what each is evaluated from, and its evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from typing import Any

import numpy as np

from gradtd.core.progress import StageProgress, stage
from gradtd.evaluation.actions.planning import Asking, PairPlan, plan_pairs
from gradtd.evaluation.actions.traces import as_given
from gradtd.evaluation.estimators.lambda_values import against_lambda
from gradtd.evaluation.estimators.methods import for_pictures, influences_of, make_case, solve
from gradtd.evaluation.estimators.products import trace_rows
from gradtd.evaluation.estimators.whitening import AS_DENSE, AS_DENSE_SOLVED
from gradtd.evaluation.planning import Plan, make_plan
from gradtd.evaluation.preparing import known_chances
from gradtd.evaluation.report.comparison import Evaluations
from gradtd.evaluation.report.diagnose import compare_methods, diagnose, equations_of
from gradtd.evaluation.report.estimate import ESTIMATORS
from gradtd.evaluation.report.result import Evaluation, build_evaluation
from gradtd.evaluation.report.step_sums import sum_steps
from gradtd.evaluation.settings import ACTION, STATE, Settings, refuse_unknown_chances
from gradtd.evaluation.trust.records import Record
from gradtd.evaluation.trust.robust import products
from gradtd.logs import Log, Ratios, ratios

Planned = tuple[Plan, Ratios]
"""What one target is evaluated from."""


def is_own(policy: Any) -> bool:
    """Whether the target is the policy that made the log: its values of observations need no probabilities either."""
    return isinstance(policy, str) and policy == "behaviour"


def plan_targets(
    log: Log, targets: Mapping[str, Any], settings: Settings, asking: Asking, clip: float | None
) -> dict[str, Planned]:
    """What every target is evaluated from; those with values of observations share the features."""
    checked = settings.method not in ESTIMATORS
    plans: dict[str, Planned] = {}
    for name, policy in targets.items():
        if settings.values == ACTION and not is_own(policy):
            plans[name] = plan_pairs(log, policy, asking, checked)
    rest = {name: policy for name, policy in targets.items() if name not in plans}
    told = {"behaviour": asking.behaviour, "clip": clip, "seed": asking.seed}
    found = {name: ratios(log, one, **told) for name, one in rest.items()}
    if rest:
        as_dense = AS_DENSE_SOLVED if settings.computed else AS_DENSE
        plan = make_plan(log, asking.features, asking.block, asking.whiten, checked, as_dense)
        plans |= {name: (plan, one) for name, one in found.items()}
    return {name: plans[name] for name in targets}


def evaluate_targets(plans: Mapping[str, Planned], settings: Settings, progress: StageProgress | None) -> Evaluations:
    """Every target on the same features, as many at a time as there are threads; an error or Ctrl-C stops them all."""
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


def suited_to(plan: Plan, settings: Settings) -> Settings:
    """The settings for one target: the log's own policy has values of observations, and ratios 1 in its traces."""
    tracing = settings.tracing
    if isinstance(plan, PairPlan):
        return replace(settings, tracing=None if tracing is None else as_given(tracing))
    if settings.values == ACTION and tracing is not None:
        tracing = tracing._replace(kind="rho")
    return replace(settings, values=STATE, tracing=tracing)


def evaluate_target(
    plan: Plan, found: Ratios, name: str, settings: Settings, progress: StageProgress | None
) -> Evaluation:
    """One target: its solution, its checks and its verdict."""
    settings = suited_to(plan, settings)
    chances = known_chances(plan.log, found)
    refuse_unknown_chances(settings, chances)
    decision = plan.decide(found.rho, settings.gamma, settings.level, settings.tracing, chances, settings.threads)
    ready = plan.prepared(decision)
    stream = ready.stream(found.rho, settings.gamma, chances)
    trace_rows(stream, settings.tracing, ready.log.episode)  # kept: traces run on across blocks
    judged = None if settings.method in ESTIMATORS else decision
    case = make_case(stream, settings, stage(progress, "least squares"), judged, ready.C)
    solved = solve(case, stage(progress, "refitting"))
    discount, rho = np.asarray(stream.steps["discount"]), found.rho
    weights = products(Record(None, None, ready.log.reward, discount, rho, case.begins, False))
    steps = sum_steps(ready.log, found, discount, case.begins, weights)
    more = compare_methods(case, solved) | ready.measured(case)
    if judged is not None or plan.why_not:
        more |= {"features_named": plan.named, "not_checked": plan.why_not or None}
    equations = equations_of(case, solved.theta, ready.features.n_features, ready.condition_C)
    return build_evaluation(
        diagnose(steps, equations, judged, settings, solved.headline, **more),
        solved.estimates,
        settings.level,
        theta=ready.weights(solved.theta),
        features=ready.features,
        resampled=solved.resampled,
        influences=influences_of(case),
        pictured=for_pictures(case, solved.theta) | against_lambda(case, ready.log.episode),
        checks=() if decision is None else decision.checks,
        warnings=found.notes,
        notes=ready.notes,
        target=name,
        log=ready.log.name,
    )
