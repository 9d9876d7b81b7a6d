"""Processor seconds until the first answer: from an empty cache, from a full one, and in a session.

    python benchmarks/first_answer.py --source src --source OLD/src

Every number is of a process of its own, the trees in turns, the least of a few. The log is that of the first page.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

WORK = """
import time
import gradtd
found = gradtd.evaluate({log!r}, gamma=1.0)
first = time.process_time()
gradtd.evaluate({log!r}, gamma=1.0)
print(first, time.process_time() - first)
"""
HELP = "from gradtd.cli import main; import sys; sys.argv = ['gradtd', '--help']; main()"
LOG = "import gradtd; gradtd.write_log(gradtd.sample_log('random_walk_tabular', 300), {log!r})"


def run(source: str, code: str, cache: str) -> str:
    """What a program prints, run with one tree and one folder of compiled code."""
    places = {"PYTHONPATH": source, "NUMBA_CACHE_DIR": cache, "PYTHONWARNINGS": "ignore"}
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return subprocess.check_output([sys.executable, "-c", code], text=True, env=os.environ | places | one)


def seconds_of_help(source: str, cache: str) -> float:
    before = os.times()
    run(source, HELP, cache)
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", action="append", required=True, help="A tree's src folder; may be given twice.")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    least: dict[tuple[str, str], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        log = str(Path(folder) / "log.parquet")
        run(given.source[0], LOG.format(log=log), folder)
        for repeat in range(given.repeats):
            for number, source in enumerate(given.source):
                cache = Path(folder) / f"cache-{number}-{repeat}"
                cache.mkdir(mode=0o700)
                taken = {"help": seconds_of_help(source, str(cache))}
                taken["empty cache"], _ = map(float, run(source, WORK.format(log=log), str(cache)).split())
                taken["full cache"], taken["in a session"] = map(
                    float, run(source, WORK.format(log=log), str(cache)).split()
                )
                for what, value in taken.items():
                    least[source, what] = min(value, least.get((source, what), value))
    print("| processor seconds | help | empty cache | full cache | in a session |\n|---|---|---|---|---|")
    for source in given.source:
        numbers = (least[source, what] for what in ("help", "empty cache", "full cache", "in a session"))
        print(f"| {source} | " + " | ".join(f"{value:.2f}" for value in numbers) + " |")


if __name__ == "__main__":
    main()
