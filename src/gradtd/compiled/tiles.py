"""Products of tall tables, over some of their rows, for code that makes these rows and multiplies them at once."""

from __future__ import annotations

import numpy as np

from gradtd.core.arrays import Floats

DOWN, ACROSS = 4, 12
"""Rows and columns that a table is padded to."""


def add_product(a: Floats, b: Floats, first: int, last: int, out: Floats, spot: Floats) -> None:
    """Add a'b over some rows to ``out``."""
    for k in range(first, last):
        for i in range(out.shape[0]):
            line, right, left = out[i], b[k], a[k, i]
            for j in range(out.shape[1]):
                line[j] += left * right[j]


def add_square(a: Floats, first: int, last: int, out: Floats, spot: Floats) -> None:
    """The same of a'a, where nothing above its diagonal counts."""
    for k in range(first, last):
        for i in range(out.shape[0]):
            line, right, left = out[i], a[k], a[k, i]
            for j in range(i + 1):
                line[j] += left * right[j]


def room_for(rows: int, columns: int) -> Floats:
    """A table of zeros with so many columns, padded to a multiple of `ACROSS`."""
    return np.zeros((rows, -(-columns // ACROSS) * ACROSS))
