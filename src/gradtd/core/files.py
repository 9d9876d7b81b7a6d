"""Files that are always whole, and the one format in which gradtd keeps arrays: NumPy's .npz with a header in JSON.

A file is written under another name, forced to the disk and then moved into place, so a kill at any time leaves the
old file or the new one. Nothing is ever pickled, so a file may come from a stranger. A checksum in its header tells
whether a file is as it was written.
"""

from __future__ import annotations

import glob
import hashlib
import json
import logging
import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core.checks import InputError

log = logging.getLogger(__name__)
Arrays = dict[str, NDArray[Any]]
HEADER = "header"
CHECKSUM = "sha256"
_AT_ONCE = 2**24
_DAMAGE = (
    *(ValueError, LookupError, TypeError, AttributeError, EOFError, RuntimeError, ArithmeticError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, struct.error, SyntaxError, tokenize.TokenError),
)
"""What reading a file that is none of ours may raise; RuntimeError is zipfile's for an encrypted or unknown member."""


def replace_file(path: Path, write: Callable[[Path], Any]) -> Path:
    """Let ``write`` make a file under another name, then move it to ``path``: there, it is always whole."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    remove_strays(path.parent, path.name)
    try:
        write(part)
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    _sync_folder(path.parent)
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


def remove_strays(folder: Path, name: str = "*") -> None:
    """Remove what a process that was killed left of a file: parts whose writer is no longer there."""
    for stray in folder.glob(f".{glob.escape(name) if name != '*' else name}.*.part"):
        writer = stray.name.split(".")[-2]
        if writer.isdigit() and int(writer) != os.getpid() and not _alive(int(writer)):
            stray.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it is another user's
        return True
    return True


def _sync_folder(folder: Path) -> None:
    """Force the new name to the disk as well, where the system can do that."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


def write_arrays(path: Path, arrays: Arrays, header: Mapping[str, Any] | None = None) -> Path:
    """Arrays and a header as one file that `read_arrays` reads; the header holds a checksum of everything."""
    assert not any(array.dtype.hasobject for array in arrays.values()), "NumPy would pickle them"
    told = dict(header or {})
    told[CHECKSUM] = checksum(told, arrays)
    first = {HEADER: np.frombuffer(json.dumps(told).encode(), np.uint8)}

    def write(part: Path) -> None:
        with part.open("wb") as file:
            np.savez(file, **(first | arrays))  # type: ignore[arg-type]

    return replace_file(path, write)


def checksum(header: Mapping[str, Any], arrays: Arrays) -> str:
    """A digest of the header and of every array with its name, type and shape."""
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"|{name}|{array.dtype.descr}|{arrays[name].shape}|".encode())
        digest.update(array.view(np.uint8).data if array.size else b"")
    return digest.hexdigest()


def read_arrays(path: Path) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays of a file; call it inside `reading`, which explains what can go wrong.

    No array is given room before the file was seen to hold so many bytes. A file of ours is not compressed, so what
    it holds is no larger than itself.
    """
    with path.open("rb") as file, zipfile.ZipFile(file) as members:
        size = os.fstat(file.fileno()).st_size
        found = members.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in found):
            raise InputError(f"{str(path)!r} is compressed, and what gradtd writes is not: it is no file of ours.")
        if sum(member.file_size for member in found) > size or len({m.filename for m in found}) < len(found):
            raise ValueError("the table of contents is wrong")
        arrays = {member.filename.removesuffix(".npy"): _read_array(members, member) for member in found}
    told = arrays.pop(HEADER, None)
    if told is None:
        return {}, arrays
    text = str(told) if told.dtype.kind == "U" else told.tobytes().decode()  # a string in files of version 0.1.0
    header = dict(json.loads(text))
    if CHECKSUM in header and header.pop(CHECKSUM) != checksum(header, arrays):
        raise ValueError("the checksum is wrong")
    return header, arrays


def read_if_whole(path: Path) -> tuple[dict[str, Any], Arrays] | None:
    """The header and the arrays of a file that is kept for later; None where there is none, or it is damaged."""
    if not path.exists():
        return None
    try:
        with reading(path, "a kept result"):
            return read_arrays(path)
    except InputError:
        log.warning("%s was changed or cut: it is made again", path)
        return None


def _read_array(members: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    with members.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, by_columns, dtype = read(file)
        count = math.prod(shape)
        if dtype.hasobject or not dtype.itemsize or count * dtype.itemsize != member.file_size - file.tell():
            raise ValueError("an array is not as large as it says")
        array = np.empty(count, dtype)
        room = array.view(np.uint8).data if count else memoryview(b"")
        done = 0
        while done < len(room):
            got = file.readinto(room[done : done + _AT_ONCE])  # type: ignore[attr-defined]
            if not got:
                raise EOFError("an array is cut short")
            done += got
        file.read()  # the end of a member is where its checksum is looked at
    return array.reshape(shape, order="F" if by_columns else "C")


@contextmanager
def writing(folder: str | Path, what_to_do: str = "", what: str = "") -> Iterator[None]:
    """Turn every way in which writing to a folder can fail into one sentence, and a second one about what to do."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {what}to {str(folder)!r}: {error.strerror or error}.{what_to_do}") from None


@contextmanager
def reading(path: str | Path, what: str) -> Iterator[None]:
    """Turn every way in which reading a file can fail into one sentence; ``what`` says what the file should be."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"there is no file {str(error.filename or path)!r}.") from None
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror or error}.") from None
    except _DAMAGE:
        raise InputError(f"{str(path)!r} is not {what}, or it is damaged.") from None
