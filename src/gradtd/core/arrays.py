"""Names for the arrays and records that the library passes around."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
