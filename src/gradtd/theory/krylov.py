"""Long curves of a linear recursion z -> T z from a few applications of T: Arnoldi's method.

In an orthonormal basis W of the Krylov space of z, T^t z is close to |z| W H^t e_1 with H = W' T W. It is exact for t
below the dimension; for a contraction a dimension of order sqrt(t) is enough. Where that is too many the curve is made
in pieces, each started where the one before ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from gradtd.core.arrays import Floats

DIMENSIONS = (30, 45, 70, 100, 150, 220)
"""Where to look whether the answer has settled."""
SETTLED = 1e-9
PROBES = 8


class Space(NamedTuple):
    """A Krylov space in which T^t z has settled for all t up to ``reach``."""

    basis: Floats
    H: Floats
    size: float
    reach: int


def power_curves(apply: Callable[[Floats], Floats], start: Floats, rows: Floats, steps: Sequence[int]) -> Floats | None:
    """rows @ T^t start at the given steps, shape (rows, steps); None where plain iteration would be as quick."""
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
    """The Krylov space of z, as large as it takes to reach ``last``, or at least a good way towards it."""
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
        for _ in range(2):  # twice, or the basis loses its right angles
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
