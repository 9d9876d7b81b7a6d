"""Speed of the library against C and NumPy, growth, threads, start-up and memory, in one run.

    python benchmarks/bench.py                      # everything; `make bench`
    python benchmarks/bench.py --only kernels traces  # some of it

Prints tables and writes benchmarks/results.json. Times are the least of several repeats, taken in turn, so that a busy
moment of the machine hits all contestants alike. What counts are the ratios. A part that fails does not stop others.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from contestants import M, c_kernels, our_kernel, plain_numpy, vectorised_numpy
from default_speed import default_speed
from float32 import narrow_steps
from large_log import large_log
from learner import PARTS as LEARNER_PARTS
from parts import in_parts
from sparse import sparse_steps
from timing import least_times
from traces import COST_GOAL, in_processes

import gradtd
from gradtd.core.stream import Stream

HERE = Path(__file__).parent
STEPS = 10_000
PROBLEM = "random_walk_tabular"
SETTINGS: dict[str, dict[str, Any]] = {
    "td": {"alpha": 1 / 32},
    "tdrc": {"alpha": 1 / 32},
    "impression_gtd": {"alpha": 0.5, "batch_size": M},
    "impression_gtd auto": {"alpha": "auto", "batch_size": M},
    "expected_gtd": {"alpha": 0.5},
}
GOALS = {"impression_gtd": 1.1, "td": 1.3, "tdrc": 1.3}
GOAL_AUTO = 1.7


def against_c_and_numpy() -> dict[str, Any]:
    stream = gradtd.sample(PROBLEM, STEPS)
    short = 2000
    with tempfile.TemporaryDirectory() as folder:
        c, fixed = (c_kernels(stream, Path(folder), k) for k in (None, stream.n_features))
        ours = {name: our_kernel(stream, name, **hyper) for name, hyper in SETTINGS.items()}
        for name, call in c.items():
            np.testing.assert_allclose(call(), ours[name](), rtol=1e-9)
        times = least_times(
            {f"ours {n}": f for n, f in ours.items()}
            | {f"c {n}": f for n, f in c.items()}
            | {f"c fixed d {n}": f for n, f in fixed.items()},
            repeats=40,
        )
        plain = least_times(plain_numpy(stream, short), repeats=3)
        vectorised = least_times({"": vectorised_numpy(stream, short)}, repeats=3)[""]
    table = {}
    for name in SETTINGS:
        row = {"ours_ns": times[f"ours {name}"] / STEPS * 1e9}
        if name in c:
            row |= {
                "c_ns": times[f"c {name}"] / STEPS * 1e9,
                "c_fixed_d_ns": times[f"c fixed d {name}"] / STEPS * 1e9,
                "numpy_ns": plain[name] / short * 1e9,
            }
            if name == "impression_gtd":
                row["numpy_vectorised_ns"] = vectorised / short * 1e9
            row["over_c"] = row["ours_ns"] / row["c_ns"]
            row["over_c_fixed_d"] = row["ours_ns"] / row["c_fixed_d_ns"]
            row["numpy_over_ours"] = row["numpy_ns"] / row["ours_ns"]
        table[name] = row
    return table


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """Slope of log time over log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def random_stream(d: int) -> Stream:
    """Dense features of any number; a hundred rows, so that it is arithmetic that is timed."""
    rng = np.random.default_rng(d)
    rows = 100
    return Stream.from_arrays(
        features=rng.standard_normal((rows, d)) / np.sqrt(d),
        row=rng.integers(0, rows, STEPS), next_row=rng.integers(0, rows, STEPS), reward=rng.standard_normal(STEPS),
        discount=0.9, rho=rng.uniform(0, 2, STEPS), episode=np.arange(STEPS) // 10,
    )  # fmt: skip


def growth() -> dict[str, Any]:
    walk = gradtd.sample(PROBLEM, STEPS)
    sizes = [8, 16, 32, 64, 128, 256]
    m_times = [least_times({"": our_kernel(walk, "impression_gtd", alpha=0.1, batch_size=m)}, 7)[""] for m in sizes]
    dims = [5, 10, 20, 50, 100, 200, 500, 1000]
    d_times = {}
    for name, hyper in (("impression_gtd", {"alpha": 1e-3, "batch_size": M}), ("td", {"alpha": 1e-3})):
        d_times[name] = [least_times({"": our_kernel(random_stream(d), name, **hyper)}, 5)[""] for d in dims]
    counts = [4, 8, 16, 32, 64]
    settings = SETTINGS["impression_gtd"] | {"steps": STEPS, "threads": 1, "snapshots": [STEPS]}
    run_times = [
        least_times({"": lambda r=r: gradtd.run(PROBLEM, "impression_gtd", runs=r, **settings)}, 3)[""] for r in counts
    ]
    return {
        "batch_size": {"sizes": sizes, "ns_a_step": per_step(m_times), "exponent": exponent(sizes, m_times)},
        "features": {
            name: {"sizes": dims, "ns_a_step": per_step(times), "exponent": exponent(dims, times)}
            for name, times in d_times.items()
        },
        "runs": {"sizes": counts, "seconds": run_times, "exponent": exponent(counts, run_times)},
    }


