"""The constants of the cost model of docs/past-these-machines.md, what it says, and the reduce with 10 000 parts.

    python benchmarks/cost_model.py

Reading and sums are measured on a log of 200 000 steps, the least of some repeats. The reduce is done for real with
10 000 parts' sums of the size that such a log has (the same sums again and again, so that they fit into memory).
"""

from __future__ import annotations

import copy
import tempfile
import time
from pathlib import Path

import numpy as np
from large_log import make_log
from parts import least

from gradtd.core.executors import ThreadExecutor
from gradtd.evaluation.parts.fitting import sampled
from gradtd.evaluation.parts.job import Job
from gradtd.evaluation.parts.preparing import Asked, prepared, reading_of
from gradtd.evaluation.parts.room import size_of
from gradtd.evaluation.parts.sums import TOGETHER, Reduction, Sums, part_sums
from gradtd.logs.column_names import resolve
from gradtd.logs.files import ParquetTable
from gradtd.logs.parts import ROWS_OF_A_PART, survey

STEPS, COLUMNS, PARTS = 200_000, 20, 10_000
NETWORK = 1.0e9
"""Bytes per second into one machine: ten gigabit Ethernet."""


def job_of(path: Path) -> tuple[Job, list]:
    table = ParquetTable("log", [path])
    seen = survey(table, "episode")
    asked = Asked(None, None, None, None, "refuse", "refuse")
    reading = reading_of(None, asked, (), resolve(table.kinds, None, ()))
    job, _ = prepared(table, seen, reading, 0.95, asked, ThreadExecutor(1), sampled(table, seen, reading))
    return job, seen.parts()


def read_all(job: Job, parts: list) -> None:
    for part in parts:
        for _ in part.batches(job.reading.needed):
            pass


def reduce_seconds(sums: Sums, parts: int) -> tuple[float, int]:
    """Add so many parts for real; also how many sums were kept at a time."""
    reduction, most = Reduction(), 0
    begin = time.process_time()
    spent = 0.0
    for number in range(parts):
        before = time.process_time()
        fresh = copy.deepcopy(sums) if number % TOGETHER == 0 else sums  # what is added to is written over
        spent += time.process_time() - before
        reduction.put(number, fresh)
        most = max(most, len(reduction._kept))
    reduction.total()
    return time.process_time() - begin - spent, most


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        make_log(path, STEPS, COLUMNS)
        job, parts = job_of(path)
        read = least(lambda: read_all(job, parts)) / STEPS
        made: list[Sums] = []
        both = least(lambda: made.append(part_sums(job, parts[0], made))) / len(parts[0])  # in the same memory
    sums = made[0]
    size = size_of(sums)
    print(
        f"reading {1e6 * read:.2f} us per step, reading and sums {1e6 * both:.2f} us per step, D = {job.wide.n_columns}"
    )
    print(f"sums of a part: {size / 1e6:.0f} MB, {job.groups} groups")
    small = Sums(
        {name: a[:50] if name == "products" else a for name, a in sums.arrays.items()}, sums.by_time, sums.largest
    )
    seconds, kept = reduce_seconds(small, PARTS)
    rate = PARTS * size_of(small) / seconds
    print(
        f"adding {PARTS} parts of {size_of(small) / 1e6:.1f} MB: {seconds:.0f} s of CPU, {rate / 1e9:.1f} GB/s, "
        f"at most {kept} kept"
    )
    print("\n| steps | workers | parts | reading and sums | through the network | adding | memory per worker |")
    print("|---|---|---|---|---|---|---|")
    for steps in (1e9, 1e10, 1e11):
        for workers in (10, 100, 1000):
            count = steps / ROWS_OF_A_PART
            times = (steps * both / workers, count * size / NETWORK, count * size / rate)
            told = " | ".join(_spoken(seconds) for seconds in times)
            print(f"| {steps:.0e} | {workers} | {count:.0f} | {told} | {2 * size / 1e6 + 200:.0f} MB |")


def _spoken(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
