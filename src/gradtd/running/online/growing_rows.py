"""Sparse rows with spare capacity. Arrays grow by half, so that copies stay rare."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.compiled.traces import sparse_rows_at
from gradtd.core.arrays import Integers
from gradtd.core.stream_arrays import SparseRows

LEAST_ROOM = 1024
"""Minimum capacity in rows and entries."""
_PIECE = 4096


def roomy(needed: int) -> int:
    """The capacity for this size: half as much again, so that copies stay rare."""
    return needed + needed // 2


def too_tight(length: int, needed: int) -> bool:
    """Whether an array would soon be full again and should grow."""
    return length < needed + needed // 4


def move_to_front(array: NDArray[Any], kept: Integers) -> None:
    """array[:len(kept)] = array[kept], for increasing indices, a piece at a time so that no second copy is made."""
    if len(kept) and kept[-1] + 1 == len(kept):
        return
    if array.dtype.names:
        array = as_bytes(array)
    for i in range(0, len(kept), _PIECE):
        piece = kept[i : i + _PIECE]
        array[i : i + len(piece)] = array[piece]


def as_bytes(records: NDArray[Any]) -> NDArray[Any]:
    """Records of a contiguous array as blocks of bytes, which NumPy copies ten times as fast as field by field."""
    return records.view(np.ndarray).view(f"V{records.itemsize}")


def resized(array: NDArray[Any], length: int, used: int) -> NDArray[Any]:
    """A copy of the array with a different length. The used part is kept."""
    new = np.zeros((length, *array.shape[1:]), array.dtype)
    new[:used] = array[:used]
    return new


class GrowingRows:
    """Compressed rows with spare capacity: ``size`` rows are in use.

    Later values of ``begin`` are at most the end of the last row, so unused rows have no entries.
    """

    def __init__(self, n_features: int, kind: Any = np.float64, count: Integers | None = None) -> None:
        self.n_features = n_features
        self.count = np.zeros(1, np.int64) if count is None else count  # compiled code also updates it
        self._data, self._indices = np.zeros(LEAST_ROOM, kind), np.zeros(LEAST_ROOM, np.uint32)
        self._begin = np.zeros(LEAST_ROOM, np.int64)

    @property
    def size(self) -> int:
        """The number of rows in use."""
        return int(self.count[0])

    @size.setter
    def size(self, size: int) -> None:
        self.count[0] = size

    @property
    def used(self) -> int:
        """The number of entries in use."""
        return int(self._begin[self.size])

    @property
    def table(self) -> SparseRows:
        """The rows in use, in the form for compiled code; ``begin`` has at least two entries."""
        begin = self._begin[: max(self.size, 1) + 1]
        return SparseRows(self._data[: self.used], self._indices[: self.used], begin, self.n_features)

    @property
    def whole(self) -> SparseRows:
        """The arrays including spare capacity, for writers."""
        return SparseRows(self._data, self._indices, self._begin, self.n_features)

    def put(self, rows: SparseRows) -> None:
        """Append rows. The capacity must suffice."""
        count, begin = len(rows.begin) - 1, self.used
        end = begin + len(rows.data)
        self._data[begin:end], self._indices[begin:end] = rows.data, rows.indices
        self._begin[self.size + 1 : self.size + count + 1] = begin + rows.begin[1:]
        self.size += count

    def has_room(self, rows: int, entries: int) -> bool:
        """Whether this number of additional rows and entries fits."""
        return self.size + rows + 1 < len(self._begin) and self.used + entries <= len(self._data)

    def grow(self, rows: int, entries: int) -> None:
        """Reserve capacity for additional rows and entries."""
        if too_tight(len(self._begin), self.size + rows + 2):
            self._begin = resized(self._begin, roomy(self.size + rows + 2), self.size + 1)
        if too_tight(len(self._data), self.used + entries):
            self._lengthen(roomy(self.used + entries), self.used)

    def lengthen(self, entries: int) -> None:
        """Reserve capacity for this total number of entries, while rows are being filled."""
        if entries > len(self._data):
            self._lengthen(roomy(entries), len(self._data))

    def _lengthen(self, length: int, used: int) -> None:
        self._data, self._indices = resized(self._data, length, used), resized(self._indices, length, used)

    def keep_only(self, kept: Integers) -> None:
        """Keep only these rows, in order, moved to the front without a second copy of everything."""
        if len(kept) == self.size:
            return
        held, self.size = self.table, 0
        for i in range(0, len(kept), _PIECE):
            self.put(sparse_rows_at(held, kept[i : i + _PIECE]))
        self._begin[self.size + 1 :] = self.used

    def keep(self, rows: SparseRows) -> None:
        """Replace all rows by the given ones."""
        self.keep_only(np.zeros(0, np.int64))
        self.grow(len(rows.begin) - 1, len(rows.data))
        self.put(rows)
