"""Files that are always whole, and the one format in which gradtd keeps arrays: NumPy's .npz with a header in JSON.

A file is written under another name, forced to the disk and then moved into place, so a kill at any time leaves the
old file or the new one. Nothing is ever pickled, so a file may come from a stranger.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core.checks import InputError

Arrays = dict[str, NDArray[Any]]
HEADER = "header"
_DAMAGE = (
    *(ValueError, LookupError, TypeError, AttributeError, EOFError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error),
)
"""What reading a file that is none of ours may raise; RuntimeError is zipfile's for an encrypted or unknown member."""


def replace_file(path: Path, write: Callable[[Path], Any]) -> Path:
    """Let ``write`` make a file under another name, then move it to ``path``: there, it is always whole."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write(part)
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    return path


def append_line(path: Path, line: str) -> None:
    """Add a line to a file and force it to the disk. What a kill left of an earlier line is cut off first."""
    with path.open("ab+") as file:
        if file.tell() and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n":
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def write_arrays(path: Path, arrays: Arrays, header: Mapping[str, Any] | None = None) -> Path:
    """Arrays and a header as one file that `read_arrays` reads."""
    assert not any(array.dtype.hasobject for array in arrays.values()), "NumPy would pickle them"
    told = {} if header is None else {HEADER: np.frombuffer(json.dumps(header).encode(), np.uint8)}

    def write(part: Path) -> None:
        with part.open("wb") as file:
            np.savez(file, **(told | arrays))  # type: ignore[arg-type]

    return replace_file(path, write)


def read_arrays(path: Path) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays of a file; call it inside `reading`, which explains what can go wrong."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
        arrays = {name: found[name] for name in found.files}
    told = arrays.pop(HEADER, None)
    if told is None:
        return {}, arrays
    text = str(told) if told.dtype.kind == "U" else told.tobytes().decode()  # a string in files of version 0.1.0
    return dict(json.loads(text)), arrays


@contextmanager
def reading(path: str | Path, what: str) -> Iterator[None]:
    """Turn every way in which reading a file can fail into one sentence; ``what`` says what the file should be."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"there is no file {str(path)!r}.") from None
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror or error}.") from None
    except _DAMAGE:
        raise InputError(f"{str(path)!r} is not {what}, or it is damaged.") from None
