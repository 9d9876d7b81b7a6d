"""A large log through `gradtd.evaluate`: time, peak memory, and the passes over the data against what bounds them.

    python benchmarks/large_log.py [--steps 2000000] [--columns 50]

Makes a Parquet log in a temporary folder, evaluates it in fresh processes, and prints what each needed; then times the
passes over the features against reading the same bytes once (their sum) and against LSTD in plain NumPy. Times are the
least of several repeats, taken in turn; what counts are the ratios. `make bench` prints it
too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from timing import least_times

STEPS, COLUMNS, LENGTH = 2_000_000, 50, 100
GAMMA = 0.95
AT_ONCE = 2000
"""Episodes in a row group of the file."""
CASES: dict[str, dict[str, Any]] = {
    "lstd, sandwich": {"algorithm": "lstd", "resamples": 0},
    "lstd, 100 refits": {"algorithm": "lstd", "resamples": 100},
    "default": {},
}
SOLVING = ("second_moments", "whiten", "sums")
GOAL_MEMORY, GOAL_LSTD, GOAL_ARITHMETIC = 3.0, 1.5, 2.0


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


def evaluations(path: Path, features_bytes: int) -> dict[str, Any]:
    """Every case in a process of its own."""
    found = {}
    for name, settings in CASES.items():
        row = in_fresh_process(path, settings)
        row["peak_over_features"] = row["peak_bytes"] / features_bytes
        until = ", ".join(f"{what} {seconds:.0f}" for what, seconds in row["until"].items())
        print(
            f"{name:18s} {row['seconds']:6.0f} s (until the end of: {until}); peak {row['peak_bytes'] / 1e9:.2f} GB, "
            f"{row['peak_over_features']:.2f} times the features (goal at most {GOAL_MEMORY:g}); {row['verdict']}",
            flush=True,
        )
        found[name] = row
    ratio = found["default"]["seconds"] / found["lstd, 100 refits"]["seconds"]
    print(f"default over lstd: {ratio:.2f} (goal at most {GOAL_LSTD:g})")
    return found


def passes(path: Path, repeats: int = 3) -> dict[str, dict[str, float]]:
    """The passes over the features in steps a second, against their sum and against LSTD in plain NumPy."""
    from gradtd.evaluation.folds import fold_of_steps
    from gradtd.evaluation.least_squares import least_squares, refit_values, start_features, sums
    from gradtd.evaluation.preparing import prepare_log
    from gradtd.evaluation.resamples import draw_resamples
    from gradtd.evaluation.whitening import second_moments, whiten
    from gradtd.logs import read_log

    log = read_log(path)
    assert log.rho is not None
    ready = prepare_log(log, "identity", None)
    rho, row = log.rho, log.row
    del log
    stream = ready.stream(rho, GAMMA)
    table, begins = stream.features, stream.begins
    starts = start_features(stream, begins)
    square = least_squares(stream, starts, begins)
    fold = fold_of_steps(begins)
    drawn = draw_resamples(len(begins) - 1, 100, 0)
    contestants: dict[str, Callable[[], Any]] = {
        "sum of the features": table.sum,
        "X'X, one BLAS product": lambda: table.T @ table,
        "plain NumPy LSTD, in chunks": lambda: plain_lstd(stream, 16_384),
        "plain NumPy LSTD, in one go": lambda: plain_lstd(stream, len(stream)),
        "second_moments": lambda: second_moments(table, row),
        "whiten": lambda: whiten(table, np.eye(table.shape[1])),  # by the identity: nothing changes
        "sums": lambda: sums(stream, C=ready.C, fold=fold),
        "refit_values, 100": lambda: refit_values(stream, starts, begins, drawn, square),
    }
    np.testing.assert_allclose(plain_lstd(stream, 16_384), square.theta, rtol=1e-6, atol=1e-9)
    best = least_times(contestants, repeats)
    floor, plain = best["sum of the features"], best["plain NumPy LSTD, in chunks"]
    return {
        name: {
            "seconds": seconds,
            "steps_a_second": len(stream) / seconds,
            "GB_a_second": table.nbytes / seconds / 1e9,
            "over_sum": seconds / floor,
            "over_plain": seconds / plain,
        }
        for name, seconds in best.items()
    }


def plain_lstd(stream: Any, rows: int) -> np.ndarray:
    """A = X'Y, b = X'r as anyone would write them, some rows at a time."""
    d = stream.n_features
    A, b = np.zeros((d, d)), np.zeros(d)
    for begin in range(0, len(stream), rows):
        s = stream.steps[begin : begin + rows]
        X = stream.features[s["row"]]
        Y = s["discount"][:, None] * stream.features[s["next_row"]] - X
        weighted = s["rho"][:, None] * X
        A += weighted.T @ Y
        b += weighted.T @ np.asarray(s["reward"])
    return np.linalg.solve(A, -b)


def large_log(steps: int = STEPS, columns: int = COLUMNS) -> dict[str, Any]:
    """Everything of this file, printed and returned; the passes run with one BLAS thread, in a fresh process."""
    print(f"\na log of {steps} steps, {columns} columns; features with bias: {steps * (columns + 1) * 8 / 1e6:.0f} MB")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        make_log(path, steps, columns)
        found = evaluations(path, steps * (columns + 1) * 8)
        alone = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, __file__, "--passes", str(path)]
        timed = dict(json.loads(subprocess.check_output(command, env=alone)))
    print(f"{'pass, one BLAS thread':30s} {'M steps/s':>10} {'GB/s':>6} {'/ sum':>6} {'/ NumPy':>8}")
    for name, row in timed.items():
        print(
            f"{name:30s} {row['steps_a_second'] / 1e6:10.2f} {row['GB_a_second']:6.2f} {row['over_sum']:6.1f} "
            f"{row['over_plain']:8.2f}"
        )
    arithmetic = timed["sum of the features"]["seconds"] + timed["X'X, one BLAS product"]["seconds"]
    over = {
        "sums alone": timed["sums"]["seconds"] / arithmetic,
        "second moments, whitening and sums": sum(timed[name]["seconds"] for name in SOLVING) / arithmetic,
        "the whole default, log read and checked": found["default"]["seconds"] / arithmetic,
    }
    print(f"over the sum and one product, {arithmetic:.2f} s (goal at most {GOAL_ARITHMETIC:g}):", end=" ")
    print(", ".join(f"{name} {ratio:.1f}" for name, ratio in over.items()))
    return {"steps": steps, "columns": columns, "evaluations": found, "passes": timed, "over_arithmetic": over}


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
        print(json.dumps(passes(given.passes)))
    else:
        large_log(given.steps, given.columns)


if __name__ == "__main__":
    main()
