"""Executors run independent pieces of work: on threads of this process, or on the workers of a Dask cluster.

They hand back results as these come. No result depends on which executor ran it, nor on the order.
"""

from __future__ import annotations

import logging
import os
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from gradtd.core import checks
from gradtd.core.checks import InputError, printable
from gradtd.core.progress import Progress

log = logging.getLogger(__name__)
Piece = TypeVar("Piece")
Done = TypeVar("Done")
LOCAL = "local:"
WAITING = 2
"""Pieces for each worker that are on their way at a time, so that results do not pile up."""


EVERY = 2.0
"""Seconds after which the cluster is asked again how many workers it has."""

AT_LEAST = 0.5
"""Seconds of work that are worth a task of Dask, which costs ten milliseconds: short pieces travel together."""

MOST = 512
"""Pieces of a task at most."""

MOST_PROCESSES = 1024
"""Processes of this machine at most."""

STARTS = 3
"""Times that starting processes of this machine is tried."""

CALM = {
    "distributed.worker.daemon": True,
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "2s",
}
"""Processes of our own look after themselves less often: with a worker on every core that takes time from the work."""

ONLY_HERE: dict[str, Any] = {
    "host": "127.0.0.1",
    "dashboard_address": None,
    "scheduler_kwargs": {"dashboard_address": "127.0.0.1:0"},
}
"""A cluster of this machine has no dashboard, but its scheduler answers HTTP all the same. It takes any free port: a
second cluster would find Dask's own port taken, and warn of it."""


class Executor(ABC):
    """Runs pieces of work."""

    @abstractmethod
    def each(self, work: Callable[[Piece], Done], pieces: Sequence[Piece]) -> Iterator[tuple[int, Done]]:
        """The number and the result of every piece, in the order in which they are done."""


