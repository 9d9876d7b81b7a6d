"""``gradtd evaluate``: a log in, a value with an interval and a verdict out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gradtd.cli.evaluation_output import check_outputs, show
from gradtd.cli.inspect import (
    ACTIONS,
    COLUMN,
    DROP_DUPLICATES,
    LOG,
    LOG_PROBABILITIES,
    MISSING,
    OBSERVATION,
    ONE_STEP,
    TIME_LIMIT,
    listed_actions,
    named_columns,
)
from gradtd.cli.options import NUMBER, SCHEDULER, SUMS, hyper_parameters, number, setting
from gradtd.core.checks import InputError

POLICIES, FEATURES, METHOD, INTERVAL, OUTPUT = "Policies", "Features", "Method", "Interval", "Output"
"""Panels of the help."""


def evaluate(
    log: Annotated[
        str,
        typer.Argument(
            help="A log: a Parquet or CSV file, a folder or pattern of Parquet files, or the id of a Minari dataset."
        ),
    ],
    gamma: Annotated[
        float,
        typer.Option(
            help="Discount factor, 0 to 1: a reward k steps ahead counts gamma^k. For example 0.99 or 99/100.",
            parser=number,
            metavar=NUMBER,
        ),
    ],
    column: Annotated[list[str] | None, COLUMN] = None,
    observation: Annotated[str | None, OBSERVATION] = None,
    block: Annotated[
        int | None,
        typer.Option(
            help="Count every so many steps as one independent episode. For a log of one long episode.",
            rich_help_panel=LOG,
        ),
    ] = None,
    one_step: Annotated[bool, ONE_STEP] = False,
    actions: Annotated[str | None, ACTIONS] = None,
    time_limit: Annotated[int | None, TIME_LIMIT] = None,
    missing: Annotated[str, MISSING] = "refuse",
    log_probabilities: Annotated[bool, LOG_PROBABILITIES] = False,
    drop_duplicates: Annotated[bool, DROP_DUPLICATES] = False,
    target: Annotated[
        list[str] | None,
        typer.Option(
            help="The policy to evaluate: a column with its probabilities of the actions taken; columns with those of "
            "every action, pi_0,pi_1; uniform; FILE.py:FUNCTION, a function of observations that returns probabilities "
            "(n, actions) or one action each; or behaviour for the policy that made the log. By default the log's "
            "column target or rho. As NAME=TARGET it has a name. May be given several times.",
            rich_help_panel=POLICIES,
        ),
    ] = None,
    target_probabilities: Annotated[
        list[str] | None,
        typer.Option(
            help="A target by its columns of probabilities of every action, with commas between them, in the order of "
            "the actions: pi_0,pi_1 or NAME=pi_0,pi_1. May be given several times.",
            rich_help_panel=POLICIES,
        ),
    ] = None,
    next_target_probabilities: Annotated[
        list[str] | None,
        typer.Option(
            help="The same columns for the next observation. Action values need them where that is no row of the log.",
            rich_help_panel=POLICIES,
        ),
    ] = None,
    behaviour: Annotated[
        str | None,
        typer.Option(
            help="The policy that made the log: a column with its probabilities of the actions taken, or the word "
            "estimate to fit them. By default the log's column behaviour.",
            rich_help_panel=POLICIES,
        ),
    ] = None,
    clip: Annotated[
        float | None,
        typer.Option(
            help="Cut ratios of probabilities at this number: less variance, and a bias.",
            parser=number,
            metavar=NUMBER,
            rich_help_panel=POLICIES,
        ),
    ] = None,
    values: Annotated[
        str,
        typer.Option(
            help="state: values of observations, with ratios. action: values of observations and actions, which need "
            "no probabilities of the behaviour.",
            rich_help_panel=FEATURES,
        ),
    ] = "state",
    action_features: Annotated[
        str | None,
        typer.Option(
            help="With values of actions: the map of actions whose features are multiplied with those of the "
            "observations, as in polynomial:order=2. By default one feature for each discrete action.",
            rich_help_panel=FEATURES,
        ),
    ] = None,
    samples: Annotated[
        int,
        typer.Option(
            help="With values of real actions: samples of a random target's action for its expectation.",
            rich_help_panel=FEATURES,
        ),
    ] = 20,
    features: Annotated[
        str | None,
        typer.Option(
            help="What the value is linear in: identity, polynomial, fourier, rbf, tiles, aggregation or one-hot, with "
            "settings as in fourier:order=3. By default auto: what suits the observations and the log's size.",
            rich_help_panel=FEATURES,
        ),
    ] = None,
    no_whiten: Annotated[
        bool,
        typer.Option(
            "--no-whiten",
            help="Learn on the features as they are, where by default they are made uncorrelated first.",
            rich_help_panel=FEATURES,
        ),
    ] = False,
    algorithm: Annotated[
        str,
        typer.Option(
            help="The method. auto solves the log's equations directly. Or any algorithm that gradtd list names, or "
            "is, wis, pdis, wpdis, dr, wdr, monte_carlo.",
            rich_help_panel=METHOD,
        ),
    ] = "auto",
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A hyper-parameter of the algorithm: --set alpha=1/16. May be given several times.",
            rich_help_panel=METHOD,
        ),
    ] = None,
    lam: Annotated[
        float,
        typer.Option(
            help="Decay of eligibility traces, 0 (none) to 1: --lam 0.8. The value, its interval and its checks are "
            "then those of the equations with traces.",
            parser=number,
            metavar=NUMBER,
            rich_help_panel=METHOD,
        ),
    ] = 0.0,
    trace: Annotated[
        str,
        typer.Option(
            help="The ratio in a trace: rho, clipped (at 1), or tree (the target's probability of the action taken).",
            rich_help_panel=METHOD,
        ),
    ] = "rho",
    updates: Annotated[
        int | None,
        typer.Option(
            help="Updates that the algorithm makes. By default it goes on until the value stands still.",
            rich_help_panel=METHOD,
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(help="Seed of all that is drawn: the same seed gives the same numbers.", rich_help_panel=METHOD),
    ] = 0,
    threads: Annotated[
        int | None,
        typer.Option(help="Threads to compute on. By default one for each core.", rich_help_panel=METHOD),
    ] = None,
    in_parts: Annotated[
        bool | None,
        typer.Option(
            "--in-parts/--in-memory",
            show_default=False,
            help="Read a Parquet log part by part, in little memory, or all of it at once. In parts by default where "
            "it holds more than 2e8 numbers.",
            rich_help_panel=METHOD,
        ),
    ] = None,
    sums: Annotated[Path | None, SUMS] = None,
    scheduler: Annotated[str | None, SCHEDULER] = None,
    level: Annotated[
        float,
        typer.Option(
            help="How often the interval should contain the value: 0.95 or 19/20.",
            parser=number,
            metavar=NUMBER,
            rich_help_panel=INTERVAL,
        ),
    ] = 0.95,
    resamples: Annotated[
        int | None,
        typer.Option(
            help="Resamples of the episodes that an algorithm is refitted on for the interval. Without, the interval "
            "is that of the checks. With 0 it is that of the sandwich error of least squares.",
            rich_help_panel=INTERVAL,
        ),
    ] = None,
    own_refits: Annotated[
        bool,
        typer.Option(
            "--own-refits",
            help="Take the interval of an algorithm from refits of its own, not from the direct solution.",
            rich_help_panel=INTERVAL,
        ),
    ] = False,
    percentile: Annotated[
        bool,
        typer.Option(
            "--percentile",
            help="Take the interval from percentiles of the refits, not from their standard deviation.",
            rich_help_panel=INTERVAL,
        ),
    ] = False,
    anytime: Annotated[
        bool,
        typer.Option(
            "--anytime",
            help="Add an interval that holds at every look at a log that grows.",
            rich_help_panel=INTERVAL,
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of text.", rich_help_panel=OUTPUT)
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", help="Print the table of rungs and checkers, too.", rich_help_panel=OUTPUT),
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option(
            help="Write one HTML page with everything to this file, pictures included.", rich_help_panel=OUTPUT
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Draw the intervals of all methods, or the paired differences of several targets, to this picture "
            "file (.png, .svg, .pdf).",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(help="Keep the evaluation in this .npz file, for gradtd.load_evaluation.", rich_help_panel=OUTPUT),
    ] = None,
) -> None:
    """Estimate what a policy is worth from a log of another one: value, interval, diagnostics, verdict."""
    from gradtd.cli.targets import targets
    from gradtd.evaluation import evaluate as evaluate_log
    from gradtd.evaluation.settings import known_method

    given = targets(target or [], target_probabilities or [], next_target_probabilities or [])
    check_outputs(page, plot, save, several=len(given) > 1)
    known_method(algorithm, dict(map(setting, set_ or [])))
    hyper = hyper_parameters(algorithm, set_ or [])
    for name in hyper.keys() & {"lam", "trace"}:
        raise InputError(f"--set {name}={hyper[name]}: an evaluation has its own option for it, --{name}.")
    chosen: Any = given if len(given) > 1 else next(iter(given.values()), None)
    found = evaluate_log(
        log,
        gamma=gamma,
        target=chosen,
        behaviour=behaviour,
        features=features,
        algorithm=algorithm,
        lam=lam,
        trace=trace,
        columns=named_columns(column, observation),
        level=level,
        resamples=resamples,
        interval="percentile" if percentile else "student",
        own_refits=True if own_refits else None,
        updates=updates,
        block=block,
        whiten=not no_whiten,
        clip=clip,
        log_probabilities="convert" if log_probabilities else "refuse",
        duplicates="drop" if drop_duplicates else "refuse",
        one_step=True if one_step else None,
        actions=listed_actions(actions),
        time_limit=time_limit,
        missing=missing,
        values=values,
        action_features=action_features,
        samples=samples,
        seed=seed,
        threads=threads,
        in_parts=in_parts,
        sums=sums,
        anytime=anytime,
        scheduler=scheduler,
        **hyper,
    )
    show(found, (page, plot, save), as_json, verbose)
