"""Reads the observations of a log, each stored once and written directly to its final place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core.arrays import Integers
from gradtd.core.checks import InputError, RowError
from gradtd.core.progress import Progress
from gradtd.logs.column_names import Roles, listed
from gradtd.logs.log import row_numbers
from gradtd.logs.steps import Steps
from gradtd.logs.tables import Piece, Table, refuse_merged


class _Extras:
    """Collects next observations from which no step starts, each with the step that led to it."""

    def __init__(self) -> None:
        self.steps: list[Integers] = []
        self.rows: list[NDArray[Any]] = []

    def add(self, steps: Integers, rows: NDArray[Any]) -> None:
        if len(steps):
            self.steps.append(steps)
            self.rows.append(rows)

    def append_to(self, observations: NDArray[Any], next_row: NDArray[np.uint32]) -> NDArray[Any]:
        """Append the extra observations to those of the steps, in the order of their steps."""
        if not self.steps:
            return observations
        steps = np.concatenate(self.steps)
        n = len(next_row)
        row_numbers(n + len(steps))
        where = np.empty(len(steps), np.int64)
        where[np.argsort(steps, kind="stable")] = np.arange(len(steps))
        if len(observations) < n + len(steps):  # more next observations differ than expected; this may copy
            observations.resize((n + len(steps), *observations.shape[1:]), refcheck=False)
        begin = 0
        for rows in self.rows:
            observations[n + where[begin : begin + len(rows)]] = rows
            begin += len(rows)
        next_row[steps] = n + where
        return observations


def read_observations(
    table: Table, roles: Roles, steps: Steps, length: int, progress: Progress | None, notes: list[str]
) -> tuple[Any, NDArray[np.uint32]]:
    """Read all observations, those of the steps first. Also returns the row of each step's next observation."""
    now, after = roles.several["observation"], roles.several.get("next_observation", [])
    total = length * (2 if after else 1)
    report = progress or (lambda done, total: None)
    n = len(steps.source)
    row = row_numbers(n)
    next_row = np.where(steps.follower, row + np.uint32(1), row)
    extras = _Extras()
    observations: NDArray[Any] | None = None
    for begin, block, missing in _blocks(table, now, length):
        _refuse_unusable(now, block, missing, begin)
        if observations is None:
            observations = _room(table, now, n + _known_extras(steps), block)
        place, serves = steps.place[begin : begin + len(block)], steps.serves[begin : begin + len(block)]
        block = _shaped(now, block, observations)
        _put(observations, place, block)
        extras.add(serves[serves >= 0], block[serves >= 0])
        report(begin + len(block), total)
    assert observations is not None  # _blocks refuses a table without rows
    if after:
        differ = 0
        for begin, block, missing in _blocks(table, after, length):
            block = _shaped(after, block, observations)
            differ += _compare(after, begin, block, missing, steps, observations, extras)
            report(length + begin + len(block), total)
        if differ:
            notes.append(
                "Next observations inside an episode that differ from the observation of the following row (kept): "
                f"{differ}."
            )
    observations = extras.append_to(observations, next_row)
    return _discrete_if_whole(table, now, observations), next_row


def _blocks(
    table: Table, columns: list[str], length: int
) -> Iterator[tuple[int, NDArray[Any], NDArray[np.bool_] | None]]:
    """Blocks of observations: (first row, values, missing entries), with values (rows, k), or (rows,) for one column.

    The values are a buffer that the next block overwrites, because allocating memory costs more than copying.
    """
    begin, scratch = 0, np.empty((0, 0))
    for pieces in table.pieces(columns):
        parts = [pieces[name] for name in columns]
        for name, part in zip(columns, parts, strict=True):
            if part.labels is not None or table.kinds[name] == "time":
                kind = "text" if part.labels is not None else "times"
                raise InputError(
                    f"column {name!r} of the observation must contain numbers, got {kind}: encode it first."
                )
        end = begin + len(parts[0].values)
        if begin < end <= length:
            block, missing = _joined(parts, scratch)
            scratch = block if len(parts) > 1 and len(block) > len(scratch) else scratch
            yield begin, block, missing
        begin = end
    if begin != length:
        raise InputError(f"all columns need the same length: {columns[0]!r} has {begin}, the reward has {length}.")


