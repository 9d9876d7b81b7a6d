"""What the author of a rule writes: an `Algorithm`, its `Parameter`s, and `Now`, what a rule gets at each step."""

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
    """What a rule knows of the present time step.

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
    """What a rule does with a vector that it keeps, and so how the vector is stored where features are sparse.

    * ``ROWS``: it adds multiples of rows of features, or of cleared vectors, and reads the vector along rows;
    * ``CLEARED``: it clears the vector in every update, and then does the same;
    * ``SCALED``: it does the same, and multiplies the vector by numbers;
    * ``ARRAY``: it reads or changes the vector as a whole, which costs as many operations as there are features.
    """

    ARRAY = "array"
    ROWS = "rows"
    CLEARED = "cleared"
    SCALED = "scaled"


REQUIRED = object()
"""Default of a parameter that has to be given."""


@dataclass(frozen=True)
class Parameter:
    """A hyper-parameter: its default and what it may be.

    Parameters
    ----------
    default : any
        The value where none is given. Without a default it has to be given.
    help : str
        What it means, in a few words.
    check : callable
        ``check(name, value)`` returns the value to use, or raises `gradtd.InputError`.
    """

    default: Any = REQUIRED
    help: str = ""
    check: Callable[[str, Any], Any] = checks.number


@dataclass(frozen=True)
class Algorithm:
    """A learning rule and what the engine has to do for it.

    Parameters
    ----------
    name : str
        How it is called.
    update : callable
        ``update(state, stream, now, hyper)`` changes ``state.theta`` in place.
    init : callable
        ``init(n_features, hyper)`` returns a dictionary of the arrays that the rule keeps besides ``theta``.
        ``hyper["n_steps"]`` is the length of the stream, for tables with an entry per stored step.
    draws : str
        Which batches the rule receives. ``"nothing"``: it uses the latest step. ``"new batch"``: ``now.first``, the m
        latest steps, every m steps. ``"one batch"``: ``now.first``, from all steps so far. ``"other batch"``:
        ``now.first``, from the buffer that the latest step did not go to. ``"two buffers"``: no batches, but
        ``now.side``, and it starts when both buffers are filled. ``"two batches"``: ``now.first`` and ``now.second``,
        from the two buffers.
    parameters : dict
        Its hyper-parameters: `Parameter` by name, or just a default number. A rule that reads the rows of all next
        actions names their number ``n_actions``: the session then checks that each next row begins so many.
    observe : callable, optional
        Has the arguments of ``update`` and sees every step, also those before learning starts.
    read : callable, optional
        ``read(state, stream, now, hyper)`` runs before a snapshot is taken.
    step_size : bool
        Whether it has a step-size, ``alpha``.
    chosen : callable, optional
        For a rule that chooses its step-size: ``chosen(state)`` says what it used last, 0 while it only watches.
        ``now.alpha`` is then a factor, 1 unless it decays.
    watches : int
        For how many batches such a rule watches before its first update.
    dense_only : bool
        Whether the rule reads whole feature rows, ``stream.features[row]``.
    stored : bool
        Whether it reads stored steps by their number: it needs the whole stream in memory and takes one pass over it.
    traces : bool or str
        Whether it reads traces where it is asked to (``add_trace``, ``traced`` and the estimates of
        `gradtd.estimates`). It then takes ``lam`` and ``trace``. A sentence says why there is no such form.
    emphatic : bool
        Whether features enter the trace with their emphasis.
    on_policy : bool
        Whether every ratio of the stream must be one.
    storage : dict
        `Storage` of its vectors by name, those of its ``init`` and ``theta``. Where theta is stored as ``ROWS`` the
        rule reads and changes its vectors by the functions of `gradtd.estimates` alone, and on sparse features an
        update costs no more than it reads. By default all vectors are arrays.
    choose : callable, optional
        Where a parameter changes the code of the rule, ``choose(hyper)`` returns the algorithm that is meant.
    lanes : tuple, optional
        For a rule that has a form for many demons of a horde at once: see `gradtd.compiled.lanes`.
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
        """Whether on sparse features an update costs no more than the rows that it reads."""
        return self.storage.get("theta") is Storage.ROWS

    @property
    def summary(self) -> str:
        """The first line of the rule's docstring."""
        return (self.update.__doc__ or self.name).strip().splitlines()[0]
