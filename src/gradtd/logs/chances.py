"""Probabilities of the actions taken, and further columns: checked, and converted where they are logarithms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.logs.column_names import BY_NAME, Roles, spelled
from gradtd.logs.columns import Column, Facts, facts_of, refuse_rows
from gradtd.logs.steps import Flags

SMALLEST = float(np.finfo(np.float64).tiny)
"""Below it numbers have fewer digits: a ratio with one below the line may be off by a half."""


def chances(
    found: Mapping[str, Column], roles: Roles, logs: str, facts: Facts, notes: list[str]
) -> dict[str, Floats | None]:
    """Probabilities of the action taken, and ratios, in the range they must have."""
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
    """Refuse a column named "target" that holds the target's actions instead of probabilities."""
    bare = spelled(column.name) in ("target", "behaviour", "behavior") and roles.why.get(kind) == BY_NAME
    if bare and (column.labels is not None or column.kind in ("whole", "truth")):
        holds = "text" if column.labels is not None else "whole numbers"
        raise InputError(
            f"column {column.name!r} holds {holds}, but needs probabilities of the actions taken. If they are "
            f"that, say columns={{{kind!r}: {column.name!r}}}. If they are actions, say columns={{{kind!r}: None}} and "
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
        refuse_rows(what, bad, values, f"must be at least {SMALLEST:.3g}, as smaller numbers lose digits", rows, cure)
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
        sign = "is named as logarithms" if named else "holds logarithms (none is above 0)"
        raise InputError(
            f"column {column.name!r} {sign} of probabilities: take exp of them, "
            'or read with log_probabilities="convert".'
        )
    return _converted(column.name, values, never, notes)


def kept(column: Column, logs: str, facts: Facts, notes: list[str]) -> Floats:
    """The numbers of a further column, exponentiated if they are logarithms to convert."""
    if logs != "convert" or not facts.are_logarithms(column.name):
        return column.numbers()
    filled, never = _without_zero(column)
    return _converted(column.name, filled.numbers(), never, notes)


def kept_earlier(extra: Mapping[str, Floats], names: Iterable[str]) -> tuple[dict[str, Floats], list[str]]:
    """Further columns of an existing log, with these ones converted from logarithms, and the notes on it."""
    notes: list[str] = []
    columns = {f"keep.{name}": Column(name, extra[name]) for name in names if name in extra}
    facts = facts_of(columns, Roles(keep=tuple(column.name for column in columns.values())))
    return dict(extra) | {c.name: kept(c, "convert", facts, notes) for c in columns.values()}, notes


def _without_zero(column: Column) -> tuple[Column, Flags | None]:
    """The column with -1 in place of minus infinity (the logarithm of 0), and where that was."""
    if column.values.dtype.kind != "f" or column.values.ndim != 1:
        return column, None
    never = np.isneginf(column.values)
    return Column(column.name, np.where(never, -1.0, column.values), column.missing), never


def _converted(name: str, values: Floats, never: Flags | None, notes: list[str]) -> Floats:
    with np.errstate(over="ignore"):
        chance = np.exp(values) if never is None else np.where(never, 0.0, np.exp(values))
    refuse_rows(f"exp of column {name!r}", ~np.isfinite(chance), chance, "must be finite")
    notes.append(f"Column {name!r} held logarithms of probabilities: converted.")
    return chance
