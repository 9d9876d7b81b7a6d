"""The exact mean-square theory of theta <- theta - alpha A1'(A2 theta + b2) with fresh, independent batches.

These are exact values under independent draws, not bounds. Each function takes a law (see `gradtd.theory.law`) or the
source of one, the batch sizes ``m1`` (gradient) and ``m2`` (TD error, by default m1), and three options:

``symmetric=True``     the mean of both directions, as with ``directions="averaged"`` of Impression GTD;
``replacement=False``  batches without replacement from the steps of an empirical law;
``second=law``         batch 2 comes from another law: two fixed buffers.

If A is singular, theta moves only in span{d_k}, and errors are measured in the row space of A.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.core.stream import Stream
from gradtd.problems.base import Problem
from gradtd.running.runs import start_weights
from gradtd.theory.laws import Law, law
from gradtd.theory.meansquare import Readout
from gradtd.theory.moments import Batches, OneDirection, Symmetric, TwoBuffers, refuse_long_problem

Source = Law | Problem | Stream | str


@dataclass(frozen=True, eq=False)
class Curve:
    """Expected errors over time: E|theta_t - theta*|^2, E|A theta_t + b|^2 (NEU) and |E theta_t - theta*|^2."""

    steps: Integers
    error: Floats
    neu: Floats
    mean_error: Floats


def stability_threshold(source: Source, m1: int, m2: int | None = None, **options: Any) -> float:
    """alpha*: E|theta_t - theta*|^2 stays bounded if and only if the step-size is below alpha*; 0 if no step-size is
    stable.

    alpha* = 1 / (spectral radius of U^{-1} V). It is symmetric in m1 and m2, increases with both, and tends to 2 /
    |A|^2.

    >>> alpha_star = stability_threshold("boyan_chain", 10)
    >>> round(10 / alpha_star, 3)
    0.126
    """
    return moments(source, m1, m2, **options).threshold


def rate(source: Source, alpha: float, m1: int, m2: int | None = None, **options: Any) -> float:
    """rho(alpha): the factor by which the mean square contracts per step; 1 at alpha*, larger above.

    The spectral radius of M -> M - alpha U(M) + alpha^2 V(M).

    >>> round(rate("boyan_chain", 10, 10), 4)
    0.9662
    """
    return moments(source, m1, m2, **options).rate(_alpha(alpha))


def floor(source: Source, alpha: float, m1: int, m2: int | None = None, **options: Any) -> float:
    """The limit of E|theta - theta*|^2, the trace of alpha (U - alpha V)^{-1}(N); infinite from alpha* on.

    For two fixed buffers the error is relative to their own limit, -A2^{-1} b2.

    >>> round(floor("boyan_chain", 10, 10), 2)
    0.65
    """
    return float(np.trace(stationary(source, alpha, m1, m2, **options)))


def stationary(source: Source, alpha: float, m1: int, m2: int | None = None, **options: Any) -> Floats:
    """The matrix E (theta - theta*)(theta - theta*)' in the limit; filled with infinity from alpha* on."""
    found, alpha = moments(source, m1, m2, **options), _alpha(alpha)
    if alpha >= found.threshold:
        return np.full((len(found.basis),) * 2, math.inf)
    return np.asarray(found.basis @ found.stationary(alpha) @ found.basis.T)


def error_curve(
    source: Source,
    alpha: float,
    m1: int,
    m2: int | None = None,
    *,
    steps: int | Iterable[int],
    theta0: Any = None,
    **options: Any,
) -> Curve:
    """The expected errors after each of ``steps`` updates (or after 0, 1, ..., steps), starting from ``theta0``.

    Cost: with up to about 20 features one product with a small matrix per update; with more, O(R d^2) per update.

    >>> curve = error_curve("boyan_chain", 10, 10, steps=[0, 100, 1000])
    >>> curve.error.round(2)
    array([8.960e+02, 2.101e+01, 6.500e-01])
    """
    found = moments(source, m1, m2, **options)
    at = step_numbers(steps)
    delta0 = found.basis.T @ (start_weights(theta0, law(source).theta0) - found.theta_star)
    return _curve(found, _alpha(alpha), at, delta0)


