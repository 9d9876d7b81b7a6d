"""A log read in parts: peak memory and time per step at several lengths, against reading and products alone.

    python benchmarks/parts.py [--steps 1000000 4000000 16000000] [--columns 20]

Makes Parquet logs in a temporary folder, one after the other. Each is evaluated in a fresh process with one thread. The
bound is what nobody can do without: reading the same columns with pyarrow, and the products that this evaluation asks
of BLAS, in pieces of the same size. What counts are the ratios; seconds are of CPU, because the machine may be shared.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from large_log import make_log

GAMMA = 0.95


def peak_memory() -> float:
    """The peak of this process's memory, in MB."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def evaluated(path: str) -> dict[str, Any]:
    """Evaluate in this process, compiled code loaded before."""
    import gradtd

    small = str(Path(path).with_name("small.parquet"))
    gradtd.evaluate(small, gamma=GAMMA, in_parts=True, threads=1, progress=False)
    begin, wall = time.process_time(), time.perf_counter()
    result = gradtd.evaluate(path, gamma=GAMMA, in_parts=True, threads=1, progress=False)
    told = {"seconds": time.process_time() - begin, "wall": time.perf_counter() - wall, "memory": peak_memory()}
    return told | {"value": result.value, "interval": result.interval, "word": result.verdict, "steps": result.steps}


def bound(path: str) -> dict[str, Any]:
    """Read the same columns batch by batch, and do the products of an evaluation of this width."""
    import pyarrow.parquet as pq

    begin, rows = time.process_time(), 0
    with pq.ParquetFile(path, buffer_size=1 << 18, pre_buffer=False) as file:
        columns = len(file.schema_arrow.names) - 6
        for batch in file.iter_batches(32_768, use_threads=False):
            for column in batch.columns:
                column.to_numpy(zero_copy_only=False)
            rows += len(batch)
    read = time.process_time() - begin
    wide, narrow = columns + 1 + 20, columns + 1  # the rung of the cosines, and 20 random waves to check it
    rng = np.random.default_rng(0)
    z, y = rng.standard_normal((4096, wide + narrow)), rng.standard_normal((4096, wide))
    x = np.ascontiguousarray(y)
    begin = time.process_time()
    for _ in range(rows // 4096):
        z.T @ y
        x.T @ x
    return {"read": read, "products": time.process_time() - begin}


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
            least, found = elsewhere("bound", path), elsewhere("evaluated", path)
        per_step = {name: 1e6 * least[name] / steps for name in ("read", "products")}
        ours = 1e6 * found["seconds"] / steps
        ratio = ours / sum(per_step.values())
        print(
            f"{steps:<10d} {found['memory']:4.0f} {ours:10.2f} {per_step['read']:12.2f} {per_step['products']:12.2f}"
            f" {ratio:10.2f}   {found['value']:.4f} {found['word']}",
            flush=True,
        )
        rows.append({"steps": steps, "memory": found["memory"], "us": ours, "ratio": ratio})
    return rows


if __name__ == "__main__":
    main()
