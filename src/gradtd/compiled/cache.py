"""Stores compiled code on disk. No fault of the disk stops a program.

Numba keeps compiled functions in files that it unpickles and runs. An empty, truncated or corrupted file can raise any
error, or run; a full or read-only disk raises an error during a first call; two processes that save at the same time
may mix up functions. Here each function of each signature has a separate file that begins with a checksum and its
identity. Unreadable code is compiled again, and code that cannot be written stays in memory. Each of these is reported
once.

Files in the folder are run, so only a folder and files that other users cannot write to are used (`refuse_shared`).
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import stat
import warnings
from pathlib import Path
from types import FunctionType
from typing import Any

from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.event import Event, Listener, register
from numba.core.serialize import dumps

from gradtd.core.files import open_own, replace_file
from gradtd.core.progress import announce

log = logging.getLogger(__name__)
_DIGEST = 32
_said: set[str] = set()


def say_once(sentence: str) -> None:
    """Warn about the cache, at most once per process."""
    if not _said:
        _said.add(sentence)
        warnings.warn(sentence, stacklevel=3)


class KernelFiles:
    """One checked file per function and signature, in place of Numba's index and numbered files.

    Numba's key covers only the code of the function itself. Ours includes the ``fingerprint`` of all code that it
    reaches, so that a kernel is compiled again when a function in another file changes.
    """

    def __init__(
        self, folder: str, base: str, stamp: Any, version: str, fingerprint: str, source: str | None = None
    ) -> None:
        self.folder, self.base, self.source = Path(folder), base, source
        self.mark = (version, stamp, fingerprint)

    def path(self, key: Any) -> Path:
        """The file for the code with this key."""
        return self.folder / f"{self.base}.{hashlib.sha256(repr((self.mark[2], key)).encode()).hexdigest()[:16]}.nbc"

    def save(self, key: Any, data: Any) -> None:
        content: bytes = dumps((self.mark, key, data))  # type: ignore[no-untyped-call]
        checked = hashlib.sha256(content).digest() + content
        replace_file(self.path(key), lambda file: _fill(file, checked))

    def load(self, key: Any) -> Any:
        """The code with this key, or None if there is no trusted file."""
        path = self.path(key)
        try:
            with open_own(path, "rb") as file:
                refuse_writers(path, os.fstat(file.fileno()), self.source)
                checked = file.read()
        except FileNotFoundError:
            return None
        digest, content = checked[:_DIGEST], checked[_DIGEST:]
        if hashlib.sha256(content).digest() != digest:
            say_once(f"{str(path)!r}, a file of compiled code, is damaged: the function is compiled again.")
            return None
        mark, found, data = pickle.loads(content)
        return data if mark == self.mark and found == key else None

    def flush(self) -> None:
        """Does nothing: every save is immediate."""


class KernelCache:
    """Numba's cache of one function, with gradtd's files, and without its errors."""

    def __init__(self, cache: Any, fingerprint: str) -> None:
        old = cache._cache_file
        base = old._index_name.removesuffix(".nbi")
        locator = cache._impl.locator
        refuse_shared(locator)
        told = (old._source_stamp, old._version, fingerprint, locator._py_file)
        cache._cache_file = KernelFiles(cache.cache_path, base, *told)
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, signature: Any, context: Any) -> Any:
        try:
            return self._cache.load_overload(signature, context)
        except Exception as error:
            say_once(f"compiled code cannot be read from {self._cache.cache_path!r} ({error}): it is compiled again.")
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        try:
            self._cache.save_overload(signature, compiled)
        except Exception as error:
            say_once(
                f"compiled code cannot be kept in {self._cache.cache_path!r} ({error}), so every process "
                "compiles it again: free some space there, or set NUMBA_CACHE_DIR to another folder."
            )


def keep_safely(dispatcher: Any, fingerprint: str) -> Any:
    """Let a compiled function keep its code in checked files, in a folder that only its user can write to."""
    made: Any = _Cache
    dispatcher._cache = KernelCache(made(dispatcher.py_func), fingerprint)
    return dispatcher


def refuse_shared(locator: Any) -> None:
    """Refuse a folder in which another user can put code, or that is relative to the current folder.

    Users who can change the source of a function are trusted, so they may also write to the folder.
    """
    folder, source = Path(locator.get_cache_path()), locator._py_file
    if folder == Path(source).parent / "__pycache__":
        folder = folder.absolute()
    if not folder.is_absolute():
        raise PermissionError(
            f"the folder of compiled code, {str(folder)!r}, is relative to the current folder, where another user may "
            "have put code: set NUMBA_CACHE_DIR to an absolute path."
        )
    for place in (folder.parent, folder):
        try:
            found = place.stat()
        except FileNotFoundError:
            continue
        if place != folder and found.st_mode & stat.S_ISVTX:  # others cannot replace our files in it
            continue
        refuse_writers(place, found, source)


def refuse_writers(path: Path, found: os.stat_result, source: str | None) -> None:
    """Refuse a file or a folder that belongs to another user, or that others can write to."""
    if not hasattr(os, "geteuid"):
        return
    owners, groups = {0, os.geteuid()}, {os.geteuid()}  # a group with a user's number contains that user only
    if source is not None and os.path.isfile(source):
        theirs = os.stat(Path(source).absolute().parent)
        owners.add(theirs.st_uid)
        groups |= {theirs.st_gid} if theirs.st_mode & stat.S_IWGRP else set()
    shared = found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and found.st_gid not in groups)
    if shared or found.st_uid not in owners:
        why = "can be written to by others" if shared else "belongs to another user"
        raise PermissionError(
            f"{str(path)!r}, where compiled code is kept, {why}, who could have code run: remove that permission, or "
            "set NUMBA_CACHE_DIR to a folder of your own."
        )


def _fill(file: Any, content: bytes) -> None:
    if hasattr(os, "fchmod"):
        os.fchmod(file.fileno(), os.fstat(file.fileno()).st_mode & 0o755)
    file.write(content)


def _checked(locator: Any) -> Any:
    """Wrap one of Numba's ways to find a folder, so that it skips folders that others can write to."""

    class Checked(locator):  # type: ignore[misc]
        def ensure_cache_path(self) -> None:
            try:
                refuse_shared(self)
            except PermissionError as error:
                say_once(f"{error} It is not used.")
                raise
            os.makedirs(self.get_cache_path(), mode=0o755, exist_ok=True)
            super().ensure_cache_path()

    return Checked


