"""Every method on one log and one target: a value, an interval, and how the methods agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd.core.algorithm import Algorithm
from gradtd.core.arrays import Floats, Integers
from gradtd.core.progress import Progress
from gradtd.core.stream import Stream
from gradtd.evaluation.estimate import Estimate
from gradtd.evaluation.fitting import Fit, fit, refit_values, suited
from gradtd.evaluation.importance import (
    BEYOND,
    ENDED_BY_A_CUT,
    ESTIMATORS,
    Estimates,
    beyond_cuts,
    importance_estimates,
)
from gradtd.evaluation.least_squares import LeastSquares, can_refit, least_squares, start_features
from gradtd.evaluation.least_squares import refit_values as refit_least_squares
from gradtd.evaluation.resamples import Resamples, draw_resamples, interval_from, student_interval

COMPUTED = {"lstd": "LSTD", **ESTIMATORS}
"""Methods that compute a value in closed form, in the order of the table, and what people call them."""
RESAMPLES, FEWER_RESAMPLES, MUCH_WORK = 100, 40, 1e10
"""Refits by default; fewer where so many would read more numbers than that."""
ROUNDING = 1e-6
"""An error below this part of the value counts as none: all episodes say the same."""


@dataclass(frozen=True)
class Settings:
    """How to evaluate, the same for every target."""

    gamma: float
    algorithm: Algorithm | str
    hyper: Mapping[str, Any]
    level: float
    resamples: int | None
    interval: str
    updates: int | None
    seed: int
    threads: int

    @property
    def method(self) -> str:
        return self.algorithm if isinstance(self.algorithm, str) else self.algorithm.name

    @property
    def computed(self) -> bool:
        """Whether the method computes its value in closed form, where others make updates."""
        return self.method in COMPUTED


@dataclass(frozen=True, eq=False)
class Case:
    """One target on one log, with its least-squares solution; ``on_policy`` says that every ratio is 1."""

    stream: Stream
    begins: Integers
    starts: Any
    square: LeastSquares
    settings: Settings
    on_policy: bool

    @property
    def n_episodes(self) -> int:
        return len(self.begins) - 1

    @property
    def mean_start(self) -> Floats:
        """The mean features of the start states."""
        return np.asarray(self.starts.mean(axis=0)).ravel()

    @property
    def error(self) -> float:
        """The sandwich error of the least-squares value, above rounding: the unit in which methods are compared."""
        return max(self.square.error, ROUNDING * abs(self.square.value), 1e-300)


@dataclass(frozen=True, eq=False)
class Solved:
    """Estimates, the one asked for first; its values on the resamples; the weights of the value function.

    ``fitted`` is the fit of a rule that makes updates, ``drawn`` the importance-sampling estimators on the log and on
    the ``resamples``.
    """

    estimates: tuple[Estimate, ...]
    resampled: Floats
    theta: Floats
    fitted: Fit | None
    resamples: int
    drawn: Estimates

    @property
    def headline(self) -> Estimate:
        """The estimate asked for."""
        return self.estimates[0]


def make_case(stream: Stream, settings: Settings, progress: Progress | None = None) -> Case:
    """Read the log once for the least-squares solution."""
    begins = stream.begins
    starts = start_features(stream, begins)
    on_policy = bool((stream.steps["rho"] == 1).all())
    return Case(stream, begins, starts, least_squares(stream, starts, begins, progress), settings, on_policy)


def solve(case: Case, progress: Progress | None = None) -> Solved:
    """The method asked for, with least squares and importance sampling beside it, all on the same resamples."""
    settings, method = case.settings, case.settings.method
    fitted, theta = None, case.square.theta
    if not settings.computed:
        hyper = suited(settings.algorithm, settings.hyper, case.square.sums)
        fitted = fit(
            case.stream,
            settings.algorithm,
            hyper,
            start=case.mean_start,
            near=case.square.value,
            error=case.error,
            seed=settings.seed,
            updates=settings.updates,
        )
        theta = fitted.theta
    resamples = draw_resamples(case.n_episodes, _how_many(case, fitted), settings.seed)
    drawn = importance_estimates(case.stream, theta, case.begins, resamples)
    rows = importance_rows(case, drawn, method)
    values = {name: drawn.resampled[:, k] for k, name in enumerate(ESTIMATORS)}
    rows["lstd"], values["lstd"] = least_squares_row(case, resamples, progress if fitted is None else None)
    if fitted is not None:
        rows[method], values[method] = rule_row(case, fitted, resamples, progress)
    rows.setdefault(method, _refused())
    order = [method, *(name for name in COMPUTED if name in rows and name != method)]
    estimates = tuple(rows[name] for name in order)
    return Solved(estimates, values[method], theta, fitted, len(resamples), drawn)


def rule_row(case: Case, fitted: Fit, resamples: Resamples, progress: Progress | None) -> tuple[Estimate, Floats]:
    """A rule of the library: its value, and an interval from its refits."""
    settings, value = case.settings, float(case.mean_start @ fitted.theta)
    if len(resamples) < 2:
        low, high = student_interval(value, case.square.error, settings.level, case.n_episodes - 1)
        note = "no refits: the interval is the sandwich's of least squares"
        return Estimate(settings.method, value, low, high, case.square.error, note), np.zeros(0)
    refits = refit_values(
        case.stream,
        case.begins,
        resamples,
        fitted,
        error=case.error,
        seed=settings.seed,
        threads=settings.threads,
        progress=progress,
    )
    return _row(case, settings.method, value, refits), refits


def least_squares_row(case: Case, resamples: Resamples, progress: Progress | None = None) -> tuple[Estimate, Floats]:
    """LSTD: the interval from its refits, and the sandwich's named beside it."""
    square, level = case.square, case.settings.level
    low, high = student_interval(square.value, square.error, level, case.n_episodes - 1)
    if len(resamples) > 1 and can_refit(case.stream.n_features, len(resamples)):
        refits = refit_least_squares(case.stream, case.starts, case.begins, resamples, square, progress)
        return _row(case, "lstd", square.value, refits, f"sandwich interval [{low:.5g}, {high:.5g}]"), refits
    return Estimate("lstd", square.value, low, high, square.error, "sandwich interval"), np.zeros(0)


