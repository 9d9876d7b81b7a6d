"""Policies given by row, as arrays or columns of probabilities in the order of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.logs.answers import checked_probabilities
from gradtd.logs.column_names import listed
from gradtd.logs.log import Log
from gradtd.logs.policies import WORDS

ByRow = Callable[[Any], Floats]
"""A function from rows of a log's observations to the probabilities of all actions."""


@dataclass(frozen=True, eq=False)
class Probabilities:
    """A policy as a table of probabilities: one row per row of the log, one column per action.

    Parameters
    ----------
    now
        An array (rows, actions), or the names of its columns in the log, in the order of the actions. An array (rows,)
        has only the probabilities of the actions taken.
    after
        The same for the next observations. Action values need it if a next observation is not a row of the log.
    order
        Whether arrays follow the rows of the "table" that was read or the "steps" of the `Log`. By default their length
        decides.
    named
        Whether the columns were matched to the actions by name.
    notes
        Notes on how the probabilities were interpreted.

    >>> Probabilities(["pi_0", "pi_1"]).columns
    ('pi_0', 'pi_1')
    """

    now: Any
    after: Any = None
    order: str | None = None
    named: bool = False
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The column names among the given values."""
        return tuple(name for given in (self.now, self.after) if are_names(given) for name in given)


@dataclass(frozen=True, eq=False)
class InOrder:
    """The probabilities of the actions taken, one per step, in the order of the steps."""

    values: Floats
    notes: tuple[str, ...] = ()
    sure: bool = False  # whether the user said so


def are_names(given: Any) -> bool:
    """Whether a policy is a list of column names."""
    return isinstance(given, (list, tuple)) and len(given) > 0 and all(isinstance(name, str) for name in given)


def stands_beside(policy: Any) -> bool:
    """Whether a policy is given by numbers for each row of a log, not by a function of observations."""
    if isinstance(policy, str):
        return policy not in WORDS
    by_row = isinstance(policy, InOrder | Probabilities) or (isinstance(policy, np.ndarray) and policy.ndim == 1)
    return policy is None or by_row or are_names(policy)


def kept_columns(*given: Any, known: Iterable[str] | None = None) -> list[str]:
    """Column names in the given policies. A single word counts only if it is a ``known`` column."""
    names = None if known is None else set(known)
    found: list[str] = []
    for one in given:
        if isinstance(one, str) and one not in WORDS and (names is None or one in names):
            found.append(one)
        elif isinstance(one, Probabilities):
            found.extend(one.columns)
        elif are_names(one) and (names is None or names & set(one)):  # otherwise they are action labels
            found.extend(one)
    return list(dict.fromkeys(found))


def by_name(log: Log, columns: Sequence[Any]) -> list[int] | None:
    """The positions of the actions in columns named after them, as pi_low and pi_high, or None if not named so."""
    actions = [str(label) for label in (log.action_labels or range(log.n_actions))]
    names = [str(column) for column in columns]
    for stem in dict.fromkeys(name.removesuffix(actions[0]) for name in names if name.endswith(actions[0])):
        if len(set(names)) == len(names) and {f"{stem}{action}" for action in actions} <= set(names):
            if log.action_labels is None and len(names) > len(actions):
                return None  # higher numbers are other actions, in order
            return [names.index(f"{stem}{action}") for action in actions]
    return None


def steps_in_table(log: Log) -> Integers:
    return np.arange(len(log)) if log.given is None else np.asarray(log.given[: len(log)])


class Beside:
    """Probabilities of every action at a log's observations, from arrays or columns by row.

    The observation of a step has the probabilities of its row. A next observation from which no step starts has those
    of its own table row, if there is one, or the ``after`` of the step.
    """

    def __init__(self, log: Log, name: str, given: Probabilities) -> None:
        self.log, self.name, self.notes = log, name, given.notes
        self.by_position = not given.named and not (are_names(given.now) and by_name(log, given.now))
        if given.order is not None:
            checks.one_of("order", given.order, ("table", "steps"))
        now = self._at_observations(given.now, given.order)
        known = ~np.isnan(now[:, 0])
        now[known] = checked_probabilities(name, now[known], int(known.sum()), log.n_actions, True)
        if given.after is not None:
            after = self._at_steps(given.after, given.order)
            if after.shape[1] != now.shape[1]:
                raise InputError(
                    f"{name} has {now.shape[1]} actions, and {after.shape[1]} at the next observations: use the same "
                    "number for both."
                )
            step = np.flatnonzero(~known[log.next_row] & ~log.terminated)
            now[log.next_row[step]] = checked_probabilities(name, after[step], len(step), log.n_actions, True)
        self.table = now

    def _at_observations(self, given: Any, order: str | None) -> Floats:
        """The probabilities with one row per observation of the log, NaN if unknown."""
        log = self.log
        if are_names(given):
            if places := by_name(log, given):
                given = [given[k] for k in places]
            columns = [np.r_[self._column(log.extra, c), self._column(log.extra_beyond, c)] for c in given]
            return np.column_stack([np.r_[c, np.full(len(log.observations) - len(c), np.nan)] for c in columns])
        values = self._array(given, order)
        found = np.full((len(log.observations), values.shape[1]), np.nan)
        if self._is_table(values, order) and log.given is not None:
            found[log.given >= 0] = values[log.given[log.given >= 0]]
        else:
            found[: len(log)] = values
        return found

    def _at_steps(self, given: Any, order: str | None) -> Floats:
        """The probabilities with one row per step."""
        if are_names(given):
            if places := by_name(self.log, given):
                given = [given[k] for k in places]
            return np.column_stack([self._column(self.log.extra, column) for column in given])
        values = self._array(given, order)
        return np.asarray(values[steps_in_table(self.log)] if self._is_table(values, order) else values)

    def _column(self, columns: Mapping[str, Floats], name: str) -> Floats:
        if name not in self.log.extra:
            raise InputError(
                f"column {name!r} was not kept; kept are {listed(self.log.extra)}: give the name to read_log(keep=...)."
            )
        return columns.get(name, np.zeros(0))

    def _array(self, given: Any, order: str | None) -> Floats:
        log, values = self.log, checks.finite_array(f"{self.name}'s probabilities", given, 2)
        lengths = {"table": log.n_given or len(log), "steps": len(log)}
        allowed = [lengths[order]] if order else list(dict.fromkeys(lengths.values()))
        if len(values) not in allowed:
            wanted = " or ".join(map(str, allowed))
            raise InputError(
                f"{self.name} needs one row of probabilities per row of the log ({wanted}), got {len(values)}."
            )
        return values

    def _is_table(self, values: Floats, order: str | None) -> bool:
        return order == "table" or (order is None and len(values) != len(self.log))

    def __call__(self, rows: Any) -> Floats:
        found = np.asarray(self.table[rows])
        lost = int(np.isnan(found[:, 0]).sum())
        if lost:
            raise InputError(
                f"{self.name} has probabilities for the log's rows only, and {lost} next observations are not "
                "rows of it: also give their probabilities, as gradtd.logs.Probabilities(now, after) or with "
                "--next-target-probabilities."
            )
        return found
