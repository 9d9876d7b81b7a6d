"""Two Dask processes against one, and what Dask costs for short units. docs/cluster.md has the numbers.

    python benchmarks/cluster.py [--steps 4000000] [--runs 400] [--units 1000]

Needs two free cores and `gradtd[cluster]`; about four minutes. Clusters are started, and code is compiled, before it
counts. Seconds are of the clock. What no worker does of an evaluation is in its time: looking for episodes, a sample,
the fits.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from large_log import make_log

import gradtd
from gradtd.running.crew import Crew, Dask, Threads

GOAL = 1.6
COLUMNS, GAMMA = 20, 0.95


@contextmanager
def processes(count: int) -> Iterator[tuple[Crew, str]]:
    """A crew of so many processes, and the address of their scheduler."""
    from distributed import Client, LocalCluster

    told = {"n_workers": count, "threads_per_worker": 1, "processes": True, "host": "127.0.0.1"}
    with LocalCluster(**told, dashboard_address=None) as cluster, Client(cluster) as client:
        yield Dask(client), cluster.scheduler_address


def evaluated(address: str, path: Path) -> float:
    begin = time.perf_counter()
    gradtd.evaluate(str(path), gamma=GAMMA, in_parts=True, scheduler=address, progress=False)
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


def seconds_of(crew: Crew, units: int) -> float:
    list(crew.each(short, range(10)))
    begin = time.perf_counter()
    assert len(list(crew.each(short, range(units)))) == units
    return time.perf_counter() - begin


def cluster(steps: int, runs: int, units: int) -> dict[str, Any]:
    """Everything, printed."""
    seconds: dict[str, dict[int, float]] = {"evaluation": {}, "sweep": {}}
    each: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, count in ((folder / "small.parquet", 100_000), (folder / "log.parquet", steps)):
            make_log(path, count, COLUMNS)
        for count in (1, 2):
            with processes(count) as (crew, address):
                for _ in range(2):  # every worker has its code
                    evaluated(address, folder / "small.parquet")
                swept(address, folder / f"warm{count}", 40)
                seconds["evaluation"][count] = evaluated(address, folder / "log.parquet")
                seconds["sweep"][count] = swept(address, folder / f"sweep{count}", runs)
                each[f"Dask, {count}"] = 1000 * seconds_of(crew, units) / units
    each["threads, 1"] = 1000 * seconds_of(Threads(1), units) / units
    speed_up = {what: found[1] / found[2] for what, found in seconds.items()}
    for what, found in seconds.items():
        print(
            f"{what}: one process {found[1]:.1f} s, two {found[2]:.1f} s, {speed_up[what]:.2f} times (goal {GOAL})",
            flush=True,
        )
    print(f"{units} units of a millisecond:", ", ".join(f"{who}: {ms:.2f} ms each" for who, ms in each.items()))
    return {"seconds": seconds, "speed_up": speed_up, "unit_ms": each}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--units", type=int, default=1000)
    given = parser.parse_args()
    cluster(given.steps, given.runs, given.units)


if __name__ == "__main__":
    main()
