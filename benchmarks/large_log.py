"""A large log through `gradtd.evaluate`: time, peak memory, and the passes over the data against what bounds them.

    python benchmarks/large_log.py [--steps 2000000] [--columns 50]

Makes a Parquet log in a temporary folder, evaluates it in fresh processes, and prints what each needed; then what the
solution costs over plain arithmetic, and where the time goes (solve_cost.py). `make bench` prints it too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from timing import peak_memory

STEPS, COLUMNS, LENGTH = 2_000_000, 50, 100
GAMMA = 0.95
AT_ONCE = 2000
"""Chains in a row group of the file."""
CASES: dict[str, dict[str, Any]] = {
    "lstd, 100 refits": {"algorithm": "lstd", "resamples": 100},
    "default": {},
}
GOAL_MEMORY, GOAL_LSTD = 3.0, 1.5


def make_log(path: Path, steps: int, columns: int, seed: int = 0, first: int = 0) -> None:
    """AR(1) observations, a reward that depends on them, ratios with mean one; episodes end at random or are cut.

    Their ids begin at the step ``first``, so that files of one log have ids of their own.
    """
    import pyarrow.parquet as pq

    rng = np.random.default_rng(seed)
    writer = None
    begin, end = first // LENGTH, (first + steps) // LENGTH
    for chain in range(begin, end, AT_ONCE):
        table = _episodes(rng, np.arange(chain, min(chain + AT_ONCE, end)), columns)
        writer = writer or pq.ParquetWriter(path, table.schema, use_dictionary=False)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def _episodes(rng: np.random.Generator, chains: np.ndarray, columns: int) -> Any:
    """Chains of 100 steps; at every step an episode ends with one chance in 100, and another one begins."""
    import pyarrow as pa

    n = len(chains)
    seen, over = np.empty((n, LENGTH, columns)), rng.random((n, LENGTH)) < 1 / LENGTH
    seen[:, 0] = rng.standard_normal((n, columns))
    for t in range(1, LENGTH):
        noise = rng.standard_normal((n, columns))
        seen[:, t] = np.where(over[:, t - 1, None], noise, 0.9 * seen[:, t - 1] + np.sqrt(1 - 0.81) * noise)
    reward = 1 + seen @ np.linspace(0, 0.2, columns) + rng.standard_normal((n, LENGTH))
    at = np.arange(LENGTH)
    begin = np.zeros((n, LENGTH), np.int64)
    begin[:, 1:] = np.maximum.accumulate(np.where(over[:, :-1], at[1:], 0), axis=1)
    told = {
        "episode": (chains[:, None] * LENGTH + begin).ravel(),
        "t": (at - begin).ravel(),
        "reward": reward.ravel(),
        "terminated": over.ravel(),
        "truncated": ((at == LENGTH - 1) & ~over).ravel(),
        "rho": rng.choice([0.5, 1.5], n * LENGTH),
    }
    return pa.table(told | {f"obs_{k}": seen[:, :, k].ravel() for k in range(columns)})


def evaluate_once(path: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Evaluate in this process; seconds until each phase was last heard of, and the peak of its memory."""
    import gradtd

    began, worked = time.perf_counter(), time.process_time()
    last_heard: dict[str, float] = {}

    def progress(what: str, done: int, total: int) -> None:
        last_heard[what] = time.perf_counter() - began

    found = gradtd.evaluate(path, gamma=GAMMA, features="identity", progress=progress, **settings)
    seconds, worked = time.perf_counter() - began, time.process_time() - worked
    return {
        "seconds": seconds,
        "worked": worked,
        "until": last_heard,
        "peak_bytes": peak_memory(),
        "steps": found.steps,
        "value": found.value,
        "interval": found.interval,
        "verdict": found.verdict,
        "reasons": found.reasons,
        "numbers": {k: found.numbers.get(k) for k in ("updates", "resamples", "hyper", "moved", "error_ratio")},
    }


def in_fresh_process(path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    command = [sys.executable, __file__, "--evaluate", str(path), json.dumps(settings)]
    return dict(json.loads(subprocess.check_output(command)))


def evaluations(path: Path, features_bytes: int) -> dict[str, Any]:
    """Every case in a process of its own."""
    found = {}
    for name, settings in CASES.items():
        row = in_fresh_process(path, settings)
        row["peak_over_features"] = row["peak_bytes"] / features_bytes
        until = ", ".join(f"{what} {seconds:.0f}" for what, seconds in row["until"].items())
        print(
            f"{name:18s} {row['seconds']:6.0f} s, {row['worked']:.0f} of the processor (until the end of: {until}); "
            f"peak {row['peak_bytes'] / 1e9:.2f} GB, "
            f"{row['peak_over_features']:.2f} times the features (goal at most {GOAL_MEMORY:g}); {row['verdict']}",
            flush=True,
        )
        found[name] = row
    ratio = found["default"]["worked"] / found["lstd, 100 refits"]["worked"]
    print(f"default over lstd, with reading, processor time: {ratio:.2f} (goal at most {GOAL_LSTD:g})")
    return found


def large_log(steps: int = STEPS, columns: int = COLUMNS) -> dict[str, Any]:
    """Everything of this file, printed and returned; the passes run with one BLAS thread, in a fresh process."""
    print(f"\na log of {steps} steps, {columns} columns; features with bias: {steps * (columns + 1) * 8 / 1e6:.0f} MB")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        make_log(path, steps, columns)
        found = evaluations(path, steps * (columns + 1) * 8)
        alone = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, __file__, "--passes", str(path)]
        said = subprocess.check_output(command, env=alone, text=True).splitlines()
    print("\n".join(said[:-1]), flush=True)
    return {"steps": steps, "columns": columns, "evaluations": found, "solve": json.loads(said[-1])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--columns", type=int, default=COLUMNS)
    parser.add_argument("--evaluate", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--passes", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.evaluate:
        print(json.dumps(evaluate_once(given.evaluate[0], json.loads(given.evaluate[1])), default=list))
    elif given.passes:
        from solve_cost import solve_cost

        from gradtd.logs import read_log

        print(json.dumps(solve_cost(read_log(given.passes))))
    else:
        large_log(given.steps, given.columns)


if __name__ == "__main__":
    main()