def krylov_cost() -> dict[int, dict[str, float]]:
    """Nanoseconds a step of Krylov GTD, of Impression GTD with two batches, and of LSTD, by number of features."""
    settings: dict[str, dict[str, Any]] = {"krylov_gtd": {}, "impression_gtd": {"alpha": 1e-3, "batch_size": M}}
    found = {}
    for d in (5, 50, 500):
        stream = random_stream(d)
        times = least_times({name: our_kernel(stream, name, **hyper) for name, hyper in settings.items()}, 9)
        times |= least_times({"lstd": our_kernel(stream, "lstd")}, 2)
        found[d] = {name: seconds / STEPS * 1e9 for name, seconds in times.items()}
    return found


def per_step(seconds: list[float]) -> list[float]:
    return [s / STEPS * 1e9 for s in seconds]


def two_threads() -> dict[str, float]:
    found = {}
    for name, runs in (("impression_gtd", 100), ("td", 1000)):
        settings = SETTINGS[name] | {"runs": runs, "steps": STEPS, "snapshots": [STEPS]}
        calls = {str(n): partial(gradtd.run, PROBLEM, name, threads=n, **settings) for n in (1, 2)}
        times = least_times(calls, 5)
        found[name] = times["1"] / times["2"]
    return found


FIRST_CALL = """
import time; began = time.perf_counter()
import gradtd
imported = time.perf_counter()
gradtd.run("random_walk_tabular", "impression_gtd", alpha=0.5, batch_size=32, runs=1, steps=100)
done = time.perf_counter()
import json; print(json.dumps([imported - began, done - imported]))
"""


