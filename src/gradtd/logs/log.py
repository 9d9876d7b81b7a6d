"""The `Log` record: the steps of a behaviour policy, with each observation stored once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers, make_frame
from gradtd.core.checks import InputError
from gradtd.core.stream import begins_episode, episode_begins, episode_numbers
from gradtd.core.stream_arrays import read_only
from gradtd.logs.understood import Understood

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class Log:
    """The steps that a behaviour policy produced. Make one with `read_log` or `collect`.

    An episode that *terminated* reached its end. An episode that was *truncated* was cut off; its last ``next_row`` is
    the observation that followed.

    Parameters
    ----------
    observations
        One row per observation: float64 (rows, k), or int64 (rows,) if it is one discrete number. The observations of
        the n steps come first, in order, then those that are only next observations.
    row, next_row
        Step i started from row ``row[i]`` of the observations and led to ``next_row[i]``.
    reward
        One number per step.
    terminated, truncated
        For every step, whether the episode terminated at it, and whether it was truncated after it.
    episode
        The number of every step's episode: 0, 1, ...
    action
        Codes of discrete actions; floats, (n,) or (n, m), for continuous ones.
    action_labels
        The labels of the codes, if they differ from the codes.
    behaviour, target
        Probabilities of the action taken under the two policies; densities if actions are continuous.
    rho
        The importance ratio, if the log has it.
    extra
        Kept columns by name.
    extra_beyond
        The same columns for the observations that are only next observations; NaN if such an observation was not a row
        of the table.
    given
        The table row of every observation; -1 for one from a column of next observations. None if the observations are
        the steps in the order of the table.
    n_given
        Number of rows of the table. None if the log was not read from one.
    observation_names
        The names of the observation's components.
    name
        Name of the log.
    notes
        What the reader did, in sentences.
    ends_known
        False if the table did not say whether episodes terminated or were cut off.
    strangers
        Distance between next observations and the observations of the following rows, which should be equal: 0 if they
        are equal, 1 if they are as far apart as random rows.
    rows_alone
        Whether the reader inferred that every row is an episode of one step.
    unmarked
        Episodes of the table whose last row is neither terminated nor truncated.
    chosen
        Kept columns that hold a policy's actions: their codes, one per step.
    index
        The index of the pandas frame that the log was read from, or None if it is 0, 1, ...
    understood
        How the table was interpreted, and what was guessed; see `Understood`.
    actions_taken
        Codes of the discrete actions in all rows of the table, if this log is a chunk of it. None if the steps contain
        all of them.
    elapsed
        The time from every step to the next, in gamma's unit. None if steps are evenly spaced.
    of_every_action
        Kept columns that are among numbered columns that sum to 1 in every row. Each contains the probability of one
        particular action, not of the action taken.
    """

    observations: NDArray[Any]
    row: NDArray[np.uint32]
    next_row: NDArray[np.uint32]
    reward: Floats
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    episode: Integers
    action: NDArray[Any] | None = None
    action_labels: tuple[Any, ...] | None = None
    behaviour: Floats | None = None
    target: Floats | None = None
    rho: Floats | None = None
    extra: Mapping[str, Floats] = field(default_factory=dict)
    observation_names: tuple[str, ...] = ("observation",)
    name: str = "log"
    notes: tuple[str, ...] = ()
    ends_known: bool = True
    strangers: float = 0.0
    of_every_action: tuple[str, ...] = ()
    extra_beyond: Mapping[str, Floats] = field(default_factory=dict)
    given: Integers | None = None
    n_given: int | None = None
    rows_alone: bool = False
    unmarked: int = 0
    actions_taken: Integers | None = None
    index: Any = None
    chosen: Mapping[str, Integers] = field(default_factory=dict)
    understood: Understood = field(default_factory=Understood)
    elapsed: Floats | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "reward", checks.finite_array("reward", self.reward, 1))
        n = len(self.reward)
        if n == 0:
            raise InputError("a log needs at least one step, but reward has length 0.")
        columns = ("row", "next_row", "terminated", "truncated", "episode", "action", "behaviour", "target", "rho")
        given = {label: getattr(self, label) for label in columns} | dict(self.extra)
        for label, values in given.items():
            if values is not None and len(values) != n:
                raise InputError(f"every column of a log needs one entry per step ({n}): {label} has {len(values)}.")
        for label in ("row", "next_row"):
            object.__setattr__(self, label, _rows_of(label, getattr(self, label), len(self.observations)))
        _refuse_unordered(np.asarray(self.episode))

    def without_observations(self) -> Log:
        """The same log without its observations, to free memory once they have become features."""
        narrow = copy(self)
        object.__setattr__(narrow, "observations", self.observations[:0].copy())
        return narrow

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def n_episodes(self) -> int:
        return int(self.episode[-1]) + 1

    @property
    def starts(self) -> Integers:
        """The index of the first step of each episode."""
        return episode_begins(self.episode)[:-1]

    @property
    def discrete_observations(self) -> bool:
        return self.observations.ndim == 1

    @property
    def discrete_actions(self) -> bool:
        return self.action is not None and self.action.dtype.kind == "i"

    @property
    def n_actions(self) -> int:
        """Number of the log's discrete actions."""
        assert self.action is not None
        if self.action_labels:
            return len(self.action_labels)
        return int((self.action if self.actions_taken is None else self.actions_taken).max()) + 1

    def to_frame(self) -> pandas.DataFrame:
        """The steps as a pandas frame, in the order of the log. Needs pandas."""
        return make_frame(step_columns(self))

    def _repr_html_(self) -> str:
        return log_cell(self)

    def __repr__(self) -> str:
        seen = (
            "discrete observations" if self.discrete_observations else f"{self.observations.shape[1]} observed numbers"
        )
        given = [label for label in ("action", "behaviour", "target", "rho") if getattr(self, label) is not None]
        ends = f"{int(self.terminated.sum())} terminated, {int(self.truncated.sum())} truncated"
        has = f"; has {', '.join([*given, *self.extra])}" if given or self.extra else ""
        head = f"Log({self.name}: {len(self)} steps, {self.n_episodes} episodes ({ends}), {seen}{has})"
        return "\n  ".join(checks.printable(line) for line in (head, *self.understood.lines()))


