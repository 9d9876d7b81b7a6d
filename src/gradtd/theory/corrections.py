"""Layer 2: corrected statements, each proven in docs/theory.md, for independent batches of any two sizes.

With F = NEU / 2, so that its gradient is A'(A theta + b); Delta = theta - theta*; B = A'A; V* the adjoint of the
mean-square operator, V*(P) = E[A2' A1 P A1' A2]; N = E[A1' Gamma A1] / m2 the noise at the solution. If A is singular,
everything is restricted to span{d_k}. The statements need a solution of A theta* + b = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.theory.as_printed import Smoothness, smoothness_of
from gradtd.theory.exact import Source, moments
from gradtd.theory.laws import Law, law
from gradtd.theory.moments import Batches


@dataclass(frozen=True, eq=False)
class Corrected:
    """The corrected constants of a law for batch sizes m1 and m2. See `corrected`."""

    law: Law
    m1: int
    m2: int
    moments: Batches

    # Lemma A: E|g|^2 <= 2 L F + lambda |Delta|^2 + sigma^2

    @cached_property
    def nu(self) -> float:
        """nu = largest eigenvalue of A A' + V_A / m1; Lemma A's L."""
        return float(np.linalg.eigvalsh(self.law.A @ self.law.A.T + self.law.V_A / self.m1)[-1])

    @property
    def L(self) -> float:
        """Lemma A: L = nu."""
        return self.nu

    @cached_property
    def lam(self) -> float:
        """Lemma A: lambda = 2 nu |W_A| / m2."""
        return 2.0 * self.nu * self.norm_W / self.m2

    @cached_property
    def sigma2(self) -> float:
        """Lemma A: sigma^2 = 2 nu tr(Gamma) / m2."""
        return 2.0 * self.nu * float(np.trace(self.law.Gamma)) / self.m2

    @property
    def alpha_lemma_a(self) -> float:
        """Lemma A: E|Delta|^2 contracts for every alpha below 2 / (L + lambda / mu)."""
        return 2.0 / (self.L + self.lam / self.law.mu)

    def q_lemma_a(self, alpha: float) -> float:
        """Lemma A: the factor 1 - alpha mu (2 - alpha (L + lambda / mu))."""
        return 1.0 - alpha * self.law.mu * (2.0 - alpha * (self.L + self.lam / self.law.mu))

    def smoothness(self) -> Smoothness:
        """Lemma A checked on this law (f = NEU / 2, so the factor of NEU is L)."""
        return smoothness_of(self.law, self.m1, self.m2, self.L, self.lam, self.sigma2)

    @cached_property
    def norm_V(self) -> float:
        return float(np.linalg.eigvalsh(self.law.V_A)[-1])

    @cached_property
    def norm_W(self) -> float:
        return float(np.linalg.eigvalsh(self.law.W_A)[-1])

    # Theorem C

    def kappa(self, s: float) -> float:
        """kappa_s: the least kappa with V*(B^{-s}) <= kappa B^{1-s}, for s in [0, 1]."""
        values = self._values
        inner = self.moments.adjoint(np.diag(values ** -_power(s)))
        scale = values ** (-(1.0 - s) / 2)
        return float(np.linalg.eigvalsh(scale[:, None] * inner * scale[None, :])[-1])

    def kappa_bound(self, s: float) -> float:
        """The simple bound kappa_s <= (a^{1-s} + |V_A| / (m1 mu^s)) (a^s + |W_A| / (m2 mu^{1-s})), a = |A|^2."""
        s, a, mu = _power(s), self.law.norm_A**2, self.law.mu
        outer, inner = a ** (1 - s) + self.norm_V / (self.m1 * mu**s), a**s + self.norm_W / (self.m2 * mu ** (1 - s))
        return float(outer * inner)

    def alpha_limit(self, s: float = 0.5) -> float:
        """Theorem C holds for every alpha below 2 / kappa_s."""
        return 2.0 / self.kappa(s)

    def q(self, alpha: float, s: float = 0.5) -> float:
        """Theorem C: q = 1 - alpha mu (2 - alpha kappa_s), the factor of E|Delta|_P^2 with P = B^{-s}."""
        return 1.0 - self._below(alpha, self.kappa(s), 2.0, "2 / kappa_s") * self.law.mu * (2.0 - alpha * self.kappa(s))

    def rate_bound(self, alpha: float, t: int, theta0: Floats | None = None, s: float = 0.5) -> float:
        """Theorem C: the bound on E|Delta_t|_P^2 with P = B^{-s}.

        (q^{t/2} |Delta_0|_P + sqrt(alpha tr(P N) / (mu (2 - alpha kappa_s))))^2.
        """
        kappa, power = self.kappa(s), self._values ** -_power(s)
        left = self._below(alpha, kappa, 2.0, "2 / kappa_s") * float(power @ np.diag(self.N))
        delta = self._delta(theta0)
        floor = math.sqrt(left / (self.law.mu * (2.0 - alpha * kappa)))
        start = math.sqrt(float(power @ delta**2))
        return float((self.q(alpha, s) ** (t / 2) * start + floor) ** 2)

    def error_bound(self, alpha: float, t: int, theta0: Floats | None = None, s: float = 0.5) -> float:
        """Theorem C turned into a bound on E|Delta_t|^2: |Delta|^2 <= |A|^{2s} |Delta|_P^2."""
        return float(self.law.norm_A ** (2 * s)) * self.rate_bound(alpha, t, theta0, s)

    # Corollary D

    @property
    def m_sufficient(self) -> int:
        """Corollary D: from this batch size on, every alpha <= 1 / (4 |A|^2 + 5 S/m) contracts."""
        return max(1, math.ceil(self.law.S / (math.sqrt(2 * self.law.mu) * self.law.norm_A) * (1 - 1e-12)))

    @property
    def corollary_d(self) -> bool:
        """Whether both batches have at least that size; then kappa_{1/2} <= 5.83 |A|^2."""
        return min(self.m1, self.m2) >= self.m_sufficient

    # Theorems E and F

    def floor_bound(self, alpha: float) -> float:
        """Theorem E: in the limit E|Delta|^2 is at most alpha tr(B^{-1} N) / (2 - alpha kappa_1)."""
        kappa = self.kappa(1.0)
        self._below(alpha, kappa, 2.0, "2 / kappa_1")
        return alpha * float(np.sum(np.diag(self.N) / self._values)) / (2.0 - alpha * kappa)

    def neu_bound(self, alpha: float, t: int, theta0: Floats | None = None) -> float:
        """Theorem F, in place of Theorem 1: the bound on the mean over k < t of E NEU(theta_k), alpha < 1 / kappa_0.

        |Delta_0|^2 / (2 alpha t (1 - alpha kappa_0)) + alpha tr(N) / (1 - alpha kappa_0).
        """
        kappa, t = self.kappa(0.0), checks.whole_number("t", t, 1)
        left = 1.0 - self._below(alpha, kappa, 1.0, "1 / kappa_0") * kappa
        delta = self._delta(theta0)
        return float(delta @ delta) / (2 * alpha * t * left) + alpha * float(np.trace(self.N)) / left

    @property
    def N(self) -> Floats:
        """N = E[A1' Gamma A1] / m2, in the basis of eigenvectors of B."""
        return self.moments.noise

    @property
    def _values(self) -> Floats:
        assert self.moments.eigenvalues is not None
        return self.moments.eigenvalues

    def _delta(self, theta0: Floats | None) -> Floats:
        start = self.law.theta0 if theta0 is None else checks.finite_array("theta0", theta0, 1)
        return np.asarray(self.moments.basis.T @ (start - self.law.theta_star))

    def _below(self, alpha: float, kappa: float, top: float, text: str) -> float:
        alpha = checks.number_above("alpha", alpha, 0.0)
        if alpha * kappa >= top:
            raise InputError(f"this bound needs alpha < {text} = {top / kappa:.4g}, got {alpha:g}.")
        return alpha


def corrected(source: Source, m1: int, m2: int | None = None) -> Corrected:
    """The corrected statements for a law and batch sizes (m2 = m1 unless given).

    >>> boyan = corrected("boyan_chain", 32)
    >>> boyan.alpha_lemma_a < boyan.alpha_limit(0.5) < 116
    True
    >>> round(boyan.floor_bound(10.0), 3)
    0.139
    """
    one = law(source)
    m1 = checks.whole_number("m1", m1, 1)
    m2 = m1 if m2 is None else checks.whole_number("m2", m2, 1)
    if np.any(one.left_over):
        raise InputError(
            f"the corrected statements need TD equations with a solution, and those of {one.name} have none."
        )
    return Corrected(one, m1, m2, moments(one, m1, m2))


def _power(s: float) -> float:
    return checks.fraction("s", s)
