"""Matrix products on the calling thread.

OpenBLAS splits a product over threads that wait for each other. When other programs use the cores, this costs far more
time than it saves; otherwise, gradtd's own threads with separate products are as fast. The number of threads is a
setting of the whole process: it is set to one while a caller holds `one_thread`, and restored afterwards. With any
other BLAS library, nothing changes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

MAPS = Path("/proc/self/maps")
NAMES = [(prefix, suffix) for prefix in ("scipy_", "") for suffix in ("64_", "")]
"""Prefixes and suffixes that distributors add to the names of OpenBLAS functions."""


class _Library(NamedTuple):
    get: Callable[[], int]
    set: Callable[[int], Any]


@cache
def _libraries() -> tuple[_Library, ...]:
    """The copies of OpenBLAS in this process: NumPy and SciPy have one each, unless they share the system's."""
    import numpy.linalg  # noqa: F401 (so that NumPy's is there)

    try:
        paths = {line.split(maxsplit=5)[-1].strip() for line in MAPS.read_text().splitlines() if "openblas" in line}
    except OSError:
        return ()
    found = [_functions(path) for path in sorted(paths)]
    return tuple(library for library in found if library is not None)


def _functions(path: str) -> _Library | None:
    try:
        library = ctypes.CDLL(path)
    except OSError:
        return None
    for prefix, suffix in NAMES:
        names = [f"{prefix}openblas_{what}_num_threads{suffix}" for what in ("get", "set")]
        if all(hasattr(library, name) for name in names):
            return _Library(*(getattr(library, name) for name in names))
    return None


class _Held:
    """Number of holders, and the value to restore when the last one ends."""

    count = 0
    before: tuple[int, ...] = ()
    lock = Lock()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread in all threads of this process. Also usable as a decorator.

    >>> with one_thread():
    ...     pass
    """
    libraries = _libraries()
    with _Held.lock:
        if _Held.count == 0:
            _Held.before = tuple(library.get() for library in libraries)
            for library in libraries:
                library.set(1)
        _Held.count += 1
    try:
        yield
    finally:
        with _Held.lock:
            _Held.count -= 1
            if _Held.count == 0:
                for library, threads in zip(libraries, _Held.before, strict=True):
                    library.set(threads)


def is_held() -> bool:
    """Whether BLAS is limited to one thread now."""
    return _Held.count > 0 and bool(_libraries())
