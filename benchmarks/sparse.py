"""Sparse rows: what a step costs with ten thousand and with ten million features, at the same entries per row.

    python benchmarks/sparse.py

Both streams have 8 entries in every row, at random columns; a step leads to the row that the next one begins in, as in
a log. A rule with ten million features waits for memory. So as many entries as the rule touches in a step, of as
many vectors as long as those it keeps, are read at random places, too, and that time is taken off. What is left may
grow by 1.5 times at most. Reads, features and steps are timed in turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

import gradtd
from gradtd.compiled import engine
from gradtd.compiled.plan import room_for
from gradtd.core.arrays import Floats, Integers
from gradtd.running.session import Session

NARROW, WIDE = 10**4, 10**7
ENTRIES, STEPS, M = 8, 100_000, 32
SEEN = 20_000
GOAL = 1.5
REPEATS = 5

RULES: dict[str, tuple[str, dict[str, Any], int, int, int]] = {
    # name: (rule, settings, steps timed at once, its vectors, rows of their entries that a step touches)
    "impression_gtd auto": ("impression_gtd", {"batch_size": M}, 1000, 4, 13 * M),
    "minibatch_td": ("minibatch_td", {"alpha": 1e-3, "batch_size": M}, 2000, 2, 3 * M),
    "tdc": ("tdc", {"alpha": 1e-3}, 20_000, 2, 2),
    "tdrc": ("tdrc", {"alpha": 1e-3}, 20_000, 2, 2),
    "gtd2": ("gtd2", {"alpha": 1e-3}, 20_000, 2, 2),
    "htd": ("htd", {"alpha": 1e-3}, 20_000, 2, 2),
    "gtd2_mp": ("gtd2_mp", {"alpha": 1e-3}, 20_000, 4, 2),
}
JUDGED = ("impression_gtd auto", "minibatch_td", "tdc")


def stream_of(d: int) -> gradtd.Stream:
    """Steps between rows at random places, 8 entries each."""
    rng = np.random.default_rng(0)
    columns = rng.integers(d, size=(STEPS + 1) * ENTRIES)
    data = rng.standard_normal((STEPS + 1) * ENTRIES) / np.sqrt(ENTRIES)
    begin = np.arange(0, (STEPS + 1) * ENTRIES + 1, ENTRIES)
    return gradtd.Stream.from_arrays(
        features=scipy.sparse.csr_array((data, columns, begin), shape=(STEPS + 1, d)),
        row=np.arange(STEPS), next_row=np.arange(1, STEPS + 1),
        reward=rng.standard_normal(STEPS), discount=0.9, rho=rng.choice([0.5, 1.5], STEPS),
        episode=np.arange(STEPS) // 10,
    )  # fmt: skip


def steps_of(stream: gradtd.Stream, rule: str, hyper: dict[str, Any], count: int) -> Callable[[], None]:
    """Takes the next steps of a run; it has begun and its buffers hold the whole stream.

    A rule that reads stored steps by their number has seen so many, and draws from these.
    """
    session = Session(rule, hyper, n_steps=len(stream))
    sparse = not isinstance(stream.features, np.ndarray)
    run = session.begin(np.zeros(stream.n_features), (0, 0), len(stream), sparse=sparse)
    view, nothing = session.view(stream), room_for(np.zeros(0, np.int64), stream.n_features)
    stored = session.rule.stored
    buffers = session.buffers(stream, (0, 0), filled=not stored)
    done = SEEN if stored else 0
    session.drive(run, view, buffers, nothing, 0, done)

    def take() -> None:
        nonlocal done
        begin = done % (len(stream) - count + 1)
        if session.drive(run, view, buffers, nothing, begin, count) >= 0:
            raise SystemExit(f"{rule} diverged")
        done += count

    return take


def reads_of(d: int, vectors: int, entries: int, count: int) -> Callable[[], None]:
    """Reads so many entries per step at random places of so many vectors of length d."""
    table = np.ones(vectors * d)
    place = np.random.default_rng(1).integers(vectors * d, size=min(10**6, entries * count))
    read = engine.compile_function(_read)

    def take() -> None:
        for _ in range(max(1, entries * count // len(place))):
            read(table, place)

    return take


def _read(table: Floats, place: Integers) -> float:
    total = 0.0
    for i in range(place.shape[0]):
        total += table[np.uint64(place[i])]
    return total


def least_cpu(calls: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Least CPU seconds of each, in turn."""
    best = dict.fromkeys(calls, np.inf)
    for _ in range(REPEATS + 1):
        for name, call in calls.items():
            began = time.process_time()
            call()
            best[name] = min(best[name], time.process_time() - began)
    return best


def sparse_steps(names: tuple[str, ...] = tuple(RULES)) -> dict[str, dict[str, float]]:
    """For every rule microseconds per step and of the reads, narrow and wide, and how what is left has grown."""
    streams = {d: stream_of(d) for d in (NARROW, WIDE)}
    found = {}
    for name in names:
        rule, hyper, count, vectors, rows = RULES[name]
        calls = {}
        for d, stream in streams.items():
            calls[f"step {d}"] = steps_of(stream, rule, hyper, count)
            calls[f"read {d}"] = reads_of(d, vectors, rows * ENTRIES, count)
        took = {key: 1e6 * seconds / count for key, seconds in least_cpu(calls).items()}
        left = {d: took[f"step {d}"] - took[f"read {d}"] for d in streams}
        found[name] = took | {"growth": left[WIDE] / left[NARROW]}
        print(
            f"{name:20s} {took[f'step {NARROW}']:8.3f} us at 10^4, {took[f'step {WIDE}']:8.3f} at 10^7; random reads "
            f"{took[f'read {NARROW}']:7.3f} and {took[f'read {WIDE}']:7.3f}; left {left[NARROW]:7.3f} and "
            f"{left[WIDE]:7.3f}: {found[name]['growth']:5.2f} times" + (f" (at most {GOAL})" if name in JUDGED else ""),
            flush=True,
        )
    return found


if __name__ == "__main__":
    sparse_steps()
