"""Rungs and checkers of a log: the fits that are compared, all from shared sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradtd.evaluation.trust.cells import cell_fits
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
    """Fits by the name of their columns: as asked for, with traces of another lambda ``lam``, doubly robust."""

    plain: dict[str, Fit]
    traced: dict[str, Fit]
    robust: dict[str, Fit]
    lam: float

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


def all_fits(record: Record, wide: Wide, lam: float | None = None) -> Fits:
    """Fits of every rung and checker; of headlines also with other traces and, where it can be, doubly robust."""
    lam = other_lambda(record) if lam is None else lam
    solved = cell_fits(record, wide, lam) if wide.sparse else dense_fits(record, wide, lam)
    weights = products(record)
    robust = effective_products(record, weights) >= PRODUCTS
    fits, with_traces, parts = fit_many(record, wide, solved, lam, weights if robust else None)
    plain, traced = {fit.name: fit for fit in fits}, {fit.name: fit for fit in with_traces}
    checked = {}
    if robust:
        at = {name: j for j, name in enumerate(wide.rungs)}
        checked = {name: as_fit(name, parts[:, at[name]]) for name in wide.headlines}
    if record.blocks:
        plain, traced, checked = (
            {name: as_dependent(fit) for name, fit in group.items()} for group in (plain, traced, checked)
        )
    return Fits(plain, traced, checked, lam)
