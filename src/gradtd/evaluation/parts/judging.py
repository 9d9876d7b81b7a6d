"""From the sums of a log to fits and checks, as if every group of episodes were an episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.evaluation.estimators.bootstrap import poisson_weights
from gradtd.evaluation.estimators.solvers import Solver, solved_each
from gradtd.evaluation.estimators.whitening import condition
from gradtd.evaluation.parts.job import Job
from gradtd.evaluation.parts.sums import Sums, time_sums
from gradtd.evaluation.report.step_sums import BY_CHUNK, BY_STEP, StepSums
from gradtd.evaluation.trust.checking import PRODUCTS, Fits
from gradtd.evaluation.trust.deciding import LACK, MET, Decision, decide_from
from gradtd.evaluation.trust.fits import Fit, Solution, see, solve
from gradtd.evaluation.trust.moments import GROUPS, Moments, joined
from gradtd.evaluation.trust.records import Record, Wide
from gradtd.evaluation.trust.robust import MATTERS, as_fit


def decided(job: Job, sums: Sums, tenths: Sums, level: float, sample: tuple[Record, Wide]) -> Decision:
    """The decision of the checks, from sums; ``sample`` are the episodes on which missing choices are looked for."""
    with np.errstate(all="ignore"):
        return decide_from(_fits(job, sums, tenths, sample), job.wide, level)


def _fits(job: Job, sums: Sums, tenths: Sums, sample: tuple[Record, Wide]) -> Fits:
    wide, D, narrow = job.wide, job.wide.n_columns, job.wide.n_headline_columns
    sets = wide.rungs | wide.checkers
    plain, traced = _moments(tenths), _moments(tenths, traced=True)
    solved = [(name, columns, solve(plain, columns)) for name, columns in sets.items()]
    with_traces = [(name, wide.rungs[name], solve(traced, wide.rungs[name])) for name in wide.headlines]
    with_time = _solved_with_time(job, tenths, plain) if job.clock.shape[1] else []
    seen = see(*sample, [*solved, *with_traces], len(sets), job.lam, None)
    every = [*solved, *with_traces, *with_time]
    left = _residuals(sums, [(columns, found.theta[: len(columns)]) for _, columns, found in every])
    fits = {
        name: _fit(name, columns, found, sums, left[j][:, columns], float(seen.lack[j]))
        for j, (name, columns, found) in enumerate(solved)
    }
    steps, more = float(sums["steps"]), float(sums["steps"]) / len(sample[0])
    for fit, missed, met in zip(fits.values(), seen.missed, seen.met, strict=False):
        fits[fit.name] = replace(fit, missed=float(missed) * steps, met=float(met) * more)
    memory = {
        name: _fit(name, columns, found, sums, left[j][:, D + columns], float(seen.lack[j]))
        for j, (name, columns, found) in enumerate(with_traces, len(sets))
    }
    robust = {}
    if effective_of_times(sums.by_time) >= PRODUCTS:
        robust = {
            name: _robust(name, columns, found, sums, left[j][:, D + narrow])
            for j, (name, columns, found) in enumerate(solved)
            if name in memory
        }
    timed = {
        name: _fit_with_time(name, columns, found, sums, left[j][:, columns], job.clock[0])
        for j, (name, columns, found) in enumerate(with_time, len(sets) + len(with_traces))
    }
    return Fits(fits, memory, robust, job.lam, timed)


def _solved_with_time(job: Job, tenths: Sums, plain: Moments) -> list[tuple[str, Integers, Solution]]:
    """The headlines solved with the time since the start beside them: behind their weights are those of the time."""
    narrow, times = job.wide.n_headline_columns, np.arange(job.clock.shape[1])
    made = joined(plain, time_sums(tenths), narrow, job.clock)
    rungs = [(name, job.wide.rungs[name]) for name in job.wide.headlines]
    return [(name, columns, solve(made, np.r_[columns, narrow + times])) for name, columns in rungs]


def _fit_with_time(
    name: str, columns: Integers, found: Solution, sums: Sums, residual: Floats, start_time: Floats
) -> Fit:
    """A fit with the time since the start; ``residual`` is what its weights of the other columns leave of these."""
    time, pieces, k = time_sums(sums), sums["pieces"], len(columns)
    E, filled = float(pieces.sum()), pieces > 0
    theta, late = found.theta[:k], found.theta[k:]
    of_time = time.back[:, :, columns] @ theta + time.own @ late + time.b
    start = sums["starts"][:, columns] @ theta + pieces * (start_time @ late - found.value)
    own = start - E * ((residual + time.to[:, columns] @ late) @ found.left[:k] + of_time @ found.left[k:])
    return Fit(name, found.value, own[filled] * (filled.sum() / E), found.bias, found.rank)


def by_tenths(sums: Sums) -> Sums:
    """The same sums in ten groups of groups, which the jackknife leaves out one at a time."""
    edges = first_of_tenths(len(sums["pieces"]))
    joined = {name: np.add.reduceat(sums[name], edges) for name in ("products", "starts", "pieces")}
    return replace(sums, arrays=sums.arrays | joined)


def first_of_tenths(groups: int) -> Integers:
    """The first group of each tenth."""
    return np.linspace(0, groups, min(GROUPS, groups) + 1).round().astype(np.int64)[:-1]


def _moments(tenths: Sums, traced: bool = False) -> Moments:
    """What fits need of all columns; ``traced``: with traces of those that have some."""
    D, narrow, _ = tenths.layout
    columns, rows = (narrow, slice(D, D + narrow)) if traced else (D, slice(0, D))
    return Moments(
        tenths["A"][:, rows, :columns],
        tenths["b"][:, rows],
        tenths["C"][:columns, :columns],
        tenths["starts"][:, :columns],
        tenths["pieces"].astype(np.int64),
        tenths["missing"][:columns],
    )


def _residuals(sums: Sums, fits: Sequence[tuple[Integers, Floats]]) -> list[Floats]:
    """For every fit and group left'(y theta + r), over all columns of the left, with weights theta for some of y's."""
    products = sums["products"]
    every = np.zeros((products.shape[2], len(fits)))
    every[sums.layout.D] = 1.0
    for j, (columns, theta) in enumerate(fits):
        every[columns, j] = theta
    found = (products.reshape(-1, len(every)) @ every).reshape(*products.shape[:2], len(fits))
    return [found[..., j] for j in range(len(fits))]


def _fit(name: str, columns: Integers, found: Solution, sums: Sums, residual: Floats, lack: float) -> Fit:
    """A fit whose pieces are groups: the influence of a group is the sum of those of its episodes.

    They are scaled so that their mean is that of the episodes' influences. ``residual`` is that of its columns of z.
    """
    pieces, filled = sums["pieces"], sums["pieces"] > 0
    E, G = float(pieces.sum()), int(filled.sum())
    own = sums["starts"][:, columns] @ found.theta - pieces * found.value - E * (residual @ found.left)
    mean = float(sums["x"][columns] @ found.theta / sums["steps"])
    square = float(found.theta @ sums["C"][np.ix_(columns, columns)] @ found.theta / sums["steps"])
    spread = float(np.sqrt(max(square - mean**2, 0.0)))
    return Fit(name, found.value, own[filled] * (G / E), found.bias, found.rank, lack, spread=spread)


def _robust(name: str, columns: Integers, found: Solution, sums: Sums, residual: Floats) -> Fit:
    """Doubly robust by a plain fit: every group's sum of its episodes' values."""
    return robust_of(name, sums["starts"][:, columns] @ found.theta + residual, sums["pieces"])


def robust_of(name: str, parts: Floats, pieces: Floats) -> Fit:
    """Doubly robust, from the sums of its episodes' values by group, and how many there are in each."""
    filled = pieces > 0
    E, G = float(pieces.sum()), int(filled.sum())
    value = float(parts.sum() / E)
    fit = as_fit(name, parts[filled])
    return Fit(name, value, (parts - pieces * value)[filled] * (G / E), fit.bias, fit.columns)


