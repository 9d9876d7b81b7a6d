"""A log read in parts: peak memory and time per step at several lengths, against reading and products alone.

    python benchmarks/parts.py [--steps 1000000 4000000 16000000] [--columns 20]

Makes Parquet logs in a temporary folder, one after the other. Each is evaluated in fresh processes with one thread, in
turns with the bound. What counts are the ratios. Seconds are of CPU, because the machine may be shared; the least of
several repeats where one takes less than some seconds, and the least of the turns. Libraries are loaded, and code is
compiled, before it counts.

The bound is what nobody can do without: reading the same columns with pyarrow in batches of the same size, and the
products of matrices of this evaluation, of random rows that are in the cache. These are, for every step:

- left'right of every episode, as long as it is in the log, added to the sums of its group. They give the log's
  equations, those of every resample, the fits with memory, doubly robust, and the fits with the time since the start.
- own'own: second moments of the features and of the time.
- plain'plain: second moments of the weighted features.
- x W: the angles of the random waves that check the features.

Not in it: features and ratios, the rows of the products themselves, everything that is checked of the numbers read.
The columns are those that such a log has: one cosine for each column of observations and a bias, 20 random waves, four
columns of the time.
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
TURNS = 3
"""Times that the bound and the evaluation are measured in turns: a machine may be slower for a minute."""


def least(work: Callable[[], Any], enough: float = 10.0) -> float:
    """The least seconds of CPU of some repeats: more where they are short."""
    times: list[float] = []
    while len(times) < 5 and (len(times) < 2 or sum(times) < enough):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times)


def evaluated(path: str) -> dict[str, Any]:
    """Evaluate in this process, compiled code loaded before."""
    import gradtd

    small = str(Path(path).with_name("small.parquet"))
    gradtd.evaluate(small, gamma=GAMMA, in_parts=True, threads=1, progress=False)
    found: list[Any] = []
    wall = time.perf_counter()
    seconds = least(lambda: found.append(gradtd.evaluate(path, gamma=GAMMA, in_parts=True, threads=1, progress=False)))
    result, wall = found[-1], (time.perf_counter() - wall) / len(found)
    told = {"seconds": seconds, "wall": wall, "memory": peak_memory() / 2**20}
    return told | {"value": result.value, "interval": result.interval, "word": result.verdict, "steps": result.steps}


def bound(path: str) -> dict[str, Any]:
    """Read the same columns batch by batch, and do the products of an evaluation of this width."""
    columns = read_all(str(Path(path).with_name("small.parquet")))
    seconds = least(lambda: read_all(path))
    return {"read": seconds, "products": least(products_of(columns, lengths_of(path)))}


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
    narrow, waves, times, groups = columns + 1, 20, 4, 1000
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
        print(json.dumps({"evaluated": evaluated, "bound": bound}[given.only[0]](given.only[1])))
        return
    in_parts(given.steps, given.columns)


def in_parts(sizes: Sequence[int], columns: int = 20) -> list[dict[str, float]]:
    """One row for every size, printed; goals: memory and time per step flat within 20 %, the ratio at most 1.5."""
    rows = []
    print("steps       MB   us per step   of reading   of products   ratio   value and verdict")
    for steps in sizes:
        with tempfile.TemporaryDirectory() as folder:
            make_log(Path(folder) / "small.parquet", 100_000, columns)
            path = Path(folder) / "log.parquet"
            make_log(path, steps, columns)
            turns = [(elsewhere("bound", path), elsewhere("evaluated", path)) for _ in range(TURNS)]
        found = turns[0][1] | {"memory": max(ours["memory"] for _, ours in turns)}
        per_step = {name: 1e6 * min(bound[name] for bound, _ in turns) / steps for name in ("read", "products")}
        ours = 1e6 * min(ours["seconds"] for _, ours in turns) / steps
        ratio = ours / sum(per_step.values())
        print(
            f"{steps:<10d} {found['memory']:4.0f} {ours:10.2f} {per_step['read']:12.2f} {per_step['products']:12.2f}"
            f" {ratio:10.2f}   {found['value']:.4f} {found['word']}",
            flush=True,
        )
        rows.append({"steps": steps, "memory": found["memory"], "us": ours, "ratio": ratio})
    for name, what in (("memory", "peak memory"), ("us", "time per step")):
        values = [row[name] for row in rows]
        print(f"{what}: the largest is {max(values) / min(values):.2f} times the least (goal 1.2)")
    return rows


if __name__ == "__main__":
    main()
