"""How often do 95 % intervals of `gradtd.evaluate` contain the value they are about? docs/measurements/coverage.md.

    python benchmarks/interval_coverage.py [--sets 500] [--resamples 40] [--out benchmarks/coverage.json]

Every cell is done on ``sets`` independent logs; results are kept in the file as they come, so a run that was stopped
goes on where it was. About an hour on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import gradtd
from gradtd.problems.sample_log import sample_log, true_value

HERE = Path(__file__).parent
SEED = 2027
BLOCK = 30
GARNET = {"states": 6, "n_features": 3, "seed": 1}
PROBLEMS: dict[str, dict[str, Any]] = {
    "boyan_chain": {"make": "boyan_chain"},
    "random_walk_tabular": {"make": "random_walk_tabular"},
    "garnet, one-hot": {"make": "garnet", "with": GARNET, "features": "one-hot"},
    "random_walk_dependent": {"make": "random_walk_dependent"},
    "garnet, 3 dense features": {"make": "garnet", "with": GARNET},
}
SIZES = (100, 300)
METHODS = ("impression_gtd", "lstd", "lstd sandwich", "dr")


class Table:
    """Features of a state: its row in a problem's table."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __call__(self, states: Any) -> Any:
        return self.rows[np.asarray(states, int)]


def one(key: str, size: int, run: int, resamples: int) -> dict[str, list[float]]:
    """Evaluate one log; every method's value and interval."""
    told = PROBLEMS[key]
    problem = gradtd.PROBLEMS[told["make"]](**told.get("with", {}))
    log = sample_log(problem, size, steps=size * BLOCK, seed=SEED, run=run)
    block = BLOCK if problem.continuing else None
    found = gradtd.evaluate(
        log,
        gamma=problem.gamma,
        features=told.get("features", Table(problem.features)),
        seed=run,
        inference=gradtd.Inference(block_length=block, resamples=resamples),
        machine=gradtd.Machine(threads=1),
    )
    rows = {row.method: [row.value, row.low, row.high] for row in found.estimates}
    sandwich = gradtd.evaluate(
        log,
        gamma=problem.gamma,
        features=told.get("features", Table(problem.features)),
        algorithm="lstd",
        inference=gradtd.Inference(block_length=block, resamples=0),
    )
    rows["lstd sandwich"] = [sandwich.value, *sandwich.interval]
    rows["verdict"] = [float(found.verdict == "usable")]
    return {name: rows[name] for name in (*METHODS, "verdict")}


def about(key: str) -> tuple[float, float]:
    """The target's true value and the value that the intervals of TD methods are about."""
    told = PROBLEMS[key]
    true, fitted = true_value(gradtd.PROBLEMS[told["make"]](**told.get("with", {})))
    return true, true if told.get("features") == "one-hot" else fitted


def summary(key: str, rows: list[dict[str, list[float]]]) -> dict[str, Any]:
    true, fitted = about(key)
    made: dict[str, Any] = {"true": true, "about": fitted, "sets": len(rows)}
    for method in METHODS:
        value, low, high = np.array([row[method] for row in rows]).T
        subject = true if method == "dr" else fitted
        made[method] = {
            "coverage": float(((low <= subject) & (subject <= high)).mean()),
            "width": float((high - low).mean()),
            "rmse": float(np.sqrt(((value - subject) ** 2).mean())),
        }
    made["usable"] = float(np.mean([row["verdict"][0] for row in rows]))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=500)
    parser.add_argument("--resamples", type=int, default=40)
    parser.add_argument("--out", type=Path, default=HERE / "interval_coverage.json")
    chosen = parser.parse_args()
    kept: dict[str, Any] = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
    began = time.monotonic()
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for key in PROBLEMS:
            for size in SIZES:
                name = f"{key}|{size}|{chosen.sets}|{chosen.resamples}"
                if name not in kept:
                    jobs = [pool.submit(one, key, size, run, chosen.resamples) for run in range(chosen.sets)]
                    kept[name] = summary(key, [job.result() for job in jobs])
                    chosen.out.write_text(json.dumps(kept, indent=1) + "\n")
                show(key, size, kept[name])
    print(f"\n{time.monotonic() - began:.0f} s")


def show(key: str, size: int, made: dict[str, Any]) -> None:
    gap = made["about"] - made["true"]
    print(
        f"| {key} | {size} | {made['true']:.4f} | {gap:+.4f} |" + "".join(_cell(made[m]) for m in METHODS), flush=True
    )


def _cell(of: dict[str, float]) -> str:
    return f" {100 * of['coverage']:.1f} ({of['width']:.3g}) |"


if __name__ == "__main__":
    main()
