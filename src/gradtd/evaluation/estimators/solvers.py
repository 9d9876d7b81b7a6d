"""Solvers of the log's equations, A v = c and A'v = c: dense, by a Krylov method, or with sparse factors.

Each uses the cheapest exact method, with features scaled to mean square one. A feature that occurs in no step, or only
in steps with ratio 0, has an empty equation and keeps the weight 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats, Integers

DENSE = 1500
"""Up to this number of features, matrices are dense, unless features are cells."""
SINGULAR = 1e-11
"""Directions in which the scaled matrix is smaller than this, relative to its largest direction, are left at zero."""
REGULAR = 1e7
"""Condition number, in the 1-norm, up to which a matrix is inverted by elimination: nine digits remain."""
EXACT, GOOD_ENOUGH = 1e-14, 1e-11
"""Residual, relative to the right side, at which a Krylov method stops and which it must reach."""
A_ROUND, ROUNDS, MOST_ITERATIONS = 1e-6, 5, 400
"""BiCGSTAB restarts from the true residual when its tracked residual, which drifts away from the true one, has fallen
by this factor; then the maximum numbers of rounds and of iterations per round."""
FILLED = 5e7
"""A sparse matrix is factorised if its band has at most this number of entries: its factors fill the band (400 MB)."""
Preconditioner = Callable[[Floats], Floats]


def feature_scale(C: Any) -> Floats:
    """One over the root mean square of every feature, and 0 for a feature that is always 0."""
    square = C.diagonal()
    return np.asarray(np.divide(1.0, np.sqrt(square), out=np.zeros_like(square), where=square > 0))


def is_diagonal(C: Any) -> bool:
    """Whether a sparse C is diagonal, that is, every row has at most one feature (cells)."""
    return not isinstance(C, np.ndarray) and bool(C.count_nonzero() == np.count_nonzero(C.diagonal()))


def solver_of(A: Any, C: Any) -> Solver | SparseSolver:
    """The solver that suits A: dense, or sparse if A is sparse."""
    return Solver(A, C) if isinstance(A, np.ndarray) else SparseSolver(A, C)


class Solver:
    """Solves A v = c and A'v = c for a dense A, by minimum norm.

    If A is far from singular, the inverse comes from elimination, which takes a twentieth of the time of the singular
    values needed otherwise.
    """

    how = "a dense factorisation"

    def __init__(self, A: Floats, C: Any) -> None:
        self.scale = feature_scale(C)
        scaled = self.scale[:, None] * A * self.scale
        live = scaled.any(axis=1)
        scaled[:, ~live] = 0.0
        self._scaled = scaled
        inverse = _regular_inverse(scaled, np.flatnonzero(live))
        if inverse is None:
            u, s, v = np.linalg.svd(scaled)
            kept = s > SINGULAR * s[0] if s[0] > 0 else np.zeros(len(s), bool)
            inverse, rank = (v[kept].T / s[kept]) @ u[:, kept].T, int(kept.sum())
        else:
            rank = int(live.sum())
        self.inverse, self.singular = inverse, int((self.scale > 0).sum()) - rank

    @cached_property
    def condition(self) -> float | None:
        """The condition number of A in scaled units, without the directions in which it vanishes."""
        s = np.linalg.svd(self._scaled, compute_uv=False)
        return float(s[0] / s[s > SINGULAR * s[0]][-1]) if s[0] > 0 else np.inf

    @property
    def like(self) -> Preconditioner | None:
        """An approximate inverse for similar equations, in scaled units: a preconditioner for refits."""
        return lambda v: np.asarray(self.inverse @ v)

    def solve(self, c: Floats, transposed: bool = False) -> Floats:
        right = self.scale * c
        return np.asarray(self.scale * ((self.inverse.T if transposed else self.inverse) @ right))


def _regular_inverse(matrix: Floats, live: Integers) -> Floats | None:
    """The inverse on the rows and columns ``live``, 0 elsewhere, or None if the matrix is nearly singular."""
    inverse = np.zeros_like(matrix)
    part = matrix[np.ix_(live, live)]
    try:
        found = np.linalg.inv(part)
    except np.linalg.LinAlgError:
        return None
    size = float(np.linalg.norm(part, 1) * np.linalg.norm(found, 1)) if len(live) else np.inf
    if not size < REGULAR:
        return None
    inverse[np.ix_(live, live)] = found
    return inverse


def solved_each(matrices: Floats, right: Floats) -> Floats:
    """The solutions of several systems of equations, by minimum norm.

    Elimination solves all of them at once if none is nearly singular.
    """
    try:
        inverses = np.linalg.inv(matrices)
        sizes = np.linalg.norm(matrices, 1, axis=(1, 2)) * np.linalg.norm(inverses, 1, axis=(1, 2))
    except np.linalg.LinAlgError:
        sizes = np.full(len(matrices), np.inf)
    if (sizes < REGULAR).all():
        return np.asarray((inverses @ right[..., None])[..., 0])
    return np.array([np.linalg.lstsq(A, c, rcond=SINGULAR)[0] for A, c in zip(matrices, right, strict=True)])


class SparseSolver:
    """Solves A v = c and A'v = c for a sparse A, by minimum norm if A is singular.

    For cells A is, up to a scale of each row, gamma times a stochastic matrix minus one, and BiCGSTAB needs a few dozen
    iterations, each as cheap as reading A. If it does not converge, A is factorised: as a dense matrix up to `DENSE`
    features, as a sparse one if it is banded. (Krylov methods are slow on slowly mixing chains and grids, whose
    matrices are banded.) LSMR solves the remaining cases.
    """

    def __init__(self, A: Any, C: Any, like: Preconditioner | None = None, exact: float = EXACT) -> None:
        import scipy.sparse

        self.scale = feature_scale(C)
        by = scipy.sparse.diags_array(self.scale)
        scaled = (by @ A @ by).tocsr()
        scaled.eliminate_zeros()
        self.live = np.flatnonzero(np.diff(scaled.indptr) > 0)
        everything = len(self.live) == len(self.scale)
        self.matrix = scaled if everything else scaled[self.live][:, self.live].tocsr()
        self.condition: float | None = None
        self.singular = int((self.scale > 0).sum()) - len(self.live)
        self.how = "BiCGSTAB, preconditioned by the diagonal"
        self._like, self._exact = like, exact
        self._other: Callable[[Floats, bool], Floats] | None = None

    @cached_property
    def turned(self) -> Any:
        """A' in the same units."""
        return self.matrix.T.tocsr()

    @property
    def like(self) -> Preconditioner | None:
        """An approximate inverse for similar equations, in scaled units. None if the diagonal is sufficient."""
        if self._other is None:
            return self._like
        other, live, n = self._other, self.live, len(self.scale)

        def about(v: Floats) -> Floats:
            out = np.zeros(n)
            out[live] = other(v[live], False)
            return out

        return about

    def solve(self, c: Floats, transposed: bool = False, guess: Floats | None = None) -> Floats:
        """The solution of the equations. An initial guess saves iterations if the equations are not transposed."""
        out, right = np.zeros(len(self.scale)), (self.scale * c)[self.live]
        if len(self.live):
            begin = None if guess is None else _over(guess[self.live], self.scale[self.live])
            out[self.live] = self._solved(right, transposed, begin)
        return np.asarray(self.scale * out)

    def _solved(self, right: Floats, transposed: bool, guess: Floats | None) -> Floats:
        matrix = self.turned if transposed else self.matrix
        if self._other is None:
            found = krylov(matrix, right, self._inverse(matrix, transposed), guess, self._exact)
            if found is not None:
                return found
            self._other = self._factored()
        return self._other(right, transposed)

    def _inverse(self, matrix: Any, transposed: bool) -> Preconditioner:
        if self._like is None or transposed:
            return by_diagonal(matrix)
        like, live, n = self._like, self.live, len(self.scale)

        def about(v: Floats) -> Floats:
            full = np.zeros(n)
            full[live] = v
            return like(full)[live]

        return about

    def _factored(self) -> Callable[[Floats, bool], Floats]:
        n = len(self.live)
        if n <= DENSE:
            dense = Solver(self.matrix.toarray(), np.eye(n))
            self.singular += dense.singular
            self.how, self.condition = dense.how, dense.condition
            return dense.solve
        if band(self.matrix) * n <= FILLED:
            from scipy.sparse.linalg import splu

            try:
                factors = splu(self.matrix.tocsc())
                self.how = "a sparse LU factorisation"
                return lambda right, transposed: np.asarray(factors.solve(right, "T" if transposed else "N"))
            except RuntimeError:  # exactly singular
                pass
        self.how = "LSMR, the solution of minimum norm"
        return self._least

    def _least(self, right: Floats, transposed: bool) -> Floats:
        from scipy.sparse.linalg import lsmr

        matrix = self.turned if transposed else self.matrix
        return np.asarray(lsmr(matrix, right, atol=1e-12, btol=1e-12, maxiter=2000)[0])


