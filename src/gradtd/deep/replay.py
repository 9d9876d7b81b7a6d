"""A replay buffer that draws two batches from different episodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Integers
from gradtd.core.checks import InputError
from gradtd.deep.impression import Batch

SPLITS = ("odd_even", "coin", "episode")
FIRST_ROOM = 1024
"""Initial capacity in steps."""


class EpisodeReplay:
    """The latest steps by episode; `pair` draws two batches that share no episode.

    Parameters
    ----------
    capacity : int
        Number of steps stored; the oldest are dropped first.
    split : {"odd_even", "coin", "episode"}
        Which episodes batch 1 is drawn from: the odd ones, a random half fixed by coin flips, or a new random half at
        every draw.
    seed : int
        Seed of the coin flips and of the draws.

    >>> replay = EpisodeReplay(capacity=1000)
    >>> for episode in range(4):
    ...     for t in range(5):
    ...         replay.add([episode, t], 1.0, [episode, t + 1], gamma=0.9, terminated=t == 4)
    >>> first, second = replay.pair(8, 16)
    >>> first.x.shape, second.x.shape, set(first.x[:, 0]) & set(second.x[:, 0])
    ((8, 2), (16, 2), set())
    """

    def __init__(self, capacity: int = 100_000, split: str = "odd_even", seed: int = 0) -> None:
        self.capacity = checks.whole_number("capacity", capacity, 2)
        self.split = checks.one_of("split", split, SPLITS)
        self.seed = checks.seed_number(seed)
        self.rng = np.random.default_rng(self.seed)
        self.seen = self.number = 0
        self.steps: dict[str, Any] = {}
        self._open = self._heads = False

    def __len__(self) -> int:
        return min(self.seen, self.capacity)

    def add(
        self,
        x: Any,
        reward: float,
        next_x: Any,
        *,
        gamma: float,
        terminated: bool = False,
        truncated: bool = False,
        rho: float = 1.0,
    ) -> None:
        """Store one step. The value after a terminated step is 0; a truncated step keeps its next value."""
        row: dict[str, Any] = {
            "x": np.asarray(x),
            "next_x": np.asarray(next_x),
            "reward": checks.number("reward", reward),
            "discount": 0.0 if terminated else checks.fraction("gamma", gamma),
            "rho": checks.number_at_least("rho", rho, 0),
        }
        for name in ("x", "next_x"):
            if not np.isfinite(row[name]).all():
                raise InputError(f"{name} must be finite, got a step with NaN or infinity in it.")
        if not self.steps:
            self._make_room(row["x"], FIRST_ROOM)
        if not self._open:
            self.number += 1
            self._heads = bool(self.rng.random() < 0.5) if self.split == "coin" else False
            self._open = True
        row |= {"episode": self.number, "first": self._heads if self.split == "coin" else self.number % 2 == 1}
        at = self.seen % self.capacity
        self._grow(at + 1)
        for name, value in row.items():
            if name in ("x", "next_x") and value.shape != self.steps[name].shape[1:]:
                raise InputError(
                    f"{name} needs shape {self.steps[name].shape[1:]}, as in earlier steps, got {value.shape}."
                )
            self.steps[name][at] = value
        self.seen += 1
        self._open = not (terminated or truncated)

    def new_episode(self) -> None:
        """End the episode as truncated: the next step begins a new one."""
        self._open = False

    def ready(self) -> bool:
        """Whether both batches have steps to draw from."""
        n = len(self)
        if n == 0:
            return False
        if self.split == "episode":
            return int(self.steps["episode"][:n].min()) < int(self.steps["episode"][:n].max())
        return 0 < int(self.steps["first"][:n].sum()) < n

    def pair(self, m1: int = 32, m2: int = 32) -> tuple[Any, Any]:
        """Batches of m1 and m2 steps, drawn with replacement, that share no episode."""
        if not self.ready():
            raise InputError(
                "pair needs steps of two episodes that belong to different batches: add more steps, and check ready()."
            )
        first, second = self._sides()
        drawn = (self.rng.choice(first, m1), self.rng.choice(second, m2))
        made = [Batch(*(self.steps[name][at] for name in Batch._fields)) for at in drawn]
        return made[0], made[1]

    def memory(self) -> dict[str, Any]:
        """The state without the steps, for a file."""
        counts = {"seen": self.seen, "number": self.number, "open": self._open, "heads": self._heads}
        return counts | {"rng": self.rng.bit_generator.state}

    def restore(self, memory: Any, steps: Any, shape: tuple[int, ...]) -> None:
        """Restore the state from `memory` and the steps; sizes are checked, since a file may be damaged."""
        self.seen = checks.whole_number("seen", memory["seen"], 0)
        self.number = checks.whole_number("number", memory["number"], 0)
        self._open, self._heads = bool(memory["open"]), bool(memory["heads"])
        self.rng.bit_generator.state = memory["rng"]
        if not self.seen:
            return
        n = len(self)
        if len(steps["x"]) != n:
            raise InputError(f"the file holds {len(steps['x'])} steps instead of {n}: it is damaged.")
        self._make_room(np.zeros(shape, steps["x"].dtype), n)
        for name, column in self.steps.items():
            found = steps[name]
            if found.shape != (n, *column.shape[1:]) or found.dtype != column.dtype:
                raise InputError(
                    f"the file's steps.{name} has shape {found.shape} and type {found.dtype}: it is damaged."
                )
            if found.dtype.kind == "f" and not np.isfinite(found).all():
                raise InputError(f"the file is damaged: steps.{name} has NaN or infinite entries.")
            column[:n] = found
        if self.steps["rho"].min() < 0 or self.steps["discount"].min() < 0 or self.steps["discount"].max() > 1:
            raise InputError("the file's steps have a negative ratio or a discount outside [0, 1]: it is damaged.")

    def _sides(self) -> tuple[Integers, Integers]:
        n = len(self)
        if self.split == "episode":
            episodes, place = np.unique(self.steps["episode"][:n], return_inverse=True)
            order = self.rng.permutation(len(episodes))
            first = (order < len(episodes) // 2)[place]
        else:
            first = self.steps["first"][:n]
        return np.flatnonzero(first), np.flatnonzero(~first)

    def _make_room(self, x: Any, room: int) -> None:
        room = min(room, self.capacity)
        kind = np.float32 if x.dtype == np.float32 else np.float64
        wide = {name: np.zeros((room, *x.shape), kind) for name in ("x", "next_x")}
        numbers = {name: np.zeros(room) for name in ("reward", "discount", "rho")}
        marks = {"episode": np.zeros(room, np.int64), "first": np.zeros(room, bool)}
        self.steps = wide | numbers | marks

    def _grow(self, needed: int) -> None:
        """Double the arrays when they are full, so that memory grows with the steps and not with the capacity."""
        room = len(self.steps["reward"])
        if needed > room:
            more = min(2 * room, self.capacity) - room
            for name, column in self.steps.items():
                self.steps[name] = np.concatenate([column, np.zeros((more, *column.shape[1:]), column.dtype)])
