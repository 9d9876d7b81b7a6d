"""Complete files, and the format in which gradtd stores arrays: NumPy's .npz with a header in JSON.

A file is written under another name, forced to disk and then moved into place, so that a kill at any time leaves the
old file or the new one. No pickle is used, so files from unknown sources are safe to open. A checksum in its header
detects changes.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import math
import os
import re
import secrets
import shutil
import stat
import struct
import time
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from gradtd.core.checks import InputError

log = logging.getLogger(__name__)
Arrays = dict[str, NDArray[Any]]
HEADER = "header"
CHECKSUM = "sha256"
_AT_ONCE = 2**24
STRAY_SECONDS = 24 * 3600.0
"""Seconds without a change after which a part counts as abandoned, whichever machine wrote it."""
LONGEST = 200
"""Bytes of a file's name that are repeated in the name of its part, because names are limited to 255."""
_PART = re.compile(r"\..*\.(?:(?P<machine>[0-9a-f]{12})-(?P<process>\d{1,10})-[0-9a-f]{16}|\d{1,10})\.part", re.DOTALL)
_DAMAGE = (
    *(ValueError, LookupError, TypeError, AttributeError, EOFError, RuntimeError, ArithmeticError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, struct.error, SyntaxError, tokenize.TokenError),
)
"""Errors raised when reading a file that gradtd did not write; RuntimeError is zipfile's for an encrypted or unknown
member."""


def replace_file(path: Path, write: Callable[[BinaryIO], Any]) -> Path:
    """Let ``write`` fill a new file, then move it to ``path``, which is always complete.

    The new file has an unpredictable name, and is created exclusively. Therefore no link placed by another user is
    followed, and threads and processes that write to the same path do not interfere: the last one to finish wins.
    """
    remove_strays(path.parent, path.name)
    part = part_of(path)
    try:
        with open(part, "xb", opener=_open_no_link) as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)
    return path


def write_text(path: Path, text: str) -> Path:
    """Write a text. Readers see either the old file or the new one."""
    return replace_file(path, lambda file: file.write(text.encode()))


def part_of(path: Path) -> Path:
    """A new name next to a path for a partly written file, which identifies the process and the machine that write
    it."""
    return path.with_name(f"{_first(path.name)}{_machine(os.getpid())}-{os.getpid()}-{secrets.token_hex(8)}.part")


def _first(name: str) -> str:
    """The prefix in the names of partly written versions of a file."""
    return f".{os.fsdecode(os.fsencode(name)[:LONGEST])}."


def remove_strays(folder: Path, name: str) -> None:
    """Remove the partial files that killed processes left behind.

    A part is removed if its process ran on this machine and has ended, or if it has not changed for a day. Files of
    other users are kept.
    """
    with os.scandir(folder) as entries:
        found = [entry for entry in entries if entry.name.startswith(_first(name)) and is_part(entry.name)]
    for entry in found:
        try:
            if _is_stray(entry):
                remove_part(Path(entry.path))
        except OSError:  # another process removed it, or only its owner may
            continue


def is_part(name: str) -> bool:
    """Whether a file with this name is partly written, by this version or an earlier one."""
    return _PART.fullmatch(name) is not None


def remove_part(path: Path) -> None:
    """Remove a part: a file, or the folder of a stream."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _is_stray(entry: os.DirEntry[str]) -> bool:
    found = _PART.fullmatch(entry.name)
    assert found is not None
    if found["machine"] == _machine(os.getpid()) and not _alive(int(found["process"])):
        return True
    return time.time() - entry.stat(follow_symlinks=False).st_mtime > STRAY_SECONDS


@lru_cache(maxsize=1)
def _machine(process: int) -> str:
    """A short name for the namespace of process numbers: a machine since its start, or a container on it."""
    told = [os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")]
    with suppress(OSError):  # only Linux has these
        told.append(Path("/proc/sys/kernel/random/boot_id").read_text())
        told.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("|".join(told).encode()).hexdigest()[:12]


def _open_no_link(path: str, flags: int) -> int:
    """Open a file without following a link and without waiting for the other end of a pipe."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o666)


