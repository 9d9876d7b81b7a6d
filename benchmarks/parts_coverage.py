"""The interval of a log that is read in parts against resampling of its episodes: widths and coverage.

    python benchmarks/parts_coverage.py [--sets 400] [--sizes 100 300 3000] [--seed 4001]

On the problems of interval_coverage.py. Every log is added to sums by group of episodes, as `evaluate` adds a Parquet
log, and gives two intervals of one value, that of LSTD: by the influences of groups, and by resampling episodes, the
bound. Checks are left out: they are about something else. About two minutes on one core.
"""

from __future__ import annotations

import argparse

import numpy as np
from interval_coverage import BLOCK, PROBLEMS, Table, about

import gradtd
from gradtd.core.arrays import Floats, Integers
from gradtd.evaluation.designs.base import GIVEN, Ladder, Rows, Steps, steps_of
from gradtd.evaluation.designs.log_features import NO_CLOCK, pieces_of
from gradtd.evaluation.estimators.bootstrap import interval_from, student_interval
from gradtd.evaluation.fits import Fit, solve_all
from gradtd.evaluation.influences import PieceReader, by_group, fits_from, summed
from gradtd.evaluation.moments import Moments, read_moments, shape_of
from gradtd.evaluation.part_sums import MOST_GROUPS
from gradtd.logs import ratios
from gradtd.logs.row_episodes import hash_of
from gradtd.problems.sample_log import sample_log

LEVEL, RESAMPLES = 0.95, 100
KINDS = ("influences of groups", "resampled episodes")


def steps_and_ladder(key: str, size: int, run: int, seed: int) -> tuple[Steps, Ladder]:
    """The steps of one log over its features, and one fit of all of them."""
    told = PROBLEMS[key]
    problem = gradtd.PROBLEMS[told["make"]](**told.get("with", {}))
    log = sample_log(problem, size, steps=size * BLOCK, seed=seed, run=run)
    rows = Table(problem.features) if "features" not in told else Table(np.eye(len(problem.features)))
    table, n = rows(log.observations), len(log)
    base = np.r_[table[log.row], table[log.next_row]]  # a row for each step, as logs in files have it
    over = Rows.stored(np.arange(n), n + np.arange(n), base)
    pieces = pieces_of(log, BLOCK if problem.continuing else None)
    ladder = Ladder({GIVEN: np.arange(base.shape[1])}, {}, (GIVEN,), False, False)
    return steps_of(log, over, ratios(log).rho, problem.gamma, pieces), ladder


def added(steps: Steps, ladder: Ladder, group: Integers, groups: int) -> Moments:
    """The log's sums by group."""
    total = Moments.zeros(groups, shape_of(ladder, NO_CLOCK))
    read_moments(total, steps, group, 0.0, NO_CLOCK)
    return total


def fit_by_groups(steps: Steps, ladder: Ladder) -> Fit:
    """The value and the influences of groups, as of a log that is read once."""
    # Episodes are independent, so neighbours may share a group; sums are made of groups that stand together.
    group = np.sort(hash_of(np.arange(steps.n_pieces)) % np.uint64(MOST_GROUPS)).astype(np.int64)
    sums = added(steps, ladder, group, MOST_GROUPS)
    solutions, n = solve_all(sums, ladder, NO_CLOCK), len(steps)
    sample = summed(*PieceReader(solutions, ladder.n_columns, 0.0, NO_CLOCK).read(steps), n)
    return fits_from(solutions.every, by_group(sums, solutions, NO_CLOCK, sample, n), sums.pieces, n)[0]


def intervals(key: str, size: int, run: int, seed: int) -> Floats:
    """Low and high ends of both, (2, 2)."""
    steps, ladder = steps_and_ladder(key, size, run, seed)
    fit, E = fit_by_groups(steps, ladder), steps.n_pieces
    refits = bootstrap(added(steps, ladder, np.arange(E), E), run)
    by_groups = student_interval(fit.value, fit.error, LEVEL, len(fit.psi) - 1)
    return np.array([by_groups, interval_from(fit.value, refits, LEVEL, E)])


def bootstrap(own: Moments, run: int) -> Floats:
    """The value with as many episodes drawn as there are, with replacement; written without the code above."""
    E, D = own.b.shape
    scale = 1 / np.sqrt(np.maximum(np.diag(own.C), 1e-300))
    counts = np.random.default_rng([run, 77]).multinomial(E, np.full(E, 1 / E), RESAMPLES).astype(np.float64)
    matrices = (counts @ own.A.reshape(E, -1)).reshape(-1, D, D) * scale[:, None] * scale
    right, start = counts @ own.b * scale, counts @ own.starts / E
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
