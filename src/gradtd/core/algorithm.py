"""The interface for authors of algorithms: an `Algorithm`, its `Parameter`s, and `Now`, which an update receives at
each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradtd.core import checks
from gradtd.core.checks import InputError


class Now(NamedTuple):
    """The data of the current time step that an update receives.

    ``t`` is the index of the latest step, ``side`` the buffer it went to (0 for buffer 1, 1 for
    buffer 2), ``first`` and ``second`` the step indices drawn from the two buffers, ``seen`` the
    number of steps seen so far, ``alpha`` the step-size of this update.
    """

    t: np.uint64
    side: int
    seen: int
    alpha: float
    first: NDArray[np.uint32]
    second: NDArray[np.uint32]


class Storage(Enum):
    """How an algorithm uses a vector, which determines how the vector is stored for sparse features.

    * ``ROWS``: it adds multiples of feature rows, or of cleared vectors, and reads the vector along rows;
    * ``CLEARED``: it clears the vector in every update, and then does the same;
    * ``SCALED``: it does the same, and multiplies the vector by numbers;
    * ``ARRAY``: it reads or changes the whole vector, which takes as many operations as there are features.
    """

    ARRAY = "array"
    ROWS = "rows"
    CLEARED = "cleared"
    SCALED = "scaled"


REQUIRED = object()
"""Default of a required parameter."""


@dataclass(frozen=True)
class Parameter:
    """A hyper-parameter: its default and its valid values.

    Parameters
    ----------
    default : any
        The default value. Without a default the parameter is required.
    help : str
        A short description.
    check : callable
        ``check(name, value)`` returns the value to use, or raises `gradtd.InputError`.
    """

    default: Any = REQUIRED
    help: str = ""
    check: Callable[[str, Any], Any] = checks.number


@dataclass(frozen=True)
class Algorithm:
    """A learning algorithm and what it needs from the engine.

    Parameters
    ----------
    name : str
        Its name.
    update : callable
        ``update(state, stream, now, hyper)`` changes ``state.theta`` in place.
    init : callable
        ``init(n_features, hyper)`` returns a dictionary of the arrays that the algorithm stores besides ``theta``.
        ``hyper["n_steps"]`` is the length of the stream, for tables with one entry per stored step.
    draws : str
        The batches that the algorithm receives. ``"nothing"``: it uses the latest step. ``"new batch"``: ``now.first``,
        which contains the m latest steps, once every m steps. ``"one batch"``: ``now.first``, from all steps so far.
        ``"other batch"``: ``now.first``, from the buffer that the latest step did not go to. ``"two buffers"``: no
        batches, but ``now.side``, and it starts when both buffers are filled. ``"two batches"``: ``now.first`` and
        ``now.second``, from the two buffers.
    parameters : dict
        Its hyper-parameters: `Parameter` by name, or just a default number. An algorithm that reads the rows of all
        next actions names their number ``n_actions``. gradtd then checks that each next row is the first of that many
        rows.
    observe : callable, optional
        Takes the arguments of ``update`` and runs at every step, including those before learning starts.
    read : callable, optional
        ``read(state, stream, now, hyper)`` runs before a snapshot is taken.
    step_size : bool
        Whether it has a step-size, ``alpha``.
    chosen : callable, optional
        For an algorithm that chooses its step-size: ``chosen(state)`` returns the step-size of the last update, and 0
        while it only collects estimates. ``now.alpha`` is then a factor, 1 unless it decays.
    watches : int
        For an algorithm that chooses its step-size: the number of batches that it observes before its first update.
    dense_only : bool
        Whether the rule reads whole feature rows, ``stream.features[row]``.
    stored : bool
        Whether it reads stored steps by number: it then needs the whole stream in memory and makes one pass over it.
    traces : bool or str
        Whether it supports traces (``add_trace``, ``traced`` and the estimates of `gradtd.estimates`). It then accepts
        ``lam`` and ``trace``. A string explains why it does not support them.
    emphatic : bool
        Whether features enter the trace multiplied by their emphasis.
    on_policy : bool
        Whether every ratio of the stream must be one.
    storage : dict
        `Storage` of its vectors by name, including those of its ``init`` and ``theta``. If theta is stored as ``ROWS``,
        the algorithm uses its vectors only through the functions of `gradtd.estimates`, and with sparse features the
        cost of an update depends only on the entries that it reads. By default all vectors are arrays.
    choose : callable, optional
        If a parameter changes the code of the algorithm, ``choose(hyper)`` returns the algorithm to use.
    lanes : tuple, optional
        For an algorithm that can update many demons of a horde at once: see `gradtd.compiled.lanes`.
    """

    name: str
    update: Callable[..., Any]
    init: Callable[[int, Any], Mapping[str, NDArray[Any]]] = lambda n_features, hyper: {}
    observe: Callable[..., Any] | None = None
    read: Callable[..., Any] | None = None
    draws: str = "nothing"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    step_size: bool = True
    chosen: Callable[..., Any] | None = None
    watches: int = 0
    dense_only: bool = False
    stored: bool = False
    traces: bool | str = False
    emphatic: bool = False
    on_policy: bool = False
    storage: Mapping[str, Storage] = field(default_factory=dict)
    choose: Callable[[Mapping[str, Any]], Algorithm] | None = None
    lanes: tuple[Callable[..., Any], ...] | None = None

    DRAWS = ("nothing", "new batch", "one batch", "other batch", "two buffers", "two batches")

    def __post_init__(self) -> None:
        if self.draws not in self.DRAWS:
            raise InputError(f"draws must be one of {', '.join(self.DRAWS)}; got {self.draws!r}.")
        wrapped = {
            name: value if isinstance(value, Parameter) else Parameter(value) for name, value in self.parameters.items()
        }
        object.__setattr__(self, "parameters", wrapped)

    @property
    def reads_rows_only(self) -> bool:
        """Whether with sparse features the cost of an update depends only on the rows that it reads."""
        return self.storage.get("theta") is Storage.ROWS

    @property
    def summary(self) -> str:
        """The first line of the rule's docstring."""
        return (self.update.__doc__ or self.name).strip().splitlines()[0]
