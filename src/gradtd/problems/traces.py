"""The law of eligibility traces on a finite problem: mean and second moment in every state, and where these exist.

With c(s, a) the ratio in the trace, e' = gamma lam c e + phi' on a transition and e = phi where an episode begins, so

    m(s') = d(s') phi(s') + sum_s K_1(s, s') m(s),                   m(s) = d(s) E[e | s]
    W(s') = d(s') phi phi' + sum_s K_2(s, s') W(s) + cross terms,    W(s) = d(s) E[e e' | s]

with K_j(s, s') = (gamma lam)^j sum_a mu(a|s) c(s, a)^j P(s'|s, a) between states that are not terminal, and d the
stationary law. The second moment exists where the spectral radius of K_2 is below one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gradtd.compiled.traces import KINDS
from gradtd.core import checks
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.problems.base import Problem


@dataclass(frozen=True, eq=False)
class TraceLaw:
    """The traces of a problem with a given lam: ``trace`` names the ratio in them (see `gradtd.compiled.traces`)."""

    problem: Problem
    d_mu: Floats
    lam: float
    trace: str = "rho"

    def __post_init__(self) -> None:
        object.__setattr__(self, "lam", checks.fraction("lam", self.lam))
        checks.one_of("trace", self.trace, KINDS)

    def chain(self, power: int) -> Floats:
        """sum over a of mu(a|s) (gamma c(s, a))^power P(s'|s, a), between states that are not terminal; without lam."""
        problem = self.problem
        mu, pi, alive = problem.behaviour, problem.target, ~problem.mdp.terminal
        ratio = np.divide(pi, mu, out=np.zeros_like(pi), where=mu > 0)
        c = {"rho": ratio, "clipped": np.minimum(ratio, 1.0), "tree": pi}[self.trace]
        weight = mu * (problem.gamma * c) ** power * alive[:, None]
        return np.asarray(np.einsum("sa,sat->st", weight, problem.mdp.transition) * alive[None, :])

    @cached_property
    def finite_below(self) -> float:
        """The lam below which the trace has a finite variance; infinite where it has one for every lam."""
        radius = _radius(self.chain(2))
        return 1.0 / math.sqrt(radius) if radius > 0 else math.inf

    @property
    def finite(self) -> bool:
        """Whether the trace has a finite variance."""
        return self.lam < self.finite_below

    @cached_property
    def mean(self) -> Floats:
        """m(s) = d(s) E[e | s], one row per state."""
        start = self.problem.features * self.d_mu[:, None]
        if self.lam == 0:
            return start
        chain = self.lam * self.chain(1)
        if _radius(chain) >= 1 - 1e-12:
            raise InputError(
                f"with lam={self.lam:g} the traces of {self.problem.name} grow for ever: its episodes do not end and "
                "gamma is 1; take lam below 1."
            )
        return np.asarray(np.linalg.solve(np.eye(len(chain)) - chain.T, start))

    @cached_property
    def square(self) -> Floats:
        """W(s) = d(s) E[e e' | s], a matrix per state."""
        if not self.finite:
            raise InputError(self.note)
        phi, n = self.problem.features, self.problem.mdp.n_states
        carried = (self.lam * self.chain(1)).T @ self.mean
        cross = carried[:, :, None] * phi[:, None, :]
        start = self.d_mu[:, None, None] * phi[:, :, None] * phi[:, None, :] + cross + cross.transpose(0, 2, 1)
        system = np.eye(n) - self.lam**2 * self.chain(2).T
        return np.asarray(np.linalg.solve(system, start.reshape(n, -1)).reshape(start.shape))

    @property
    def note(self) -> str:
        """What to know where the variance is not finite."""
        return (
            f"with lam={self.lam:g} and trace={self.trace!r} the traces of {self.problem.name} have an infinite "
            "variance: averages over steps settle slowly or never. It is finite for lam below "
            f"{self.finite_below:.3g}; trace='clipped' or trace='tree' may help."
        )


def _radius(matrix: Floats) -> float:
    return float(np.abs(np.linalg.eigvals(matrix)).max())
