"""The design protocol: the widest table of features of the checks, and the steps of a chunk over its rows.

Each fit uses some columns of the widest table, so one pass over the log serves every fit. The sums and the fits are the
same for every kind of log: `Design.rows` turns a chunk of whole episodes into `Rows`, which is all that sums and fits
read.

Here, a row means a row of the widest table. `Log.row` contains the numbers of observations. Both numbers agree in
`real`, where each observation has one row. They differ in `states` (one row for equal observations, and rows for pairs
of them) and in `pairs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from gradtd.compiled.traces import Tracing
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.core.stream import STEP, Stream, episode_begins
from gradtd.evaluation.estimators.products import decays
from gradtd.logs import Log, Ratios

GIVEN = "the features given"
"""The rung of the user's features, or of one feature per state."""
CHUNK = 2048
"""Number of steps per block, small enough that their features stay in the cache."""
Writer = Callable[[Any, Floats], None]
"""Writes the rows with these numbers to an array. The numbers are a slice or an array in any order, and may be
empty."""


@dataclass(frozen=True, eq=False)
class Ladder:
    """The columns of the widest table that each fit uses."""

    rungs: dict[str, Integers]
    checkers: dict[str, Integers]
    """``rungs`` and ``checkers``: columns by the name of the fit, the smallest first. Checkers are never reported.
    Every column belongs to some fit."""
    headlines: tuple[str, ...]
    """Rungs that may be reported. Their columns come first in the table. `GIVEN` names the rung whose features exist
    before the decision; the features of other rungs are made after it, by `Plan.make_features`."""
    complete: bool  # whether the first rung can represent any function of the observation
    endless: bool  # whether a richer rung is always possible, as for continuous observations

    @property
    def sets(self) -> dict[str, Integers]:
        """The columns of every fit."""
        return self.rungs | self.checkers

    @property
    def n_columns(self) -> int:
        return 1 + max(int(columns.max()) for columns in self.sets.values())

    @property
    def n_headline_columns(self) -> int:
        """Number of columns that fits with traces and fits with the time use: the columns of the headlines."""
        return 1 + max(int(self.rungs[name].max()) for name in self.headlines)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of the widest table for a chunk of steps. Step i goes from ``row[i]`` to ``next_row[i]``.

    After a step that terminated, the discount is 0, so any row may follow. Rows that are not stored are computed
    fastest if step i is in row i and, within an episode, leads to row i + 1: `rows_of_chunk` reorders other rows.

    Rows are stored (``table``) if they recur, as those of states do. Otherwise ``make_writer`` returns a function that
    writes their first ``n_columns`` on demand; each thread needs its own writer, because writers reuse scratch memory
    between calls.
    """

    row: Any
    next_row: Any
    n_rows: int
    n_columns: int
    table: Any = None
    make_writer: Callable[[int], Writer] | None = None
    starts: Integers | None = None
    """The start row of every piece, if these differ from the rows of the first steps."""
    choices: Any = None
    """The target's choices in these steps, if rows are pairs."""
    cell: Integers | None = None
    """The state of every row, if observations are discrete."""
    named: int = 0
    """Number of columns of named features, which come first; functions of the observation itself follow."""

    @classmethod
    def stored(
        cls, row: Any, next_row: Any, table: Any, starts: Integers | None = None, cell: Integers | None = None
    ) -> Rows:
        n_rows, n_columns = table.shape
        return cls(row, next_row, n_rows, n_columns, table, starts=starts, cell=cell)

    def first(self, columns: int) -> Rows:
        """The same rows with only their first columns, for fits that do not need the others."""
        return replace(self, n_columns=columns, table=None if self.table is None else self.table[:, :columns])

    def writer(self) -> Writer | None:
        """A writer that computes the rows, or None if the rows are stored."""
        return None if self.table is not None or self.make_writer is None else self.make_writer(self.n_columns)

    @property
    def sparse(self) -> bool:
        """Whether the table is sparse. `sparse_moments` then needs cells whose columns form nested sets."""
        return self.table is not None and not isinstance(self.table, np.ndarray)

    def at(self, index: Any) -> Floats:
        """The rows with these numbers, as a dense array."""
        if self.table is not None:
            found = self.table[index]
            return np.asarray(found.toarray() if self.sparse else found)
        write = self.writer()
        assert write is not None
        out = np.empty((len(index), self.n_columns))
        write(index, out)
        return out


