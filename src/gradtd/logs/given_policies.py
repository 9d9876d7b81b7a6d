"""Prepares the policies given with a log: arrays, frames and columns with one entry per row, and functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.logs.answers import Actions, codes_of, one_hot
from gradtd.logs.column_names import listed
from gradtd.logs.log import Log
from gradtd.logs.models import is_model
from gradtd.logs.policies import WORDS, Asked, Policy, as_policy, is_constant, spelled
from gradtd.logs.read import read_log
from gradtd.logs.row_policies import (
    Beside,
    ByRow,
    InOrder,
    Probabilities,
    are_names,
    by_name,
    kept_columns,
    steps_in_table,
)
from gradtd.logs.sources import open_table
from gradtd.logs.tables import plain_array

MANY_STATES = 4
"""An array with as many rows as the log is not a policy table if it has more rows than this multiple of the states."""


def by_index(log: Log, name: str, given: Any) -> Any:
    """Align a Series or DataFrame with the steps: rows by pandas index, columns of actions by name."""
    kind = type(given)
    library = kind.__module__.split(".")[0]
    if library not in ("pandas", "polars") or kind.__name__ not in ("Series", "DataFrame"):
        return given
    places = by_name(log, list(given.columns)) if kind.__name__ == "DataFrame" and log.discrete_actions else None
    length = len(log) if log.n_given is None else log.n_given
    if library == "polars":
        table = given.to_numpy() if places is None else given.to_numpy()[:, places]
        return Probabilities(table, named=True) if places is not None and len(table) == length else table
    values = given if places is None else given.iloc[:, places]
    rows = log.index if log.index is not None else range(length)
    has_rows = log.index is not None and given.index.is_unique and set(rows) <= set(given.index)
    if len(given) != length and not has_rows:
        if kind.__name__ == "DataFrame" and len(given) != len(log) and list(given.index) != list(range(len(given))):
            raise InputError(
                f"{name} has one row per state, and its index is not 0, 1, 2, ... in order: sort it by state, or use "
                f"{name}.reset_index(drop=True) if row i is state i, or give a dictionary by state."
            )
        return values.to_numpy()  # one row per step or one per state, decided by its length
    if list(given.index) != list(rows):
        where = given.index.get_indexer(rows) if given.index.is_unique else np.array([-1])
        if (where < 0).any():
            raise InputError(
                f"the index of {name} differs from that of the log's table, so its rows cannot be matched: give it the "
                f"same index, or {name}.to_numpy() if its rows are in the order of the table."
            )
        values = values.iloc[where]
    table = values.to_numpy()
    if table.ndim == 1:
        return _of_rows(log, name, table, "table")
    return Probabilities(table, order="table", named=places is not None)


def read_beside(source: Any, policies: Mapping[str, Any], **reading: Any) -> tuple[Log, dict[str, Any]]:
    """The log, read with the columns that its policies need, and the policies aligned with its steps.

    ``policies`` is a dictionary by name; the behaviour policy's name is "behaviour".
    """
    policies = {name: spelled(policy) for name, policy in policies.items()}
    if isinstance(source, Log):
        return _in_bins(read_log(source, keep=kept_columns(*policies.values()), **reading), dict(policies))
    table = open_table(source)
    log = read_log(table, keep=kept_columns(*policies.values(), known=table.kinds), **reading)
    for policy in policies.values():
        if isinstance(policy, str) and policy not in (*WORDS, *table.kinds) and not is_action(log, policy):
            actions = f" or action; the actions are {listed(log.action_labels)}" if log.action_labels else ""
            raise InputError(f"there is no column {policy!r}{actions}; the columns are {listed(table.kinds)}.")
    said = {name: "behaviour" if name == "behaviour" else "target" for name in policies}
    return _in_bins(log, {name: prepared(log, said[name], policy, "table") for name, policy in policies.items()})


def _in_bins(log: Log, policies: dict[str, Any]) -> tuple[Log, dict[str, Any]]:
    """Replace the log's continuous action by bins if a policy chooses among bins."""
    binned = [policy.bins for policy in policies.values() if getattr(policy, "bins", None) is not None]
    if not binned or log.action is None or log.discrete_actions:
        return log, policies
    if any(not np.array_equal(one.edges, binned[0].edges) for one in binned):
        raise InputError("the policies have different bins of the action: evaluate them one at a time.")
    return binned[0].of(log), policies | {"behaviour": policies.get("behaviour") or "estimate"}


def is_action(log: Log, word: str) -> bool:
    """Whether a word is an action label of the log."""
    return log.discrete_actions and word in map(str, log.action_labels or range(log.n_actions))


