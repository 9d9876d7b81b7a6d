"""Rungs and checkers of a log: the fits that are compared, all from shared sums."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.evaluation.trust.cells import cell_fits
from gradtd.evaluation.trust.clock import clock_of
from gradtd.evaluation.trust.fits import Fit, dense_fits, fit_many
from gradtd.evaluation.trust.records import Record, Wide
from gradtd.evaluation.trust.robust import as_fit, effective_products, products
from gradtd.evaluation.trust.size import as_dependent

TRACES = (0.4, 0.9)
"""Least and largest lambda of the fits with memory."""
LEAST_TRACE = 0.2
"""Least lambda of a second try, where the first had too much variance."""
GROWTH = (1.5, 4.0)
"""The second moment that products of ratios may reach over a trace: pieces / 50, between these."""
PIECES = 50
PRODUCTS = 20.0
"""Effective pieces that products of ratios must leave for doubly robust to be a check."""


@dataclass(frozen=True, eq=False)
class Fits:
    """Fits by the name of their columns: as asked for, with traces of another lambda ``lam``, doubly robust.

    And with the time since the start beside the features, where it can be made.
    """

    plain: dict[str, Fit]
    traced: dict[str, Fit]
    robust: dict[str, Fit]
    lam: float
    timed: dict[str, Fit] = field(default_factory=dict)

    @property
    def times(self) -> float:
        """How many times larger the variance is than that of independent pieces."""
        return max(f.error_factor**2 for f in self.plain.values())


def trace_of(record: Record) -> float:
    """The lambda whose traces, 1 / (1 - lambda) steps long, keep the second moment of products of ratios moderate."""
    growth = np.log(max(float(np.square(record.rho).mean()), 1.0 + 1e-9))
    steps = np.log(np.clip(record.n_pieces / PIECES, *GROWTH)) / growth
    return float(np.clip(1 - 1 / max(steps, 1.0), *TRACES))


def other_lambda(record: Record) -> float:
    """The lambda that the value asked for is compared with: one with more memory, where that has little, else 0.

    Where observations tell all that matters, and the features suffice, both have one answer.
    """
    if record.lam < TRACES[0]:
        return max(trace_of(record), record.lam + TRACES[0])
    return 0.0


def clock_for(record: Record) -> Floats | None:
    """Columns of the time; none where pieces begin anywhere in an episode, have one step, or traces are asked for."""
    if record.blocks or record.traced is not None or np.diff(record.begins).max() < 2:
        return None
    return clock_of(record.begins)


def all_fits(record: Record, wide: Wide, lam: float | None = None) -> Fits:
    """Fits of every rung and checker; of headlines also with other traces, the time and, where it can be, robust."""
    lam = other_lambda(record) if lam is None else lam
    clock = clock_for(record)
    solved = cell_fits(record, wide, lam, clock) if wide.sparse else dense_fits(record, wide, lam, clock)
    weights = products(record)
    robust = effective_products(record, weights) >= PRODUCTS
    fits, parts = fit_many(record, wide, solved, lam, weights if robust else None, clock)
    k, h = len(wide.rungs | wide.checkers), len(wide.headlines)
    plain, traced, timed = ({fit.name: fit for fit in some} for some in (fits[:k], fits[k : k + h], fits[k + h :]))
    checked = {}
    if robust:
        at = {name: j for j, name in enumerate(wide.rungs)}
        checked = {name: as_fit(name, parts[:, at[name]]) for name in wide.headlines}
    if record.blocks:
        plain, traced, checked = (
            {name: as_dependent(fit) for name, fit in group.items()} for group in (plain, traced, checked)
        )
    return Fits(plain, traced, checked, lam, timed)
