"""Writes a log as a flat table with gradtd's column names, which `read_log` reads back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from gradtd.core.checks import InputError
from gradtd.core.files import replace_file
from gradtd.core.parsing import whole_numbers
from gradtd.core.stream import begins_episode, episode_begins
from gradtd.logs.column_names import ALIASES
from gradtd.logs.files import MARK, PARQUET, mark_of
from gradtd.logs.log import Log
from gradtd.logs.tables import PIECE


def write_log(log: Log, path: str | os.PathLike[str]) -> Path:
    """Write a log to a file, one row per step.

    A next observation is written only if it differs from the next row's observation. Name and notes are not written.

    Parameters
    ----------
    log
        The log. Its extra columns keep their names; read them back with ``keep``.
    path
        A file whose name ends in .parquet or .csv.
    """
    if not isinstance(log, Log):
        raise InputError(f"write_log takes a Log, got {type(log).__name__}: make one with read_log.")
    target = Path(path)
    if target.suffix.lower() not in (*PARQUET, ".csv"):
        raise InputError(f"a log is written to a file that ends in .parquet or .csv, got {target.name!r}.")
    if not target.absolute().parent.is_dir():
        raise InputError(f"there is no folder {str(target.absolute().parent)!r} to write to.")
    known = {alias for aliases in ALIASES.values() for alias in aliases}
    for name in log.extra:
        if name.lower() in known:
            raise InputError(f"the extra column {name!r} would be read back in another role: rename it.")
    csv = target.suffix.lower() == ".csv"
    try:
        replace_file(target, lambda file: _write(file, _batches(log, csv), csv, len(log)))
    except OSError as error:
        raise InputError(f"cannot write {str(target)!r}: {error.strerror or error}.") from None
    return target


def _write(file: BinaryIO, batches: Iterator[Any], csv: bool, rows: int) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    first = next(batches)
    if csv:
        options = pyarrow.csv.WriteOptions(quoting_style="needed")
        writer = pyarrow.csv.CSVWriter(file, first.schema, write_options=options)
    else:
        marked = first.schema.with_metadata({MARK: mark_of(first.schema, rows)})
        writer = pyarrow.parquet.ParquetWriter(file, marked, write_page_checksum=True)
    with writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)


def _batches(log: Log, csv: bool) -> Iterator[Any]:
    """The table in batches, so that a large log needs no second copy."""
    import pyarrow as pa

    n = len(log)
    goes_on = np.append(~begins_episode(log.episode)[1:], False)
    follows = goes_on & (log.next_row == np.r_[log.row[1:], 0])
    # A next observation is omitted if it is that of the next row, or if a terminated step repeats its own observation.
    silent = follows | (log.terminated & (log.next_row == log.row))
    t = _times(log, np.flatnonzero(goes_on & ~follows))
    names = _observation_columns(log)
    for begin in range(0, n, 4 * PIECE):
        at = slice(begin, begin + 4 * PIECE)
        columns: dict[str, Any] = {"episode_id": log.episode[at], "t": t[at]}
        columns |= _observation(log, names, log.row[at], None, csv)
        columns |= _actions(log, at, csv)
        columns |= {"reward": log.reward[at], "terminated": log.terminated[at], "truncated": log.truncated[at]}
        for label, name in (("behaviour", "behaviour_probability"), ("target", "target_probability"), ("rho", "rho")):
            if getattr(log, label) is not None:
                columns[name] = getattr(log, label)[at]
        columns |= {name: values[at] for name, values in log.extra.items()}
        if not silent.all():
            columns |= _observation(log, [f"next_{name}" for name in names], log.next_row[at], silent[at], csv)
        yield pa.RecordBatch.from_pydict(columns)


def _times(log: Log, apart: NDArray[Any]) -> NDArray[np.int64]:
    """Step numbers 0, 1, ... in each episode, with a gap where the next row does not continue the step."""
    like = log.observations[log.next_row[apart]] == log.observations[log.row[apart + 1]]
    like = like.all(axis=1) if like.ndim == 2 else like
    ahead = np.ones(len(log), np.int64)
    ahead[apart[like] + 1] = 2
    t = np.cumsum(ahead)
    begins = episode_begins(log.episode)
    return np.asarray(t - np.repeat(t[begins[:-1]], np.diff(begins)))


def _observation_columns(log: Log) -> list[str]:
    names = log.observation_names
    if names == ("observation",):
        return ["observation"]
    if (numbers := whole_numbers(names)) is not None:  # they are read back in numeric order
        ascending = numbers == sorted(set(numbers))
        return [f"observation_{k}" for k in (numbers if ascending else range(len(numbers)))]
    return [f"observation.{name}" for name in names]


def _observation(log: Log, names: list[str], rows: NDArray[Any], silent: Any, csv: bool) -> dict[str, Any]:
    import pyarrow as pa

    block = log.observations[rows]
    if block.ndim == 1:
        return {names[0]: pa.array(block, mask=silent)}
    columns = {name: pa.array(block[:, k], mask=silent) for k, name in enumerate(names)}
    return {name: _with_point(column) for name, column in columns.items()} if csv else columns


def _actions(log: Log, at: slice, csv: bool) -> dict[str, Any]:
    import pyarrow as pa

    if log.action is None:
        return {}
    action = log.action[at]
    if action.ndim == 2:
        columns = {f"action_{k}": pa.array(action[:, k]) for k in range(action.shape[1])}
        return {name: _with_point(column) for name, column in columns.items()} if csv else columns
    if log.action_labels is None:
        return {"action": action}
    return {"action": pa.array(list(log.action_labels)).take(pa.array(action))}


def _with_point(column: Any) -> Any:
    """Floats as text with a point, since 1 in a CSV file would be read as a discrete number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    text = column.cast(pa.string())
    return pc.if_else(pc.match_substring_regex(text, "[.e]"), text, pc.binary_join_element_wise(text, ".0", ""))
