"""Work on several threads: how many there are, and one piece after another until none is left."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock

from gradtd.core import checks
from gradtd.core.progress import Progress


def n_threads(threads: int | None, name: str = "threads") -> int:
    """As many threads as were asked for; by default one for each core that this process may use."""
    if threads is not None:
        return checks.whole_number(name, threads, 1)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def for_each(work: Callable[[int], None], pieces: int, threads: int, progress: Progress | None = None) -> None:
    """Do piece 0 here, so that it compiles once; then every thread takes the next one until none is left.

    An error, or Ctrl-C, lets every thread finish the piece it is at, and no more.
    """
    waiting = iter(range(1, pieces))
    stop = Event()
    finished = itertools.count(1)
    lock = Lock()

    def report() -> None:
        with lock:
            done = next(finished)
            if progress:
                progress(done, pieces)

    def take_turns() -> None:
        for piece in waiting:
            if stop.is_set():
                return
            work(piece)
            report()

    work(0)
    report()
    if threads == 1:
        take_turns()
        return
    with ThreadPoolExecutor(threads) as pool:
        try:
            for future in [pool.submit(take_turns) for _ in range(threads)]:
                future.result()
        finally:
            stop.set()
