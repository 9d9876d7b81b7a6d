"""A stream in a folder: its features and steps are mapped from two files, so that memory does not bound its length.

A folder may come from a stranger. Whoever opens it reads it once, a piece at a time: checksums, every index, every
number. From then on the files are trusted, so nobody else should write to them while they are open.
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
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.core.files import reading, replace_file
from gradtd.core.stream import STEP, Stream, begins_episode
from gradtd.core.trusted import refuse_bad_numbers

MADE_BY = "gradtd stream"
FORMATS: dict[int, np.dtype[Any]] = {1: np.dtype(np.float64), 2: np.dtype(np.float32)}
"""The format says what numbers the features are."""
HEADER, FEATURES, STEPS = "header.json", "features.bin", "steps.bin"
BYTES = 2**24
"""Bytes that are read or written at a time."""
MOST_ROWS = 2**32
"""Steps point to rows with 32 bits."""


class StoredStream(Stream):
    """A `Stream` whose arrays are mapped from a folder."""

    folder: Path

    def room(self, n: int, dtype: Any) -> NDArray[Any]:
        """Zeros on disk, gone with the array: what a run keeps for every step."""
        if not n:
            return np.zeros(0, dtype)
        beside = self.folder.parent  # where there is room for the stream itself
        with tempfile.TemporaryFile(dir=beside if os.access(beside, os.W_OK) else None) as file:
            file.truncate(n * np.dtype(dtype).itemsize)
            return np.asarray(np.memmap(file, dtype, "r+", shape=(n,)))

    def __reduce__(self) -> tuple[Any, ...]:
        return open_stream, (self.folder,)


class Writer:
    """Writes a stream to a folder, a part after the other; the folder is there when all of it is."""

    def __init__(self, folder: str | Path, name: str) -> None:
        self.folder, self.name = Path(folder), name
        if self.folder.exists():
            raise InputError(f"{str(self.folder)!r} is there already: remove it, or take another name.")
        if not self.folder.absolute().parent.is_dir():
            raise InputError(f"there is no folder {str(self.folder.absolute().parent)!r}.")
        self.part = self.folder.with_name(f".{self.folder.name}.{os.getpid()}.part")
        self.n_features = self.rows = self.steps = 0
        self.format = 0  # until the first rows say what numbers they are
        self.digests = {name: hashlib.sha256() for name in (FEATURES, STEPS)}

    def __enter__(self) -> Self:
        shutil.rmtree(self.part, ignore_errors=True)
        self.part.mkdir()
        self.files = {name: (self.part / name).open("wb") for name in (FEATURES, STEPS)}
        return self

    def add(self, features: Floats, steps: NDArray[Any]) -> None:
        """Further rows, and steps that point to them; ``steps`` number their episodes in one go."""
        if self.rows and features.shape[1] != self.n_features:
            raise InputError(f"a part has {features.shape[1]} features, those before {self.n_features}.")
        if self.rows + len(features) > MOST_ROWS:
            raise InputError(f"a stream has at most {MOST_ROWS} rows of features: store the log in several.")
        if not self.format:
            self.format = 2 if features.dtype == np.float32 else 1
        if features.dtype != np.float32 and self.format == 2:
            raise InputError(f"a part has features of {features.dtype}, those before of float32: make all of one kind.")
        moved = np.array(steps, STEP)
        for end in ("row", "next_row"):
            moved[end] += np.uint32(self.rows)
        for name, array in ((FEATURES, np.ascontiguousarray(features, FORMATS[self.format])), (STEPS, _plain(moved))):
            content = array.reshape(-1).view(np.uint8).data
            self.digests[name].update(content)
            self.files[name].write(content)
        self.n_features, self.rows, self.steps = features.shape[1], self.rows + len(features), self.steps + len(moved)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for file in self.files.values():
            if kind is None:
                file.flush()
                os.fsync(file.fileno())
            file.close()
        if kind is None:
            replace_file(self.part / HEADER, lambda path: path.write_text(json.dumps(self._header())))
            os.replace(self.part, self.folder)
        shutil.rmtree(self.part, ignore_errors=True)

    def _header(self) -> dict[str, Any]:
        told = {"made_by": MADE_BY, "format": self.format, "name": self.name, "n_features": self.n_features}
        sums = {name: digest.hexdigest() for name, digest in self.digests.items()}
        return told | {"rows": self.rows, "steps": self.steps, "sha256": sums}


def _plain(steps: NDArray[Any]) -> NDArray[Any]:
    """Records as bytes."""
    return steps.view(np.uint8)


def save_stream(stream: Stream, folder: str | Path) -> None:
    """Write a stream, a piece at a time."""
    if not isinstance(stream.features, np.ndarray):
        raise InputError(f"the features of {stream.name} are sparse, and a folder holds dense ones: make them dense.")
    with Writer(folder, stream.name) as writer:
        rows = max(1, BYTES // (8 * stream.n_features))
        nothing = np.zeros(0, STEP)
        for begin in range(0, len(stream.features), rows):
            writer.add(stream.features[begin : begin + rows], nothing)
        writer.rows = 0  # these steps point to rows of the whole table
        for begin in range(0, len(stream), BYTES // STEP.itemsize):
            writer.add(stream.features[:0], np.asarray(stream.steps[begin : begin + BYTES // STEP.itemsize]))
        writer.rows = len(stream.features)


def open_stream(folder: str | Path) -> StoredStream:
    """The stream in a folder, checked."""
    path = Path(folder)
    with reading(path / HEADER, "a stream that gradtd wrote"):
        header = json.loads((path / HEADER).read_text())
        if header["made_by"] != MADE_BY:
            raise KeyError("made_by")
        if header["format"] not in FORMATS:
            known = " and ".join(map(str, FORMATS))
            raise InputError(f"{str(path)!r} has format {header['format']!r}, this version of gradtd reads {known}.")
        shape = [checks.whole_number(key, header[key], 1, 2**53) for key in ("rows", "n_features", "steps")]
        features = _mapped(path / FEATURES, FORMATS[header["format"]], (shape[0], shape[1]))
        steps = _mapped(path / STEPS, STEP, (shape[2],))
        highest = _check(features, steps, header["sha256"])
        made = StoredStream.of_own(features, steps, str(header["name"]), highest)
    object.__setattr__(made, "folder", path.absolute())
    return made


def _mapped(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """An array in a file that has its size; pages that somebody writes to are this process's own."""
    if path.stat().st_size != int(np.prod(shape, dtype=object)) * dtype.itemsize:
        raise ValueError("a file is not as large as it says")
    return np.asarray(np.memmap(path, dtype, "c", shape=shape))


def _pieces(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    rows = max(1, BYTES // max(array[:1].nbytes, 1))
    for begin in range(0, len(array), rows):
        yield array[begin : begin + rows]


def _check(features: Floats, steps: NDArray[Any], sums: Any) -> int:
    """Read everything once; the highest row that a step points to."""
    digests = {FEATURES: hashlib.sha256(), STEPS: hashlib.sha256()}
    for piece in _pieces(features):
        digests[FEATURES].update(piece.reshape(-1).view(np.uint8).data)
        checks.refuse_where("features", ~np.isfinite(piece), piece, "must be finite")
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
