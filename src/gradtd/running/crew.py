"""Who does the work: threads of this process.

A crew takes pieces of work that do not depend on each other and hands back their results as they come. What they come
to does not depend on who did them, nor in which order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import TypeVar

from gradtd.running.workers import n_threads

Piece = TypeVar("Piece")
Done = TypeVar("Done")


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


@contextmanager
def crew_of(threads: int | None = None) -> Iterator[Crew]:
    """The crew that was asked for: by default a thread for each core."""
    yield Threads(n_threads(threads))
