"""Reading a log: which columns, in which order, what each step leads to, and then the observations."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core import checks
from gradtd.core.arrays import Integers
from gradtd.core.checks import InputError
from gradtd.core.progress import Progress
from gradtd.core.stream import episode_numbers
from gradtd.logs import columns as narrow_columns
from gradtd.logs.column_names import Roles, bandit, resolve, take_rows_alone
from gradtd.logs.columns import Column, gather
from gradtd.logs.files import open_path
from gradtd.logs.log import Log, row_numbers
from gradtd.logs.observations import read_observations
from gradtd.logs.sanity_checks import columns_of_one_policy, ends_marked, refuse_swapped, strangers
from gradtd.logs.steps import Rows, arrange, rows_given, single_steps
from gradtd.logs.tables import ArrayTable, FrameTable, MinariTable, Table, is_dataset, is_dataset_id


def read_log(
    source: Any,
    *,
    columns: Mapping[str, Any] | None = None,
    keep: Any = (),
    log_probabilities: str = "refuse",
    duplicates: str = "refuse",
    order: str = "sort",
    one_step: bool | None = None,
    progress: Progress | None = None,
) -> Log:
    """Read the steps that a policy produced into a `Log`.

    What was done is said in the log's ``notes``. Memory: the observations, once, and some columns.

    Parameters
    ----------
    source
        A Parquet file, a folder of them or a pattern such as ``logs/*.parquet``, a CSV file, a pandas or polars frame,
        an Arrow table, a dictionary of arrays (such as d4rl's), a Minari dataset or the id of a local one. A `Log` is
        taken as it is.
    columns
        Maps our names to the table's: episode, t, observation, next_observation, action, reward, terminated, truncated,
        behaviour, target, rho. None for a column that is not to be used. Usual names are recognised without it.
    keep
        The names of further columns, for example of another policy's probabilities.
    log_probabilities
        "convert" takes exp of logarithms of probabilities, also in kept columns in which no number is above 0 and some
        are below. "refuse" refuses them where probabilities should be.
    duplicates
        "drop" drops rows that repeat another in every column read.
    order
        "refuse" refuses rows that are out of order, and leaves the episodes in the order of the table. "sort" sorts.
    one_step
        True takes every row as an episode of one step, as in the log of a bandit, and does not read what would say
        otherwise. By default that is found out: where nothing tells which rows belong together or what follows a row.
    progress
        A function ``progress(done, total)`` that hears of observations read.

    >>> log = read_log({"episode": [0, 0, 1], "obs": [3, 4, 3], "reward": [0, 1, 5], "terminated": [0, 1, 1]})
    >>> log
    Log(arrays: 3 steps, 2 episodes (2 terminated, 0 truncated), discrete observations)
    >>> log.next_row
    array([1, 1, 2], dtype=uint32)
    """
    checks.one_of("log_probabilities", log_probabilities, ("refuse", "convert"))
    if isinstance(source, Log):
        return _read_before(source, keep) if log_probabilities == "convert" else source
    checks.one_of("duplicates", duplicates, ("refuse", "drop"))
    checks.one_of("order", order, ("sort", "refuse"))
    if one_step is not None:
        checks.yes_or_no("one_step", one_step)
    table = open_table(source)
    roles = resolve(table.kinds, columns, keep)
    notes = roles.notes
    alone = one_step if one_step is not None else bandit(roles)
    if alone:
        take_rows_alone(roles, one_step is None)
    found, next_state = gather(table, roles)
    length = len(found["reward"].values)
    if length == 0:
        raise InputError(f"{table.name!r} has no rows.")
    same = (lambda a, b: narrow_columns.equal_rows(table, roles, a, b)) if duplicates == "drop" else None
    rows = single_steps(length) if alone else _rows(found, roles, next_state, notes)
    steps = arrange(rows, length, order, same, notes)
    narrow_columns.refuse_unknown_next(next_state, steps, roles)
    reward = found["reward"].numbers()  # everything narrow is checked before the observations are read
    extra = {name: narrow_columns.kept(found[f"keep.{name}"], log_probabilities, notes) for name in roles.keep}
    action, labels = narrow_columns.actions(found, roles)
    chances = narrow_columns.chances(found, roles, log_probabilities, action, notes)
    found.clear()
    observations, next_row = read_observations(table, roles, steps, length, progress, notes)
    beside = "next_observation" in roles.several  # what steps lead to is told twice, and may not be the same
    if beside:
        refuse_swapped(observations, next_row, steps, roles)
    at = steps.source if len(steps.source) < length or (np.diff(steps.source) != 1).any() else slice(None)

    def chosen(values: NDArray[Any] | None) -> Any:
        return None if values is None else np.ascontiguousarray(values[at])

    given = rows_given(steps, next_row, len(observations), length)
    return Log(
        observations=observations,
        row=row_numbers(len(steps.source)),
        next_row=next_row,
        reward=chosen(reward),
        terminated=steps.terminated,
        truncated=steps.truncated,
        episode=steps.episode,
        action=chosen(action),
        action_labels=labels,
        behaviour=chosen(chances["behaviour"]),
        target=chosen(chances["target"]),
        rho=chosen(chances["rho"]),
        extra={name: chosen(values) for name, values in extra.items()},
        observation_names=_component_names(roles, observations),
        name=table.name,
        notes=tuple(notes),
        ends_known=alone or ends_marked(roles, steps),
        strangers=strangers(observations, next_row, steps) if beside else 0.0,
        of_every_action=columns_of_one_policy(table, roles.keep),
        extra_beyond={name: _beyond(values, given, len(steps.source)) for name, values in extra.items()},
        given=given,
        n_given=length,
        rows_alone=alone and one_step is None,
    )


def _beyond(values: NDArray[Any], given: Integers | None, n_steps: int) -> NDArray[Any]:
    """A column in the rows whose observations follow those of the steps; NaN where they were no rows."""
    rows = np.zeros(0, np.int64) if given is None else given[n_steps:]
    return np.where(rows >= 0, values[rows], np.nan)


def _read_before(log: Log, keep: Any) -> Log:
    """A log that was read before, with its kept columns converted from logarithms."""
    extra, notes = narrow_columns.kept_earlier(log.extra, (keep,) if isinstance(keep, str) else keep)
    return replace(log, extra=extra, notes=(*log.notes, *notes)) if notes else log


def open_table(source: Any) -> Table:
    """The table behind whatever was given."""
    if isinstance(source, str) and is_dataset_id(source) and not Path(source).exists():
        return MinariTable(source)
    if isinstance(source, (str, os.PathLike)):
        return open_path(Path(source))
    if isinstance(source, FrameTable):
        return source
    if isinstance(source, Mapping):
        return ArrayTable(source)
    if is_dataset(source):
        return MinariTable(source)
    kind = type(source)
    library = kind.__module__.split(".")[0]
    if (library in ("pandas", "polars") and kind.__name__ in ("DataFrame", "LazyFrame")) or (
        library == "pyarrow" and kind.__name__ == "Table"
    ):
        return FrameTable(source)
    raise InputError(
        "a log is read from a path, a pandas or polars frame, an Arrow table, a dictionary of arrays or a Minari "
        f"dataset, got {type(source).__name__}."
    )


def _rows(found: dict[str, Column], roles: Roles, next_state: NDArray[np.int8] | None, notes: list[str]) -> Rows:
    single = roles.single
    flags = {role: found[role].flags() if role in single else None for role in ("terminated", "truncated")}
    if roles.done_flag:
        notes.append(
            f"column {single['terminated']!r} was taken as terminated: mark episodes that were only cut off in a "
            "column truncated."
        )
    t, counted = (None, False) if "t" not in single else found["t"].times()
    length = len(found["reward"].values)
    return Rows(
        episode=_ranks(found["episode"]) if "episode" in single else None,
        t=t,
        counted=counted,
        terminated=flags["terminated"],
        truncated=flags["truncated"],
        given=np.zeros(length, bool) if next_state is None else next_state == 0,
        done_flag=roles.done_flag,
    )


def _ranks(column: Column) -> Integers:
    """Episode ids as 0, 1, ... in the order of the ids."""
    column.refuse_missing()
    values = column.values
    if values.ndim != 1:
        raise InputError(f"column {column.name!r} must hold one episode id per row, got shape {values.shape}.")
    if values.dtype.kind == "f":
        checks.refuse_where(column.name, ~np.isfinite(values), values, "must be finite")
    if values.dtype.kind in "iu" and (values[1:] >= values[:-1]).all():  # sorted already, as most logs are
        return episode_numbers(values)
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _component_names(roles: Roles, observations: NDArray[Any]) -> tuple[str, ...]:
    if observations.ndim == 1 or len(roles.parts) == observations.shape[1]:
        return roles.parts
    return tuple(map(str, range(observations.shape[1])))
