"""One feature per cell: of distinct values (one-hot), or of bins (aggregation)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.features.base import FEATURE_LIMIT, Features
from gradtd.features.table import Table, refuse_constant, statistics

if TYPE_CHECKING:
    import scipy.sparse

_DENSE_LIMIT = 64
_QUANTILE_ROWS = 65_536


@dataclass(frozen=True, eq=False)
class OneHot(Features):
    """One feature for every distinct observation seen in fit, 1.0 for that observation.

    For one discrete observation (n,), or for a few columns whose combinations repeat. An observation that
    was not seen in fit gets a row of zeros, so its value is 0. Rows are sparse; dense with at most 64 features they are
    dense, which is faster. A single discrete observation may be constant: its feature is then a bias.

    Parameters
    ----------
    most : int
        More distinct observations than this are refused.

    >>> OneHot().fit([3, 7, 3, 9]).transform([7, 8])
    array([[0., 1., 0.],
           [0., 0., 0.]])
    """

    name: ClassVar[str] = "one-hot"
    LEARNED = {"values": (None, "columns")}
    CHECKS = {"most": checks.whole(1, 2**31 - 1)}
    most: int = FEATURE_LIMIT

    def _title(self) -> str:
        return "One-hot features"

    def _size(self, n_columns: int) -> int:
        return len(self._what_was_learned()["values"])

    def _learn(self, table: Table) -> dict[str, Any]:
        columns = distinct_values(table, self.most)
        if columns is None:
            raise self._too_many()
        if table.n_columns > 1:
            refuse_constant(table, np.array([c[0] for c in columns]), np.array([c[-1] for c in columns]))
        if math.prod(map(len, columns)) > 2**62:
            raise InputError(
                f"one-hot features have too many combinations of {len(columns)} columns to number: use fewer columns."
            )
        codes = np.zeros(0, np.int64)
        for _, chunk in table.chunks(dtype=columns[0].dtype):
            codes = np.union1d(codes, _codes(columns, chunk))
            if len(codes) > self.most:
                raise self._too_many()
        parts = np.unravel_index(codes, tuple(map(len, columns)))
        return {"values": np.stack([column[part] for column, part in zip(columns, parts, strict=True)], axis=1)}

    def _too_many(self) -> InputError:
        return InputError(
            f"one-hot found more than {self.most} distinct observations: continuous numbers rarely repeat, so "
            "use aggregation, tiles or fourier features, or increase most."
        )

    def _check_learned(self, arrays: Mapping[str, Any]) -> None:
        values = arrays["values"]
        columns = [np.unique(values[:, j]) for j in range(values.shape[1])]
        if not len(values) or math.prod(map(len, columns)) > 2**62 or (np.diff(_codes(columns, values)) <= 0).any():
            raise InputError("stored one-hot features: values must contain distinct rows in increasing order.")

    def _transform(self, table: Table) -> Floats | scipy.sparse.csr_array:
        count = len(self.learned["values"])
        return _one_a_row(self._cells(table), count, dense=count <= _DENSE_LIMIT)

    def _cells(self, table: Table) -> NDArray[np.int32]:
        """The index of every row's value, -1 if it was not seen."""
        values = self.learned["values"]
        columns = [np.unique(values[:, j]) for j in range(table.n_columns)]
        known = _codes(columns, values)
        kind = np.int64 if table.whole and values.dtype == np.int64 else np.float64
        cells = np.empty(table.n_rows, np.int32)
        for start, chunk in table.chunks(dtype=kind):
            codes = _codes(columns, chunk)
            at = np.searchsorted(known[:-1], codes)
            cells[start : start + len(chunk)] = np.where(known[at] == codes, at, -1)
        return cells

    def label(self, index: int) -> str:
        values = self._what_was_learned()["values"][index].tolist()
        return f"observation {values[0]}" if len(values) == 1 else f"observation ({', '.join(map(str, values))})"


@dataclass(frozen=True, eq=False)
class Grouped(OneHot):
    """One feature for each of the n most frequent observations, and one shared by all others.

    Parameters
    ----------
    n : int
        Number of observations with their own feature.
    most : int
        More distinct observations than this are refused.

    >>> Grouped(n=1).fit([3, 7, 3, 9]).transform([3, 7, 8])
    array([[1., 0.],
           [0., 1.],
           [0., 1.]])
    """

    name: ClassVar[str] = "grouped"
    CHECKS = OneHot.CHECKS | {"n": checks.whole(1, FEATURE_LIMIT)}
    n: int = 100

    def _title(self) -> str:
        return f"One-hot features of the {self.n} most frequent observations, and one for the others"

    def _size(self, n_columns: int) -> int:
        return super()._size(n_columns) + 1

    def _learn(self, table: Table) -> dict[str, Any]:
        values = super()._learn(table)["values"]
        seen = OneHot(most=self.most)._with({"values": values, "n_columns": table.n_columns})
        counts = np.asarray(seen._transform(table).sum(axis=0)).ravel()
        return {"values": values[np.sort(np.argsort(-counts, kind="stable")[: self.n])]}

    def _transform(self, table: Table) -> Floats | scipy.sparse.csr_array:
        cells = self._cells(table)
        count = len(self.learned["values"])
        return _one_a_row(np.where(cells < 0, count, cells), count + 1, dense=count < _DENSE_LIMIT)

    def label(self, index: int) -> str:
        return "any other" if index == self.n_features - 1 else super().label(index)


