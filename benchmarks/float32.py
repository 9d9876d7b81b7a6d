"""Features in float32 against the same numbers in float64: time per step, memory, and what rounding does to weights.

    python benchmarks/float32.py

Tables of 40 000 dense rows, which do not fit into a cache. Steps lead from row to row in the order of time. Both kinds
are timed in turn, in processor time, least of several repeats. The error is that of LSTD on features that were rounded
to float32, relative to its weights on the features as they were. Last, `evaluate` with a table of each kind, in fresh
processes: memory beyond the table, and how far the value moves.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import numpy as np
from sparse import least_cpu, steps_of
from timing import peak_memory

import gradtd

ROWS, M = 40_000, 32
RULES: dict[str, tuple[dict[str, Any], int]] = {
    # name: (settings, steps timed at once)
    "td": ({"alpha": 1e-4}, 40_000),
    "impression_gtd": ({"batch_size": M}, 1000),
}


def stream_of(d: int, kind: Any, rows: int = ROWS) -> gradtd.Stream:
    """Normal features of length about one, in this kind of number."""
    rng = np.random.default_rng(0)
    steps = rows - 1
    return gradtd.Stream.from_arrays(
        features=(rng.standard_normal((rows, d)) / np.sqrt(d)).astype(kind),
        row=np.arange(steps), next_row=np.arange(1, rows), reward=rng.standard_normal(steps),
        discount=0.9, rho=rng.choice([0.5, 1.5], steps), episode=np.arange(steps) // 10,
    )  # fmt: skip


def narrow_steps() -> dict[str, dict[str, float]]:
    """For every rule and number of features microseconds per step in both kinds, and their ratio."""
    found = {}
    for d in (50, 500):
        streams = {kind.__name__: stream_of(d, kind) for kind in (np.float64, np.float32)}
        memory = {name: np.asarray(stream.features).nbytes / 1e6 for name, stream in streams.items()}
        for rule, (hyper, count) in RULES.items():
            count = min(count, ROWS - 1)
            calls = {name: steps_of(stream, rule, hyper, count) for name, stream in streams.items()}
            took = {name: 1e6 * seconds / count for name, seconds in least_cpu(calls).items()}
            ratio = took["float32"] / took["float64"]
            found[f"{rule} d={d}"] = took | {"ratio": ratio} | {f"MB {name}": size for name, size in memory.items()}
            print(
                f"{rule:15s} d={d:3d}  float64 {took['float64']:8.3f} us per step, {memory['float64']:4.0f} MB; "
                f"float32 {took['float32']:8.3f} us, {memory['float32']:4.0f} MB: {ratio:5.2f} times",
                flush=True,
            )
    return found


def rounding() -> dict[str, float]:
    """The relative error of LSTD's weights where features were rounded to float32."""
    found = {}
    for d in (5, 50):
        theta = [gradtd.learn(stream_of(d, kind, 10_000), "lstd").theta for kind in (np.float32, np.float64)]
        found[f"d={d}"] = float(np.linalg.norm(theta[0] - theta[1]) / np.linalg.norm(theta[1]))
        print(f"LSTD, d={d:2d}: features rounded to float32 move its weights by {found[f'd={d}']:.1e} of their length")
    return found


def evaluation_of(kind: str) -> dict[str, float]:
    """Evaluate a log with a table of features in this kind of number, in this process."""
    n, d, length = 400_000, 100, 20
    rng, table = np.random.default_rng(0), np.empty((n, d), kind)
    for begin in range(0, n, 50_000):
        table[begin : begin + 50_000] = rng.standard_normal((50_000, d)).astype(np.float32)
    table[:, 0] = 1
    at = np.arange(n)
    log = {"episode": at // length, "obs_0": at / n, "reward": table[:, 1] + rng.standard_normal(n),
           "terminated": at % length == length - 1, "rho": rng.choice([0.5, 1.5], n)}  # fmt: skip

    def features(seen: Any) -> Any:
        return table if len(seen) == n else table[np.rint(np.asarray(seen)[:, 0] * n).astype(int)]

    before, begin_time = peak_memory(), time.process_time()
    found = gradtd.evaluate(log, gamma=0.9, features=features, progress=False, machine=gradtd.Machine(threads=1))
    told = {"table": table.nbytes / 2**20, "peak": (peak_memory() - before) / 2**20}
    told |= {"seconds": time.process_time() - begin_time, "value": found.value}
    return told | {"error": found.diagnostics.sandwich_error}


def evaluations() -> dict[str, dict[str, float]]:
    """Both kinds, each in a fresh process: peak memory above the table, processor time, and how the value moves."""
    found = {}
    for kind in ("float64", "float32"):
        command = [sys.executable, __file__, "--evaluate", kind]
        told = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        found[kind] = told
        print(
            f"evaluate, {kind}: {told['table']:.0f} MB of features, {told['peak']:.0f} MB more, {told['seconds']:.1f} s"
        )
    moved = abs(found["float32"]["value"] - found["float64"]["value"]) / found["float64"]["error"]
    print(f"its value, {found['float64']['value']:.6f}, moves by {moved:.1e} of its standard error")
    return found


if __name__ == "__main__":
    if "--evaluate" in sys.argv:
        print(json.dumps(evaluation_of(sys.argv[-1])))
    else:
        narrow_steps()
        rounding()
        evaluations()
