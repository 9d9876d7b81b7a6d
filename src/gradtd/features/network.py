"""The last layer of a network trained with `gradtd.deep`, as features. Needs NumPy only.

There are two networks, each trained on one half of the episodes and used for the other half (cross-fitting). An
observation of the log has nonzero features only from the network that was not trained on its episode. Least squares
then solves two systems at once. Other observations have the features of both networks, each halved, so their value is
the mean of the two values.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.features.base import Features
from gradtd.features.table import Table


@dataclass(frozen=True, eq=False)
class NetworkFeatures(Features):
    """Layers of tanh units on standardised observations; the features are the last layer and a constant 1.

    It has no parameters. ``of_log`` makes the map of a log.
    """

    name: ClassVar[str] = "network"
    LEARNED: ClassVar[Mapping[str, tuple[str | None, ...]]] = {
        "center": ("columns",),
        "sd": ("columns",),
        "widths": (None,),
        "weights": (None,),
    }

    @classmethod
    def of_log(cls, observations: Floats, served_by: Integers, learned: Mapping[str, Any]) -> NetworkFeatures:
        """The map with these weights; ``served_by`` is the network, 0 or 1, that each observation uses."""
        made = cls()._with(dict(learned) | {"n_columns": observations.shape[1]})
        object.__setattr__(made, "_log", (weakref.ref(observations), served_by))
        return made

    def rows(self, observations: Any) -> Any:
        """Features; those of the log's own observations come from the network not trained on the episode."""
        log, served_by = getattr(self, "_log", (lambda: None, None))
        made = super().rows(observations)
        if observations is not log():
            return made
        half = made.shape[1] // 2
        for side in (0, 1):
            columns = made[:, side * half : (side + 1) * half]
            columns *= np.where(served_by == side, 2.0, 0.0)[:, None]
        return made

    def transform(self, observations: Any) -> Any:
        """Features of new observations: both networks, each halved."""
        return super().rows(observations)

    def label(self, index: int) -> str:
        half = self.n_features // 2
        return f"network {index // half + 1}, unit {index % half}"

    def describe(self) -> str:
        if not self.fitted:
            return self._title()
        return (
            f"{self.n_features // 2} features of a network's last layer, learned separately on two halves of the "
            "episodes"
        )

    def _title(self) -> str:
        return "last layer of a network"

    def _size(self, n_columns: int) -> int:
        return 2 * (int(self._what_was_learned()["widths"][-1]) + 1)

    def _check_size(self, n_columns: int) -> None:
        """No limit: the weights determine the size."""

    def _check_learned(self, arrays: Mapping[str, Any]) -> None:
        super()._check_learned(arrays)
        widths = arrays["widths"]
        if len(widths) < 1 or widths.dtype.kind != "i" or (widths < 1).any() or (widths > 10_000).any():
            raise InputError("stored network features: widths must be whole numbers, at least 1.")
        if len(arrays["weights"]) != 2 * _n_weights(len(arrays["center"]), widths):
            raise InputError("stored network features: weights do not match the widths of the layers.")

    def _learn(self, table: Table) -> dict[str, Any]:
        raise InputError("network features learn from rewards: give features='network' to gradtd.evaluate.")

    def _fill(self, chunk: Floats, out: Floats) -> None:
        told = self._what_was_learned()
        x = (chunk - told["center"]) / told["sd"]
        each = len(told["weights"]) // 2
        half = out.shape[1] // 2
        for side in (0, 1):
            made = layers(x, told["widths"], told["weights"][side * each : (side + 1) * each])
            out[:, side * half : (side + 1) * half - 1] = made
            out[:, (side + 1) * half - 1] = 1.0
        out *= 0.5


def _n_weights(n_columns: int, widths: Any) -> int:
    sizes = [n_columns, *(int(w) for w in widths)]
    return sum((a + 1) * b for a, b in pairwise(sizes))


def layers(x: Floats, widths: Any, weights: Floats) -> Floats:
    """The output of the tanh layers; ``weights`` holds, for each layer, its weights (inputs, units), then its
    biases."""
    done = 0
    for width in (int(w) for w in widths):
        n = x.shape[1]
        W = weights[done : done + n * width].reshape(n, width)
        done += n * width
        x = np.tanh(x @ W + weights[done : done + width])
        done += width
    return x
