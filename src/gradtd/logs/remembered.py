"""Row groups of a log that were read for a sample of it, remembered until they are read for its sums.

A sample has rows of almost every row group, and Arrow cannot skip the others. So the first row groups would be read and
decoded twice. They stay in memory instead, as many as there is room for, and are let go as they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from threading import Lock
from typing import Any

NUMBERS = 22_000_000
"""Numbers that are remembered at most (176 MB)."""


class Remembered:
    """Arrow tables by row group; safe to ask from several threads. A copy sent to another process is empty."""

    def __init__(self, room: int = NUMBERS) -> None:
        self._room, self._lock = room, Lock()
        self._tables: dict[Any, list[Any]] = {}
        self._waiting: dict[Any, int] = {}

    def __reduce__(self) -> Any:
        return Remembered, (0,)

    def has_room(self, rows: int, columns: Sequence[str]) -> bool:
        """Whether so many rows of these columns can be remembered besides what is."""
        return rows * len(columns) <= self._room

    def keep(self, key: Any, tables: Iterable[Any]) -> None:
        """Remember all rows of a row group."""
        with self._lock:
            self._tables[key] = list(tables)
            self._waiting[key] = sum(map(len, self._tables[key]))
            self._room -= sum(table.num_rows * table.num_columns for table in self._tables[key])

    def rows(self, key: Any, first: int, last: int) -> Iterator[Any] | None:
        """Rows ``first`` to ``last`` of a row group, in tables; None where it is not remembered.

        Once as many rows were asked for as there are, they are let go.
        """
        with self._lock:
            tables = self._tables.get(key)
            if tables is None:
                return None
            self._waiting[key] -= last - first
            if self._waiting[key] <= 0:
                self._forget(key)
        return _cut(tables, first, last)

    def _forget(self, key: Any) -> None:
        self._room += sum(table.num_rows * table.num_columns for table in self._tables.pop(key))
        del self._waiting[key]

    def forget_all(self) -> None:
        with self._lock:
            for key in list(self._tables):
                self._forget(key)


def _cut(tables: list[Any], first: int, last: int) -> Iterator[Any]:
    """Some rows of tables that follow one another; each is let go when the next one is asked for."""
    begin, waiting = 0, tables[::-1]
    del tables
    while waiting:
        table = waiting.pop()
        low, high = max(first - begin, 0), min(last - begin, len(table))
        begin += len(table)
        if high > low:
            yield table.slice(low, high - low)
