"""Rows as a pandas frame, where pandas is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gradtd.core.checks import InputError


def make_frame(rows: Sequence[Mapping[str, Any]] | Mapping[str, Any], index: str | None = None) -> Any:
    """A frame with one row for each record, or of columns by name; ``index`` names the column that numbers the rows."""
    try:
        import pandas
    except ImportError:
        raise InputError("to_frame needs pandas: pip install gradtd[frames].") from None
    made = pandas.DataFrame(rows)
    return made if index is None else made.set_index(index)
