"""``gradtd inspect``: what was understood of a log, with its first rows as read, before anything is computed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradtd.cli.messages import typed
from gradtd.cli.options import JSON
from gradtd.core.checks import InputError, printable

if TYPE_CHECKING:
    from gradtd.evaluation.options import LogFormat
    from gradtd.logs import Log
    from gradtd.output.tables import Table

LOG = "Log format"
"""The panel of options that say how a log is read."""
COLUMN: Any = typer.Option(
    help="Says which column is which, where names are not recognised, as ours=theirs: --column reward=r. "
    "With none for a column that is not to be used: --column t=none. May be given several times.",
    rich_help_panel=LOG,
)
OBSERVATION: Any = typer.Option(
    help="The columns of the observation, with commas between them: x,v.", rich_help_panel=LOG
)
ONE_STEP: Any = typer.Option(
    "--one-step",
    help="Every row is an episode of one step, as in the log of a bandit. Found out where nothing tells which rows "
    "belong together.",
    rich_help_panel=LOG,
)
LOG_PROBABILITIES: Any = typer.Option(
    "--log-probabilities",
    help="Columns of probabilities hold their logarithms: take exp of them.",
    rich_help_panel=LOG,
)
DROP_DUPLICATES: Any = typer.Option(
    "--drop-duplicates", help="Drop rows that repeat another one of the log.", rich_help_panel=LOG
)
ACTIONS: Any = typer.Option(
    help="All actions in the order that probabilities have, with commas between them: none,low,high.",
    rich_help_panel=LOG,
)
TIME_LIMIT: Any = typer.Option(
    help="Steps after which the game cuts an episode off: an end at that step counts as truncated.",
    rich_help_panel=LOG,
)
MISSING: Any = typer.Option(
    help="Missing values: refuse them, drop the rows, or mark them in a column of their own (indicator).",
    metavar="WORD",
    rich_help_panel=LOG,
)


def named_columns(column: list[str] | None, observation: str | None) -> dict[str, Any] | None:
    """The columns as they were typed."""
    found: dict[str, Any] = {}
    for text in column or []:
        ours, sign, theirs = text.partition("=")
        if not (ours and sign and theirs):
            raise InputError(f"--column takes ours=theirs, for example reward=r; got {text!r}.")
        found[ours] = None if theirs.lower() == "none" else theirs
    if observation:
        found["observation"] = [name.strip() for name in observation.split(",")]
    return found or None


def listed_actions(text: str | None) -> list[Any] | None:
    """Actions as they were typed; numbers where all of them are."""
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    return [int(word) for word in words] if all(word.lstrip("-").isdigit() for word in words) else words


def log_format(
    *,
    columns: dict[str, Any] | None,
    one_step: bool,
    actions: str | None,
    time_limit: int | None,
    missing: str,
    log_probabilities: bool,
    drop_duplicates: bool,
) -> LogFormat:
    """How the log is to be read, from the options as they were typed."""
    from gradtd.evaluation.options import LogFormat

    return LogFormat(
        columns=columns,
        one_step=True if one_step else None,
        actions=listed_actions(actions),
        time_limit=time_limit,
        missing=missing,
        log_probabilities="convert" if log_probabilities else "refuse",
        duplicates="drop" if drop_duplicates else "refuse",
    )


def inspect(
    log: Annotated[str, typer.Argument(help="The log, as gradtd evaluate takes it.", metavar="LOG")],
    column: Annotated[list[str] | None, COLUMN] = None,
    observation: Annotated[str | None, OBSERVATION] = None,
    one_step: Annotated[bool, ONE_STEP] = False,
    actions: Annotated[str | None, ACTIONS] = None,
    time_limit: Annotated[int | None, TIME_LIMIT] = None,
    missing: Annotated[str, MISSING] = "refuse",
    log_probabilities: Annotated[bool, LOG_PROBABILITIES] = False,
    drop_duplicates: Annotated[bool, DROP_DUPLICATES] = False,
    rows: Annotated[int, typer.Option(help="First steps to show.", rich_help_panel=LOG)] = 5,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Show what is understood of a log: columns, episodes, ends, actions, and its first rows."""
    from gradtd.logs import read_log

    how = log_format(
        columns=named_columns(column, observation),
        one_step=one_step,
        actions=actions,
        time_limit=time_limit,
        missing=missing,
        log_probabilities=log_probabilities,
        drop_duplicates=drop_duplicates,
    )
    read = read_log(log, **vars(how))
    if as_json:
        print(json.dumps({"log": read.name, "understood": read.understood.to_dict()}, indent=2, default=str))
        return
    print(f"{printable(read.name)}: {len(read)} steps. ? marks what was guessed.")
    for line in read.understood.lines():
        print("  " + typed(printable(line)))
    print()
    print(first_steps(read, max(rows, 0)).text())


def first_steps(log: Log, count: int) -> Table:
    """The first steps, one row each."""
    from gradtd.output.tables import Table

    count = min(count, len(log))
    seen = log.observations[log.row[:count]]
    names = list(log.observation_names) if seen.ndim == 2 else ["observation"]
    columns: dict[str, list[str]] = {"episode": [str(one) for one in log.episode[:count]]}
    for k, name in enumerate(names[:8]):
        columns[name] = [f"{one:.6g}" for one in (seen[:, k] if seen.ndim == 2 else seen)]
    if log.action is not None:
        labels = log.action_labels
        columns["action"] = [str(labels[one] if labels else one) for one in log.action[:count].tolist()]
    columns["reward"] = [f"{one:.6g}" for one in log.reward[:count]]
    for name in ("behaviour", "target", "rho"):
        if (values := getattr(log, name)) is not None:
            columns[name] = [f"{one:.6g}" for one in values[:count]]
    ends = zip(log.terminated[:count], log.truncated[:count], strict=True)
    columns["end"] = ["terminated" if over else "truncated" if cut else "" for over, cut in ends]
    return Table("The first steps as they were read:", list(columns), list(zip(*columns.values(), strict=True)))
