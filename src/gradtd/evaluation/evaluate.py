"""`evaluate`: a log in, a value with an interval and a verdict out."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

from gradtd.algorithms import ALGORITHMS
from gradtd.compiled.traces import KINDS, Tracing
from gradtd.core import checks
from gradtd.core.algorithm import Algorithm
from gradtd.core.checks import InputError
from gradtd.core.executors import n_threads, open_executor
from gradtd.core.progress import StageProgress, progress_bar, stage
from gradtd.evaluation.folder import evaluate_folder, large_table
from gradtd.evaluation.memory import evaluate_target, evaluate_targets, plan_targets
from gradtd.evaluation.plan import is_network
from gradtd.evaluation.report.comparison import Evaluations
from gradtd.evaluation.report.result import Evaluation
from gradtd.evaluation.settings import (
    ACTION,
    STATE,
    Settings,
    known_method,
    level_of,
    refuse_few_percentiles,
    refuse_without_influences,
    refuse_without_ratios,
)
from gradtd.logs import Log, read_log
from gradtd.logs.policies import GivenPolicy
from gradtd.logs.row_policies import from_table, kept_columns
from gradtd.running.settings import parameters

MOST_RESAMPLES = 10_000
SAMPLES = 20
"""Samples of a target's real action for its expectation."""


@overload
def evaluate(
    log: Any,
    *,
    gamma: float,
    target: GivenPolicy | None = ...,
    features: Any = ...,
    algorithm: Algorithm | str = ...,
    lam: float = ...,
    trace: str = ...,
    behaviour: GivenPolicy | None = ...,
    clip: float | None = ...,
    level: float = ...,
    resamples: int | None = ...,
    interval: str = ...,
    own_refits: bool | None = ...,
    updates: int | None = ...,
    block: int | None = ...,
    whiten: bool = ...,
    columns: Mapping[str, Any] | None = ...,
    log_probabilities: str = ...,
    duplicates: str = ...,
    one_step: bool | None = ...,
    actions: Sequence[Any] | None = ...,
    time_limit: int | None = ...,
    missing: str = ...,
    values: str = ...,
    action_features: Any = ...,
    samples: int = ...,
    seed: int = ...,
    threads: int | None = ...,
    in_parts: bool | None = ...,
    sums: str | Path | None = ...,
    anytime: bool = ...,
    scheduler: str | None = ...,
    progress: StageProgress | bool | None = ...,
    **hyper: Any,
) -> Evaluation: ...


@overload
def evaluate(
    log: Any,
    *,
    gamma: float,
    target: Mapping[str, GivenPolicy],
    features: Any = ...,
    algorithm: Algorithm | str = ...,
    lam: float = ...,
    trace: str = ...,
    behaviour: GivenPolicy | None = ...,
    clip: float | None = ...,
    level: float = ...,
    resamples: int | None = ...,
    interval: str = ...,
    own_refits: bool | None = ...,
    updates: int | None = ...,
    block: int | None = ...,
    whiten: bool = ...,
    columns: Mapping[str, Any] | None = ...,
    log_probabilities: str = ...,
    duplicates: str = ...,
    one_step: bool | None = ...,
    actions: Sequence[Any] | None = ...,
    time_limit: int | None = ...,
    missing: str = ...,
    values: str = ...,
    action_features: Any = ...,
    samples: int = ...,
    seed: int = ...,
    threads: int | None = ...,
    in_parts: bool | None = ...,
    sums: str | Path | None = ...,
    anytime: bool = ...,
    scheduler: str | None = ...,
    progress: StageProgress | bool | None = ...,
    **hyper: Any,
) -> Evaluations: ...


