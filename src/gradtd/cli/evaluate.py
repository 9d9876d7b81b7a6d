"""``gradtd evaluate``: from a log to a value with an interval and a verdict."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gradtd.cli.evaluation_output import (
    AS_JSON,
    AT_LEAST,
    BETTER_THAN,
    CARD,
    PAGE,
    PLOT,
    QUESTION,
    REQUIRE,
    SAVE,
    VERBOSE,
    Gate,
    check_outputs,
    show,
)
from gradtd.cli.options import (
    BEHAVIOUR,
    CHECKPOINT,
    FLAG,
    MACHINE,
    SCHEDULER,
    THREADS,
    block_length,
    hyper_parameters,
    log_format,
    number,
    numeric,
    setting,
    with_options,
)
from gradtd.core.checks import InputError

INFERENCE, ASSUMPTIONS = "Inference", "Assumptions"
"""Panels of the help, in addition to those for the log's format, the machine and the output."""
ANYTIME: Any = typer.Option(
    "--anytime",
    metavar=FLAG,
    help="Add an interval that is valid at every look at a growing log.",
    rich_help_panel=ASSUMPTIONS,
)
CONFOUNDING: Any = numeric(
    "Add an interval for an unrecorded cause that changes the odds of every action by at most this factor, such as "
    "1.5. Also report how strong a cause would have to be to change the answer.",
    ASSUMPTIONS,
)
AGAINST: Any = typer.Option(
    help="The value at which the decision would change: a number, or behaviour for the value of the behaviour policy.",
    rich_help_panel=ASSUMPTIONS,
)
BY: Any = typer.Option(
    metavar="COLUMN",
    help="Add the value of every group of start states, grouped by this column, with simultaneous intervals.",
    rich_help_panel=ASSUMPTIONS,
)
TRAINED_ON: Any = typer.Option(
    metavar="COLUMN",
    help="A column of 0 and 1 that marks the episodes the target was learned from; gradtd evaluates it on the others.",
    rich_help_panel=ASSUMPTIONS,
)
TIME_COLUMN: Any = typer.Option(
    metavar="COLUMN",
    help="A column of times, for steps that are not evenly spaced. gamma is then per unit of time.",
    rich_help_panel=ASSUMPTIONS,
)