def merge_notes(notes: Iterable[str]) -> list[str]:
    """Merge the notes of several chunks: drop duplicates, and add up the counts at their ends.

    >>> merge_notes(["Rows dropped: 2.", "the rows were sorted.", "Rows dropped: 3."])
    ['Rows dropped: 5.', 'the rows were sorted.']
    """
    counts: dict[tuple[str, bool], int] = {}
    for note in notes:
        text, _, count = note.rstrip(".").rpartition(": ")
        counted = count.isdigit()
        key = (text, True) if counted else (note, False)
        counts[key] = counts.get(key, 0) + (int(count) if counted else 0)
    return [f"{text}: {count}." if counted else text for (text, counted), count in counts.items()]


def _rows_of(label: str, values: Any, length: int) -> NDArray[np.uint32]:
    """Checked row numbers of observations, read-only because they are not checked again."""
    rows = np.asarray(values)
    if rows.dtype.kind not in "iu" or rows.ndim != 1:
        raise InputError(f"{label} must contain whole numbers, one per step, got {rows.dtype} of shape {rows.shape}.")
    if int(rows.min()) < 0 or int(rows.max()) >= length:
        outside = (rows < 0) | (rows >= length)
        checks.refuse_where(label, outside, rows, f"must be row numbers of observations, 0 to {length - 1}")
    return read_only(rows.astype(np.uint32, copy=False))  # type: ignore[no-any-return]


def _refuse_unordered(episode: NDArray[Any]) -> None:
    """Check that episodes are numbered 0, 1, ... in order."""
    known = episode.dtype.kind in "iu" and episode.ndim == 1 and episode[0] == 0
    grows = known and bool((episode[1:] >= episode[:-1]).all())
    if not grows or np.count_nonzero(begins_episode(episode)) != int(episode[-1]) + 1:
        raise InputError("the episodes of a log must be numbered 0, 1, ... in the order of its steps: see read_log.")


def row_numbers(count: int) -> NDArray[np.uint32]:
    """Row numbers 0, 1, ... in the log's type."""
    if count >= 2**32:
        raise InputError(f"a log can have fewer than 2**32 observations, got {count}: read it in parts.")
    return np.arange(count, dtype=np.uint32)


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


def first_steps(log: Log, count: int) -> tuple[dict[str, list[str]], int]:
    """The columns of the first steps as text, and the number of observation columns left out."""
    columns = step_columns(log, count)
    hidden = [name for name in log.observation_names if name in columns][SHOWN_OBSERVED:]
    shown = {name: values for name, values in columns.items() if name not in hidden}
    return {name: list(map(_cell, values)) for name, values in shown.items()}, len(hidden)


def log_cell(log: Log) -> str:
    """How a log was interpreted, and its first steps, as HTML."""
    head, *understood = repr(log).splitlines()
    columns, hidden = first_steps(log, SHOWN_STEPS)
    table = [_row("th", columns), *(_row("td", row) for row in zip(*columns.values(), strict=True))]
    told = "".join(f"<li>{escape(line.strip())}</li>" for line in understood)
    more = f"<p>and {hidden} more columns of the observation</p>" if hidden else ""
    return f"<div><p><b>{escape(head)}</b></p><ul>{told}</ul><table>{''.join(table)}</table>{more}</div>"


def _row(kind: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{escape(cell)}</{kind}>' for cell in cells)}</tr>"


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def take_episodes(log: Log, held: Any) -> tuple[Log, Integers]:
    """The log of the selected episodes, and the numbers of their steps in the original log."""
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
