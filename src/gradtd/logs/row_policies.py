"""Policies that stand beside a log, row by row: arrays and columns of probabilities, in the order of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.logs.column_names import listed
from gradtd.logs.log import Log
from gradtd.logs.policies import WORDS, as_policy, checked_probabilities

Asked = Callable[[Any], Floats]
"""The probabilities of all actions at some rows of a log's observations."""


MANY_STATES = 4
"""A table with more rows than so many times the log's states is none of them, if the log has as many rows."""


@dataclass(frozen=True, eq=False)
class Probabilities:
    """A policy as a table beside the log: the probability of every action, one row per row of the log.

    Parameters
    ----------
    now
        An array (rows, actions), or the names of the columns that hold them, in the order of the actions.
    after
        The same for the next observation. Action values need it where that is no row of the log.
    order
        Whose rows arrays have: "table", those of the table that was read, or "steps", those of the `Log`. By default
        found out from their length.
    named
        Whether columns are known to be in the order of the actions, as they were matched by name.

    >>> Probabilities(["pi_0", "pi_1"]).columns
    ('pi_0', 'pi_1')
    """

    now: Any
    after: Any = None
    order: str | None = None
    named: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of columns among what was given."""
        return tuple(name for given in (self.now, self.after) if are_names(given) for name in given)


@dataclass(frozen=True, eq=False)
class InOrder:
    """One number per step, in the order of the steps."""

    values: Floats


def are_names(given: Any) -> bool:
    """Whether something is a list of names of columns."""
    return isinstance(given, (list, tuple)) and len(given) > 0 and all(isinstance(name, str) for name in given)


def kept_columns(*given: Any) -> list[str]:
    """The names of columns among what was given for policies."""
    found: list[str] = []
    for one in given:
        if isinstance(one, str) and one not in WORDS:
            found.append(one)
        elif isinstance(one, Probabilities):
            found.extend(one.columns)
        elif are_names(one):
            found.extend(one)
    return list(dict.fromkeys(found))


def by_name(log: Log, columns: Sequence[Any]) -> list[int] | None:
    """Where the actions are among columns that are named after them, as pi_low and pi_high; None where they are not."""
    actions = [str(label) for label in (log.action_labels or range(log.n_actions))]
    names = [str(column) for column in columns]
    for stem in dict.fromkeys(name.removesuffix(actions[0]) for name in names if name.endswith(actions[0])):
        if len(set(names)) == len(names) and {f"{stem}{action}" for action in actions} <= set(names):
            if log.action_labels is None and len(names) > len(actions):
                return None  # numbers beyond those of the log are more actions, in their order
            return [names.index(f"{stem}{action}") for action in actions]
    return None


def by_index(log: Log, name: str, given: Any) -> Any:
    """A pandas Series or DataFrame as the steps have it: rows by its index, columns of actions by their names."""
    kind = type(given)
    if kind.__module__.split(".")[0] != "pandas" or kind.__name__ not in ("Series", "DataFrame"):
        return given
    places = by_name(log, list(given.columns)) if kind.__name__ == "DataFrame" and log.discrete_actions else None
    values = given if places is None else given.iloc[:, places]
    length = len(log) if log.n_given is None else log.n_given
    if len(given) != length:
        return values.to_numpy()  # one row per step, or a table of states: refused or taken by its length
    rows = log.index if log.index is not None else range(length)
    if list(given.index) != list(rows):
        where = given.index.get_indexer(rows) if given.index.is_unique else np.array([-1])
        if (where < 0).any():
            raise InputError(
                f"the index of {name} is not that of the log's table, so its rows cannot be matched: give it the same "
                f"index, or {name}.to_numpy() where its rows are in the order of the table."
            )
        values = values.iloc[where]
    table = values.to_numpy()
    return (
        Probabilities(table, order="table", named=places is not None)
        if table.ndim == 2
        else InOrder(table[steps_in_table(log)])
    )


def from_table(log: Log, given: Any) -> Any:
    """Arrays that were given beside a table, as the steps of the log that was read from it have them."""
    given = by_index(log, "target", given)
    if isinstance(given, InOrder):
        return given
    if isinstance(given, Probabilities):
        return given if given.order else replace(given, order="table")
    if given is None or isinstance(given, str) or callable(given) or are_names(given) or log.n_given is None:
        return given
    length = len(given) if np.ndim(given) else 0
    if length != log.n_given:
        return given
    if np.ndim(given) == 1:
        return InOrder(np.asarray(given)[steps_in_table(log)])
    return Probabilities(given, order="table") if _by_row(log, given) else given


def steps_in_table(log: Log) -> Integers:
    """The row of the table that every step of the log was read from."""
    return np.arange(len(log)) if log.given is None else np.asarray(log.given[: len(log)])


def one_a_step(log: Log, name: str, given: Any) -> Floats:
    """One number per step, from an array as long as the log, or as the table that it was read from."""
    if isinstance(given, InOrder):
        return checks.finite_array(name, given.values, 1)
    values = checks.finite_array(name, given, 1)
    if len(values) == log.n_given and len(values) != len(log):
        return np.asarray(values[steps_in_table(log)])
    if len(values) != len(log):
        dropped = f", or per row of the table ({log.n_given})" if log.n_given not in (None, len(log)) else ""
        raise InputError(f"{name} needs one probability per step ({len(log)}){dropped}, got {len(values)}.")
    if log.n_given == len(log) and (steps_in_table(log) != np.arange(len(log))).any():
        other = values[steps_in_table(log)]
        if (other != values).any():
            raise InputError(
                f"the rows of {log.name} were sorted when it was read, and {name} may be in the order of either: read "
                "it with the log as a kept column, or give evaluate the table itself."
            )
    return values


def policy_over(log: Log, name: str, given: Any) -> Asked:
    """A policy of discrete actions, in whatever form, to be asked about rows of the log's observations."""
    if log.action is None:
        raise InputError(f"the log has no action column, so {name} cannot be asked about its actions: give an array.")
    if are_names(given):
        given = Probabilities(given)
    if isinstance(given, Probabilities):
        return Beside(log, name, given)
    if not callable(given) and not isinstance(given, str) and np.ndim(given) == 2 and _by_row(log, given):
        return Beside(log, name, Probabilities(given))
    policy = as_policy(name, given, log.n_actions, log.discrete_observations, more=True, labels=log.action_labels)
    return lambda rows: policy(log.observations[rows])