class ThreadExecutor(Executor):
    """Threads of this process. Whoever stops listening lets every thread finish the piece it is at, and no more."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def each(self, work: Callable[[Piece], Done], pieces: Sequence[Piece]) -> Iterator[tuple[int, Done]]:
        if self.threads == 1 or len(pieces) < 2:
            yield from ((number, work(piece)) for number, piece in enumerate(pieces))
            return
        pool = ThreadPoolExecutor(self.threads)
        try:
            numbers = {pool.submit(work, piece): number for number, piece in enumerate(pieces)}
            for future in as_completed(numbers):
                yield numbers.pop(future), future.result()
        finally:
            pool.shutdown(cancel_futures=True)


class DaskExecutor(Executor):
    """Workers of a Dask cluster. What a lost worker was at is done again by another one.

    Short pieces travel together, as many as the pieces before them suggest. Where they take longer than that, a worker
    hands back what it has, and the others are sent again. So do those that come after an error, which is raised once it
    comes first.
    """

    def __init__(self, client: Any) -> None:
        self.client = client

    def each(self, work: Callable[[Piece], Done], pieces: Sequence[Piece]) -> Iterator[tuple[int, Done]]:
        from distributed import as_completed as as_they_come
        from distributed.scheduler import KilledWorker

        waiting, workers, asked = _Waiting(len(pieces)), 0, -np.inf
        sent: dict[Any, list[int]] = {}
        coming = as_they_come()
        try:
            while True:
                if time.monotonic() - asked > EVERY:  # workers may come and go
                    workers, asked = int(sum(self.client.ncores().values())), time.monotonic()
                while len(sent) < max(WAITING * workers, 8) and (numbers := waiting.take(workers)):
                    future = self.client.submit(_some, work, [pieces[number] for number in numbers], pure=False)
                    sent[future] = numbers
                    coming.add(future)
                if not sent:
                    return
                future = next(coming)
                numbers = sent.pop(future)
                try:
                    done, longest = future.result()
                except KilledWorker:
                    raise InputError(
                        "a piece of work was lost with one worker after another: see their logs; they may lack memory."
                    ) from None
                waiting.put_back(numbers[len(done) :], longest)
                yield from zip(numbers, done, strict=False)
        finally:
            self.client.cancel(list(sent))


class _Waiting:
    """The numbers of the pieces that no worker has, and how many of them make a task."""

    def __init__(self, count: int) -> None:
        self.numbers = deque(range(count))
        self.at_once = 1

    def take(self, workers: int) -> list[int]:
        """The next task: the fewer are left the smaller, so that all workers end together."""
        fair = len(self.numbers) // (WAITING * max(workers, 1))
        return [self.numbers.popleft() for _ in range(min(max(1, min(self.at_once, fair)), len(self.numbers)))]

    def put_back(self, numbers: Sequence[int], longest: float) -> None:
        """Hand in what was not done of a task, and how long its longest piece took."""
        self.numbers.extendleft(reversed(numbers))
        self.at_once = int(min(max(AT_LEAST / max(longest, 1e-9), 1), MOST))


def _some(work: Callable[[Piece], Done], pieces: Sequence[Piece]) -> tuple[list[Done], float]:
    """Do pieces until all are done or it took long enough; returns what the first of them came to, and the longest."""
    done: list[Done] = []
    longest, began = 0.0, time.perf_counter()
    for piece in pieces:
        own = time.perf_counter()
        if own - began > AT_LEAST:
            break
        try:
            done.append(work(piece))
        except Exception:
            if not done:
                raise
            break  # finished work is not lost; the piece comes first in another task
        longest = max(longest, time.perf_counter() - own)
    return done, longest


def n_threads(threads: int | None, name: str = "threads") -> int:
    """The number of threads given, checked; by default one for each core that this process may use."""
    if threads is not None:
        return checks.whole_number(name, threads, 1)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def for_each(work: Callable[[int], None], pieces: int, threads: int, progress: Progress | None = None) -> None:
    """Do pieces 0, 1, ... on threads; the first one alone, so that what it compiles is compiled once."""
    executor = ThreadExecutor(threads)
    done = 0
    for some in (range(1), range(1, pieces)):
        for _ in executor.each(work, some):
            done += 1
            if progress:
                progress(done, pieces)


@contextmanager
def open_executor(threads: int | None = None, scheduler: str | None = None) -> Iterator[Executor]:
    """An executor: by default one with a thread for each core.

    ``scheduler`` is the address of a Dask scheduler, or ``local:2`` for two processes of this machine.
    """
    if scheduler is None:
        yield ThreadExecutor(n_threads(threads))
        return
    with dask_client(scheduler) as client:
        yield DaskExecutor(client)


@contextmanager
def dask_client(scheduler: str) -> Iterator[Any]:
    """A client of the Dask scheduler at an address, or of processes that are started and ended here."""
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError:
        raise InputError("a scheduler needs Dask, which is not installed: pip install 'gradtd[cluster]'.") from None
    if not scheduler.startswith(LOCAL):
        _warn_of_strangers(scheduler)
        try:
            client = Client(scheduler, timeout=20)
        except (OSError, ValueError, TypeError, RuntimeError) as error:  # the last two: certificates that are missing
            told = str(error).removesuffix(".")
            raise InputError(
                f"cannot reach a Dask scheduler at {scheduler!r}: {told}; an address reads tls://10.0.0.5:8786 or "
                "tcp://10.0.0.5:8786, and local:2 starts two processes here."
            ) from None
        with client:
            yield client
        return
    number = scheduler.removeprefix(LOCAL)
    if not (number.isascii() and number.isdecimal() and 1 <= int(number) <= MOST_PROCESSES):
        raise InputError(
            f"scheduler must be 'local:' and a number of processes from 1 to {MOST_PROCESSES}, for example 'local:2'; "
            f"got {scheduler!r}."
        )
    count = int(number)
    # One thread per process: Python's lock would make several wait for each other.
    settings: dict[str, Any] = {"n_workers": count, "threads_per_worker": 1, "processes": True}
    with dask.config.set(CALM), _started(LocalCluster, settings | ONLY_HERE) as cluster, Client(cluster) as client:
        yield client


def _started(make: Callable[..., Any], settings: dict[str, Any]) -> Any:
    """A cluster of this machine. Dask waits ten seconds for its loop and thirty for workers, too few under load."""
    for attempt in range(1, STARTS + 1):
        try:
            return make(**settings)
        except (AssertionError, OSError, RuntimeError) as error:
            if attempt == STARTS:
                raise InputError(f"Dask cannot start processes here: {str(error) or type(error).__name__}.") from error
            log.info("a cluster did not start (%s): once more", str(error) or type(error).__name__)


def _warn_of_strangers(scheduler: str) -> None:
    """Dask sends pickled objects, which run code: say where nothing hides them from others on the way."""
    kind, _, place = scheduler.rpartition("://")
    host = place.rpartition(":")[0].strip("[]")
    if kind not in ("tls", "wss", "inproc") and host not in ("localhost", "::1") and not host.startswith("127."):
        log.warning(
            "The connection to %s is not encrypted: whoever is on the way can read the work and send code. "
            "Use a tls:// address (docs/cluster.md).",
            printable(scheduler),
        )
