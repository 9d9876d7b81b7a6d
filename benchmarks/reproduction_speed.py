"""What the reproduction of figures costs beside its compiled loops alone.

    python benchmarks/reproduction_speed.py [boyan_rmse ...] [--runs 20] [--threads 2]

Runs the figures into a folder that is thrown away. The first number is the wall-clock time of all jobs: sampling,
learning, measuring and compiling. The second is what the compiled loops would take alone, on data that are there
already and on as many threads: for every job the least of three runs, times the number of its runs. The theory has no
such loop, so its time is told apart.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from gradtd.compiled.plan import room_for
from gradtd.core.executors import n_threads
from gradtd.paper.figures import STEPS
from gradtd.paper.jobs import SEED, Job, Store
from gradtd.paper.reproduce import Worker, chosen_figures, run_all
from gradtd.problems.simulate import sampler


def kernel_seconds(job: Job) -> float:
    """Seconds of one run of the compiled loop alone."""
    problem, session = job.task, job.session
    stream, at = sampler(problem)(STEPS, SEED, 0), np.array([STEPS])
    best = np.inf
    for _ in range(3):
        wanted = room_for(at, problem.n_features)
        began = time.perf_counter()
        session.over(stream, problem.theta0, (SEED, 0), wanted)
        best = min(best, time.perf_counter() - began)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="*", help="labels of figures (default: all)")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--threads", type=int)
    chosen = parser.parse_args()
    threads = n_threads(chosen.threads, "--threads")
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(Store(Path(folder)), threads)
        run_all(chosen_figures(chosen.figures), chosen.runs, worker)
    learning = [job for job in worker.seconds if job.run_steps]
    seconds = sum(worker.seconds[job] for job in learning)
    alone = sum(kernel_seconds(job) * job.run_steps / STEPS for job in learning) / threads
    million = sum(job.run_steps for job in learning) / 1e6
    print(f"{million:.3g} million run-steps in {len(learning)} jobs on {threads} threads")
    print(f"the jobs {seconds:.1f} s, compiled loops alone {alone:.1f} s: ratio {seconds / alone:.2f}")
    print(f"the theory {sum(worker.seconds.values()) - seconds:.1f} s")


if __name__ == "__main__":
    main()
