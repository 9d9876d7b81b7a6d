"""Who does the work: threads of this process, or the workers of a Dask cluster.

A crew takes pieces of work that do not depend on each other and hands back their results as they come. What they come
to does not depend on who did them, nor in which order.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from gradtd.core import checks
from gradtd.core.checks import InputError
from gradtd.running.workers import n_threads

Piece = TypeVar("Piece")
Done = TypeVar("Done")
LOCAL = "local:"
WAITING = 2
"""Pieces for each worker that are on their way at a time, so that results do not pile up."""


EVERY = 2.0
"""Seconds after which the cluster is asked again how many workers it has."""


class Crew(ABC):
    """Does pieces of work."""

    @abstractmethod
    def each(self, work: Callable[[Piece], Done], pieces: Sequence[Piece]) -> Iterator[tuple[int, Done]]:
        """The number and the result of every piece, in the order in which they are done."""


class Threads(Crew):
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


class Dask(Crew):
    """Workers of a Dask cluster. What a lost worker was at is done again by another one."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def each(self, work: Callable[[Piece], Done], pieces: Sequence[Piece]) -> Iterator[tuple[int, Done]]:
        from distributed import as_completed as as_they_come
        from distributed.scheduler import KilledWorker

        waiting, most, asked = iter(enumerate(pieces)), 0, -np.inf
        sent: dict[Any, int] = {}
        coming = as_they_come()
        try:
            while True:
                if time.monotonic() - asked > EVERY:  # workers may come and go
                    most, asked = self._at_once(), time.monotonic()
                while len(sent) < most and (next_one := next(waiting, None)) is not None:
                    future = self.client.submit(work, next_one[1], pure=False)
                    sent[future] = next_one[0]
                    coming.add(future)
                if not sent:
                    return
                future = next(coming)
                number = sent.pop(future)
                try:
                    yield number, future.result()
                except KilledWorker:
                    raise InputError(
                        "a piece of work was lost with one worker after another: see their logs; they may lack memory."
                    ) from None
        finally:
            self.client.cancel(list(sent))

    def _at_once(self) -> int:
        """Pieces to have on their way."""
        return max(WAITING * int(sum(self.client.ncores().values())), 8)


@contextmanager
def crew_of(threads: int | None = None, scheduler: str | None = None) -> Iterator[Crew]:
    """The crew that was asked for: by default a thread for each core.

    ``scheduler`` is the address of a Dask scheduler, or ``local:2`` for two processes of this machine.
    """
    if scheduler is None:
        yield Threads(n_threads(threads))
        return
    with _client(scheduler) as client:
        yield Dask(client)


@contextmanager
def _client(scheduler: str) -> Iterator[Any]:
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError:
        raise InputError("a scheduler needs Dask, which is not installed: pip install 'gradtd[cluster]'.") from None
    if not scheduler.startswith(LOCAL):
        try:
            client = Client(scheduler, timeout=20)
        except (OSError, ValueError) as error:
            raise InputError(f"there is no Dask scheduler at {scheduler!r}: {error}.") from None
        with client:
            yield client
        return
    number = scheduler.removeprefix(LOCAL)
    count = checks.whole_number("local:", int(number) if number.isdigit() else number, 1)
    # One thread per process: Python's lock would make several wait for each other.
    settings = {"n_workers": count, "threads_per_worker": 1, "processes": True, "host": "127.0.0.1"}
    with (
        dask.config.set({"distributed.worker.daemon": True}),
        LocalCluster(**settings, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client
