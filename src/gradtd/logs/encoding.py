"""Encodes observations: text becomes one column per label, and missing values are filled or dropped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core.checks import InputError
from gradtd.logs.column_names import Roles, listed
from gradtd.logs.steps import Flags
from gradtd.logs.tables import Piece, Table

MOST_LABELS = 100
"""Maximum number of labels of a text column that is encoded."""
MISSING = ("refuse", "drop", "indicator")
"""Ways to handle missing values."""


@dataclass
class _Seen:
    """What was found in a whole column of the observation."""

    labels: dict[str, None] = field(default_factory=dict)
    text: bool = False
    ordered: bool = False
    total: Any = 0.0
    count: Any = 0

    def add(self, piece: Piece) -> None:
        gone = gaps(piece)
        if piece.labels is not None:
            self.text, self.ordered = True, piece.ordered
            used = piece.labels if piece.ordered else [piece.labels[k] for k in np.unique(piece.values[~gone])]
            self.labels.update(dict.fromkeys(used))
        else:
            self.total = self.total + np.where(gone, 0.0, piece.values).sum(axis=0, dtype=np.float64)
            self.count = self.count + (~gone).sum(axis=0)

    @property
    def order(self) -> list[str]:
        return list(self.labels) if self.ordered else sorted(self.labels)

    @property
    def mean(self) -> Any:
        return self.total / np.maximum(self.count, 1)


def gaps(piece: Piece) -> NDArray[Any]:
    """Mask of missing values, in the shape of the values."""
    values = piece.values
    gone: NDArray[Any] = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
    if piece.missing is not None:
        gone |= piece.missing if gone.ndim == 1 else piece.missing[:, None]
    return np.asarray(gone)


class EncodedTable:
    """A table whose observations were made numeric. ``lost`` are the rows to drop, and ``parts`` are the names of
    components."""

    sure = True

    def __init__(self, table: Table, roles: Roles, missing: str) -> None:
        self.table, self.name, self.missing = table, table.name, missing
        now, after = roles.several["observation"], roles.several.get("next_observation", [])
        pairs = [(name, name) for name in now]
        pairs += list(zip(after, now if len(now) == len(after) else after, strict=True))
        self.home = dict(pairs)  # next observations use the encoding of the observation
        for name, base in pairs:
            if (table.kinds[name] == "text") != (table.kinds[base] == "text"):
                raise InputError(
                    f"only one of the columns {base!r} and {name!r} contains text: convert both to the same type."
                )
        self.after = set(after)
        self.seen = {name: _Seen() for name in self.home.values()}
        self.counts, lost, none = count_missing(table, now, after, self.seen, self.home)
        self.next_state = none.astype(np.int8)  # 1 if there is no next observation
        self.lost = lost if missing == "drop" and lost.any() else None
        self.kinds = dict(table.kinds) | {name: "list" for name, base in self.home.items() if self._changes(base)}
        self.parts = self._parts(roles)

    def _changes(self, name: str) -> bool:
        seen = self.seen[name]
        return seen.text or (self.missing == "indicator" and self.counts.get(name, 0) > 0)

    def _parts(self, roles: Roles) -> tuple[str, ...]:
        made: list[str] = []
        for name, part in zip(roles.several["observation"], roles.parts, strict=True):
            seen = self.seen[name]
            if seen.text:
                _refuse_numbers(name, list(seen.labels))
                self._refuse_many(name, seen)
                made += [f"{part}={label}" for label in seen.order]
            else:
                made += [part] if np.ndim(seen.total) == 0 else [f"{part}.{k}" for k in range(len(seen.total))]
            if self.missing == "indicator" and self.counts.get(name, 0):
                made.append(f"{part} missing")
        return tuple(made)

    def _refuse_many(self, name: str, seen: _Seen) -> None:
        if len(seen.labels) > MOST_LABELS:
            raise InputError(
                f"column {name!r} of the observation has {len(seen.labels)} different labels, more than the "
                f"{MOST_LABELS} that can be encoded as columns: encode it first, or leave it out of the "
                "observation."
            )

    def notes(self) -> list[str]:
        """Notes about the encoding, with counts."""
        told = [
            f"column {name!r} of the observation is text: one column per label, {listed(seen.order)}."
            for name, seen in self.seen.items()
            if seen.text
        ]
        if self.missing == "indicator":
            told += [
                f"Missing values of {name!r}, filled with the mean and marked by an indicator column: {count}."
                for name, count in self.counts.items()
                if count
            ]
        return told

    def pieces(self, columns: Sequence[str]) -> Iterator[dict[str, Piece]]:
        for pieces in self.table.pieces(columns):
            none: NDArray[Any] | None = None
            if self.after & set(columns):  # a next observation with all values missing means that there is none
                whole = [gaps(pieces[name]).reshape(len(pieces[name].values), -1) for name in columns]
                none = np.asarray(np.logical_and.reduce([gone.all(axis=1) for gone in whole]))
            yield {name: self._encoded(name, piece, none) for name, piece in pieces.items()}

    def _encoded(self, name: str, piece: Piece, none: Flags | None) -> Piece:
        if name not in self.home or (not self._changes(self.home[name]) and self.lost is None):
            return piece
        base = self.home[name]
        seen, gone = self.seen[base], gaps(piece)
        if piece.labels is not None:
            place = {label: k for k, label in enumerate(seen.order)}
            codes = np.array([place.get(label, 0) for label in piece.labels] or [0])[piece.values]
            values = np.eye(max(len(place), 1))[codes] * ~gone[:, None]
            flags = gone
        else:
            values = np.where(gone, seen.mean, piece.values)
            flags = np.asarray(gone.reshape(len(gone), -1).any(axis=1))
        if self.missing == "indicator" and self.counts.get(base, 0):
            values = np.column_stack([values, flags])
        elif self.missing == "refuse":
            return Piece(values, flags if flags.any() else None)
        return Piece(values, none if none is not None and none.any() else None)


def _refuse_numbers(name: str, labels: Sequence[str]) -> None:
    """Refuse numbers or lists written as text, which are not categories."""
    if labels and all(label.strip()[:1] in ("[", "(", "{") for label in labels):
        raise InputError(
            f"column {name!r} of the observation contains lists as text, such as {labels[0][:40]!r}: parse them, "
            f"frame[{name!r}] = frame[{name!r}].map(json.loads)."
        )
    if labels and all(_is_number(label) for label in labels):
        raise InputError(
            f"column {name!r} of the observation contains numbers as text, such as {labels[0]!r}: convert them with "
            f"pandas.to_numeric, or, if they are categories, put a letter before them."
        )


def _is_number(label: str) -> bool:
    try:
        float(label.replace(",", "."))
    except ValueError:
        return False
    return True


def count_missing(
    table: Table,
    now: list[str],
    after: list[str],
    seen: dict[str, _Seen] | None = None,
    home: dict[str, str] | None = None,
) -> tuple[dict[str, int], NDArray[np.bool_], NDArray[np.bool_]]:
    """Count the missing values per column of the observation. Also returns their rows and the rows without a next
    observation."""
    counts = dict.fromkeys(now, 0)
    rows: list[NDArray[Any]] = [np.zeros(0, bool)]
    ends: list[NDArray[Any]] = [np.zeros(0, bool)]
    for pieces in table.pieces([*now, *after]):
        gone: dict[str, NDArray[Any]] = {
            name: np.asarray(gaps(piece).reshape(len(piece.values), -1).any(axis=1)) for name, piece in pieces.items()
        }
        size = len(pieces[now[0]].values)
        whole: NDArray[Any] = np.logical_and.reduce([np.full(size, bool(after)), *(gone[name] for name in after)])
        for name, piece in pieces.items():
            if name in counts:
                counts[name] += int(gone[name].sum())
            if seen is not None and home is not None:
                seen[home[name]].add(piece)
        lost: NDArray[Any] = np.asarray(np.logical_or.reduce([gone[name] for name in now]))
        for name in after:
            lost |= gone[name] & ~whole
            if home is not None and home[name] in counts:
                counts[home[name]] += int((gone[name] & ~whole).sum())
        rows.append(lost)
        ends.append(whole)
    return counts, np.concatenate(rows), np.concatenate(ends)


def encode(table: Table, roles: Roles, missing: str) -> Table:
    """The table. It is wrapped in an encoder only if it needs one."""
    columns = [*roles.several["observation"], *roles.several.get("next_observation", [])]
    text = any(table.kinds[name] == "text" for name in columns)
    return EncodedTable(table, roles, missing) if text or missing != "refuse" else table
