"""`evaluate`: from a log to a value with an interval and a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, overload

from gradtd.core import checks
from gradtd.core.algorithm import Algorithm
from gradtd.core.checks import InputError
from gradtd.core.executors import n_threads, open_executor
from gradtd.core.progress import StageProgress, progress_bar, stage
from gradtd.core.quantiles import level_of
from gradtd.evaluation.designs.log_features import is_auto
from gradtd.evaluation.folder import evaluate_folder, large_table
from gradtd.evaluation.log_questions import ask_log
from gradtd.evaluation.memory import evaluate_target, evaluate_targets, plan_targets
from gradtd.evaluation.options import Inference, LogFormat, Machine, record_of, take_old_keywords
from gradtd.evaluation.past_observations import remedies
from gradtd.evaluation.plan import is_network
from gradtd.evaluation.report.comparison import Evaluations
from gradtd.evaluation.report.estimate import AUTO
from gradtd.evaluation.report.result import Evaluation
from gradtd.evaluation.settings import (
    STATE,
    VALUE_FUNCTIONS,
    Settings,
    known_method,
    refuse_beside_clusters,
    refuse_unknown,
    refuse_without_influences,
    refuse_without_ratios,
)
from gradtd.evaluation.value_functions import worth_reading
from gradtd.logs.given_policies import read_beside
from gradtd.logs.policies import GivenPolicy, several, spelled


@overload
def evaluate(
    log: Any,
    target: GivenPolicy | None = ...,
    gamma: float | None = ...,
    *,
    features: Any = ...,
    algorithm: Algorithm | str = ...,
    value_function: str = ...,
    behaviour: GivenPolicy | None = ...,
    level: float = ...,
    seed: int = ...,
    progress: StageProgress | bool | None = ...,
    log_format: LogFormat | None = ...,
    inference: Inference | None = ...,
    machine: Machine | None = ...,
    **hyper: Any,
) -> Evaluation: ...


@overload
def evaluate(
    log: Any,
    target: Mapping[str, GivenPolicy],
    gamma: float | None = ...,
    **options: Any,
) -> Evaluations: ...


def evaluate(
    log: Any,
    target: GivenPolicy | Mapping[str, GivenPolicy] | None = None,
    gamma: float | None = None,
    *,
    features: Any = None,
    algorithm: Algorithm | str = "auto",
    value_function: str = AUTO,
    behaviour: GivenPolicy | None = None,
    level: float = 0.95,
    seed: int = 0,
    progress: StageProgress | bool | None = None,
    log_format: LogFormat | None = None,
    inference: Inference | None = None,
    machine: Machine | None = None,
    **hyper: Any,
) -> Evaluation | Evaluations:
    """Estimate the value of a policy from a log of another policy.

    Returns an `Evaluation`: a value, an interval, and a verdict. If ``target`` is a dictionary of policies, returns
    `Evaluations`, a dictionary with one evaluation for each, which can also ``compare`` them.

    Parameters
    ----------
    log
        A file, a frame, a dictionary of arrays, a Minari dataset, a `Log`, or anything else that `gradtd.read_log`
        reads.
    target
        The policy to evaluate: a function of observations that returns probabilities (n, actions) or one action each, a
        table [states, actions], an array with the probabilities of the actions taken, one per row of the log, or of
        every action (n, actions), the name or names of columns that contain them, "uniform", or "behaviour" for the
        behaviour policy. By default the log's target or ratio column. A dictionary of such targets is evaluated in one
        call.
    gamma
        The discount factor, 0 to 1. It has no default.
    features
        "auto", the default: one feature per state if observations are discrete, else the smallest cosine basis that
        larger ones confirm. Or a name such as "fourier" or "tiles:tilings=4", a feature map, a scikit-learn transformer
        or a function: then richer features only check it. Or "network": a network learns features on each half of the
        episodes for the other half (extra ``deep``, ``docs/deep.md``).
    algorithm
        "auto", the default, solves the equations of the log directly: the solution that Impression GTD, Expected GTD
        and LSTD share. Or any algorithm of the library, which is fitted until its value stops changing and then
        compared with that solution. Or an importance-sampling estimator: is, wis, pdis, wpdis, dr, wdr, monte_carlo.
    value_function
        "state": values of observations, with importance ratios. "action": values of observations and actions, which
        need no probabilities of the behaviour. "auto", the default: state values. If observations and actions are
        discrete, the target gives the probabilities of every action, and action values are clearly more precise, the
        reported value is theirs, in the interval of the state values. Several targets in one call, named features,
        named algorithms and any option of ``inference`` keep state values. See ``docs/action-values.md``.
    behaviour
        The behaviour policy, if the log lacks its probabilities or they are wrong, in the forms of ``target``;
        "estimate" fits it to the log.
    level
        The level of the interval.
    seed
        Random seed for bootstrap samples, batches and sampled actions.
    progress
        By default a progress bar appears on a terminal and in a notebook after one second; False turns it off. You can
        also pass a function ``progress(what, done, total)``.
    log_format
        How the log is read: a `LogFormat`, for example ``LogFormat(columns={"reward": "r"}, time_limit=200)``.
    inference
        How value and interval are computed: an `Inference`, for example ``Inference(lam=0.8, block_length=100)``.
    machine
        Where the computation runs: a `Machine`, for example ``Machine(threads=4, in_parts=True)``.
    **hyper
        Hyper-parameters of the rule, for example ``alpha=0.1``.

    >>> import gradtd
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> log = {"episode": np.repeat(np.arange(200), 2), "obs": np.tile([0, 1], 200), "terminated": np.tile([0, 1], 200),
    ...        "reward": rng.normal(1, 1, 400), "rho": rng.choice([0.5, 1.5], 400)}
    >>> result = gradtd.evaluate(log, gamma=0.9)      # each step is worth 1, so the truth is 1.9
    >>> result.interval[0] < 1.9 < result.interval[1], result.verdict
    (True, 'usable')
    """
    old = take_old_keywords(hyper, stacklevel=3)
    values = checks.one_of("value_function", old[""].get("value_function", value_function), VALUE_FUNCTIONS)
    if "behavior" in hyper:
        if behaviour is not None:
            raise InputError("behaviour and behavior are the same argument: give it once.")
        behaviour = hyper.pop("behavior")
    if gamma is None:
        raise InputError("gamma is missing: give the discount factor, for example gamma=0.99, or gamma=1 for none.")
    machine = record_of(Machine, "machine", machine, old["machine"])
    inference = record_of(Inference, "inference", inference, old["inference"])
    settings = Settings(
        **vars(record_of(LogFormat, "log_format", log_format, old["log_format"])),
        **vars(inference),
        **(vars(machine) | {"threads": n_threads(machine.threads)}),
        gamma=checks.fraction("gamma", gamma),
        algorithm=known_method(algorithm, inference.lam),
        hyper=hyper,
        features=features,
        value_function=STATE if values == AUTO else values,
        chooses_values=values == AUTO,
        behaviour=behaviour,
        level=level_of(level),
        seed=checks.seed_number(seed),
    )
    refuse_unknown(settings)
    refuse_without_ratios(settings)
    refuse_without_influences(settings)
    refuse_beside_clusters(settings)
    if settings.n_updates is not None and settings.computed:
        raise InputError(f"{settings.method} makes no updates, got n_updates={settings.n_updates}: leave it out.")
    named = several(target)
    targets = {"target": spelled(target)} if named is None else named
    if not targets:
        raise InputError("target must name at least one policy to evaluate, got an empty dictionary.")
    asks_for_parts = machine.scheduler is not None or machine.checkpoint is not None
    table = large_table(log, True if asks_for_parts and machine.in_parts is None else machine.in_parts)
    with progress_bar("evaluating", what=True, progress=progress) as report:
        if table is not None and is_network(features):
            raise InputError("features='network' needs the log in memory: give in_parts=False, or other features.")
        if table is not None:
            with open_executor(settings.threads, machine.scheduler) as executor:
                made = evaluate_folder(table, targets, settings, executor, report)
            if not asks_for_parts:
                made = _again_in_memory(made, log, targets, settings, report)
        else:
            made = _evaluate_memory(log, targets, settings, report)
    return made["target"] if named is None else made


def _again_in_memory(
    made: Evaluations, log: Any, targets: dict[str, Any], settings: Settings, report: StageProgress | None
) -> Evaluations:
    """Evaluations in parts, replaced by those in memory that add the past or have the value of action values."""
    cured = {name for name, one in made.items() if _may_be_cured(one, settings)}
    alone = len(targets) == 1
    chosen = {name for name, one in made.items() if alone and worth_reading(one, targets[name], settings)}
    if not cured | chosen:
        return made
    again = _evaluate_memory(log, {name: targets[name] for name in made if name in cured | chosen}, settings, report)
    kept = {name: one for name, one in again.items() if name in cured or one.diagnostics.state_value is not None}
    return Evaluations({**made, **kept})


def _may_be_cured(made: Evaluation, settings: Settings) -> bool:
    """Whether to repeat an evaluation in parts in memory, where features of the past are tested."""
    tried = remedies(settings, made.diagnostics, not is_auto(settings.features))
    return made.verdict == "not usable" and any(True for _ in tried)


def _evaluate_memory(
    log: Any, targets: dict[str, Any], settings: Settings, report: StageProgress | None
) -> Evaluations:
    policies = {f"target {name}": policy for name, policy in targets.items()} | {"behaviour": settings.behaviour}
    read, policies = read_beside(log, policies, progress=stage(report, "reading"), **settings.reading)
    settings = replace(settings, behaviour=policies["behaviour"])
    targets = {name: policies[f"target {name}"] for name in targets}
    read, held, settings, said = ask_log(log, read, settings)
    plans = plan_targets(read, targets, settings, held)
    plans = {name: (plan, replace(found, notes=(*found.notes, *said))) for name, (plan, found) in plans.items()}
    del read, held  # and with it the observations, unless the caller holds them
    if len(plans) > 1:
        return evaluate_targets(plans, settings, report)
    return Evaluations({name: evaluate_target(*plan, name, settings, report) for name, plan in plans.items()})
