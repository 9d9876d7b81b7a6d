"""Turns a policy, in any form, into probabilities. No other module does this.

A policy is first called with a few rows, and its answer shows how to call it. A message explains an answer that does
not fit.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.logs.answers import (
    Actions,
    checked_probabilities,
    codes_of,
    is_sound,
    one_hot,
    rows_of,
    settled,
    together,
    told,
)
from gradtd.logs.column_names import listed
from gradtd.logs.models import Labelled, as_function, is_model
from gradtd.logs.tables import plain_array

CHUNK = 65_536
"""Number of observations per call of a policy."""
ASKED_TWICE = 50
"""A policy that returns actions is called twice with this number of observations, to detect random actions."""

Policy = Callable[[NDArray[Any]], Floats]
"""A policy's probabilities of all actions, one row per observation."""
States = Mapping[int, Any] | Mapping[float, Any] | Mapping[tuple[float, ...], Any]
"""A policy as a dictionary from states to actions or probabilities."""


class Predicts(Protocol):
    """A model of another library."""

    predict: Any


GivenPolicy = str | Callable[..., Any] | ArrayLike | States | Predicts
"""The accepted forms of a policy: a function, model, table, dictionary, array, columns, or a word."""
WORDS = ("behaviour", "estimate", "uniform")
"""Words that are not column names."""
WAYS = "the probabilities of all actions, shape ({rows}, {actions}), or one action for each"


def as_policy(
    name: str,
    policy: Any,
    n_actions: int,
    discrete: bool,
    *,
    more: bool = False,
    labels: tuple[Any, ...] | None = None,
    columns: tuple[tuple[str, ...], ...] = (),
) -> Policy:
    """``policy(observations) -> probabilities (n, actions)``, checked at every call.

    A table [states, actions] is for discrete observations. ``more`` allows more actions than ``n_actions``, for example
    if the log may lack some; "uniform" is over ``n_actions``. ``labels`` are the names of the actions, if they are not
    0, 1, ...
    """
    if isinstance(policy, Asked):
        return policy
    actions = Actions(n_actions, labels, more, columns)
    if isinstance(policy, str) and policy == "uniform":
        return lambda observations: np.full((len(observations), n_actions), 1.0 / n_actions)
    if is_constant(policy):
        code = code_of(name, policy, actions)
        return Asked(name, lambda seen: np.full(len(seen), code), Actions(n_actions, None, more), "all")
    if isinstance(policy, Mapping):
        return Asked(name, _States(name, policy, actions), actions, "one")
    if callable(policy) or is_model(policy):
        return Asked(name, as_function(name, policy, columns), actions)
    return Asked(name, _from_table(name, policy, n_actions, discrete, more), actions, "all")


def is_constant(policy: Any) -> bool:
    """Whether a policy always takes the same action, given as a number, True or False, or a label."""
    return isinstance(policy, str | int | np.integer | np.bool_ | float)


def code_of(name: str, action: Any, actions: Actions) -> int:
    """The code of the action of a constant policy."""
    names = [str(one) for one in actions.names]
    if str(action) in names and not isinstance(action, bool):
        return names.index(str(action))
    whole = isinstance(action, int | np.integer | np.bool_) or (isinstance(action, float) and action.is_integer())
    if whole and actions.labels is None and int(action) >= 0 and (actions.more or int(action) < actions.count):
        return int(action)
    raise InputError(
        f"{name} must be a policy, a column, 'uniform' or one of the log's actions, {listed(names)}; got {action!r}."
    )


