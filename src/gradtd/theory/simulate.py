"""Simulation under the assumption of the exact theory: a fresh pair of independent batches at every step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.theory.exact import Source, start_weights, step_numbers
from gradtd.theory.laws import law


def simulate(
    source: Source,
    alpha: float,
    m1: int,
    m2: int | None = None,
    *,
    steps: int | Iterable[int],
    runs: int = 100,
    seed: int = 0,
    theta0: Any = None,
    symmetric: bool = False,
) -> Floats:
    """|theta_t - theta*|^2 of each run after each of ``steps`` updates: shape (runs, steps).

    Its mean over runs is an unbiased estimate of `error_curve`. Cost: O(runs (m1 + m2) d) a step, in NumPy. A run that
    diverges keeps its last finite error.

    >>> errors = simulate("boyan_chain", 10, 10, steps=[0, 200], runs=50)
    >>> errors.shape, round(float(errors[0, 0]), 6)
    ((50, 2), 896.0)
    """
    one, at = law(source), step_numbers(steps)
    if one.square is not None:
        raise InputError(
            f"the traces of {one.name} have no finite list of values to draw from: simulate from the law of a long "
            "stream, gradtd.theory.law(gradtd.sample(...), lam=...)."
        )
    alpha = checks.number_above("alpha", alpha, 0.0)
    m1, runs = checks.whole_number("m1", m1, 1), checks.whole_number("runs", runs, 1)
    m2 = m1 if m2 is None else checks.whole_number("m2", m2, 1)
    rng = np.random.default_rng(checks.whole_number("seed", seed, 0))
    bounds, last = np.cumsum(one.p), len(one.p) - 1
    seen = one.singular_values[1]
    theta = np.tile(start_weights(theta0, one), (runs, 1))

    def draw(m: int) -> Any:
        return np.minimum(np.searchsorted(bounds, rng.random((runs, m))), last)

    def vectors(k: Any) -> tuple[Floats, Floats]:
        x, after = one.features[one.row[k]], one.features[one.next_row[k]]
        return one.left[one.row[k]], one.rho[k][..., None] * (one.discount[k][..., None] * after - x)

    def direction(outer: tuple[Floats, Floats], inner: tuple[Floats, Floats], c: Floats) -> Floats:
        delta = np.einsum("rmd,rd->rm", inner[1], theta) + c
        u = np.einsum("rm,rmd->rd", delta, inner[0]) / delta.shape[1]
        along = np.einsum("rmd,rd->rm", outer[0], u) / outer[0].shape[1]
        return np.asarray(np.einsum("rm,rmd->rd", along, outer[1]))

    out, place = np.empty((runs, len(at))), 0
    for t in range(int(at[-1]) + 1):
        if t == at[place]:
            out[:, place] = (((theta - one.theta_star) @ seen.T) ** 2).sum(axis=1)
            place += 1
        if place == len(at):
            break
        k1, k2 = draw(m1), draw(m2)
        first, second = vectors(k1), vectors(k2)
        with np.errstate(over="ignore", invalid="ignore"):
            g = direction(first, second, one.c[k2])
            if symmetric:
                g = (g + direction(second, first, one.c[k1])) / 2
            moved = theta - alpha * g
        theta = np.where(np.isfinite(moved).all(axis=1, keepdims=True) & (np.abs(moved) < 1e150), moved, theta)
    return out
