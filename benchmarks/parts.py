"""A log read in parts: peak memory and time per step at several lengths, against reading and products alone.

    python benchmarks/parts.py [--steps 1000000 4000000 16000000] [--columns 20]

Makes Parquet logs in a temporary folder, one after the other. Each is evaluated with one thread. Memory is that of a
fresh process which does nothing else. For the times another process takes the bound and the evaluation in turns, as a
shared machine is slower at times. Seconds are of CPU. Times are medians of the turns, and the ratio is the median of
the turns' own ratios: the least of each may be of different minutes. Libraries are loaded, and code is compiled, before
it counts. What counts are the ratios.

The bound is what nobody can do without: reading the same columns with pyarrow in batches of the same size, and the
products of matrices of this evaluation, of random rows that are in the cache. These are, for every step:

- left'right of every episode, as long as it is in the log, added to the sums of its group. They give the log's
  equations, those of every resample, the fits with memory, doubly robust, and the fits with the time since the start.
- own'own: second moments of the features and of the time.
- plain'plain: second moments of the weighted features.
- x W: the angles of the random waves that check the features.

Not in it: features and ratios, the rows of the products themselves, everything that is checked of the numbers read.
The columns are those that such a log has: one cosine for each column of observations and a bias, as many random waves,
four columns of the time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from large_log import LENGTH, make_log
from timing import peak_memory

GAMMA = 0.95
BATCH, NARROW = 100_000, 6
"""Rows that are read at a time, and columns that are no observations."""
BLOCK = 5 * LENGTH
"""Steps that are in the cache at a time."""
ENOUGH, FEWEST, MOST = 60.0, 4, 12
"""Seconds that the turns take, about, and how many there are."""


def least(work: Callable[[], Any], enough: float = 10.0) -> float:
    """The least seconds of CPU of some repeats: more where they are short."""
    times: list[float] = []
    while len(times) < 5 and (len(times) < 2 or sum(times) < enough):
        times.append(seconds_of(work))
    return min(times)


def seconds_of(work: Callable[[], Any]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def evaluate(path: str) -> Any:
    import gradtd

    return gradtd.evaluate(path, gamma=GAMMA, progress=False, machine=gradtd.Machine(in_parts=True, threads=1))


def memory(path: str) -> dict[str, Any]:
    """Evaluate once in this process; what it took of memory, and what came out."""
    found = evaluate(path)
    return {"memory": peak_memory() / 2**20, "value": found.value, "word": found.verdict}


def turns(path: str) -> dict[str, Any]:
    """Read the same columns batch by batch, do the products of an evaluation of this width, evaluate; in turns."""
    small = str(Path(path).with_name("small.parquet"))
    columns = read_all(small)
    evaluate(small)
    products = products_of(columns, lengths_of(path))
    works = {"read": lambda: read_all(path), "products": products, "evaluated": lambda: evaluate(path)}
    times: list[dict[str, float]] = []
    begin = time.perf_counter()
    while len(times) < FEWEST or (len(times) < MOST and time.perf_counter() - begin < ENOUGH):
        times.append({name: seconds_of(work) for name, work in works.items()})
    ratios = [turn["evaluated"] / (turn["read"] + turn["products"]) for turn in times]
    middle = {name: float(np.median([turn[name] for turn in times])) for name in works}
    return middle | {"turns": len(times), "ratio": float(np.median(ratios)), "range": (min(ratios), max(ratios))}


def read_all(path: str) -> int:
    """Read everything; how many columns of observations there are."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, buffer_size=1 << 18, pre_buffer=False) as file:
        columns = len(file.schema_arrow.names) - NARROW
        for batch in file.iter_batches(BATCH, use_threads=False):
            for column in batch.columns:
                column.to_numpy(zero_copy_only=False)
    return columns


def lengths_of(path: str) -> list[int]:
    """Rows of every episode."""
    import pyarrow.parquet as pq

    ids = pq.read_table(path, columns=["episode"])["episode"].to_numpy()
    begins = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]])
    return list(np.diff(np.r_[begins, len(ids)]).tolist())


def products_of(columns: int, lengths: Sequence[int]) -> Callable[[], None]:
    """The products of episodes of these lengths; see the top of this file."""
    narrow, waves, times, groups = columns + 1, columns + 1, 4, 1000
    D = narrow + waves
    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal((LENGTH, width)) for width in (D + narrow + 1 + times, D + 1 + times))
    own, seen = rng.standard_normal((BLOCK, D + times + 2)), rng.standard_normal((BLOCK, columns))
    frequencies, product = rng.standard_normal((columns, waves)), np.empty((left.shape[1], right.shape[1]))
    sums, of = np.zeros((groups, *product.shape)), rng.integers(0, groups, len(lengths)).tolist()
    plain, blocks = own[:, :narrow], sum(lengths) // BLOCK

    def work() -> None:
        for _ in range(blocks):
            own.T @ own
            plain.T @ plain
            seen @ frequencies
        for n, g in zip(lengths, of, strict=True):
            sums[g] += np.matmul(left[:n].T, right[:n], out=product)

    return work


def elsewhere(what: str, path: Path) -> dict[str, Any]:
    """One of the functions above in a fresh process."""
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, __file__, "--only", what, str(path)], env=os.environ | one, capture_output=True, check=True
    )
    return dict(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, nargs="+", default=[1_000_000, 4_000_000, 16_000_000])
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--only", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        print(json.dumps({"memory": memory, "turns": turns}[given.only[0]](given.only[1])))
        return
    in_parts(given.steps, given.columns)


def in_parts(sizes: Sequence[int], columns: int = 20) -> list[dict[str, float]]:
    """One row for every size, printed; goals: memory and time per step flat within 20 %, the ratio at most 1.5."""
    rows = []
    print("steps       MB   us per step   of reading   of products   ratio (from to)      turns   value and verdict")
    for steps in sizes:
        with tempfile.TemporaryDirectory() as folder:
            make_log(Path(folder) / "small.parquet", 100_000, columns)
            path = Path(folder) / "log.parquet"
            make_log(path, steps, columns)
            found = elsewhere("turns", path) | elsewhere("memory", path)  # what compiles takes memory, and comes first
        ours, read, products = (1e6 * found[name] / steps for name in ("evaluated", "read", "products"))
        print(
            f"{steps:<10d} {found['memory']:4.0f} {ours:10.2f} {read:12.2f} {products:12.2f} {found['ratio']:10.2f}"
            f" ({found['range'][0]:.2f} {found['range'][1]:.2f}) {found['turns']:9d}    {found['value']:.4f}"
            f" {found['word']}",
            flush=True,
        )
        rows.append({"steps": steps, "memory": found["memory"], "us": ours, "ratio": found["ratio"]})
    for name, what in (("memory", "peak memory"), ("us", "time per step")):
        values = [row[name] for row in rows]
        print(f"{what}: the largest is {max(values) / min(values):.2f} times the least (goal 1.2)")
    return rows


if __name__ == "__main__":
    main()
