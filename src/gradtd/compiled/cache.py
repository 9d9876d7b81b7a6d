"""Compiled code on disk, so that nothing on the disk can stop a program; it knows Numba, as `engine` and `inlined` do.

Numba keeps compiled functions in files that it unpickles and runs. A file that is empty, cut or flipped by a bad disk
raises whatever it raises, or runs; a full or read-only disk raises in the middle of a first call; two processes that
save at once may give one function's number to another. Here each function of each signature has a file of its own,
which begins with a checksum and names what it is. What cannot be read is compiled again, and what cannot be written
is kept in memory. Either is said once.
"""

from __future__ import annotations

import hashlib
import pickle
import warnings
from pathlib import Path
from typing import Any

from numba.core.serialize import dumps

from gradtd.core.files import replace_file

_DIGEST = 32
_said: set[str] = set()


def say_once(sentence: str) -> None:
    """Warn, the first time in this process that there is something to say about the cache."""
    if not _said:
        _said.add(sentence)
        warnings.warn(sentence, stacklevel=3)


class KernelFiles:
    """One checked file per function and signature, in place of Numba's index and numbered files.

    Numba's key holds the code of the function alone. The ``fingerprint`` of all the code that it reaches is a part of
    ours: else a kernel would not notice that a function in another file was edited.
    """

    def __init__(self, folder: str, base: str, stamp: Any, version: str, fingerprint: str) -> None:
        self.folder, self.base = Path(folder), base
        self.mark = (version, stamp, fingerprint)

    def path(self, key: Any) -> Path:
        """Where the code with this key is kept."""
        return self.folder / f"{self.base}.{hashlib.sha256(repr((self.mark[2], key)).encode()).hexdigest()[:16]}.nbc"

    def save(self, key: Any, data: Any) -> None:
        content: bytes = dumps((self.mark, key, data))  # type: ignore[no-untyped-call]
        checked = hashlib.sha256(content).digest() + content
        replace_file(self.path(key), lambda file: file.write(checked))

    def load(self, key: Any) -> Any:
        """The code with this key; None where there is none, or none that can be trusted."""
        path = self.path(key)
        try:
            checked = path.read_bytes()
        except FileNotFoundError:
            return None
        digest, content = checked[:_DIGEST], checked[_DIGEST:]
        if hashlib.sha256(content).digest() != digest:
            say_once(f"{str(path)!r}, a file of compiled code, is damaged: what it held is compiled again.")
            return None
        mark, found, data = pickle.loads(content)
        return data if mark == self.mark and found == key else None

    def flush(self) -> None:
        """Nothing waits to be written."""


class KernelCache:
    """Numba's cache of one function, with files of ours, and without its errors."""

    def __init__(self, cache: Any, fingerprint: str) -> None:
        old = cache._cache_file
        base = old._index_name.removesuffix(".nbi")
        cache._cache_file = KernelFiles(cache.cache_path, base, old._source_stamp, old._version, fingerprint)
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
                f"compiled code cannot be kept in {self._cache.cache_path!r} ({error}), so every process compiles it "
                "anew: make room there, or name another folder in NUMBA_CACHE_DIR."
            )


def keep_safely(dispatcher: Any, fingerprint: str) -> Any:
    """Let a function that Numba caches keep its code in checked files."""
    dispatcher._cache = KernelCache(dispatcher._cache, fingerprint)
    return dispatcher
