"""One log with the truth beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd.logs import Log

Features = Callable[[Any], Any] | None


@dataclass(frozen=True, eq=False)
class Case:
    """What `gradtd.evaluate` is given, the truth, and labels.

    ``adequate`` says whether the features can represent the value, where that is known; ``features`` None takes the
    default. ``target`` and ``behaviour`` are given where the log has no ratios. ``error`` is the standard error of the
    truth, where that comes from roll-outs. ``policy`` gives the target's probabilities by observation, for values of
    actions.
    """

    family: str
    cell: str
    size: int
    adequate: bool | None
    truth: float
    log: Log
    gamma: float
    features: Features = None
    block: int | None = None
    error: float = 0.0
    target: Any = None
    behaviour: Any = None
    policy: Any = None


def as_log(
    observations: Any, row: Any, next_row: Any, reward: Any, discount: Any, rho: Any, begins: Any, action: Any = None
) -> Log:
    """Steps with ends: an episode that did not terminate was cut off."""
    n = len(reward)
    terminated = np.asarray(discount) == 0
    last = np.zeros(n, bool)
    last[np.asarray(begins)[1:] - 1] = True
    return Log(
        observations=np.asarray(observations),
        row=np.asarray(row).astype(np.uint32),
        next_row=np.asarray(next_row).astype(np.uint32),
        reward=np.asarray(reward, np.float64),
        terminated=terminated,
        truncated=last & ~terminated,
        episode=np.repeat(np.arange(len(begins) - 1), np.diff(begins)),
        action=action,
        rho=None if rho is None else np.asarray(rho, np.float64),
    )


def looked_up(table: Any) -> Callable[[Any], Any]:
    """Features of discrete observations by a table."""
    return lambda states: table[np.asarray(states).astype(int).ravel()]