def best_alpha(
    source: Source,
    m1: int,
    m2: int | None = None,
    *,
    horizon: int | None = None,
    theta0: Any = None,
    **options: Any,
) -> float:
    """The step-size with the fastest rate, or with the least expected error after ``horizon`` updates from ``theta0``.

    >>> fastest = best_alpha("boyan_chain", 10)
    >>> soon, late = best_alpha("boyan_chain", 10, horizon=100), best_alpha("boyan_chain", 10, horizon=10_000)
    >>> late < soon < fastest < stability_threshold("boyan_chain", 10)
    True
    """
    from scipy.optimize import minimize_scalar

    found = moments(source, m1, m2, **options)
    if found.threshold == 0:
        raise InputError("no step-size is stable: A1'A2 has an eigenvalue whose real part is not positive.")
    if horizon is None:
        span = (0.0, found.threshold)
        return float(minimize_scalar(found.rate, bounds=span, method="bounded", options={"xatol": 1e-4 * span[1]}).x)
    at = np.array([checks.whole_number("horizon", horizon, 1)])
    delta0 = found.basis.T @ (start_weights(theta0, law(source).theta0) - found.theta_star)

    def log_error(log_alpha: float) -> float:
        with np.errstate(all="ignore"):
            error = _curve(found, math.exp(log_alpha), at, delta0).error[0]
        return math.log(error) if 0 < error < math.inf else math.inf if error != 0 else -math.inf

    grid = math.log(2 * found.threshold) - np.linspace(0, math.log(2e5), 25)
    values = [log_error(x) for x in grid]
    best = int(np.argmin(values))
    low, high = grid[min(best + 1, 24)], grid[max(best - 1, 0)]
    return math.exp(minimize_scalar(log_error, bounds=(low, high), method="bounded", options={"xatol": 1e-3}).x)


def moments(
    source: Source,
    m1: int,
    m2: int | None = None,
    *,
    symmetric: bool = False,
    replacement: bool = True,
    second: Source | None = None,
) -> Batches:
    """The moment recursion behind the functions of this module, to compute several quantities from one setup."""
    refuse_long_problem(source)
    one = law(source)
    other = one if second is None else law(second)
    c1 = _share("m1", m1, one, replacement)
    c2 = c1 if m2 is None and second is None else _share("m2", m1 if m2 is None else m2, other, replacement)
    if second is None:
        return Symmetric(one, c1, c2) if symmetric else OneDirection(one, c1, c2)
    if symmetric:
        raise InputError("symmetric=True and second= cannot be combined: use one direction with two fixed buffers.")
    return TwoBuffers(one, other, c1, c2)


def _share(name: str, size: Any, source: Law, replacement: bool) -> float:
    """c, the variance of a batch's mean relative to that of one step."""
    if replacement:
        return 1.0 / checks.whole_number(name, size, 1)
    if source.n_steps is None:
        raise InputError(
            f"replacement=False needs the law of a stream (a known number of steps); {source.name} is an exact law."
        )
    n = source.n_steps
    m = checks.whole_number(f"{name} (without replacement)", size, 1, n)
    return (n - m) / (m * (n - 1))


def _alpha(alpha: Any) -> float:
    return checks.number_above("alpha", alpha, 0.0)


def step_numbers(steps: int | Iterable[int]) -> Integers:
    """The numbers 0, 1, ..., steps, or the given increasing numbers."""
    if np.ndim(np.asarray(steps)) == 0:
        return np.arange(checks.whole_number("steps", steps, 0) + 1)
    at = checks.whole_numbers("steps", list(np.asarray(steps)))
    if len(at) == 0 or at[0] < 0 or (np.diff(at) <= 0).any():
        raise InputError("steps must be a number, or increasing numbers from 0 on, for example [0, 10, 100].")
    return at


def _curve(found: Batches, alpha: float, at: Integers, delta0: Floats) -> Curve:
    A, u, zero = found.second.A, found.second.u, np.zeros(found.n)
    reads = [Readout(np.eye(found.n), zero), Readout(A.T @ A, 2.0 * (A.T @ u), float(u @ u))]
    error, neu = found.curves(alpha, [int(t) for t in at], delta0, reads)
    return Curve(at, error, neu, _mean_error(found, alpha, at, delta0))


def _mean_error(found: Batches, alpha: float, at: Integers, delta0: Floats) -> Floats:
    """|E Delta_t|^2, from the eigenvalues of the drift."""
    if found.eigenvalues is not None:
        factors = (1.0 - alpha * found.eigenvalues)[None, :] ** at[:, None]
        return np.asarray(((factors * delta0) ** 2).sum(axis=1))
    step, now, v, out = np.eye(found.n) - alpha * found.drift, 0, delta0, np.empty(len(at))
    for place, t in enumerate(at):
        v = np.linalg.matrix_power(step, int(t) - now) @ v
        out[place], now = v @ v, int(t)
    return out