def importance_rows(case: Case, drawn: Estimates, asked: str) -> dict[str, Estimate]:
    """The importance-sampling estimators; where the log is the target's own, most are Monte Carlo, shown if asked for.

    Off-policy there is no Monte Carlo, asked for or not: its number would be another policy's value.
    """
    on_its_own = ("monte_carlo", "dr", asked)
    names = [name for name in ESTIMATORS if (name in on_its_own if case.on_policy else name != "monte_carlo")]
    places = list(ESTIMATORS)
    cut = beyond_cuts(case.stream, case.begins) > BEYOND
    return {
        name: _row(
            case,
            name,
            float(drawn.values[places.index(name)]),
            drawn.resampled[:, places.index(name)],
            "its sums end where episodes were cut off" if cut and name in ENDED_BY_A_CUT else "",
        )
        for name in names
    }


def _row(case: Case, method: str, value: float, refits: Floats, note: str = "") -> Estimate:
    known = refits[np.isfinite(refits)]
    if not np.isfinite(value):
        return Estimate(method, None, None, None, None, "the products of ratios overflow or vanish")
    if len(known) < 2:
        return Estimate(method, value, None, None, None, f"{len(known)} refits, and an interval needs two of them")
    low, high = interval_from(value, known, case.settings.level, case.n_episodes, case.settings.interval)
    return Estimate(method, value, low, high, float(known.std(ddof=1)), note)


def _refused() -> Estimate:
    why = "the log is not the target's own: take another method"
    return Estimate("monte_carlo", None, None, None, None, why)


def _how_many(case: Case, fitted: Fit | None) -> int:
    if case.settings.resamples is not None:
        return case.settings.resamples
    if fitted is None:
        return RESAMPLES
    work = RESAMPLES * fitted.updates * max(fitted.session.setup.m1, 1) * case.stream.n_features
    return RESAMPLES if work <= MUCH_WORK else FEWER_RESAMPLES


def for_pictures(case: Case, theta: Floats) -> dict[str, Floats]:
    """What the pictures need of the log itself, small: histograms of the ratios and of the values at the starts."""
    counts, edges = histogram(np.asarray(case.stream.steps["rho"]))
    start_counts, start_edges = histogram(np.asarray(case.starts @ theta).ravel())
    made = {"rho": counts, "rho_edges": edges, "starts": start_counts, "starts_edges": start_edges}
    return {name: np.asarray(array, dtype=np.float64) for name, array in made.items()}


def histogram(values: Floats, bins: int = 40) -> tuple[Floats, Floats]:
    """Counts and edges; values that are equal but for rounding all fall into one bin."""
    low, high = float(values.min()), float(values.max())
    if high - low <= 1e-9 * max(abs(low), abs(high)) + 1e-200:
        half = max(0.5, 0.1 * abs(low))
        low, high = low - half, low + half
    counts, edges = np.histogram(values, bins, (low, high))
    return counts.astype(np.float64), edges
