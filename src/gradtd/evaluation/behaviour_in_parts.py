"""The behaviour policy's own value for a log in parts, in the features chosen for the target and with all ratios 1.

Its influences are by the same groups of episodes as those of the target, so the difference of the two is paired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.evaluation.checks import BlockEquations, products
from gradtd.evaluation.designs.base import Steps
from gradtd.evaluation.estimators.least_squares import LeastSquares, Sums, solve_sums
from gradtd.evaluation.fits import Fit, Solution, Solutions
from gradtd.evaluation.influences import fits_from, psi_of, robust_fit
from gradtd.evaluation.moments import Moments
from gradtd.evaluation.step_blocks import Group, StepBlocks

NAME = "behaviour"


def of_groups(sums: Moments, columns: Integers, n_steps: float) -> Fit:
    """State values of continuous observations, from sums by group."""
    pick, pieces = np.ix_(columns, columns), sums.pieces
    A, b = sums.behaviour[:, columns[:, None], columns], sums.behaviour[:, columns, -1]
    starts = sums.starts[:, columns]
    means = Sums(A.sum(axis=0) / n_steps, b.sum(axis=0) / n_steps, sums.C[pick] / n_steps)
    found = solve_sums(means, starts.sum(axis=0) / pieces.sum())
    pull = (A @ found.theta + b) @ found.left / n_steps
    return Fit(NAME, found.value, psi_of(starts @ found.theta, pull, found.value, pieces), 0.0, 0)


def of_states(
    equations: BlockEquations, columns: Integers, solve: Callable[[BlockEquations, Integers], LeastSquares]
) -> Fit:
    """State values of discrete observations, from stored steps."""
    own = BlockEquations(_Behaviour(equations.source), equations.ladder, equations.groups)
    found = solve(own, columns)
    left, nothing = found.left / own.n_steps, np.zeros(len(columns))
    solved = [Solution(NAME, columns, found.theta, left, found.value, 0.0, 0, nothing)]
    return fits_from(solved, own.piece_sums(Solutions(solved, [], []), 0.0), own.pieces, own.n_steps)[0]


def of_returns(returns: Floats, pieces: Floats) -> Fit:
    """The mean return of episodes that all terminated, from sums by group. Equations of pairs hold the target's
    choices."""
    return robust_fit(NAME, returns, pieces)


def returns_of(source: StepBlocks, groups: int) -> Floats:
    """The sum of the returns of every group's episodes, from stored steps."""
    made = np.zeros(groups)
    for steps, _, group in source.chunks():
        assert group is not None
        weights = products(np.ones(len(steps)), steps.discount, steps.begins)
        made += np.bincount(group, np.add.reduceat(weights * steps.reward, steps.begins[:-1]), groups)
    return made


@dataclass(frozen=True, eq=False)
class _Behaviour(StepBlocks):
    """The same steps, all with ratio 1 and without traces."""

    source: StepBlocks

    @property
    def tenths(self) -> int:  # type: ignore[override]
        return self.source.tenths

    def chunks(self) -> Iterator[Group]:
        for steps, tenth, group in self.source.chunks():
            yield Group(_with_ones(steps), tenth, group)

    def of_tenths(self, tenths: Sequence[int] | None = None) -> Iterator[tuple[int, Steps]]:
        for tenth, steps in self.source.of_tenths(tenths):
            yield tenth, _with_ones(steps)

    def first(self, n_steps: int) -> Steps:
        return _with_ones(self.source.first(n_steps))


def _with_ones(steps: Steps) -> Steps:
    return replace(steps, rho=np.ones(len(steps)), traced=None)
