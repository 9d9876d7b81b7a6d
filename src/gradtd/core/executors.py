"""Executors run independent pieces of work: on threads of this process, or on the workers of a Dask cluster.

They return results as soon as they are available. Results depend neither on the executor nor on the order of
completion.
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
"""Pieces in progress for each worker, limited so that results do not pile up."""


EVERY = 2.0
"""Seconds between requests for the number of workers."""

AT_LEAST = 0.5
"""Seconds of work per Dask task, which has an overhead of ten milliseconds: short pieces are sent together."""

MOST = 512
"""Maximum number of pieces per task."""

MOST_PROCESSES = 1024
"""Maximum number of processes on this machine."""

STARTS = 3
"""Number of attempts to start processes on this machine."""

CALM = {
    "distributed.worker.daemon": True,
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "2s",
}
"""Local Dask processes check their state less often, because with a worker on every core the checks cost time."""

ONLY_HERE: dict[str, Any] = {
    "host": "127.0.0.1",
    "dashboard_address": None,
    "scheduler_kwargs": {"dashboard_address": "127.0.0.1:0"},
}
"""A local cluster has no dashboard, but its scheduler still serves HTTP. It takes any free port, since a second cluster
would find Dask's default port in use and warn about it."""


class Executor(ABC):
    """Runs pieces of work."""

    @abstractmethod
    def each(self, work: Callable[[Piece], Done], pieces: Sequence[Piece]) -> Iterator[tuple[int, Done]]:
        """The number and the result of every piece, in the order of completion."""


class ThreadExecutor(Executor):
    """Threads of this process. If the caller stops iterating, every thread finishes its current piece and stops."""

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
    """Workers of a Dask cluster. Another worker repeats the work of a lost worker.

    Short pieces are sent together; their number depends on the time of earlier pieces. If a task takes too long, the
    worker returns the finished pieces, and the others are sent again. After an error the remaining pieces are also sent
    again, so that the error raised is that of the first failing piece.
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
                        "a task was lost on several workers: see their logs; they may be out of memory."
                    ) from None
                waiting.put_back(numbers[len(done) :], longest)
                yield from zip(numbers, done, strict=False)
        finally:
            self.client.cancel(list(sent))


class _Waiting:
    """The pieces not yet assigned, and the number of pieces per task."""

    def __init__(self, count: int) -> None:
        self.numbers = deque(range(count))
        self.at_once = 1

    def take(self, workers: int) -> list[int]:
        """The next task: smaller if few pieces are left, so that all workers finish at the same time."""
        fair = len(self.numbers) // (WAITING * max(workers, 1))
        return [self.numbers.popleft() for _ in range(min(max(1, min(self.at_once, fair)), len(self.numbers)))]

    def put_back(self, numbers: Sequence[int], longest: float) -> None:
        """Return the unfinished pieces of a task, and the time of its longest piece."""
        self.numbers.extendleft(reversed(numbers))
        self.at_once = int(min(max(AT_LEAST / max(longest, 1e-9), 1), MOST))


def _some(work: Callable[[Piece], Done], pieces: Sequence[Piece]) -> tuple[list[Done], float]:
    """Run pieces until all are done or enough time has passed. Returns their results and the longest time."""
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
            break  # keep the finished work; the failing piece will be first in another task
        longest = max(longest, time.perf_counter() - own)
    return done, longest


def n_threads(threads: int | None, name: str = "threads") -> int:
    """The number of threads, validated. By default, one for each core available to this process."""
    if threads is not None:
        return checks.whole_number(name, threads, 1)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def for_each(work: Callable[[int], None], pieces: int, threads: int, progress: Progress | None = None) -> None:
    """Run pieces 0, 1, ... on threads. The first one runs alone, so that code is compiled only once."""
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
    """A cluster of this machine. Dask waits ten seconds for its event loop and thirty for workers, which is too short
    under load."""
    for attempt in range(1, STARTS + 1):
        try:
            return make(**settings)
        except (AssertionError, OSError, RuntimeError) as error:
            if attempt == STARTS:
                raise InputError(f"Dask cannot start processes here: {str(error) or type(error).__name__}.") from error
            log.info("a cluster did not start (%s): trying again", str(error) or type(error).__name__)


def _warn_of_strangers(scheduler: str) -> None:
    """Dask sends pickled objects, which run code: warn if the connection is not encrypted."""
    kind, _, place = scheduler.rpartition("://")
    host = place.rpartition(":")[0].strip("[]")
    if kind not in ("tls", "wss", "inproc") and host not in ("localhost", "::1") and not host.startswith("127."):
        log.warning(
            "The connection to %s is not encrypted: others on the network can read the work and send code. "
            "Use a tls:// address (docs/cluster.md).",
            printable(scheduler),
        )
