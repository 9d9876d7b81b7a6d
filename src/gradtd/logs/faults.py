"""Lists all faults of a table after the first one: every column is checked separately."""

from __future__ import annotations

from typing import Any

from gradtd.core.checks import Faults, InputError
from gradtd.logs.chances import check_chances
from gradtd.logs.column_names import Roles
from gradtd.logs.columns import Column, gather
from gradtd.logs.encoding import count_missing
from gradtd.logs.tables import Table


def find_faults(table: Table, roles: Roles, first: InputError) -> Faults:
    """The fault that stopped the reader, and the faults of other columns."""
    faults = Faults()
    faults.errors.append(first)
    found = faults.attempt(gather, table, roles)
    if found is not None:
        for role, column in found[0].items():
            if any(repr(column.name) in str(error) for error in faults.errors):
                continue  # report one fault per column
            work = _check_of(role, column, roles, table)
            if work is not None:
                faults.attempt(work)
    told = _attempted(missing_told, table, roles)
    if told and told not in str(first):
        faults.add(f"the observation lacks values.{told}")
    return faults


def _check_of(role: str, column: Column, roles: Roles, table: Table) -> Any:
    """The function that reads a column of this role."""
    if role in ("behaviour", "target"):
        real = any(table.kinds[name] in ("real", "list") for name in roles.several.get("action", ()))
        return lambda: check_chances(f"column {column.name!r}", column.numbers(), role, real)
    if role.startswith("action."):
        return column.actions
    named = {"episode": column.ranks, "t": column.times, "reward": column.numbers}
    flags = dict.fromkeys(("terminated", "truncated", "start"), column.flags)
    return (named | flags | {"rho": column.numbers}).get(role)


def _attempted(work: Any, *arguments: Any) -> Any:
    try:
        return work(*arguments)
    except InputError:
        return None


def missing_told(table: Table, roles: Roles) -> str:
    """A sentence on missing values per column and what to do; empty if there are none."""
    counts, _, _ = count_missing(table, roles.several["observation"], roles.several.get("next_observation", []))
    told = ", ".join(f"{name!r} ({count})" for name, count in counts.items() if count)
    way = "Drop these rows with missing='drop', or add indicator columns with missing='indicator'."
    return f" Missing values: {told}. {way}" if told else ""
