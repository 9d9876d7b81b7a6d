"""The record that reading and collecting make: a behaviour's steps, observations stored once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.core.frames import make_frame
from gradtd.core.stream import begins_episode, episode_begins
from gradtd.core.stream_arrays import read_only
from gradtd.logs.log_table import log_cell, step_columns
from gradtd.logs.understood import Understood

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class Log:
    """The steps that one policy, the behaviour, produced. Make one with `read_log` or `collect`.

    An episode that *terminated* has nothing after it. One that was *truncated* was only cut off, and its last
    ``next_row`` is what would have come next.

    Parameters
    ----------
    observations
        One row per observation: float64 (rows, k), or int64 (rows,) where it is one discrete number. Those of the n
        steps come first, in order, then those that no step started from.
    row, next_row
        Step i started from row ``row[i]`` of the observations and led to ``next_row[i]``.
    reward
        One number per step.
    terminated, truncated
        For every step, whether its episode ended with it, and whether it was cut off after it.
    episode
        The number of every step's episode: 0, 1, ...
    action
        Codes of discrete actions; floats, (n,) or (n, m), for real-valued ones.
    action_labels
        The labels of the codes, where they are not the labels themselves.
    behaviour, target
        Probabilities of the action taken under the two policies; densities where actions are real-valued.
    rho
        The ratio of the two, where that was given.
    extra
        Further columns by name.
    extra_beyond
        The same columns in rows of the table that are no steps, for the observations behind those of the steps; NaN
        where such an observation was no row.
    given
        The row of the table that every observation was read from; -1 for one that stood in a column of next
        observations. None where they are the steps in the order of the table.
    n_given
        How many rows the table had. None where the log was not read from one.
    observation_names
        The names of the observation's components.
    name
        What the log is called.
    notes
        Sentences about what reading did.
    ends_known
        False where nothing in the table said whether episodes terminated or were cut off.
    strangers
        How far next observations are from those of the rows after, where the two should be the same: 0 where they are,
        1 where they are no nearer than rows drawn at random.
    rows_alone
        Whether it was found out, and not said, that every row is an episode of one step.
    unmarked
        Episodes of the table whose last row is neither terminated nor truncated.
    chosen
        Kept columns that hold actions, as a policy would take them: their codes, one per step.
    index
        The index of the pandas frame that the log was read from, where it is not 0, 1, ...; None otherwise.
    understood
        What the columns of the table were taken for, and what was guessed; see `Understood`.
    actions_taken
        Codes of the discrete actions in all rows of the table, also where this is a chunk of it. None where the steps
        themselves tell.
    elapsed
        The time from every step to the next, in the unit that gamma is for. None where steps are evenly spaced.
    of_every_action
        Kept columns that are one of several, numbered ones, which sum to one in every row: a policy's probabilities of
        each action, and not of the action taken.
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
            raise InputError("a log needs at least one step, got reward of length 0.")
        columns = ("row", "next_row", "terminated", "truncated", "episode", "action", "behaviour", "target", "rho")
        given = {label: getattr(self, label) for label in columns} | dict(self.extra)
        for label, values in given.items():
            if values is not None and len(values) != n:
                raise InputError(f"every column of a log needs one entry per step ({n}): {label} has {len(values)}.")
        for label in ("row", "next_row"):
            object.__setattr__(self, label, _rows_of(label, getattr(self, label), len(self.observations)))
        _refuse_unordered(np.asarray(self.episode))

    def without_observations(self) -> Log:
        """The same log with the observations let go, for when they have become features."""
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
        """How many discrete actions the log knows of."""
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
    """The notes of several chunks of a log as those of one: each is said once, and counts at the end are added.

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
    """Numbers of observations; views that cannot be written through, as whoever reads them does not check again."""
    rows = np.asarray(values)
    if rows.dtype.kind not in "iu" or rows.ndim != 1:
        raise InputError(f"{label} must hold whole numbers, one per step, got {rows.dtype} of shape {rows.shape}.")
    if int(rows.min()) < 0 or int(rows.max()) >= length:
        outside = (rows < 0) | (rows >= length)
        checks.refuse_where(label, outside, rows, f"must be a row of observations, 0 to {length - 1}")
    return read_only(rows.astype(np.uint32, copy=False))  # type: ignore[no-any-return]


def _refuse_unordered(episode: NDArray[Any]) -> None:
    """Episodes are numbered 0, 1, ... in the order in which they come."""
    known = episode.dtype.kind in "iu" and episode.ndim == 1 and episode[0] == 0
    grows = known and bool((episode[1:] >= episode[:-1]).all())
    if not grows or np.count_nonzero(begins_episode(episode)) != int(episode[-1]) + 1:
        raise InputError("the episodes of a log are numbered 0, 1, ... in the order of its steps: see read_log.")


def row_numbers(count: int) -> NDArray[np.uint32]:
    """0, 1, ..., as a log keeps them."""
    if count >= 2**32:
        raise InputError(f"a log holds fewer than 2**32 observations, got {count}: read it in parts.")
    return np.arange(count, dtype=np.uint32)
