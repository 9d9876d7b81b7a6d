"""Rows of a Parquet log on their way through: an Arrow table, its rows in another order, read as a log.

A log that is read in parts passes through here once for every step. So its observations go from Arrow's columns to rows
of a table in one copy, in the order that is wanted, where they are plain numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

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

    def side(self, columns: Sequence[str]) -> Floats | None:
        """These columns as rows of an array, in Arrow's order; None where not all are plain finite numbers."""
        import pyarrow as pa

        given = [self.rows.column(name) for name in columns if name not in self.own]
        if len(columns) < 2 or len(given) < len(columns):
            return None
        if any(column.type != pa.float64() or column.null_count for column in given):
            return None
        side = np.empty((len(columns), len(self.rows)))
        for line, column in zip(side, given, strict=True):
            done = 0
            for part in column.chunks:
                line[done : done + len(part)] = part.to_numpy()
                done += len(part)
        return side if np.isfinite(side).all() else None

    def put(self, side: Floats, rows: Integers, out: Floats) -> None:
        """Write rows of this table, whose columns are ``side``, to an array."""
        from gradtd.compiled import engine

        at = np.asarray(rows if self.at is None else self.at[rows], np.int64)
        engine.compiled(_maker)(side, at, out)


def turn_round(side: Floats, at: Integers, out: Floats) -> None:
    """Row i of ``out`` is column ``at[i]`` of ``side``."""
    for i in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[i, k] = side[k, at[i]]


def _maker(fingerprint: str) -> Plain:
    def run(side: Floats, at: Integers, out: Floats) -> None:
        fingerprint  # noqa: B018 (part of the closure, and so of the key of the cache)
        turn_round(side, at, out)

    return run
