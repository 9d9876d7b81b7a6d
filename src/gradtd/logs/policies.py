"""Policies as people have them: a function of observations, a table, or a word."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradtd.core import checks
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError

CHUNK = 65_536
"""How many observations a policy is asked about at once."""
_SUM_TOLERANCE = 1e-5  # a softmax in single precision is as good as that

Policy = Callable[[NDArray[Any]], Floats]
"""What we ask: the probabilities of all actions, one row per observation."""
GivenPolicy = str | Callable[..., Any] | ArrayLike
"""What a user may give for a policy: a function, a table, an array, the name of a column, or a word."""


def as_policy(name: str, policy: Any, n_actions: int, discrete: bool, *, more: bool = False) -> Policy:
    """``policy(observations) -> probabilities (n, actions)``, checked at every call.

    A table [states, actions] is for discrete observations. ``more`` says that there may be more actions than
    ``n_actions``, as where those are only the ones that were seen; "uniform" needs to know how many there are.
    """
    if isinstance(policy, str):
        if policy != "uniform" or more:
            raise InputError(f"{name} must be a function, a table or 'uniform', got {policy!r}.")
        return lambda observations: np.full((len(observations), n_actions), 1.0 / n_actions)
    if callable(policy):
        return lambda seen: _checked(name, policy(seen), len(seen), n_actions, more)
    return _from_table(name, policy, n_actions, discrete, more)


def _from_table(name: str, policy: Any, n_actions: int, discrete: bool, more: bool) -> Policy:
    if not discrete:
        raise InputError(
            f"a table for {name} needs discrete observations, and these are real numbers: give a function "
            "policy(observations) that returns probabilities (n, actions)."
        )
    table = _checked(name, policy, None, n_actions, more)

    def look_up(states: NDArray[Any]) -> Floats:
        outside = (states < 0) | (states >= len(table))
        checks.refuse_where("observation", outside, states, f"must be a row of the table {name}, 0 to {len(table) - 1}")
        return np.asarray(table[states])

    return look_up


def _checked(name: str, values: Any, rows: int | None, n_actions: int, more: bool) -> Floats:
    """Probabilities (rows, actions) that are not negative and sum to one."""
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
    for begin in range(0, len(rows), CHUNK):
        at = slice(begin, begin + CHUNK)
        yield at, observations[rows[at]]
