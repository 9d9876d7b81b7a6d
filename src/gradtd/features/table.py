"""Observations of a log, checked and read chunk by chunk, so that they are never copied as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradtd.core import checks
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError

CHUNK_ROWS = 65_536
CHUNK_ENTRIES = 2**20
"""Maximum number of rows, and of numbers, in a chunk (8 MB)."""


class Table:
    """Observations as a table: (n, k) numeric columns, or (n,) integers, which count as one discrete column."""

    def __init__(self, observations: Any) -> None:
        if isinstance(observations, np.ma.MaskedArray) and observations.mask.any():
            raise InputError("observations has masked entries: leave such steps out or fill them first.")
        array = checks.numeric_array("observations", observations, _dimensions(observations))
        self.given = array
        self.whole = array.dtype.kind in "biu"
        self.discrete = self.whole and array.ndim == 1
        self.array: NDArray[Any] = array[:, None] if array.ndim == 1 else array
        self.n_rows, self.n_columns = self.array.shape
        if 0 in self.array.shape:
            raise InputError(f"observations needs at least one row and one column, got shape {array.shape}.")

    def column(self, index: Any) -> str:
        """The name of a column in messages."""
        return f"observation column {index}" if self.given.ndim == 2 else "the observation"

    def chunks(self, width: int = 1, dtype: Any = np.float64) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield the first row number and the values of each chunk.

        The chunk is a C-contiguous buffer, overwritten by the next one; callers may write to it.
        ``width`` is the number of entries per row of the result, if it is larger than the number of columns.
        """
        rows = max(1, min(self.n_rows, CHUNK_ROWS, CHUNK_ENTRIES // max(width, self.n_columns)))
        scratch = np.empty((rows, self.n_columns), dtype)
        for start in range(0, self.n_rows, rows):
            block = self.array[start : start + rows]
            chunk = scratch[: len(block)]
            with np.errstate(over="ignore"):  # an overflow becomes an infinity, which is refused below
                np.copyto(chunk, block, casting="same_kind")
            if self.array.dtype == np.uint64 and chunk.dtype == np.int64:
                self._refuse(start, chunk, chunk < 0, "below 2**63")
            elif not self.whole:
                self._refuse(start, chunk, ~np.isfinite(chunk), "finite")
            yield start, chunk

    def _refuse(self, start: int, chunk: NDArray[Any], bad: NDArray[np.bool_], rule: str) -> None:
        if bad.any():
            row, column = (int(i) for i in np.argwhere(bad)[0])
            value = self.array[start + row, column]
            raise InputError(
                f"observations must be {rule}, but row {start + row}, column {column} is {value}: "
                "leave such steps out or correct them first."
            )

    def sample(self, rows: int) -> Floats:
        """All rows, or a sample of ``rows`` of them in their order, drawn with a fixed seed."""
        picked: Any = slice(None)
        if self.n_rows > rows:
            # A regular grid would pick the same few times from episodes that all have the same length.
            picked = np.sort(np.random.default_rng(0).choice(self.n_rows, rows, replace=False, shuffle=False))
        rows_picked: Floats = self.array[picked].astype(np.float64)
        return rows_picked


def _dimensions(values: Any) -> int:
    """1 for a flat sequence of numbers; everything else counts as a table."""
    try:
        return 1 if np.ndim(values if hasattr(values, "ndim") else values[:1]) == 1 else 2
    except (TypeError, ValueError):
        return 2


class Statistics(NamedTuple):
    """Lowest and highest value, mean and standard deviation (over n) of every column."""

    low: Floats
    high: Floats
    mean: Floats
    sd: Floats


def statistics(table: Table) -> Statistics:
    """The statistics of the columns, in one pass; a column that cannot be scaled by them is refused."""
    low, high = np.full(table.n_columns, np.inf), np.full(table.n_columns, -np.inf)
    mean, squares = np.zeros(table.n_columns), np.zeros(table.n_columns)
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        for start, chunk in table.chunks():
            low, high = np.minimum(low, chunk.min(axis=0)), np.maximum(high, chunk.max(axis=0))
            here = chunk.mean(axis=0)
            chunk -= here
            apart, share = here - mean, len(chunk) / (start + len(chunk))
            # Deviations from the mean so far, so that a large offset does not cancel them (Chan, Golub and LeVeque,
            # 1983).
            squares += np.einsum("ij,ij->j", chunk, chunk) + apart**2 * (start * share)
            mean = mean + apart * share
        sd = np.sqrt(squares / table.n_rows)
        refuse_constant(table, low, high)
        usable = np.isfinite(sd) & np.isfinite(high - low) & (sd > 1e-150)
    if not usable.all():
        j = int(np.argmin(usable))
        raise InputError(f"{table.column(j)} goes from {low[j]:g} to {high[j]:g}, which cannot be scaled: rescale it.")
    return Statistics(low, high, mean, sd)


def refuse_constant(table: Table, low: NDArray[Any], high: NDArray[Any]) -> None:
    """Refuse a column that never changes: its weight cannot be separated from the bias."""
    same = np.flatnonzero(low == high)
    if same.size:
        more = f" (so are {', '.join(map(str, same[1:]))})" if same.size > 1 else ""
        raise InputError(
            f"{table.column(same[0])} is {low[same[0]]:g} in every row{more}, which tells nothing about the state: "
            "leave it out."
        )