class _Implementation(CompileResultCacheImpl):
    _locator_classes = [_checked(locator) for locator in CompileResultCacheImpl._locator_classes]


class _Cache(FunctionCache):
    _impl_class = _Implementation


def kernel_names(function: Any) -> list[str]:
    """The names of a function and of the functions in its closure, such as the rule inside a loop."""
    inside = [cell.cell_contents for cell in function.__closure__ or ()]
    return [part.__name__ for part in (function, *inside) if isinstance(part, FunctionType)]


LOOP_SECONDS, OTHER_SECONDS = 5, 1
"""Approximate seconds to compile the loop around a rule, and any other function."""


class _Compiling(Listener):
    """Reports compilation to the progress bar and the log while it runs. Loading from disk is not reported."""

    def __init__(self) -> None:
        self.now: list[str] = []

    def on_start(self, event: Event) -> None:
        names = kernel_names(event.data["dispatcher"].py_func)
        self.now.append(names[0])
        if len(self.now) > 1:  # a part of what was announced
            return
        loop = len(names) > 1
        what = f"the loop of {names[1]}" if loop else names[0]
        text = f"compiling {what} (once, about {LOOP_SECONDS if loop else OTHER_SECONDS} s)"
        log.info("%s", text)
        announce(text)

    def on_end(self, event: Event) -> None:
        self.now.pop()
        if not self.now:
            announce(None)


register("numba:compile", _Compiling())  # type: ignore[no-untyped-call]