def _by_row(log: Log, given: Any) -> bool:
    """Whether an array has one row per row of the log, and is no table [states, actions]."""
    if len(given) not in (len(log), log.n_given):
        _refuse_almost(log, given)
        return False
    if not log.discrete_observations or log.observations.min() < 0:
        return True
    states = int(log.observations.max()) + 1
    if states > len(given) or MANY_STATES * states < len(given):
        return True
    rows = np.asarray(given)
    by_state, by_row = rows[log.observations[log.row]], _in_order(log, rows, None)
    if (by_state != by_row).any():
        raise InputError(
            f"{len(rows)} rows of probabilities may be one per state or one per row of the log, which has as many: "
            "give a function of the observations, or gradtd.logs.Probabilities(array) for one per row."
        )
    return True


def _refuse_almost(log: Log, given: Any) -> None:
    """Nobody has a table of so many more states than the log, and almost as many as it has rows."""
    rows = log.n_given or len(log)
    near = len(log) / 2 <= len(given) <= 2 * rows
    if log.discrete_observations and near and len(given) > MANY_STATES * (int(log.observations.max()) + 1):
        raise InputError(
            f"the array of probabilities has {len(given)} rows: a table [states, actions] would need about "
            f"{int(log.observations.max()) + 1}, and one row per row of the log {rows}."
        )


def _in_order(log: Log, values: Any, order: str | None) -> Any:
    """The rows of the steps."""
    as_table = order == "table" or (order is None and len(values) != len(log))
    return values[steps_in_table(log)] if as_table else values[: len(log)]


class Beside:
    """Probabilities of every action at rows of a log's observations, where they stand beside the rows of the log.

    The observation of a step has the probabilities of its row. One that only follows a step was either a row of the
    table that is no step, and has those of it, or stood beside the step, and has the step's ``after``.
    """

    def __init__(self, log: Log, name: str, given: Probabilities) -> None:
        self.log, self.name = log, name
        if given.order is not None:
            checks.one_of("order", given.order, ("table", "steps"))
        now = self._at_observations(given.now, given.order)
        known = ~np.isnan(now[:, 0])
        now[known] = checked_probabilities(name, now[known], int(known.sum()), log.n_actions, True)
        if given.after is not None:
            after = self._at_steps(given.after, given.order)
            if after.shape[1] != now.shape[1]:
                raise InputError(
                    f"{name} has {now.shape[1]} actions, and {after.shape[1]} after the step: give as many for both."
                )
            step = np.flatnonzero(~known[log.next_row] & ~log.terminated)
            now[log.next_row[step]] = checked_probabilities(name, after[step], len(step), log.n_actions, True)
        self.table = now

    def _at_observations(self, given: Any, order: str | None) -> Floats:
        """One row per observation of the log; NaN where nothing is known."""
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
        """One row per step."""
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
                f"{self.name} has probabilities for the rows of the log only, and {lost} next observations are no rows "
                "of it: give those for the next observations, too, as gradtd.logs.Probabilities(now, after) or with "
                "--next-target-probabilities."
            )
        return found
