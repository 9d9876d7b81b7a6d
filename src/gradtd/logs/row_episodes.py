"""Numbers of episodes that have no ids, row after row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core.arrays import Integers
from gradtd.core.checks import RowError

Flags = NDArray[np.bool_]


class EpisodeCounter:
    """Numbers episodes that have no ids: an episode ends at a row that is terminated or truncated.

    It is shown the rows in their order, some at a time. Rows may share the time of a clock.
    """

    def __init__(self, clock: bool = False) -> None:
        self.clock, self.rows, self.episode = clock, 0, 0
        self.over, self.last_t = False, np.zeros(0)

    def number(self, ends: Flags, t: NDArray[Any] | None) -> Integers:
        """The number of the episode of each row."""
        begins = np.r_[self.over, ends[:-1]]
        if t is not None:
            self._refuse_falling(t, begins)
        numbers: Integers = self.episode + np.cumsum(begins)
        self.episode, self.over, self.rows = int(numbers[-1]), bool(ends[-1]), self.rows + len(ends)
        return numbers

    def _refuse_falling(self, t: NDArray[Any], begins: Flags) -> None:
        """Inside an episode t rises: else its end is not marked."""
        before = np.r_[self.last_t if len(self.last_t) else t[:1], t[:-1]]
        falls = ~begins & (t < before if self.clock else t <= before)
        falls[0] &= bool(len(self.last_t))
        if falls.any():
            at = int(np.flatnonzero(falls)[0])
            row = self.rows + at
            raise RowError(
                f"t falls from {before[at]} to {t[at]} at row {row}, but row {row - 1} is neither terminated nor "
                "truncated: add an episode column, or mark where episodes end.",
                row,
            )
        self.last_t = t[-1:].copy()
