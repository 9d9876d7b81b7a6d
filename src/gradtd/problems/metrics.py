"""Metrics on weights: ``metric(exact, thetas[..., d])`` gives ``values[...]``. They never run inside the loop.

NEU, MSPBE and the distance use A and b of ``exact``, which include traces for ``exact(problem, lam=...)``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats, dense
from gradtd.core.checks import InputError
from gradtd.core.stream import Stream
from gradtd.problems.base import Problem
from gradtd.problems.exact import SINGULAR, Exact, exact, largest_value, rank


def rmsve(exact: Exact, thetas: Floats, weights: str = "uniform") -> Floats:
    """Root mean squared value error over the states an episode can be in.

    sqrt(sum_s w(s) (v_pi(s) - phi(s).theta)^2), with w uniform as in the paper, or ``weights="d_mu"``.
    """
    checks.one_of("weights", weights, ("uniform", "d_mu"))
    states = exact.states
    error = thetas @ exact.problem.features[states].T - exact.v_pi[states]
    w = exact.d_mu[states] if weights == "d_mu" else np.full(len(states), 1 / len(states))
    return np.asarray(np.sqrt(error**2 @ w))


def neu(exact: Exact, thetas: Floats) -> Floats:
    """Norm of the expected update, squared: |A theta + b|^2 (eq. Ab)."""
    return np.asarray((_expected_update(exact, thetas) ** 2).sum(axis=-1))


def mspbe(exact: Exact, thetas: Floats) -> Floats:
    """Mean squared projected Bellman error: (A theta + b)' C^{-1} (A theta + b)."""
    update = _expected_update(exact, thetas)
    inverse = np.linalg.pinv(exact.C, rcond=SINGULAR, hermitian=True)
    return np.asarray(np.maximum(np.einsum("...i,ij,...j", update, inverse, update), 0.0))


def rmspbe(exact: Exact, thetas: Floats) -> Floats:
    """Root of the mean squared projected Bellman error."""
    return np.asarray(np.sqrt(mspbe(exact, thetas)))


def msbe(exact: Exact, thetas: Floats) -> Floats:
    """Mean squared Bellman error under d_mu: E[(r_pi + gamma P_pi v - v)^2]."""
    values = thetas @ exact.problem.features.T
    error = exact.r_pi + values @ exact.p_pi.T - values
    return np.asarray(error**2 @ exact.d_mu)


def distance(exact: Exact, thetas: Floats) -> Floats:
    """Distance to theta_star, or to the set of TD solutions if A is singular."""
    directions = np.linalg.svd(exact.A)[2]
    seen = directions[: rank(exact.A, largest_value(exact.C))]
    return np.asarray(np.linalg.norm((thetas - exact.theta_star) @ seen.T, axis=-1))


METRICS: dict[str, Callable[..., Floats]] = {
    metric.__name__: metric for metric in (rmsve, neu, mspbe, rmspbe, msbe, distance)
}


def empirical_neu(
    stream: Stream,
    first: Any,
    second: Any,
    thetas: Floats,
    kernel: Callable[[Floats, Floats], float] | None = None,
) -> Floats:
    """NEU estimated from two sets of step indices: the mean over pairs of sim(s1, s2) delta_1 delta_2.

    The estimate of Section 4 of the paper, divided by the number of pairs. Every delta is multiplied by its ratio. It
    is unbiased if the two sets come from different episodes.

    Parameters
    ----------
    stream : Stream
        The experience.
    first, second : list of int, or mask
        The two sets: indices of steps, or True for the steps that belong to it.
    thetas : array
        Weights, in the last dimension.
    kernel : callable, optional
        The similarity, ``kernel(phi_1, phi_2)``, which makes it the K-loss. By default the inner product of features.
    """
    if not isinstance(stream, Stream):
        raise InputError(f"empirical_neu needs a Stream, got {type(stream).__name__}.")
    thetas = np.asarray(thetas)
    if thetas.dtype.kind not in "iuf" or thetas.shape[-1:] != (stream.n_features,):
        raise InputError(f"thetas need {stream.n_features} numbers in their last dimension, got shape {thetas.shape}.")
    errors_1, x_1 = _td_errors(stream, first, thetas)
    errors_2, x_2 = _td_errors(stream, second, thetas)
    if kernel is None:
        u_1, u_2 = errors_1 @ x_1 / len(x_1), errors_2 @ x_2 / len(x_2)
        return np.asarray((u_1 * u_2).sum(axis=-1))
    similarity = np.array([[kernel(a, b) for b in x_2] for a in x_1])
    return np.asarray(np.einsum("...i,ij,...j", errors_1, similarity, errors_2) / similarity.size)


def _td_errors(stream: Stream, indices: Any, thetas: Floats) -> tuple[Floats, Floats]:
    mask = np.asarray(indices)
    if mask.dtype == bool and mask.shape == (len(stream),):
        indices = np.flatnonzero(mask)
    chosen = checks.whole_numbers("a set of steps", indices)
    if len(chosen) == 0:
        raise InputError("empirical NEU needs at least one step in each set, got an empty one.")
    outside = (chosen < 0) | (chosen >= len(stream))
    checks.refuse_where("a set of steps", outside, chosen, f"must lie in 0 to {len(stream) - 1}")
    steps = stream.steps[chosen]
    x, after = (dense(stream.features[steps[name]]) for name in ("row", "next_row"))
    difference = steps["discount"][:, None] * after - x
    return steps["rho"] * (steps["reward"] + thetas @ difference.T), x


def _expected_update(exact: Exact, thetas: Floats) -> Floats:
    return np.asarray(thetas @ exact.A.T + exact.b)


@lru_cache(maxsize=64)
def cached_exact(problem: Problem, lam: float = 0.0, trace: str = "rho") -> Exact:
    """`exact`, cached per problem."""
    return exact(problem, lam, trace)
