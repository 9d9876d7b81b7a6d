"""Actions as codes, in the order of their probabilities, and the probabilities of the actions taken."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.logs.column_names import BY_NAME, Roles, listed, spelled
from gradtd.logs.columns import Column, Facts, facts_of, in_order, marked_actions, refuse_rows
from gradtd.logs.steps import Flags
from gradtd.logs.understood import ALPHABET, CATEGORIES, NUMBERS

MANY, SPARSE = 10_000, 4
"""Whole numbers are used as codes directly, unless the largest exceeds both of these: this number, and this multiple of
the number of actions.
"""


def code_actions(
    found: Mapping[str, Column],
    roles: Roles,
    facts: Facts,
    said: Sequence[Any] | None = None,
    by_letters: Collection[str] = (),
) -> tuple[NDArray[Any] | None, tuple[Any, ...] | None, str]:
    """The codes and labels of discrete actions, and the source of their order. Continuous actions are returned as
    floats.

    Whole numbers from 0 up are their own codes, so that they can index a policy's table. ``said`` is the user's list of
    all actions in order. ``by_letters`` names categorical columns whose order was not chosen.
    """
    parts = [found[f"action.{name}"] for name in roles.several.get("action", ())]
    if not parts:
        return None, None, ""
    if not facts.real_actions and (marks := marked_actions(found, roles)) is not None:
        if said is not None and len(said) != marks.shape[1]:
            raise InputError(
                f"the action has {marks.shape[1]} columns, and actions={list(said)!r} names {len(said)}: name each "
                "column."
            )
        return marks.argmax(axis=1), None if said is None else tuple(said), NUMBERS if said is None else "said"
    if len(parts) > 1:
        return np.column_stack([part.numbers() for part in parts]), None, ""
    column, values = parts[0], parts[0].actions()
    if facts.real_actions and said is not None and values.ndim == 1:
        codes_of = {float(label): code for code, label in enumerate(said)}
        _as_said(column.name, np.unique(values).tolist(), [*codes_of])
        return np.array([codes_of[one] for one in values.tolist()], np.int64), tuple(said), "said"
    if facts.real_actions:
        return values.astype(np.float64), None, ""
    known, order = sorted(facts.actions), NUMBERS
    if column.labels is not None:
        known, order = in_order(facts.actions), ALPHABET
    if said is not None:
        known, order = _as_said(column.name, known, said), "said"
    elif facts.order:
        known, order = list(facts.order), ALPHABET if column.name in by_letters else CATEGORIES
    place = {label: code for code, label in enumerate(known)}
    if column.labels is not None:
        codes = np.array([place.get(label, -1) for label in column.labels], np.int64)
        return codes[values], tuple(known), order
    if said is None and known[0] >= 0 and known[-1] <= max(MANY, SPARSE * len(known)):
        return values, None, order
    rank = np.argsort(np.array(known))
    return rank[np.searchsorted(np.array(known)[rank], values)].astype(np.int64), tuple(known), order


def chosen_actions(column: Column, labels: tuple[Any, ...] | None, known: Any) -> NDArray[Any] | None:
    """The codes of another column, or None if any entry is not an action of the log."""
    if column.missing is not None and column.missing.any():
        return None
    if column.labels is not None:
        place = {label: code for code, label in enumerate(labels or ())}
        codes = np.array([place.get(label, -1) for label in column.labels] or [0], np.int64)[column.values]
        return codes if (codes >= 0).all() else None
    if column.kind not in ("whole", "truth") or column.values.ndim != 1 or known is None or not len(column.values):
        return None
    values = column.values.astype(np.int64)
    if not (values == column.values).all() or (labels is not None and isinstance(labels[0], str)):
        return None
    if not np.isin(values, known).all():
        return None
    if labels is None:
        return values
    rank = np.argsort(np.array(labels))
    return rank[np.searchsorted(np.array(labels)[rank], values)].astype(np.int64)


def _as_said(column: str, known: list[Any], said: Sequence[Any]) -> list[Any]:
    given = list(said)
    if isinstance(said, str) or len(set(given)) < len(given):
        raise InputError(f"actions must list every action once, in order, got {said!r}.")
    if left := [one for one in known if one not in given]:
        raise InputError(f"column {column!r} has actions that actions={given!r} does not list: {listed(left)}.")
    return given


SMALLEST = float(np.finfo(np.float64).tiny)
"""Smaller numbers lose digits: a ratio with such a number may be off by half of its size."""


def chances(
    found: Mapping[str, Column], roles: Roles, logs: str, facts: Facts, notes: list[str]
) -> dict[str, Floats | None]:
    """The probabilities of the action taken and the ratios, with their ranges checked."""
    real_action = facts.real_actions
    result: dict[str, Floats | None] = {"behaviour": None, "target": None, "rho": None}
    for kind in ("behaviour", "target"):
        role = f"{kind}_log" if f"{kind}_log" in roles.single else kind
        if role in roles.single:
            _refuse_actions(found[role], roles, kind)
            name, values = roles.single[role], _probabilities(found[role], role, logs, facts, notes)
            result[kind] = check_chances(f"column {name!r}", values, kind, real_action)
    if "rho" in roles.single:
        name, ratio = roles.single["rho"], found["rho"].numbers()
        refuse_rows(f"column {name!r}", ratio < 0, ratio, "must not be negative")
        result["rho"] = ratio
    return result


def _refuse_actions(column: Column, roles: Roles, kind: str) -> None:
    """Refuse a column named "target" that contains the target's actions instead of probabilities."""
    bare = spelled(column.name) in ("target", "behaviour", "behavior") and roles.why.get(kind) == BY_NAME
    if bare and (column.labels is not None or column.kind in ("whole", "truth")):
        holds = "text" if column.labels is not None else "whole numbers"
        raise InputError(
            f"column {column.name!r} contains {holds}, but must contain probabilities of the actions taken. If they "
            f"are "
            f"that, use columns={{{kind!r}: {column.name!r}}}. If they are actions, use columns={{{kind!r}: None}} and "
            f"{kind}={column.name!r}."
        )


