"""The interval of a log that is read in parts against resampling of its episodes: widths and coverage.

    python benchmarks/parts_coverage.py [--sets 400] [--sizes 100 300 3000] [--seed 4001]

On the problems of interval_coverage.py. Every log is added to sums by group of episodes, as `evaluate` adds a Parquet
log, and gives three intervals of one value, that of LSTD: by the influences of groups (what `evaluate` reports), by
refits with a Poisson(1) weight for every group (`algorithm="lstd"`), and by resampling episodes, the bound. Checks are
left out: they are about something else. About two minutes on one core.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np
from interval_coverage import BLOCK, PROBLEMS, Table, about

import gradtd
from gradtd.core.arrays import Floats
from gradtd.evaluation.estimators.bootstrap import interval_from, student_interval
from gradtd.evaluation.parts import judging, sums
from gradtd.evaluation.parts.job import MOST_GROUPS, Job
from gradtd.evaluation.preparing import pieces_of
from gradtd.evaluation.trust.fits import solve
from gradtd.evaluation.trust.records import GIVEN, Record, Wide, record_of
from gradtd.evaluation.trust.robust import products
from gradtd.logs import ratios
from gradtd.logs.parts import hash_of
from gradtd.problems.sample_log import sample_log

LEVEL, RESAMPLES = 0.95, 100
KINDS = ("influences of groups", "Poisson refits of groups", "resampled episodes")


def prepared(key: str, size: int, run: int, seed: int) -> tuple[Record, Wide, float]:
    """The steps of one log, and its features."""
    told = PROBLEMS[key]
    problem = gradtd.PROBLEMS[told["make"]](**told.get("with", {}))
    log = sample_log(problem, size, steps=size * BLOCK, seed=seed, run=run)
    rows = Table(problem.features) if "features" not in told else Table(np.eye(len(problem.features)))
    table, n = rows(log.observations), len(log)
    base = np.r_[table[log.row], table[log.next_row]]  # a row for each step, as logs in files have it
    columns, number = {GIVEN: np.arange(base.shape[1])}, np.arange(n)
    wide = Wide(columns, {}, (GIVEN,), False, False, None, number, n + number, base=base, observations=base)
    pieces = pieces_of(log, BLOCK if problem.continuing else None)
    return record_of(log, pieces, ratios(log).rho, problem.gamma, wide, blocks=False), wide, problem.gamma


def added(record: Record, wide: Wide, gamma: float, groups: int, group: Any) -> sums.Sums:
    """The log's sums by group."""
    nowhere: Any = None
    job = Job(nowhere, gamma, None, replace(wide, base=wide.base[:0]), 0.0, groups, "log", np.zeros((1, 0)))
    total = sums.nothing(job)
    with np.errstate(all="ignore"):
        sums._by_blocks(job)(total.arrays, record, wide, group, products(record))
    total.arrays["pieces"] += np.bincount(group, minlength=groups)
    total.arrays["numbers"][sums.SUMMED.index("steps")] = len(record)
    return total


def intervals(key: str, size: int, run: int, seed: int) -> Floats:
    """Low and high ends of the three, (3, 2)."""
    record, wide, gamma = prepared(key, size, run, seed)
    E, columns = record.n_pieces, wide.rungs[GIVEN]
    group = (hash_of(np.arange(E)) % np.uint64(MOST_GROUPS)).astype(np.int64)
    total = added(record, wide, gamma, MOST_GROUPS, group)
    tenths = judging.by_tenths(total)
    found = solve(judging._moments(tenths), columns)
    residual = judging._residuals(total, [(columns, found.theta)])[0][:, columns]
    fit = judging._fit(GIVEN, columns, found, total, residual, 0.0)
    solved, G = judging.Solved(tenths, columns), len(fit.psi)
    by_group = solved.refits(total, columns, RESAMPLES, run)
    own = added(record, wide, gamma, E, np.arange(E))
    return np.array(
        [
            student_interval(solved.value, fit.error, LEVEL, G - 1),
            interval_from(solved.value, by_group, LEVEL, G),
            interval_from(solved.value, bootstrap(own, solved, run), LEVEL, E),
        ]
    )


def bootstrap(own: sums.Sums, solved: judging.Solved, run: int) -> Floats:
    """The value with as many episodes drawn as there are, with replacement; written without the code above."""
    A, b, starts = own["A"], own["b"], own["starts"]
    D, E, scale = A.shape[2], len(A), solved.solver.scale
    counts = np.random.default_rng([run, 77]).multinomial(E, np.full(E, 1 / E), RESAMPLES).astype(np.float64)
    matrices = (counts @ A[:, :D].reshape(E, -1)).reshape(-1, D, D) * scale[:, None] * scale
    right, start = counts @ b[:, :D] * scale, counts @ starts / E
    thetas = [np.linalg.lstsq(M, -r, rcond=1e-11)[0] for M, r in zip(matrices, right, strict=True)]
    return np.asarray(np.einsum("rk,rk->r", start, np.array(thetas) * scale))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=400)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 300, 3000])
    parser.add_argument("--seed", type=int, default=4001)
    given = parser.parse_args()
    print("| problem | episodes | " + " | ".join(f"{kind}: covered (width)" for kind in KINDS) + " | widths | points |")
    print("|---|---|" + "---|" * (len(KINDS) + 2))
    worst = {"width": 0.0, "points": 0.0}
    for key in PROBLEMS:
        for size in given.sizes:
            found = np.array([intervals(key, size, run, given.seed) for run in range(given.sets)])
            truth = about(key)[1]
            covered = 100 * ((found[..., 0] <= truth) & (truth <= found[..., 1])).mean(axis=0)
            width = (found[..., 1] - found[..., 0]).mean(axis=0)
            ratio, points = width[0] / width[-1], covered[0] - covered[-1]
            worst = {"width": max(worst["width"], abs(ratio - 1)), "points": max(worst["points"], abs(points))}
            cells = " | ".join(f"{c:.1f} ({w:.4g})" for c, w in zip(covered, width, strict=True))
            print(f"| {key} | {size} | {cells} | {ratio:.3f} | {points:+.1f} |", flush=True)
    print(f"\nfarthest: widths {100 * worst['width']:.1f} % (goal 5), coverage {worst['points']:.1f} points (goal 2)")


if __name__ == "__main__":
    main()