def _joined(parts: list[Piece], scratch: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    if len(parts) == 1:
        part = parts[0]
        missing = part.missing
        if missing is not None and part.values.ndim == 2:
            missing = np.broadcast_to(missing[:, None], part.values.shape)
        return part.values, missing
    widths = [1 if part.values.ndim == 1 else part.values.shape[1] for part in parts]
    shape, missing, at = (len(parts[0].values), sum(widths)), None, 0
    fits = len(scratch) >= shape[0] and scratch.shape[1] == shape[1]
    block = scratch[: shape[0]] if fits else np.empty(shape)
    for part, width in zip(parts, widths, strict=True):
        block[:, at : at + width] = part.values.reshape(-1, width)
        if part.missing is not None:
            missing = np.zeros(block.shape, bool) if missing is None else missing
            missing[:, at : at + width] = part.missing[:, None]
        at += width
    return block, missing


def _known_extras(steps: Steps) -> int:
    """Number of next observations that are always stored. Others are stored only if they differ from the next row."""
    return int((steps.serves >= 0).sum() + (steps.own & ~steps.follower).sum())


def _room(table: Table, columns: list[str], n: int, block: NDArray[Any]) -> NDArray[Any]:
    """Allocate the observations: whole numbers if the observation is a single column of whole numbers."""
    if block.ndim == 1 and block.dtype.kind in "biu" and table.sure and table.kinds[columns[0]] in ("whole", "truth"):
        return np.empty(n, np.int64)
    return np.empty((n, 1 if block.ndim == 1 else block.shape[1]), np.float64)


def _put(observations: NDArray[Any], place: Integers, block: NDArray[Any]) -> None:
    first, last = int(place[0]), int(place[-1])
    if first >= 0 and last - first == len(place) - 1 and (np.diff(place) == 1).all():
        observations[first : last + 1] = block
    else:
        kept = place >= 0
        observations[place[kept]] = block[kept]


def _are_whole(values: NDArray[Any]) -> bool:
    return bool(((values == np.floor(values)) & (np.abs(values) < 2.0**63)).all())


def _compare(
    columns: list[str],
    begin: int,
    block: NDArray[Any],
    missing: NDArray[np.bool_] | None,
    steps: Steps,
    observations: NDArray[Any],
    extras: _Extras,
) -> int:
    """Keep the next observations that differ from the following step's observation. Returns how many unexpectedly
    differed."""
    place = steps.place[begin : begin + len(block)]
    here = np.flatnonzero(place >= 0)
    step = place[here]
    own = steps.own[step]
    _refuse_half_given(columns, begin, here[~own], block, missing)
    here, step = here[own], step[own]
    values = block[here]
    lost = None if missing is None else missing.reshape(block.shape)[here]
    _refuse_unusable(columns, values, lost, begin, here)
    if observations.dtype.kind == "i" and values.dtype.kind == "f" and not _are_whole(values):
        raise InputError(f"the observations are whole numbers, and {columns[0]!r} is not: convert both to one type.")
    values = values.astype(observations.dtype)
    follows = steps.follower[step]
    same = np.zeros(len(step), bool)
    equal = values[follows] == observations[step[follows] + 1]
    same[follows] = equal.all(axis=1) if equal.ndim == 2 else equal
    extras.add(step[~same], values[~same])
    return int((follows & ~same).sum())


def _refuse_unusable(
    columns: list[str],
    block: NDArray[Any],
    missing: NDArray[np.bool_] | None,
    begin: int,
    at: Integers | None = None,
) -> None:
    """Raise an error that names the column and row of the first entry that is missing or not finite."""
    bad = ~np.isfinite(block) if block.dtype.kind == "f" else None
    if missing is not None:
        bad = missing if bad is None else bad | missing
    if bad is None or not bad.any():
        return
    where = np.argwhere(bad.reshape(len(block), -1))[0]
    row = begin + int(where[0] if at is None else at[where[0]])
    spread = bad.ndim == 2 and len(columns) == bad.shape[1]
    name = columns[int(where[1])] if spread else listed(columns)
    lost = missing is not None and bool(missing.reshape(len(block), -1)[tuple(where)])
    value = "missing" if lost else block.reshape(len(block), -1)[tuple(where)]
    raise RowError(f"column {name!r} of the observation must be finite: row {row} is {value}.", row)


def _refuse_half_given(
    columns: list[str], begin: int, at: Integers, block: NDArray[Any], missing: NDArray[np.bool_] | None
) -> None:
    """Refuse a next observation that is missing in part."""
    given = ~np.isnan(block[at]) if block.dtype.kind == "f" else np.ones(block[at].shape, bool)
    if missing is not None:
        given &= ~missing.reshape(block.shape)[at]
    if given.any():
        row = begin + int(at[np.argwhere(given)[0][0]])
        raise RowError(
            f"the next observation of row {row} lacks {columns[0]!r}, but not all of {listed(columns)}: fill it in, or "
            "leave "
            f"all of them empty.",
            row,
        )


def _shaped(columns: list[str], block: NDArray[Any], observations: NDArray[Any]) -> NDArray[Any]:
    """Check the width of a block of observations."""
    width = 1 if block.ndim == 1 else block.shape[1]
    room = 1 if observations.ndim == 1 else observations.shape[1]
    if width != room:
        raise InputError(f"an observation has {room} numbers, but {listed(columns)} has {width}.")
    return block.reshape(len(block), *observations.shape[1:])


def _discrete_if_whole(table: Table, columns: list[str], observations: NDArray[Any]) -> NDArray[Any]:
    """Make a single column of whole numbers discrete."""
    if table.sure or len(columns) > 1 or table.kinds[columns[0]] not in ("whole", "truth"):
        return observations
    values = observations[:, 0]
    if observations.shape[1] > 1 or not _are_whole(values):
        return observations
    refuse_merged(columns[0], values)
    return values.astype(np.int64)
