"""What the checks read of a log: its steps, and the widest table of features that fits take columns of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.stream import Stream
from gradtd.features import Features
from gradtd.features.cosines import Cosines


@dataclass(frozen=True, eq=False)
class Record:
    """Steps of a log for one target; step i goes from ``row[i]`` to ``next_row[i]`` of the widest table.

    ``begins`` are the first steps of the independent pieces and, last, the number of steps. ``blocks`` says that the
    pieces are neighbouring parts of longer episodes. ``starts`` are the rows that pieces start in, where those are not
    the rows of their first steps.
    """

    row: Any
    next_row: Any
    reward: Any
    discount: Any
    rho: Any
    begins: Integers
    blocks: bool
    starts: Integers | None = None

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def n_pieces(self) -> int:
        return len(self.begins) - 1

    @property
    def start_rows(self) -> Integers:
        """The row of the widest table that every piece starts in."""
        return np.asarray(self.row[self.begins[:-1]] if self.starts is None else self.starts)


def record_of(stream: Stream, wide: Wide, blocks: bool) -> Record:
    """The steps of a stream, over the rows of the widest table."""
    steps = stream.steps
    row = steps["row"] if wide.row is None else wide.row
    next_row = steps["next_row"] if wide.next_row is None else wide.next_row
    return Record(row, next_row, steps["reward"], steps["discount"], steps["rho"], stream.begins, blocks, stream.starts)


@dataclass(frozen=True, eq=False)
class Wide:
    """The widest table, and which of its columns make up the rungs and the checkers that are no rungs.

    Its rows are stored where there are few of them (``table``), and made when they are read where there are many:
    ``base``, then cosines and random waves of the observations.

    Parameters
    ----------
    rungs, checkers
        Columns by name, the poorest first.
    headlines
        Rungs whose value may be the headline.
    complete
        Whether the first rung can represent any function of the observation.
    endless
        Whether there could always be a richer rung.
    varies
        Columns of the observations that are not constant.
    """

    rungs: dict[str, Integers]
    checkers: dict[str, Integers]
    headlines: tuple[str, ...]
    complete: bool
    endless: bool
    table: Floats | None = None
    row: Integers | None = None
    next_row: Integers | None = None
    base: Any = None
    observations: Any = None
    cosines: Cosines | None = None
    waves: Features | None = None
    varies: Integers | None = None

    @property
    def n_columns(self) -> int:
        return 1 + max(int(columns.max()) for columns in (self.rungs | self.checkers).values())

    @property
    def n_rung_columns(self) -> int:
        """Columns of the widest rung; checkers that are no rungs have theirs behind them."""
        return 1 + max(int(columns.max()) for columns in self.rungs.values())

    @property
    def n_rows(self) -> int:
        return len(self.observations if self.table is None else self.table)

    def rows(self, index: Any) -> Floats:
        """These rows of the widest table."""
        if self.table is not None:
            return np.asarray(self.table[index])
        out = np.empty((len(index), self.n_columns))
        done = 0
        if self.base is not None:
            part = self.base[index]
            done = part.shape[1]
            out[:, :done] = part if isinstance(part, np.ndarray) else part.toarray()
        seen = self.observations[index]
        if self.cosines is not None:
            out[:, done : done + self.cosines.n] = self.cosines.transform(seen)
            done += self.cosines.n
        if self.waves is not None:  # without their bias, which stands among the cosines already
            out[:, done:] = self.waves.transform(seen[:, self.varies])[:, 1:]
        return out
