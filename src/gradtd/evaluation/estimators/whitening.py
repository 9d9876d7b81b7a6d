"""Features with C = I: the same values can be represented, and gradients find them in far fewer steps.

A rule on features W'phi learns weights theta_w, and W theta_w are the weights for phi: the same value function. With
C = mean of phi phi' and W W' = C^-1 the condition of A no longer depends on how the features were chosen, only on the
problem (NEU becomes MSPBE). It costs one more pass over the log, O(n d^2), and no memory: a dense table is changed in
place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.core.blas import one_thread
from gradtd.evaluation.estimators.products import chunk_rows, chunks, cross, rows_at, times
from gradtd.evaluation.estimators.solvers import DENSE, feature_scale, is_diagonal

REDUNDANT = 1e-10
"""Directions with a share of the variance below this, features scaled to one, are left out as redundant."""
AS_DENSE, AS_DENSE_SOLVED = 2**25, 2**22
"""A sparse table with at most this many entries, zeros counted, is made dense to be whitened: for a rule that makes
updates, and where equations are solved at once, which needs no whitening. Cells stay sparse: their C is diagonal."""


@one_thread()
def second_moments(table: Any, rows: Any) -> Any:
    """C = mean of x x' over these rows; dense, or sparse for cells and where there are many sparse features."""
    C: Any = 0.0
    for part in chunks(len(rows), chunk_rows(table)):
        x = rows_at(table, rows[part])
        C += cross(x, x)
    stays = isinstance(C, np.ndarray) or table.shape[1] > DENSE or is_diagonal(C)
    return (C if stays else C.toarray()) / len(rows)


def condition(C: Any) -> float | None:
    """The condition number of C with every feature scaled to mean square one, directions of no variance left out.

    One for cells; None where C is sparse otherwise.
    """
    if not isinstance(C, np.ndarray):
        return 1.0 if is_diagonal(C) else None
    scale = np.sqrt(np.where(np.diag(C) > 0, np.diag(C), 1.0))
    eigenvalues = np.linalg.eigvalsh(C / scale[:, None] / scale)
    kept = eigenvalues[eigenvalues > 1e-12 * eigenvalues[-1]]
    return float(kept[-1] / kept[0]) if len(kept) else float("inf")


def whitener(C: Floats, redundant: float = REDUNDANT) -> Floats:
    """W with W'C W = I, zero columns for directions that the features do not have."""
    scale = feature_scale(C)
    eigenvalues, vectors = np.linalg.eigh(scale[:, None] * C * scale)
    kept = eigenvalues > redundant * eigenvalues[-1]
    lengths = np.sqrt(np.where(kept, eigenvalues, 1.0))
    return np.asarray(scale[:, None] * vectors * np.where(kept, 1.0 / lengths, 0.0))


@one_thread()
def whiten(table: Any, C: Any, as_dense: int = AS_DENSE) -> tuple[Any, Floats]:
    """The table in whitened features, and W (a vector where it is diagonal); a dense table is changed in place."""
    n_rows, d = table.shape
    if not isinstance(table, np.ndarray):
        if d > DENSE or n_rows * d > as_dense or is_diagonal(C):
            scale = feature_scale(C)
            table.data *= scale[table.indices]
            return table, scale
        table = table.toarray()
    W, rows = whitener(C), chunk_rows(table)
    room = np.empty((min(rows, n_rows), d))
    for part in chunks(n_rows, rows):
        table[part] = times(table[part], W, room[: part.stop - part.start])
    return table, W


def whitened_moments(table: Any, C: Any, W: Floats | None) -> Any:
    """C of a dense table that was whitened by W, or left as it is; None for a sparse one."""
    if not isinstance(table, np.ndarray) or not isinstance(C, np.ndarray):
        return None
    return C if W is None else W.T @ C @ W


def original(W: Floats | None, theta: Floats) -> Floats:
    """The weights of the features as they were."""
    if W is None:
        return theta
    return np.asarray(W * theta if W.ndim == 1 else W @ theta)
