"""A large log through `gradtd.evaluate`: time, peak memory, and the passes over the data against what bounds them.

    python benchmarks/large_log.py [--steps 2000000] [--columns 50] [--skip-default]

Makes a Parquet log in a temporary folder, evaluates it in fresh processes, and prints what each needed; then times the
passes over the features against reading the same bytes once (their sum) and against LSTD in plain NumPy. Times are the
least of several repeats, taken in turn; what counts are the ratios. `make bench` prints it too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

STEPS, COLUMNS, LENGTH = 2_000_000, 50, 100
GAMMA = 0.95
AT_ONCE = 2000
"""Episodes in a row group of the file."""
CASES: dict[str, dict[str, Any]] = {
    "lstd, sandwich": {"algorithm": "lstd", "resamples": 0},
    "lstd, 100 refits": {"algorithm": "lstd", "resamples": 100},
    "impression_gtd": {},
}
GOAL_MEMORY = 3.0


def make_log(path: Path, steps: int, columns: int, seed: int = 0) -> None:
    """Episodes of 100 steps: AR(1) observations, a reward that depends on them, ratios with mean one, some cut off."""
    import pyarrow.parquet as pq

    rng = np.random.default_rng(seed)
    writer = None
    for first in range(0, steps // LENGTH, AT_ONCE):
        episodes = np.arange(first, min(first + AT_ONCE, steps // LENGTH))
        table = _episodes(rng, episodes, columns)
        writer = writer or pq.ParquetWriter(path, table.schema, use_dictionary=False)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def _episodes(rng: np.random.Generator, episodes: np.ndarray, columns: int) -> Any:
    import pyarrow as pa

    n = len(episodes)
    seen = np.empty((n, LENGTH, columns))
    seen[:, 0] = rng.standard_normal((n, columns))
    for t in range(1, LENGTH):
        seen[:, t] = 0.9 * seen[:, t - 1] + np.sqrt(1 - 0.81) * rng.standard_normal((n, columns))
    reward = 1 + seen @ np.linspace(0, 0.2, columns) + rng.standard_normal((n, LENGTH))
    last = np.zeros((n, LENGTH), bool)
    last[:, -1] = True
    cut = last & (rng.random((n, 1)) < 0.2)
    told = {
        "episode": np.repeat(episodes, LENGTH),
        "t": np.tile(np.arange(LENGTH), n),
        "reward": reward.ravel(),
        "terminated": (last & ~cut).ravel(),
        "truncated": cut.ravel(),
        "rho": rng.choice([0.5, 1.5], n * LENGTH),
    }
    return pa.table(told | {f"obs_{k}": seen[:, :, k].ravel() for k in range(columns)})


def evaluate_once(path: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Evaluate in this process; seconds until each phase was last heard of, and the peak of its memory."""
    import gradtd

    began = time.perf_counter()
    last_heard: dict[str, float] = {}

    def progress(what: str, done: int, total: int) -> None:
        last_heard[what] = time.perf_counter() - began

    found = gradtd.evaluate(path, gamma=GAMMA, features="identity", progress=progress, **settings)
    seconds = time.perf_counter() - began
    return {
        "seconds": seconds,
        "until": last_heard,
        "peak_bytes": peak_memory(),
        "steps": found.steps,
        "value": found.value,
        "interval": found.interval,
        "verdict": found.verdict,
        "reasons": found.reasons,
        "numbers": {k: found.numbers.get(k) for k in ("updates", "resamples", "hyper", "moved", "error_ratio")},
    }


def peak_memory() -> int:
    """VmHWM of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


def in_fresh_process(path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    command = [sys.executable, __file__, "--evaluate", str(path), json.dumps(settings)]
    return dict(json.loads(subprocess.check_output(command)))


if __name__ == "__main__":
    if sys.argv[1] == "--evaluate":
        print(json.dumps(evaluate_once(sys.argv[2], json.loads(sys.argv[3])), default=list))