def prepared(log: Log, name: str, given: Any, order: str | None = None) -> Any:
    """Prepare a policy: arrays with one entry per row become probabilities of the steps.

    ``order`` says whether arrays follow the table or the steps. A prepared policy is returned unchanged.
    """
    given = by_index(log, name, given)
    if given is None or isinstance(given, InOrder | Asked) or callable(given) or isinstance(given, Mapping):
        return given
    if isinstance(given, Probabilities):
        if not are_names(given.now) and np.ndim(given.now) == 1:
            return _of_rows(log, name, np.asarray(given.now), given.order or order, sure=True)
        return given if given.order or order is None else replace(given, order=order)
    if isinstance(given, str):
        return _of_rows(log, name, log.chosen[given], "steps", coded=True) if given in log.chosen else given
    if is_model(given) or is_constant(given):
        return given
    if are_names(given) and not _are_labels(log, given):
        return given
    values = np.asarray(plain_array(given))
    if values.ndim == 1:
        made = _of_rows(log, name, values, order)
    elif order == "table" and len(values) == log.n_given and _by_row(log, values):
        made = Probabilities(values, order=order)
    else:
        return values
    return replace(made, notes=(*made.notes, *_index_note(log, name)))


def _index_note(log: Log, name: str) -> tuple[str, ...]:
    """A warning about an array without an index, given with a frame whose rows were reordered."""
    numbers = log.index is not None and getattr(log.index, "dtype", np.dtype(object)).kind in "iu"
    if not numbers or not log.index.is_unique or log.index.is_monotonic_increasing:
        return ()
    return (
        f"The index of the frame is not in order, so its rows were reordered, and {name} is an array without an index: "
        f"gradtd used the current order of the rows. If the array was made before they were reordered, give a Series "
        f"with the frame's index.",
    )


def _are_labels(log: Log, given: Sequence[str]) -> bool:
    return len(given) in (len(log), log.n_given) and not set(given) <= set(log.extra) and bool(log.action_labels)


def _of_rows(log: Log, name: str, values: Any, order: str | None, *, sure: bool = False, coded: bool = False) -> Any:
    """One entry per row: text, whole numbers and truth values are actions, other numbers are probabilities.

    ``sure``: the numbers are known to be probabilities. ``coded``: they are known to be action codes.
    """
    _refuse_length(log, name, len(values))
    if order is None and len(values) == log.n_given and len(values) != len(log):
        order = "table"
    if values.dtype == object and all(isinstance(one, str) for one in values):
        values = values.astype(str)
    one_or_none = values.dtype.kind in "biuf" and bool(np.isin(values, (0, 1)).all())
    if sure or not log.discrete_actions or log.action is None or values.dtype.kind not in "biufU":
        return _taken(log, name, values, order, sure=sure)
    if values.dtype.kind == "f" and not coded:
        return _taken(log, name, values, order, one_or_none)
    if values.dtype.kind == "b" and log.n_actions > 2:
        raise InputError(
            f"{name} contains truth values, and the log has {log.n_actions} actions: give the target's actions, "
            "or, if True means that it takes the action of the row, use .astype(float)."
        )
    codes = values if coded else codes_of(name, values, Actions(log.n_actions, log.action_labels))
    notes: tuple[str, ...] = ()
    if one_or_none and log.action_labels is None:
        notes = (
            f"{name} contains only the whole numbers 0 and 1: they were read as the target's actions. If they "
            f"are probabilities of the actions taken, use {name}=gradtd.logs.Probabilities(array).",
        )
    if order is None:
        _refuse_either_order(log, name, codes)
    return Probabilities(one_hot(codes.astype(np.int64), log.n_actions), order=order, named=True, notes=notes)


def _taken(
    log: Log, name: str, values: Any, order: str | None, one_or_none: bool = False, sure: bool = False
) -> InOrder:
    """The probabilities of the actions taken, in the order of the steps."""
    notes: tuple[str, ...] = ()
    say = (
        f"use {name}=gradtd.logs.Probabilities(array) if they are probabilities of the actions taken, and "
        f"{name}=array.astype(int) if they are actions"
    )
    if one_or_none and log.n_actions <= 2 and len(np.unique(values)) == 2:
        raise InputError(f"{name} contains only 0.0 and 1.0, which may be probabilities or actions: {say}.")
    if one_or_none:
        notes = (f"{name} contains only 0.0 and 1.0: {say}. They were read as probabilities.",)
    real = log.action is not None and not log.discrete_actions
    if real and values.dtype.kind in "iuf" and (values < 0).any():
        raise InputError(
            f"{name} has negative numbers, so they cannot be densities. If they are actions, give "
            f"the policy as a function, {name}=model.predict, with value_function='action'."
        )
    if real and not isinstance(order, str):
        notes = (*notes, f"{name} has one number per row: they were read as densities of the actions taken.")
    values = checks.finite_array(name, values, 1)
    steps = values[steps_in_table(log)] if order == "table" else one_a_step(log, name, values)
    if not sure and log.discrete_actions and log.n_actions == 2 and not one_or_none:
        notes = (
            *notes,
            f"{name} has one number per row: it was read as the probability of the action taken in that row. If it is "
            f"the probability of action {(log.action_labels or (0, 1))[1]}, give both columns, "
            "numpy.column_stack([1 - p, p]).",
        )
    return InOrder(steps, notes, sure)


