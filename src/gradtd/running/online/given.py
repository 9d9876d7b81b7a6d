"""Checks the inputs of a step: its numbers, its end, and rows given as indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradtd.compiled.online import CUT, EPISODE, GOES_ON, OVER
from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.core.stream import episode_numbers

IndexRow = tuple[Integers, Floats | None]
"""A row as indices and their values, or None if all values are 1."""


def discount_number(name: str, value: Any) -> float:
    if value is None:
        raise InputError(
            "discount must be given: gamma, or 0 if the episode terminated. Or give the learner gamma= and the steps "
            "terminated= and truncated=."
        )
    return checks.fraction(name, value)


def ratio_number(name: str, value: Any) -> float:
    return checks.number_at_least(name, value, 0)


def ended(discount: Any, terminated: Any, truncated: Any) -> tuple[Any, int]:
    """The discount of a step, and whether the step ends its episode."""
    over = terminated is True or (terminated is not None and checks.yes_or_no("terminated", terminated))
    cut = truncated is True or (truncated is not None and checks.yes_or_no("truncated", truncated))
    if over and discount is not None:
        discount = 0.0 * discount_number("discount", discount)
    return (0.0 if over else discount), CUT if cut else GOES_ON


def _any_number(label: str, column: Floats) -> None:
    """Accept any finite numbers, as for rewards."""


def _not_negative(label: str, column: Floats) -> None:
    checks.refuse_where(label, column < 0, column, "must not be negative")


def _fractions(label: str, column: Floats) -> None:
    checks.refuse_where(label, (column < 0) | (column > 1), column, "must lie in [0, 1]")


_CHECK_COLUMNS = {"reward": _any_number, "discount": _fractions, "rho": _not_negative}
NUMBERS = tuple(_CHECK_COLUMNS)
"""The numbers of a step, in the order in which they are stored."""


def checked_column(name: str, label: str, values: Any, steps: int) -> Floats:
    """One checked number per step. A single number applies to all steps."""
    if name == "discount" and values is None:
        discount_number(label, values)
    column = checks.number_a_step(label, values, steps)
    if len(column) != steps:
        raise InputError(f"{label} needs one entry per step ({steps}), got {len(column)}.")
    _CHECK_COLUMNS[name](label, column)
    return column


def checked_table(name: str, values: Any, steps: int, names: Sequence[str]) -> Floats:
    """Checked numbers (steps, runs), from one number or column for all runs, a mapping of these, or a table."""
    if isinstance(values, Mapping):
        if values.keys() != set(names):
            raise InputError(
                f"{name} needs an entry for every demon ({', '.join(names)}), got "
                f"{', '.join(map(str, values)) or 'none'}."
            )
        return np.stack([checked_column(name, f"{name}[{run!r}]", values[run], steps) for run in names], axis=1)
    if np.ndim(values) < 2:
        return np.repeat(checked_column(name, name, values, steps)[:, None], len(names), axis=1)
    table = checks.finite_array(name, values, 2)
    if table.shape != (steps, len(names)):
        raise InputError(f"{name} needs shape {(steps, len(names))}, steps and demons; got {table.shape}.")
    _CHECK_COLUMNS[name](name, table)
    return table


def ends_of_many(terminated: Any, truncated: Any, steps: int) -> tuple[Any, Any]:
    """Masks of the steps that terminate and of those that are truncated. A mask that was not given is False
    everywhere."""
    found = []
    for name, values in (("terminated", terminated), ("truncated", truncated)):
        if values is None:
            found.append(np.zeros(steps, bool))
            continue
        flags = np.asarray(values)
        if flags.dtype != bool or flags.shape != (steps,):
            raise InputError(f"{name} needs one True or False per step ({steps}), got {flags.dtype} of {flags.shape}.")
        found.append(flags)
    return found[0], found[1]


def index_row(name: str, values: Any, n_features: int) -> IndexRow:
    """A row given by its indices, or by a pair of indices and values."""
    pair = isinstance(values, tuple) and len(values) == 2 and np.ndim(values[0]) == 1
    given, numbers = values if pair else (values, None)
    found = np.asarray(given)
    if found.size == 0 and found.ndim == 1:
        found = found.astype(np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise InputError(
            f"{name} must be a row of indices (whole numbers), or a pair (indices, values), as this learner has "
            f"sparse=True; got {found.dtype} of shape {found.shape}. For rows of numbers, leave sparse=True out."
        )
    outside = (found < 0) | (found >= n_features)
    checks.refuse_where(name, outside, found, f"must contain indices of features, 0 to {n_features - 1}")
    indices = found.astype(np.int64)
    if numbers is None:
        return indices, None
    data = checks.finite_array(f"{name}'s values", numbers, 1)
    if len(data) != len(indices):
        raise InputError(f"{name} has {len(indices)} indices and {len(data)} values: give one value for each index.")
    return indices, data


def dense_row(row: IndexRow, n_features: int) -> Floats:
    """The same row as an array of numbers."""
    made = np.zeros(n_features)
    np.add.at(made, row[0], 1.0 if row[1] is None else row[1])
    return made


class EpisodeCounter:
    """Numbers the episodes 0, 1, ... as their steps arrive; ``counts`` holds the latest number and whether it has
    ended."""

    def __init__(self, counts: Integers) -> None:
        self.counts = counts
        self.label: int | None = None  # the user's number of an episode, and whether it is the current one
        self.labelled = False

    @property
    def number(self) -> int:
        """The number of the latest episode, -1 if there is none."""
        return int(self.counts[EPISODE])

    @property
    def over(self) -> bool:
        """Whether the next step begins an episode."""
        return bool(self.counts[OVER])

    def restore(self, number: int, label: int | None, labelled: bool, over: bool) -> None:
        self.counts[EPISODE], self.counts[OVER], self.label, self.labelled = number, over, label, labelled

    def begin_step(self, episode: int | None) -> None:
        """Begin a step. ``episode`` is the user's number of the step's episode, if given."""
        if episode is not None:
            self._check(episode)
            goes_on = self.labelled and episode == self.label
            self.label, self.labelled = episode, True
            self.counts[OVER] = not goes_on
        else:
            self.labelled = self.labelled and not self.over

    def _check(self, episode: int) -> None:
        if self.label is not None and (episode < self.label or (episode == self.label and not self.labelled)):
            raise InputError(
                f"episode {episode} occurs again after {self.label}: the steps of an episode must be contiguous and "
                f"episode numbers must not decrease. Leave episode out to let gradtd count them."
            )

    def numbers_of(self, episode: Integers, ends: bool) -> Integers:
        """Episode numbers of a part of a log. Its first step continues the latest episode, unless that has ended."""
        self.begin_step(None)
        first = self.number + self.over
        numbers: Integers = first + episode_numbers(episode)
        self.counts[EPISODE], self.counts[OVER] = numbers[-1], ends
        self.labelled = self.labelled and self.number == first
        return numbers

    def cut(self) -> None:
        """Let the next step start a new episode, although the latest one did not end."""
        self.counts[OVER], self.labelled = 1, False
