"""Sums over a log: one product after another on all threads of BLAS, or our own threads with one thread of BLAS each.

    python benchmarks/blas_threads.py [--rows 2000000] [--columns 50]

The sum of X'Y over chunks of a log, and 100 refits' worth of small sums, one per group of episodes. Each contestant
runs in a process of its own and is stopped after a minute: on a machine with other work the threads of BLAS wait for
each other. Prints seconds of the clock and of the processor, the least of five.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np

from gradtd.core import blas

ROWS_AT_ONCE, GROUP, KEPT = 4096, 1000, 200_000
PATIENCE = 60
CONTESTANTS = ("one thread", "threads of BLAS", "threads of our own")


def summed(X: np.ndarray, Y: np.ndarray, parts: list[slice]) -> np.ndarray:
    total = np.zeros((X.shape[1], Y.shape[1]))
    for part in parts:
        total += X[part].T @ Y[part]
    return total


def timed(contestant: str, rows: int, columns: int, at_once: int, repeats: int = 5) -> None:
    """Rows beyond the first 200 000 are those again: what is timed is arithmetic."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((2, min(rows, KEPT), columns + 1))
    parts = [slice(k, k + at_once) for k in range(0, len(X), at_once)] * (rows // len(X))
    threads = os.cpu_count() or 1
    workers = threads if contestant == "threads of our own" else 1
    held = nullcontext() if contestant == "threads of BLAS" else blas.one_thread()
    best = np.full(2, np.inf)
    with held, ThreadPoolExecutor(workers) as pool:
        for _ in range(repeats):
            began = np.array([time.perf_counter(), time.process_time()])
            list(pool.map(lambda k: summed(X, Y, parts[k::workers]), range(workers)))
            best = np.minimum(best, np.array([time.perf_counter(), time.process_time()]) - began)
    print(f"{best[0]:.2f} s of the clock, {best[1]:.2f} s of the processor")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        timed(given.one[0], given.rows, given.columns, int(given.one[1]))
        return
    free = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    print(f"{os.cpu_count()} cores, {os.getloadavg()[0]:.1f} processes at work before")
    for what, at_once in (("the sums", ROWS_AT_ONCE), ("sums by group, for refits", GROUP)):
        for contestant in CONTESTANTS:
            sizes = ["--rows", str(given.rows), "--columns", str(given.columns)]
            command = [sys.executable, __file__, "--one", contestant, str(at_once), *sizes]
            try:
                told = subprocess.run(
                    command, env=free, timeout=PATIENCE, capture_output=True, text=True
                ).stdout.strip()
            except subprocess.TimeoutExpired:
                told = f"not done with five repeats in {PATIENCE} s"
            print(f"{what}, {contestant}: {told}", flush=True)


if __name__ == "__main__":
    main()
