"""Codes of discrete actions, in an order that a policy's probabilities can have."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core.checks import InputError
from gradtd.logs.column_names import Roles, listed
from gradtd.logs.columns import Column, Facts, in_order, marked_actions
from gradtd.logs.understood import ALPHABET, CATEGORIES, NUMBERS

MANY, SPARSE = 10_000, 4
"""Whole numbers are used as codes directly, unless the largest exceeds both this and this multiple of the action count.
"""


def code_actions(
    found: Mapping[str, Column],
    roles: Roles,
    facts: Facts,
    said: Sequence[Any] | None = None,
    by_letters: Collection[str] = (),
) -> tuple[NDArray[Any] | None, tuple[Any, ...] | None, str]:
    """Codes and labels of discrete actions, and the source of their order; real-valued actions are returned as floats.

    Whole numbers from 0 up are their own codes, so that they index a policy's table. ``said`` has all actions in order.
    ``by_letters`` are columns of categories whose order nobody chose.
    """
    parts = [found[f"action.{name}"] for name in roles.several.get("action", ())]
    if not parts:
        return None, None, ""
    if not facts.real_actions and (marks := marked_actions(found, roles)) is not None:
        if said is not None and len(said) != marks.shape[1]:
            raise InputError(f"the action has {marks.shape[1]} columns, and actions={list(said)!r} names {len(said)}.")
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
    """Codes of a further column if its entries are some of the log's actions; else None."""
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
