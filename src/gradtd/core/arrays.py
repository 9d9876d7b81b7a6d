"""Names for the arrays and records that the library passes around, and frames of them."""

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
"""What a rule keeps: a record with ``theta`` and the arrays of the rule's ``init``."""
Hyper = Any
"""A record of the numbers among an algorithm's hyper-parameters."""


def make_frame(rows: Sequence[Mapping[str, Any]] | Mapping[str, Any], index: str | None = None) -> Any:
    """A frame with one row for each record, or of columns by name; ``index`` names the column that numbers the rows."""
    try:
        import pandas
    except ImportError:
        raise InputError("to_frame needs pandas: pip install gradtd[frames].") from None
    made = pandas.DataFrame(rows)
    return made if index is None else made.set_index(index)
