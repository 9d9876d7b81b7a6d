"""A log of many discrete states: peak memory and time per step, read in parts and read into memory.

    python benchmarks/parts_states.py [--steps 1000000 4000000] [--states 100000] [--how parts]

Makes Parquet logs of a walk on a ring, episodes of 20 steps that start anywhere, in a temporary folder. Each is
evaluated with one feature per state in a fresh process with one thread. Seconds are of CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from timing import peak_memory

LENGTH, GAMMA, AT_ONCE = 20, 0.9, 500_000
HOW = ("parts", "into memory")


def make_log(path: Path, steps: int, states: int) -> None:
    """The behaviour goes one state on with probability 0.6 and three back with 0.4, the target with 0.65 and 0.35."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, writer = np.random.default_rng(0), None
    for first in range(0, steps, AT_ONCE):
        episodes = min(AT_ONCE, steps - first) // LENGTH
        ahead = rng.random((episodes, LENGTH)) < 0.6
        moves = np.where(ahead, 1, -3)
        begin = rng.integers(0, states, episodes)[:, None]
        at = (begin + np.cumsum(np.c_[np.zeros(episodes, int), moves[:, :-1]], axis=1)) % states
        table = pa.table(
            {
                "episode": np.repeat(first // LENGTH + np.arange(episodes), LENGTH),
                "obs": at.ravel(),
                "reward": (np.sin(at / 1000) + rng.standard_normal(at.shape)).ravel(),
                "terminated": np.tile(np.arange(LENGTH) == LENGTH - 1, episodes) & (at.ravel() % 2 == 0),
                "truncated": np.tile(np.arange(LENGTH) == LENGTH - 1, episodes) & (at.ravel() % 2 == 1),
                "rho": np.where(ahead, 0.65 / 0.6, 0.35 / 0.4).ravel(),
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def evaluated(path: str, in_parts: bool) -> dict[str, Any]:
    """Evaluate in this process, compiled code loaded before."""
    import gradtd

    def work(log: str) -> Any:
        return gradtd.evaluate(
            log, gamma=GAMMA, progress=False, features="one-hot", machine=gradtd.Machine(in_parts=in_parts, threads=1)
        )

    work(str(Path(path).with_name("small.parquet")))
    begin = time.process_time()
    found = work(path)
    seconds = time.process_time() - begin
    told = {"seconds": seconds, "memory": peak_memory() / 2**20, "value": found.value, "word": found.verdict}
    return told | {"error": found.diagnostics.sandwich_error, "features": found.diagnostics.features_used}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, nargs="+", default=[1_000_000, 4_000_000])
    parser.add_argument("--states", type=int, default=100_000)
    parser.add_argument("--how", nargs="+", choices=HOW, default=HOW, help="some of the ways to read it")
    parser.add_argument("--only", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        print(json.dumps(evaluated(given.only[1], given.only[0] == "parts")))
        return
    print("steps       read            MB   us per step   value               error     features   verdict")
    for steps in given.steps:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log.parquet"
            make_log(path.with_name("small.parquet"), 20_000, 600)
            make_log(path, steps, given.states)
            for how in given.how:
                one = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
                command = [sys.executable, __file__, "--only", how, str(path)]
                told = json.loads(subprocess.run(command, env=one, capture_output=True, check=True).stdout)
                print(
                    f"{steps:<10d}  {how:12s} {told['memory']:5.0f} {1e6 * told['seconds'] / steps:12.2f}   "
                    f"{told['value']:<.15f}   {told['error']:.6f}   {told['features']}   {told['word']}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
