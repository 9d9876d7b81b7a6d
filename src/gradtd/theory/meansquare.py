"""Mean-square theory of any linear recursion with independent random steps.

    x_{t+1} = x_t - alpha g_t(x_t),     g_t affine in x, independent over t, E g_t(x*) = 0.

With Delta = x - x*, v = E Delta, M = E Delta Delta', and the drift B = E of the matrix of g:

    v' = v - alpha B v
    M' = M - alpha (B M + M B') + alpha^2 Q(M, v),     Q(M, v) = E[g g'].

Write U(M) = B M + M B' and V for the linear part of Q. If -B is a stable matrix, U^{-1} and V preserve positive
semidefinite matrices, and by the theorem of Krein and Rutman the recursion is stable in mean square if and only if
alpha < alpha* = 1 / (spectral radius of U^{-1} V). Nothing here forms a d^2 by d^2 matrix unless it is small.

Long curves of a linear recursion z -> T z from a few applications of T: Arnoldi's method.

In an orthonormal basis W of the Krylov space of z, T^t z is close to |z| W H^t e_1 with H = W' T W. It is exact for t
below the dimension; for a contraction a dimension of order sqrt(t) is enough. If that is too large, the curve is
computed in pieces, each starting at the end of the previous one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Floats

DIMENSIONS = (30, 45, 70, 100, 150, 220)
"""Number of points at which convergence is checked."""
SETTLED = 1e-9
PROBES = 8


class Space(NamedTuple):
    """A Krylov space in which T^t z has converged for all t up to ``reach``."""

    basis: Floats
    H: Floats
    size: float
    reach: int


def power_curves(apply: Callable[[Floats], Floats], start: Floats, rows: Floats, steps: Sequence[int]) -> Floats | None:
    """rows @ T^t start at the given steps, shape (rows, steps), or None if plain iteration is as fast."""
    out, place, now, z = np.empty((len(rows), len(steps))), 0, 0, start
    while place < len(steps):
        space = _space(apply, z, rows, int(steps[-1]) - now)
        if space is None:
            return None
        seen, y, end = space.size * (rows @ space.basis.T), np.eye(len(space.H))[0], now + space.reach
        while place < len(steps) and steps[place] <= end:
            y, now = _advanced(space.H, y, int(steps[place]) - now), int(steps[place])
            out[:, place], place = seen @ y, place + 1
        y, now = _advanced(space.H, y, end - now), end
        z = space.size * (y @ space.basis)
    return out


def _space(apply: Callable[[Floats], Floats], z: Floats, rows: Floats, last: int) -> Space | None:
    """The Krylov space of z, large enough to reach ``last``, or a large part of the way."""
    size, most = float(np.linalg.norm(z)), DIMENSIONS[-1]
    if not np.isfinite(size) or size == 0.0:
        return None
    basis, H = np.zeros((most + 1, len(z))), np.zeros((most + 1, most))
    basis[0] = z / size
    base = max(1, -(-last // 2 ** (PROBES - 1)))
    before = np.full((PROBES, len(rows)), np.nan)
    for k in range(most):
        new = apply(basis[k])
        scale = float(np.linalg.norm(new))
        if not np.isfinite(scale):
            return None
        for _ in range(2):  # twice, otherwise the basis loses orthogonality
            along = basis[: k + 1] @ new
            H[: k + 1, k] += along
            new = new - along @ basis[: k + 1]
        H[k + 1, k] = np.linalg.norm(new)
        found = Space(basis[: k + 1], H[: k + 1, : k + 1], size, last)
        if H[k + 1, k] <= 1e-14 * scale or k >= last:
            return found
        if k + 1 in DIMENSIONS:
            values = _probed(found, rows, base)
            good = np.isfinite(values).all(axis=1) & (np.abs(values - before) <= SETTLED * np.abs(values)).all(axis=1)
            settled = int(np.argmin(np.r_[good, False]))
            if settled == PROBES:
                return found
            before = values
        basis[k + 1] = new / H[k + 1, k]
    reach = base * 2 ** (settled - 1) if settled else 0
    return Space(basis[:most], H[:most], size, reach) if reach >= 2 * most else None


def _probed(space: Space, rows: Floats, base: int) -> Floats:
    """rows @ T^t z at t = base, 2 base, 4 base, ..."""
    seen, y = space.size * (rows @ space.basis.T), np.eye(len(space.H))[0]
    power, out = np.linalg.matrix_power(space.H, base), np.empty((PROBES, len(rows)))
    y = power @ y
    for probe in range(PROBES):
        out[probe] = seen @ y
        y = power @ y
        power = power @ power
    return out


def _advanced(H: Floats, y: Floats, gap: int) -> Floats:
    """H^gap y."""
    if gap > 4 * len(H):
        return np.asarray(np.linalg.matrix_power(H, gap) @ y)
    for _ in range(gap):
        y = H @ y
    return y


DENSE_SPECTRUM = 100
DENSE_CURVE = 330
"""Maximum sizes of the packed state for which a matrix is formed: for eigenvalues and solves, and for iteration."""
TOLERANCE = 1e-11


@dataclass(frozen=True)
class Readout:
    """A linear function of the moments: tr(weight M) + slope . v + offset."""

    weight: Floats
    slope: Floats
    offset: float = 0.0


class MeanSquare(ABC):
    """The moments of a recursion in ``n`` coordinates; ``drift`` is B.

    ``self_adjoint``: V is a self-adjoint map; ``eigenvalues`` are those of B if B is diagonal.
    """

    n: int
    drift: Floats
    self_adjoint: bool = False
    eigenvalues: Floats | None = None

    @abstractmethod
    def quadratic(self, M: Floats) -> Floats:
        """V(M): the part of Q that is linear in M."""

    @abstractmethod
    def second_moment(self, M: Floats, v: Floats) -> Floats:
        """Q(M, v) = E[g g']."""

    @cached_property
    def noise(self) -> Floats:
        """Q(0, 0): the second moment of g at x*."""
        return self.second_moment(np.zeros((self.n, self.n)), np.zeros(self.n))

    @cached_property
    def spectrum(self) -> Any:
        """Eigenvalues of the drift B."""
        return self.eigenvalues if self.eigenvalues is not None else np.linalg.eigvals(self.drift)

    @property
    def drift_stable(self) -> bool:
        """Whether the mean converges to zero for small enough alpha: every eigenvalue of B has a positive real part."""
        real = self.spectrum.real
        return bool(real.min() > 1e-13 * np.abs(self.spectrum).max())

    def mean_threshold(self) -> float:
        """The step-size below which the mean converges: min over eigenvalues of 2 Re(l) / |l|^2."""
        return float((2.0 * self.spectrum.real / np.abs(self.spectrum) ** 2).min()) if self.drift_stable else 0.0

    def mean_rate(self, alpha: float) -> float:
        """Spectral radius of the mean's recursion, I - alpha B."""
        return float(np.abs(1.0 - alpha * self.spectrum).max())

    def lyapunov(self, X: Floats) -> Floats:
        """U^{-1}(X): the M with B M + M B' = X."""
        if self.eigenvalues is not None:
            return np.asarray(X / (self.eigenvalues[:, None] + self.eigenvalues[None, :]))
        T, Z, solve = self._schur
        Y, scale, _ = solve(T, T, Z.T @ X @ Z, tranb="T")
        return np.asarray(Z @ (scale * Y) @ Z.T)

    @cached_property
    def _schur(self) -> Any:
        """The drift as Z T Z' with T almost triangular, and the routine that solves T Y + Y T' = F."""
        from scipy.linalg import get_lapack_funcs, schur

        T, Z = schur(self.drift)
        return T, Z, get_lapack_funcs("trsyl", (T,))

    def drifted(self, M: Floats) -> Floats:
        """U(M) = B M + M B'."""
        moved = M * self.eigenvalues[:, None] if self.eigenvalues is not None else self.drift @ M
        return np.asarray(moved + moved.T)

    @cached_property
    def threshold(self) -> float:
        """alpha*: the recursion is stable in mean square if and only if alpha is below it; 0 if no alpha is stable."""
        if not self.drift_stable:
            return 0.0
        if self.self_adjoint and self.eigenvalues is not None:
            scale = 1.0 / np.sqrt(self.eigenvalues[:, None] + self.eigenvalues[None, :])
            radius = self._top(lambda M: scale * self.quadratic(scale * M), self_adjoint=True)
        else:
            radius = self._top(lambda M: self.lyapunov(self.quadratic(M)), self_adjoint=False)
        return 1.0 / radius

    def rate(self, alpha: float) -> float:
        """Spectral radius of M -> M - alpha U(M) + alpha^2 V(M): the factor of the mean square per step."""
        if _packed_size(self.n) > DENSE_SPECTRUM and alpha < self.threshold:
            # Close to 1 the eigenvalues cluster; those of the inverse of (U - alpha V) do not.
            top = self._top(lambda M: self.solve(alpha, M, 1e-9), self_adjoint=self.self_adjoint, subspace=8)
            return 1.0 - alpha / top
        return self._top(
            lambda M: M - alpha * self.drifted(M) + alpha**2 * self.quadratic(M), self_adjoint=self.self_adjoint
        )

    def stationary(self, alpha: float) -> Floats:
        """The limit of M, alpha (U - alpha V)^{-1}(Q(0, 0)), for alpha below the threshold."""
        return alpha * self.solve(alpha, self.noise)

    def solve(self, alpha: float, X: Floats, tolerance: float = TOLERANCE) -> Floats:
        """The M with U(M) - alpha V(M) = X."""
        if _packed_size(self.n) <= DENSE_SPECTRUM:
            matrix = _matrix(lambda M: self.drifted(M) - alpha * self.quadratic(M), self.n)
            return unpack(np.asarray(np.linalg.solve(matrix, pack(X))), self.n)
        from scipy.sparse.linalg import LinearOperator, cg, gmres

        size = _packed_size(self.n)
        if self.self_adjoint and self.eigenvalues is not None:
            scale = 1.0 / np.sqrt(self.eigenvalues[:, None] + self.eigenvalues[None, :])
            operator = _operator(lambda M: M - alpha * scale * self.quadratic(scale * M), self.n, LinearOperator)
            found, failed = cg(operator, pack(scale * X), rtol=tolerance, maxiter=5000)
            found = pack(scale * unpack(found, self.n))
        else:
            operator = _operator(lambda M: M - alpha * self.lyapunov(self.quadratic(M)), self.n, LinearOperator)
            found, failed = gmres(operator, pack(self.lyapunov(X)), rtol=tolerance, restart=min(100, size), maxiter=100)
        if failed:
            raise ArithmeticError(f"the linear system of the stationary law was not solved (code {failed}).")
        return unpack(found, self.n)

    def curves(self, alpha: float, steps: Sequence[int], delta0: Floats, reads: Sequence[Readout]) -> Floats:
        """The values of ``reads`` at the given ascending steps, from a fixed Delta_0; shape (reads, steps)."""
        M, v = np.outer(delta0, delta0), np.array(delta0, np.float64)
        out = np.empty((len(reads), len(steps)))
        with np.errstate(over="ignore", invalid="ignore"):
            if _packed_size(self.n) + self.n + 1 <= DENSE_CURVE and steps[-1] > 50:
                out = self._dense_curves(alpha, steps, M, v, reads)
                return np.where(np.isnan(out), np.inf, out)
            quick = self._krylov_curves(alpha, steps, M, v, reads) if steps[-1] > 100 else None
            if quick is not None:
                return quick
            now = 0
            for place, t in enumerate(steps):
                while now < t:
                    M = M - alpha * self.drifted(M) + alpha**2 * self.second_moment(M, v)
                    M = 0.5 * (M + M.T)  # otherwise asymmetry from rounding would grow
                    v = v - alpha * (self.drift @ v)
                    now += 1
                out[:, place] = [np.vdot(read.weight, M) + read.slope @ v + read.offset for read in reads]
        return np.where(np.isnan(out), np.inf, out)

    def _dense_curves(
        self, alpha: float, steps: Sequence[int], M: Floats, v: Floats, reads: Sequence[Readout]
    ) -> Floats:
        """`curves` with the recursion of (M, v, 1) as one matrix."""
        step = self._step_matrix(alpha)
        rows = np.array([np.r_[pack(read.weight), read.slope, read.offset] for read in reads])
        state = np.r_[pack(M), v, 1.0]
        out = np.empty((len(reads), len(steps)))
        now, powers = 0, {1: step}
        for place, t in enumerate(steps):
            gap = int(t) - now
            if gap > 2 * len(state):
                if gap not in powers:
                    powers = {1: step, gap: np.linalg.matrix_power(step, gap)}
                state = powers[gap] @ state
            else:
                for _ in range(gap):
                    state = step @ state
            now = int(t)
            out[:, place] = rows @ state
        return out

    def _krylov_curves(
        self, alpha: float, steps: Sequence[int], M: Floats, v: Floats, reads: Sequence[Readout]
    ) -> Floats | None:
        """`curves` in the Krylov space of the recursion of (M, v, 1), or None if that does not converge."""
        n, size = self.n, _packed_size(self.n)
        one = max(float(np.linalg.norm(M)), alpha**2 * float(np.linalg.norm(self.noise)))

        def step(z: Floats) -> Floats:
            M, v, share = unpack(z[:size], n), z[size:-1], z[-1] / one
            moment = self.second_moment(M, v) + (share - 1.0) * self.noise
            moved = pack(M - alpha * self.drifted(M) + alpha**2 * moment)
            return np.concatenate([moved, v - alpha * (self.drift @ v), z[-1:]])

        rows = np.array([np.r_[pack(read.weight), read.slope, read.offset / one] for read in reads])
        return power_curves(step, np.r_[pack(M), v, one], rows, steps)

    def _step_matrix(self, alpha: float) -> Floats:
        n, size = self.n, _packed_size(self.n)
        identity, drift, quadratic, slope, noise = self._parts
        matrix = np.zeros((size + n + 1, size + n + 1))
        matrix[:size, :size] = identity - alpha * drift + alpha**2 * quadratic
        matrix[:size, size:-1] = alpha**2 * slope
        matrix[:size, -1] = alpha**2 * noise
        matrix[size:-1, size:-1] = np.eye(n) - alpha * self.drift
        matrix[-1, -1] = 1.0
        return matrix

    @cached_property
    def _parts(self) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """The pieces of the step matrix: identity, U, V, Q's dependence on v, and Q(0, 0)."""
        zero = np.zeros((self.n, self.n))
        slope = [pack(self.second_moment(zero, unit) - self.noise) for unit in np.eye(self.n)]
        return (
            np.eye(_packed_size(self.n)),
            _matrix(self.drifted, self.n),
            _matrix(self.quadratic, self.n),
            np.array(slope).T,
            pack(self.noise),
        )

    def _top(self, apply: Callable[[Floats], Floats], *, self_adjoint: bool, subspace: int = 24) -> float:
        """Largest eigenvalue, which is the spectral radius, of a map that preserves positive semidefinite matrices.

        It uses the methods of Lanczos and Arnoldi; the error of the former is the square of its tolerance.
        """
        size = _packed_size(self.n)
        if size <= DENSE_SPECTRUM:
            matrix = _matrix(apply, self.n)
            return float(np.linalg.eigvals(matrix).real.max())
        from scipy.sparse.linalg import LinearOperator, eigs, eigsh

        find, which, tolerance = (eigsh, "LA", 1e-6) if self_adjoint else (eigs, "LR", 1e-9)
        found = find(
            _operator(apply, self.n, LinearOperator),
            k=1,
            which=which,
            v0=pack(np.eye(self.n)),
            ncv=subspace,
            tol=tolerance,
            maxiter=20 * size,
            return_eigenvectors=False,
        )
        return float(found[0].real)


def pack(M: Floats) -> Floats:
    """A symmetric matrix as a vector with the same inner products: the upper triangle, sqrt(2) off the diagonal."""
    upper, scale = _triangle(len(M))
    return np.asarray(M[upper] * scale)


def unpack(z: Floats, n: int) -> Floats:
    """The inverse of `pack`."""
    upper, scale = _triangle(n)
    M = np.zeros((n, n))
    M[upper] = z / scale
    M.T[upper] = M[upper]
    return M


@lru_cache(maxsize=8)
def _triangle(n: int) -> tuple[Any, Floats]:
    upper = np.triu_indices(n)
    return upper, np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))


def _packed_size(n: int) -> int:
    return n * (n + 1) // 2


def _operator(apply: Callable[[Floats], Floats], n: int, kind: Any) -> Any:
    size = _packed_size(n)
    return kind((size, size), matvec=lambda z: pack(apply(unpack(np.ravel(z), n))), dtype=np.float64)


def _matrix(apply: Callable[[Floats], Floats], n: int) -> Floats:
    """The matrix of a linear map of symmetric matrices, packed."""
    return np.array([pack(apply(unpack(unit, n))) for unit in np.eye(_packed_size(n))]).T
