"""Sparse rows of features that the steps of some windows point to: what `window.Rows` is for dense ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtd.compiled.traces import sparse_rows_at
from gradtd.core import checks
from gradtd.core.arrays import Integers
from gradtd.core.checks import InputError
from gradtd.core.stream_arrays import SparseRows
from gradtd.running.online.window import GrowingRows, Window, places_of_used


def is_sparse(values: Any) -> bool:
    """Whether somebody gave a sparse matrix or array of SciPy."""
    return type(values).__module__.startswith("scipy.sparse")


def sparse_row(name: str, values: Any, n_features: int) -> SparseRows:
    """One checked row of features, given sparse or dense."""
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
    """The rows of a checked SciPy matrix, as compiled code reads them, in these numbers or in its own."""
    made = table.tocsr()
    begin, indices = made.indptr.astype(np.int64), made.indices.astype(np.uint32)
    return SparseRows(np.asarray(made.data, kind), indices, begin, int(made.shape[1]))


def scipy_rows(table: Any) -> Any:
    """Checked rows as a SciPy matrix, which they may be already."""
    import scipy.sparse

    return table if is_sparse(table) else scipy.sparse.csr_array(table)


def stacked(rows: Sequence[SparseRows]) -> SparseRows:
    """Single rows, one below the other."""
    begin = np.r_[0, np.cumsum([len(row.data) for row in rows])].astype(np.int64)
    data, indices = (np.concatenate(parts) for parts in zip(*((row.data, row.indices) for row in rows), strict=True))
    return SparseRows(data, indices, begin, rows[0].n_columns)


def row_bytes(rows: SparseRows, row: int) -> bytes:
    """What tells two rows apart."""
    part = slice(int(rows.begin[row]), int(rows.begin[row + 1]))
    return rows.indices[part].tobytes() + rows.data[part].tobytes()


class SparseTable(GrowingRows):
    """The rows that windows still need, each once where a step follows another; ``latest`` as in `window.Rows`."""

    def __init__(self, n_features: int, kind: Any = np.float64) -> None:
        super().__init__(n_features, kind)
        self.latest = -1

    def add(self, block: SparseRows, first: int, windows: Sequence[Window]) -> Integers:
        """Keep these rows and return their places; row ``first`` is where the earliest of the new steps begins."""
        shared = self.latest >= 0 and row_bytes(self.table, self.latest) == row_bytes(block, first)
        rows = len(block.begin) - 1
        new = np.arange(rows)
        if shared:
            new = new[new != first]
        kept = sparse_rows_at(block, new)
        if not self.has_room(len(new), len(kept.data)):
            self.drop_unused(windows)
            self.grow(len(new), len(kept.data))
        places = np.full(rows, self.latest)
        places[new] = self.size + np.arange(len(new))
        self.put(kept)
        return places

    def widen(self) -> None:
        """Store float64 from now on."""
        self._data = self._data.astype(np.float64)

    def keep(self, rows: SparseRows) -> None:
        """Hold these rows and no others; no step leads to one of them yet."""
        super().keep(rows)
        self.latest = -1

    def drop_unused(self, windows: Sequence[Window]) -> None:
        """Move the rows of steps that may still be drawn to the front."""
        kept, place = places_of_used(self.size, windows)
        self.latest = int(place[self.latest]) if self.latest >= 0 else -1
        self.keep_only(kept)
