"""Locks that are free in a forked child, with consistent data behind them.

A child has only the thread that forked. A lock that another thread held at that moment would stay locked in the child,
and its data could be half changed. A fork therefore waits until it holds all locks that were created here.
"""

from __future__ import annotations

import os
from threading import RLock
from typing import Any
from weakref import WeakSet

_all: WeakSet[Any] = WeakSet()
_list = RLock()
"""Protects `_all`, and is held during a fork."""
_held: list[Any] = []


def fork_lock() -> Any:
    """A new lock that one thread can take several times, and that a fork waits for."""
    lock = RLock()
    with _list:
        _all.add(lock)
    return lock


def _take_all() -> None:
    _list.acquire()
    _held.extend(_all)
    for lock in _held:
        lock.acquire()


def _free_all() -> None:
    for lock in _held:
        lock.release()
    _held.clear()
    _list.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take_all, after_in_parent=_free_all, after_in_child=_free_all)
