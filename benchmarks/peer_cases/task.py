"""One log with both policies and the true value, in the two shapes that estimators want."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Task:
    """Steps in the order of episodes. Policies are given as probabilities of every action, at the step and after it.

    ``states`` is the number of discrete observations, 0 where they are real. ``tells`` says whether an observation
    tells all that the future depends on. ``error`` is the standard error of the truth, where roll-outs gave it.
    """

    world: str
    cell: str
    observation: np.ndarray
    next_observation: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    episode: np.ndarray
    behaviour: np.ndarray
    target: np.ndarray
    next_target: np.ndarray
    gamma: float
    truth: float
    states: int = 0
    tells: bool = True
    error: float = 0.0

    @property
    def steps(self) -> int:
        return len(self.reward)

    @cached_property
    def begins(self) -> np.ndarray:
        return np.flatnonzero(np.r_[True, self.episode[1:] != self.episode[:-1]])

    @cached_property
    def rho(self) -> np.ndarray:
        rows = np.arange(self.steps)
        return self.target[rows, self.action] / self.behaviour[rows, self.action]

    def as_table(self) -> dict[str, Any]:
        """The table that a user would hand to `gradtd.evaluate`."""
        last = np.r_[self.episode[1:] != self.episode[:-1], True]
        return {
            "episode": self.episode,
            "observation": self.observation,
            "next_observation": self.next_observation,
            "action": self.action,
            "reward": self.reward,
            "terminated": self.terminated,
            "truncated": last & ~self.terminated,
            "behaviour": self.behaviour[np.arange(self.steps), self.action],
        }

    def law(self, observations: Any) -> np.ndarray:
        """The target's probabilities of all actions at observations of this log."""
        return np.array([self._laws[row.tobytes()] for row in np.asarray(observations, float)])

    @cached_property
    def _laws(self) -> dict[bytes, np.ndarray]:
        seen = np.r_[self.observation, self.next_observation].astype(float)
        laws = np.r_[self.target, self.next_target]
        return {row.tobytes(): law for row, law in zip(seen, laws, strict=True)}

    @cached_property
    def padded(self) -> Padded:
        starts = self.begins
        lengths = np.diff(np.r_[starts, self.steps])
        where = (np.repeat(np.arange(len(starts)), lengths), np.arange(self.steps) - np.repeat(starts, lengths))
        return Padded(self, (len(starts), int(lengths.max())), where)


@dataclass(frozen=True, eq=False)
class Padded:
    """The same steps as arrays [episode, time]; ``alive`` says which entries are steps."""

    task: Task
    shape: tuple[int, int]
    where: tuple[np.ndarray, np.ndarray]

    def spread(self, column: Any, fill: float = 0.0) -> np.ndarray:
        column = np.asarray(column)
        out = np.full((*self.shape, *column.shape[1:]), fill, np.result_type(column, type(fill)))
        out[self.where] = column
        return out

    @cached_property
    def alive(self) -> np.ndarray:
        return self.spread(np.ones(self.task.steps, bool), False)

    @cached_property
    def reward(self) -> np.ndarray:
        return self.spread(self.task.reward)

    @cached_property
    def rho(self) -> np.ndarray:
        """Ratios; 1 after the end, so that products stay what they were there."""
        return self.spread(self.task.rho, 1.0)

    @cached_property
    def products(self) -> np.ndarray:
        """rho_0 ... rho_t."""
        return self.rho.cumprod(1)

    @cached_property
    def discounts(self) -> np.ndarray:
        return self.task.gamma ** np.arange(self.shape[1])
