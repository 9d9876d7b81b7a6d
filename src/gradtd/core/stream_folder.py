"""A stream in a folder: its features and steps are memory-mapped, so that memory does not limit its length.

Dense features are one file, sparse ones are three: entries, their columns, and where each row ends. The target's
probabilities are also a file, if the stream has them, and so are the start rows of episodes.

A folder may come from an unknown source. Opening it reads it once, piece by piece, and validates checksums, every index
and every number. After that the files are trusted, so no other process should write to them while they are open.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gradtd.core import checks
from gradtd.core.checks import InputError
from gradtd.core.files import part_of, read_file, reading, remove_strays, write_text, writing
from gradtd.core.stream import STEP, Stream, begins_episode
from gradtd.core.stream_arrays import refuse_bad_numbers

MADE_BY = "gradtd stream"
FORMATS: dict[int, np.dtype[Any]] = {
    **{1: np.dtype(np.float64), 2: np.dtype(np.float32)},
    **{3: np.dtype(np.float64), 4: np.dtype(np.float32)},
}
"""The format number gives the type of the features; from format 3 on they are sparse."""
SPARSE = 3
HEADER, FEATURES, STEPS = "header.json", "features.bin", "steps.bin"
COLUMNS, ENDS, TARGET, STARTS = "columns.bin", "ends.bin", "target.bin", "starts.bin"
MOST_ENTRIES = 2**31 - 1
"""For sparse features: columns and ends of rows have 32 bits, as in SciPy."""
BYTES, ROWS = 2**24, 2**16
"""Bytes read or written at a time, and rows of sparse features validated at a time."""
MOST_ROWS = 2**32
"""Steps point to rows with 32 bits."""


class StoredStream(Stream):
    """A `Stream` whose arrays are mapped from a folder."""

    folder: Path

    def room(self, n: int, dtype: Any) -> NDArray[Any]:
        """Zeros on disk, deleted together with the array: what a run stores for every step."""
        if not n:
            return np.zeros(0, dtype)
        beside = self.folder.parent  # this disk has room for the stream itself
        with tempfile.TemporaryFile(dir=beside if os.access(beside, os.W_OK) else None) as file:
            file.truncate(n * np.dtype(dtype).itemsize)
            return np.asarray(np.memmap(file, dtype, "r+", shape=(n,)))

    def resized(self, kept: NDArray[Any], n: int) -> NDArray[Any]:
        if n <= len(kept):
            return kept[:n]  # parts that were never written take no space on disk
        longer = self.room(n, kept.dtype)
        longer[: len(kept)] = kept
        return longer

    def __reduce__(self) -> tuple[Any, ...]:
        return open_stream, (self.folder,)


class Writer:
    """Writes a stream to a folder, part by part; the folder appears when it is complete."""

    def __init__(self, folder: str | Path, name: str) -> None:
        self.folder, self.name = Path(folder), name
        if self.folder.exists():
            raise InputError(f"{str(self.folder)!r} already exists: remove it, or use another name.")
        if not self.folder.absolute().parent.is_dir():
            raise InputError(f"there is no folder {str(self.folder.absolute().parent)!r}.")
        self.part = part_of(self.folder)
        self.n_features = self.rows = self.steps = 0
        self.format = 0  # set by the type of the first rows
        self.entries = self.chances = 0
        self.digests: dict[str, Any] = {}
        self.files: dict[str, Any] = {}

    def __enter__(self) -> Self:
        remove_strays(self.folder.absolute().parent, self.folder.name)
        self.part.mkdir()
        for name in (FEATURES, STEPS):
            self._write(name, np.zeros(0))
        return self

    def _write(self, name: str, array: NDArray[Any]) -> None:
        """Append to a file of the folder."""
        if name not in self.files:
            self.files[name], self.digests[name] = (self.part / name).open("wb"), hashlib.sha256()
        content = array.reshape(-1).view(np.uint8).data
        self.digests[name].update(content)
        self.files[name].write(content)

    def add(self, features: Any, steps: NDArray[Any], target: NDArray[np.float64] | None = None) -> None:
        """Append rows, dense or sparse, and the steps that refer to them. Episodes in ``steps`` must have consecutive
        numbers.

        ``target`` contains the target's probabilities for these steps. The stream has them if they were given for all
        parts.
        """
        rows, columns = features.shape
        if self.rows and columns != self.n_features:
            raise InputError(
                f"a part has {columns} features, but earlier parts have {self.n_features}: use the same features for "
                "all parts."
            )
        if self.rows + rows > MOST_ROWS:
            raise InputError(f"a stream has at most {MOST_ROWS} rows of features: store the log in several.")
        kind = 2 if features.dtype == np.float32 else 1
        kind += 0 if isinstance(features, np.ndarray) else SPARSE - 1
        self.format = self.format or kind
        if features.dtype != np.float32 and self.format in (2, 4):
            raise InputError(
                f"a part has features of {features.dtype}, earlier parts of float32: use one type for all."
            )
        if (kind >= SPARSE) != (self.format >= SPARSE):
            raise InputError("some parts have sparse features and others dense ones: use one kind for all.")
        moved = np.array(steps, STEP)
        for end in ("row", "next_row"):
            moved[end] += np.uint32(self.rows)
        if kind >= SPARSE:
            self._add_sparse(features)
        else:
            self._write(FEATURES, np.ascontiguousarray(features, FORMATS[self.format]))
        self._write(STEPS, _plain(moved))
        if target is not None:
            self._write(TARGET, np.ascontiguousarray(target, np.float64))
            self.chances += len(target)
        self.n_features, self.rows, self.steps = columns, self.rows + rows, self.steps + len(moved)

    def add_starts(self, starts: NDArray[np.int64]) -> None:
        """The start rows of all episodes."""
        self._write(STARTS, np.ascontiguousarray(starts, np.int64))

    def _add_sparse(self, features: Any) -> None:
        if self.entries + features.nnz > MOST_ENTRIES:
            raise InputError(f"a stream has at most {MOST_ENTRIES} entries of sparse rows: store the log in several.")
        self._write(FEATURES, np.ascontiguousarray(features.data, FORMATS[self.format]))
        self._write(COLUMNS, np.ascontiguousarray(features.indices, np.int32))
        self._write(ENDS, (features.indptr[1:] + self.entries).astype(np.int32))
        self.entries += features.nnz

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for file in self.files.values():
            if kind is None:
                file.flush()
                os.fsync(file.fileno())
            file.close()
        if kind is None:
            write_text(self.part / HEADER, json.dumps(self._header()))
            os.replace(self.part, self.folder)
        shutil.rmtree(self.part, ignore_errors=True)

    def _header(self) -> dict[str, Any]:
        told = {"made_by": MADE_BY, "format": self.format, "name": self.name, "n_features": self.n_features}
        known = [name for name in self.digests if name != TARGET or self.chances == self.steps]
        sums = {name: self.digests[name].hexdigest() for name in known}
        return told | {"rows": self.rows, "steps": self.steps, "entries": self.entries, "sha256": sums}


def _plain(steps: NDArray[Any]) -> NDArray[Any]:
    """Records as bytes."""
    return steps.view(np.uint8)


def save_stream(stream: Stream, folder: str | Path) -> None:
    """Write a stream, a piece at a time."""
    n_rows = int(stream.features.shape[0])
    with writing(folder), Writer(folder, stream.name) as writer:
        each = 8 * stream.n_features if isinstance(stream.features, np.ndarray) else 12 * stream.features.nnz // n_rows
        rows = max(1, BYTES // max(each, 1))
        nothing = np.zeros(0, STEP)
        for begin in range(0, n_rows, rows):
            writer.add(stream.features[begin : begin + rows], nothing)
        writer.rows = 0  # these steps point to rows of the whole table
        for begin in range(0, len(stream), BYTES // STEP.itemsize):
            some = slice(begin, begin + BYTES // STEP.itemsize)
            target = None if stream.target is None else stream.target[some]
            writer.add(stream.features[:0], np.asarray(stream.steps[some]), target)
        writer.rows = n_rows
        if stream.starts is not None:
            writer.add_starts(stream.starts)


def open_stream(folder: str | Path) -> StoredStream:
    """The stream in a folder, checked."""
    path = Path(folder)
    with reading(path / HEADER, "a stream that gradtd wrote"):
        header = json.loads(read_file(path / HEADER))
        if header["made_by"] != MADE_BY:
            raise KeyError("made_by")
        if header["format"] not in FORMATS:
            known = " and ".join(map(str, FORMATS))
            raise InputError(f"{str(path)!r} has format {header['format']!r}, this version of gradtd reads {known}.")
        shape = [checks.whole_number(key, header[key], 1, 2**53) for key in ("rows", "n_features", "steps")]
        steps = _mapped(path / STEPS, STEP, (shape[2],))
        if header["format"] < SPARSE:
            features: Any = _mapped(path / FEATURES, FORMATS[header["format"]], (shape[0], shape[1]))
            tables = {FEATURES: features}
        else:
            entries = checks.whole_number("entries", header["entries"], 0, MOST_ENTRIES)
            tables = _sparse_files(path, FORMATS[header["format"]], entries, shape[0])
            features = _sparse(tables, shape[1])
        target = None
        if TARGET in header["sha256"]:
            target = tables[TARGET] = _mapped(path / TARGET, np.dtype(np.float64), (shape[2],))
        starts = None
        if STARTS in header["sha256"]:
            episodes = checks.whole_number("the number of episodes", int(steps["episode"][-1]) + 1, 1, shape[2])
            starts = tables[STARTS] = _mapped(path / STARTS, np.dtype(np.int64), (episodes,))
        highest = _check(tables, steps, header["sha256"])
        made = StoredStream.of_own(features, steps, str(header["name"]), highest, target, starts)
    object.__setattr__(made, "folder", path.absolute())
    return made


def _mapped(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Memory-map an array whose file must have its exact size. Changes stay in this process."""
    if not np.prod(shape, dtype=object) and path.stat().st_size == 0:
        return np.zeros(shape, dtype)
    if path.stat().st_size != int(np.prod(shape, dtype=object)) * dtype.itemsize:
        raise ValueError("a file does not have the stated size")
    return np.asarray(np.memmap(path, dtype, "c", shape=shape))


