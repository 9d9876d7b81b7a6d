"""Episodes of a log that has no column of them: cut after rows that are terminated or truncated."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core.arrays import Integers
from gradtd.core.checks import InputError
from gradtd.logs.columns import Column
from gradtd.logs.names import Roles
from gradtd.logs.steps import Flags
from gradtd.logs.tables import arrow_kind, arrow_piece

ENDS = ("terminated", "truncated")


class EndCounter:
    """Numbers the episodes of a log, whose rows are shown to it in their order, a table after the other."""

    def __init__(self, roles: Roles) -> None:
        self.names = {role: roles.single[role] for role in (*ENDS, "t") if role in roles.single}
        self.rows = self.number = 0
        self.over, self.t = False, np.zeros(0)

    @property
    def columns(self) -> list[str]:
        """The columns to show."""
        return list(self.names.values())

    def ids(self, table: Any) -> Integers:
        """The number of the episode of each row."""
        columns = {role: _column(name, table.column(name)) for role, name in self.names.items()}
        try:
            ends = np.logical_or.reduce([columns[role].flags() for role in ENDS if role in columns])
            t = columns["t"].times()[0] if "t" in columns else None
        except InputError as error:
            raise InputError(f"{error} Row 0 is row {self.rows} of the log.") from None
        begins = np.r_[self.over, ends[:-1]]
        if t is not None:
            self._refuse_falling(t, begins)
        ids: Integers = self.number + np.cumsum(begins)
        self.number, self.over, self.rows = int(ids[-1]), bool(ends[-1]), self.rows + len(ids)
        return ids

    def _refuse_falling(self, t: NDArray[Any], begins: Flags) -> None:
        """Inside an episode t rises: else its end is not marked."""
        before = np.r_[self.t if len(self.t) else t[:1], t[:-1]]
        falls = ~begins & (t <= before)
        falls[0] &= bool(len(self.t))
        if falls.any():
            at = int(np.flatnonzero(falls)[0])
            row = self.rows + at
            raise InputError(
                f"t falls from {before[at]} to {t[at]} at row {row}, but row {row - 1} is neither terminated nor "
                "truncated: add an episode column, or mark where episodes end."
            )
        self.t = t[-1:].copy()


def _column(name: str, values: Any) -> Column:
    piece = arrow_piece(name, values)
    return Column(name, piece.values, piece.missing, piece.labels, arrow_kind(values.type))