def distinct_values(table: Table, most: int) -> list[NDArray[Any]] | None:
    """The distinct values of every column, in order, or None once a column has more than ``most``."""
    kind: Any = np.int64 if table.whole else np.float64
    found: list[NDArray[Any]] = [np.zeros(0, kind) for _ in range(table.n_columns)]
    for _, chunk in table.chunks(dtype=kind):
        for j, values in enumerate(found):
            found[j] = np.union1d(values, chunk[:, j])
            if len(found[j]) > most:
                return None
    return found


def _codes(columns: list[NDArray[Any]], rows: NDArray[Any]) -> Integers:
    """A code for every row, increasing in the order of rows; -1 if a value is not among those of its column."""
    codes, seen = np.zeros(len(rows), np.int64), np.ones(len(rows), np.bool_)
    for j, values in enumerate(columns):
        at = np.searchsorted(values[:-1], rows[:, j])
        seen &= values[at] == rows[:, j]
        codes *= len(values)
        codes += at
    codes[~seen] = -1
    return codes


@dataclass(frozen=True, eq=False)
class Aggregation(Features):
    """State aggregation: every column is cut into ``bins``, and each joint cell has one feature; rows are sparse.

    Values outside the range seen in fit fall into the first or the last bin. bins^k features of k columns.

    Parameters
    ----------
    bins : int
        Number of bins per column.
    by : str
        ``quantiles`` puts about as many observations into every bin (of at most 65 536 sampled rows; equal values stay
        together, so there may be fewer bins). ``width`` makes bins of equal width.

    >>> Aggregation(bins=2, by="width").fit([[0.0], [8.0]]).transform([[1.0], [4.0], [9.0]]).indices
    array([0, 1, 1], dtype=int32)
    """

    name: ClassVar[str] = "aggregation"
    LEARNED = {"edges": (None,), "bins_a_column": ("columns",)}
    CHECKS = {"bins": checks.whole(2, FEATURE_LIMIT), "by": checks.choice("quantiles", "width")}
    bins: int = 10
    by: str = "quantiles"

    def _title(self) -> str:
        return f"State aggregation ({self.bins} bins per column, by {self.by})"

    def _size(self, n_columns: int) -> int:
        return math.prod(map(int, self._what_was_learned()["bins_a_column"]))

    def _check_size(self, n_columns: int) -> None:
        if self.bins**n_columns > FEATURE_LIMIT:
            raise InputError(
                f"aggregation of {n_columns} columns with {self.bins} bins each has {self.bins}^{n_columns} cells, "
                f"more than {FEATURE_LIMIT}: use fewer bins or columns, or tiles with hashing."
            )

    def _learn(self, table: Table) -> dict[str, Any]:
        found = statistics(table)
        inner = np.arange(1, self.bins) / self.bins
        if self.by == "width":
            edges = [low + (high - low) * inner for low, high in zip(found.low, found.high, strict=True)]
        else:
            columns = table.sample(_QUANTILE_ROWS).T
            edges = [_quantile_edges(column, inner, low) for column, low in zip(columns, found.low, strict=True)]
        return {"edges": np.concatenate(edges), "bins_a_column": np.array([len(cut) + 1 for cut in edges])}

    def _check_learned(self, arrays: Mapping[str, Any]) -> None:
        edges, bins = arrays["edges"], arrays["bins_a_column"]
        fits = bins.dtype == np.int64 and (bins >= 2).all() and (bins <= self.bins).all()
        if not fits or int(bins.sum()) - len(bins) != len(edges) or any((np.diff(e) < 0).any() for e in _split(arrays)):
            raise InputError("stored aggregation features: edges must increase, one fewer per column than bins.")

    def _transform(self, table: Table) -> Floats | scipy.sparse.csr_array:
        cells = np.zeros(table.n_rows, np.int32)
        edges = _split(self.learned)
        for start, chunk in table.chunks():
            here = cells[start : start + len(chunk)]
            for j, cut in enumerate(edges):
                here *= len(cut) + 1
                here += np.searchsorted(cut, chunk[:, j], side="right").astype(np.int32)
        return _one_a_row(cells, self.n_features, dense=False)

    def label(self, index: int) -> str:
        place = np.unravel_index(index, tuple(map(int, self._what_was_learned()["bins_a_column"])))
        return f"cell ({', '.join(map(str, place))})"


def _quantile_edges(column: Floats, inner: Floats, low: float) -> Floats:
    """The edges of bins, at observed values so that no bin is empty; at least one edge."""
    cuts = np.unique(np.quantile(column, inner, method="higher"))
    cuts = cuts[cuts > low]
    # A value so frequent that it fills all bins gets its own bin.
    return cuts if cuts.size else column[column > low].min(keepdims=True, initial=column.max())


def _split(learned: Mapping[str, Any]) -> list[Floats]:
    """The edges of each column."""
    return np.split(learned["edges"], np.cumsum(learned["bins_a_column"] - 1)[:-1])


def _one_a_row(cells: NDArray[np.int32], n_features: int, dense: bool) -> Floats | scipy.sparse.csr_array:
    """Rows with a single 1.0 in the column given by ``cells``; rows of zeros for -1."""
    seen = cells >= 0
    if dense:
        out = np.zeros((len(cells), n_features))
        out[np.flatnonzero(seen), cells[seen]] = 1.0
        return out
    import scipy.sparse

    kind = scipy.sparse.get_index_dtype(maxval=max(len(cells), n_features))
    begin = np.zeros(len(cells) + 1, kind)
    np.cumsum(seen, out=begin[1:])
    indices = (cells if seen.all() else cells[seen]).astype(kind, copy=False)
    rows = scipy.sparse.csr_array((np.ones(len(indices)), indices, begin), shape=(len(cells), n_features), copy=False)
    rows.has_canonical_format = True
    return rows
