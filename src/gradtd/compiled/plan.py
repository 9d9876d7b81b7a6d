"""The records of the loop: its settings, the state of a run, and the snapshots.

A rule describes its state as a plain dictionary; compiled code needs a type with named fields. These classes are
created here on demand and looked up by name, so that a compiled kernel, which stores its argument types by reference,
can be loaded from disk in another process (`record`).
"""

from __future__ import annotations

import sys
from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Batch, Floats, Hyper, Integers, State, Words
from gradtd.core.memory_limits import refuse_beyond_memory


class Plan(NamedTuple):
    """The numeric settings of the loop.

    The step-size of update n = 0, 1, ... is alpha / (1 + n / t0)^p; alpha is 1 where the rule chooses
    its step-size itself. Learning starts after ``start`` steps and when the buffers hold more than
    ``fill_1`` and ``fill_2``. From step ``average_from`` on (-1: never) the iterates are averaged, the n-th
    with weight (power + 1) / (n + power). A run whose weights leave [-limit, limit] has diverged.
    """

    alpha: float
    t0: float
    p: float
    start: int
    fill_1: int
    fill_2: int
    replacement: bool
    average_from: int
    average_power: float
    limit: float

    @property
    def fill(self) -> tuple[int, int]:
        return self.fill_1, self.fill_2


CLOCK = np.dtype(
    [
        ("seen", np.int64),
        ("updates", np.int64),
        ("averaged", np.int64),
        ("taken", np.int64),
        ("alpha", np.float64),
    ],
    align=True,
)
"""Progress of a run: steps seen, updates made, iterates averaged, snapshots taken, the latest step-size. It is kept
between calls of the loop, which continues exactly from there."""


class Run(NamedTuple):
    """The data of a run except its stream and its buffers. ``clock`` is an array of one `CLOCK`.

    With sparse rows ``table`` holds the lasting state of each feature in one row; ``touched`` and ``cleared`` hold the
    vectors that an update clears (`vectors`).
    """

    state: State
    hyper: Hyper
    first: Batch
    second: Batch
    rng: Words
    average: Floats
    clock: Any
    table: Any = None
    touched: Any = None
    cleared: Any = None


class Snapshots(NamedTuple):
    """The steps of snapshots, and the arrays for weights and step-sizes."""

    at: Integers
    thetas: Floats
    alphas: Floats


def new_clock() -> Any:
    """The initial clock of a run."""
    return _NOT_BEGUN.copy()


_NOT_BEGUN = np.array([(0, 0, 0, 0, np.nan)], CLOCK).view(np.recarray)


def room_for(at: Integers, n_features: int) -> Snapshots:
    """Arrays for the weights after these steps."""
    what = f"{len(at)} snapshots of {n_features} weights"
    refuse_beyond_memory(8.0 * len(at) * n_features, what, "use fewer: snapshots=[k] keeps those of step k")
    return Snapshots(at, np.empty((len(at), n_features)), np.full(len(at), np.nan))


_PREFIX = "Record__"


def __getattr__(name: str) -> type[tuple[Any, ...]]:
    if not name.startswith(_PREFIX):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # A kernel loaded from the cache looks up the class by name, perhaps before it was created here.
    made: type[tuple[Any, ...]] = namedtuple(name, name.removeprefix(_PREFIX).split("__"), module=__name__)  # type: ignore[misc]  # noqa: PYI024
    globals()[name] = made
    return made


def record(**fields: Any) -> Any:
    """A named tuple with these fields. The same field names always give the same class.

    >>> record(theta=1.0, w=2.0).w
    2.0
    >>> type(record(theta=1.0)) is type(record(theta=3.0))
    True
    """
    return getattr(sys.modules[__name__], _PREFIX + "__".join(fields))(**fields)
