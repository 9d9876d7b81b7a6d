"""Arguments of compiled code, unpacked once: unpacking them in every call would take ten times as long as the rule.

Numba inspects every array of every argument in every call. This takes about 0.1 us per array, and a run has thirty.
Here the addresses, shapes and numbers of all arguments are written into a table of words once, and compiled code gets
the address of that table (`gradtd.compiled.engine.compile_packed`). The caller keeps the arrays alive, and packs again
if one is replaced.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray


def words_of(value: Any) -> list[int]:
    """A nested tuple of arrays and numbers as 64-bit words, in the order in which `intrinsics` reads them."""
    if value is None:
        return []
    if isinstance(value, tuple):
        return [word for part in value for word in words_of(part)]
    if isinstance(value, np.ndarray):
        return [value.ctypes.data, value.size, value.itemsize, *value.shape, *value.strides]
    if isinstance(value, float):
        return [struct.unpack("<q", struct.pack("<d", value))[0]]
    return [int(value)]


def kind_of(value: Any) -> Any:
    """The type information that compiled code needs about a nested tuple. Arguments of one kind share it."""
    if isinstance(value, tuple):
        return (type(value), *map(kind_of, value))
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.ndim, value.flags.c_contiguous, value.flags.writeable)
    return type(value)


class Packed:
    """The arguments of several runs of one kind. ``address`` is passed to compiled code."""

    def __init__(self, arguments: list[Any], compiled: bool) -> None:
        self.arguments = arguments
        self._table: NDArray[np.int64] = np.array([words_of(one) for one in arguments], np.int64)
        self.compiled = compiled

    def address(self, first: int = 0) -> Any:
        """The address of the arguments from run ``first`` on. In interpreted code, the arguments themselves."""
        if not self.compiled:
            return self.arguments[first:]
        return self._table.__array_interface__["data"][0] + first * self._table.strides[0]
