"""The fits that are compared: every rung and check, other traces, features of time, and doubly robust.

They are made from `Equations`: from steps that can be read again (in memory, or for states), or from sums by group of a
log that is read once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradtd.compiled import engine
from gradtd.core.arrays import Floats, Integers
from gradtd.evaluation.cuts import MOST_STEPS, BehindCuts, behind_cuts
from gradtd.evaluation.designs.base import GIVEN, Ladder, Steps
from gradtd.evaluation.designs.log_features import NO_CLOCK, clock_of
from gradtd.evaluation.fits import Equations as FitSums
from gradtd.evaluation.fits import Fit, Solution, Solutions, plain_sums, solve_all
from gradtd.evaluation.history import MOST_COLUMNS, MOST_KNOWN, Known, Remembered, fits_with_past, most_steps
from gradtd.evaluation.influences import SUMS, PieceReader, PieceSums, by_group, fits_from, robust_fit, summed
from gradtd.evaluation.intervals import as_dependent, faults
from gradtd.evaluation.limits import DEFAULT, Limits
from gradtd.evaluation.markov import MOST_STEPS as TESTED
from gradtd.evaluation.markov import Predicted, predicted
from gradtd.evaluation.moments import Moments, read_moments, shape_of
from gradtd.evaluation.sparse_moments import SparseMoments, read_sparse_moments, solve_sparse
from gradtd.evaluation.step_blocks import StepBlocks, first_pieces


@dataclass(frozen=True, eq=False)
class Fits:
    """All fits, each a dictionary by the name of its columns.

    Parameters
    ----------
    plain
        The fits as requested.
    traced
        The headline fits with traces of a different lambda, ``lam``.
    robust
        Doubly robust estimates with their values, if products of ratios allow it.
    timed
        Fits with the time since the start as extra features.
    past
        Fits with the past as extra features, if episodes have more than one step.
    alone
        Whether every piece has one step and therefore no past.
    behind
        The value after truncations, if pieces are truncated.
    rare
        Share of the target's time in states with few visits, minus the log's own share.
    markov
        Tests whether the past predicts the next step when the observation and the action are known.
    """

    plain: dict[str, Fit]
    traced: dict[str, Fit]
    robust: dict[str, Fit]
    timed: dict[str, Fit]
    lam: float
    past: dict[str, Remembered] = field(default_factory=dict)
    alone: bool = False
    behind: BehindCuts | None = None
    rare: float = 0.0
    markov: list[Predicted] = field(default_factory=list)

    @property
    def dependence(self) -> float:
        """Variance relative to that of independent pieces."""
        return max(f.error_factor**2 for f in self.plain.values())


class Equations(ABC):
    """A log for one target, prepared for every fit.

    Parameters
    ----------
    ladder The columns of each fit.
    clock
        Columns of the time; empty if pieces begin in the middle of episodes, have one step, or traces were requested.
    lam
        The requested lambda.
    pieces
        The number of pieces behind each influence: 1, or the size of a group.
    n_steps
        Steps of the log.
    blocks
        Whether pieces are neighbouring parts of longer episodes.
    by_time
        Sums of the products of ratios and of their squares, by the time since the start.
    """

    ladder: Ladder
    clock: Floats
    lam: float
    pieces: Floats
    n_steps: int
    blocks: bool
    by_time: Floats

    @abstractmethod
    def other_lambda(self, limits: Limits) -> float:
        """The lambda of the comparison fits."""

    @abstractmethod
    def solutions(self, lam: float) -> Solutions:
        """Solve all fits. Fits with other traces use the given lambda."""

    @abstractmethod
    def piece_sums(self, solutions: Solutions, lam: float) -> PieceSums:
        """The sums per piece under every solution."""

    def visits(self, columns: Integers) -> tuple[Floats, Floats] | None:
        """The number of visits of each given column and the sum of the ratios there, if every step has exactly one of
        the columns."""
        return None

    def own_sums(self) -> FitSums | None:
        """The sums by tenth behind the plain fits, if every piece has its own influence."""
        return None

    @abstractmethod
    def some_steps(self, n_steps: int) -> Steps:
        """The first whole pieces, with about ``n_steps`` steps."""


def other_lambda(lam: float, square_ratio: float, n_pieces: float, limits: Limits = DEFAULT) -> float:
    """The lambda of the comparison fits: that of longer traces if the requested lambda is small, else 0.

    If observations are Markov states and the features suffice, both lambdas lead to the same value. Traces are 1 / (1 -
    lambda) steps long, as long as the second moment of products of ratios stays moderate.
    """
    if lam >= limits.least_lambda:
        return 0.0
    growth = np.log(max(square_ratio, 1.0 + 1e-9))
    allowed = np.clip(n_pieces / limits.pieces_per_growth, limits.least_growth, limits.largest_growth)
    steps = np.log(allowed) / growth
    other = float(np.clip(1 - 1 / max(steps, 1.0), limits.least_lambda, limits.largest_lambda))
    return max(other, lam + limits.least_lambda)


def all_fits(equations: Equations, lam: float, limits: Limits = DEFAULT) -> Fits:
    """Every fit that the decision compares."""
    solutions = equations.solutions(lam)
    sums = equations.piece_sums(solutions, lam)
    ladder, pieces = equations.ladder, equations.pieces  # groups are known only after the log was read
    fits = fits_from(solutions.every, sums, pieces, equations.n_steps)
    k, h = len(solutions.plain), len(solutions.traced)
    plain, traced, timed = ({fit.name: fit for fit in some} for some in (fits[:k], fits[k : k + h], fits[k + h :]))
    robust = {}
    if effective_products(equations.by_time, limits) >= limits.fewest_products:
        at = {s.name: j for j, s in enumerate(solutions.plain)}
        values = sums.start + sums.robust
        robust = {name: robust_fit(name, values[:, at[name]], pieces) for name in ladder.headlines}
    if equations.blocks:
        plain, traced, robust = (
            {name: as_dependent(fit, limits) for name, fit in group.items()} for group in (plain, traced, robust)
        )
    alone = equations.by_time.shape[1] < 2
    past = _fits_with_past(equations, plain)
    behind = behind_cuts(equations.some_steps(MOST_STEPS), ladder, plain)
    first = solutions.plain[[s.name for s in solutions.plain].index(GIVEN)] if GIVEN in ladder.rungs else None
    visits = None if first is None or ladder.endless else equations.visits(first.columns)
    rare = 0.0 if first is None or visits is None else rarely_visited(first, *visits, limits)
    markov = _markov_tests(equations, solutions.plain, plain, limits)
    return Fits(plain, traced, robust, timed, lam, past, alone, behind, rare, markov)


def _markov_tests(
    equations: Equations, solutions: list[Solution], plain: Mapping[str, Fit], limits: Limits
) -> list[Predicted]:
    """Tests of the Markov property, with the value function of the richest headline fit that the log supports."""
    names = [name for name in equations.ladder.headlines if not faults(plain[name], limits)]
    if not names:
        return []
    best = max(names, key=lambda name: plain[name].columns)
    solution = next(one for one in solutions if one.name == best)
    return predicted(equations.some_steps(TESTED), solution, plain[best], float(equations.pieces.sum()))


def rarely_visited(solution: Solution, visits: Floats, weights: Floats, limits: Limits = DEFAULT) -> float:
    """Share of the target's time in cells with fewer than ``fewest_visits`` visits, minus the log's own share.

    ``weights`` are the sums of the ratios of each cell. The target visits a cell as often as its weight times x.left.
    A log that never reached the goal gives a narrow interval for the value without the goal.
    """
    time = np.abs(solution.left * weights)
    few = visits < limits.fewest_visits
    return float(time[few].sum() / max(time.sum(), 1e-300) - visits[few].sum() / max(visits.sum(), 1e-300))


def _fits_with_past(equations: Equations, plain: Mapping[str, Fit]) -> dict[str, Remembered]:
    """Fits with features of the past: on the whole log if its sums can be shared, else on its first part."""
    ladder, n = equations.ladder, equations.n_steps
    sums = equations.own_sums() if n * ladder.n_headline_columns <= MOST_KNOWN else None
    if sums is None:
        return fits_with_past(equations.some_steps(most_steps(ladder)), ladder)
    return fits_with_past(equations.some_steps(n), ladder, Known(sums, plain))


class BlockEquations(Equations):
    """Equations from steps that can be read again: in memory, or rows of states in a file.

    Parameters
    ----------
    blocks
        The steps.
    ladder The columns of each fit.
    groups
        Groups of episodes whose influences are summed; None for one influence per piece.
    """

    def __init__(self, source: StepBlocks, ladder: Ladder, groups: int | None = None) -> None:
        self.source, self.ladder, self.groups = source, ladder, groups
        lengths, counts, square = np.zeros(1, np.int64), [], 0.0
        self.by_time, self.n_steps = np.zeros((2, 0)), 0
        for steps, _, group in source.chunks():
            lengths = _added(lengths, np.bincount(np.diff(steps.begins)))
            n = np.ones(steps.n_pieces) if group is None else np.bincount(group, minlength=groups or 0)
            counts.append(n.astype(np.float64))
            square += float(np.square(steps.rho).sum())
            self.by_time = _added(
                self.by_time, weights_by_time(steps, products(steps.rho, steps.discount, steps.begins))
            )
            self.n_steps += len(steps)
            self.blocks, self.lam = steps.blocks, 0.0 if steps.traced is None else steps.traced.lam
            self._table, self.sparse = steps.rows.table, steps.rows.sparse
        self.pieces = np.concatenate(counts) if groups is None else np.sum(counts, axis=0)
        self.square_ratio = square / self.n_steps
        no_time = self.blocks or self.lam > 0 or len(lengths) < 3
        self.clock = NO_CLOCK if no_time else clock_of(lengths)
        self._sums: SparseMoments | None = None
        self._plain: FitSums | None = None

    @property
    def sparse_moments(self) -> SparseMoments:
        """The sums for cells, computed only once, since they do not depend on lambda."""
        if self._sums is None:
            self._sums = read_sparse_moments(self.source, self._table)
        return self._sums

    def some_steps(self, n_steps: int) -> Steps:
        return self.source.first(n_steps)

    def other_lambda(self, limits: Limits) -> float:
        return other_lambda(self.lam, self.square_ratio, float(self.pieces.sum()), limits)

    def moments(self, lam: float) -> Moments:
        """The sums of dense rows by tenths of the pieces."""
        total = Moments.zeros(self.source.tenths, shape_of(self.ladder, self.clock))
        for steps, tenth, _ in self.source.chunks():
            read_moments(total, steps, tenth, lam, self.clock)
        return total

    def solutions(self, lam: float) -> Solutions:
        if self.sparse:
            return solve_sparse(self.sparse_moments, self.source, self.ladder, lam, self.clock, self.lam > 0)
        moments = self.moments(lam)
        self._plain = plain_sums(moments.tenths())
        return solve_all(moments, self.ladder, self.clock)

    def visits(self, columns: Integers) -> tuple[Floats, Floats] | None:
        sums: Any = self.sparse_moments if self.sparse else self._plain
        # the log's own policy, or pairs with actions: ratios do not show where the target goes
        if not np.any(sums.missing):
            return None
        C = sums.C[columns][:, columns]
        count = C.diagonal()
        of_each = C.sum(axis=0)
        if not np.allclose(count, of_each) or round(float(count.sum())) != self.n_steps:
            return None
        return count, count - sums.missing[columns]

    def own_sums(self) -> FitSums | None:
        if self.groups is not None or self.ladder.n_headline_columns > MOST_COLUMNS:
            return None
        return self.sparse_moments.dense(self.ladder.n_headline_columns) if self.sparse else self._plain

    def piece_sums(self, solutions: Solutions, lam: float) -> PieceSums:
        reader = PieceReader(solutions, self.ladder.n_columns, lam, self.clock)
        by_piece: list[Floats] = []
        by_fit = np.zeros((SUMS, reader.k))
        total = np.zeros((self.groups or 0, 3, reader.k))
        for steps, _, group in self.source.chunks():
            own, sums = reader.read(steps, products(steps.rho, steps.discount, steps.begins))
            by_fit += sums
            if group is None:
                by_piece.append(own)
            else:
                np.add.at(total, group, own)
        return summed(total if self.groups else np.concatenate(by_piece), by_fit, self.n_steps)


class GroupEquations(Equations):
    """Equations of a log that is read once, from sums by group of episodes.

    Parameters
    ----------
    read
        A function that returns the sums of the whole log, for a lambda.
    ladder, clock
        The fits, and columns of the time.
    sample
        Steps of sampled episodes, in which missing choices and observed TD errors are measured.
    other
        The lambda of the comparison fits. It is chosen before the log is read and does not change when files are added
        to kept sums.
    """

    def __init__(
        self, read: Callable[[float], Any], ladder: Ladder, clock: Floats, sample: Steps, other: float
    ) -> None:
        self._read, self.ladder, self.clock, self.sample = read, ladder, clock, sample
        self.lam = 0.0 if sample.traced is None else sample.traced.lam
        self.blocks, self._other = False, other
        self._sums: dict[float, Any] = {}

    def some_steps(self, n_steps: int) -> Steps:
        return first_pieces(self.sample, n_steps)

    def other_lambda(self, limits: Limits) -> float:
        return self._other

    def sums(self, lam: float) -> Any:
        """The sums of the log, cached for the last lambda."""
        if lam not in self._sums:
            made = self._read(lam)
            self._sums = {lam: made}
            self.pieces, self.by_time = made.moments.pieces, made.steps.by_time
            self.n_steps = int(made.steps["steps"])
        return self._sums[lam]

    def moments(self, lam: float) -> Moments:
        made: Moments = self.sums(lam).moments
        return made

    @property
    def last(self) -> Any:
        """The sums that were read last."""
        return next(iter(self._sums.values()))

    def solutions(self, lam: float) -> Solutions:
        return solve_all(self.moments(lam), self.ladder, self.clock)

    def piece_sums(self, solutions: Solutions, lam: float) -> PieceSums:
        reader = PieceReader(solutions, self.ladder.n_columns, lam, self.clock)
        seen = summed(*reader.read(self.sample), len(self.sample))
        seen = seen._replace(met=seen.met * (self.n_steps / len(self.sample)))
        return by_group(self.moments(lam), solutions, self.clock, seen, self.n_steps)


def _added(a: Any, b: Any) -> Any:
    """The sum of two arrays that may differ in length along the last axis."""
    long, short = (a, b) if a.shape[-1] >= b.shape[-1] else (b, a)
    out = long.copy()
    out[..., : short.shape[-1]] += short
    return out


def run_products(rho: Any, discount: Any, begins: Integers, w: Floats) -> None:
    """The product of ratios and discounts of a piece, up to and including each step."""
    for e in range(begins.shape[0] - 1):
        product, g = 1.0, 1.0
        for t in range(begins[e], begins[e + 1]):
            product *= rho[t]
            w[t] = g * product
            g *= discount[t]


def products(rho: Any, discount: Any, begins: Integers) -> Floats:
    """The weight of every step's TD error in the doubly robust estimate. It is infinite where it overflows."""
    w = np.empty(len(rho))
    rho, discount = (np.ascontiguousarray(a, np.float64) for a in (rho, discount))
    engine.compile_once(run_products)(rho, discount, begins, w)
    return w


def weights_by_time(steps: Steps, w: Floats) -> Floats:
    """Sums of the weights ``w`` and of their squares, by the time since the start of a piece."""
    since = np.arange(len(steps)) - np.repeat(steps.begins[:-1], np.diff(steps.begins))
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array([np.bincount(since, w), np.bincount(since, w**2)])


def effective_products(by_time: Floats, limits: Limits = DEFAULT) -> float:
    """The smallest effective number of pieces at any time whose total weight is large enough to matter."""
    total, square = by_time
    with np.errstate(over="ignore", invalid="ignore"):
        matters = total > limits.late_weight * total[0]
        made = total[matters] ** 2 / np.maximum(square[matters], 1e-300)
    return float(made.min()) if len(made) and np.isfinite(made).all() else 0.0
