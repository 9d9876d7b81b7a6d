"""Exact quantities of a finite problem: stationary law, values, A, b, C and the TD solution.

The module also computes the mean and the second moment of eligibility traces in every state, if they exist.

With c(s, a) the ratio in the trace, e' = gamma lam c e + phi' on a transition and e = phi at the start of an episode,
so

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
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from gradtd.compiled.traces import KINDS
from gradtd.core import checks
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.problems import as_problem
from gradtd.problems.base import FiniteMDP, Problem


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
        """The trace has a finite variance for every lam below this number; infinite if there is no such limit."""
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
                f"with lam={self.lam:g} the traces of {self.problem.name} grow without bound: its episodes do not end "
                "and gamma is 1; use lam below 1."
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
        """A note if the variance is infinite."""
        return (
            f"with lam={self.lam:g} and trace={self.trace!r} the traces of {self.problem.name} have an infinite "
            "variance: averages over steps converge slowly or not at all. It is finite for lam below "
            f"{self.finite_below:.3g}; trace='clipped' or trace='tree' may help."
        )


def _radius(matrix: Floats) -> float:
    return float(np.abs(np.linalg.eigvals(matrix)).max())


@dataclass(frozen=True, eq=False)
class Exact:
    """A problem's exact quantities under the behaviour's stationary law ``d_mu``.

    Made by `gradtd.exact`.

    Parameters
    ----------
    problem : Problem
        The problem.
    A, b : array
        ``A = E[rho phi (gamma phi' - phi)']`` and ``b = E[rho r phi]``; with traces, the trace replaces the first phi.
    C : array
        ``E[phi phi']``, without a ratio.
    d_mu : array
        The long-run share of steps that the behaviour takes in each state.
    v_pi : array
        The target's true values.
    theta_star : array
        The TD solution, of minimum norm if ``A`` is singular.
    states : array of int
        The states an episode can be in.
    p_pi, r_pi : array
        The target's transition matrix, including the discount, and mean reward, over all states; zero in terminal
        states.
    notes : tuple of str
        Notes on singular matrices and on traces with infinite variance.
    traces : TraceLaw
        The law of the traces.
    """

    problem: Problem
    A: Floats
    b: Floats
    C: Floats
    d_mu: Floats
    v_pi: Floats
    theta_star: Floats
    states: NDArray[np.int64]
    p_pi: Floats
    r_pi: Floats
    notes: tuple[str, ...]
    traces: TraceLaw

    @property
    def lam(self) -> float:
        return self.traces.lam

    @property
    def bias(self) -> Floats:
        """phi.theta_star - v_pi in each of ``states``: the solution's error, which more data cannot reduce."""
        return np.asarray(self.problem.features[self.states] @ self.theta_star - self.v_pi[self.states])


SINGULAR = 1e-10
"""A matrix whose smallest singular value is below this times its largest counts as singular."""


def exact(problem: Problem | str, lam: float = 0.0, trace: str = "rho") -> Exact:
    """Compute exactly everything about a problem that an algorithm has to estimate.

    The state law ``d_mu`` is the behaviour's stationary law (GTH elimination, no subtraction), of the chain that
    restarts from the start distribution if the problem is episodic. If A is singular, ``theta_star`` is the
    minimum-norm solution, and ``notes`` says so.

    Parameters
    ----------
    problem : Problem or str
        The problem, or its name in `gradtd.PROBLEMS`, with optional parameters.
    lam : float
        The decay of traces: A and b are then A = Phi' D (I - gamma lam P_pi)^{-1} (gamma P_pi - I) Phi and
        b = Phi' D (I - gamma lam P_pi)^{-1} r_pi. If the trace has infinite variance, ``notes`` says so.
    trace : str
        The ratio in a trace: ``"rho"``, ``"clipped"`` or ``"tree"``; P_pi in the inverse changes accordingly.

    >>> exact("boyan_chain").theta_star.round(9) + 0.0
    array([-24., -16.,  -8.,   0.])
    >>> [round(float(np.abs(exact("random_walk_dependent", lam).bias).max()), 3) for lam in (0, 0.8)]
    [0.185, 0.13]
    """
    problem = as_problem(problem)
    mdp, features = problem.mdp, problem.features
    alive = ~mdp.terminal
    p_mu, p_pi = _state_chain(mdp, problem.behaviour), _state_chain(mdp, problem.target)
    d_mu = _stationary_law_of_visits(mdp, p_mu)
    r_pi = np.einsum("sa,sat,sat->s", problem.target, mdp.transition, mdp.reward) * alive
    discounted = problem.gamma * p_pi * alive[None, :]
    traces = TraceLaw(problem, d_mu, lam, trace)
    weighted = traces.mean
    A = weighted.T @ (discounted @ features - features)
    b = weighted.T @ r_pi
    C = (features * d_mu[:, None]).T @ features
    notes = _rank_notes(A, C, problem.n_features) + (() if traces.finite else (traces.note,))
    return Exact(
        problem=problem,
        A=A,
        b=b,
        C=C,
        d_mu=d_mu,
        v_pi=_true_values(problem, discounted, r_pi),
        theta_star=solve_td(A, b, scale=largest_value(C)),
        states=np.flatnonzero(alive),
        p_pi=discounted,
        r_pi=r_pi,
        notes=notes,
        traces=traces,
    )


def solve_td(A: Floats, b: Floats, scale: float = 0.0) -> Floats:
    """Solve ``A theta + b = 0``; the minimum-norm least-squares solution if A is singular (see `rank`)."""
    if rank(A, scale) == A.shape[0]:
        theta = np.linalg.solve(A, -b)
        return np.asarray(theta + np.linalg.solve(A, -(A @ theta + b)))
    return np.asarray(np.linalg.pinv(A, rcond=_cut(A, scale)) @ -b)


def rank(matrix: Floats, scale: float = 0.0) -> int:
    """Number of singular values above `SINGULAR` times the largest, or times ``scale`` if that is larger."""
    values = np.linalg.svd(matrix, compute_uv=False)
    return int((values > SINGULAR * max(float(values[0]), scale)).sum())


def largest_value(matrix: Floats) -> float:
    """The largest singular value."""
    return float(np.linalg.norm(matrix, 2))


def _cut(matrix: Floats, scale: float) -> float:
    """The fraction of the largest singular value below which `rank` counts a singular value as zero."""
    largest = largest_value(matrix)
    return SINGULAR * max(largest, scale) / largest if largest > 0 else SINGULAR


def stationary_law(chain: Floats) -> Floats:
    """Stationary law of an irreducible chain by Grassmann-Taksar-Heyman elimination.

    It uses only sums, products and quotients of non-negative numbers, so every entry has full relative accuracy.

    >>> stationary_law(np.array([[0.9, 0.1], [0.3, 0.7]]))
    array([0.75, 0.25])
    """
    work = np.array(chain, dtype=np.float64)
    n = len(work)
    for k in range(n - 1, 0, -1):
        out = work[k, :k].sum()
        work[:k, k] /= out
        work[:k, :k] += np.outer(work[:k, k], work[k, :k])
    law = np.ones(n)
    for k in range(1, n):
        law[k] = law[:k] @ work[:k, k]
    return np.asarray(law / law.sum())


def _state_chain(mdp: FiniteMDP, policy: Floats) -> Floats:
    """State-to-state probabilities under a policy; rows of terminal states are zero."""
    return np.asarray(np.einsum("sa,sat->st", policy, mdp.transition) * ~mdp.terminal[:, None])


def _stationary_law_of_visits(mdp: FiniteMDP, p_mu: Floats) -> Floats:
    """Long-run share of steps in each state; a finished episode restarts from the start distribution."""
    alive = np.flatnonzero(~mdp.terminal)
    ended = p_mu[np.ix_(alive, mdp.terminal)].sum(axis=1)
    chain = p_mu[np.ix_(alive, alive)] + np.outer(ended, mdp.start[alive])
    recurrent = _only_recurrent_class(chain, mdp.start[alive])
    law = np.zeros(mdp.n_states)
    law[alive[recurrent]] = stationary_law(chain[np.ix_(recurrent, recurrent)])
    return law


def _only_recurrent_class(chain: Floats, start: Floats) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The recurrent states under the behaviour; chains with several recurrent classes are refused."""
    reached = start > 0
    while True:
        wider = reached | (chain[reached].sum(axis=0) > 0)
        if (wider == reached).all():
            break
        reached = wider
    n_classes, label = connected_components(chain > 0, connection="strong")
    closed = []
    for c in range(n_classes):
        inside = label == c
        if reached[inside].any() and not (chain[np.ix_(inside, ~inside)] > 0).any():
            closed.append(np.flatnonzero(inside))
    if len(closed) != 1:
        raise InputError(
            f"the behaviour can end up in {len(closed)} separate sets of states, so it has no single stationary law."
        )
    return closed[0]


def _true_values(problem: Problem, discounted: Floats, r_pi: Floats) -> Floats:
    system = np.eye(len(r_pi)) - discounted
    if rank(system) < len(r_pi):
        raise InputError(
            f"the target policy of {problem.name} never ends an episode and gamma is 1: its values are infinite."
        )
    return np.asarray(np.linalg.solve(system, r_pi))


def _rank_notes(A: Floats, C: Floats, n_features: int) -> tuple[str, ...]:
    notes = []
    if (found := rank(A, largest_value(C))) < n_features:
        notes.append(f"A is singular (rank {found} of {n_features}): theta_star is the minimum-norm solution")
    if (found := rank(C)) < n_features:
        notes.append(f"C is singular (rank {found} of {n_features}): MSPBE uses its pseudo-inverse")
    return tuple(notes)
