"""Storage of a rule's vectors for sparse features, as the rule declares it (`vectors`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gradtd.compiled.vectors import Cleared, Scaled, Touched, Weights
from gradtd.core.algorithm import Storage
from gradtd.core.arrays import Floats


class SparseState(NamedTuple):
    """The vectors of a rule on sparse features: all fields, the table of lasting ones, and the cleared ones."""

    fields: dict[str, Any]
    table: Floats
    touched: Touched
    cleared: Floats


def sparse_state(state: Mapping[str, Any], storage: Mapping[str, Storage], averaged: bool, limit: float) -> SparseState:
    """Convert a rule's state to sparse storage, as the rule declares it.

    Vectors that last from one update to the next are in one table with a row per feature, so that one memory access
    loads all entries of a feature.
    """
    d = len(state["theta"])
    clear = [name for name, kind in storage.items() if kind is Storage.CLEARED]
    stay = [name for name, field in state.items() if field.shape == (d,) and field.dtype == float and name not in clear]
    table = _aligned_table(d, len(stay) + averaged + bool(clear))
    place = table.view(np.uint32)[:, -2] if clear else np.zeros(0, np.uint32)
    fields = dict(state)
    for i, name in enumerate(stay):
        table[:, i] = state[name]
        fields[name] = table[:, i]
    touched = Touched(place, np.empty(d, np.uint32), np.zeros(1, np.int64))
    cleared = np.zeros((len(clear), d))  # pages that are never written take no memory
    for name, values in zip(clear, cleared, strict=True):
        fields[name] = Cleared(values, touched)
    for name, kind in storage.items():
        if kind is Storage.SCALED:
            square = float(state[name] @ state[name])
            fields[name] = Scaled(fields[name], np.array([1.0, square, square]))
    lag = table[:, len(stay)] if averaged else table[:0, 0]
    fields["theta"] = Weights(fields["theta"], lag, np.array([0.0, 0.0, limit]))
    return SparseState(fields, table, touched, cleared)


def _aligned_table(rows: int, columns: int) -> Floats:
    """A table of zeros whose rows do not cross cache lines, if there are not too many columns."""
    width = next((n for n in (1, 2, 4, 8, 16) if n >= columns), columns)
    room = np.empty(8 * rows * width + 64, np.uint8)
    begin = -room.ctypes.data % 64
    table = room[begin : begin + 8 * rows * width].view(np.float64).reshape(rows, width)
    table[:] = 0.0  # write all of it at once, so that the system can use large pages
    return table


def share_cleared(run: Any) -> Any:
    """After a run was copied or unpickled, make its cleared vectors views of the rows of ``cleared`` again."""
    own = [field for field in run.state if isinstance(field, Cleared)]
    if not own or np.may_share_memory(own[0].values, run.cleared):
        return run
    run.cleared[:], run.touched.size[0] = 0.0, 0
    rows = iter(run.cleared)
    fields = [Cleared(next(rows), run.touched) if isinstance(f, Cleared) else f for f in run.state]
    return run._replace(state=type(run.state)(*fields))
