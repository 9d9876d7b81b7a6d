"""Sparse rows of features for windows of steps. `window.Rows` does the same for dense rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtd.compiled.online import LATEST, ROWS, SparseStage, StagedRows
from gradtd.compiled.traces import sparse_rows_at
from gradtd.core import checks
from gradtd.core.arrays import Integers
from gradtd.core.checks import InputError
from gradtd.core.stream_arrays import SparseRows
from gradtd.running.online.growing_rows import LEAST_ROOM, GrowingRows, roomy
from gradtd.running.online.window import Window, places_of_used


def is_sparse(values: Any) -> bool:
    """Whether this is a SciPy sparse matrix or array."""
    return type(values).__module__.startswith("scipy.sparse")


def sparse_row(name: str, values: Any, n_features: int) -> SparseRows:
    """Check one row of features, sparse or dense, and return it as a sparse row."""
    if not is_sparse(values):
        dense = checks.finite_array(name, values, 1, narrow=True)
        if len(dense) != n_features:
            raise InputError(f"{name} needs {n_features} entries, one per feature; got {len(dense)}.")
        at = np.flatnonzero(dense)
        return SparseRows(dense[at], at.astype(np.uint32), np.array([0, len(at)]), n_features)
    if values.shape not in ((n_features,), (1, n_features)):
        raise InputError(f"{name} needs shape {(1, n_features)}, one row of {n_features} features; got {values.shape}.")
    return compressed(checks.feature_table(values.reshape(1, n_features), narrow=True))


def compressed(table: Any, kind: Any = None) -> SparseRows:
    """The rows of a checked SciPy matrix in the form for compiled code, with values of type ``kind``, or unchanged."""
    made = table.tocsr()
    begin, indices = made.indptr.astype(np.int64), made.indices.astype(np.uint32)
    return SparseRows(np.asarray(made.data, kind), indices, begin, int(made.shape[1]))


def scipy_rows(table: Any) -> Any:
    """Checked rows as a SciPy matrix."""
    import scipy.sparse

    return table if is_sparse(table) else scipy.sparse.csr_array(table)


def row_bytes(rows: SparseRows, row: int) -> bytes:
    """A key that identifies a row."""
    part = slice(int(rows.begin[row]), int(rows.begin[row + 1]))
    return rows.indices[part].tobytes() + rows.data[part].tobytes()


class SparseTable(GrowingRows):
    """The rows that windows still need, shared by consecutive steps; ``counts`` as in `window.Rows`."""

    def __init__(self, n_features: int, kind: Any, counts: Integers) -> None:
        super().__init__(n_features, kind, counts[ROWS : ROWS + 1])
        self.counts, self.version = counts, 0
        self._stage_of(LEAST_ROOM, kind)

    def _stage_of(self, room: int, kind: Any) -> None:
        self.staged = StagedRows(np.zeros((2, room), np.int64), np.ones((2, room), kind), np.zeros(2, np.int64))
        self.version += 1

    @property
    def held(self) -> SparseRows:
        """The rows in the form of compiled code."""
        return self.whole

    @property
    def stage(self) -> SparseStage:
        """The buffers in which compiled code reads and writes the two rows of a step."""
        return SparseStage(self.whole, self.staged)

    def stage_room(self, entries: int) -> None:
        """Reserve space to stage rows with this many entries."""
        if entries > self.staged.indices.shape[1]:
            self._stage_of(roomy(entries), self.staged.data.dtype)

    def stage_rows(self, rows: Sequence[tuple[Any, Any]]) -> None:
        """Stage the two rows of a step, given as indices and numbers."""
        self.stage_room(max(len(indices) for indices, _ in rows))
        for i, (indices, data) in enumerate(rows):
            n = len(indices)
            self.staged.indices[i, :n], self.staged.data[i, :n], self.staged.length[i] = indices, data, n

    def stage_ones(self, i: int, indices: Integers) -> None:
        """Stage row i of a step, given by the indices of features that are 1."""
        n = len(indices)
        self.staged.indices[i, :n], self.staged.length[i] = indices, -1 - n

    @property
    def staged_entries(self) -> int:
        """The number of entries of the two staged rows."""
        return sum(-1 - n if n < 0 else n for n in self.staged.length.tolist())

    def room(self) -> int:
        """Number of additional steps for which the entries fit."""
        return (len(self._begin) - 2 - self.size) // 2

    def add(self, block: SparseRows, first: int, windows: Sequence[Window]) -> Integers:
        """Store the given rows and return their positions. Row ``first`` starts the earliest new step."""
        latest = int(self.counts[LATEST])
        rows = len(block.begin) - 1
        new = np.arange(rows)
        if latest >= 0 and row_bytes(self.table, latest) == row_bytes(block, first):
            new = new[new != first]
        kept = sparse_rows_at(block, new)
        if not self.has_room(len(new), len(kept.data)):
            self.make_room(len(new), windows, len(kept.data))
        places = np.full(rows, self.counts[LATEST])
        places[new] = self.size + np.arange(len(new))
        self.put(kept)
        return places

    def make_room(self, more: int, windows: Sequence[Window], entries: int | None = None) -> None:
        """Move the rows that windows still need to the front, and reserve capacity."""
        self.drop_unused(windows)
        self.grow(more, self.staged_entries if entries is None else entries)
        self.version += 1

    def widen(self) -> None:
        """Store float64 from now on."""
        self._data = self._data.astype(np.float64)
        self._stage_of(self.staged.indices.shape[1], np.float64)

    def keep(self, rows: SparseRows) -> None:
        """Replace all rows by the given ones."""
        super().keep(rows)
        self.counts[LATEST] = -1
        self.version += 1

    def drop_unused(self, windows: Sequence[Window]) -> None:
        """Move the rows of replayable steps to the front."""
        kept, place = places_of_used(self.size, windows)
        self.counts[LATEST] = place[self.counts[LATEST]] if self.counts[LATEST] >= 0 else -1
        self.keep_only(kept)
