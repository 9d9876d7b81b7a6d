"""What the checks read of a log: its steps, and the widest table of features that fits take columns of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.executors import ThreadExecutor
from gradtd.core.stream import episode_begins
from gradtd.evaluation.preparing import refuse_extreme_steps
from gradtd.features.cosines import Cosines
from gradtd.features.fast_cosine import wave_writer
from gradtd.logs import Log

Done = TypeVar("Done")
GIVEN = "the features given"
"""The rung of features that were named, or of one per state."""


class Traced(NamedTuple):
    """Traces that a value was asked for with: z_t = rho_t (x_t + decay_t z_{t-1})."""

    lam: float
    decay: Floats


@dataclass(frozen=True, eq=False)
class Record:
    """Steps of a log for one target; step i goes from ``row[i]`` to ``next_row[i]`` of the widest table.

    ``begins`` are the first steps of the independent pieces and, last, the number of steps. ``blocks`` says that the
    pieces are neighbouring parts of longer episodes. ``starts`` are the rows that pieces start in, where those are not
    the rows of their first steps. ``traced`` is there where the value asked for is one with traces. ``threads`` read
    it, groups of pieces in turn.
    """

    row: Any
    next_row: Any
    reward: Any
    discount: Any
    rho: Any
    begins: Integers
    blocks: bool
    starts: Integers | None = None
    traced: Traced | None = None
    threads: int = 1

    def in_turn(self, work: Callable[[int], Done], groups: int) -> list[Done]:
        """What the work makes of every group; on one thread where traces run on from one group to the next."""
        crew = ThreadExecutor(self.threads if self.traced is None else 1)
        done = dict(crew.each(work, range(groups)))
        return [done[g] for g in range(groups)]

    @property
    def lam(self) -> float:
        """The lambda of the value asked for."""
        return 0.0 if self.traced is None else self.traced.lam

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def n_pieces(self) -> int:
        return len(self.begins) - 1

    @property
    def start_rows(self) -> Integers:
        """The row of the widest table that every piece starts in."""
        return np.asarray(self.row[self.begins[:-1]] if self.starts is None else self.starts)


def record_of(
    log: Log, pieces: Integers, rho: Floats, gamma: float, wide: Wide, blocks: bool, starts: Integers | None = None
) -> Record:
    """The steps of a log, over the rows of the widest table; ``pieces`` numbers the independent parts."""
    refuse_extreme_steps(log, rho)
    row, next_row = (log.row, log.next_row) if wide.row is None else (wide.row, wide.next_row)
    discount = np.where(log.terminated, 0.0, gamma)
    starts = wide.starts if starts is None else starts
    return Record(row, next_row, log.reward, discount, rho, episode_begins(pieces), blocks, starts)


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
    """

    rungs: dict[str, Integers]
    checkers: dict[str, Integers]
    headlines: tuple[str, ...]
    complete: bool
    endless: bool
    table: Any = None
    row: Integers | None = None
    next_row: Integers | None = None
    base: Any = None
    observations: Any = None
    cosines: Cosines | None = None
    waves: Waves | None = None
    starts: Integers | None = None

    @property
    def n_columns(self) -> int:
        return 1 + max(int(columns.max()) for columns in (self.rungs | self.checkers).values())

    @property
    def n_headline_columns(self) -> int:
        """Columns that fits with memory need: those of the rungs that may be the headline, which come first."""
        return 1 + max(int(self.rungs[name].max()) for name in self.headlines)

    @property
    def n_rows(self) -> int:
        return int((self.observations if self.table is None else self.table).shape[0])

    @property
    def sparse(self) -> bool:
        """Whether the table is stored sparsely, as that of cells is."""
        return self.table is not None and not isinstance(self.table, np.ndarray)

    def maker(self) -> Callable[[Any, Floats], None]:
        """A function that writes rows of the widest table, given by their index or a slice, where none are stored."""
        base, seen, write = self.base, self.observations, self.writer()

        def make(index: Any, out: Floats) -> None:
            write(None if base is None else base[index], seen[index], out)

        return make

    def writer(self) -> Callable[[Any, Any, Floats], None]:
        """A function of rows of ``base`` (None where there is none), observations and where to write their rows."""
        cosines, waves = self.cosines, self.waves
        write, wave = cosines.writer() if cosines else None, wave_writer(*waves) if waves else None

        def put(part: Any, now: Any, out: Floats) -> None:
            done = 0
            if part is not None:
                done = part.shape[1]
                out[:, :done] = part if isinstance(part, np.ndarray) else part.toarray()
            if cosines and write:
                write(now, out, done)
                done += cosines.n
            if wave:
                wave(now, out, done)

        return put

    def rows(self, index: Any) -> Floats:
        """These rows of the widest table."""
        if self.table is not None:
            found = self.table[index]
            return np.asarray(found.toarray() if self.sparse else found)
        out = np.empty((len(index), self.n_columns))
        self.maker()(index, out)
        return out


class Waves(NamedTuple):
    """cos(2 pi (phase + x . frequency)) of observations x: random Fourier features without a bias."""

    frequencies: Floats
    phases: Floats