class Design(Protocol):
    """Turns the steps of a log into rows of features. Each kind of log has its own class.

    A design of a log in parts is fitted to a sample, or to all states, then pickled for the workers. It computes rows
    of chunks that it has not seen. Only in memory may it store arrays of the whole log, as `RealDesign.table` does.
    """

    @property
    def ladder(self) -> Ladder:
        """The columns of each fit."""

    def rows(self, log: Log, pieces: Integers | None = None) -> Rows:
        """The rows of a chunk of whole episodes. ``row`` and ``next_row`` of the result number the chunk's own
        observations.

        ``pieces`` numbers the block of every step, if there are blocks. Rows that depend on earlier steps do not cross
        the start of an episode (`begins_episode`), or of a block.
        """


class Traced(NamedTuple):
    """The requested traces: z_t = rho_t (x_t + decay_t z_{t-1})."""

    lam: float
    decay: Floats


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of whole episodes, for one target."""

    rows: Rows  # their rows in the widest table
    reward: Any
    discount: Any
    rho: Any  # rho, reward and discount: one number for each step; the discount is 0 where the episode terminated
    begins: Integers  # the first step of every independent piece, then the number of steps
    blocks: bool = False  # whether pieces are neighbouring parts of longer episodes
    traced: Traced | None = None  # the requested traces, if any
    threads: int = 1  # number of threads
    action: Any = None  # the actions taken, if they are discrete and known

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def n_pieces(self) -> int:
        return len(self.begins) - 1

    @property
    def start_rows(self) -> Integers:
        """The row in which every piece starts."""
        rows = self.rows
        return np.asarray(rows.row[self.begins[:-1]] if rows.starts is None else rows.starts)

    def cut(self, first: int, last: int) -> Steps:
        """The steps of pieces ``first`` to ``last``."""
        part = slice(int(self.begins[first]), int(self.begins[last]))
        rows, traced = self.rows, self.traced
        starts = None if rows.starts is None else rows.starts[first:last]
        own = replace(rows, row=rows.row[part], next_row=rows.next_row[part], starts=starts)
        kept = None if traced is None else Traced(traced.lam, traced.decay[part])
        numbers = (self.reward[part], self.discount[part], self.rho[part])
        return replace(
            self,
            rows=own,
            reward=numbers[0],
            discount=numbers[1],
            rho=numbers[2],
            traced=kept,
            begins=self.begins[first : last + 1] - part.start,
            action=None if self.action is None else self.action[part],
        )

    def decay(self, lam: float) -> Floats:
        """The decay of the trace at every step: lam times the discount of the previous step, 0 at the beginning of a
        piece."""
        decay = np.zeros(len(self))
        decay[1:] = lam * np.asarray(self.discount)[:-1]
        decay[self.begins[:-1]] = 0.0
        return decay


def discounts(log: Log, gamma: float) -> Floats:
    """The discount after every step: 0 at the end of an episode, else gamma, or gamma to the power of the elapsed
    time.
    """
    return np.where(log.terminated, 0.0, gamma if log.elapsed is None else gamma**log.elapsed)


def steps_of(
    log: Log,
    rows: Rows,
    rho: Floats,
    gamma: float,
    pieces: Integers | None = None,
    tracing: Tracing | None = None,
    chances: Floats | None = None,
) -> Steps:
    """The steps of a log over rows of a design.

    ``pieces`` numbers the blocks that episodes are cut into, if any. ``tracing`` describes the requested traces, some
    of which need ``chances``, the target's probabilities of the actions taken.
    """
    refuse_extreme_steps(log, rho)
    discount = discounts(log, gamma)
    begins = episode_begins(log.episode if pieces is None else pieces)
    traced = None
    if tracing is not None:  # traces continue from block to block, so they follow the episodes
        traced = Traced(tracing.lam, decays(tracing, rho, discount, log.episode, chances))
    action = log.action if log.discrete_actions else None
    return Steps(rows, log.reward, discount, rho, begins, pieces is not None, traced, action=action)


RHO, DISCOUNT, REWARD, DECAY, PRODUCT, OWN_DECAY = range(6)
"""Values that `read_chunks` returns for every step: ratio, discount, reward, the decay of a trace with ``lam``, the
product of ratios, and the decay of the requested traces."""


class Chunk(NamedTuple):
    """Steps from ``start`` on: rows of features, the index of every step's rows, and their numbers (6, steps)."""

    start: int
    feats: Any
    here: Integers
    there: Integers
    numbers: Floats


