"""Two Dask processes against one, and what Dask costs for short units. docs/cluster.md has the numbers.

    python benchmarks/cluster.py [--steps 4000000] [--runs 400] [--units 1000] [--repeats 3]

Needs two free cores and `gradtd[cluster]`; about four minutes. Both clusters are started, and code is compiled, before
it counts; then they take turns. Seconds are of the clock. What no worker does is in the time: of an evaluation looking
for episodes, a sample and the fits, of a sweep the files of its units and the page.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from large_log import make_log

import gradtd
from gradtd.core.executors import DaskExecutor, Executor, ThreadExecutor, dask_client

GOAL = 1.6
QUIET = 0.1
"""Cores that others may use while this measures."""
COLUMNS, GAMMA = 20, 0.95


@contextmanager
def processes(count: int) -> Iterator[tuple[Executor, str]]:
    """A executor of so many processes, and the address of their scheduler."""
    with dask_client(f"local:{count}") as client:
        yield DaskExecutor(client), client.scheduler.address


def evaluated(address: str, path: Path) -> float:
    begin = time.perf_counter()
    gradtd.evaluate(str(path), gamma=GAMMA, progress=False, machine=gradtd.Machine(in_parts=True, scheduler=address))
    return time.perf_counter() - begin


def swept(address: str, folder: Path, runs: int) -> float:
    settings = {"td": {"alpha": [0.03125, 0.0625]}, "impression_gtd": {"alpha": ["auto", 5], "batch_size": 16}}
    grid = gradtd.Sweep(
        problems=["boyan_chain", "random_walk_tabular"], algorithms=settings, runs=runs, steps=10_000, block=20
    )
    begin = time.perf_counter()
    grid.run(folder, scheduler=address, progress=False)
    return time.perf_counter() - begin


def short(number: int) -> int:
    """A millisecond of work or so."""
    return sum(range(30_000 + number % 2))


def seconds_of(executor: Executor, units: int) -> float:
    list(executor.each(short, range(10)))
    begin = time.perf_counter()
    assert len(list(executor.each(short, range(units)))) == units
    return time.perf_counter() - begin


def ours() -> float:
    """Processor seconds of this process and its workers so far."""
    import psutil

    here = psutil.Process()
    times = [one.cpu_times() for one in (here, *here.children(recursive=True))]
    return float(sum(time.user + time.system for time in times))


def machine() -> float:
    """Processor seconds of everybody on this machine so far."""
    import psutil

    busy = psutil.cpu_times()
    return float(busy.user + busy.system + getattr(busy, "nice", 0.0))


class Compared:
    """Seconds of the same work by one process and by two, in turn, so that what disturbs the machine meets both."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.seconds: dict[int, list[float]] = {1: [], 2: []}
        self.others: list[float] = []

    def measure(self, work: Callable[[str], float], addresses: Mapping[int, str]) -> None:
        for count, address in addresses.items():
            before, everybody = ours(), machine()
            found = work(address)
            self.seconds[count].append(found)
            own = ours() - before
            self.others.append(max(0.0, machine() - everybody - own) / found)

    @property
    def ratios(self) -> list[float]:
        return [one / two for one, two in zip(self.seconds[1], self.seconds[2], strict=True)]

    def told(self) -> dict[str, Any]:
        """The median of the pairs' ratios, printed with the least and the largest."""
        ratio, others = float(np.median(self.ratios)), float(np.mean(self.others))
        medians = {count: float(np.median(found)) for count, found in self.seconds.items()}
        print(
            f"{self.what}: one process {medians[1]:.1f} s, two {medians[2]:.1f} s, {ratio:.2f} times (goal {GOAL}; "
            f"{min(self.ratios):.2f} to {max(self.ratios):.2f} in {len(self.ratios)} pairs; others used {others:.2f} "
            f"of {os.cpu_count()} cores{'' if others < QUIET else ': too much, measure again'})",
            flush=True,
        )
        return {"seconds": medians, "ratios": self.ratios, "speed_up": ratio, "others": others}


def cluster(steps: int, runs: int, units: int, repeats: int = 3) -> dict[str, Any]:
    """Everything, printed."""
    evaluation, sweep = Compared("evaluation"), Compared("sweep")
    with tempfile.TemporaryDirectory() as name, processes(1) as (one, first), processes(2) as (two, second):
        folder, addresses = Path(name), {1: first, 2: second}
        for path, count in ((folder / "small.parquet", 100_000), (folder / "log.parquet", steps)):
            make_log(path, count, COLUMNS)
        for address in addresses.values():
            for _ in range(2):  # every worker has its code, and this process its own
                evaluated(address, folder / "small.parquet")
            swept(address, folder / f"warm{address[-5:]}", 40)
        for repeat in range(repeats):
            evaluation.measure(lambda address: evaluated(address, folder / "log.parquet"), addresses)
            sweep.measure(
                lambda address, repeat=repeat: swept(address, folder / f"{repeat}{address[-5:]}", runs), addresses
            )
        executors = {"Dask, 1": one, "Dask, 2": two, "threads, 1": ThreadExecutor(1)}
        each = {
            who: [1000 * seconds_of(executor, units) / units for _ in range(repeats)]
            for who, executor in executors.items()
        }
    found = {what.what: what.told() for what in (evaluation, sweep)}
    best = {who: min(times) for who, times in each.items()}
    print(f"{units} units of a millisecond:", ", ".join(f"{who}: {ms:.2f} ms each" for who, ms in best.items()))
    return {**found, "unit_ms": best}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--units", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    cluster(given.steps, given.runs, given.units, given.repeats)


if __name__ == "__main__":
    main()