def effective_of_times(by_time: Floats) -> float:
    """The least effective number of episodes, over time, among the products of ratios that still matter."""
    total, square = by_time
    matters = total > MATTERS * total[0]
    found = total[matters] ** 2 / np.maximum(square[matters], 1e-300)
    return float(found.min()) if len(found) and np.isfinite(found).all() else 0.0


UNSURE = 2.0
"""Standard errors that what was found in a sample must be away from a limit."""


def undecided(job: Job, tenths: Sums, decision: Decision, sample: tuple[Record, Wide]) -> str | None:
    """What is looked for in the sample only, and is passed only because the sample is small; None where nothing is."""
    record, wide = sample
    if record.n_pieces >= tenths["pieces"].sum():
        return None
    fit, columns = decision.fit, job.wide.rungs[decision.rung]
    missing = solve(_moments(tenths), columns).missing
    lack, error = _mean_of(np.maximum(wide.rows(record.row)[:, columns] @ missing, 0.0), record.begins)
    if lack <= LACK < lack + UNSURE * error and fit.missed > decision.own.width / 2:
        return f"it may lack {lack:.0%} or {lack + UNSURE * error:.0%} of what the target would do"
    if fit.met * len(record) / float(tenths["steps"]) < MET <= fit.met:
        return "whether rare steps of large weight have met their surprises rests on steps that were not looked at"
    return None