def read_chunks(steps: Steps, part: slice, lam: float = 0.0, products: Floats | None = None) -> Iterator[Chunk]:
    """Yield the steps in chunks, with the rows that they need. Each row is computed once."""
    rows = steps.rows
    write = rows.writer()
    for begin in range(part.start, part.stop, CHUNK):
        some = slice(begin, min(begin + CHUNK, part.stop))
        yield Chunk(begin, *rows_of_chunk(rows, some, write), numbers_of(steps, some, lam, products))


def rows_of_chunk(rows: Rows, some: slice, write: Writer | None) -> tuple[Any, Integers, Integers]:
    """The rows that a chunk of steps needs, and the row and next row of each step. A stored table is returned
    unchanged."""
    row, after = (np.asarray(a[some], np.int64) for a in (rows.row, rows.next_row))
    if write is None:
        return rows.table, row, after
    first, last, n = int(row[0]), int(row[-1]), len(row)
    if last - first == n - 1 and (row[1:] - row[:-1] == 1).all():  # consecutive rows, the usual case, need no sorting
        elsewhere = np.flatnonzero((after < first) | (after > last))
        feats = np.empty((n + len(elsewhere), rows.n_columns))
        write(slice(first, last + 1), feats[:n])
        write(after[elsewhere], feats[n:])
        there = after - first
        there[elsewhere] = n + np.arange(len(elsewhere))
        return feats, row - first, there
    # Any other order: rows that several steps share are computed once.
    needed, where = np.unique(np.concatenate([row, after]), return_inverse=True)
    feats = np.empty((len(needed), rows.n_columns))
    write(needed, feats)
    return feats, where[:n], where[n:]


def numbers_of(steps: Steps, some: slice, lam: float, products: Floats | None = None) -> Floats:
    """The numbers of every step, indexed by `RHO` and the following constants."""
    numbers = np.zeros((6, some.stop - some.start))
    numbers[RHO], numbers[DISCOUNT], numbers[REWARD] = steps.rho[some], steps.discount[some], steps.reward[some]
    numbers[DECAY, 1:] = lam * numbers[DISCOUNT, :-1]
    # A chunk may begin inside a piece: its trace continues from the previous step.
    numbers[DECAY, 0] = lam * steps.discount[some.start - 1] if some.start else 0.0
    first, last = np.searchsorted(steps.begins, [some.start, some.stop])
    numbers[DECAY, steps.begins[first:last] - some.start] = 0.0
    if products is not None:
        numbers[PRODUCT] = products[some]
    if steps.traced is not None:
        numbers[OWN_DECAY] = steps.traced.decay[some]
    return numbers


def stream_of(
    log: Log, table: Any, rows: Rows, episode: Integers, rho: Floats, gamma: float, target: Floats | None = None
) -> Stream:
    """The steps of a log over a table of features, as a `gradtd.Stream`, which the estimators and the algorithms read.

    ``target`` contains the target's probabilities of the actions taken, which some traces need.
    """
    refuse_extreme_steps(log, rho)
    steps = np.zeros(len(log), STEP)
    steps["row"], steps["next_row"], steps["reward"] = rows.row, rows.next_row, log.reward
    steps["discount"] = discounts(log, gamma)
    steps["rho"], steps["episode"] = rho, episode
    highest = int(max(rows.row.max(), rows.next_row.max()))
    made = Stream.of_own(table, steps, log.name, highest, target)
    return made if rows.starts is None else replace(made, starts=rows.starts)


def known_chances(log: Log, found: Ratios) -> Floats | None:
    """The target's probabilities of the actions taken, or None if unknown or densities."""
    real_valued = log.action is not None and not log.discrete_actions
    return None if real_valued else found.target


def rows_of_log(log: Log, n_columns: int) -> Rows:
    """The rows of a log over a table with one row per observation."""
    return Rows(log.row, log.next_row, len(log.observations), n_columns)


EXTREME = 1e50
"""Rewards, ratios and features must not exceed this size or fall below its inverse, so that their squares are
finite.
"""


def refuse_extreme_steps(log: Log, rho: Floats) -> None:
    """Refuse rewards and ratios that are too large or too small to compute with."""
    refuse_extreme("reward", log.reward, "rescale the rewards")
    refuse_extreme("ratio", rho, "check the probabilities, or clip ratios (clip=20)")


def refuse_extreme(what: str, values: Floats, advice: str) -> None:
    """Refuse numbers whose squares overflow or vanish."""
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    if largest > EXTREME or 0 < largest < 1 / EXTREME:
        raise InputError(
            f"the largest {what} is {largest:.3g} in size, and gradtd can compute with {1 / EXTREME:g} to "
            f"{EXTREME:g}: {advice}."
        )