def evaluate(
    log: Any,
    *,
    gamma: float,
    target: GivenPolicy | Mapping[str, GivenPolicy] | None = None,
    features: Any = None,
    algorithm: Algorithm | str = "auto",
    lam: float = 0.0,
    trace: str = "rho",
    behaviour: GivenPolicy | None = None,
    clip: float | None = None,
    level: float = 0.95,
    resamples: int | None = None,
    interval: str = "student",
    own_refits: bool | None = None,
    updates: int | None = None,
    block: int | None = None,
    whiten: bool = True,
    columns: Mapping[str, Any] | None = None,
    log_probabilities: str = "refuse",
    duplicates: str = "refuse",
    one_step: bool | None = None,
    actions: Sequence[Any] | None = None,
    time_limit: int | None = None,
    missing: str = "refuse",
    values: str = "state",
    action_features: Any = None,
    samples: int = SAMPLES,
    seed: int = 0,
    threads: int | None = None,
    in_parts: bool | None = None,
    sums: str | Path | None = None,
    anytime: bool = False,
    scheduler: str | None = None,
    progress: StageProgress | bool | None = None,
    **hyper: Any,
) -> Evaluation | Evaluations:
    """What is a policy worth, from a log of another one?

    Returns an `Evaluation`: a value, an interval, and a verdict. Where ``target`` is a dictionary of policies, returns
    `Evaluations`, a dictionary with one for each of them that can also ``compare`` them.

    Parameters
    ----------
    log
        A file, a frame, a dictionary of arrays, a Minari dataset, a `Log`: whatever `gradtd.read_log` reads.
    gamma
        The discount factor, 0 to 1.
    target
        The policy to evaluate: a function of observations that gives probabilities (n, actions) or one action each, a
        table [states, actions], an array as long as the log of the probabilities of the actions taken, or (n, actions)
        of every action, the name or the names of columns of them, "uniform", "behaviour" for the log's own policy. By
        default the log's target or ratio column. A dictionary of such targets is evaluated in one go.
    features
        "auto", the default: one feature per state where observations are discrete, else the poorest of a ladder of
        cosines of the observations that richer ones agree with. Or a name such as "fourier" or "tiles:tilings=4", a
        feature map, a scikit-learn transformer or a function: then richer features only check it. Or "network": a
        network learns them on one half of the episodes for the other (extra ``deep``, ``docs/deep.md``).
    algorithm
        "auto", the default, solves the log's equations directly: the solution that Impression GTD, Expected GTD and
        LSTD share. Or any rule of the library, which is fitted until its value stands still and compared with that
        solution. Or an estimator by importance sampling: is, wis, pdis, wpdis, dr, wdr, monte_carlo.
    lam
        Decay of eligibility traces, from 0 (none) to 1. Above 0 the value is that of the equations with traces, and so
        are its interval and its checks; least squares without traces is shown beside it.
    trace
        The ratio in a trace: "rho", "clipped" (at 1), or "tree" (the target's probability of the action taken). With
        values of actions "tree" needs no probabilities of the behaviour.
    behaviour
        The policy that made the log, where the log does not say or is wrong, in the forms of ``target``; "estimate"
        fits one to the log.
    clip
        The largest ratio allowed: less variance, and a bias.
    level
        The level of the interval.
    resamples
        Resamples of whole episodes, 100 by default. The direct solution takes its interval from the checks, and needs
        them for the rows beside it only. A rule, or lstd, is refitted on every one of them where they are given; 0
        takes the sandwich error of least squares instead.
    interval
        "student": value -+ t times the deviation of the refits. "percentile": their quantiles, of 200 refits or more.
    own_refits
        Whether a rule takes its interval from refits of its own. By default only where resamples are given.
    updates
        Updates of the fit, where it is not to go on until the value stands still.
    block
        Steps that count as one independent piece, for logs of one long episode.
    whiten
        Whether to learn on whitened features (C = I). The values that can be represented stay the same, and step-sizes
        become comparable.
    columns, log_probabilities, duplicates, one_step, actions, time_limit, missing
        Handed to `gradtd.read_log`.
    values
        "state", the default: values of observations, with ratios. "action": values of observations and actions, which
        need no probabilities of the behaviour. See ``docs/action-values.md`` for which to take.
    action_features
        With values of actions: the map of actions whose features are multiplied with those of the observations. By
        default one feature for each discrete action, polynomials of order 2 of real ones. Or a function of observations
        and actions that returns all features.
    samples
        Samples of the target's action that its expectation is the mean of, where actions are real and it is random.
    seed
        Seed of the resamples, of the batches and of those samples.
    threads
        ThreadExecutor to refit on; by default one for each core.
    in_parts
        Whether a Parquet log is read part by part, in a memory that does not depend on its length. By default where it
        holds more than 2e8 numbers. The interval then comes from groups of episodes.
    sums
        A folder that keeps what was fitted and the sums of every part of a Parquet log that is read in parts. Started
        again it goes on where it was killed. Where files were added to the log, only those are read, with the features
        that were fitted at first. See ``docs/large-logs.md``.
    anytime
        Whether to add an interval that holds at every look at a log that grows, ``result.anytime``. See
        ``docs/assumptions.md``.
    scheduler
        The address of a Dask scheduler whose workers read the parts, or ``"local:2"`` for two processes.
    progress
        By default a bar shows where somebody watches, once it has taken a second; False turns it off. Or a function
        ``progress(what, done, total)`` that hears how far it is.
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
    behaviour = _spelled_arguments(hyper, algorithm, behaviour)
    if own_refits is not None and not isinstance(own_refits, bool):
        raise InputError(f"own_refits must be True or False, got {own_refits!r}.")
    settings = Settings(
        gamma=checks.fraction("gamma", gamma),
        algorithm=known_method(algorithm, hyper, checks.fraction("lam", lam)),
        hyper=hyper,
        features=features,
        values=checks.one_of("values", values, (STATE, ACTION)),
        action_features=action_features,
        samples=checks.whole_number("samples", samples, 1),
        tracing=Tracing(float(lam), checks.one_of("trace", trace, KINDS)) if lam > 0 else None,
        behaviour=behaviour,
        clip=clip,
        level=level_of(level),
        resamples=None if resamples is None else checks.whole_number("resamples", resamples, 0, MOST_RESAMPLES),
        interval=checks.one_of("interval", interval, ("student", "percentile")),
        own_refits=own_refits,
        updates=None if updates is None else checks.whole_number("updates", updates, 1),
        block=None if block is None else checks.whole_number("block", block, 1),
        whiten=whiten,
        columns=columns,
        log_probabilities=log_probabilities,
        duplicates=duplicates,
        one_step=one_step,
        actions=actions,
        time_limit=time_limit,
        missing=missing,
        sums=None if sums is None else Path(sums),
        anytime=checks.yes_or_no("anytime", anytime),
        seed=checks.whole_number("seed", seed, 0),
        threads=n_threads(threads),
    )
    refuse_few_percentiles(settings)
    refuse_without_ratios(settings)
    refuse_without_influences(settings)
    if updates is not None and settings.computed:
        raise InputError(f"{settings.method} makes no updates, got updates={updates}: leave it out.")
    targets = dict(target) if isinstance(target, Mapping) else {"target": target}
    if not targets:
        raise InputError("target must name at least one policy to evaluate, got an empty dictionary.")
    if scheduler is not None and in_parts is False:
        raise InputError("a scheduler is for logs that are read in parts: leave out in_parts=False, or the scheduler.")
    if sums is not None and in_parts is False:
        raise InputError("sums are kept for a log that is read in parts: leave sums or in_parts=False out.")
    asks_for_parts = scheduler is not None or sums is not None
    table = large_table(log, True if asks_for_parts and in_parts is None else in_parts)
    with progress_bar("evaluating", what=True, progress=progress) as report:
        if table is not None and is_network(features):
            raise InputError("features='network' needs the log in memory: give in_parts=False, or other features.")
        if table is not None:
            with open_executor(settings.threads, scheduler) as executor:
                made = evaluate_folder(table, targets, settings, executor, report)
        else:
            made = _evaluate_memory(log, targets, settings, report)
    return made if isinstance(target, Mapping) else made["target"]


def _spelled_arguments(hyper: dict[str, Any], algorithm: Any, behaviour: Any) -> Any:
    """The behaviour, in either spelling; arguments that are misspelled do not pass for hyper-parameters."""
    if "behavior" in hyper:
        if behaviour is not None:
            raise InputError("behaviour and behavior are one argument: give it once.")
        behaviour = hyper.pop("behavior")
    rule = ALGORITHMS.get(algorithm) if isinstance(algorithm, str) else algorithm
    own = parameters(rule) if isinstance(rule, Algorithm) else ()
    names = [name for name in inspect.signature(evaluate).parameters if name != "hyper"]
    misspelled = [name for name in hyper if name not in own and not checks.meant_argument(name, own)]
    checks.refuse_arguments("evaluate", [name for name in misspelled if checks.meant_argument(name, names)], names)
    return behaviour


def _evaluate_memory(
    log: Any, targets: dict[str, Any], settings: Settings, report: StageProgress | None
) -> Evaluations:
    keep = kept_columns(*targets.values(), settings.behaviour)
    read = read_log(log, keep=keep, progress=stage(report, "reading"), **settings.reading)
    if not isinstance(log, Log):  # what was given by row of the table is brought into the order of the log's steps
        targets = {name: from_table(read, policy) for name, policy in targets.items()}
        settings = replace(settings, behaviour=from_table(read, settings.behaviour))
    plans = plan_targets(read, targets, settings)
    del read  # and with it observations that no check needs, unless they are the caller's
    if len(plans) > 1:
        return evaluate_targets(plans, settings, report)
    return Evaluations({name: evaluate_target(*plan, name, settings, report) for name, plan in plans.items()})
