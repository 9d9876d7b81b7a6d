"""Types of the arrays and records that the library uses, and functions that make frames and plain values from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core.checks import InputError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Plain = Callable[..., Any]
"""A plain Python function that the engine can compile."""
Words = NDArray[np.uint64]
Batch = NDArray[np.uint32]
Index = Any
"""An index of a step or a row: a Python or NumPy integer, unsigned in compiled code."""
State = Any
"""The state of an algorithm: a record with ``theta`` and the arrays of the algorithm's ``init``."""
Hyper = Any
"""A record of the numbers among an algorithm's hyper-parameters."""


def dense(table: Any) -> Floats:
    """A dense or sparse table as a dense array."""
    return np.asarray(table if isinstance(table, np.ndarray) else table.toarray(), np.float64)


def make_frame(rows: Sequence[Mapping[str, Any]] | Mapping[str, Any], index: str | None = None) -> Any:
    """A pandas frame from a list of records or a dictionary of columns. ``index`` names the index column."""
    try:
        import pandas
    except ImportError:
        raise InputError("to_frame needs pandas: pip install gradtd[frames].") from None
    made = pandas.DataFrame(rows)
    return made if index is None else made.set_index(index)


def entries_under(entries: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The entries whose names have this prefix, with the prefix removed."""
    return {name.removeprefix(prefix): value for name, value in entries.items() if name.startswith(prefix)}


def number_or_nan(value: Any) -> float:
    """The number, or NaN for JSON's null."""
    return float("nan") if value is None else float(value)


def plain(value: Any) -> Any:
    """Convert values to plain ones for JSON. Non-finite numbers become None."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    return value
