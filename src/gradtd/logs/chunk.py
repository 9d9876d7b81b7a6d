"""Rows of a Parquet log on their way through: an Arrow table, its rows in another order, read as a log.

A log that is read in parts passes through here once for every step. So its observations go from Arrow's columns to rows
in one copy, in the order that is wanted, where they are plain numbers; and only when somebody asks for them, some
thousand at a time. Memory that is new to a process may cost more than what is written to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
    lazily
        Whether observations may be `ChunkRows`, which keep the Arrow table.
    """

    sure = True

    def __init__(
        self, name: str, rows: Any, at: Integers | None, own: dict[str, Integers], lazily: bool = False
    ) -> None:
        self.name, self.rows, self.at, self.own, self.lazily = name, rows, at, own, lazily
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

    def gathered(self, places: Places, rows: Integers) -> ChunkRows | None:
        """These rows; None where a number in any row of the table is not finite."""
        from gradtd.compiled import engine

        if not engine.kept(_checker)(places.address, places.begins):
            return None
        return ChunkRows(places, np.asarray(rows if self.at is None else self.at[rows], np.int64), self.rows)


class Places(NamedTuple):
    """Addresses of columns, (parts, columns), and the first row of every part; behind them the number of rows."""

    address: Integers
    begins: Integers


class ChunkRows:
    """Rows of columns that Arrow keeps, one after the other when they are asked for: what is read of an array.

    Parameters
    ----------
    places
        Where the columns are.
    at
        The rows, in this order.
    keeper
        Whoever keeps the columns alive.
    """

    ndim, dtype = 2, np.dtype(np.float64)

    def __init__(self, places: Places, at: Integers, keeper: Any) -> None:
        from gradtd.compiled import engine

        self.places, self.at, self.keeper, self._put = places, at, keeper, engine.kept(_maker)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.at), self.places.address.shape[1]

    def __len__(self) -> int:
        return len(self.at)

    def __getitem__(self, index: Any) -> Floats:
        at = self.at[index]
        out = np.empty((len(at), self.shape[1]))
        self._put(*self.places, at, out)
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("rows are brought together in a copy")
        return self[:] if dtype is None else self[:].astype(dtype, copy=False)


RUN = 64
"""Rows of a column that are copied at a time: few enough for the nearest cache to hold them of many columns."""


def put_rows(address: Integers, begins: Integers, at: Integers, out: Floats) -> None:
    """Row i of ``out`` is row ``at[i]`` of the columns.

    Rows that follow one another are copied column by column: columns often lie so that one row of them, number by
    number, is more than the nearest cache holds at once.
    """
    i, part, n = 0, 0, out.shape[0]
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
        i += run


def all_finite(address: Integers, begins: Integers) -> bool:
    """Whether all numbers of these columns are finite."""
    bad = False
    for part in range(address.shape[0]):
        rows = begins[part + 1] - begins[part]
        for j in range(address.shape[1]):
            for k in range(rows):
                number = number_at(address[part, j], k)
                bad |= number - number != 0.0  # a number, and not an infinite one, less itself
    return not bad


def _maker(fingerprint: str) -> Plain:
    def run(address: Integers, begins: Integers, at: Integers, out: Floats) -> None:
        fingerprint  # noqa: B018 (part of the closure, and so of the key of the cache)
        put_rows(address, begins, at, out)

    return run


def _checker(fingerprint: str) -> Plain:
    def run(address: Integers, begins: Integers) -> bool:
        fingerprint  # noqa: B018 (part of the closure, and so of the key of the cache)
        return all_finite(address, begins)

    return run
