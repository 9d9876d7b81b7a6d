"""Moments of all possible steps, at the cost of sums over the rows of features.

A step k starts in row i of the features and leads to row j. Its phi_k is row i; d_k = rho (gamma phi' - phi) is
a combination of rows i and j. So every second moment of the steps is a sum over pairs of rows, whose weights are
computed once here, for any number of steps.

With traces, phi is the trace e, which is random given the row. It depends on the past, d on the future, so given the
row they are independent: means need E[e], and second moments E[e e'], of the row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core.arrays import Floats

CHUNK = 1 << 22
DENSE_ROWS = 5000
"""Maximum number of entries of temporary arrays, and of rows whose pairs are stored in a dense matrix."""


@dataclass(frozen=True, eq=False)
class Support:
    """Steps with probabilities ``p``; ``phi`` and ``y`` hold the features of rows in two coordinate systems.

    phi_k = phi[row_k] and d_k = rho_k (discount_k y[next_row_k] - y[row_k]). If phi_k is random given the row,
    ``phi`` holds its mean and ``square`` the matrices E[phi phi'] of the rows.
    """

    phi: Floats
    y: Floats
    row: NDArray[np.int64]
    next_row: NDArray[np.int64]
    p: Floats
    rho: Floats
    discount: Floats
    square: Floats | None = None

    @property
    def n_rows(self) -> int:
        return len(self.phi)

    def with_y(self, y: Floats) -> Support:
        """The same steps with d in other coordinates."""
        return replace(self, y=y)

    def per_row(self, values: Floats) -> Floats:
        """Sum over the steps from each row."""
        return np.asarray(np.bincount(self.row, values, minlength=self.n_rows), np.float64)

    def d_dot(self, v: Floats) -> Floats:
        """d_k . v for every step."""
        along = self.y @ v
        return np.asarray(self.rho * (self.discount * along[self.next_row] - along[self.row]))

    def d_sums(self, weight: Floats) -> Floats:
        """Sum of weight_k d_k over the steps from each row, shape (rows, coordinates)."""
        w = weight * self.rho
        return np.asarray(self._pairs(w * self.discount) @ self.y - self.per_row(w)[:, None] * self.y)

    def phi_moment(self, x: Floats) -> Floats:
        """Sum over rows of x phi phi'."""
        if self.square is not None:
            return np.asarray(np.tensordot(x, self.square, axes=1))
        return np.asarray((self.phi * x[:, None]).T @ self.phi)

    def phi_form(self, G: Floats) -> Floats:
        """phi' G phi of every row."""
        if self.square is not None:
            return np.asarray(np.einsum("sij,ij->s", self.square, G))
        return np.asarray(np.einsum("ij,ij->i", self.phi @ G, self.phi))

    @property
    def phi_entry_squares(self) -> Floats:
        """phi(i)^2 of every row, shape (rows, features)."""
        return np.asarray(self.phi**2 if self.square is None else np.einsum("sii->si", self.square))

    def phi_kernel(self, part: slice) -> Floats:
        """(phi_s . phi_t)^2 for rows s of a part and all rows t, for two independent draws."""
        if self.square is not None:
            return np.asarray(np.tensordot(self.square[part], self.square, axes=([1, 2], [1, 2])))
        return np.asarray((self.phi[part] @ self.phi.T) ** 2)

    def phi_pushed(self, pairs: list[tuple[Floats, Floats]]) -> Floats:
        """Sum over rows s of phi_s phi_s' x z_s' for pairs of a vector x (or a matrix X) and a table of z (or Z)."""
        touched: Any = 0.0
        if self.square is None:
            for x, z in pairs:
                along = self.phi @ x
                touched = touched + (along[:, None] * z if x.ndim == 1 else np.einsum("sa,sab->sb", along, z))
            return np.asarray(self.phi.T @ touched)
        for x, z in pairs:
            pushed = self.square @ x
            touched = touched + (pushed[:, :, None] * z[:, None, :] if x.ndim == 1 else pushed @ z)
        return np.asarray(touched.sum(axis=0))

    def d_form(self, M: Floats) -> Floats:
        """Sum of p_k d_k' M d_k over the steps from each row."""
        moved = self.y @ M
        own = np.einsum("ij,ij->i", moved, self.y)
        w0, w1, w2 = self._weights
        if isinstance(w1, np.ndarray):
            cross = np.einsum("ij,ij->i", w1, moved @ self.y.T)
        else:
            cross = self._sparse_cross(w1, moved)
        return np.asarray(w2 @ own - 2.0 * cross + w0 * own)

    def d_moment(self, x: Floats) -> Floats:
        """Sum of p_k x[row_k] d_k d_k' over all steps."""
        w0, w1, w2 = self._weights
        corner = self.y.T @ (w1.T @ (x[:, None] * self.y))
        own = (self.y * (w2.T @ x + w0 * x)[:, None]).T @ self.y
        return np.asarray(own - corner - corner.T)

    @cached_property
    def d_squares(self) -> Floats:
        """Sum of p_k d_k d_k' over the steps from each row, shape (rows, coordinates, coordinates)."""
        w0, w1, w2 = self._weights
        n, r = self.y.shape
        squares = (self.y[:, :, None] * self.y[:, None, :]).reshape(n, r * r)
        cross = (w1 @ self.y)[:, :, None] * self.y[:, None, :]
        own = w2 @ squares + w0[:, None] * squares
        return np.asarray(own.reshape(n, r, r) - cross - cross.transpose(0, 2, 1))

    @cached_property
    def d_entry_squares(self) -> Floats:
        """Sum of p_k d_k(j)^2 over the steps from each row, shape (rows, coordinates)."""
        w0, w1, w2 = self._weights
        return np.asarray(w2 @ self.y**2 - 2.0 * (w1 @ self.y) * self.y + w0[:, None] * self.y**2)

    @cached_property
    def d_norms(self) -> Floats:
        """|d_k|^2 for every step."""
        out = np.empty(len(self.p))
        size = max(1, CHUNK // self.y.shape[1])
        for begin in range(0, len(self.p), size):
            k = slice(begin, begin + size)
            out[k] = (self.d_vectors(k) ** 2).sum(axis=1)
        return out

    def d_vectors(self, k: Any = slice(None)) -> Floats:
        """The vectors d_k, one row per step."""
        y, after = self.y[self.row[k]], self.y[self.next_row[k]]
        return np.asarray(self.rho[k, None] * (self.discount[k, None] * after - y))

    def _pairs(self, weight: Floats) -> Any:
        """A matrix over (row, next row) with the sums of a weight."""
        from scipy.sparse import csr_array

        shape = (self.n_rows, self.n_rows)
        return csr_array((weight, (self.row, self.next_row)), shape=shape)

    @cached_property
    def _weights(self) -> tuple[Floats, Any, Any]:
        """Sums of p rho^2 per row, of p rho^2 gamma and of p rho^2 gamma^2 per pair of rows."""
        w = self.p * self.rho**2
        w1, w2 = self._pairs(w * self.discount), self._pairs(w * self.discount**2)
        if self.n_rows**2 <= max(40 * len(self.p), 10_000) and self.n_rows <= DENSE_ROWS:
            w1 = w1.toarray()
        return self.per_row(w), w1, w2

    def _sparse_cross(self, w1: Any, moved: Floats) -> Floats:
        """Per row: the sum over next rows of w1 moved[row] . y[next row]."""
        pairs = w1.tocoo()
        i, j = pairs.coords
        out = np.zeros(self.n_rows)
        size = max(1, CHUNK // self.y.shape[1])
        for begin in range(0, len(i), size):
            k = slice(begin, begin + size)
            values = pairs.data[k] * np.einsum("ij,ij->i", moved[i[k]], self.y[j[k]])
            out += np.bincount(i[k], values, minlength=self.n_rows)
        return out
