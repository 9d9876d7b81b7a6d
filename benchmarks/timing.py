"""How contestants are timed in one run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np


def least_times(
    contestants: Mapping[str, Callable[[], Any]], repeats: int = 15, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Seconds of each contestant: the least of several repeats, in turn, each after a call that does not count.

    That call brings its code and data back into the caches, which the contestant before it has used.
    """
    best = dict.fromkeys(contestants, np.inf)
    for _ in range(repeats):
        for name, call in contestants.items():
            call()
            began = clock()
            call()
            best[name] = min(best[name], clock() - began)
    return best


def peak_memory() -> int:
    """Bytes that this process had in memory at most; getrusage would count what its parent had when it was forked."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
