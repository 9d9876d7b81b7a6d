"""The record that reading and collecting make: a behaviour's steps, observations stored once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.core.stream import episode_begins


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

    def __repr__(self) -> str:
        seen = (
            "discrete observations" if self.discrete_observations else f"{self.observations.shape[1]} observed numbers"
        )
        given = [label for label in ("action", "behaviour", "target", "rho") if getattr(self, label) is not None]
        ends = f"{int(self.terminated.sum())} terminated, {int(self.truncated.sum())} truncated"
        has = f"; has {', '.join([*given, *self.extra])}" if given or self.extra else ""
        return f"Log({self.name}: {len(self)} steps, {self.n_episodes} episodes ({ends}), {seen}{has})"


def row_numbers(count: int) -> NDArray[np.uint32]:
    """0, 1, ..., as a log keeps them."""
    if count >= 2**32:
        raise InputError(f"a log holds fewer than 2**32 observations, got {count}: read it in parts.")
    return np.arange(count, dtype=np.uint32)