def inference_options(
    lam: Annotated[
        float,
        numeric(
            "Decay of eligibility traces, 0 (none) to 1: --lam 0.8. The value, its interval and its checks then "
            "use the equations with traces.",
            INFERENCE,
        ),
    ] = 0.0,
    trace: Annotated[
        str,
        typer.Option(
            help="The ratio in a trace: rho, clipped (at 1), or tree (the target's probability of the action taken).",
            rich_help_panel=INFERENCE,
        ),
    ] = "rho",
    clip: Annotated[
        float | None, numeric("Clip importance ratios at this number, which reduces variance and adds bias.", INFERENCE)
    ] = None,
    resamples: Annotated[
        int | None,
        typer.Option(
            help="Number of bootstrap samples for refits. By default the interval comes from the "
            "checks. With 0 it comes from the sandwich error of least squares.",
            rich_help_panel=INFERENCE,
        ),
    ] = None,
    own_refits: Annotated[
        bool,
        typer.Option(
            "--own-refits",
            help="Take the interval of an algorithm from its refits, not from the direct solution.",
            rich_help_panel=INFERENCE,
        ),
    ] = False,
    percentile: Annotated[
        bool,
        typer.Option(
            "--percentile",
            help="Take the interval from percentiles of the refits instead of their standard deviation.",
            rich_help_panel=INFERENCE,
        ),
    ] = False,
    anytime: Annotated[bool, ANYTIME] = False,
    confounding: Annotated[float | None, CONFOUNDING] = None,
    against: Annotated[str | None, AGAINST] = None,
    by: Annotated[str | None, BY] = None,
    trained_on: Annotated[str | None, TRAINED_ON] = None,
    time_column: Annotated[str | None, TIME_COLUMN] = None,
    history: Annotated[
        int,
        typer.Option(
            help="Use this number of past observations, with the actions between them, as the observation. For "
            "logs whose observation hides part of the state.",
            rich_help_panel=INFERENCE,
        ),
    ] = 1,
    with_time: Annotated[
        bool,
        typer.Option("--with-time", help="Add the time since the start to the observation.", rich_help_panel=INFERENCE),
    ] = False,
    since: Annotated[
        float | None,
        numeric(
            "Evaluate the later part of the log: episodes from this number on, or a share at the end, such as 0.5.",
            INFERENCE,
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Cluster the standard error by this column, for example by hospital, if episodes within a "
            "cluster depend on each other.",
            rich_help_panel=INFERENCE,
        ),
    ] = None,
    block_length: Annotated[int | None, block_length(INFERENCE)] = None,
    n_updates: Annotated[
        int | None,
        typer.Option(
            help="Number of updates of the algorithm. By default it continues until the value no longer changes.",
            rich_help_panel=INFERENCE,
        ),
    ] = None,
    no_whiten: Annotated[
        bool,
        typer.Option(
            "--no-whiten",
            help="Learn on the original features. By default they are whitened first.",
            rich_help_panel=INFERENCE,
        ),
    ] = False,
    action_features: Annotated[
        str | None,
        typer.Option(
            help="For action values: the features of actions, which are multiplied with those of the "
            "observations, as in polynomial:order=2. By default one feature for each discrete action.",
            rich_help_panel=INFERENCE,
        ),
    ] = None,
    action_samples: Annotated[
        int,
        typer.Option(
            help="Number of actions sampled per state to average over a stochastic policy with continuous actions.",
            rich_help_panel=INFERENCE,
        ),
    ] = 20,
) -> Any:
    """The options of `Inference`: how the value and its interval are computed."""
    from gradtd.evaluation.options import Inference

    return Inference(
        lam=lam,
        trace=trace,
        clip=clip,
        resamples=resamples,
        interval_method="percentile" if percentile else "student",
        own_refits=True if own_refits else None,
        anytime=anytime,
        confounding=confounding,
        against=against if against in (None, "behaviour") else number(against),
        by=by,
        trained_on=trained_on,
        time_column=time_column,
        history=history,
        with_time=with_time,
        since=since,
        cluster=cluster,
        block_length=block_length,
        n_updates=n_updates,
        whiten=not no_whiten,
        action_features=action_features,
        action_samples=action_samples,
    )


def machine_options(
    threads: Annotated[int | None, THREADS] = None,
    in_parts: Annotated[
        bool | None,
        typer.Option(
            "--in-parts/--in-memory",
            show_default=False,
            help="Read a Parquet log in parts, which needs little memory, or all at once. By default in parts if "
            "it contains more than 2e8 numbers.",
            rich_help_panel=MACHINE,
        ),
    ] = None,
    checkpoint: Annotated[Path | None, CHECKPOINT] = None,
    scheduler: Annotated[str | None, SCHEDULER] = None,
) -> Any:
    from gradtd.evaluation.options import Machine

    return Machine(threads=threads, in_parts=in_parts, checkpoint=checkpoint, scheduler=scheduler)


