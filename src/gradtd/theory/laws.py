"""The distribution of one step: everything the theory needs to know about a problem or a sample of steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gradtd.compiled.traces import KINDS, Tracing, traces_of
from gradtd.core import checks
from gradtd.core.arrays import Floats, dense
from gradtd.core.checks import InputError
from gradtd.core.stream import Stream
from gradtd.problems import as_problem
from gradtd.problems.base import Problem
from gradtd.problems.exact import exact, largest_value, rank, solve_td
from gradtd.theory.support import Support

LARGEST_TABLE = 50_000_000
"""Maximum number of entries of a dense table of features."""


@dataclass(frozen=True, eq=False)
class Law:
    """The distribution of one step and its moments.

    Step k has probability ``p[k]``, ratio ``rho[k]``, reward ``reward[k]`` and discount ``discount[k]``; it goes from
    ``features[row[k]]`` to ``features[next_row[k]]``. In the notation of the paper: phi_k, d_k = rho (gamma phi' -
    phi), c_k = rho r, A = E[phi d'], b = E[phi c], B = A'A, e_k = d_k . theta* + c_k, D_k = phi_k d_k' - A. d and c
    include the ratio, and so do all moments here. ``n_steps`` is the number of equally likely steps if the law is that
    of a sample. With traces phi_k is the trace: ``traces`` holds its mean for every row, ``square`` the matrices E[e
    e'] if the trace is random given the row, as for a problem.
    """

    name: str
    features: Floats
    row: NDArray[np.int64]
    next_row: NDArray[np.int64]
    p: Floats
    rho: Floats
    discount: Floats
    reward: Floats
    theta0: Floats
    n_steps: int | None = None
    lam: float = 0.0
    traces: Floats | None = None
    square: Floats | None = None

    def __repr__(self) -> str:
        kind = "exact" if self.n_steps is None else f"empirical, {self.n_steps} steps"
        kind += f", lam {self.lam:g}" if self.lam > 0 else ""
        return f"Law({self.name}: {self.n_features} features, {len(self.p)} different steps, {kind})"

    @property
    def n_features(self) -> int:
        return int(self.features.shape[1])

    @cached_property
    def support(self) -> Support:
        return Support(self.left, self.features, self.row, self.next_row, self.p, self.rho, self.discount, self.square)

    @property
    def left(self) -> Floats:
        """The left factor of A for every row: the mean trace, or the features."""
        return self.features if self.traces is None else self.traces

    @property
    def phi(self) -> Floats:
        """phi_k, one row per step; with traces, the (mean) trace."""
        return np.asarray(self.left[self.row])

    @property
    def phi_next(self) -> Floats:
        """phi'_k, one row per step, without ratio and discount."""
        return np.asarray(self.features[self.next_row])

    @property
    def d(self) -> Floats:
        """d_k = rho (gamma phi' - phi), one row per step."""
        return self.support.d_vectors()

    @property
    def c(self) -> Floats:
        """c_k = rho r, one entry per step."""
        return np.asarray(self.rho * self.reward)

    @cached_property
    def A(self) -> Floats:
        """E[phi d']."""
        return np.asarray(self.left.T @ self.support.d_sums(self.p))

    @cached_property
    def b(self) -> Floats:
        """E[phi c]."""
        return np.asarray(self.left.T @ self.support.per_row(self.p * self.c))

    @cached_property
    def C(self) -> Floats:
        """E[phi phi'] of the features, without ratio and trace."""
        return np.asarray((self.features * self.support.per_row(self.p)[:, None]).T @ self.features)

    @cached_property
    def B(self) -> Floats:
        """A'A, the matrix of the mean update."""
        return np.asarray(self.A.T @ self.A)

    @cached_property
    def theta_star(self) -> Floats:
        """The TD solution, A theta + b = 0; the minimum-norm solution if A is singular."""
        return solve_td(self.A, self.b, scale=largest_value(self.C))

    @cached_property
    def e(self) -> Floats:
        """e_k = d_k . theta* + c_k, the TD error at the solution, ratio included."""
        return np.asarray(self.support.d_dot(self.theta_star) + self.c)

    @cached_property
    def left_over(self) -> Floats:
        """A theta* + b: zero if the TD equations have a solution."""
        left = self.A @ self.theta_star + self.b
        scale = largest_value(self.A) * float(np.linalg.norm(self.theta_star)) + float(np.linalg.norm(self.b))
        return left if np.linalg.norm(left) > 1e-9 * scale else np.zeros_like(left)

    @cached_property
    def singular_values(self) -> tuple[Floats, Floats]:
        """Singular values of A above rounding, and their directions of theta (rows)."""
        _, values, directions = np.linalg.svd(self.A)
        found = rank(self.A, largest_value(self.C))
        return values[:found], directions[:found]

    @property
    def rank(self) -> int:
        """Rank of A."""
        return len(self.singular_values[0])

    @cached_property
    def dimension(self) -> int:
        """Dimension of span{d_k}, in which theta moves."""
        second = self.support.d_moment(np.ones(len(self.features)))
        values = np.linalg.eigvalsh(second)
        if values[0] > 1e-12 * values[-1]:
            return self.n_features
        return rank(np.unique(self.d, axis=0))

    @property
    def blind(self) -> bool:
        """Whether theta moves in the null space of A, where nothing corrects it."""
        return self.dimension > self.rank

    @property
    def mu(self) -> float:
        """Smallest nonzero eigenvalue of A'A."""
        return float(self.singular_values[0][-1] ** 2)

    @property
    def norm_A(self) -> float:
        """Spectral norm of A."""
        return float(self.singular_values[0][0])

    @cached_property
    def Gamma(self) -> Floats:
        """E[phi phi' e^2]."""
        return self.support.phi_moment(self.support.per_row(self.p * self.e**2))

    @cached_property
    def V_A(self) -> Floats:
        """E[D D'] = E[phi phi' |d|^2] - A A'."""
        return np.asarray(
            self.support.phi_moment(self.support.per_row(self.p * self.support.d_norms)) - self.A @ self.A.T
        )

    @cached_property
    def W_A(self) -> Floats:
        """E[D' D] = E[d d' |phi|^2] - A'A."""
        return self.support.d_moment(self.support.phi_entry_squares.sum(axis=1)) - self.B

    @cached_property
    def Sigma_A(self) -> Floats:
        """Standard deviations of the entries of phi d'."""
        square = self.support.phi_entry_squares.T @ self.support.d_entry_squares
        return np.sqrt(np.maximum(square - self.A**2, 0.0))

    @cached_property
    def Sigma_b(self) -> Floats:
        """Standard deviations of the entries of phi c."""
        square = self.support.phi_entry_squares.T @ self.support.per_row(self.p * self.c**2)
        return np.sqrt(np.maximum(square - self.b**2, 0.0))

    @property
    def S(self) -> float:
        """|Sigma_A|^2 in Frobenius norm, the trace of V_A."""
        return float((self.Sigma_A**2).sum())

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Caveats about the numbers."""
        notes = []
        if self.rank < self.n_features:
            notes.append(
                f"A has rank {self.rank} of {self.n_features}: theta_star is the solution of minimum norm, mu the "
                "smallest eigenvalue of A'A that is not zero, and errors are measured in the row space of A."
            )
        if self.blind:
            notes.append(
                f"theta moves in {self.dimension} directions, but A has rank {self.rank}: in the other directions "
                "nothing "
                "corrects theta, so no step-size is stable in mean square; drop features that depend on others."
            )
        if np.any(self.left_over):
            notes.append("the TD equations have no solution; theta_star is their least-squares solution.")
        return tuple(notes)


def law(source: Problem | str | Stream | Law, lam: float = 0.0, trace: str = "rho") -> Law:
    """The law of one step: exact for a problem (or its name), empirical for a stream.

    For a problem a step has probability d_mu(s) behaviour(a|s) P(s'|s,a), with the behaviour's stationary law d_mu;
    for a stream each of its n steps has probability 1/n. Cost: linear in the number of steps.

    Parameters
    ----------
    source : Problem, str, Stream or Law
        The source of the steps.
    lam, trace
        Decay and ratio of traces, as in `gradtd.exact`. A problem whose traces have infinite variance is refused,
        because no mean-square theory applies.

    >>> boyan = law("boyan_chain")
    >>> boyan
    Law(boyan_chain: 4 features, 23 different steps, exact)
    >>> boyan.theta_star.round(9) + 0.0
    array([-24., -16.,  -8.,   0.])
    >>> [round(x, 4) for x in (boyan.norm_A, boyan.mu, boyan.S)]
    [0.1223, 0.0017, 0.1847]
    >>> law("boyan_chain", lam=0.8)
    Law(boyan_chain: 4 features, 23 different steps, exact, lam 0.8)
    """
    if isinstance(source, Law):
        if lam not in (0.0, source.lam):
            raise InputError(f"{source!r} has its lam already; make a law with lam={lam:g} from its problem or stream.")
        found = source
    elif isinstance(source, Stream):
        tracing = Tracing(checks.fraction("lam", lam), checks.one_of("trace", trace, KINDS))
        found = _of_stream(source) if lam == 0 else _of_traced_stream(source, tracing)
    else:
        found = _of_problem(as_problem(source), lam, trace)
    if not np.any(found.A):
        raise InputError(f"A of {found.name} is zero: there is nothing to learn; give steps with features and ratios.")
    return found


def _of_problem(problem: Problem, lam: float, trace: str) -> Law:
    known = exact(problem, lam, trace)
    mdp, d_mu = problem.mdp, known.d_mu
    visits = np.where(d_mu > 0, d_mu, 1.0)
    joint = d_mu[:, None, None] * problem.behaviour[:, :, None] * mdp.transition
    s, a, after = np.nonzero(joint)
    return Law(
        name=problem.name,
        features=problem.features,
        row=s,
        next_row=after,
        p=joint[s, a, after],
        rho=problem.target[s, a] / problem.behaviour[s, a],
        discount=np.where(mdp.terminal[after], 0.0, problem.gamma),
        reward=mdp.reward[s, a, after],
        theta0=problem.theta0,
        lam=known.lam,
        traces=known.traces.mean / visits[:, None] if lam > 0 else None,
        square=known.traces.square / visits[:, None, None] if lam > 0 else None,
    )


def _of_traced_stream(stream: Stream, tracing: Tracing) -> Law:
    """The law of a stream with traces. Every step has its own row, with features and trace; rows of next states
    follow."""
    _refuse_short(stream)
    steps, n = stream.steps, len(stream)
    ends, place = np.unique(steps["next_row"], return_inverse=True)
    if (n + len(ends)) * stream.n_features > LARGEST_TABLE:
        raise InputError(
            f"the theory needs a dense table of traces, and {n} steps with {stream.n_features} features are too many: "
            "use a part of the stream."
        )
    table = np.vstack([dense(stream.features[steps["row"]]), dense(stream.features[ends])])
    made = traces_of(stream, tracing)
    if not isinstance(made, np.ndarray):
        from scipy.sparse import csr_array

        made = csr_array((made.data, made.indices, made.begin), shape=(n, stream.n_features)).toarray()
    return Law(
        name=stream.name,
        features=table,
        row=np.arange(n),
        next_row=n + place,
        p=np.full(n, 1.0 / n),
        rho=np.array(steps["rho"]),
        discount=np.array(steps["discount"]),
        reward=np.array(steps["reward"]),
        theta0=np.zeros(stream.n_features),
        n_steps=n,
        lam=tracing.lam,
        traces=np.vstack([made, np.zeros((len(ends), stream.n_features))]),
    )


def _refuse_short(stream: Stream) -> None:
    least = max(2, stream.n_features)
    if len(stream) < least:
        raise InputError(
            f"the empirical law needs at least {least} steps (no fewer than features), and {stream.name} has "
            f"{len(stream)}: add data, or use fewer features."
        )


def _of_stream(stream: Stream) -> Law:
    steps = stream.steps
    _refuse_short(stream)
    columns = [np.asarray(steps[name], np.float64) for name in ("row", "next_row", "discount", "rho", "reward")]
    kinds, count = np.unique(np.column_stack(columns), axis=0, return_counts=True)
    used, place = np.unique(kinds[:, :2].astype(np.int64), return_inverse=True)
    if len(used) * stream.n_features > LARGEST_TABLE:
        raise InputError(
            f"the theory needs a dense table of features, and {len(used)} rows of {stream.n_features} are too many: "
            "use a part of the stream."
        )
    table = stream.features[used]
    place = place.reshape(len(kinds), 2)
    return Law(
        name=stream.name,
        features=np.ascontiguousarray(dense(table)),
        row=place[:, 0],
        next_row=place[:, 1],
        p=count / len(steps),
        rho=kinds[:, 3],
        discount=kinds[:, 2],
        reward=kinds[:, 4],
        theta0=np.zeros(stream.n_features),
        n_steps=len(steps),
    )
