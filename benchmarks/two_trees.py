"""The speed of two source trees in one run, in processes that take turns: A B A B and so on.

    python benchmarks/two_trees.py --source OLD/src --source src [--only NAME ...] [--turns 5] [--rows 16000000]

Logs are made once, in a temporary folder. Every turn is a fresh process that evaluates a small log first, so that
libraries are loaded and code is compiled; then it is timed. Printed are medians of wall and processor time, the median
of the turns' own ratios, the ratio of the least times (which a busy machine moves least), and the peak of memory.
Everything runs with one thread.

- columns4, columns50: real observations, 100 000 x 4 and 500 000 x 50, in memory.
- taxi, icu: discrete states, 500 with 6 actions, and those of ICU-Sepsis (where icu-sepsis is installed).
- folder: Parquet files of real observations, 20 columns, read in parts: a sixteenth, a quarter, and all of --rows.
- kernels: nanoseconds a step of TD, TDRC and Impression GTD, least of some repeats.
- first: import and first evaluation, of two thousand steps, with an empty cache of compiled code.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from large_log import make_log
from timing import peak_memory

GAMMA = 0.95
EVALUATED, READ_IN_PARTS, COMPILED = 1.15, 1.6, 1.03
"""What the second tree may take, in times of the first: evaluations, logs in parts, kernels."""
FILES = 16
RULES: dict[str, dict[str, Any]] = {
    "td": {"alpha": 1 / 32},
    "tdrc": {"alpha": 1 / 32},
    "impression_gtd": {"alpha": 0.5, "batch_size": 32},
}
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
Numbers = dict[str, float]


def make_real(folder: Path, steps: int, columns: int) -> Path:
    path = folder / f"real-{columns}.parquet"
    make_log(path, steps, columns)
    return path


def make_finite(folder: Path, name: str) -> Path | None:
    """A log of a world of discrete states: one of Taxi's size, or ICU-Sepsis itself."""
    from golden_cases.logs import World, maze, play

    path = folder / f"{name}.npz"
    if name == "taxi":
        np.savez(path, **play(maze(500, 6, 3, ends=0.03), 2500, 0))
        return path
    from importlib.util import find_spec

    if find_spec("icu_sepsis") is None:
        return None
    from trust_cases.icu import world

    problem, behaviour, _, targets = world()
    ends = np.maximum(1 - problem.P.sum(axis=2, keepdims=True), 0)
    moves = np.concatenate((problem.P, ends), axis=2)
    made = World(moves, problem.reward, rows_of(behaviour), rows_of(targets["middle"]), problem.start, 0.1, 200)
    np.savez(path, **play(made, 4000, 0))
    return path


def rows_of(policy: np.ndarray) -> np.ndarray:
    """Probabilities that sum to one; states where nobody acts get any."""
    total = policy.sum(axis=1, keepdims=True)
    return np.where(total > 0, policy / np.where(total > 0, total, 1), 1 / policy.shape[1])


def make_folder(folder: Path, rows: int) -> dict[str, Path]:
    """Sixteen files; folders that hold one, four and all of them."""
    found = {name: folder / f"folder-{count}" for name, count in (("1/16", 1), ("1/4", 4), ("all", FILES))}
    for place in found.values():
        place.mkdir()
    each = rows // FILES
    for k in range(FILES):
        file = found["all"] / f"{k:02d}.parquet"
        make_log(file, each, 20, seed=k, first=k * each)
        for name, count in (("1/16", 1), ("1/4", 4)):
            if k < count:
                os.link(file, found[name] / file.name)
    return found


def read_table(path: str) -> Any:
    """A log as `gradtd.evaluate` takes it: columns in memory, or the folder itself."""
    if path.endswith(".npz"):
        with np.load(path) as stored:
            return {name: stored[name] for name in stored.files}
    if Path(path).is_dir():
        return path
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    return {name: table[name].to_numpy() for name in table.column_names}


def evaluate(path: str, small: str) -> Numbers:
    """Evaluate a small log, then this one; what the second took."""
    import gradtd

    settings: dict[str, Any] = {"gamma": GAMMA, "threads": 1, "progress": False, "in_parts": Path(path).is_dir()}
    gradtd.evaluate(read_table(small), **settings)
    log = read_table(path)
    wall, worked = time.perf_counter(), time.process_time()
    gradtd.evaluate(log, **settings)
    return {
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - worked,
        "memory": peak_memory() / 2**20,
    }


def first(path: str, _: str) -> Numbers:
    """The first evaluation of this process, with the import before it."""
    log = read_table(path)
    wall, worked = time.perf_counter(), time.process_time()
    import gradtd

    gradtd.evaluate(log, gamma=GAMMA, threads=1, progress=False)
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - worked, "memory": peak_memory() / 2**20}


