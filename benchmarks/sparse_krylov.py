"""Krylov GTD with several steps at a time, and on sparse features: error and time.

    python benchmarks/sparse_krylov.py [--runs 100] [--largest 100000] [--only TABLE ...]

rewrites the tables "batches", "batch times" and "sparse" of docs/measurements/krylov.md (some minutes). The streams
have fixed seeds; times are of one core.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from bench import STEPS, our_kernel, random_stream
from krylov import AT, FIVE, LSTD, areas, curves, put

import gradtd
from gradtd.core.stream import Stream
from gradtd.problems import garnet

EVERY = (1, 4, 16, 64, 1000)
GAMMA, TILINGS, TARGET = 0.9, 8, (0.7, 0.3)
GRIDS: dict[str, list[float]] = {
    "td": [2.0**k for k in range(-9, 0)],
    "minibatch_td": [2.0**k for k in range(-8, 2)],
    "impression_gtd": [2.0**k for k in range(-3, 9)],
}


# Several steps at a time ------------------------------------------------------------------------------------


def batches(runs: int) -> str:
    """Area over LSTD's, and the worst ratio of errors from step 1000 on, by the number of steps taken at a time."""
    garnets = [garnet(100, 4, 3, 30, "dense", 0.5, seed=1130), garnet(100, 4, 3, 40, "binary", 0.7, seed=1240),
               garnet(60, 4, 3, 15, "binary", 1.0, 0.95, seed=1400), garnet(600, 4, 3, 200, "binary", 0.7, seed=1400),
               garnet(900, 4, 3, 300, "dense", 0.5, seed=1400)]  # fmt: skip
    lines = [
        "| problem | metric, runs | " + " | ".join(f"every = {n}" for n in EVERY) + " |",
        "|---" * 7 + "|",
    ]
    late = np.array(AT) >= 1000
    problem: Any
    for problem in (*FIVE, *garnets):
        is_garnet = not isinstance(problem, str)
        name = problem.name if is_garnet else problem
        metric = "rmspbe" if is_garnet else "rmsve"
        count = max(3, runs // 10) if is_garnet and problem.n_features >= 200 else runs
        floor = curves(problem, "lstd", count, metric, **LSTD)[0]
        cells = []
        for every in EVERY:
            values, diverged = curves(problem, "krylov_gtd", count, metric, every=every)
            ratio = values.mean(axis=0)[late] / floor.mean(axis=0)[late]
            area = areas(values).mean()
            cell = f"area {area:.4f}" if name == "baird" else f"{area / areas(floor).mean():.3f}, {ratio.max():.3f}"
            cells.append(cell + (f", {diverged} diverged" if diverged else ""))
        lines.append(f"| {name} | {metric}, {count} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def batch_times() -> str:
    lines = ["| d | " + " | ".join(f"every = {n}" for n in EVERY) + " |", "|---" * 6 + "|"]
    for d in (5, 50, 500):
        stream = random_stream(d)
        calls = {n: our_kernel(stream, "krylov_gtd", every=n) for n in EVERY}
        times = dict.fromkeys(EVERY, np.inf)
        for n in EVERY * 15:
            began = time.thread_time()  # of this thread alone, whatever else the machine does
            calls[n]()
            times[n] = min(times[n], time.thread_time() - began)
        lines.append(f"| {d} | " + " | ".join(f"{times[n] / STEPS * 1e6:.2f} us" for n in EVERY) + " |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


# Sparse features ----------------------------------------------------------------------------------------------


class Task(NamedTuple):
    """A stream with sparse features, and the true values of all its rows."""

    name: str
    stream: Stream
    values: np.ndarray


def tiles(grid: int, seed: int = 0) -> Task:
    """Tile coding of a torus, 8 tilings of grid x grid tiles, ten steps a feature.

    64 points a tile; the two actions move 1 to 3 points along one axis each. Episodes of 100 steps start anywhere.
    """
    rng, side = np.random.default_rng(seed), 8 * grid
    a, b = np.divmod(np.arange(side * side), side)
    tilings = [(a + k) % side // 8 * grid + (b + 3 * k) % side // 8 + k * grid * grid for k in range(TILINGS)]
    d = TILINGS * grid * grid
    reward = np.sin(6 * np.pi * a / side) * np.cos(4 * np.pi * b / side)
    reward = reward.reshape(side, side) + np.kron(rng.random((grid, grid)) < 0.3, np.ones((8, 8)))
    values = np.zeros((side, side))
    for _ in range(300):
        after = [np.mean([np.roll(values, -k, axis) for k in (1, 2, 3)], axis=0) for axis in (0, 1)]
        values = reward + GAMMA * (TARGET[0] * after[0] + TARGET[1] * after[1])
    n_steps = 10 * d // 100 * 100
    action, move = rng.integers(0, 2, n_steps), rng.integers(1, 4, n_steps)
    moves = np.zeros((n_steps, 2), int)
    moves[np.arange(n_steps), action] = move
    walked = np.cumsum(moves.reshape(-1, 100, 2), axis=1)
    start = rng.integers(0, side, (len(walked), 1, 2))
    places = np.concatenate([start, start + walked], axis=1) % side
    state = places[..., 0] * side + places[..., 1]
    row, next_row = state[:, :-1].ravel(), state[:, 1:].ravel()
    return Task(
        "tiles", _stream(np.stack(tilings, axis=1), d, reward.ravel(), row, next_row, action, rng), values.ravel()
    )


def hashed(d: int, seed: int = 1) -> Task:
    """2 d states, each with 8 features at random places, and 3 random successors for each of two actions."""
    rng, n_states, n_steps = np.random.default_rng(seed), 2 * d, 10 * d
    columns = rng.integers(0, d // TILINGS, (n_states, TILINGS)) + np.arange(TILINGS) * (d // TILINGS)
    after = rng.integers(0, n_states, (n_states, 2, 3))
    reward = scipy.sparse.csr_array(_rows(columns, d)) @ rng.standard_normal(d)
    values = np.zeros(n_states)
    for _ in range(300):
        values = reward + GAMMA * (values[after].mean(axis=2) @ np.array(TARGET))
    row, action, which = rng.integers(0, n_states, n_steps), rng.integers(0, 2, n_steps), rng.integers(0, 3, n_steps)
    return Task("hashed", _stream(columns, d, reward, row, after[row, action, which], action, rng), values)


def _rows(columns: np.ndarray, d: int) -> Any:
    begin = np.arange(0, columns.size + 1, TILINGS)
    return scipy.sparse.csr_array((np.ones(columns.size), columns.ravel(), begin), shape=(len(columns), d))


def _stream(columns: np.ndarray, d: int, reward: Any, row: Any, next_row: Any, action: Any, rng: Any) -> Stream:
    return Stream.from_arrays(
        features=_rows(columns, d), row=row, next_row=next_row, discount=GAMMA, rho=np.array(TARGET)[action] / 0.5,
        reward=reward[row] + 0.5 * rng.standard_normal(len(row)), episode=np.arange(len(row)) // 100,
    )  # fmt: skip


def lstd_values(stream: Stream) -> np.ndarray:
    """LSTD without a matrix inverse: A and b as sparse sums, solved by BiCGSTAB.

    With a residual of 1e-7 (GMRES, far slower) the errors of up to 10 368 features are the same in all digits shown.
    """
    steps, table = stream.steps, stream.features
    x, ratio = table[steps["row"]], scipy.sparse.diags_array(np.array(steps["rho"]))
    y = GAMMA * table[steps["next_row"]] - x
    A, b = scipy.sparse.csr_array(x.T @ ratio @ y), x.T @ (ratio @ np.array(steps["reward"]))
    squares = np.maximum(x.multiply(x).sum(axis=0), 1e-12)
    scaled = scipy.sparse.linalg.LinearOperator(A.shape, lambda v: -v / squares, dtype=float)
    theta, _ = scipy.sparse.linalg.bicgstab(A, -b, rtol=1e-4, maxiter=3000, M=scaled)
    print(f"LSTD's residual: {np.linalg.norm(A @ theta + b) / np.linalg.norm(b):.1e}", flush=True)
    return np.asarray(table @ theta)


def measured(task: Task, name: str, **hyper: Any) -> tuple[float, float]:
    """RMSVE after all steps, and microseconds a step."""
    stream = task.stream
    gradtd.learn(Stream(stream.features, stream.steps[:2000]), name, **hyper)  # compiles
    began = time.thread_time()
    result = gradtd.learn(stream, name, snapshots=[len(stream)], **hyper)
    micro = (time.thread_time() - began) / len(stream) * 1e6
    return (rms(stream.features @ result.theta - task.values) if result.diverged == 0 else np.inf), micro


def rms(v: np.ndarray) -> float:
    return float(np.sqrt(np.mean(v**2)))


def sparse(largest: int) -> str:
    lines = ["| features | d | steps | start | LSTD | Krylov GTD | TD | mini-batch TD | Impression GTD | every = 1 |",
             "|---" * 10 + "|"]  # fmt: skip
    tasks = [lambda: tiles(11), lambda: tiles(36), lambda: tiles(112), lambda: hashed(1000), lambda: hashed(10_000)]
    best: dict[str, float] = {}
    for make in tasks:
        task = make()
        stream, d = task.stream, task.stream.n_features
        if d > 1.1 * largest:
            continue
        floor = rms(lstd_values(stream) - task.values)
        ours, micro = measured(task, "krylov_gtd")
        cells = [f"{rms(task.values):.2f}", f"{floor:.3f}", f"{ours:.3f}, {micro:.1f} us"]
        short = Task(task.name, Stream(stream.features, stream.steps[:5000]), task.values)
        for name, grid in GRIDS.items():
            if d > 50_000 and name != "td":  # a dense vector a step: minutes for every step-size
                cells.append(f"{measured(short, name, alpha=best[name])[1]:.0f} us")
                continue
            tried = {alpha: measured(task, name, alpha=alpha) for alpha in (grid if d < 50_000 else [best[name]])}
            best[name] = min(tried, key=lambda alpha: tried[alpha][0])
            at_end = " (end of grid)" if d < 50_000 and best[name] in (grid[0], grid[-1]) else ""
            cells.append(f"{tried[best[name]][0]:.3f}, {tried[best[name]][1]:.1f} us, alpha {best[name]:g}{at_end}")
        cells.append(f"{measured(short, 'krylov_gtd', every=1)[1]:.0f} us")
        lines.append(f"| {task.name} | {d} | {len(stream)} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--largest", type=int, default=100_000)
    parser.add_argument("--only", nargs="*", metavar="TABLE", help="'batch times', 'batches', 'sparse'")
    arguments = parser.parse_args()
    tables = {
        "batch times": batch_times,
        "batches": lambda: batches(arguments.runs),
        "sparse": lambda: sparse(arguments.largest),
    }
    for name in arguments.only or tables:
        put(name, tables[name]())


if __name__ == "__main__":
    main()
