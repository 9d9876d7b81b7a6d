"""Converts what a policy returned (arrays, tensors, frames, labels, actions) to checked probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.logs.column_names import listed
from gradtd.logs.models import Labelled
from gradtd.logs.tables import plain_array

_SUM_TOLERANCE = 1e-5  # the accuracy of a softmax in single precision


@dataclass(frozen=True)
class Actions:
    """The actions that a policy can choose: their number, their names, and whether the list may be incomplete.

    ``columns`` are the names of the observation's components.
    """

    count: int
    labels: tuple[Any, ...] | None = None
    more: bool = False
    columns: tuple[tuple[str, ...], ...] = ()

    @property
    def names(self) -> tuple[Any, ...]:
        return self.labels or tuple(range(self.count))


LARGEST = 2**31
"""A larger whole number cannot be an action."""


def settled(answer: Any) -> Any:
    """A policy's return value as an array. Accepts tensors, frames, distributions and (action, state) pairs."""
    if isinstance(answer, tuple) and len(answer) == 2 and np.ndim(answer[0]) and not np.ndim(answer[1]):
        answer = answer[0]
    if isinstance(answer, Labelled) or answer is None:
        return answer
    if hasattr(answer, "probs"):
        answer = answer.probs
    kind = type(answer)
    if kind.__module__.startswith("pandas") and kind.__name__ == "DataFrame":
        in_order = list(answer.columns) == list(range(answer.shape[1]))  # pandas' default column names
        return answer.to_numpy() if in_order else Labelled(answer.to_numpy(), list(answer.columns))
    try:
        found = np.asarray(plain_array(answer))
    except ValueError:  # rows of several lengths
        found = np.empty((), object)
        found[()] = answer
    if found.dtype == object and found.ndim == 1 and all(isinstance(one, str) for one in found):
        found = found.astype(str)
    return found


def together(answers: list[Any], where: Integers | None = None) -> Any:
    """Join a policy's answers to single observations in one array. Returns None if their shapes differ."""
    if any(isinstance(one, Labelled) for one in answers):
        if not all(isinstance(one, Labelled) for one in answers):
            return None
        rows = np.stack([np.ravel(one.values) for one in answers])
        return Labelled(rows if where is None else rows[where], answers[0].labels)
    if any(one is None for one in answers):
        return None
    try:
        found = np.stack([np.ravel(one)[0] if np.size(one) == 1 else np.ravel(one) for one in answers])
    except (ValueError, IndexError):
        return None
    if found.dtype == object and all(isinstance(one, str) for one in found.reshape(-1)):
        found = found.astype(str)
    return found if where is None else found[where]


def rows_of(answer: Any) -> int:
    if isinstance(answer, Labelled):
        return len(answer.values)
    return -1 if answer is None or not answer.ndim else len(answer)


def is_sound(answer: Any) -> bool:
    """Whether rows are probabilities, or one action each."""
    values = np.asarray(plain_array(answer.values)) if isinstance(answer, Labelled) else answer
    if values.dtype.kind not in "biufU" or values.ndim > 2:
        return False
    if values.ndim == 1 or values.shape[1] == 1:
        return bool(values.dtype.kind != "f" or (values == np.floor(values)).all())
    if values.dtype.kind == "U":
        return False
    return bool((values >= 0).all() and (np.abs(values.sum(axis=1) - 1) <= _SUM_TOLERANCE).all())


def told(answer: Any) -> str:
    """A policy's return value, described for a message."""
    if answer is None:
        return "nothing"
    if isinstance(answer, Labelled):
        answer = np.asarray(answer.values)
    if answer.dtype == object:
        inside = answer.reshape(-1)[0] if answer.size else None
        of = "lists of several lengths" if isinstance(inside, list) else f"an object of type {type(inside).__name__}"
        return "nothing" if inside is None else of
    if answer.ndim == 0:
        return f"one number, {answer}" if answer.dtype.kind in "biuf" else f"one text, {str(answer)!r}"
    what = "texts" if answer.dtype.kind == "U" else "numbers"
    span = f" from {answer.min():.4g} to {answer.max():.4g}" if what == "numbers" and answer.size else ""
    return f"{what} of shape {answer.shape}{span}"


def codes_of(name: str, given: NDArray[Any], actions: Actions) -> Integers:
    """Codes of the actions that a deterministic policy chose."""
    if actions.labels is not None:
        place = {label: code for code, label in enumerate(actions.labels)}
        for label in np.unique(given).tolist():
            if label not in place:
                raise InputError(
                    f"{name} chose the action {label!r}, which is not in the log; the log's actions are "
                    f"{listed(actions.labels)}."
                )
        return np.array([place[label] for label in given.tolist()], np.int64)
    if given.dtype.kind == "U":
        raise InputError(f"{name} must return whole numbers for actions, as in the log, got text.")
    outside = (given < 0) | (given > LARGEST) | ((given >= actions.count) & (not actions.more))
    percent = "; divide percentages by 100" if given.max(initial=0) > actions.count else ""
    checks.refuse_where(f"{name}'s actions", outside, given, f"must be actions, 0 to {actions.count - 1}{percent}")
    return given.astype(np.int64)


def one_hot(codes: Integers, n_actions: int) -> Floats:
    """The probabilities of a deterministic policy that takes the given actions."""
    chosen = np.zeros((len(codes), max(n_actions, int(codes.max(initial=0)) + 1)))
    chosen[np.arange(len(codes)), codes] = 1.0
    return chosen


def checked_probabilities(name: str, values: Any, rows: int | None, n_actions: int, more: bool) -> Floats:
    """Check probabilities (rows, actions): not negative, rows sum to 1. ``rows`` is None for a table of states."""
    table = checks.finite_array(f"{name}'s probabilities", values, 2)
    width = table.shape[1]
    if (rows is not None and len(table) != rows) or width < n_actions or (width > n_actions and not more):
        wanted = (
            f"{'one row per state' if rows is None else f'one row per observation ({rows})'} and one column per action"
        )
        from_one = f" If the actions are 1 to {width}, use actions={list(range(1, n_actions))}."
        hint = from_one if width == n_actions - 1 else ""
        raise InputError(
            f"{name} must give {wanted} ({'at least ' if more else ''}{n_actions} actions), got shape {table.shape}."
            f"{hint}"
        )
    if (table < 0).any() or (np.abs(table.sum(axis=1) - 1) > _SUM_TOLERANCE).any():
        _refuse_scores(name, table)
    return table


def _refuse_scores(name: str, table: Floats) -> None:
    """Raise an error that says what the numbers look like and how to turn them into probabilities."""
    sums = table.sum(axis=1)
    if (table <= 0).all() and np.allclose(np.exp(table).sum(axis=1), 1, rtol=0, atol=1e-3):
        raise InputError(f"{name} returned logarithms of probabilities: return numpy.exp of them.")
    if (table >= 0).all() and np.allclose(sums, 100, rtol=0, atol=0.1):
        raise InputError(f"{name}'s probabilities sum to 100: divide percentages by 100.")
    ways = (
        " If they are scores, return scipy.special.softmax(scores, axis=1); if they are action values, return the best "
        "action, values.argmax(axis=1)."
    )
    try:
        checks.refuse_where(f"{name}'s probabilities", table < 0, table, "must not be negative")
    except InputError as error:
        raise InputError(str(error) + ways) from None
    at = int(np.flatnonzero(np.abs(sums - 1) > _SUM_TOLERANCE)[0])
    raise InputError(f"{name}'s probabilities must sum to 1 over the actions: row {at} sums to {sums[at]:.6g}.{ways}")
