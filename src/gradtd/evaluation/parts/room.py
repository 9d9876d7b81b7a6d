"""Memory of sums that nobody needs any more, for the next evaluation in this process.

Sums by group have some 25 MB. To touch memory that is new to a process may cost a tenth of what a million steps take.
Arrays of a chunk have a megabyte each. The allocator of Linux gives them back to the system, chunk after chunk, until
an array as large as sums was freed once; as sums are kept here, one that nobody uses is.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock

import numpy as np

from gradtd.evaluation.parts.job import Job
from gradtd.evaluation.parts.sums import Sums, shapes_of

KEPT = 64_000_000
"""Bytes that are kept between evaluations, at most."""


LARGE = 31 * 2**20
"""Bytes of an array whose release tells glibc to keep freed memory, up to twice as much (64 MB is its limit)."""


class Room:
    """Sums whose numbers are not needed, only their memory. Whoever takes some has them alone."""

    def __init__(self) -> None:
        self._sums: list[Sums] = []
        self._lock = Lock()

    def take(self, job: Job) -> list[Sums]:
        """All that have the shapes of this job. The others are let go: they were of another log or other features."""
        np.empty(LARGE, np.uint8)  # nobody writes to it, so it takes no memory; see `LARGE`
        wanted = shapes_of(job)
        with self._lock:
            found, self._sums = self._sums, []
        return [sums for sums in found if {name: array.shape for name, array in sums.arrays.items()} == wanted]

    def give(self, spare: Iterable[Sums]) -> None:
        """Keep as many of these as there may be."""
        with self._lock:
            for sums in spare:
                if sum(map(size_of, (*self._sums, sums))) <= KEPT:
                    self._sums.append(sums)


def size_of(sums: Sums) -> int:
    """Bytes of the arrays."""
    return sum(array.nbytes for array in sums.arrays.values())


ROOM = Room()
