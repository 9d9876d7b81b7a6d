"""Other algorithms with a linear mean update: their ODE, and the exact joint second moments of theta and w.

Every rule here is x <- x + alpha (J_k x + j_k) for the joint vector x = (theta, w), with a matrix of low rank that
depends on the step k (`RULES` below). Its ODE is x' = J x + j with J = E J_k. If every eigenvalue of J has a negative
real part, the rule converges for small enough step-sizes. Under independent single steps, the exact limit of the
step-size is the threshold of the joint second moment (see `gradtd.theory.meansquare`).

The rules are decomposed as x <- x + alpha (J_0 x + sum of L_k (R_k . x + c_k)). The library's own rules are implemented
differently; tests compare both on every possible step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.running.runs import start_weights
from gradtd.theory.exact import Source, step_numbers
from gradtd.theory.laws import LARGEST_TABLE, Law, law
from gradtd.theory.meansquare import MeanSquare, Readout

Term = tuple[Floats, Floats, Floats]
"""The terms of a rule: L_k, R_k (one row per step) and c_k."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """A decomposed rule: the constant matrix J_0 and the terms L_k (R_k . x + c_k)."""

    constant: Floats
    terms: tuple[Term, ...]


def _one_vector(make: Callable[[Law], Term]) -> Callable[[Law, float, float], Pieces]:
    def parts(one: Law, eta: float, beta: float) -> Pieces:
        return Pieces(np.zeros((one.n_features,) * 2), (make(one),))

    return parts


def _td(one: Law) -> Term:
    return one.phi, one.d, one.c


def _vtrace(one: Law) -> Term:
    clipped = np.minimum(one.rho, 1.0)
    return one.phi, clipped[:, None] * _y(one), clipped * one.reward


def _residual_gradient(one: Law) -> Term:
    return -_y(one), one.d, one.c


def _y(one: Law) -> Floats:
    """gamma phi' - phi, without ratio."""
    return np.asarray(one.discount[:, None] * one.phi_next - one.phi)


def _gtd(one: Law, eta: float, beta: float) -> Pieces:
    phi, zero = one.phi, np.zeros_like(one.phi)
    return Pieces(
        _second_block(one, -eta),
        ((_join(-one.d, zero), _join(zero, phi), _nothing(one)), (_join(zero, eta * phi), _join(one.d, zero), one.c)),
    )


def _gtd2(one: Law, eta: float, beta: float) -> Pieces:
    phi, zero = one.phi, np.zeros_like(one.phi)
    return Pieces(
        _second_block(one, 0.0),
        (
            (_join(-one.d, -eta * phi), _join(zero, phi), _nothing(one)),
            (_join(zero, eta * phi), _join(one.d, zero), one.c),
        ),
    )


def _tdc(one: Law, eta: float, beta: float) -> Pieces:
    return _tdrc(one, eta, 0.0)


def _tdrc(one: Law, eta: float, beta: float) -> Pieces:
    phi, zero = one.phi, np.zeros_like(one.phi)
    after = (one.rho * one.discount)[:, None] * one.phi_next
    return Pieces(
        _second_block(one, -eta * beta),
        (
            (_join(phi, eta * phi), _join(one.d, zero), one.c),
            (_join(-after, -eta * phi), _join(zero, phi), _nothing(one)),
        ),
    )


def _htd(one: Law, eta: float, beta: float) -> Pieces:
    phi, zero, y = one.phi, np.zeros_like(one.phi), _y(one)
    return Pieces(
        _second_block(one, 0.0),
        (
            (_join(phi, eta * phi), _join(one.d, zero), one.c),
            (_join(-(one.rho - 1.0)[:, None] * y, eta * y), _join(zero, phi), _nothing(one)),
        ),
    )


