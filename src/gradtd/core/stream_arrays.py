"""Validates what compiled code reads of a stream. No other module does this.

Compiled code does not check indices. Every number that it uses as an index is therefore checked here, once per stream,
and stored where nothing can change it: the steps and the indices of sparse features are private copies, which callers
see through read-only views. The numbers of dense features may change, because they are never used as indices. Features
in float32 stay float32: compiled code converts an entry when it reads it, so that every product and sum is float64.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradtd.core import checks
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError

if TYPE_CHECKING:
    import scipy.sparse

STEP = np.dtype(
    [
        ("row", np.uint32),
        ("next_row", np.uint32),
        ("reward", np.float64),
        ("discount", np.float64),
        ("rho", np.float64),
        ("episode", np.int64),
    ],
    align=True,
)
"""One step of experience; ``row`` and ``next_row`` point into the stream's features.

``discount`` is per step: gamma, and 0 if the episode *terminated*. Where an episode was only
cut off (*truncated*) it stays gamma and ``next_row`` is the observation that followed, so the
update bootstraps as it should."""


class SparseRows(NamedTuple):
    """A sparse feature matrix in compressed rows, the form compiled code reads; columns increase along a row."""

    data: Floats
    indices: NDArray[np.uint32]
    begin: NDArray[np.int64]
    n_columns: int


class StreamView(NamedTuple):
    """A stream as an algorithm sees it: ``stream.features`` and ``stream.steps[t].reward`` and so on.

    ``traces`` contains the eligibility trace of step t in row t, stored like the features. None if lam is 0; then the
    trace of a step is its features.
    """

    features: Any
    steps: Any
    traces: Any = None


class TrustedTable(NamedTuple):
    """A table of features whose indices are all valid, in the form for callers and in the form for compiled code."""

    seen: Any
    compiled: Any

    @property
    def n_rows(self) -> int:
        return int(self.seen.shape[0])


def trusted_features(features: Floats | scipy.sparse.csr_array) -> TrustedTable:
    """A table of features that no caller holds, validated; it is not copied."""
    if isinstance(features, np.ndarray):
        table = checks.dense_table(features)
        return TrustedTable(table, table)
    checks.sparse_structure(features)
    indices, begin = np.ascontiguousarray(features.indices), np.ascontiguousarray(features.indptr)
    seen = copy(features)
    seen.indices, seen.indptr = read_only(indices), read_only(begin)
    # Numbers of 32 bits that are not negative are the same with and without a sign: nothing is copied.
    columns = indices.view(np.uint32) if indices.dtype == np.int32 else indices.astype(np.uint32)
    data = np.ascontiguousarray(features.data, dtype=checks.stored_kind(features.data.dtype))
    return TrustedTable(seen, SparseRows(data, columns, begin.astype(np.int64), int(features.shape[1])))


def trusted_steps(steps: NDArray[Any], table: TrustedTable, highest: int | None = None) -> Any:
    """Steps that no caller holds, after a check that each points to rows of the table; ``highest`` is the highest of
    these rows."""
    if highest is None:
        highest = int(max(steps["row"].max(), steps["next_row"].max()))
    if highest >= table.n_rows:
        rule = f"must be a row of features, 0 to {table.n_rows - 1}"
        for label in ("row", "next_row"):
            checks.refuse_where(label, steps[label] >= table.n_rows, steps[label], rule)
        raise InputError(f"row {rule}, got {highest}.")
    return steps.view(np.recarray)


def trusted_starts(starts: Any, episode: NDArray[Any], table: TrustedTable) -> NDArray[np.int64]:
    """The rows in which episodes start, one per episode."""
    rows = checks.whole_numbers("starts", starts)
    count = 1 + int(np.count_nonzero(episode[1:] != episode[:-1]))
    if len(rows) != count:
        raise InputError(f"starts needs one row of features per episode ({count}), got {len(rows)}.")
    outside = (rows < 0) | (rows >= table.n_rows)
    checks.refuse_where("starts", outside, rows, f"must be a row of features, 0 to {table.n_rows - 1}")
    return rows


def copied_steps(steps: Any, target: Any) -> tuple[NDArray[Any], Floats | None]:
    """Copies of a caller's records and probabilities, validated like those of `Stream.from_arrays`."""
    found = np.asarray(steps)
    if found.ndim != 1 or _described(found.dtype) != _described(STEP):
        raise InputError(
            "steps must be one record of type gradtd.core.stream.STEP per step, got an array of "
            f"{_short(found.dtype)} with shape {found.shape}: make a stream with Stream.from_arrays."
        )
    if not len(found):
        raise InputError("a stream needs at least one step, got steps of length 0.")
    made = found.astype(STEP)
    columns: dict[str, NDArray[Any]] = {label: made[label] for label in ("reward", "discount", "rho")}
    if target is not None:
        columns["target"] = checks.number_a_step("target", target, len(made)).copy()
        if len(columns["target"]) != len(made):
            raise InputError(f"target needs one entry per step ({len(made)}), got {len(columns['target'])}.")
    refuse_bad_numbers(columns)
    return made, columns.get("target")


def refuse_bad_numbers(columns: dict[str, NDArray[Any]]) -> None:
    """Rewards are finite, discounts and probabilities lie in [0, 1], ratios are not negative."""
    for label, values in columns.items():
        if label in ("reward", "rho"):
            checks.refuse_where(label, ~np.isfinite(values), values, "must be finite")
        if label in ("discount", "target"):
            checks.refuse_where(label, ~((values >= 0) & (values <= 1)), values, "must lie in [0, 1]")
        if label == "rho":
            checks.refuse_where(label, values < 0, values, "must not be negative")


def read_only(array: NDArray[Any]) -> Any:
    """The same numbers, through a read-only view."""
    view = array.view()
    view.flags.writeable = False
    return view


def _described(dtype: np.dtype[Any]) -> list[tuple[str, Any]]:
    return [(name, dtype[name]) for name in dtype.names or ()]


def _short(dtype: np.dtype[Any]) -> str:
    return str(dtype.type.__name__) if dtype.names is None else f"records ({', '.join(dtype.names)})"
