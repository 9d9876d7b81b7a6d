"""Policies as people have them: a function of observations, a table, or a word."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.logs.column_names import listed

CHUNK = 65_536
"""How many observations a policy is asked about at once."""
_SUM_TOLERANCE = 1e-5  # a softmax in single precision is as good as that

Policy = Callable[[NDArray[Any]], Floats]
"""What we ask: the probabilities of all actions, one row per observation."""
GivenPolicy = str | Callable[..., Any] | ArrayLike
"""What a user may give for a policy: a function, a table, an array, names of columns, or a word."""
WORDS = ("behaviour", "estimate", "uniform")
"""What is no name of a column."""


def as_policy(
    name: str,
    policy: Any,
    n_actions: int,
    discrete: bool,
    *,
    more: bool = False,
    labels: tuple[Any, ...] | None = None,
) -> Policy:
    """``policy(observations) -> probabilities (n, actions)``, checked at every call.

    A table [states, actions] is for discrete observations. A function may also return one action per observation: then
    it is deterministic. ``more`` says that there may be more actions than ``n_actions``, as where those are only the
    ones that were seen; "uniform" is over those. ``labels`` are the names of the actions, where these are not 0, 1, ...
    """
    if isinstance(policy, str):
        if policy != "uniform":
            raise InputError(f"{name} must be a function, a table or 'uniform', got {policy!r}.")
        return lambda observations: np.full((len(observations), n_actions), 1.0 / n_actions)
    if callable(policy):
        return lambda seen: _of_function(name, policy(seen), len(seen), n_actions, more, labels)
    return _from_table(name, policy, n_actions, discrete, more)


def _from_table(name: str, policy: Any, n_actions: int, discrete: bool, more: bool) -> Policy:
    if not discrete:
        raise InputError(
            f"a table for {name} needs discrete observations, and these are real numbers: give a function "
            "policy(observations) that returns probabilities (n, actions), or an array with one row per row of the log."
        )
    table = checked_probabilities(name, policy, None, n_actions, more)

    def look_up(states: NDArray[Any]) -> Floats:
        outside = (states < 0) | (states >= len(table))
        checks.refuse_where("observation", outside, states, f"must be a row of the table {name}, 0 to {len(table) - 1}")
        return np.asarray(table[states])

    return look_up


def _of_function(
    name: str, values: Any, rows: int, n_actions: int, more: bool, labels: tuple[Any, ...] | None
) -> Floats:
    """What a function returned: probabilities, or, from a deterministic policy, one action per observation."""
    given = np.asarray(values)
    if given.ndim == 1 and len(given) == rows and given.dtype.kind in "iuU":
        codes = _codes(name, given, n_actions, more, labels)
        chosen = np.zeros((rows, max(n_actions, int(codes.max(initial=0)) + 1)))
        chosen[np.arange(rows), codes] = 1.0
        return chosen
    return checked_probabilities(name, values, rows, n_actions, more)


def _codes(
    name: str, given: NDArray[Any], n_actions: int, more: bool, labels: tuple[Any, ...] | None
) -> NDArray[np.int64]:
    """Codes of the actions that a deterministic policy chose."""
    if labels is not None:
        place = {label: code for code, label in enumerate(labels)}
        for label in np.unique(given).tolist():
            if label not in place:
                raise InputError(f"{name} chose the action {label!r}; the log's actions are {listed(labels)}.")
        return np.array([place[label] for label in given.tolist()], np.int64)
    if given.dtype.kind == "U":
        raise InputError(f"{name} must return whole numbers for actions, as the log has them, got text.")
    outside = (given < 0) | ((given >= n_actions) & (not more))
    checks.refuse_where(f"{name}'s actions", outside, given, f"must be actions, 0 to {n_actions - 1}")
    return given.astype(np.int64)


def checked_probabilities(name: str, values: Any, rows: int | None, n_actions: int, more: bool) -> Floats:
    """Probabilities (rows, actions) that are not negative and sum to one; one row per state where rows is None."""
    table = checks.finite_array(f"{name}'s probabilities", values, 2)
    width = table.shape[1]
    if (rows is not None and len(table) != rows) or width < n_actions or (width > n_actions and not more):
        wanted = (
            f"{'one row per state' if rows is None else f'one row per observation ({rows})'} and one column per action"
        )
        raise InputError(
            f"{name} must give {wanted} ({'at least ' if more else ''}{n_actions} actions), got shape {table.shape}."
        )
    checks.refuse_where(f"{name}'s probabilities", table < 0, table, "must not be negative")
    sums = table.sum(axis=1)
    off = np.abs(sums - 1) > _SUM_TOLERANCE
    if off.any():
        at = int(np.flatnonzero(off)[0])
        raise InputError(f"{name}'s probabilities must sum to 1 over the actions: row {at} sums to {sums[at]:.6g}.")
    return table


def observation_chunks(observations: NDArray[Any], rows: NDArray[Any]) -> Iterator[tuple[slice, NDArray[Any]]]:
    """The observations of these rows, some at a time, as a policy is asked about them."""
    for at in row_chunks(rows):
        yield at, observations[rows[at]]


def row_chunks(rows: NDArray[Any] | Integers) -> Iterator[slice]:
    """Which of the rows a policy is asked about at a time."""
    for begin in range(0, len(rows), CHUNK):
        yield slice(begin, begin + CHUNK)