def _tdc_transposed(one: Law, eta: float, beta: float) -> Pieces:
    phi, zero = one.phi, np.zeros_like(one.phi)
    after = (one.rho * one.discount)[:, None] * one.phi_next
    constant = _second_block(one, 0.0)
    constant[one.n_features :, : one.n_features] = -eta * np.eye(one.n_features)
    return Pieces(
        constant,
        (
            (_join(-one.d, zero), _join(zero, phi), _nothing(one)),
            (_join(zero, eta * phi), _join(after, -phi), one.c),
        ),
    )


def _tdc_transposed_corrected(one: Law, eta: float, beta: float) -> Pieces:
    phi, zero = one.phi, np.zeros_like(one.phi)
    after = (one.rho * one.discount)[:, None] * one.phi_next
    return Pieces(
        _second_block(one, 0.0),
        (
            (_join(-one.d, zero), _join(zero, phi), _nothing(one)),
            (_join(zero, eta * phi), _join(after - phi, -phi), one.c),
        ),
    )


def _join(of_theta: Floats, of_w: Floats) -> Floats:
    return np.hstack([of_theta, of_w])


def _nothing(one: Law) -> Floats:
    return np.zeros(len(one.p))


def _second_block(one: Law, value: float) -> Floats:
    """J_0 with ``value`` on w's diagonal."""
    return np.diag(np.repeat([0.0, value], one.n_features))


RULES: dict[str, Callable[[Law, float, float], Pieces]] = {
    "td": _one_vector(_td),
    "vtrace": _one_vector(_vtrace),
    "residual_gradient": _one_vector(_residual_gradient),
    "gtd": _gtd,
    "gtd2": _gtd2,
    "tdc": _tdc,
    "tdc_transposed": _tdc_transposed,
    "tdc_transposed_corrected": _tdc_transposed_corrected,
    "tdrc": _tdrc,
    "htd": _htd,
}
"""Every algorithm covered by the joint theory."""


@dataclass(frozen=True, eq=False)
class JointCurve:
    """E|theta_t - theta*|^2 relative to the TD solution theta*, and E|w_t - w*|^2 relative to the rule's limit (zero
    without w)."""

    steps: Integers
    error: Floats
    second_error: Floats


