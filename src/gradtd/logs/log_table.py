"""A log as a table of its steps, for pandas and for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradtd.logs.log import Log

SHOWN_STEPS, SHOWN_OBSERVED = 5, 8
"""Number of steps and of observation columns shown in a notebook."""


def step_columns(log: Log, count: int | None = None) -> dict[str, Any]:
    """The columns of the first steps, by name: episode, observation, action, reward, probabilities, ends."""
    until = len(log) if count is None else min(count, len(log))
    seen = log.observations[log.row[:until]]
    columns: dict[str, Any] = {"episode": log.episode[:until]}
    if seen.ndim == 2:
        columns |= {name: seen[:, place] for place, name in enumerate(log.observation_names)}
    else:
        columns["observation"] = seen
    if log.action is not None:
        taken, labels = log.action[:until], log.action_labels
        columns["action"] = [labels[one] for one in taken] if labels else taken
    columns["reward"] = log.reward[:until]
    for name in ("behaviour", "target", "rho"):
        if (values := getattr(log, name)) is not None:
            columns[name] = values[:until]
    return columns | {"terminated": log.terminated[:until], "truncated": log.truncated[:until]}


def log_cell(log: Log) -> str:
    """How a log was interpreted, and its first steps, as HTML."""
    head, *understood = repr(log).splitlines()
    columns = step_columns(log, SHOWN_STEPS)
    names = list(columns)
    hidden = [name for name in log.observation_names if name in columns][SHOWN_OBSERVED:]
    names = [name for name in names if name not in hidden]
    rows = zip(*(columns[name] for name in names), strict=True)
    table = [_row("th", names), *(_row("td", [_cell(one) for one in row]) for row in rows)]
    told = "".join(f"<li>{escape(line.strip())}</li>" for line in understood)
    more = f"<p>and {len(hidden)} more columns of the observation</p>" if hidden else ""
    return f"<div><p><b>{escape(head)}</b></p><ul>{told}</ul><table>{''.join(table)}</table>{more}</div>"


def _row(kind: str, cells: list[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{escape(cell)}</{kind}>' for cell in cells)}</tr>"


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
