"""Where an improved policy differs from the behaviour: states, actions, and how often they occur in the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.improvement.experience import Experience
from gradtd.logs import Log

LEAST_MOVED = 0.01
"""Minimum change in probability for a difference to be listed."""


@dataclass(frozen=True)
class Change:
    """A state in which probability moved from one action to another.

    Parameters
    ----------
    where
        The state; or, for continuous observations, the means of their columns over these steps.
    steps
        Number of steps of the log in this state.
    less, more
        The action that lost the most probability, and the action that gained the most.
    behaviour
        The behaviour's probability of the action that gained.
    improved
        The improved policy's probability of that action.
    taken
        How often the log takes that action in this state.
    """

    where: str
    steps: int
    less: Any
    more: Any
    behaviour: float
    improved: float
    taken: int


def list_changes(log: Log, experience: Experience, improved: Floats, labels: tuple[Any, ...]) -> tuple[Change, ...]:
    """The differences, sorted by number of steps, largest first. ``improved`` has one row per place."""
    shift = improved - experience.behaviour
    more, less = shift.argmax(axis=1), shift.argmin(axis=1)
    rows = np.arange(len(shift))
    changed = shift[rows, more] > LEAST_MOVED
    if experience.states is not None:
        visits = np.bincount(experience.place, minlength=experience.n_places)
        A = experience.n_actions
        pairs = np.bincount(experience.place * A + experience.action, minlength=len(visits) * A).reshape(-1, A)
        order = np.argsort(-visits * shift[rows, more], kind="stable")
        made = [
            Change(
                str(experience.states[s]),
                int(visits[s]),
                labels[less[s]],
                labels[more[s]],
                float(experience.behaviour[s, more[s]]),
                float(improved[s, more[s]]),
                int(pairs[s, more[s]]),
            )
            for s in order
            if changed[s] and visits[s]
        ]
        return tuple(made)
    return _grouped(log, experience, improved, (changed, less, more), labels)


def _grouped(
    log: Log, experience: Experience, improved: Floats, found: tuple[Any, Any, Any], labels: tuple[Any, ...]
) -> tuple[Change, ...]:
    """Steps with continuous observations, grouped by the pair of actions."""
    changed, less, more = (one[experience.place] for one in found)
    made = []
    for lost in range(experience.n_actions):
        for won in range(experience.n_actions):
            steps = np.flatnonzero(changed & (less == lost) & (more == won))
            if not len(steps):
                continue
            places = experience.place[steps]
            means = log.observations[places].mean(axis=0)
            named = zip(log.observation_names, np.atleast_1d(means), strict=False)
            made.append(
                Change(
                    "mean " + ", ".join(f"{name} {mean:.3g}" for name, mean in named),
                    len(steps),
                    labels[lost],
                    labels[won],
                    float(experience.behaviour[places, won].mean()),
                    float(improved[places, won].mean()),
                    int((experience.action[steps] == won).sum()),
                )
            )
    return tuple(sorted(made, key=lambda change: -change.steps))