@dataclass(frozen=True, eq=False)
class Ode:
    """The mean update of a rule as an ODE, x' = matrix x + vector with x = (theta, w). See `ode`."""

    name: str
    law: Law
    eta: float
    beta: float
    matrix: Floats
    vector: Floats
    pieces: Pieces

    @cached_property
    def basis(self) -> Floats:
        """Orthonormal directions in which x moves."""
        n, d = len(self.matrix), self.law.n_features
        moment = self.pieces.constant @ self.pieces.constant.T
        for L, _, _ in self.pieces.terms:
            moment = moment + (L * self.law.p[:, None]).T @ L
        scale = np.ones(n)
        for block in (slice(0, d), slice(d, n)):
            size = float(np.trace(moment[block, block]))
            scale[block] = 1.0 / math.sqrt(size) if size > 0 else 1.0
        values, vectors = np.linalg.eigh(scale[:, None] * moment * scale[None, :])
        kept = vectors[:, values > 1e-13 * values[-1]]
        return np.eye(n) if kept.shape[1] == n else np.linalg.qr(kept / scale[:, None])[0]

    @cached_property
    def spectrum(self) -> Any:
        """Eigenvalues of the matrix in the directions in which x moves, the largest real part first."""
        values = np.linalg.eigvals(self.basis.T @ self.matrix @ self.basis)
        return values[np.argsort(-values.real)]

    @property
    def stable(self) -> bool:
        """Whether every eigenvalue has a negative real part."""
        return bool(self.spectrum[0].real < -1e-13 * np.abs(self.spectrum).max())

    @property
    def notes(self) -> tuple[str, ...]:
        """Caveats before running the rule: why it would diverge and what to do, and the notes of the law."""
        if self.stable:
            return self.law.notes
        worst = (
            f"the mean update of {self.name} is unstable on {self.law.name} (largest real part "
            f"{self.spectrum[0].real:.2g}): it diverges with every step-size; use impression_gtd or another rule "
            "whose ODE is stable."
        )
        return (worst, *self.law.notes)

    @property
    def limit(self) -> Floats:
        """The theta at which the mean update is zero: the limit of the rule if it is stable."""
        return np.asarray(self._moments.x_star[: self.law.n_features])

    @property
    def mean_threshold(self) -> float:
        """The step-size below which the mean of theta converges; 0 if there is none."""
        return self._moments.mean_threshold()

    @property
    def stability_threshold(self) -> float:
        """The step-size below which the second moments of theta and w stay bounded; 0 if there is none."""
        return self._moments.threshold

    def rate(self, alpha: float) -> float:
        """The factor by which the joint second moment contracts per step."""
        return self._moments.rate(checks.number_above("alpha", alpha, 0.0))

    def floor(self, alpha: float) -> float:
        """The limit of E|theta - theta*|^2, relative to the TD solution; infinite if the rule is not stable."""
        found, alpha = self._moments, checks.number_above("alpha", alpha, 0.0)
        if alpha >= found.threshold:
            return math.inf
        read = found.distance(self.law)
        return float(np.vdot(read.weight, found.stationary(alpha))) + read.offset

    def error_curve(self, alpha: float, *, steps: int | Iterable[int], theta0: Any = None) -> JointCurve:
        """The expected errors after each of ``steps`` single independent steps, from theta0 and w = 0."""
        alpha = checks.number_above("alpha", alpha, 0.0)
        at, start = step_numbers(steps), start_weights(theta0, self.law.theta0)
        found = JointMoments(self, start)
        d, n = self.law.n_features, len(self.matrix)
        delta0 = found.basis.T @ (np.r_[start, np.zeros(n - d)] - found.x_star)
        second = found.basis[d:].T @ found.basis[d:]
        reads = [found.distance(self.law), Readout(second, np.zeros(found.n))]
        error, second_error = found.curves(alpha, [int(t) for t in at], delta0, reads)
        return JointCurve(at, error, second_error)

    @cached_property
    def _moments(self) -> JointMoments:
        return JointMoments(self, self.law.theta0)


