"""What the solution of a log costs over arithmetic that nobody can do without, and what its verdict costs beyond it.

    python benchmarks/solve_cost.py                              # 100 000 x 4 and 500 000 x 50; a minute
    python benchmarks/solve_cost.py --steps 2000000 --columns 50   # some two minutes, 5 GB

The arithmetic is the sum of the features and one BLAS product of two tables of their size. The solution is C, A and b
(by fold of the episodes, which double RL needs) and the solved equations. Seconds are of the processor, the least of
several repeats in turn, on one thread of BLAS. Then a table of where the time of `gradtd.evaluate` goes.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from timing import least_times

import gradtd
from gradtd.core.blas import one_thread

GAMMA = 0.95
GOAL = 2.0
ARITHMETIC = ("X.sum(0)", "X'Y, one BLAS product")
SOLUTION = ("C", "A and b", "solving")
PLACES = {
    "features, their C and whitening": ("log_features.py", "make_log_features"),
    "  of them: C": ("products.py", "second_moments"),
    "  of them: whitening": ("products.py", "whiten"),
    "A, b, the solution and its error": ("methods.py", "make_case"),
    "checks: the design": ("real.py", "real_design"),
    "checks: sums for all fits": ("moments.py", "read_moments"),
    "  of them: products": ("products.py", "cross"),
    "checks: solving all fits": ("fits.py", "solve_all"),
    "checks: influences on all fits": ("checks.py", "piece_sums"),
    "  in both: making the columns": ("base.py", "_rows_of_chunk"),
    "refits": ("least_squares.py", "refit_least_squares"),
    "importance sampling": ("importance_sampling.py", "importance_estimates"),
    "double RL": ("importance_sampling.py", "double_rl"),
    "Impression GTD beside it": ("methods.py", "fitted_rule"),
    "values against lambda, for a picture": ("lambda_values.py", "against_lambda"),
    "diagnostics": ("diagnostics.py", "diagnose"),
}
"""What is told apart: the file and the name of the function that does it."""


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


@one_thread()
def solve_times(log: Any, repeats: int = 5) -> dict[str, float]:
    """Processor seconds of arithmetic, of every part of the solution, and of LSTD in plain NumPy."""
    from gradtd.evaluation.designs.log_features import make_log_features
    from gradtd.evaluation.estimators.bootstrap import draw_resamples
    from gradtd.evaluation.estimators.importance_sampling import fold_of_steps
    from gradtd.evaluation.estimators.least_squares import (
        least_squares,
        refit_least_squares,
        start_features,
        step_influences,
        sums,
    )
    from gradtd.evaluation.estimators.products import second_moments, whiten
    from gradtd.evaluation.estimators.solvers import solver_of

    ready = make_log_features(log, "identity", None)
    stream = ready.stream(log.rho, GAMMA)
    table, begins = stream.features, stream.begins
    starts, fold = start_features(stream, begins), fold_of_steps(stream, begins)
    square = least_squares(stream, starts, begins)
    drawn, found = draw_resamples(len(begins) - 1, 100, 0), square.sums

    def solving() -> None:
        solver = solver_of(found.A, found.C)
        solver.solve(-found.b)
        solver.solve(np.asarray(starts.mean(axis=0)).ravel(), transposed=True)

    contestants: dict[str, Callable[[], Any]] = {
        "X.sum(0)": lambda: table.sum(axis=0),
        "X'Y, one BLAS product": lambda: table[:-1].T @ table[1:],
        "C": lambda: second_moments(table, log.row),
        "A and b": lambda: sums(stream, C=found.C, fold=fold),
        "solving": solving,
        "its error": lambda: step_influences(stream, square.theta, square.left),
        "whitening": lambda: whiten(table, np.eye(table.shape[1])),  # by the identity: nothing changes
        "100 refits": lambda: refit_least_squares(stream, starts, begins, drawn, square),
        "plain NumPy LSTD, in chunks": lambda: plain_lstd(stream, 16_384),
    }
    np.testing.assert_allclose(plain_lstd(stream, 16_384), square.theta, rtol=1e-6, atol=1e-9)
    return least_times(contestants, repeats, time.process_time)


def where_it_goes(log: Any) -> dict[str, float]:
    """Processor seconds of an evaluation by default, all checks made, and of its parts; below a millisecond none."""
    profile = cProfile.Profile(time.process_time)
    profile.enable()
    found = gradtd.evaluate(log, gamma=GAMMA, features="identity", progress=False, machine=gradtd.Machine(threads=1))
    profile.disable()
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    spent = {(Path(file).name, name): row[3] for (file, _, name), row in stats.items()}
    whole = spent[("evaluate.py", "evaluate")]
    parts = {label: spent[place] for label, place in PLACES.items() if spent.get(place, 0.0) >= 0.001}
    print(f"  (verdict: {found.verdict})")
    return {"evaluate, in all": whole} | parts


def solve_cost(log: Any) -> dict[str, Any]:
    """Both, printed."""
    times = solve_times(log, 5 if len(log) < 10**6 else 3)
    floor = sum(times[name] for name in ARITHMETIC)
    print(
        f"{len(log)} steps, {log.observations.shape[1]} columns: ms of the processor, and over the first two together"
    )
    for name, seconds in times.items():
        print(f"  {name:38s} {1000 * seconds:9.2f} {seconds / floor:7.2f}")
    ratio = sum(times[name] for name in SOLUTION) / floor
    print(f"  {', '.join(SOLUTION)}: {ratio:.2f} (goal at most {GOAL:g});", end=" ")
    with_error = ratio + times["its error"] / floor
    print(f"with its error {with_error:.2f}, with whitening {with_error + times['whitening'] / floor:.2f}", flush=True)
    spent = where_it_goes(log)
    for name, seconds in spent.items():
        print(f"  {name:38s} {1000 * seconds:9.1f} {seconds / floor:7.1f}")
    beyond = spent["evaluate, in all"] / floor
    print(f"  the whole evaluation with its verdict takes {beyond:.0f} times the arithmetic", flush=True)
    return {"times": times, "solution_over_arithmetic": ratio, "where": spent, "whole_over_arithmetic": beyond}


def main() -> None:
    from default_speed import plain_log

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, nargs="+", default=[100_000, 500_000])
    parser.add_argument("--columns", type=int, nargs="+", default=[4, 50])
    given = parser.parse_args()
    gradtd.evaluate(
        plain_log(5000, 4), gamma=GAMMA, features="identity", progress=False, machine=gradtd.Machine(threads=1)
    )  # compiles
    for steps, columns in zip(given.steps, given.columns, strict=True):
        solve_cost(plain_log(steps, columns))


if __name__ == "__main__":
    main()