@with_options(reading=log_format, inference=inference_options, machine=machine_options)
def evaluate(
    log: Annotated[
        str,
        typer.Argument(
            help="A log: a Parquet, CSV, JSON, npz or HDF5 file, a folder of files, or the id of a Minari dataset."
        ),
    ],
    gamma: Annotated[
        float, numeric("Discount factor, 0 to 1: a reward k steps ahead counts gamma^k. For example 0.99 or 99/100.")
    ],
    target: Annotated[
        list[str] | None,
        typer.Option(
            help="The policy to evaluate: a column with its probabilities of the actions taken; columns with those of "
            "every action, pi_0,pi_1; uniform; FILE.py:FUNCTION, a function of observations that returns probabilities "
            "(n, actions) or one action each; FILE.npz, a policy saved by gradtd improve; or behaviour for the "
            "behaviour policy. By default the log's column target or rho. NAME=TARGET gives it a name. May be given "
            "several times.",
        ),
    ] = None,
    target_probabilities: Annotated[
        list[str] | None,
        typer.Option(
            help="A target by its columns of probabilities of every action, separated by commas, in the order of "
            "the actions: pi_0,pi_1 or NAME=pi_0,pi_1. May be given several times.",
        ),
    ] = None,
    next_target_probabilities: Annotated[
        list[str] | None,
        typer.Option(
            help="These columns for the next observation. Action values need them if that is not a row of the log.",
        ),
    ] = None,
    behaviour: Annotated[str | None, BEHAVIOUR] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="Features of the value function: identity, polynomial, fourier, rbf, tiles, aggregation or one-hot, "
            "with settings as in fourier:order=3. By default auto: chosen from the observations and the log's size.",
        ),
    ] = None,
    algorithm: Annotated[
        str,
        typer.Option(
            help="The method. auto solves the log's equations directly. Or any algorithm of gradtd list, or "
            "is, wis, pdis, wpdis, dr, wdr, monte_carlo.",
        ),
    ] = "auto",
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A hyper-parameter of the algorithm: --set alpha=1/16. May be given several times.",
        ),
    ] = None,
    value_function: Annotated[
        str,
        typer.Option(
            help="state: state values, with importance ratios. action: action values, which need "
            "no probabilities of the behaviour. auto: state values, or the value of action values where observations "
            "and actions are discrete and action values are clearly more precise.",
        ),
    ] = "auto",
    level: Annotated[float, numeric("Confidence level of the interval: 0.95 or 19/20.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Random seed: the same seed gives the same numbers.")] = 0,
    *,
    reading: Any,
    inference: Any,
    machine: Any,
    as_json: Annotated[bool, AS_JSON] = False,
    verbose: Annotated[bool, VERBOSE] = False,
    require: Annotated[str | None, REQUIRE] = None,
    at_least: Annotated[float | None, AT_LEAST] = None,
    better_than: Annotated[str | None, BETTER_THAN] = None,
    card: Annotated[Path | None, CARD] = None,
    question: Annotated[str | None, QUESTION] = None,
    page: Annotated[Path | None, PAGE] = None,
    plot: Annotated[Path | None, PLOT] = None,
    save: Annotated[Path | None, SAVE] = None,
) -> None:
    """Estimate the value of a policy from another policy's log: value, interval, diagnostics, verdict."""
    from gradtd.cli.targets import targets
    from gradtd.evaluation import evaluate as evaluate_log
    from gradtd.evaluation.report.estimate import COMPUTED
    from gradtd.evaluation.settings import known_method

    given = targets(target or [], target_probabilities or [], next_target_probabilities or [])
    conditions = Gate(require, at_least, better_than, card, question)
    given = conditions.check(given)
    sources = [log, *(one.split("=", 1)[-1] for one in target or [])]
    check_outputs(sources, (page, plot, save), card, several=len(given) > 1)
    known_method(algorithm)
    if set_ and algorithm in COMPUTED:
        raise InputError(f"{algorithm} takes no hyper-parameters here, got {', '.join(dict(map(setting, set_)))}.")
    hyper = hyper_parameters(algorithm, set_ or [])
    for name in hyper.keys() & {"lam", "trace"}:
        raise InputError(f"--set {name}={hyper[name]}: use the option --{name} for this setting.")
    chosen: Any = given if len(given) > 1 else next(iter(given.values()), None)
    found = evaluate_log(
        log,
        chosen,
        gamma,
        behaviour=behaviour,
        features=features,
        algorithm=algorithm,
        value_function=value_function,
        level=level,
        seed=seed,
        log_format=reading,
        inference=inference,
        machine=machine,
        **hyper,
    )
    show(found, (page, plot, save), as_json, verbose)
    conditions.write_card(found, log)
    conditions.end(found)


RENAMED = {
    "values": "value-function",
    "block": "block-length",
    "updates": "n-updates",
    "samples": "action-samples",
    "sums": "checkpoint",
}
"""Renamed options."""


def as_now(option: str) -> str:
    """The current name of an option, with a message if an old name was used."""
    if option in RENAMED:
        print(f"gradtd: --{option} is now --{RENAMED[option]}; the old name still works.", file=sys.stderr)
    return RENAMED.get(option, option)
