"""Features in float32 against the same numbers in float64: time per step, memory, and what rounding does to weights.

    python benchmarks/float32.py

Tables of 40 000 dense rows, which do not fit into a cache. Steps lead from row to row in the order of time. Both kinds
are timed in turn, in processor time, least of several repeats. The error is that of LSTD on features that were rounded
to float32, relative to its weights on the features as they were.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sparse import least_cpu, steps_of

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


if __name__ == "__main__":
    narrow_steps()
    rounding()