def start_up() -> dict[str, float]:
    """Seconds of `import gradtd` and of the first run, with an empty and with a filled cache."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache}
        outputs = [
            json.loads(subprocess.check_output([sys.executable, "-c", FIRST_CALL], env=environment)) for _ in range(4)
        ]
    warm = min(outputs[1:], key=lambda pair: pair[1])
    return {"import_s": warm[0], "first_call_cold_s": outputs[0][1], "first_call_warm_s": warm[1]}


def peak_memory() -> dict[str, float]:
    """MiB at most, of a process that imports and of one that does 100 runs of 10 000 steps, or one of a million."""
    run = (
        f"gradtd.run({PROBLEM!r}, 'impression_gtd', alpha=.5, batch_size={M}, runs={{}}, steps={{}}, snapshots=[{{}}])"
    )
    jobs = {"a run of 100 steps": (1, 100), "100 runs of 10 000": (100, 10_000), "one run of 1 000 000": (1, 10**6)}
    head, tail = (
        f"import sys, gradtd; sys.path.append({str(HERE)!r}); ",
        "; import timing; print(timing.peak_memory() / 2**20)",
    )
    return {
        label: float(subprocess.check_output([sys.executable, "-c", head + run.format(r, t, t) + tail]))
        for label, (r, t) in jobs.items()
    }


def kernels(full: bool) -> dict[str, Any]:
    found = against_c_and_numpy()
    print(
        f"{'ns a step':20s} {'ours':>8} {'C':>8} {'ours/C':>7} {'goal':>5} "
        f"{'C, d fixed':>11} {'NumPy':>9} {'NumPy/ours':>11}"
    )
    for name, row in found.items():
        if "c_ns" in row:
            print(
                f"{name:20s} {row['ours_ns']:8.1f} {row['c_ns']:8.1f} {row['over_c']:7.2f} {GOALS[name]:5.1f} "
                f"{row['c_fixed_d_ns']:11.1f} {row['numpy_ns']:9.0f} {row['numpy_over_ours']:11.0f}"
            )
        else:
            print(f"{name:20s} {row['ours_ns']:8.1f}")
    row = found["impression_gtd"]
    auto = found["impression_gtd auto"]["ours_ns"] / row["ours_ns"]
    print(f"alpha=auto over a fixed alpha: {auto:.2f} (goal: at most {GOAL_AUTO})")
    indexed = row["numpy_vectorised_ns"] / row["ours_ns"]
    print(f"(goal for NumPy/ours: 150. Against NumPy with index arrays, impression_gtd: {indexed:.0f})")
    return found | {"auto_over_fixed": auto}


def threads(full: bool) -> dict[str, float]:
    found = two_threads()
    print("speed-up on 2 threads (goal 1.8):", ", ".join(f"{n} {v:.2f}" for n, v in found.items()))
    return found


def growing(full: bool) -> dict[str, Any]:
    grown = growth()
    print("growth exponents (goal at most 1.05):", end=" ")
    print(f"batch size {grown['batch_size']['exponent']:.2f}, runs {grown['runs']['exponent']:.2f},", end=" ")
    print(", ".join(f"features ({n}) {g['exponent']:.2f}" for n, g in grown["features"].items()))
    return grown


def krylov(full: bool) -> dict[int, dict[str, float]]:
    found = krylov_cost()
    ratios = {d: row["krylov_gtd"] / row["impression_gtd"] for d, row in found.items()}
    print("krylov_gtd / impression_gtd (goal at most 1.2):", ", ".join(f"d {d}: {r:.2f}" for d, r in ratios.items()))
    return found


def traces(full: bool) -> dict[str, float]:
    found = {
        f"d {d}, features {kind}, step-size {label}": float(ns[1] / ns[0]) for (d, kind, label), ns in in_processes()
    }
    print(f"impression_gtd with lam .8 over lam 0, median of three processes (goal at most {COST_GOAL}):")
    print("\n".join(f"  {name}: {ratio:.2f}" for name, ratio in found.items()))
    return found


def starting(full: bool) -> dict[str, Any]:
    times, memory = start_up(), peak_memory()
    print("start-up:", ", ".join(f"{n} {v:.2f}" for n, v in times.items()), "(goal: warm call under 1 s)")
    print("peak memory, MiB:", ", ".join(f"{n} {v:.0f}" for n, v in memory.items()))
    return {"seconds": times, "peak_memory_mib": memory}


def sparse(full: bool) -> dict[str, dict[str, float]]:
    print("sparse rows of 8 entries:")
    return sparse_steps()


def narrow(full: bool) -> dict[str, dict[str, float]]:
    print("features in float32:")
    return narrow_steps()


def parts(full: bool) -> dict[str, Any]:
    print(
        "a log read in parts (memory and time per step flat within 20 %, ratio at most 1.5; --full: up to 16 million)"
    )
    found: dict[str, Any] = {"sizes": in_parts([1_000_000, 4_000_000, 16_000_000] if full else [250_000, 1_000_000])}
    if full and (os.cpu_count() or 1) > 1:
        from cluster import cluster

        found["cluster"] = cluster(4_000_000, 400, 1000)
    return found


def online(full: bool) -> dict[str, Any]:
    """Loops of Python around a learner; --full: ten million updates, too."""
    parts = [name for name in LEARNER_PARTS if full or name != "lasting"]
    return {name: LEARNER_PARTS[name](5) for name in parts}


PARTS: dict[str, Callable[[bool], Any]] = {
    "kernels": kernels,
    "threads": threads,
    "growth": growing,
    "krylov": krylov,
    "traces": traces,
    "start_up": starting,
    "sparse": sparse,
    "float32": narrow,
    "large_log": lambda full: large_log(),
    "online": online,
    "default_speed": lambda full: default_speed(),
    "parts": parts,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="some of its parts")
    parser.add_argument("--full", action="store_true", help="logs in parts up to 16 million steps, and a cluster")
    given = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores; {PROBLEM}, {STEPS} steps, m {M}")
    file, failed = HERE / "results.json", []
    results: dict[str, Any] = {"steps": STEPS, "m": M, "problem": PROBLEM, "seconds": {}}
    if len(given.only) < len(PARTS) and file.exists():  # the other parts stay as they were
        results = {"seconds": {}} | json.loads(file.read_text())
    for name in given.only:
        print(f"\n== {name}", flush=True)
        began = time.perf_counter()
        try:
            results[name] = PARTS[name](given.full)
        except Exception:  # the other parts are worth as much without this one
            traceback.print_exc()
            failed.append(name)
        results["seconds"][name] = time.perf_counter() - began
    file.write_text(json.dumps(results, indent=1))
    print("\nseconds:", ", ".join(f"{name} {results['seconds'][name]:.0f}" for name in given.only))
    print(f"written: {file}")
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
