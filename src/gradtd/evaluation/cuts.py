"""The value after truncations, and whether late steps agree on it.

At a truncation, the value of the last observation replaces the later rewards, which the log does not contain. If
observations are Markov states, a fit on late steps alone gives the same values.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.evaluation.designs.base import Ladder, Steps, rows_of_chunk
from gradtd.evaluation.fits import Equations, Fit, solve
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
    """Both fits, for the richest headline with few columns; None if few pieces are truncated.

    ``plain`` contains the fits of all steps, by name, of whose value the value after truncations is a part.
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
    made, here, there = rows_of_chunk(rows, slice(0, len(steps)), rows.writer())
    made = made[:, columns]
    x, after = (np.asarray(one if isinstance(one, np.ndarray) else one.toarray()) for one in (made[here], made[there]))
    since = np.arange(len(steps)) - np.repeat(steps.begins[:-1], lengths)
    late = since >= np.median(lengths[cut]) / 2
    left_over = np.multiply.reduceat(discount, steps.begins[:-1])  # the discount after the last step
    ends = np.where(cut, left_over, 0.0)[:, None] * after[last]
    y, z = discount[:, None] * after - x, np.asarray(steps.rho, np.float64)[:, None] * x
    reward, C = np.asarray(steps.reward, np.float64), x.T @ x
    every, only = (_fit(name, (y, some, reward), C, ends, steps.begins) for some in (z, z * late[:, None]))
    return BehindCuts(every, only, plain[name].value)


def _fit(name: str, of_steps: tuple[Floats, Floats, Floats], C: Floats, starts: Floats, begins: Integers) -> Fit:
    """LSTD on steps, its value at ``starts``, one row for each piece, and the influences of pieces.

    The left factors z are 0 in steps that do not count; ``C`` is of all steps.
    """
    y, z, reward = of_steps
    edges = group_edges(len(starts))
    parts = [slice(int(begins[a]), int(begins[b])) for a, b in pairwise(edges)]
    sums = Equations(
        np.array([z[part].T @ y[part] for part in parts]),
        np.array([z[part].T @ reward[part] for part in parts]),
        C,
        np.array([starts[a:b].sum(axis=0) for a, b in pairwise(edges)]),
        np.diff(edges).astype(np.float64),
        np.zeros(len(C)),
    )
    solved = solve(name, sums, np.arange(len(C)))
    pull = np.add.reduceat((reward + y @ solved.theta) * (z @ solved.left), begins[:-1])
    psi = starts @ solved.theta - solved.value - len(starts) * pull
    return Fit(name, solved.value, psi, solved.bias, solved.rank)
