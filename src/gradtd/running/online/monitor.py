"""Monitors a learner: records its weights, and checks scaling and convergence from time to time.

It runs when memory has to be reorganised anyway, at growing intervals, so that it costs a few percent of the learning.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.running.online.queue import StepQueue
from gradtd.running.online.standing import BADLY_SCALED, FAR_PART, standing_of
from gradtd.running.online.window import Rows

FIRST_LOOK, GROWTH = 1000, 1.25
FIRST_STANDING, LATER = 20_000, 2
SURE_PART = 0.08
"""Weights move between two looks: a learner that is to stay within a tenth of least squares has to be nearer."""
MOST_PRODUCTS = 2 * 10**8
"""What a look at the end may cost: steps times the square of the features."""
MOST_KEPT = 10_000
"""With more features, no weights are recorded for a curve."""


class Kept(NamedTuple):
    """The weights after some steps."""

    seen: int
    theta: Floats


class Monitor:
    """Monitors one run; ``look_at`` is the step of the next check."""

    def __init__(self, n_features: int) -> None:
        self.kept: list[Kept] = []
        self.look_at = FIRST_LOOK
        self.standing_at = max(FIRST_STANDING, n_features**3 // 5)
        self.scaled: bool | None = None
        self.warned = False

    def look(self, queue: StepQueue, whitened: bool) -> None:
        """Record the weights, and warn once about each problem."""
        seen = queue.seen
        if queue.n_features <= MOST_KEPT:
            self.kept.append(Kept(seen, queue.thetas()[0]))
        due = seen >= self.standing_at
        self.standing_at = LATER * seen if due else self.standing_at
        self.look_at = min(int(seen * GROWTH) + 1, self.standing_at)
        if queue.runs[0].diverged_at >= 0 or not isinstance(queue.rows, Rows):
            return
        if self.scaled is None:
            self.scaled = not _badly_scaled(queue)
            if not self.scaled and not whitened:
                warnings.warn(
                    "features are badly scaled: some are a hundred times larger than others, or nearly redundant, "
                    "and gradient rules need many steps for the small ones. Pass whiten=True, or scale them.",
                    stacklevel=5,
                )
        if due:
            d = queue.n_features
            self._compare(queue, whitened, int(FIRST_STANDING * min(1.0, 25 / d**2)), SURE_PART)

    def look_at_end(self, queue: StepQueue, whitened: bool) -> None:
        """Nothing follows: warn where the weights, as they are, have not arrived."""
        if queue.seen >= FIRST_STANDING:
            self._compare(queue, whitened, MOST_PRODUCTS // queue.n_features**2, FAR_PART)

    def _compare(self, queue: StepQueue, whitened: bool, most: int, part: float) -> None:
        if self.warned:
            return
        found = standing_of(queue, 0, max(20 * queue.n_features, most))
        if found.is_within(part) is False and found.distance is not None and found.part is not None:
            self.warned = True
            advice = "take more steps, another step-size or average='polynomial'"
            advice += "" if whitened else ", or whiten=True"
            warnings.warn(
                f"after {found.seen} steps predictions are {found.distance:.0f} standard errors ({found.part:.0%} of "
                f"their size) from least squares on the latest {found.used} steps: the learner has not converged. "
                f"learner.standing() says more; {advice}.",
                stacklevel=6,
            )

    def curve(self, start: Floats) -> tuple[Any, Floats]:
        """The steps at which weights were kept, and their value of a row of features."""
        return np.array([kept.seen for kept in self.kept]), np.array([start @ kept.theta for kept in self.kept])


def _badly_scaled(queue: StepQueue) -> bool:
    """Whether the second moments of the latest rows have a large condition number; of many features, their sizes."""
    rows: Any = queue.rows
    window = queue.runs[0].window
    some = window.steps["row"][max(0, window.size - FIRST_LOOK) : window.size]
    x = np.asarray(rows.table[some], np.float64)
    size: Any = (x**2).mean(axis=0) if x.shape[1] > 50 else np.linalg.eigvalsh(x.T @ x / max(len(x), 1))
    size = size[size > 1e-10 * max(float(size.max(initial=0.0)), 1e-300)]
    return len(size) > 1 and float(size.max() / size.min()) > BADLY_SCALED
