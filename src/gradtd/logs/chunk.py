"""Rows of a Parquet log on their way through: an Arrow table, its rows in another order, read as a log.

A log that is read in parts passes through here once for every step. So its observations go from Arrow's columns to rows
of a table in one copy, in the order that is wanted, where they are plain numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtd.compiled.memory import number_at
from gradtd.core.arrays import Floats, Integers, Plain
from gradtd.logs.tables import Piece, arrow_kind, arrow_piece


class ChunkTable:
    """Some rows of an Arrow table.

    Parameters
    ----------
    name
        What the table is called.
    rows
        The Arrow table.
    at
        The rows to take, in this order; None for all as they are.
    own
        Columns of ours, in the order wanted; they stand in for those of the same name.
    """

    sure = True

    def __init__(self, name: str, rows: Any, at: Integers | None, own: dict[str, Integers]) -> None:
        self.name, self.rows, self.at, self.own = name, rows, at, own
        self.kinds = {field.name: arrow_kind(field.type) for field in rows.schema} | dict.fromkeys(own, "whole")

    def pieces(self, columns: Sequence[str]) -> Iterator[dict[str, Piece]]:
        """All rows at once: they are few."""
        yield {name: self._piece(name) for name in columns}

    def _piece(self, name: str) -> Piece:
        if name in self.own:
            return Piece(self.own[name])
        found = arrow_piece(name, self.rows.column(name))
        if self.at is None:
            return found
        return Piece(found.values[self.at], None if found.missing is None else found.missing[self.at], found.labels)

    def places(self, columns: Sequence[str]) -> Places | None:
        """Where the numbers of these columns are; None where not all are plain numbers."""
        import pyarrow as pa

        if len(columns) < 2 or any(name in self.own for name in columns):
            return None
        batches = self.rows.select(columns).to_batches()
        parts = [column for batch in batches for column in batch.columns]
        if any(part.type != pa.float64() or part.null_count for part in parts):
            return None
        found = [part.buffers()[1].address + 8 * part.offset for part in parts]
        begins = np.r_[0, np.cumsum([len(batch) for batch in batches])].astype(np.int64)
        return Places(np.array(found, np.int64).reshape(len(batches), len(columns)), begins)

    def put(self, places: Places, rows: Integers, out: Floats) -> bool:
        """Write rows of this table to an array; whether all numbers are finite."""
        from gradtd.compiled import engine

        at = np.asarray(rows if self.at is None else self.at[rows], np.int64)
        return bool(engine.kept(_maker)(places.address, places.begins, at, out))


class Places(NamedTuple):
    """Addresses of columns, (parts, columns), and the first row of every part; behind them the number of rows."""

    address: Integers
    begins: Integers


RUN = 64
"""Rows of a column that are copied at a time: few enough for the nearest cache to hold them of many columns."""


def put_rows(address: Integers, begins: Integers, at: Integers, out: Floats) -> bool:
    """Row i of ``out`` is row ``at[i]`` of the columns; whether all numbers are finite.

    Rows that follow one another are copied column by column: columns often lie so that one row of them, number by
    number, is more than the nearest cache holds at once.
    """
    i, part, bad, n = 0, 0, False, out.shape[0]
    while i < n:
        first = at[i]
        if first < begins[part] or first >= begins[part + 1]:
            part = 0
            while first >= begins[part + 1]:
                part += 1
        most = min(RUN, n - i, begins[part + 1] - first)
        run = 1
        while run < most and at[i + run] == first + run:
            run += 1
        columns, k = address[part], first - begins[part]
        for j in range(out.shape[1]):
            for m in range(run):
                out[i + m, j] = number_at(columns[j], k + m)
            for m in range(run):
                number = number_at(columns[j], k + m)
                bad |= number - number != 0.0  # a number, and not an infinite one, less itself
        i += run
    return not bad


def _maker(fingerprint: str) -> Plain:
    def run(address: Integers, begins: Integers, at: Integers, out: Floats) -> bool:
        fingerprint  # noqa: B018 (part of the closure, and so of the key of the cache)
        return put_rows(address, begins, at, out)

    return run
