"""Layer 1: the paper's constants, conditions and rates as printed (Yao 2023, Section 5).

A, b and their deviations include importance ratios. |Sigma_A| is the Frobenius norm, for which E|A_m - A|^2 <=
|Sigma_A|^2 / m is true. If a printed statement is false or its proof is incomplete, ``notes`` says so; docs/theory.md
has the full audit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.theory.exact import Source, moments
from gradtd.theory.laws import Law, law

NOTES = (
    "Theorem 1: not proven, and not true as stated: the variance enters with the wrong sign (the bound is 0 from a "
    "finite t on), and alpha <= 2 / L_max can be unstable for batches of one step.",
    "Lemma of L-lambda smoothness: its proof uses |Hx| = |H'x|, which is false; the lemma fails on some problems (see "
    "smoothness), although on none of the paper's problems.",
    "Theorem 2: the one-step inequality holds wherever L-lambda smoothness does for f = NEU / 2; the bias after it "
    "has one factor alpha too many. sigma^2 of the lemma belongs to a whole batch, so here sigma_v^2 is that of the "
    "batch and m is 1: with one pair's sigma_v^2, as in Table 1, the printed bias can be negative.",
    "Theorem 3: the batch size is sufficient, though its proof is not complete (Corollary D of the corrected layer); "
    "the text before it divides by |A|^2, the theorem by |A|, and only the second has the right units.",
    "Theorem 3 and Table 1: rate and threshold are symmetric in (m1, m2), so R1-GTD is not faster than A'TD; only its "
    "bias is smaller. A running mean is not a fresh sample, so these rows describe batches of t fresh steps.",
    "Table 1: the bias of Impression GTD is printed with 1/m; the batch size m^2 in its first column gives 1/m^2.",
)
"""A short version of the audit."""


@dataclass(frozen=True)
class Row:
    """A row of Table 1 with its numbers, and the rate of Theorem 3 for its algorithm with step-size ``alpha``."""

    algorithm: str
    m1: int
    m2: int
    L1: float
    L2: float
    lam: float
    bias: float
    alpha_limit: float
    alpha: float
    q: float


@dataclass(frozen=True)
class Smoothness:
    """Whether E|g|^2 <= 2 L (f - f*) + lambda |Delta|^2 + sigma^2 holds for every theta, and the worst direction.

    ``worst_ratio`` is the largest ratio of the left side to the right side over all directions, far from theta*; ``at``
    is that direction. ``holds`` also checks finite distances.
    """

    holds: bool
    worst_ratio: float
    at: Floats


@dataclass(frozen=True, eq=False)
class Printed:
    """The printed constants of a law for batch sizes m1 and m2; lambda is ``lam``. See `printed`."""

    law: Law
    m1: int
    m2: int
    norm_A: float
    mu: float
    S: float
    norm_Sigma_b: float
    L1: float
    L2: float
    L: float
    lam: float
    sigma2: float
    sigma_v2: float
    sigma_v2_batch: float
    L_max: float
    m_paper: int
    m_text: int
    notes: tuple[str, ...]

    @property
    def linear(self) -> bool:
        """Theorem 2's condition for a linear rate, lambda <= L mu."""
        return self.lam <= self.L * self.mu

    @property
    def alpha_paper(self) -> float:
        """The step-size of Theorem 3 for these batch sizes, 1/L = 1 / (5 S/m + 4 |A|^2) for m1 = m2 = m."""
        return 1.0 / self.L

    @property
    def alpha_theorem_1(self) -> float:
        """The largest step-size of Theorem 1, 2 / L_max."""
        return 2.0 / self.L_max

    def q(self, alpha: float) -> float:
        """Theorem 2: the factor of E|Delta|^2 per step, for alpha <= 1/L."""
        alpha = self._checked(alpha)
        return 1.0 - (self.mu - self.lam / self.L) * alpha - self.mu**2 * alpha * (1.0 / self.L - alpha)

    def bias(self, alpha: float) -> float:
        """Theorem 2: the limit of E|Delta|^2; infinite if q is not below 1.

        alpha (sigma^2 - sigma_v^2 + L alpha sigma_v^2) / (L (mu - lambda/L + mu^2 (1/L - alpha))), all for the batch.
        """
        alpha = self._checked(alpha)
        slope = (self.mu - self.lam / self.L) + self.mu**2 * (1.0 / self.L - alpha)
        if slope <= 0:
            return math.inf
        least = self.sigma_v2_batch
        return alpha * (self.sigma2 - least + self.L * alpha * least) / (self.L * slope)

    def theorem_1(self, alpha: float, t: int, theta0: Floats | None = None) -> float:
        """Theorem 1: its bound on the least NEU among the first t iterates, for alpha <= 2 / L_max."""
        alpha = checks.number_above("alpha", alpha, 0.0)
        t = checks.whole_number("t", t, 1)
        if alpha > self.alpha_theorem_1:
            raise InputError(f"Theorem 1 needs alpha <= 2 / L_max = {self.alpha_theorem_1:.4g}, got {alpha:g}.")
        start = self.law.theta0 if theta0 is None else checks.finite_array("theta0", theta0, 1)
        f0 = float(np.sum((self.law.A @ start + self.law.b) ** 2))
        left = 2.0 - alpha * self.L_max
        first = 2.0 * f0 / (t * alpha * left * self.mu) if left > 0 else math.inf
        return max(first - self.sigma_v2 / (self.m1 * self.m2 * self.mu), 0.0)

    def smoothness(self, *, half: bool = False) -> Smoothness:
        """Check the L-lambda smoothness condition on this law, exactly: both sides are quadratic in theta.

        f is NEU as printed, or with ``half`` NEU / 2, whose gradient is the f' that the proofs use.
        """
        return smoothness_of(self.law, self.m1, self.m2, (1.0 if half else 2.0) * self.L, self.lam, self.sigma2)

    def table_1(self, t: int, alpha: float | None = None) -> tuple[Row, ...]:
        """Table 1 with numbers after t steps, and the rates of Theorem 3.

        Each row uses the step-size ``alpha`` if its theorem allows it, otherwise the largest one allowed.
        """
        t = checks.whole_number("t", t, 2)
        a, S = self.norm_A**2, self.S
        rows = [
            ("impression_gtd", self.m1, self.m2, self.alpha_paper, 1.0 / self.m1),
            ("expected_gtd", t // 2, t // 2, 1.0 / (4 * a), 4.0 / t**2),
            ("at_td", t, 1, 1.0 / max(4 * a, S), 1.0 / t),
            ("r1_gtd", 1, t, 1.0 / (4 * (S + a)), 1.0 / t),
        ]
        out = []
        for name, m1, m2, limit, share in rows:
            step = limit if alpha is None else min(checks.number_above("alpha", alpha, 0.0), limit)
            q = self.q(step) if name == "impression_gtd" else self._q_of_theorem_3(name, t, step)
            L1, L2, lam = 4 * (S / m1 + a), S / m2, 2 * S**2 / (m1 * m2)
            out.append(Row(name, m1, m2, L1, L2, lam, step**2 * self.sigma_v2 * share, limit, step, q))
        return tuple(out)

    def _q_of_theorem_3(self, name: str, t: int, alpha: float) -> float:
        a, S, mu = self.norm_A**2, self.S, self.mu
        if name == "expected_gtd":
            epsilon = 2 * S / t
            upper, more = 4 * a + 5 * epsilon, 2 * alpha * epsilon**2 / (4 * a)
        elif name == "at_td":
            epsilon = S / t
            upper, more = 4 * a + S + 4 * epsilon, S * alpha * epsilon / max(4 * a, S)
        else:
            epsilon = S / t
            upper, more = 4 * (S + a) + epsilon, S * alpha * epsilon / (4 * (S + a))
        return 1.0 - mu * alpha - mu**2 * alpha * (1.0 / upper - alpha) + more

    def _checked(self, alpha: float) -> float:
        alpha = checks.number_above("alpha", alpha, 0.0)
        if alpha > self.alpha_paper * (1 + 1e-12):
            raise InputError(f"Theorem 2 needs alpha <= 1/L = {self.alpha_paper:.4g}, got {alpha:g}.")
        return alpha


def printed(source: Source, m1: int, m2: int | None = None) -> Printed:
    """The paper's constants for a law and batch sizes (m2 = m1 unless given), as printed.

    mu = sigma_min(A)^2, L1 = 4 (S/m1 + |A|^2), L2 = S/m2, L = L1 + L2, lambda = 2 S^2 / (m1 m2),
    sigma^2 = 16 (S/m1 + |A|^2)(S |theta*|^2 + |Sigma_b|^2) / m2, sigma_v^2 = min over theta of the variance of one
    pair's gradient, L_max = max over pairs of |d_i| |phi_i . phi_j| |d_j|, m_paper = ceil(S / (sqrt(2 mu) |A|)).

    >>> boyan = printed("boyan_chain", 32)
    >>> boyan.m_paper, round(boyan.alpha_paper, 2), round(boyan.L_max, 3)
    (26, 11.27, 0.5)
    >>> boyan.smoothness().holds
    True
    """
    one = law(source)
    if one.lam > 0:
        raise InputError("the paper's constants are for lam=0: with traces use the exact or the corrected theory.")
    m1 = checks.whole_number("m1", m1, 1)
    m2 = m1 if m2 is None else checks.whole_number("m2", m2, 1)
    a, S, mu = one.norm_A**2, one.S, one.mu
    norm_b = float(np.linalg.norm(one.Sigma_b))
    L1, L2 = 4 * (S / m1 + a), S / m2
    solution = float(one.theta_star @ one.theta_star)
    ratio = S / math.sqrt(2 * mu)
    return Printed(
        law=one,
        m1=m1,
        m2=m2,
        norm_A=one.norm_A,
        mu=mu,
        S=S,
        norm_Sigma_b=norm_b,
        L1=L1,
        L2=L2,
        L=L1 + L2,
        lam=2 * S**2 / (m1 * m2),
        sigma2=16 * (S / m1 + a) * (S * solution + norm_b**2) / m2,
        sigma_v2=least_variance(one),
        sigma_v2_batch=least_variance(one, 1.0 / m1, 1.0 / m2),
        L_max=largest_smoothness(one),
        m_paper=max(1, math.ceil(ratio / one.norm_A * (1 - 1e-12))),
        m_text=max(1, math.ceil(ratio / a * (1 - 1e-12))),
        notes=NOTES + one.notes,
    )


def largest_smoothness(source: Law) -> float:
    """L_max = max over pairs of steps of |d_i (phi_i . phi_j) d_j'| = |d_i| |phi_i . phi_j| |d_j|."""
    longest = np.zeros(len(source.features))
    np.maximum.at(longest, source.row, np.sqrt(source.support.d_norms))
    table = source.features * longest[:, None]
    size = max(1, 20_000_000 // len(table))
    return max(float(np.abs(table[k : k + size] @ table.T).max()) for k in range(0, len(table), size))


def least_variance(source: Law, c1: float = 1.0, c2: float = 1.0) -> float:
    """sigma_v^2: the least variance of g over theta. (It is not attained at theta* in general.)"""
    K, k, k0 = mean_square(source, c1, c2)
    spread = K - source.B @ source.B
    least = k0 - float(k @ np.linalg.pinv(spread, rcond=1e-10, hermitian=True) @ k)
    return max(least, 0.0)


def mean_square(source: Law, c1: float, c2: float) -> tuple[Floats, Floats, float]:
    """(K, k, k0) with E|g|^2 = Delta' K Delta + 2 k . Delta + k0 for g = A1'(A2 theta + b2), c = 1 / batch size."""
    support, A, u = source.support, source.A, source.left_over
    G = (1 - c1) * (A @ A.T) + c1 * support.phi_moment(support.d_form(np.eye(source.n_features)))
    along = support.phi_form(G)
    weight = source.p * along[source.row]
    K = (1 - c2) * (A.T @ G @ A) + c2 * support.d_moment(along)
    k = (1 - c2) * (A.T @ (G @ u)) + c2 * support.d_sums(weight * source.e).sum(axis=0)
    k0 = (1 - c2) * float(u @ G @ u) + c2 * float(weight @ source.e**2)
    return K, k, k0


def smoothness_of(source: Law, m1: int, m2: int, neu: float, lam: float, sigma2: float) -> Smoothness:
    """Check E|g|^2 <= neu |A Delta|^2 + lam |Delta|^2 + sigma2 for every theta of span{d_k}."""
    moved = moments(source, m1, m2)
    basis = moved.basis
    K, k, k0 = mean_square(source, 1.0 / m1, 1.0 / m2)
    K, k = basis.T @ K @ basis, basis.T @ k
    right = neu * (basis.T @ source.B @ basis) + lam * np.eye(len(k))
    root = np.linalg.inv(np.linalg.cholesky(right))
    values, vectors = np.linalg.eigh(root @ K @ root.T)
    worst = basis @ (root.T @ vectors[:, -1])
    # The difference of the two sides as a quadratic form in (Delta, 1), scaled so that both sides are of order one.
    scale = max(sigma2, k0, 1e-300)
    form = np.block(
        [
            [np.eye(len(k)) - root @ K @ root.T, -(root @ k)[:, None] / math.sqrt(scale)],
            [-(root @ k)[None, :] / math.sqrt(scale), np.array([[(sigma2 - k0) / scale]])],
        ]
    )
    holds = bool(np.linalg.eigvalsh(form)[0] >= -1e-10)
    return Smoothness(holds, float(values[-1]), worst / np.linalg.norm(worst))
