"""`reproduce`, `sweep`, `evaluate --sums` and `Learner.save`, killed again and again: nothing is lost.

    python benchmarks/kills.py [--kills 100] [--seed 0]

A kill is SIGKILL, after a random time, of a process that was forked from this one, so that it is at work at once. After
each, what was finished before it must still be there, and a saved learner must load and be one of those that were
saved. When a reproduction, a sweep or a folder of sums is complete its tables must have the bytes of one that was never
killed, no part of a file may be left over, and it begins again in another folder.
"""

import argparse
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import gradtd
from gradtd.evaluation import kept_units, part_sums
from gradtd.logs import parts
from gradtd.paper.reproduce import reproduce

FIGURE, RUNS = "rwdep_stepsize", 2
GRID = """
problems = ["boyan_chain"]
runs = 8
steps = 2000
metrics = ["rmsve"]
at = [1000, 2000]
block = 2
[algorithms.td]
alpha = [0.03125, 0.0625, 0.125]
"""


def killed(work: Callable[[], None], after: float) -> bool:
    """Do the work in a process that is killed after a while; returns whether it had ended."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            work()
            code = 0
        finally:
            os._exit(code)
    until = time.monotonic() + after
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert status == 0, "the work failed"
            return True
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def until_finished(
    name: str, work: Callable[[Path], None], kept: str, tables: tuple[str, ...], given: argparse.Namespace
):
    """Kill and resume until there were enough kills; count what was lost and what came out different."""
    chance, kills, complete, lost, other, left = random.Random(given.seed), 0, 0, 0, 0, 0
    with tempfile.TemporaryDirectory() as place:
        work(Path(place, "compiled"))  # so that what is timed, and then killed, is the work and not the compiler
        wanted_in, began = Path(place, "whole"), time.monotonic()
        work(wanted_in)
        seconds = time.monotonic() - began
        wanted = {path.relative_to(wanted_in): path.read_bytes() for table in tables for path in wanted_in.glob(table)}
        out = Path(place, "killed")
        while kills < given.kills:
            before = {path.name: path.read_bytes() for path in out.glob(kept)}
            ended = killed(lambda: work(out), chance.uniform(0, seconds))
            kills += not ended
            after = {path.name: path.read_bytes() for path in out.glob(kept)}
            lost += sum(after.get(file) != content for file, content in before.items())
            if kills == given.kills and not ended:
                work(out)  # the last one is left alone
                ended = True
            if ended:
                complete += 1
                other += sum((out / table).read_bytes() != content for table, content in wanted.items())
                left += len(list(out.rglob("*.part")))
                shutil.rmtree(out)
    results = f"{lost} finished results lost, {other} tables with other bytes, {left} parts left over"
    print(f"{name}: {kills} kills, {complete} completions, {results}", flush=True)


def saves(given: argparse.Namespace) -> None:
    """A process saves one learner after the other to the same name; what is there afterwards is one of them."""
    chance, damaged, other = random.Random(given.seed), 0, 0
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "learner.npz")
        next(learners()).save(path)

        def work() -> None:
            for learner in learners():
                learner.save(path)

        for _ in range(given.kills):
            killed(work, chance.uniform(0, 0.03))
            try:
                found = gradtd.Learner.load(path)
            except gradtd.InputError:
                damaged += 1
            else:
                wanted = next(learner for learner in learners() if learner.seen == found.seen)
                other += wanted.theta.tobytes() != found.theta.tobytes()
        next(learners()).save(path)
        strays = len(list(Path(place).rglob("*.part")))
    results = f"{damaged} files that do not load, {other} with other weights, {strays} parts left over"
    print(f"Learner.save: {given.kills} kills, {results}", flush=True)


def learners() -> Iterator[gradtd.Learner]:
    """The same learner after every step, the same ones each time."""
    learner, rng = gradtd.Learner(200, "td", alpha=0.01), np.random.default_rng(0)
    while True:
        yield learner
        learner.update(rng.random(200), 1.0, rng.random(200), discount=0.9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100, help="of each of the four")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    saves(given)
    sums(given)
    tables = (f"curves/{FIGURE}.parquet", "claims.json")
    until_finished(
        "reproduce", lambda out: reproduce([FIGURE], out, runs=RUNS, threads=1) and None, ".kept/*.npz", tables, given
    )
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "grid.toml")
        file.write_text(GRID)
        grid = gradtd.Sweep.from_file(file)
        results = ("results.parquet", "winners.parquet")
        until_finished("sweep", lambda out: grid.run(out, threads=1) and None, ".parts/*.parquet", results, given)


def sums(given: argparse.Namespace) -> None:
    """Sums of a log of some files, in small parts."""
    parts.ROWS_OF_A_PART, kept_units.ROWS_OF_A_UNIT, part_sums.MOST_GROUPS = 2000, 6000, 60
    with tempfile.TemporaryDirectory() as place:
        for k in range(3):
            log, n = np.random.default_rng(k), 8000
            columns = {"episode": k * n + np.repeat(np.arange(n // 8), 8), "rho": log.choice([0.5, 1.5], n)}
            columns |= {"reward": log.normal(size=n), "terminated": np.arange(n) % 8 == 7}
            pq.write_table(
                pa.table(columns | {f"obs_{j}": log.normal(size=n) for j in range(2)}), f"{place}/{k}.parquet"
            )

        def work(out: Path) -> None:
            machine = gradtd.Machine(checkpoint=out, threads=1)
            gradtd.evaluate(f"{place}/*.parquet", gamma=0.9, machine=machine, progress=False)

        until_finished("evaluate --sums", work, "target-*/fitted.npz", ("target-*/*.npz",), given)


if __name__ == "__main__":
    main()