class Asked:
    """A policy that is called with observations: with all at once or, if it does not accept that, with one at a time.

    ``mode`` is "all" or "one". If it is not given, a trial call finds it.
    """

    def __init__(self, name: str, function: Callable[..., Any], actions: Actions, mode: str = "") -> None:
        self.name, self.function, self.actions, self.mode = name, function, actions, mode
        self.notes: tuple[str, ...] = ()
        self.by_position = False  # whether probabilities came without action names

    def __call__(self, observations: NDArray[Any]) -> Floats:
        if not self.mode:
            self.mode = self._find_mode(observations)
        return self._probabilities(self._answers(observations), len(observations))

    def _answers(self, observations: NDArray[Any]) -> Any:
        if self.mode == "all":
            return settled(self._ask(observations))
        if observations.ndim == 1:
            states, where = np.unique(observations, return_inverse=True)
            return together([self._one(self._ask(state)) for state in states], where)
        return together([self._one(self._ask(row)) for row in observations])

    def _ask(self, seen: Any) -> Any:
        try:
            return self.function(seen)
        except InputError:
            raise
        except Exception as error:
            what = f"a NumPy array of observations, shape {seen.shape}," if np.ndim(seen) else "one observation"
            raise InputError(
                f"{self.name} was given {what} and raised {type(error).__name__}: {_gist(error)}. A policy takes all "
                f"observations at once, or one, and returns probabilities or actions."
            ) from error

    def _one(self, answer: Any) -> Any:
        """The answer for one observation: an action, or the probabilities in order."""
        if isinstance(answer, Mapping):
            names = list(self.actions.names)
            for action in answer:
                if action not in names:
                    raise InputError(
                        f"{self.name} returned a probability of the unknown action {action!r}; the log's actions are "
                        f"{listed(names)}."
                    )
            return Labelled(np.array([float(answer.get(action, 0.0)) for action in names]), names)
        found = settled(answer)
        if isinstance(found, Labelled):
            return found
        return found.reshape(-1) if found is not None and found.size != 1 else found

    def _find_mode(self, observations: NDArray[Any]) -> str:
        """Call the policy with a few rows to find its mode. The number of rows is neither that of actions nor that of
        components, so that the shape of the answer is unambiguous."""
        width = 1 if observations.ndim == 1 else observations.shape[1]
        count = next(k for k in (2, 3, 4, 5) if k not in (self.actions.count, width))
        few = observations[np.arange(count) % len(observations)]
        failed: InputError | None = None
        answer: Any = None
        try:
            answer = settled(self._ask(few))
        except InputError as error:
            if not isinstance(error.__cause__, Exception):
                raise
            failed = error
        fits = rows_of(answer) == count
        if fits and is_sound(answer):
            self._refuse_dependent(few, answer)
            self._refuse_draws(observations, answer, "all")
            return "all"
        try:
            each = together([self._one(self._ask(row)) for row in few])
        except InputError:
            each = None
        if rows_of(each) == count and is_sound(each):
            self._refuse_draws(observations, each, "one")
            self.notes = (
                f"{self.name} was called with one observation at a time. A function of all observations is faster.",
            )
            return "one"
        if fits:
            return "all"  # refused later, with the reason
        raise failed or InputError(self._explained(answer, count))

    def _refuse_dependent(self, few: NDArray[Any], answer: Any) -> None:
        """Refuse a policy whose answer for one state depends on the others in the call."""
        try:
            alone = settled(self._ask(few[:1]))
        except InputError:
            return
        first, alone = (one.values if isinstance(one, Labelled) else one for one in (answer, alone))
        if rows_of(alone) != 1 or np.shape(alone)[1:] != np.shape(first)[1:]:
            return
        first, alone = np.asarray(plain_array(first))[:1], np.asarray(plain_array(alone))
        same = np.allclose(first, alone, atol=1e-3) if first.dtype.kind in "biuf" else (first == alone).all()
        if not same:
            raise InputError(
                f"{self.name} returns something else for an observation when it is called with it alone: it uses the "
                "other observations, such as their mean. Compute such numbers once, in advance."
            )

    def _refuse_draws(self, observations: NDArray[Any], answer: Any, mode: str) -> None:
        """Refuse a policy that returns random actions: it must return probabilities."""
        if isinstance(answer, Labelled) or answer.ndim > 1 or answer.dtype.kind not in "biufU":
            return
        seen = observations[np.arange(ASKED_TWICE) % len(observations)]
        said = []
        for _ in range(2):
            answers = self._ask(seen) if mode == "all" else [self._one(self._ask(row)) for row in seen]
            said.append(settled(answers))
        if said[0].shape != said[1].shape or (said[0] != said[1]).any():
            raise InputError(
                f"{self.name} returned different actions when it was called again with the same observations: it draws "
                f"them at random. Return {self._wanted('n')} that does not change."
            )

    def _wanted(self, rows: Any) -> str:
        return WAYS.format(rows=rows, actions=self.actions.count)

    def _explained(self, answer: Any, rows: int) -> str:
        turned = isinstance(answer, np.ndarray) and answer.ndim == 2 and answer.shape[1] == rows
        hint = " Transpose it: return the array's .T." if turned else ""
        said = f"{self.name} was given {rows} observations and returned {told(answer)}."
        return f"{said} Return {self._wanted(rows)}.{hint}"

    def _probabilities(self, answer: Any, rows: int) -> Floats:
        """Probabilities, or, from a deterministic policy, one action per observation."""
        if isinstance(answer, Labelled):
            return self._by_label(answer, rows)
        if rows_of(answer) != rows or answer.ndim > 2:
            raise InputError(self._explained(answer, rows))
        if answer.ndim == 2 and answer.shape[1] == 1 and self.actions.count > 1:
            answer = answer[:, 0]
        if answer.ndim == 1:
            return one_hot(self._codes(answer), self.actions.count)
        self.by_position = True
        return checked_probabilities(self.name, answer, rows, self.actions.count, self.actions.more)

    def _by_label(self, answer: Labelled, rows: int) -> Floats:
        """Probabilities from columns named after the actions, in order. Actions without a column have probability 0."""
        values = np.asarray(plain_array(answer.values))
        given = [one.item() if isinstance(one, np.generic) else one for one in answer.labels]
        if values.shape != (rows, len(given)):
            raise InputError(self._explained(values, rows))
        codes = codes_of(self.name, np.array(given), self.actions)
        every = np.zeros((rows, max(self.actions.count, int(codes.max()) + 1)))
        every[:, codes] = values
        return checked_probabilities(self.name, every, rows, self.actions.count, self.actions.more)

    def _codes(self, answer: NDArray[Any]) -> Integers:
        if answer.dtype.kind == "f" and not (answer == np.floor(answer)).all():
            two = " If they are probabilities p of action 1, return numpy.column_stack([1 - p, p])."
            act = " If they are actions, return numpy.rint(x).astype(int)."
            raise InputError(self._explained(answer, len(answer)) + (two if self.actions.count == 2 else "") + act)
        return codes_of(self.name, answer, self.actions)


