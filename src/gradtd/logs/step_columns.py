"""Further columns of a log's table, aligned with its steps, and logs of a subset of episodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.core.stream import episode_numbers
from gradtd.logs.column_names import Roles, listed
from gradtd.logs.columns import Column, gather
from gradtd.logs.log import Log
from gradtd.logs.row_policies import steps_in_table
from gradtd.logs.sources import open_table


def column_of_rows(source: Any, log: Log, name: str, option: str) -> tuple[NDArray[Any], Integers]:
    """The labels or numbers of a column, by row of the table, and the row of every observation of the log (or -1)."""
    if isinstance(source, Log):
        if name not in log.extra:
            raise InputError(
                f"{option}={name!r} is not a kept column of the log: read it with read_log(keep={name!r})."
            )
        beyond = log.extra_beyond.get(name, np.full(len(log.observations) - len(log), np.nan))
        values = np.r_[log.extra[name], beyond]
        return values, np.where(np.isnan(values), -1, np.arange(len(values)))
    table = open_table(source)
    refuse_unknown_column(name, table.kinds, option)
    column = gather(table, Roles(keep=(name,)))[0][f"keep.{name}"]
    rows = steps_in_table(log) if log.given is None else np.asarray(log.given)
    if log.given is None and len(log.observations) > len(log):
        rows = np.r_[rows, np.full(len(log.observations) - len(log), -1)]
    return labels_of(column), rows


def refuse_unknown_column(name: str, kinds: Mapping[str, str], option: str) -> None:
    if name not in kinds:
        raise InputError(f"{option}={name!r} is no column of the log; the columns are {listed(kinds)}.")


def labels_of(column: Column) -> NDArray[Any]:
    """A column's values; text stays text."""
    column.refuse_missing()
    if column.labels is None:
        return column.values
    return np.array(column.labels, object)[column.values.astype(np.int64)]


def elapsed_times(log: Log, values: NDArray[Any], rows: Integers, name: str) -> tuple[Floats, int]:
    """The time from every step to the next, and the number of truncated steps for which it is not known.

    Unknown times are set to the median of the others. Steps that terminate an episode get 0.
    """
    if values.dtype.kind not in "iuf":
        raise InputError(
            f"time_column={name!r} must hold numbers in the unit of time that gamma is for, such as hours since the "
            "start: convert it."
        )
    time = np.where(rows >= 0, np.asarray(values, np.float64)[rows], np.nan)
    apart = time[log.next_row] - time[log.row]
    inside = np.zeros(len(log), bool)
    inside[:-1] = log.episode[1:] == log.episode[:-1]
    apart[inside] = time[log.row][1:][inside[:-1]] - time[log.row][:-1][inside[:-1]]
    apart[log.terminated] = 0.0
    if (apart < 0).any():
        at = int(np.flatnonzero(apart < 0)[0])
        raise InputError(
            f"time_column={name!r} goes back from {time[log.row[at]]:g} within an episode (step {at} of the log): the "
            "time must increase from row to row. Sort the rows, or correct the column."
        )
    unknown = np.isnan(apart)
    known = apart[~unknown & ~log.terminated]
    apart[unknown] = float(np.median(known)) if len(known) else 1.0
    return apart, int(unknown.sum())


def take_episodes(log: Log, held: NDArray[np.bool_]) -> tuple[Log, Integers]:
    """The log of some of its episodes, and the numbers of their steps."""
    steps = np.flatnonzero(held[log.episode])
    n = len(log)
    beyond = np.unique(log.next_row[steps][log.next_row[steps] >= n])
    also = np.setdiff1d(log.next_row[steps][log.next_row[steps] < n], steps)
    kept = np.r_[steps, also, beyond].astype(np.int64)
    place = np.full(len(log.observations), -1)
    place[log.row[steps]] = np.arange(len(steps))
    place[kept[len(steps) :]] = np.arange(len(steps), len(kept))
    order = np.r_[log.row[steps].astype(np.int64), kept[len(steps) :]]
    given = np.arange(len(log.observations)) if log.given is None else np.asarray(log.given)

    def some(values: Any) -> Any:
        return None if values is None else np.asarray(values)[steps]

    def later(name: str) -> Floats:
        every = np.r_[log.extra[name], log.extra_beyond.get(name, np.full(len(log.observations) - n, np.nan))]
        return np.asarray(every[kept[len(steps) :]])

    names = ("reward", "terminated", "truncated", "action", "behaviour", "target", "rho", "elapsed")
    made = replace(
        log,
        observations=log.observations[order],
        row=np.arange(len(steps), dtype=np.uint32),
        next_row=place[log.next_row[steps]].astype(np.uint32),
        episode=episode_numbers(log.episode[steps]),
        extra={name: values[steps] for name, values in log.extra.items()},
        extra_beyond={name: later(name) for name in log.extra},
        given=given[order],
        chosen={name: codes[steps] for name, codes in log.chosen.items()},
        **{name: some(getattr(log, name)) for name in names},
    )
    return made, steps