def _pieces(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    rows = max(1, BYTES // max(array[:1].nbytes, 1))
    for begin in range(0, len(array), rows):
        yield array[begin : begin + rows]


def _sparse_files(path: Path, dtype: np.dtype[Any], entries: int, rows: int) -> dict[str, NDArray[Any]]:
    whole = np.dtype(np.int32)
    kinds = {FEATURES: (dtype, entries), COLUMNS: (whole, entries), ENDS: (whole, rows)}
    return {name: _mapped(path / name, kind, (length,)) for name, (kind, length) in kinds.items()}


def _sparse(tables: dict[str, NDArray[Any]], n_columns: int) -> Any:
    """Compressed rows over memory-mapped arrays, validated: ends do not decrease, and columns of a row are valid and
    increase."""
    from scipy.sparse import csr_array

    columns, ends = tables[COLUMNS], tables[ENDS]
    begins = np.append(np.zeros(1, np.int32), ends)
    if (ends < begins[:-1]).any() or ends[-1] != len(columns):
        raise ValueError("rows are not consecutive")
    for first in range(0, len(ends), ROWS):
        last = min(first + ROWS, len(ends))
        here = columns[begins[first] : begins[last]]
        rises = np.append(True, here[1:] > here[:-1])
        rises[np.asarray(begins[first:last][begins[first:last] < begins[last]]) - begins[first]] = True
        if not rises.all() or (len(here) and not 0 <= here.min() <= here.max() < n_columns):
            raise ValueError("columns of a row are invalid or not in order")
    made = csr_array((len(ends), n_columns), dtype=tables[FEATURES].dtype)
    made.data, made.indices, made.indptr = tables[FEATURES], columns, begins
    return made


def _check(tables: dict[str, NDArray[Any]], steps: NDArray[Any], sums: Any) -> int:
    """Read everything once. Returns the highest row that a step refers to."""
    digests = {name: hashlib.sha256() for name in (*tables, STEPS)}
    for name, table in tables.items():
        for piece in _pieces(table):
            digests[name].update(piece.reshape(-1).view(np.uint8).data)
            if name == FEATURES:
                checks.refuse_where("features", ~np.isfinite(piece), piece, "must be finite")
            if name == TARGET:
                refuse_bad_numbers({"target": piece})
    highest, last = 0, -1
    for piece in _pieces(steps):
        digests[STEPS].update(_plain(piece).data)
        refuse_bad_numbers({label: piece[label] for label in ("reward", "discount", "rho")})
        highest = max(highest, int(piece["row"].max()), int(piece["next_row"].max()))
        episode = piece["episode"]
        if not (episode[0] in (last, last + 1) and (np.diff(episode) == begins_episode(episode)[1:]).all()):
            raise ValueError("episodes are not numbered 0, 1, ...")
        last = int(episode[-1])
    if any(digest.hexdigest() != sums[name] for name, digest in digests.items()):
        raise ValueError("a checksum is wrong")
    return highest
