"""Cosines of the observations by total degree: a ladder of maps, of which a shorter one is a part of a longer one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, ClassVar

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.features.base import FEATURE_LIMIT, Features
from gradtd.features.table import Table, refuse_constant

SAMPLE = 20_000
"""Observations that quantiles are taken of, at most."""
RANKED, KNOTS = 6, 65
"""Columns up to which observations are scaled by rank too, and quantiles of each."""


def frequencies(columns: int, most: int) -> tuple[Integers, list[int]]:
    """Whole vectors c by their sum, at most ``most`` of them, and how many have a sum up to 0, 1, 2, ...

    >>> frequencies(2, 6)
    (array([[0, 0],
           [1, 0],
           [0, 1],
           [2, 0],
           [1, 1],
           [0, 2]]), [1, 3, 6])
    """
    kept: list[tuple[int, ...]] = []
    rungs: list[int] = []
    for degree in range(most):
        for chosen in combinations_with_replacement(range(columns), degree):
            kept.append(tuple(chosen.count(k) for k in range(columns)))
            if len(kept) > most:
                break
        if len(kept) > most:
            break
        rungs.append(len(kept))
    return np.array(kept[:most], np.int64).reshape(-1, columns), rungs


@dataclass(frozen=True, eq=False)
class Cosines(Features):
    """The first n products prod_k cos(pi c_k u_k), by the total degree sum_k c_k; the first is the bias.

    Every column is scaled to [0, 1], half by its range and half by its rank, where there are at most 6 columns: places
    that are visited often get more room. A column that never changes adds nothing.

    Parameters
    ----------
    n : int
        How many products there are, the bias included.

    >>> Cosines(n=3).fit([[0.0], [4.0]]).transform([[2.0], [99.0]]).round(12) + 0.0
    array([[ 1.,  0., -1.],
           [ 1., -1.,  1.]])
    """

    name: ClassVar[str] = "cosines"
    LEARNED = {"lowest": ("columns",), "span": ("columns",), "knots": ("columns", None), "counts": ("columns",)} | {
        "varies": (None,)
    }
    n: int = 16

    def __post_init__(self) -> None:
        self._checked(n=checks.whole_number("n", self.n, 1, FEATURE_LIMIT))

    def _title(self) -> str:
        return "Cosines by total degree"

    def _size(self, n_columns: int) -> int:
        return self.n

    def _learn(self, table: Table) -> dict[str, Any]:
        low, high = np.full(table.n_columns, np.inf), np.full(table.n_columns, -np.inf)
        for _, chunk in table.chunks():
            low, high = np.minimum(low, chunk.min(axis=0)), np.maximum(high, chunk.max(axis=0))
        if not (high > low).any():
            refuse_constant(table, low, high)
        with np.errstate(over="ignore"):
            span = np.where(high > low, high - low, 1.0)
        if not np.isfinite(span).all():
            j = int(np.argmin(np.isfinite(span)))
            raise InputError(
                f"{table.column(j)} goes from {low[j]:g} to {high[j]:g}, which cannot be scaled: rescale it."
            )
        ranked = table.n_columns <= RANKED
        knots, counts = np.zeros((table.n_columns, KNOTS if ranked else 1)), np.zeros(table.n_columns, np.int64)
        if ranked:
            for k, column in enumerate(table.sample(SAMPLE).T):
                found = np.unique(np.quantile(column, np.linspace(0, 1, KNOTS)))
                knots[k, : len(found)], counts[k] = found, len(found)
        varies = np.flatnonzero(high > low)
        return {"lowest": low, "span": span, "knots": knots, "counts": counts, "varies": varies}

    def _fill(self, chunk: Floats, out: Floats) -> None:
        fill_cosines(self._unit(chunk)[:, self.learned["varies"]], self._frequencies(), out)

    def _frequencies(self) -> Integers:
        return frequencies(max(len(self.learned["varies"]), 1), self.n)[0]

    def _unit(self, chunk: Floats) -> Floats:
        unit = np.clip((chunk - self.learned["lowest"]) / self.learned["span"], 0.0, 1.0)
        for k, count in enumerate(self.learned["counts"]):
            if count > 1:
                rank = np.interp(chunk[:, k], self.learned["knots"][k, :count], np.linspace(0, 1, count))
                unit[:, k] = 0.5 * (unit[:, k] + rank)
        return np.asarray(unit)

    def label(self, index: int) -> str:
        pairs = zip(self.learned["varies"], self._frequencies()[index], strict=True)
        terms = [f"cos(pi {f'{times} ' if times > 1 else ''}x{k})" for k, times in pairs if times]
        return " ".join(terms) or "bias"


def fill_cosines(unit: Floats, c: Integers, out: Floats) -> None:
    """prod_k cos(pi c_k u_k), one column for every c."""
    waves = np.cos(np.pi * unit.T[:, None, :] * np.arange(1, int(c.max(initial=1)) + 1)[:, None])
    for j, times in enumerate(c):
        used = np.flatnonzero(times)
        if len(used) == 0:
            out[:, j] = 1.0
            continue
        out[:, j] = waves[used[0], times[used[0]] - 1]
        for k in used[1:]:
            out[:, j] *= waves[k, times[k] - 1]
