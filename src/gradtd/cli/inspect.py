"""``gradtd inspect``: how gradtd interprets a log, with its first rows, before anything is computed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradtd.cli.messages import typed
from gradtd.cli.options import JSON, LOG, log_format, with_options
from gradtd.core.checks import printable

if TYPE_CHECKING:
    from gradtd.logs import Log
    from gradtd.output.tables import Table


@with_options(reading=log_format)
def inspect(
    log: Annotated[str, typer.Argument(help="The log, as gradtd evaluate takes it.", metavar="LOG")],
    *,
    reading: Any,
    rows: Annotated[int, typer.Option(help="First steps to show.", rich_help_panel=LOG)] = 5,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Show how gradtd interprets a log: columns, episodes, ends, actions, and its first rows."""
    from gradtd.logs import read_log

    read = read_log(log, **vars(reading))
    if as_json:
        print(json.dumps({"log": read.name, "understood": read.understood.to_dict()}, indent=2, default=str))
        return
    print(f"{printable(read.name)}: {len(read)} steps. ? marks a guess.")
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