def check_chances(what: str, values: Floats, kind: str, densities: bool, rows: Integers | None = None) -> Floats:
    """Check the range: (0, 1] for the behaviour, which took the action, [0, 1] for the target. Densities may exceed 1.

    ``rows`` are the table's rows of the values, if not all rows in order.
    """
    bad = values < SMALLEST if kind == "behaviour" else values < 0
    if kind == "behaviour" and bad.any():
        zero = values <= 0
        refuse_rows(what, zero, values, "must be above 0 since the action was taken", rows)
        cure = " Give the ratios instead, in a column rho: exp(log target - log behaviour)."
        refuse_rows(
            what, bad, values, f"must be at least {SMALLEST:.3g}, because smaller numbers lose digits", rows, cure
        )
    refuse_rows(what, bad, values, "must be at least 0", rows)
    if not densities:
        percent = "; divide percentages by 100" if values.max(initial=0.0) > 2 else ""
        refuse_rows(what, values > 1 + 1e-9, values, f"must be at most 1{percent}", rows)
    return values


def _probabilities(column: Column, role: str, logs: str, facts: Facts, notes: list[str]) -> Floats:
    named = role.endswith("_log")
    column, never = _without_zero(column) if named else (column, None)
    values = column.numbers()
    if not named and not facts.are_logarithms(column.name):
        return values
    if logs != "convert":
        sign = (
            "is named as logarithms of probabilities"
            if named
            else "contains logarithms of probabilities (none is above 0)"
        )
        raise InputError(f'column {column.name!r} {sign}: exponentiate them, or read with log_probabilities="convert".')
    return _converted(column.name, values, never, notes)


def kept(column: Column, logs: str, facts: Facts, notes: list[str]) -> Floats:
    """The numbers of a kept column, exponentiated if they are logarithms to convert."""
    if logs != "convert" or not facts.are_logarithms(column.name):
        return column.numbers()
    filled, never = _without_zero(column)
    return _converted(column.name, filled.numbers(), never, notes)


def kept_earlier(extra: Mapping[str, Floats], names: Iterable[str]) -> tuple[dict[str, Floats], list[str]]:
    """The kept columns of an existing log, those in logarithms converted, and notes about the conversion."""
    notes: list[str] = []
    columns = {f"keep.{name}": Column(name, extra[name]) for name in names if name in extra}
    facts = facts_of(columns, Roles(keep=tuple(column.name for column in columns.values())))
    return dict(extra) | {c.name: kept(c, "convert", facts, notes) for c in columns.values()}, notes


def _without_zero(column: Column) -> tuple[Column, Flags | None]:
    """The column with -1 in place of minus infinity (the logarithm of 0), and a mask of the replaced entries."""
    if column.values.dtype.kind != "f" or column.values.ndim != 1:
        return column, None
    never = np.isneginf(column.values)
    return Column(column.name, np.where(never, -1.0, column.values), column.missing), never


def _converted(name: str, values: Floats, never: Flags | None, notes: list[str]) -> Floats:
    with np.errstate(over="ignore"):
        chance = np.exp(values) if never is None else np.where(never, 0.0, np.exp(values))
    refuse_rows(f"exp of column {name!r}", ~np.isfinite(chance), chance, "must be finite")
    notes.append(f"Column {name!r} contained logarithms of probabilities: converted.")
    return chance