def _mean_of(values: Floats, begins: Integers) -> tuple[float, float]:
    """The mean over steps, and its standard error over episodes."""
    mean = float(values.mean())
    apart = np.add.reduceat(values, begins[:-1]) - mean * np.diff(begins)
    return mean, float(np.sqrt((apart**2).sum())) / len(values)


class Solved:
    """The direct solution in some columns: weights, value, and what the diagnostics need of it.

    It needs sums of all groups: those by tenths do.
    """

    def __init__(self, sums: Sums, columns: Integers) -> None:
        n, pick = sums["steps"], np.ix_(columns, columns)
        self.A, self.b = sums["A"].sum(axis=0)[pick] / n, sums["b"].sum(axis=0)[columns] / n
        self.C = sums["C"][pick] / n
        self.solver = Solver(self.A, self.C)
        self.theta = self.solver.solve(-self.b)
        self.start = sums["starts"].sum(axis=0)[columns] / sums["pieces"].sum()
        self.left = self.solver.solve(self.start, transposed=True)
        self.value = float(self.start @ self.theta)

    def measured(self, sums: Sums, columns: Integers) -> dict[str, Any]:
        """What the diagnostics say of the equations."""
        pick, left, residual = np.ix_(columns, columns), self.left, self.A @ self.theta + self.b
        of_all = float(left @ sums["marginal_sum"][columns]) ** 2
        return {
            "features_used": int((np.diag(self.C) > 0).sum()),
            "condition_C": condition(self.C),
            "ess_marginal": of_all / max(float(left @ sums["marginal"][pick] @ left), 1e-300),
            "ess_marginal_episodes": of_all / max(float(left @ sums["marginal_episodes"][pick] @ left), 1e-300),
            "condition_A": self.solver.condition,
            "undetermined_directions": self.solver.singular,
            "neu_start": float(self.b @ self.b),
            "neu_end": float(residual @ residual),
        }

    def refits(self, sums: Sums, columns: Integers, resamples: int, seed: int) -> Floats:
        """The value with every group weighted by a Poisson(1) number, so many times."""
        own = sums["A"][:, columns[:, None], columns]
        weights = poisson_weights(sums["pieces"], resamples, seed)
        scale = self.solver.scale
        matrices = (weights @ own.reshape(len(own), -1)).reshape(-1, *own.shape[1:]) * scale[:, None] * scale
        b, starts = (weights @ sums[name][:, columns] for name in ("b", "starts"))
        episodes = weights @ sums["pieces"]
        thetas = scale * solved_each(matrices, -scale * b)
        return np.asarray((starts * thetas).sum(axis=1) / episodes)


def steps_of(sums: Sums) -> StepSums:
    """The sums over steps as the report takes them."""
    numbers = {name: float(sums[name]) for name in (*BY_STEP, *BY_CHUNK) if name != "episodes"}
    numbers["episodes"] = float(sums["pieces"].sum())
    return StepSums(numbers, sums.largest, sums["ratios"], sums.by_time, unseen=sums.unseen)
