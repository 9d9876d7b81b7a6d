"""Applies every method to a log and a target, and returns a value with its interval for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.progress import Progress
from gradtd.core.stream import Stream
from gradtd.evaluation.checks import products
from gradtd.evaluation.decide import Decision
from gradtd.evaluation.estimators.bootstrap import (
    Resamples,
    draw_resamples,
    interval_from,
    of_influences,
    student_interval,
)
from gradtd.evaluation.estimators.importance_sampling import (
    Estimates,
    beyond_cuts,
    double_rl,
    few_episodes,
    fold_of_steps,
    importance_estimates,
    mark_rows,
)
from gradtd.evaluation.estimators.least_squares import (
    LeastSquares,
    can_refit,
    least_squares,
    refit_least_squares,
    start_features,
)
from gradtd.evaluation.estimators.products import trace_rows
from gradtd.evaluation.estimators.rule_fits import Fit, fit_rule, refit_rule, suited
from gradtd.evaluation.estimators.solvers import DENSE
from gradtd.evaluation.options import FEWEST_PERCENTILES
from gradtd.evaluation.report.estimate import (
    AUTO,
    COMPUTED,
    ENDED_BY_A_CUT,
    ESTIMATORS,
    OTHER_SOLUTIONS,
    UNTRACED,
    Estimate,
)
from gradtd.evaluation.settings import STATE, Settings

RESAMPLES, FEWER_RESAMPLES, MUCH_WORK = 100, 40, 1e10
"""Default number of refits; fewer if 100 refits of a rule would read more numbers than this."""


FEWEST_IN_PART, MOST_PARTS = 10, 20
"""Number of episodes per part in the picture of returns over the log, and maximum number of parts."""


@dataclass(frozen=True, eq=False)
class Case:
    """One target on one log, with its least-squares solution; ``on_policy`` says that every ratio is 1.

    If traces were requested, ``traces`` has one row per step, ``square`` is the solution with them, and ``untraced``
    the one without.
    """

    stream: Stream
    begins: Integers
    starts: Any
    square: LeastSquares
    settings: Settings
    on_policy: bool
    decision: Decision | None = None
    traces: Any = None
    untraced: LeastSquares | None = None

    @property
    def refits(self) -> bool:
        """Whether a rule's interval comes from its refits: they are requested, or no other interval applies.

        A rule that converges to a different solution cannot use the interval of least squares.
        """
        asked = self.settings
        if self.decision is None or asked.method in OTHER_SOLUTIONS or asked.own_refits is not None:
            return asked.own_refits is not False
        return asked.resamples is not None

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
        return max(self.square.error, self.settings.limits.rounding * abs(self.square.value), 1e-300)

    def row_from_error(self, method: str, value: float, error: float, note: str = "", reason: str = "") -> Estimate:
        """A row whose interval comes from a standard error over episodes."""
        low, high = student_interval(value, error, self.settings.level, self.n_episodes - 1)
        return Estimate(method, value, low, high, error, note, reason=reason)

    def row_from_refits(self, method: str, value: float, refits: Floats, note: str = "") -> Estimate:
        """A row whose interval comes from values on bootstrap samples."""
        known = refits[np.isfinite(refits)]
        if not np.isfinite(value):
            return Estimate(method, None, None, None, None, "the products of ratios overflow or vanish")
        if len(known) < 2:
            return Estimate(method, value, None, None, None, f"{len(known)} refits; an interval needs at least two")
        low, high = interval_from(value, known, self.settings.level, self.n_episodes, self.settings.interval_method)
        return Estimate(method, value, low, high, float(known.std(ddof=1)), note)


@dataclass(frozen=True, eq=False)
class Solved:
    """The estimates, the requested one first, with its bootstrap values and the weights of the value function.

    ``fitted`` is the fit of a rule that makes updates. ``drawn`` are the importance-sampling estimates on the log and
    on the ``resamples``. ``refits`` is the number of refits of the requested method.
    """

    estimates: tuple[Estimate, ...]
    resampled: Floats
    theta: Floats
    fitted: Fit | None
    resamples: int
    drawn: Estimates
    refits: int

    @property
    def headline(self) -> Estimate:
        """The requested estimate."""
        return self.estimates[0]


def with_traces(settings: Settings) -> str:
    """The part of a note that describes the traces. Empty if there are none."""
    return "" if settings.tracing is None else f"; with traces, lam = {settings.tracing.lam:g}"


def direct_row(value: float, decision: Decision, settings: Settings) -> Estimate:
    """The direct solution, with the interval decided by the checks."""
    note = f"the solution that Impression GTD, Expected GTD and LSTD share; {decision.rung}{with_traces(settings)}"
    return Estimate(AUTO, value, decision.shown.low, decision.shown.high, decision.fit.error, note)


def make_case(
    stream: Stream,
    settings: Settings,
    progress: Progress | None = None,
    decision: Decision | None = None,
    C: Any = None,
) -> Case:
    """Read the log once for the least-squares solution, and once more for one with traces.

    ``C`` is the mean of x x', if it is already known.
    """
    begins = stream.begins
    starts = start_features(stream, begins)
    on_policy = bool((stream.steps["rho"] == 1).all())
    plain = least_squares(stream, starts, begins, progress, C=C, fold=fold_of_steps(stream, begins))
    traces = trace_rows(stream, settings.tracing)
    if traces is None:
        return Case(stream, begins, starts, plain, settings, on_policy, decision)
    square = least_squares(stream, starts, begins, progress, traces, C=C)
    return Case(stream, begins, starts, square, settings, on_policy, decision, traces, plain)


def solve(case: Case, progress: Progress | None = None) -> Solved:
    """The requested method, with least squares, importance sampling and double RL, on the same bootstrap samples."""
    settings, method = case.settings, case.settings.method
    fitted = None if settings.computed else fitted_rule(case)
    theta = case.square.theta if fitted is None else fitted.theta
    resamples = draw_resamples(case.n_episodes, _how_many(case, fitted), settings.seed)
    drawn = importance_estimates(case.stream, theta, case.begins, resamples)
    rows = importance_rows(case, drawn) if settings.value_function == STATE else {}
    values = {name: drawn.resampled[:, k] for k, name in enumerate(ESTIMATORS)}
    own = method != AUTO and (fitted is None or case.refits)
    plain = resamples if own or case.decision is None else draw_resamples(case.n_episodes, 0, settings.seed)
    rows["lstd"], values["lstd"] = least_squares_row(case, plain, progress if fitted is None else None)
    if case.untraced is not None:
        square = case.untraced
        rows[UNTRACED] = case.row_from_error(UNTRACED, square.value, square.error, "sandwich interval; lam = 0")
    folds = (case.untraced or case.square).sums.folds
    if folds and "LSMR" not in case.square.how:  # LSMR is inexact, and the equations of the folds are as hard
        found = double_rl(case.stream, case.starts, case.begins, case.square, known=folds)
        rows["drl"] = case.row_from_error(
            "drl", found.value, found.error, reason=few_episodes(found.episodes, settings.limits)
        )
    if method == AUTO:
        rows[AUTO] = auto_row(case, rows["lstd"])
        values[AUTO] = _first_order(case, resamples) if case.decision else values["lstd"]
    elif fitted is not None and own:
        rows[method], values[method] = refitted_row(case, fitted, resamples, progress)
    elif fitted is not None:
        rows[method], values[method] = solved_row(case, fitted, method), _first_order(case, resamples)
    rows.setdefault(method, _refused(method))
    values.setdefault(method, np.zeros(0))
    rows = mark_rows(rows, case.stream, drawn.contributions, case.begins, case.square.error, settings.limits)
    order = [method, *(name for name in (UNTRACED, *COMPUTED) if name in rows and name != method)]
    estimates = tuple(rows[name] for name in order)
    return Solved(estimates, values[method], theta, fitted, len(resamples), drawn, len(values[method]) if own else 0)


def fitted_rule(case: Case) -> Fit:
    """Fit the requested rule to the log."""
    settings = case.settings
    hyper = suited(settings.algorithm, {**settings.hyper, **settings.of_traces}, case.square.sums)
    return fit_rule(
        case.stream,
        settings.algorithm,
        hyper,
        start=case.mean_start,
        near=case.square.value,
        error=case.error,
        seed=settings.seed,
        updates=settings.n_updates,
    )


def auto_row(case: Case, plain: Estimate) -> Estimate:
    """The direct solution with the interval that the checks decided.

    Rules that converge to the same solution are not fitted, because compiling their loop would take most of the time.
    """
    value, decision = case.square.value, case.decision
    if decision is None:
        return Estimate(AUTO, value, plain.low, plain.high, plain.error, plain.note)
    return direct_row(value, decision, case.settings)


def solved_row(case: Case, fitted: Fit, method: str) -> Estimate:
    """A rule fitted once: its value, with the interval of the direct solution."""
    assert case.decision is not None
    value = float(case.mean_start @ fitted.theta)
    if not np.isfinite(value) or fitted.diverged:
        return Estimate(method, None, None, None, None, "it diverged")
    low, high = case.decision.shown
    note = f"fitted once, {fitted.updates} updates; the interval is that of the direct solution"
    return Estimate(method, value, low, high, case.decision.fit.error, note)


def _first_order(case: Case, resamples: Resamples) -> Floats:
    """First-order bootstrap values from the influences of episodes, without refits."""
    assert case.decision is not None
    psi = case.decision.fit.psi
    if len(psi) != case.n_episodes:  # clusters of episodes are drawn whole
        resamples = draw_resamples(len(psi), len(resamples), case.settings.seed)
    return of_influences(case.square.value, psi, resamples)


def influences_of(case: Case) -> Floats:
    """The influence of every episode on the value of the direct solution."""
    if case.decision is None or case.settings.method in OTHER_SOLUTIONS:
        return np.zeros(0)
    return case.decision.fit.psi


def refitted_row(case: Case, fitted: Fit, resamples: Resamples, progress: Progress | None) -> tuple[Estimate, Floats]:
    """A rule's value, with an interval from its refits."""
    settings, value = case.settings, float(case.mean_start @ fitted.theta)
    if len(resamples) < 2:
        note = "no refits: the interval is the sandwich interval of least squares"
        return case.row_from_error(settings.method, value, case.square.error, note), np.zeros(0)
    refits = refit_rule(
        case.stream,
        case.begins,
        resamples,
        fitted,
        error=case.error,
        seed=settings.seed,
        threads=settings.threads,
        progress=progress,
    )
    return case.row_from_refits(settings.method, value, refits), refits