def open_file(path: Path) -> BinaryIO:
    """Open a file to read it. Pipes, which may wait forever, and devices, which may never end, are refused."""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0)))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", str(path))
    return cast(BinaryIO, file)


def read_file(path: Path) -> bytes:
    """The whole content of a file. Pipes and devices are refused."""
    with open_file(path) as file:
        return file.read()


def open_own(path: Path, mode: str) -> BinaryIO:
    """Open a file that gradtd created under this name. Links and pipes placed by other users are refused."""
    try:
        file = open(path, mode, buffering=0, opener=_open_no_link)  # noqa: SIM115
    except OSError as error:
        if path.is_symlink():
            raise OSError(error.errno, "it is a link", str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    return cast(BinaryIO, file)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it is another user's
        return True
    return True


def _sync_folder(folder: Path) -> None:
    """Force the new name to disk as well, if the system supports it."""
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
    """Write arrays and a header as one file that `read_arrays` reads. The header contains a checksum of everything."""
    assert not any(array.dtype.hasobject for array in arrays.values()), "NumPy would pickle them"
    told = dict(header or {})
    told[CHECKSUM] = checksum(told, arrays)
    first = {HEADER: np.frombuffer(json.dumps(told).encode(), np.uint8)}

    return replace_file(path, lambda file: np.savez(file, **(first | arrays)))  # type: ignore[arg-type]


def checksum(header: Mapping[str, Any], arrays: Arrays) -> str:
    """A digest of the header and of every array with its name, type and shape."""
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"|{name}|{array.dtype.descr}|{arrays[name].shape}|".encode())
        digest.update(array.view(np.uint8).data if array.size else b"")
    return digest.hexdigest()


def read_arrays(path: Path) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays of a file. Call it inside `reading`, which explains errors.

    No array is allocated before the file is known to contain that many bytes. Our files are not compressed, so their
    content is no larger than the file.
    """
    with open_file(path) as file, zipfile.ZipFile(file) as members:
        size = os.fstat(file.fileno()).st_size
        found = members.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in found):
            raise InputError(f"{str(path)!r} is compressed, so it was not written by gradtd.")
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
    """The header and the arrays of a stored file. None if there is no file or the file is damaged."""
    if not path.exists():
        return None
    try:
        with reading(path, "a kept result"):
            return read_arrays(path)
    except InputError:
        log.warning("%s was changed or truncated: it is computed again", path)
        return None


def header_if_whole(path: Path) -> dict[str, Any] | None:
    """The header of a stored file, without its arrays and not compared with its checksum."""
    if not path.exists():
        return None
    try:
        with reading(path, "a kept result"), zipfile.ZipFile(path) as members:
            member = members.getinfo(f"{HEADER}.npy")
            if member.file_size > path.stat().st_size:
                return None
            return dict(json.loads(_read_array(members, member).tobytes()))
    except InputError:
        return None


def _read_array(members: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    with members.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, by_columns, dtype = read(file)
        count = math.prod(shape)
        if dtype.hasobject or not dtype.itemsize or count * dtype.itemsize != member.file_size - file.tell():
            raise ValueError("an array does not have the stated size")
        array = np.empty(count, dtype)
        room = array.view(np.uint8).data if count else memoryview(b"")
        done = 0
        while done < len(room):
            got = file.readinto(room[done : done + _AT_ONCE])  # type: ignore[attr-defined]
            if not got:
                raise EOFError("an array is truncated")
            done += got
        file.read()  # zipfile verifies the checksum of a member at its end
    return array.reshape(shape, order="F" if by_columns else "C")


@contextmanager
def writing(folder: str | Path, what_to_do: str = "", what: str = "") -> Iterator[None]:
    """Turn any error in writing to a folder into one sentence, plus one about what to do."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {what}to {str(folder)!r}: {error.strerror or error}.{what_to_do}") from None


@contextmanager
def reading(path: str | Path, what: str) -> Iterator[None]:
    """Turn any error in reading a file into one sentence. ``what`` says what the file should be."""
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