class JointMoments(MeanSquare):
    """Second moments of x = (theta, w) around the point at which the mean update is zero."""

    def __init__(self, rule: Ode, theta0: Floats) -> None:
        p, Q = rule.law.p, rule.basis
        self.basis, self.n = Q, Q.shape[1]
        start = np.r_[theta0, np.zeros(len(Q) - len(theta0))]
        self.drift = -(Q.T @ rule.matrix @ Q)
        outside = start - Q @ (Q.T @ start)
        if np.linalg.svd(self.drift, compute_uv=False)[-1] < 1e-12 * np.linalg.norm(self.drift, 2):
            raise InputError(
                f"the mean update of {rule.name} on {rule.law.name} is singular where theta and w move, so it has no "
                "single limit; drop features that depend on others."
            )
        self.x_star = outside + Q @ np.linalg.solve(self.drift, Q.T @ (rule.matrix @ outside + rule.vector))
        self.p = p
        self.left = [L @ Q for L, _, _ in rule.pieces.terms]
        self.right = [R @ Q for _, R, _ in rule.pieces.terms]
        self.at_star = [R @ self.x_star + c for _, R, c in rule.pieces.terms]
        self.constant = Q.T @ rule.pieces.constant @ Q
        self.constant_at_star = Q.T @ rule.pieces.constant @ self.x_star
        parts = zip(self.left, self.right, strict=True)
        self.mean_of_terms = np.asarray(sum((L * p[:, None]).T @ R for L, R in parts))

    def quadratic(self, M: Floats) -> Floats:
        return self._moment(M, None)

    def second_moment(self, M: Floats, v: Floats) -> Floats:
        return self._moment(M, v)

    def _moment(self, M: Floats, v: Floats | None) -> Floats:
        """E of (J_0 x + sum L t)(J_0 x + sum L t)' with t = R . x + c; only the linear part if v is None."""
        right, left = self._trimmed
        slopes = [R @ v for R in self.right] if v is not None else []
        out = np.zeros((self.n, self.n))
        for a, (rows, L) in enumerate(left):
            for b, (columns, other) in enumerate(left[: a + 1]):
                (i, R), (j, S) = right[a], right[b]
                product = np.einsum("ki,ki->k", R @ M[i, j], S)
                if v is not None:
                    s, t = self.at_star[a], self.at_star[b]
                    product = product + s * slopes[b] + t * slopes[a] + s * t
                part = (L * (self.p * product)[:, None]).T @ other
                out[rows, columns] += part
                if a != b:
                    out[columns, rows] += part.T
        J0, terms = self.constant, self.mean_of_terms
        crossed = J0 @ M @ terms.T
        own = J0 @ M @ J0.T
        if v is not None:
            # At x*, the mean of the terms and J_0 x* cancel.
            h = self.constant_at_star
            crossed = crossed - np.outer(J0 @ v, h) + np.outer(h, terms @ v) - np.outer(h, h)
            bent = np.outer(J0 @ v, h)
            own = own + bent + bent.T + np.outer(h, h)
        return np.asarray(out + own + crossed + crossed.T)

    @cached_property
    def _trimmed(self) -> tuple[list[tuple[slice, Floats]], list[tuple[slice, Floats]]]:
        """The R_k and L_k without their outer columns of zeros, and the columns that remain."""
        return [_without_zeros(R) for R in self.right], [_without_zeros(L) for L in self.left]

    def distance(self, source: Law) -> Readout:
        """E|theta - theta*|^2 relative to the TD solution, in the row space of A."""
        seen = source.singular_values[1]
        there = seen @ self.basis[: source.n_features]
        apart = seen @ (self.x_star[: source.n_features] - source.theta_star)
        return Readout(there.T @ there, 2.0 * (there.T @ apart), float(apart @ apart))


def _without_zeros(vectors: Floats) -> tuple[slice, Floats]:
    used = np.flatnonzero(vectors.any(axis=0))
    kept = slice(int(used[0]), int(used[-1]) + 1) if len(used) else slice(0, 0)
    return kept, np.ascontiguousarray(vectors[:, kept])


def ode(name: str, source: Source, eta: float = 1.0, beta: float = 1.0) -> Ode:
    """The ODE of an algorithm on a law, x' = J x + j, with w's step-size eta alpha (and TDRC's beta).

    Algorithms: td, vtrace, residual_gradient, gtd, gtd2, tdc, tdc_transposed, tdc_transposed_corrected, tdrc, htd.
    Cost of one application of the joint second moment: O(K d^2) for K different steps.

    >>> ode("td", "baird").stable, ode("tdrc", "baird").stable
    (False, True)
    >>> tdc = ode("tdc", "boyan_chain", eta=4.0)
    >>> tdc.matrix.shape, round(tdc.stability_threshold, 3)
    ((8, 8), 0.585)
    """
    one = law(source)
    if one.lam > 0:
        raise InputError(
            "the joint theory of theta and w is for lam=0; with traces see gradtd.theory.stability_threshold."
        )
    parts = RULES[checks.known_name("algorithm with a linear mean update", name, RULES)]
    eta, beta = checks.number_above("eta", eta, 0.0), checks.number_at_least("beta", beta, 0.0)
    if len(one.p) * 2 * one.n_features > LARGEST_TABLE:
        raise InputError(
            f"{len(one.p)} different steps with {one.n_features} features are too many for the joint theory: "
            "use a part of the stream, or a smaller problem."
        )
    pieces = parts(one, eta, beta)
    matrix, vector = pieces.constant.copy(), np.zeros(len(pieces.constant))
    for L, R, c in pieces.terms:
        matrix += (L * one.p[:, None]).T @ R
        vector += L.T @ (one.p * c)
    return Ode(name, one, eta, beta, matrix, vector, pieces)
