"""Products of tall tables, a tile at a time, for code that makes their rows and multiplies them while they are near.

BLAS copies both tables into an order of its own first. With some hundred rows that costs as much as half of the product
itself. Here rows are read where they are.
"""

from __future__ import annotations

import numpy as np

from gradtd.core.arrays import Floats

DOWN, ACROSS = 4, 12
"""Rows and columns of a tile: 48 sums, which stay in the registers of a processor with sixteen of four numbers."""


def tile(a: Floats, b: Floats, first: int, last: int, i: int, j: int, spot: Floats) -> None:
    """Write a tile of a'b, from entry (i, j) on, over rows ``first`` to ``last``; compiled, it is `instructions`.

    Numbers in a row of b must follow one another; a may be the transpose of a table.
    """
    spot[:] = a[first:last, i : i + DOWN].T @ b[first:last, j : j + ACROSS]


def add_tile(a: Floats, b: Floats, first: int, last: int, i: int, j: int, out: Floats) -> None:
    """Add a whole tile of a'b to ``out``, whose rows are numbers that follow one another; see `tile`."""
    out[i : i + DOWN, j : j + ACROSS] += a[first:last, i : i + DOWN].T @ b[first:last, j : j + ACROSS]


def add_product(a: Floats, b: Floats, first: int, last: int, out: Floats, spot: Floats) -> None:
    """Add a'b over some rows to ``out``; rows of a and b must be as wide as whole tiles."""
    for j in range(0, out.shape[1], ACROSS):
        for i in range(0, out.shape[0], DOWN):
            add_one(a, b, first, last, i, j, out, spot)


def add_square(a: Floats, first: int, last: int, out: Floats, spot: Floats) -> None:
    """The same of a'a, where nothing above its diagonal counts."""
    for j in range(0, out.shape[1], ACROSS):
        for i in range(j, out.shape[0], DOWN):
            add_one(a, a, first, last, i, j, out, spot)


def add_one(a: Floats, b: Floats, first: int, last: int, i: int, j: int, out: Floats, spot: Floats) -> None:
    """Add what there is of a tile."""
    down, across = min(DOWN, out.shape[0] - i), min(ACROSS, out.shape[1] - j)
    if down == DOWN and across == ACROSS:
        add_tile(a, b, first, last, i, j, out)
        return
    tile(a, b, first, last, i, j, spot)
    for n in range(down):
        line, found = out[i + n, j:], spot[n]
        for m in range(across):
            line[m] += found[m]


def room_for(rows: int, columns: int) -> Floats:
    """A table of zeros with so many columns, and whole tiles behind them, whose rows begin with a vector."""
    wide = -(-columns // ACROSS) * ACROSS
    plain = np.zeros(rows * wide + 8)
    skipped = -plain.ctypes.data // 8 % 8
    return plain[skipped : skipped + rows * wide].reshape(rows, wide)