def least_squares_row(case: Case, resamples: Resamples, progress: Progress | None = None) -> tuple[Estimate, Floats]:
    """LSTD: the interval from its refits, and the sandwich interval in the note."""
    square = case.square
    row = case.row_from_error("lstd", square.value, square.error, f"sandwich interval{with_traces(case.settings)}")
    if len(resamples) < 2 or not can_refit(case.stream, square, len(resamples), case.traces):
        return row, np.zeros(0)
    refits = refit_least_squares(case.stream, case.starts, case.begins, resamples, square, progress, case.traces)
    note = f"sandwich interval [{row.low:.5g}, {row.high:.5g}]{with_traces(case.settings)}"
    return case.row_from_refits("lstd", square.value, refits, note), refits


def importance_rows(case: Case, drawn: Estimates) -> dict[str, Estimate]:
    """The importance-sampling estimators. If the log comes from the target itself, most of them equal Monte Carlo and
    are shown only on request.

    Off-policy, Monte Carlo would give another policy's value, so there is none.
    """
    on_its_own = ("monte_carlo", "dr", case.settings.method)
    ends = beyond_cuts(case.stream, case.begins) > case.settings.limits.most_beyond_cuts
    rows = {}
    for k, name in enumerate(ESTIMATORS):
        if name in on_its_own if case.on_policy else name != "monte_carlo":
            note = "its sums end at truncations" if ends and name in ENDED_BY_A_CUT else ""
            rows[name] = case.row_from_refits(name, float(drawn.values[k]), drawn.resampled[:, k], note)
    return rows


