"""The narrow columns of a log (numbers, flags, actions, probabilities), read whole and checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError, RowError
from gradtd.core.memory_limits import refuse_beyond_memory
from gradtd.core.parsing import whole_numbers
from gradtd.core.stream import episode_numbers
from gradtd.logs.column_names import TOGETHER, Roles, listed
from gradtd.logs.steps import Flags, Steps
from gradtd.logs.tables import Piece, Table, refuse_merged

GIVEN, MISSING, NOT_A_NUMBER = 0, 1, 2
DROP = " Drop such rows with missing='drop'."
TRUTHS = {"true": True, "t": True, "yes": True, "y": True, "1": True, "1.0": True}
TRUTHS |= {"false": False, "f": False, "no": False, "n": False, "0": False, "0.0": False}
"""Text that means true or false."""


@dataclass
class Column:
    """A whole column with its name. Text is coded by ``labels``. ``ordered`` says that they are ordered categories."""

    name: str
    values: NDArray[Any]
    missing: Flags | None = None
    labels: tuple[str, ...] | None = None
    kind: str = "real"
    ordered: bool = False

    def refuse_missing(self) -> None:
        if self.missing is not None and self.missing.any():
            at = int(np.flatnonzero(self.missing)[0])
            more = int(self.missing.sum()) - 1
            others = f" (and {more} more)" if more else ""
            raise RowError(
                f"column {self.name!r} has no value in row {at}{others}. Fill it in, or drop such rows with "
                "missing='drop'.",
                at,
            )

    def numbers(self, cure: str = DROP) -> Floats:
        """One finite number per row. For other entries, the error gives ``cure`` as advice."""
        values = self.values
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if self.labels is not None or self.kind == "time" or values.ndim != 1:
            got = "text" if self.labels is not None else "times" if self.kind == "time" else f"shape {values.shape}"
            way = "convert it with pandas.to_numeric, or name another column" if got == "text" else "name another"
            raise InputError(f"column {self.name!r} must contain one number per row, got {got}: {way}.")
        self.refuse_missing()
        return self._finite(values, cure)

    def _finite(self, values: NDArray[Any], cure: str = "") -> NDArray[Any]:
        found = np.ascontiguousarray(checks.numeric_array(self.name, values, values.ndim), np.float64)
        lost = np.asarray(~np.isfinite(found).all(axis=tuple(range(1, found.ndim))))
        refuse_rows(f"column {self.name!r}", lost, found, "must be finite", cure=cure)
        return found

    def flags(self) -> Flags:
        """One flag per row, from entries that are true or false, or 1 or 0."""
        if self.values.dtype.kind == "b" and self.values.ndim == 1:
            self.refuse_missing()
            return self.values
        if self.labels is not None:
            self.refuse_missing()
            words = [TRUTHS.get(label.strip().lower()) for label in self.labels]
            if None in words:
                raise InputError(
                    f"column {self.name!r} must contain true or false, or 1 or 0, got text such as "
                    f"{self.labels[words.index(None)]!r}. Compare it first: frame[{self.name!r}] == 'end'."
                )
            return np.asarray(np.array(words, bool)[self.values])
        values = self.numbers("")
        neither = (values != 0) & (values != 1)
        refuse_rows(f"column {self.name!r}", neither, values, "must contain true or false, or 1 or 0")
        return np.asarray(values != 0)

    def times(self) -> tuple[NDArray[Any], bool]:
        """One sortable time per row, and whether the times count steps."""
        if self.kind == "time":
            self.refuse_missing()
            return self.values, False
        if self.labels is not None:
            self.refuse_missing()
            return self._dates()[self.values], False
        if self.values.dtype.kind in "iu" and self.values.ndim == 1 and self.labels is None:
            self.refuse_missing()
            refuse_merged(self.name, self.values)
            return self.values.astype(np.int64, copy=False), True
        values = self.numbers("")
        return values, bool((values == np.floor(values)).all())

    def _dates(self) -> Integers:
        """Convert ISO 8601 dates to microseconds."""
        try:
            dates = [datetime.fromisoformat(label.strip()) for label in self.labels or ()]
        except ValueError as error:
            raise InputError(
                f"column {self.name!r} must contain numbers, times or dates such as 2024-05-01T12:30: "
                f"{str(error).rstrip('.')}. Convert it with pandas.to_datetime first, or leave it out, "
                'columns={"t": None}.'
            ) from None
        if len({date.tzinfo is None for date in dates}) > 1:
            raise InputError(
                f"column {self.name!r} has times with and without a time zone: use one form for all of them."
            )
        begin = datetime(1970, 1, 1, tzinfo=None if not dates or dates[0].tzinfo is None else UTC)
        return np.array([(date - begin) // timedelta(microseconds=1) for date in dates] or [0], np.int64)

    def ranks(self) -> Integers:
        """Episode ids renumbered 0, 1, ... in sorted order."""
        self.refuse_missing()
        values = self.values
        if values.ndim != 1:
            raise InputError(f"column {self.name!r} must contain one episode id per row, got shape {values.shape}.")
        if values.dtype.kind == "f":
            self._finite(values)
            refuse_merged(self.name, values)
        if values.dtype.kind in "iu" and (values[1:] >= values[:-1]).all():  # most logs are sorted already
            return episode_numbers(values)
        return np.unique(values, return_inverse=True)[1].astype(np.int64)

    def actions(self) -> NDArray[Any]:
        """One action per row: whole numbers, codes of text labels, or floats (n,) or (n, m) if any action is not
        whole."""
        self.refuse_missing()
        values = self.values
        refuse_merged(self.name, values[:0] if values.dtype.kind == "f" else values)
        if self.labels is not None:
            return values
        if values.ndim == 2 and values.shape[1] > 1:
            return self._finite(values, DROP)
        real = self._finite(values.reshape(-1), DROP)
        if values.dtype.kind == "f" and ((real != np.floor(real)) | (np.abs(real) >= 2**53)).any():
            return real
        return values.reshape(-1).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Facts:
    """Properties of the whole log, with which every chunk is read, so that all chunks are read in the same way."""

    counted: bool = True  # whether t counts steps, so that missing ones can be detected
    stride: float | None = None  # the smallest step of t; None until rows are arranged
    real_actions: bool = False  # whether some action is not a whole number
    actions: frozenset[Any] = frozenset()  # the discrete actions: labels of text, or whole numbers
    above: frozenset[str] = frozenset()
    below: frozenset[str] = frozenset()
    """``above`` and ``below``: the probability columns that contain a number above 0, or below 0."""
    order: tuple[str, ...] = ()  # the ordered categories of the actions, if they have an order

    def merge(self, other: Facts) -> Facts:
        """The facts of two sets of rows, merged."""
        strides = [stride for stride in (self.stride, other.stride) if stride is not None]
        return Facts(
            self.counted and other.counted,
            min(strides) if strides else None,
            self.real_actions or other.real_actions,
            self.actions | other.actions,
            self.above | other.above,
            self.below | other.below,
            self._merged_order(other),
        )

    def _merged_order(self, other: Facts) -> tuple[str, ...]:
        if self.order and other.order and self.order != other.order:
            raise InputError(
                f"the action's categories are {listed(self.order)} in one part of the log and {listed(other.order)} in "
                "another: use the same categories everywhere, or give their order, actions=[...]."
            )
        return self.order or other.order

    def are_logarithms(self, column: str) -> bool:
        """Whether a column looks like log-probabilities: no number is above 0, and some numbers are below 0."""
        return column in self.below and column not in self.above


def facts_of(found: Mapping[str, Column], roles: Roles, stride: float | None = None) -> Facts:
    """The facts of columns returned by `gather`."""
    names = roles.several.get("action", ())
    real, actions, order = len(names) > 1, frozenset[Any](), tuple[str, ...]()
    marks = marked_actions(found, roles)
    if marks is not None:
        real, actions = False, frozenset(range(marks.shape[1]))
    elif len(names) == 1:
        column = found[f"action.{names[0]}"]
        taken = column.actions()
        real, order = taken.dtype.kind == "f", column.labels if column.ordered and column.labels else ()
        if not real:
            distinct = _distinct(taken)
            actions = frozenset(distinct if column.labels is None else (column.labels[k] for k in distinct))
    chances = [found[role] for role in ("behaviour", "target") if role in roles.single]
    chances += [found[f"keep.{name}"] for name in roles.keep]
    numeric = [column for column in chances if column.labels is None and column.values.ndim == 1]
    return Facts(
        "t" not in roles.single or found["t"].times()[1],
        stride,
        real,
        actions,
        frozenset(column.name for column in numeric if (column.values > 0).any()),
        frozenset(column.name for column in numeric if (column.values < 0).any()),
        order,
    )


def marked_actions(found: Mapping[str, Column], roles: Roles) -> NDArray[Any] | None:
    """The action columns (rows, actions) if each row has a single 1 and otherwise 0. None if not."""
    parts = [found[f"action.{name}"] for name in roles.several.get("action", ())]
    if not parts or any(part.labels is not None or part.values.dtype.kind not in "biuf" for part in parts):
        return None
    values = parts[0].values if len(parts) == 1 else np.column_stack([part.values for part in parts])
    if values.ndim != 2 or values.shape[1] < 2 or not np.isin(values[:1], (0, 1)).all():
        return None
    once = np.isin(values, (0, 1)).all() and (np.count_nonzero(values, axis=1) == 1).all()
    return values if once and len(values) >= values.shape[1] else None


def _distinct(values: Integers) -> list[int]:
    """The distinct whole numbers. Small ones are counted instead of sorted, because most actions are small numbers."""
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    if high - low < 2**16:
        return [low + int(k) for k in np.flatnonzero(np.bincount(values - low))]
    return [int(one) for one in np.unique(values)]


class _Collector:
    """Collects the pieces of one column."""

    def __init__(self, name: str, kind: str) -> None:
        self.name, self.kind = name, kind
        self.values: list[NDArray[Any]] = []
        self.missing: list[Flags | None] = []
        self.codes: dict[str, int] = {}
        self.orders: set[tuple[str, ...] | None] = set()

    def add(self, piece: Piece) -> None:
        values = piece.values
        if piece.labels is not None:
            ours = [self.codes.setdefault(label, len(self.codes)) for label in piece.labels]
            values = np.array(ours or [0], np.int64)[values]
            self.orders.add(piece.labels if piece.ordered else None)
        self.values.append(np.array(values))  # a copy: the piece may be a view of something large
        self.missing.append(piece.missing)

    def whole(self) -> Column:
        values = self.values[0] if len(self.values) == 1 else np.concatenate(self.values or [np.zeros(0)])
        missing = None
        if any(m is not None for m in self.missing):
            parts = zip(self.missing, self.values, strict=True)
            missing = np.concatenate([np.zeros(len(v), bool) if m is None else m for m, v in parts])
        self.values, labels = [], None
        ordered = len(self.orders) == 1 and None not in self.orders
        if self.codes:
            order = list(self.codes) if ordered else in_order(self.codes)
            rank = np.empty(len(order), np.int64)
            rank[[self.codes[label] for label in order]] = np.arange(len(order))
            values, labels = rank[values], tuple(order)
        return Column(self.name, values, missing, labels, self.kind, ordered)


def in_order(labels: Iterable[str]) -> list[str]:
    """Sort labels alphabetically, or numerically if all are whole numbers."""
    every = list(labels)
    return sorted(every) if whole_numbers(every) is None else sorted(every, key=int)


def gather(table: Table, roles: Roles) -> tuple[dict[str, Column], NDArray[np.int8] | None]:
    """Every narrow column by role, keep.name or action.name, and a mask of the rows with a next observation."""
    wanted = {**roles.single, **{f"keep.{name}": name for name in roles.keep}}
    wanted |= {f"action.{name}": name for name in roles.several.get("action", ())}
    collectors = {role: _Collector(name, table.kinds[name]) for role, name in wanted.items()}
    after = roles.several.get("next_observation", [])[:1]
    states: list[NDArray[np.int8]] = []
    if "episode" in roles.single and hasattr(table, "keep_apart"):
        table.keep_apart(roles.single["episode"])
    if hasattr(table, "entries"):
        _refuse_large(table, table.entries(roles.columns))
    rows, looked = 0, 0.0
    for pieces in table.pieces(list(dict.fromkeys([*wanted.values(), *after]))):
        for role, name in wanted.items():
            collectors[role].add(pieces[name])
        rows += len(next(iter(pieces.values())).values)
        if rows > looked:  # the remaining rows take at least as much memory again
            _refuse_large(table, rows * len(roles.columns))
            looked = 1.1 * rows
        if after:
            states.append(_next_state(pieces[after[0]]))
    columns = {role: collector.whole() for role, collector in collectors.items()}
    return columns, np.concatenate([np.zeros(0, np.int8), *states]) if after else None


def _refuse_large(table: Table, numbers: int) -> None:
    """Refuse a table that is too large for memory. A compressed file does not state its size, so the size is checked
    during reading."""
    advice = "evaluate Parquet files in parts, in_parts=True, or write the log to several files and read some of them"
    refuse_beyond_memory(8.0 * numbers, f"{table.name!r}, {numbers:,} numbers or more,", advice)


def drop_missing(found: Mapping[str, Column]) -> Flags:
    """A mask of the rows that lack a required value. Until these rows are dropped, the missing values are
    placeholders."""
    lost = np.zeros(len(found["reward"].values), bool)
    for role, column in found.items():
        if role in TOGETHER or role.startswith("keep."):
            continue
        gone = np.isnan(column.values) if column.values.dtype.kind == "f" else np.zeros(column.values.shape, bool)
        gone = gone.reshape(len(gone), -1).any(axis=1)
        if column.missing is not None:
            gone |= column.missing
        if gone.any() and not gone.all():
            column.values[gone] = column.values[np.flatnonzero(~gone)[0]]
            column.missing = None
            lost |= gone
    return lost


def _next_state(piece: Piece) -> NDArray[np.int8]:
    state = np.zeros(len(piece.values), np.int8)
    if piece.values.dtype.kind == "f":
        lost = np.isnan(piece.values)
        state[lost.all(axis=1) if lost.ndim == 2 else lost] = NOT_A_NUMBER
    if piece.missing is not None:
        state[piece.missing] = MISSING
    return state


def refuse_unknown_next(state: NDArray[np.int8] | None, steps: Steps, roles: Roles) -> None:
    """NaN as next observation means "none" at the end of an episode and is an error elsewhere."""
    if state is None:
        return
    bad = np.zeros(len(state), bool)
    bad[steps.source[steps.follower]] = state[steps.source[steps.follower]] == NOT_A_NUMBER
    if bad.any():
        name = roles.several["next_observation"][0]
        row = int(np.flatnonzero(bad)[0])
        raise RowError(f"column {name!r} must be finite: row {row} is nan inside an episode.", row)


def refuse_rows(
    what: str, bad: Flags, values: NDArray[Any], rule: str, rows: Integers | None = None, cure: str = ""
) -> None:
    """Raise an error that names the first bad row."""
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        more, row = int(bad.sum()) - 1, at if rows is None else int(rows[at])
        others = f" (and {more} more)" if more else ""
        raise RowError(f"{what} {rule}: row {row} is {values[at]}{others}.{cure}", row)


def equal_rows(table: Table, roles: Roles, first: Integers, second: Integers) -> Flags:
    """Whether pairs of rows are equal in every column read."""
    wanted = np.unique(np.r_[first, second])
    several = [name for names in roles.several.values() for name in names]
    names = list(dict.fromkeys([*roles.single.values(), *several, *roles.keep]))
    collectors = {name: _Collector(name, table.kinds[name]) for name in names}
    begin = 0
    for pieces in table.pieces(names):
        end = begin + len(pieces[names[0]].values)
        here = wanted[(wanted >= begin) & (wanted < end)] - begin
        for name in names:
            piece = pieces[name]
            missing = None if piece.missing is None else piece.missing[here]
            collectors[name].add(Piece(piece.values[here], missing, piece.labels))
        begin = end
    i, j = np.searchsorted(wanted, first), np.searchsorted(wanted, second)
    same = np.ones(len(first), bool)
    for collector in collectors.values():
        column = collector.whole()
        equal = column.values[i] == column.values[j]
        if column.values.dtype.kind == "f":
            equal |= np.isnan(column.values[i]) & np.isnan(column.values[j])
        same &= equal.all(axis=1) if equal.ndim == 2 else equal
        if column.missing is not None:
            same &= column.missing[i] == column.missing[j]
    return same