def _over(values: Floats, scale: Floats) -> Floats:
    return np.asarray(np.divide(values, scale, out=np.zeros_like(values), where=scale > 0))


def by_diagonal(matrix: Any) -> Preconditioner:
    """Division by the diagonal, or by the largest entry of a row if its diagonal entry is nearly 0."""
    diagonal, largest = matrix.diagonal(), abs(matrix).max(axis=1).toarray().ravel()
    by = np.where(np.abs(diagonal) > 1e-3 * largest, diagonal, np.where(largest > 0, largest, 1.0))
    return lambda v: np.asarray(v / by)


def krylov(
    matrix: Any, right: Floats, precondition: Preconditioner, guess: Floats | None = None, exact: float = EXACT
) -> Floats | None:
    """The solution by BiCGSTAB, refined from its true residual to rounding error, or None if it fails.

    ``precondition`` is an approximate inverse of the matrix; ``exact`` is the residual, relative to the right side, at
    which it stops.
    """
    from scipy.sparse.linalg import LinearOperator, bicgstab

    size = float(np.linalg.norm(right))
    x = np.zeros(len(right)) if guess is None else guess.copy()
    if size == 0:
        return np.zeros(len(right))
    inverse = LinearOperator(matrix.shape, precondition, dtype=np.float64)
    residual, left = right - matrix @ x, np.inf
    for _ in range(ROUNDS):
        now = float(np.linalg.norm(residual)) / size
        if not now < left / 2 or now <= exact:
            break
        left = now
        with np.errstate(all="ignore"):  # a breakdown shows in the residual
            most = {"rtol": A_ROUND, "atol": 0.1 * exact * size, "maxiter": MOST_ITERATIONS}
            step, _ = bicgstab(matrix, residual, M=inverse, **most)
            after = residual - matrix @ step
        if not np.linalg.norm(after) < np.linalg.norm(residual):
            break
        x, residual = x + step, after
    return x if np.linalg.norm(residual) <= GOOD_ENOUGH * size else None


def band(matrix: Any) -> int:
    """The bandwidth of a matrix, with rows and columns in the order of Cuthill and McKee."""
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    order = reverse_cuthill_mckee((abs(matrix) + abs(matrix.T)).tocsr(), symmetric_mode=True)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    entries = matrix.tocoo()
    return int(np.abs(place[entries.row] - place[entries.col]).max(initial=0)) + 1