@dataclass(frozen=True, eq=False)
class _States:
    """A policy from a dictionary {state: action} or {state: probabilities}."""

    name: str
    states: Mapping[Any, Any]
    actions: Actions
    known: dict[Any, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.known.update({_key(state): answer for state, answer in self.states.items()})

    def __call__(self, state: Any) -> Any:
        key = _key(state)
        if key not in self.known and np.ndim(state):
            key = self._label(state)
        if key not in self.known:
            raise InputError(
                f"{self.name} has no entry for the observation {_shown(state)}; it has {len(self.known)} entries, for "
                "example "
                f"{_shown(next(iter(self.states), None))}."
            )
        return self.known[key]

    def _label(self, row: NDArray[Any]) -> Any:
        """The label of a one-hot row, if the observation was one text column."""
        names = self.actions.columns[0] if self.actions.columns else ()
        if len(names) == len(row) and all("=" in name for name in names) and row.sum() == 1:
            return names[int(row.argmax())].partition("=")[2]
        return None


def _key(state: Any) -> Any:
    """A state as a dictionary key. Equal numbers give equal keys."""
    if isinstance(state, str):
        return state
    row = np.asarray(state)
    if row.dtype.kind not in "biuf":
        return state
    return float(row) if row.ndim == 0 else float(row[0]) if row.size == 1 else tuple(map(float, row))


def _shown(state: Any) -> str:
    return repr(np.asarray(state).tolist()) if not isinstance(state, str) else repr(state)


def _from_table(name: str, policy: Any, n_actions: int, discrete: bool, more: bool) -> Policy:
    if not discrete:
        raise InputError(
            f"a table for {name} needs discrete observations, and the log's are continuous: give a function "
            "policy(observations) that returns probabilities (n, actions), or an array with one row per row of the log."
        )
    table = checked_probabilities(name, policy, None, n_actions, more)

    def look_up(states: NDArray[Any]) -> Floats:
        outside = (states < 0) | (states >= len(table))
        checks.refuse_where("observation", outside, states, f"must be a row of the table {name}, 0 to {len(table) - 1}")
        return np.asarray(table[states])

    return look_up


def takes_two(function: Any) -> bool:
    """Whether a function needs a second argument: actions if it returns densities, a generator if it samples."""
    try:
        needed = [
            one
            for one in inspect.signature(function).parameters.values()
            if one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        return False
    return len(needed) >= 2


def several(target: Any) -> dict[str, Any] | None:
    """Several targets by name, from a dictionary or a list of policies."""
    if isinstance(target, Mapping):
        named = all(isinstance(key, str) for key in target)
        return {str(key): spelled(policy) for key, policy in target.items()} if named else None
    if not isinstance(target, list | tuple) or not target:
        return None
    words = all(isinstance(one, str) for one in target) and any(one in WORDS for one in target)
    if not words and not any(callable(one) or is_model(one) or isinstance(one, Mapping) for one in target):
        return None
    names = [one if isinstance(one, str) else _called(one, number) for number, one in enumerate(target, 1)]
    names = [one if names.count(one) == 1 else f"{one} {number}" for number, one in enumerate(names, 1)]
    return dict(zip(names, map(spelled, target), strict=True))


def spelled(policy: Any) -> Any:
    """The policy, with words in their normal spelling."""
    return "behaviour" if isinstance(policy, str) and policy == "behavior" else policy


def _called(policy: Any, number: int) -> str:
    name = getattr(policy, "__name__", type(policy).__name__)
    return f"policy {number}" if name.startswith("<") or name in ("ndarray", "list", "dict") else str(name)


def _gist(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")[:200] or "no message"


def observation_chunks(observations: NDArray[Any], rows: NDArray[Any]) -> Iterator[tuple[slice, NDArray[Any]]]:
    """The observations of these rows, in the pieces with which a policy is called."""
    for at in row_chunks(rows):
        yield at, observations[rows[at]]


def row_chunks(rows: NDArray[Any] | Integers | Sequence[int]) -> Iterator[slice]:
    """Slices of rows for one call of a policy."""
    for begin in range(0, len(rows), CHUNK):
        yield slice(begin, begin + CHUNK)
