"""What the checks cost beside LSTD alone: ``python benchmarks/trust_cost.py [--steps 1000000] [--columns 20]``.

Seconds of this thread's processor time, with one BLAS thread (set OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1).
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import gradtd
from gradtd.evaluation.designs.log_features import make_log_features
from gradtd.evaluation.estimators.methods import make_case
from gradtd.evaluation.plan import make_plan
from gradtd.evaluation.settings import Settings


def long_log(n: int, k: int, length: int = 100) -> gradtd.Log:
    """A linear system with noise, episodes of 100 steps that are cut off."""
    rng = np.random.default_rng(0)
    E = n // length
    n = E * length
    turn = 0.9 * np.linalg.qr(rng.standard_normal((k, k)))[0]
    seen, now = np.empty((n + E, k)), rng.standard_normal((E, k))
    row = np.arange(n).reshape(E, length)
    for t in range(length):
        seen[row[:, t]] = now
        now = now @ turn.T + 0.3 * rng.standard_normal((E, k))
    seen[n:] = now
    after = np.arange(1, n + 1).reshape(E, length)
    after[:, -1] = n + np.arange(E)
    cut = np.zeros(n, bool)
    cut[length - 1 :: length] = True
    return gradtd.Log(
        observations=seen,
        row=np.arange(n, dtype=np.uint32),
        next_row=after.ravel().astype(np.uint32),
        reward=seen[:n, 0] + 0.1 * rng.standard_normal(n),
        terminated=np.zeros(n, bool),
        truncated=cut,
        episode=np.repeat(np.arange(E), length),
        rho=np.where(rng.random(n) < 0.5, 1.2, 0.8),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=20)
    given = parser.parse_args()
    gradtd.evaluate(
        long_log(5000, given.columns), gamma=0.95, features="identity", machine=gradtd.Machine(threads=1)
    )  # compiles
    log = long_log(given.steps, given.columns)
    settings = Settings(gamma=0.95, algorithm="lstd", features="identity", resamples=0)
    begun = time.thread_time()
    make_case(make_log_features(log, "identity", None).stream(log.rho, 0.95), settings)
    alone = time.thread_time() - begun
    plan = make_plan(log, settings)
    begun = time.thread_time()
    found = plan.decide(settings, log.rho, None)
    checks = time.thread_time() - begun
    assert found is not None
    print(f"{len(log)} steps, {given.columns} columns: LSTD alone {alone:.2f} s, checks {checks:.2f} s")
    print(f"checks / LSTD alone = {checks / alone:.2f}; {found.word}, {len(found.checks)} fits")


if __name__ == "__main__":
    main()
