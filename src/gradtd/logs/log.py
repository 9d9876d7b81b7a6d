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

    ``observations`` has one row an observation, float64 (rows, k), or int64 (rows,) where it is one discrete
    number. Step i started from row ``row[i]`` and led to ``next_row[i]``; the observations of the n steps come
    first, in order, then those that no step started from. An episode that *terminated* has nothing after it;
    one that was *truncated* was only cut off, and its last ``next_row`` is what would have come next.

    ``behaviour`` and ``target`` are the probabilities (densities for real-valued actions) of the action
    taken under the two policies, ``rho`` the ratio where that was given. ``action`` holds codes for discrete
    actions, whose labels are ``action_labels`` where they are not the codes themselves, and floats, (n,) or
    (n, m), for real ones. ``extra`` are further columns; ``notes`` sentences about what reading did; ``ends_known`` is
    False where nothing in the table said whether episodes terminated or were cut off.
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