def _refused(method: str) -> Estimate:
    why = "the log comes from another policy: use another method"
    if method == "drl":
        why = f"its folds need an exact solution, which is limited to {DENSE} dense features"
    return Estimate(method, None, None, None, None, why)


def _how_many(case: Case, fitted: Fit | None) -> int:
    if case.settings.resamples is not None:
        return case.settings.resamples
    if case.settings.interval_method == "percentile":
        return FEWEST_PERCENTILES
    if fitted is None or not case.refits:
        return RESAMPLES
    work = RESAMPLES * fitted.updates * max(fitted.session.setup.m1, 1) * case.stream.n_features
    return RESAMPLES if work <= MUCH_WORK else FEWER_RESAMPLES


def for_pictures(case: Case, theta: Floats) -> dict[str, Floats]:
    """The data of the plots: histograms of the ratios and of the start values."""
    counts, edges = histogram(np.asarray(case.stream.steps["rho"]))
    start_counts, start_edges = histogram(np.asarray(case.starts @ theta).ravel())
    made = {"rho": counts, "rho_edges": edges, "starts": start_counts, "starts_edges": start_edges}
    return made | ({"over_log": over_log(case)} if case.n_episodes >= 2 * FEWEST_IN_PART else {})


def over_log(case: Case) -> Floats:
    """Consecutive parts of the log, (4, parts): last episode, mean return, its error, and value by influences.

    The last row is NaN if there are no influences.
    """
    discount, reward = (np.asarray(case.stream.steps[name]) for name in ("discount", "reward"))
    weight = products(np.ones(len(reward)), discount, case.begins)
    returns, psi = np.add.reduceat(weight * reward, case.begins[:-1]), influences_of(case)
    parts = np.array_split(np.arange(len(returns)), min(MOST_PARTS, len(returns) // FEWEST_IN_PART))
    by_part = np.full(len(parts), np.nan)
    if len(psi) == len(returns) and case.decision is not None:
        by_part = np.array([case.decision.fit.value + psi[part].mean() for part in parts])
    rows = [(part[-1] + 1, returns[part].mean(), returns[part].std(ddof=1) / np.sqrt(len(part))) for part in parts]
    return np.vstack([np.array(rows).T, by_part])


def histogram(values: Floats, bins: int = 40, weights: Floats | None = None) -> tuple[Floats, Floats]:
    """The counts and edges of a histogram. Values that are equal up to rounding errors fall into one bin."""
    if weights is not None:
        values, weights = values[weights > 0], weights[weights > 0]
    low, high = float(values.min()), float(values.max())
    if high - low <= 1e-9 * max(abs(low), abs(high)) + 1e-200:
        half = max(0.5, 0.1 * abs(low))
        low, high = low - half, low + half
    counts, edges = np.histogram(values, bins, (low, high), weights=weights)
    return counts.astype(np.float64), np.asarray(edges, dtype=np.float64)