def one_a_step(log: Log, name: str, given: Any) -> Floats:
    """One number per step, from an array of the length of the log or of its table."""
    if isinstance(given, InOrder):
        return checks.finite_array(name, given.values, 1)
    values = checks.finite_array(name, given, 1)
    _refuse_length(log, name, len(values))
    if len(values) == log.n_given and len(values) != len(log):
        return np.asarray(values[steps_in_table(log)])
    _refuse_either_order(log, name, values)
    return values


def _refuse_length(log: Log, name: str, length: int) -> None:
    if length not in (len(log), log.n_given):
        dropped = f", or per row of the table ({log.n_given})" if log.n_given not in (None, len(log)) else ""
        every = log.discrete_actions and length == log.n_actions
        hint = " If the policy is the same in all states, use lambda s: numpy.tile(p, (len(s), 1))." if every else ""
        raise InputError(f"{name} needs one probability or action per step ({len(log)}){dropped}, got {length}.{hint}")


def _refuse_either_order(log: Log, name: str, values: Any) -> None:
    """Refuse an array if the log's rows were sorted, since it may be in the order before or after sorting."""
    if len(values) == len(log) == log.n_given and (values[steps_in_table(log)] != values).any():
        raise InputError(
            f"the rows of {log.name} were sorted when it was read, and {name} may be in the order before or after: "
            "read it as a kept column of the log, or pass the table itself to evaluate."
        )


def policy_over(log: Log, name: str, given: Any) -> ByRow:
    """A policy of discrete actions, in any form, as a function of rows of the log's observations."""
    if log.action is None:
        raise InputError(f"the log has no action column, so {name} cannot be evaluated as a function: give an array.")
    given = prepared(log, name, given)
    if are_names(given):
        given = Probabilities(given)
    if isinstance(given, Probabilities):
        return Beside(log, name, given)
    if isinstance(given, np.ndarray) and given.ndim == 2 and _by_row(log, given):
        return Beside(log, name, Probabilities(given))
    return Observed(log, policy_of(log, name, given))


def policy_of(log: Log, name: str, given: Any) -> Policy:
    """A policy as a function of this log's observations."""
    names, known = component_names(log), (log.n_actions, log.discrete_observations)
    if hasattr(given, "for_log"):  # a policy with named actions
        given = given.for_log(log)
    return as_policy(name, given, *known, more=True, labels=log.action_labels, columns=names)


def component_names(log: Log) -> tuple[tuple[str, ...], ...]:
    """Names of the observation's components: gradtd's, and those of the table's columns."""
    used = next((use.columns for use in log.understood.columns if use.role == "observation"), ())
    return (log.observation_names, used)


@dataclass(frozen=True, eq=False)
class Observed:
    """A policy, called with rows of a log's observations."""

    log: Log
    policy: Policy

    def __call__(self, rows: Any) -> Floats:
        return self.policy(self.log.observations[rows])

    @property
    def notes(self) -> tuple[str, ...]:
        return getattr(self.policy, "notes", ())

    @property
    def by_position(self) -> bool:
        return getattr(self.policy, "by_position", False)


def _by_row(log: Log, given: Any) -> bool:
    """Whether an array has one row per row of the log and is not a table [states, actions]."""
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
            f"{len(rows)} rows of probabilities may be one per state or one per row, since the log has as many rows: "
            "give a function of the observations, or gradtd.logs.Probabilities(array) for one per row."
        )
    return True


def _refuse_almost(log: Log, given: Any) -> None:
    """Refuse a policy table with many more rows than the log has states, and almost as many as the log has rows."""
    rows = log.n_given or len(log)
    near = len(log) / 2 <= len(given) <= 2 * rows
    if log.discrete_observations and near and len(given) > MANY_STATES * (int(log.observations.max()) + 1):
        raise InputError(
            f"the array of probabilities has {len(given)} rows: a table [states, actions] would need about "
            f"{int(log.observations.max()) + 1}, and one row per row of the log {rows}."
        )


def _in_order(log: Log, values: Any, order: str | None) -> Any:
    """The entries of the table's rows in the order of the steps."""
    as_table = order == "table" or (order is None and len(values) != len(log))
    return values[steps_in_table(log)] if as_table else values[: len(log)]
