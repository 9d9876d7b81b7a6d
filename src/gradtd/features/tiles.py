"""Tile coding: several overlapping grids, each with a 1 for the tile that contains the observation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradtd.compiled.random import mixed
from gradtd.core import checks
from gradtd.core.arrays import Floats, Index, Words
from gradtd.core.checks import InputError
from gradtd.core.memory_limits import refuse_beyond_memory
from gradtd.features.base import Features
from gradtd.features.table import Table, statistics

if TYPE_CHECKING:
    import scipy.sparse

_S32, _ONE = np.uint64(32), np.uint64(1)
MOST_TILINGS = 1024
"""Maximum number of tilings: every row has one 1 per tiling, and sums of products cost the square of that number."""
COLUMN_LIMIT = 2**31
"""Maximum number of columns of sparse features: column numbers have 32 bits."""


WEIGHTS_KEPT = 4
"""Minimum number of weight vectors that learning allocates."""


class Grids(NamedTuple):
    """The grids as compiled code reads them; ``buckets`` is 0 where every tile has its own column.

    ``words`` starts the hash of each grid's tiles.
    """

    low: Floats
    span: Floats
    offsets: Floats
    tiles: int
    buckets: np.uint64
    words: Words
    bias: int


class Scratch(NamedTuple):
    """Buffers for one row: its position in each column, and its tiles, unsorted and sorted."""

    place: Floats
    tiles: NDArray[np.int32]
    ordered: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Tiles(Features):
    """Tile coding: ``tilings`` grids of ``tiles`` per column over the range seen in fit; one 1.0 per grid and row.

    Grid t is shifted by the fraction (t d_i mod tilings) / tilings of a tile in column i, where d = 1, 3, 5, ...: the
    odd displacement that Parks and Militzer (1991) and Miller and Glanz (1996) advise, since with equal displacements
    tiles line up along the diagonal. Numbers that share a factor with ``tilings`` are left out of d. Observations
    outside the range are clipped.

    Every tile has its own column, tilings (tiles + 1)^k in all; with ``hashing=4096`` the tiles share 4096 columns by a
    64-bit hash, and the ones of two tiles that collide in a row are added. The tiles of a grid sum to one, so a bias
    adds nothing. Cost: O(tilings k) per row, about 25 ns for 8 tilings of 2 columns, four times as much with hashing.

    Parameters
    ----------
    tilings : int
        Number of grids.
    tiles : int
        Number of tiles per column.
    hashing : int, optional
        Number of columns shared by all tiles; by default each tile has its own.
    bias : bool
        Whether a feature that is always one is put first.

    >>> tiles = Tiles(tilings=2, tiles=4).fit([[0.0], [1.0]])
    >>> tiles.transform([[0.1], [0.2], [1.0]]).indices.reshape(3, 2)
    array([[0, 5],
           [0, 6],
           [4, 9]], dtype=int32)
    """

    name: ClassVar[str] = "tiles"
    LEARNED = {"low": ("columns",), "high": ("columns",)}
    CHECKS = {
        "tilings": checks.whole(1, MOST_TILINGS),
        "tiles": checks.whole(1, 2**20),
        "hashing": checks.optional(checks.whole(1, COLUMN_LIMIT - 1)),
        "bias": checks.yes_or_no,
    }
    tilings: int = 8
    tiles: int = 8
    hashing: int | None = None
    bias: bool = False

    def _title(self) -> str:
        shared = "" if self.hashing is None else f" hashed into {self.hashing} columns"
        return f"Tile coding with {self.tilings} tilings of {self.tiles} tiles per column{shared}"

    def _size(self, n_columns: int) -> int:
        own = self.tilings * (self.tiles + 1) ** n_columns
        return (own if self.hashing is None else self.hashing) + self.bias

    def _check_size(self, n_columns: int) -> None:
        if self._size(n_columns) > COLUMN_LIMIT:
            raise InputError(
                f"{self.tilings} tilings of {self.tiles} tiles for each of {n_columns} columns are more than 2**31 "
                "features: let tiles share columns, for example hashing=4096."
            )
        refuse_beyond_memory(
            8.0 * WEIGHTS_KEPT * self._size(n_columns),
            f"the weights of {self._size(n_columns)} features",
            "use fewer tiles, or let tiles share columns, for example hashing=4096",
        )

    def _learn(self, table: Table) -> dict[str, Any]:
        found = statistics(table)
        return {"low": found.low, "high": found.high}

    def _transform(self, table: Table) -> scipy.sparse.csr_array:
        import scipy.sparse

        from gradtd.compiled import engine

        entries = table.n_rows * (self.tilings + self.bias)
        refuse_beyond_memory(16.0 * entries, f"{self.tilings} tilings of {table.n_rows} observations", "use fewer")
        kind = scipy.sparse.get_index_dtype(maxval=max(entries, self.n_features))
        indices, data, begin = np.empty(entries, kind), np.empty(entries), np.zeros(table.n_rows + 1, kind)
        scratch = Scratch(np.empty(table.n_columns), np.empty(self.tilings, np.int32), np.empty(self.tilings, np.int32))
        grids, write, filled = self._grids(), engine.compile_function(write_rows), np.uint64(0)
        for start, chunk in table.chunks():
            rows = begin[start : start + len(chunk) + 1]
            filled = np.uint64(write(chunk, grids, scratch, filled, indices, data, rows))  # unsigned, see Index
        made = scipy.sparse.csr_array(
            (data[:filled], indices[:filled], begin), shape=(table.n_rows, self.n_features), copy=False
        )
        made.has_canonical_format = True  # already sorted and summed: skip the check
        return made

    def _grids(self) -> Grids:
        low, high = np.array(self.learned["low"], np.float64), np.array(self.learned["high"], np.float64)
        moved = np.outer(np.arange(self.tilings), displacement(self.tilings, self.n_columns)) % self.tilings
        with np.errstate(over="ignore"):
            words = mixed(np.arange(1, self.tilings + 1, dtype=np.uint64))
        buckets = np.uint64(self.hashing or 0)
        return Grids(low, high - low, moved / self.tilings, self.tiles, buckets, words, int(self.bias))

    def label(self, index: int) -> str:
        return "bias" if self.bias and index == 0 else f"tile {index - self.bias}"


def displacement(tilings: int, n_columns: int) -> NDArray[np.int64]:
    """The first odd numbers that share no factor with the number of tilings.

    >>> displacement(8, 4), displacement(3, 4)
    (array([1, 3, 5, 7]), array([ 1,  5,  7, 11]))
    """
    found: list[int] = []
    number = 1
    while len(found) < n_columns:
        if math.gcd(number, tilings) == 1:
            found.append(number)
        number += 2
    return np.array(found, np.int64)


def write_rows(
    chunk: Floats, grids: Grids, scratch: Scratch, filled: Index, indices: Any, data: Floats, begin: Any
) -> Any:
    """Append the entries of every row at position ``filled``; returns the new number of entries."""
    tiles = scratch.tiles
    for row in range(chunk.shape[0]):
        locate(chunk[row], grids, scratch.place)
        if grids.bias:
            indices[filled] = 0
            data[filled] = 1.0
            filled += _ONE
        if grids.buckets:
            for tiling in range(tiles.shape[0]):
                tiles[tiling] = hashed_tile(grids, scratch.place, tiling) + grids.bias
            filled = write_sorted(tiles, scratch.ordered, filled, indices, data)
        else:
            for tiling in range(tiles.shape[0]):  # already sorted, because the grids are in order
                indices[filled] = own_tile(grids, scratch.place, tiling) + grids.bias
                data[filled] = 1.0
                filled += _ONE
        begin[row + 1] = filled
    return filled


def locate(observation: Floats, grids: Grids, place: Floats) -> None:
    """The position of an observation, in tiles from the low end of each column."""
    for i in range(place.shape[0]):
        share = (observation[i] - grids.low[i]) / grids.span[i]
        place[i] = min(max(share, 0.0), 1.0) * grids.tiles


def own_tile(grids: Grids, place: Floats, tiling: int) -> Any:
    """The number of a tile among all tiles of all grids."""
    tile = np.int64(tiling)
    for i in range(place.shape[0]):
        tile = tile * (grids.tiles + 1) + np.int64(place[i] + grids.offsets[tiling, i])
    return tile


def hashed_tile(grids: Grids, place: Floats, tiling: int) -> Any:
    """The column of a tile: a hash of its grid and its coordinates, of which the high bits are used."""
    word = grids.words[tiling]
    for i in range(place.shape[0]):
        word = mixed(word + np.uint64(np.int64(place[i] + grids.offsets[tiling, i])))
    return np.int64(((word >> _S32) * grids.buckets) >> _S32)


def write_sorted(tiles: Any, ordered: Any, filled: Index, indices: Any, data: Floats) -> Any:
    """Write the columns of one row in order, with equal ones summed; returns the new number of entries.

    The position of each is the number of smaller ones. This is quadratic but branch-free: for few tilings it is faster
    than insertion sort, whose branches on hashed numbers are unpredictable.
    """
    n = tiles.shape[0]
    for i in range(n):
        tile, smaller = tiles[i], 0
        for j in range(i):
            smaller += tiles[j] <= tile
        for j in range(i + 1, n):
            smaller += tiles[j] < tile
        ordered[smaller] = tile
    indices[filled] = ordered[0]
    data[filled] = 1.0
    for i in range(1, n):
        if ordered[i] == ordered[i - 1]:
            data[filled] += 1.0
        else:
            filled += _ONE
            indices[filled] = ordered[i]
            data[filled] = 1.0
    return filled + _ONE
