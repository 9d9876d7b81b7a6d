"""Rows of a dense table for one product per block of steps: x, and beside it rho y and rho r.

Made in one pass while a block is in the cache, x'(rho y, rho r) has A and b in it. NumPy would go over the block once
each for next rows, discount, difference, ratio, two lengths and rewards, and that takes longer than the product.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradtd.compiled import engine
from gradtd.core.arrays import Floats, Integers, Plain
from gradtd.core.stream import Stream


class Block(NamedTuple):
    """Rows of some steps: x, (rho y, rho r) with one column more, |x|^2 and rho^2 |y|^2; valid until the next block."""

    x: Floats
    y: Floats
    of_x: Floats
    of_y: Floats


class DenseRows:
    """Makes blocks of at most so many steps, in room that all of them share."""

    def __init__(self, stream: Stream, most: int) -> None:
        most, d = min(most, len(stream)), stream.n_features
        self._view = stream.view
        self._room = np.empty((most, d)), np.empty((most, d + 1)), np.empty((2, most))
        self._fill = engine.compiled(_filler)

    def of(self, places: Any) -> Block:
        """The rows of these steps, given by their numbers or as a slice."""
        at = np.arange(places.start, places.stop) if isinstance(places, slice) else places
        x, y, squares = self._room[0][: len(at)], self._room[1][: len(at)], self._room[2][:, : len(at)]
        self._fill(self._view.features, self._view.steps, at, x, y, squares)
        return Block(x, y, squares[0], squares[1])


def fill_rows(features: Floats, steps: Any, places: Integers, x: Floats, y: Floats, squares: Floats) -> None:
    """x, rho (discount x_next - x) with rho r behind it, and the squared lengths of both."""
    d = features.shape[1]
    for i in range(places.shape[0]):
        step = steps[places[i]]
        row, after, discount, rho = step.row, step.next_row, step.discount, step.rho
        for k in range(d):
            now = features[row, k]
            x[i, k] = now
            y[i, k] = rho * (discount * features[after, k] - now)
        y[i, d] = rho * step.reward
        of_x, of_y = 0.0, 0.0
        for k in range(d):
            of_x += x[i, k] * x[i, k]
            of_y += y[i, k] * y[i, k]
        squares[0, i] = of_x
        squares[1, i] = of_y


def _filler(fingerprint: str) -> Plain:
    def run(features: Floats, steps: Any, places: Integers, x: Floats, y: Floats, squares: Floats) -> None:
        fingerprint  # noqa: B018 (part of the closure, and so of the key of the cache)
        fill_rows(features, steps, places, x, y, squares)

    return run