def kernel(name: str, _: str, steps: int = 10_000, repeats: int = 80) -> Numbers:
    """Nanoseconds a step: several passes over a stream less one pass, so that setting up does not count.

    Passes are few, so that some repeats fit into a slice of the processor's time that nobody interrupts.
    """
    import gradtd

    stream = gradtd.sample("random_walk_tabular", steps)

    many = 4 if name == "impression_gtd" else 31
    clocks = {"wall": time.perf_counter, "cpu": time.process_time}

    def least(count: int) -> Numbers:
        """The least of some repeats, by either clock."""
        best = dict.fromkeys(clocks, np.inf)
        for _ in range(repeats):
            began = {key: clock() for key, clock in clocks.items()}
            gradtd.learn(stream, name, passes=count, snapshots=[count * steps], **RULES[name])
            best = {key: min(best[key], clock() - began[key]) for key, clock in clocks.items()}
        return best

    gradtd.learn(stream, name, passes=2, snapshots=[2 * steps], **RULES[name])
    long, short = least(many), least(1)
    return {key: (long[key] - short[key]) / ((many - 1) * steps) * 1e9 for key in clocks}


WORKS: dict[str, Callable[..., Numbers]] = {"evaluate": evaluate, "first": first, "kernel": kernel}


def elsewhere(source: Path, work: str, *words: str, cache: str | None = None) -> Numbers:
    """One of the functions above in a fresh process on one tree."""
    environment = os.environ | ONE_THREAD | {"PYTHONPATH": str(source.resolve())}
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = cache
    command = [sys.executable, __file__, "--here", work, *words]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def take_turns(sources: Sequence[Path], turns: int, work: str, *words: str) -> list[list[Numbers]]:
    """What every tree took, turn by turn; where the cache is to be empty, every process has a new one."""
    found: list[list[Numbers]] = [[] for _ in sources]
    for _ in range(turns):
        for own, source in zip(found, sources, strict=True):
            with tempfile.TemporaryDirectory() as cache:
                own.append(elsewhere(source, work, *words, cache=cache if work == "first" else None))
    return found


def show(name: str, taken: Sequence[Sequence[Mapping[str, float]]], limit: float, unit: str) -> None:
    """One row: medians of both trees, the median of the turns' own ratios, and the ratio of the least times."""
    cells = []
    for key in ("wall", "cpu"):
        medians = [float(np.median([turn[key] for turn in own])) for own in taken]
        least = [min(turn[key] for turn in own) for own in taken]
        ratios = [own[key] / begun[key] for begun, own in zip(taken[0], taken[-1], strict=True)]
        cells += [" -> ".join(f"{one:.3g}" for one in medians), f"{np.median(ratios):.3f}"]
        cells.append(f"{least[-1] / least[0]:.3f}")
    peaks = [max(turn.get("memory", 0.0) for turn in own) for own in taken]
    memory = " -> ".join(f"{one:.0f}" for one in peaks) if any(peaks) else ""
    print(f"| {name}, {unit} | {' | '.join(cells)} | {memory} | {limit:g} |", flush=True)


def measure(sources: Sequence[Path], names: Sequence[str], turns: int, rows: int) -> None:
    """Every part that was asked for, as rows of one table."""
    print(f"from {sources[0]} to {sources[-1]}: medians of {turns} turns, ratios turn by turn\n")
    print("| | wall | ratio | of the least | processor | ratio | of the least | peak MB | at most |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        sizes = {"columns4": (100_000, 4), "columns50": (500_000, 50)}
        for name in [name for name in sizes if name in names]:
            small = folder / f"small-{name}.parquet"
            make_log(small, 3000, sizes[name][1])
            path = make_real(folder, *sizes[name])
            show(name, take_turns(sources, turns, "evaluate", str(path), str(small)), EVALUATED, "s")
            path.unlink()
        for name in [name for name in ("taxi", "icu") if name in names]:
            made = make_finite(folder, name)
            if made is not None:
                show(name, take_turns(sources, turns, "evaluate", str(made), str(made)), EVALUATED, "s")
        if "folder" in names:
            small = folder / "small"
            small.mkdir()
            make_log(small / "log.parquet", 50_000, 20)
            for label, path in make_folder(folder, rows).items():
                taken = take_turns(sources, turns, "evaluate", str(path), str(small))
                show(f"folder, {label} of {rows}", taken, READ_IN_PARTS, "s")
        for rule in RULES if "kernels" in names else ():
            show(rule, take_turns(sources, turns, "kernel", rule, ""), COMPILED, "ns a step")
        if "first" in names:
            path = folder / "first.parquet"
            make_log(path, 2000, 4)
            show("first", take_turns(sources, turns, "first", str(path), ""), 1.0, "s")


PARTS = ("columns4", "columns50", "taxi", "icu", "folder", "kernels", "first")


def main() -> None:
    if sys.argv[1:2] == ["--here"]:
        print(json.dumps(WORKS[sys.argv[2]](*sys.argv[3:5])))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, action="append", required=True, help="a folder that holds gradtd; twice")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="some of its parts")
    parser.add_argument("--turns", type=int, default=5, help="processes of each tree")
    parser.add_argument("--rows", type=int, default=16_000_000, help="rows of the folder")
    given = parser.parse_args()
    measure(given.source, given.only, given.turns, given.rows)


if __name__ == "__main__":
    main()
