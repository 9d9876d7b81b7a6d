"""How the vectors of a rule are kept where features are sparse: made from what the rule says of them (`vectors`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gradtd.compiled.drifting import LIMIT, Course, Drifting, Leading, Shrinking
from gradtd.compiled.listed import Former, Listed, Recorded, empty_list
from gradtd.compiled.vectors import Cleared, Difference, Scaled, Touched, Weights
from gradtd.core.arrays import Floats


class SparseState(NamedTuple):
    """The vectors of a rule on sparse features: all fields, the table of those that stay, and those cleared."""

    fields: dict[str, Any]
    table: Floats
    touched: Touched
    cleared: Floats


def sparse_state(state: Mapping[str, Any], kept: Mapping[str, str], averaged: bool, limit: float) -> SparseState:
    """The same state, kept as a rule says that its vectors may be."""
    d = len(state["theta"])
    stay = [n for n, field in state.items() if field.shape == (d,) and field.dtype == float and _stays(kept.get(n, ""))]
    clear = [n for n, kind in kept.items() if kind == "cleared"]
    table = in_lines(d, len(stay) + averaged + bool(clear))
    place = table.view(np.uint32)[:, -2] if clear else np.zeros(0, np.uint32)
    fields = dict(state)
    for i, name in enumerate(stay):
        table[:, i] = state["theta" if kept.get(name) == "begins as theta" else name]
        fields[name] = table[:, i]
    touched = Touched(place, np.empty(d, np.uint32), np.zeros(1, np.int64))
    cleared = np.zeros((len(clear), d))  # pages that nobody writes to take no memory
    for name, values in zip(clear, cleared, strict=True):
        fields[name] = Cleared(values, touched)
    for name, kind in kept.items():
        if kind == "scaled":
            square = float(state[name] @ state[name])
            fields[name] = Scaled(fields[name], np.array([1.0, square, square]))
    lag = table[:, len(stay)] if averaged else table[:0, 0]
    fields["theta"] = Weights(fields["theta"], lag, np.array([0.0, 0.0, limit]))
    _let_drift(fields, kept)
    return SparseState(fields, table, touched, cleared)


def _stays(kind: str) -> bool:
    """Whether a vector has entries of its own from one update to the next."""
    return kind not in ("cleared", "met", "listed", "former theta") and " less " not in kind


def _let_drift(fields: dict[str, Any], kept: Mapping[str, str]) -> None:
    """Make the vectors that drift, those they drift along, their differences and the columns met."""
    theta = fields["theta"]
    d = len(theta.values)
    for name, kind in kept.items():
        if kind == "met":
            fields[name] = Touched(np.zeros(d, np.uint32), np.empty(d, np.uint32), np.zeros(1, np.int64))
        elif kind == "shrinks":
            fields["theta"] = own = _drifting(theta, theta, fields[name])
            fields[name] = Shrinking(fields[name], np.ones(1), own)
        elif kind == "listed":
            fields[name] = empty_list(d)
        elif kind == "former theta":
            changes = empty_list(d)
            fields["theta"], fields[name] = _recorded(theta, changes), Former(theta.values, changes)
        elif name == "theta":
            of = kind.removeprefix("course of ")
            fields[of] = _drifting(fields[of], theta, theta.values)
            fields["theta"] = Leading(theta.values, theta.lag, theta.numbers, fields[of])
        elif kind.startswith("course of "):
            of = kind.removeprefix("course of ")
            fields[of] = _drifting(fields[of], theta, fields[name])
            fields[name] = Course(fields[name], fields[of])
    for name, kind in kept.items():
        if " less " in kind:
            one, other = kind.split(" less ")
            fields[name] = Difference(fields[one], fields[other])


def _recorded(theta: Weights, changes: Listed) -> Recorded:
    return Recorded(theta.values, theta.lag, theta.numbers, changes)


def _drifting(own: Any, theta: Weights, course: Floats) -> Drifting:
    """A vector that drifts: theta, with its lag and its limit, or another one."""
    if own is theta:
        return Drifting(theta.values, theta.lag, np.array([0.0, 0.0, theta.numbers[LIMIT], 0.0, 0.0, 0.0]), course)
    return Drifting(own, theta.lag[:0], np.array([0.0, 0.0, np.inf, 0.0, 0.0, 0.0]), course)


def in_lines(rows: int, columns: int) -> Floats:
    """A table of zeros whose rows do not cross lines of the cache, as far as there are not too many columns."""
    width = next((n for n in (1, 2, 4, 8, 16) if n >= columns), columns)
    room = np.empty(8 * rows * width + 64, np.uint8)
    begin = -room.ctypes.data % 64
    table = room[begin : begin + 8 * rows * width].view(np.float64).reshape(rows, width)
    table[:] = 0.0  # at once, so that pages are large where the system has such
    return table


def kept_together(run: Any) -> Any:
    """A run whose cleared vectors are the rows of ``cleared``: those of a copied or unpickled one are not any more."""
    own = [field for field in run.state if isinstance(field, Cleared)]
    if not own or np.may_share_memory(own[0].values, run.cleared):
        return run
    run.cleared[:], run.touched.size[0] = 0.0, 0
    rows = iter(run.cleared)
    fields = [Cleared(next(rows), run.touched) if isinstance(f, Cleared) else f for f in run.state]
    return run._replace(state=type(run.state)(*fields))
