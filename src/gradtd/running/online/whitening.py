"""Whitens features by the first steps of a stream: C = mean of x x' becomes I.

The first steps are buffered. Then the map is fixed, the learner processes those steps, and every later row is mapped on
arrival. Predictions are not affected: reported weights refer to the original features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.compiled.online import CUT, GOES_ON
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.core.files import Arrays
from gradtd.running.online.blocks import put_many
from gradtd.running.online.queue import StepQueue

MOST_FEATURES = 2000
"""Maximum number of features; the cost of a row is its square."""
NEVER_SEEN = 1e-10
"""Directions with a smaller share of the largest second moment are not scaled up, since later steps may have more of
them.
"""
_PENDING = ("phi", "phi_next", "numbers", "over")


class Whitening:
    """``W`` maps rows, z = x W, once ``wait`` steps have come; it is symmetric, and theta = W theta_z."""

    def __init__(self, n_features: int) -> None:
        if n_features > MOST_FEATURES:
            raise InputError(f"whiten=True takes at most {MOST_FEATURES} features, got {n_features}: scale them.")
        self.W: Floats | None = None
        self.wait = max(1000, 5 * n_features)
        self.pending: list[tuple[NDArray[Any], ...]] = []

    @property
    def waiting(self) -> int:
        """Number of buffered steps."""
        return sum(len(part[0]) for part in self.pending)

    def take(self, queue: StepQueue, rows: list[Floats], numbers: tuple[float, float, float], cut: bool) -> None:
        """Take one step: buffer it, or learn from it in whitened features."""
        if self.W is None:
            over = np.array([cut or numbers[1] == 0])
            self.take_many(queue, [row[None] for row in rows], np.array(numbers).reshape(3, 1, 1), over)
            return
        queue.stage(rows[0] @ self.W, rows[1] @ self.W)
        queue.episodes.begin_step(None)
        queue.take(*numbers, CUT if cut else GOES_ON)

    def take_many(self, queue: StepQueue, rows: list[Floats], numbers: Floats, over: NDArray[np.bool_]) -> None:
        """Take many steps; once enough are buffered, fix the map and learn from all of them."""
        if self.W is not None:
            put_many(queue, [table @ self.W for table in rows], numbers, over)
            return
        self.pending.append((*(np.array(table, np.float64) for table in rows), numbers, over.copy()))
        if self.waiting >= self.wait:
            first, after, waited, ends = self.release()
            self.fix(first)
            run = queue.runs[0]
            run.weights[0] = self.weights(run.weights[0])
            put_many(queue, [first @ self.W, after @ self.W], waited, ends)

    def cut(self) -> None:
        """Mark the end of an episode after the latest buffered step."""
        if self.pending:
            self.pending[-1][3][-1] = True

    def release(self) -> tuple[NDArray[Any], ...]:
        """The buffered steps."""
        parts = list(zip(*self.pending, strict=True))
        self.pending = []
        return tuple(np.concatenate(part, axis=1 if i == 2 else 0) for i, part in enumerate(parts))

    def fix(self, rows: Floats) -> None:
        """Find the map from these rows."""
        size, basis = np.linalg.eigh(rows.T @ rows / len(rows))
        if size[-1] <= 0:
            raise InputError("whiten=True needs features that are not all 0 in the first steps.")
        self.W = (basis / np.sqrt(np.where(size > NEVER_SEEN * size[-1], size, size[-1]))) @ basis.T

    def given(self, theta: Floats) -> Floats:
        """The weights of the original features."""
        found: Floats = theta if self.W is None else self.W @ theta
        return found

    def weights(self, theta: Floats) -> Floats:
        """Weights of whitened features with the same predictions."""
        return theta if self.W is None else np.asarray(np.linalg.solve(self.W, theta), np.float64)

    def arrays(self) -> Arrays:
        """Its contents in a file."""
        if self.W is not None:
            return {"whiten.W": self.W}
        if not self.pending:
            return {}
        self.pending = [self.release()]
        return {f"whiten.{name}": part for name, part in zip(_PENDING, self.pending[0], strict=True)}

    def restore(self, arrays: Arrays, n_features: int) -> None:
        """Restore from a file."""
        if "whiten.W" in arrays:
            self.W = _checked(arrays["whiten.W"], (n_features, n_features))
        elif "whiten.phi" in arrays:
            phi = arrays["whiten.phi"]
            n = len(phi) if phi.ndim == 2 else 0
            shapes = ((n, n_features), (n, n_features), (3, n, 1))
            found = [_checked(arrays[f"whiten.{name}"], shape) for name, shape in zip(_PENDING, shapes, strict=False)]
            over = arrays["whiten.over"]
            if over.shape != (n,) or over.dtype != bool or (found[2][1:] < 0).any() or (found[2][1] > 1).any():
                raise InputError("the file's buffered steps are damaged.")
            self.pending = [(*found, over)]


def _checked(array: NDArray[Any], shape: tuple[int, ...]) -> Floats:
    if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
        raise InputError(f"the file's whitening has type {array.dtype} and shape {array.shape}, expected {shape}.")
    return array
