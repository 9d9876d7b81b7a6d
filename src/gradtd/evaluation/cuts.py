"""Computes the value after truncations, and checks whether late steps agree with it.

At a truncation, the value of the last observation replaces the later rewards, which the log does not contain. If
observations are Markov states, a fit on late steps alone gives the same values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.evaluation.designs.base import Ladder, Rows, Steps, rows_of_chunk
from gradtd.evaluation.fits import Equations, Fit, columns_as_slice, solve
from gradtd.evaluation.moments import group_edges

MOST_STEPS = 30_000
"""Approximate number of steps to read. Both fits use the same steps."""
FEWEST_CUT = 20
"""Minimum number of truncated pieces for this check."""
MOST_COLUMNS = 200
"""Maximum number of feature columns for this check."""


class BehindCuts(NamedTuple):
    """The mean discounted value after truncations, fitted to all steps and to late steps.

    ``whole`` is the total value with the same features.
    """

    plain: Fit
    late: Fit
    whole: float

    @property
    def share(self) -> float:
        """The share of the value after truncations."""
        return abs(self.plain.value) / max(abs(self.whole), 1e-300)


def behind_cuts(steps: Steps, ladder: Ladder, plain: Mapping[str, Fit]) -> BehindCuts | None:
    """Fit the value after truncations to all steps and to late steps, with the richest headline that has few columns.
    None if few pieces are truncated.

    ``plain`` contains the fits to all steps by name. The value after truncations is a part of their value.
    """
    last = steps.begins[1:] - 1
    discount = np.asarray(steps.discount, np.float64)
    cut = discount[last] > 0
    lengths = np.diff(steps.begins)
    if steps.blocks or steps.traced is not None or cut.sum() < FEWEST_CUT or int(lengths.max()) < 4:
        return None
    most = max(8, min(MOST_COLUMNS, steps.n_pieces // 4))
    fitting = [name for name in ladder.headlines if len(ladder.rungs[name]) <= most]
    if not fitting:
        return None
    name = max(fitting, key=lambda one: len(ladder.rungs[one]))
    columns = ladder.rungs[name]
    rows = steps.rows.first(1 + int(columns.max()))
    parts = [_part(steps, rows, columns, *ends) for ends in pairwise(steps.begins[group_edges(steps.n_pieces)])]
    since = np.arange(len(steps)) - np.repeat(steps.begins[:-1], lengths)
    late = since >= np.median(lengths[cut]) / 2
    left_over = np.multiply.reduceat(discount, steps.begins[:-1])  # the discount after the last step
    ends = np.where(cut, left_over, 0.0)[:, None] * rows.at(np.asarray(rows.next_row)[last])[:, columns]
    C = np.sum([_dense(x.T @ x) for x, _, _ in parts], axis=0)
    rho = np.asarray(steps.rho, np.float64)
    every, only = (_fit(name, parts, weights, C, ends, steps.begins) for weights in (rho, rho * late))
    return BehindCuts(every, only, plain[name].value)


def _part(steps: Steps, rows: Rows, columns: Integers, first: int, last: int) -> tuple[Any, Any, Floats]:
    """Features x, y = discount x_next - x, and the rewards of the given steps. x and y are sparse if the table is."""
    some = slice(int(first), int(last))
    made, here, there = rows_of_chunk(rows, some, rows.writer())
    made = made[:, columns_as_slice(columns)]
    x, discount = made[here], np.asarray(steps.discount[some], np.float64)
    return x, _weighted(made[there], discount) - x, np.asarray(steps.reward[some], np.float64)


def _weighted(rows: Any, weights: Floats) -> Any:
    return weights[:, None] * rows if isinstance(rows, np.ndarray) else rows.multiply(weights[:, None]).tocsr()


def _dense(matrix: Any) -> Floats:
    return np.asarray(matrix if isinstance(matrix, np.ndarray) else matrix.toarray())


def _fit(
    name: str, parts: Sequence[tuple[Any, Any, Floats]], weights: Floats, C: Floats, starts: Floats, begins: Integers
) -> Fit:
    """LSTD on weighted steps, its value at ``starts`` (one row per piece), and the influences of pieces.

    ``parts`` are the steps of each tenth; ``C`` is of all steps.
    """
    edges = group_edges(len(starts))
    of_parts = np.split(weights, begins[edges[1:-1]])
    sums = Equations(
        np.array([_dense(x.T @ _weighted(y, w)) for (x, y, _), w in zip(parts, of_parts, strict=True)]),
        np.array([x.T @ (w * reward) for (x, _, reward), w in zip(parts, of_parts, strict=True)]),
        C,
        np.array([starts[a:b].sum(axis=0) for a, b in pairwise(edges)]),
        np.diff(edges).astype(np.float64),
        np.zeros(len(C)),
    )
    solved = solve(name, sums, np.arange(len(C)))
    moved = np.concatenate([(reward + y @ solved.theta) * (x @ solved.left) for x, y, reward in parts])
    pull = np.add.reduceat(weights * moved, begins[:-1])
    psi = starts @ solved.theta - solved.value - len(starts) * pull
    return Fit(name, solved.value, psi, solved.bias, solved.rank)
