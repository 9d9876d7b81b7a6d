"""Second moments of theta <- theta - alpha A1'(A2 theta + b2), with new independent batches at every step.

With Delta = theta - theta*, u = A theta* + b (zero where the TD equations have a solution) and
c = 1/m, or (n - m) / (m (n - 1)) without replacement from n steps:

    G(M, v) = (1 - c2) E[h h'] + c2 sum_k p_k phi_k phi_k' E[(d_k . Delta + e_k)^2],     h = A Delta + u
    E[g g'] = (1 - c1) A' G A  + c1 sum_k p_k d_k d_k' (phi_k' G phi_k)

Coordinates of theta are the eigenvectors of A'A inside span{d_k}, so the drift is diagonal and a singular A needs no
special case. Cost of one application: O(R d^2 + P d) for R feature rows and P pairs of consecutive rows.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.problems import as_problem
from gradtd.problems.base import Problem
from gradtd.theory.laws import LARGEST_TABLE, Law
from gradtd.theory.meansquare import MeanSquare
from gradtd.theory.support import Support

LARGEST_WORK = 3e9
"""Maximum number of multiplications of one application: about a second."""


class _Side:
    """One of the two laws, in the coordinates of theta used here and relative to the solution."""

    def __init__(self, law: Law, basis: Floats, theta_star: Floats) -> None:
        self.support: Support = law.support.with_y(law.features @ basis)
        self.A = law.A @ basis
        self.u = law.A @ theta_star + law.b if np.any(law.left_over) else np.zeros(law.n_features)
        e = law.support.d_dot(theta_star) + law.c
        self.ed = self.support.d_sums(law.p * e)
        self.e2 = self.support.per_row(law.p * e**2)

    def outer(self, G: Floats, c: float) -> Floats:
        """E[A1' G A1] over a batch."""
        whole = (1.0 - c) * (self.A.T @ G @ self.A)
        return whole + c * self.support.d_moment(self.support.phi_form(G))

    def inner(self, M: Floats, c: float) -> Floats:
        """E[A2 M A2'] over a batch."""
        whole = (1.0 - c) * (self.A @ M @ self.A.T)
        return whole + c * self.support.phi_moment(self.support.d_form(M))

    def mean_square_h(self, M: Floats, v: Floats) -> Floats:
        """E[h h'] of the mean h = A Delta + u."""
        crossed = np.outer(self.A @ v, self.u)
        return np.asarray(self.A @ M @ self.A.T + crossed + crossed.T + np.outer(self.u, self.u))

    def inner_affine(self, M: Floats, v: Floats, c: float) -> Floats:
        """E[(A2 theta + b2)(A2 theta + b2)'] over a batch."""
        each = self.support.d_form(M) + 2.0 * (self.ed @ v) + self.e2
        return (1.0 - c) * self.mean_square_h(M, v) + c * self.support.phi_moment(each)


class Batches(MeanSquare):
    """g = A1'(A2 theta + b2), from two laws that may be the same; see the module's docstring."""

    basis: Floats
    theta_star: Floats
    first: _Side
    second: _Side
    c1: float
    c2: float

    def quadratic(self, M: Floats) -> Floats:
        return self.first.outer(self.second.inner(M, self.c2), self.c1)

    def second_moment(self, M: Floats, v: Floats) -> Floats:
        return self.first.outer(self.second.inner_affine(M, v, self.c2), self.c1)

    def adjoint(self, P: Floats) -> Floats:
        """V*(P) = E[A2' A1 P A1' A2], in these coordinates."""
        return self.second.outer(self.first.inner(P, self.c1), self.c2)


class OneDirection(Batches):
    """The case where both batches have the same law. V is self-adjoint if the batch sizes are equal."""

    def __init__(self, law: Law, c1: float, c2: float) -> None:
        _refuse_blind(law)
        values, directions = law.singular_values
        self.basis = np.ascontiguousarray(directions.T)
        self.eigenvalues = values**2
        self.n, self.drift = len(values), np.diag(values**2)
        refuse_long(self.n, law.features.shape[0])
        self.self_adjoint = c1 == c2
        self.theta_star = law.theta_star
        self.first = self.second = _Side(law, self.basis, law.theta_star)
        self.c1, self.c2 = c1, c2


class Symmetric(OneDirection):
    """g = (A1'(A2 theta + b2) + A2'(A1 theta + b1)) / 2: the mean of both directions. V is self-adjoint.

    The mixed term is E[A1' h2 h1' A2], which pairs the steps from one row with those from another. With Y_s the sum of
    p d d' and z_s the sum of p e d over the steps from row s, it contains a sum over pairs of rows of (phi_s . phi_t)^2
    (Y_s Delta + z_s)(Y_t Delta + z_t)'. Cost: O(R^2 d^2) once, O(R d^3) per application.
    """

    def __init__(self, law: Law, c1: float, c2: float) -> None:
        super().__init__(law, c1, c2)
        rows = law.features.shape[0]
        if rows * self.n**2 > LARGEST_TABLE:
            raise InputError(
                f"the symmetric update needs {rows} x {self.n} x {self.n} numbers, which are too many; "
                "give a part of the stream, or use one direction."
            )
        self.self_adjoint = True

    def quadratic(self, M: Floats) -> Floats:
        side = self.first
        one = side.outer(side.inner(M, self.c2), self.c1)
        other = side.outer(side.inner(M, self.c1), self.c2)
        return 0.25 * (one + other + self._mixed(M, None))

    def second_moment(self, M: Floats, v: Floats) -> Floats:
        side = self.first
        one = side.outer(side.inner_affine(M, v, self.c2), self.c1)
        other = side.outer(side.inner_affine(M, v, self.c1), self.c2)
        return 0.25 * (one + other + self._mixed(M, v))

    def adjoint(self, P: Floats) -> Floats:
        return self.quadratic(P)

    @cached_property
    def _met(self) -> tuple[Floats, Floats]:
        """The sums over rows t of (phi_s . phi_t)^2 Y_t and of (phi_s . phi_t)^2 z_t, for every row s."""
        support, Y = self.first.support, self.first.support.d_squares
        rows = support.n_rows
        met_Y, met_z = np.empty_like(Y), np.empty_like(self.first.ed)
        size = max(1, 20_000_000 // rows)
        for begin in range(0, rows, size):
            kernel = support.phi_kernel(slice(begin, begin + size))
            met_Y[begin : begin + size] = (kernel @ Y.reshape(rows, -1)).reshape(-1, self.n, self.n)
            met_z[begin : begin + size] = kernel @ self.first.ed
        return met_Y, met_z

    def _mixed(self, M: Floats, v: Floats | None) -> Floats:
        """E[X Y' + Y X'] of X = A1' h2 and Y = A2' h1; only the linear part if v is None."""
        side, c1, c2 = self.first, self.c1, self.c2
        Y, (met_Y, met_z), A, u = side.support.d_squares, self._met, side.A, side.u
        pushed = [(A @ M, Y)]
        pairs = np.tensordot(Y @ M, met_Y, axes=([0, 2], [0, 1]))
        whole = A @ M @ A.T
        if v is not None:
            whole = side.mean_square_h(M, v)
            Yv = Y @ v
            pushed += [(A @ v + u, side.ed), (u, Yv)]
            crossed = Yv.T @ met_z
            pairs = pairs + crossed + crossed.T + side.ed.T @ met_z
        half = A.T @ side.support.phi_pushed(pushed)
        both = (1 - c1) * c2 + c1 * (1 - c2)
        return np.asarray(
            2 * (1 - c1) * (1 - c2) * (A.T @ whole @ A) + both * (half + half.T) + c1 * c2 * (pairs + pairs.T)
        )


class TwoBuffers(Batches):
    """Batches drawn from two fixed, different sets of steps.

    The drift is A1'A2 and the limit of the mean -A2^{-1} b2; if A1'A2 has an eigenvalue without a positive real part,
    no step-size is stable.
    """

    def __init__(self, first: Law, second: Law, c1: float, c2: float) -> None:
        if first.n_features != second.n_features:
            raise InputError(
                f"the two buffers need the same features, got {first.n_features} and {second.n_features} of them."
            )
        for law in (first, second):
            _refuse_blind(law)
        stacked = np.vstack([first.singular_values[1], second.singular_values[1]])
        _, values, directions = np.linalg.svd(stacked)
        self.n = int((values > 1e-8).sum())
        refuse_long(self.n, first.features.shape[0])
        if not self.n == first.rank == second.rank:
            raise InputError(
                f"the two buffers span different directions of theta (ranks {first.rank} and {second.rank}, together "
                f"{self.n}): wait until both hold more steps."
            )
        self.basis = np.ascontiguousarray(directions[: self.n].T)
        A1, A2 = first.A @ self.basis, second.A @ self.basis
        self.drift = A1.T @ A2
        self.theta_star = self.basis @ np.linalg.solve(self.drift, -A1.T @ second.b)
        self.first = _Side(first, self.basis, self.theta_star)
        self.second = _Side(second, self.basis, self.theta_star)
        self.c1, self.c2 = c1, c2


def refuse_long_problem(source: Any) -> None:
    """`refuse_long` for a problem, before its law is computed, because that also takes time."""
    if isinstance(source, (str, Problem)):
        problem = as_problem(source)
        refuse_long(min(problem.features.shape), problem.features.shape[0])


def refuse_long(n: int, rows: int) -> None:
    """Refuse computations of more than about an hour: a result takes hundreds of applications."""
    if rows * n**2 > LARGEST_WORK:
        raise InputError(
            f"the exact theory of {n} features over {rows} rows takes {rows * n**2:.0e} multiplications for each of "
            f"hundreds of steps, more than {LARGEST_WORK:.0e}: use fewer features, or measure with gradtd.run."
        )


def _refuse_blind(law: Law) -> None:
    if law.blind:
        raise InputError(f"{law.name}: {law.notes[1]}")
