"""Numbers that another library keeps, read where they are."""

from __future__ import annotations

import ctypes


def number_at(address: int, k: int) -> float:
    """Number k of those that begin at an address; the engine compiles it to one instruction."""
    return ctypes.c_double.from_address(int(address) + 8 * int(k)).value
