"""The sums of a part of a log: all that the value, its interval, the checks and the diagnostics need of it.

Sums of parts are added. What is kept by group of episodes stands in for the episodes themselves: a group is the hash of
an episode's id, so it does not depend on the order of parts nor on how they are cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.blas import one_thread
from gradtd.evaluation.parts.blocks import Blocks, Layout, layout_of
from gradtd.evaluation.parts.job import PIECE, Job
from gradtd.evaluation.parts.numbers import BINS, COUNTED, Counted, counted
from gradtd.evaluation.parts.pair_sums import PairSums
from gradtd.evaluation.parts.state_sums import StateSums
from gradtd.evaluation.trust.clock import TimeSums
from gradtd.evaluation.trust.records import Record, Wide
from gradtd.evaluation.trust.robust import products
from gradtd.logs import Log, Ratios
from gradtd.logs.parts import Part
from gradtd.logs.steps import note_lost

SUMMED = (
    *("steps", "terminated", "truncated", "elsewhere", "inside", "strangers", "ends_unknown"),
    *("r2", "r4", "early_rewards", "rho", "rho2", "not_one", "clipped"),
    *("weights", "weights2", "off", "off2", "beyond"),
)
"""Numbers that are added."""
FEW = 100
"""Entries of a group's products for each row of an episode, up to which sorting episodes by group saves nothing."""
LARGEST = ("largest_ratio", "largest_reward", "smallest_reward")
"""Numbers of which the largest counts; the smallest reward with its sign changed."""


@dataclass
class Sums:
    """Sums over some episodes of a log.

    Parameters
    ----------
    arrays
        Arrays that are added, by name; ``products``, ``starts`` and ``pieces`` by group. The products of a group are
        left'right, ``own`` are own'own of all, as `gradtd.evaluation.parts.blocks.Layout` has these.
    by_time
        Sums of the products of ratios, and of their squares, by the time since the episode began.
    largest
        Numbers of which the largest counts.
    unseen
        The least probability, over chunks, of actions of the target that a chunk never took; None where nobody knows.
    notes
        What reading and the ratios said, and how often.
    """

    arrays: dict[str, Floats]
    by_time: Floats
    largest: dict[str, float]
    unseen: float | None = None
    notes: Counter[str] = field(default_factory=Counter)

    def add(self, other: Sums) -> Sums:
        """Add the sums of other episodes to these."""
        for name, array in other.arrays.items():
            self.arrays[name] += array
        long, short = sorted((self.by_time, other.by_time), key=lambda a: -a.shape[1])
        long = long.copy()
        long[:, : short.shape[1]] += short
        self.by_time = long
        self.largest = {name: max(value, other.largest[name]) for name, value in self.largest.items()}
        known = [value for value in (self.unseen, other.unseen) if value is not None]
        self.unseen = min(known) if known else None
        self.notes.update(other.notes)
        return self

    def __getitem__(self, name: str) -> Any:
        """A sum by its name."""
        if name in SUMMED:
            return self.arrays["numbers"][SUMMED.index(name)]
        if name not in ("A", "b", "C", "x", "missing"):
            return self.arrays[name]
        D, narrow, times = self.layout
        if name in ("A", "b"):
            of = self.arrays["products"][:, : D + narrow]
            return of[..., :D] if name == "A" else of[..., D]
        of = self.arrays["own"][:, :D]
        return of[:D] if name == "C" else of[D + times + (name == "missing")]

    def emptied(self) -> Sums:
        """The sums of no episodes, in the memory of these."""
        for array in self.arrays.values():
            array.fill(0.0)
        return Sums(self.arrays, np.zeros((2, 0)), dict.fromkeys(LARGEST, -np.inf))

    @property
    def layout(self) -> Layout:
        """What the columns of the products are."""
        D, narrow = self.arrays["starts"].shape[1], len(self.arrays["marginal"])
        return Layout(D, narrow, len(self.arrays["own"]) - D - 2)


def shapes_of(job: Job) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays of sums."""
    G, layout = job.groups, layout_of(job)
    D, narrow, _ = layout
    return {
        "products": (G, layout.left, layout.right),
        "starts": (G, D),
        "pieces": (G,),
        "own": (layout.own, layout.own),
        "marginal": (narrow, narrow),
        "marginal_episodes": (narrow, narrow),
        "marginal_sum": (narrow,),
        "ratios": (2, BINS),
        "numbers": (len(SUMMED),),
    }


def nothing(job: Job) -> Sums:
    """The sums of no episodes."""
    arrays = {name: np.zeros(shape) for name, shape in shapes_of(job).items()}
    return Sums(arrays, np.zeros((2, 0)), dict.fromkeys(LARGEST, -np.inf))


def nothing_but_numbers(job: Job) -> Sums:
    """The sums of no episodes, without those of features."""
    shapes = {"pieces": (job.groups,), "ratios": (2, BINS), "numbers": (len(SUMMED),)}
    arrays = {name: np.zeros(shape) for name, shape in shapes.items()}
    return Sums(arrays, np.zeros((2, 0)), dict.fromkeys(LARGEST, -np.inf))


def time_sums(sums: Sums) -> TimeSums:
    """Those of the time since the start; the last three are not by group, but of all."""
    D, narrow, times = sums.layout
    products, own = sums["products"], sums["own"]
    back, late = products[:, D + narrow + 1 :], slice(D, D + times)
    return TimeSums(
        products[:, :narrow, D + 1 :],
        back[..., :narrow],
        back[..., D + 1 :],
        back[..., D],
        own[None, :narrow, late],
        own[None, late, late],
        own[None, -1, late],
    )


@one_thread()
def part_sums(job: Job, part: Part, spare: list[Sums] | None = None) -> Sums:
    """Read a part of a log, some ten thousand rows at a time; ``spare`` are sums whose memory may be used again."""
    total = spare.pop().emptied() if spare else nothing(job)
    add: Add = PairSums(job) if job.chooser else _by_states(job) if job.wide.table is not None else _by_blocks(job)
    for rows, begins, hashes in part.chunks(job.reading.needed):
        group = job.group_of(hashes)
        few = len(group) * total["products"][0].size <= FEW * len(rows)
        order = np.arange(len(group)) if few else np.argsort(group, kind="stable")
        lengths = np.diff(begins)[order]
        edges = np.r_[0, np.cumsum(lengths)]
        at = None
        if (np.diff(order) != 1).any():
            at = np.repeat(begins[:-1][order] - edges[:-1], lengths) + np.arange(edges[-1])
        add_chunk(job, add, total, (rows, edges, at), group[order])
    return total


Add = Callable[[dict[str, Floats], Record, Wide, Integers, Floats], None]
"""Adds products of the rows of some steps to arrays."""


def add_chunk(job: Job, add: Add, total: Sums, rows: tuple[Any, Integers, Integers | None], group: Integers) -> None:
    """Add some episodes, of these groups: rows of a table, where episodes begin, and the order of rows."""
    table, begins, at = rows
    made = job.reading.steps(table, begins, job.name, at)
    if made is None:
        total.notes.update(note_lost(len(group)))
    else:
        add_log(job, add, total, *made, group)


def add_log(job: Job, add: Add, total: Sums, log: Log, found: Ratios, group: Integers) -> None:
    """Add some episodes, of these groups. Reading may have dropped some that had no step left."""
    group = group[log.extra[PIECE][log.starts].astype(np.int64)]
    wide = job.table(log)
    record = job.record(log, found, wide)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        weights = products(record)
        add(total.arrays, record, wide, group, weights)
        total.arrays["pieces"] += np.bincount(group, minlength=job.groups)
        made = counted(log, record, weights)
        _add_numbers(total, log, found, made)
    short = Sums({}, made.by_time, {}, job.unseen(found, wide), Counter((*log.notes, *found.notes)))
    short.largest = dict.fromkeys(LARGEST, -np.inf)
    total.add(short)


def _by_blocks(job: Job) -> Add:
    """By products of blocks of rows."""
    blocks = Blocks(job)

    def add(arrays: dict[str, Floats], record: Record, wide: Wide, group: Integers, weights: Floats) -> None:
        blocks.add(record, wide, weights, group, arrays)

    return add


def _by_states(job: Job) -> Add:
    """By entries of the rows of a table."""
    entries = StateSums(job)

    def add(arrays: dict[str, Floats], record: Record, wide: Wide, group: Integers, weights: Floats) -> None:
        entries(record, group, weights, arrays)
        np.add.at(arrays["starts"], group, wide.rows(record.start_rows))

    return add


def _add_numbers(total: Sums, log: Log, found: Ratios, made: Counted) -> None:
    """What the diagnostics need besides the features."""
    rho, reward = found.rho, log.reward
    told = dict(zip(COUNTED, made.numbers, strict=True)) | {
        "steps": len(log),
        "terminated": log.terminated.sum(),
        "truncated": log.truncated.sum(),
        "inside": len(log) - log.n_episodes,
        "strangers": log.strangers * len(log),
        "ends_unknown": not log.ends_known,
        "clipped": found.clipped,
    }
    total.arrays["numbers"] += [float(told[name]) for name in SUMMED]
    total.arrays["ratios"] += made.ratios
    largest = {"largest_ratio": rho.max(), "largest_reward": reward.max(), "smallest_reward": -reward.min()}
    total.largest = {name: max(total.largest[name], float(value)) for name, value in largest.items()}


TOGETHER = 8
"""Neighbours that are added one after the other: with more of them fewer are kept, and rounding adds up more."""


class Reduction:
    """Adds sums of neighbours, and sums of those: in one order, whoever is done first, and few are kept at a time.

    Those that were added are put to ``spare``, where there is such a list: whoever adds up the next part may take their
    memory, as new memory costs more.
    """

    def __init__(self, spare: list[Sums] | None = None) -> None:
        self._spare = spare
        self._waiting: dict[int, Sums] = {}
        self._next = 0
        self._kept: list[_Level] = []

    def put(self, number: int, sums: Sums) -> None:
        """The sums of the part with this number, counted from 0."""
        self._waiting[number] = sums
        while self._next in self._waiting:
            self._take(0, self._waiting.pop(self._next))
            self._next += 1

    def _take(self, level: int, sums: Sums) -> None:
        while self._kept and self._kept[-1].level == level:
            self._add(sums)
            if self._kept[-1].count < TOGETHER:
                return
            level, sums = level + 1, self._kept.pop().sums
        self._kept.append(_Level(level, sums))

    def total(self) -> Sums:
        """All of them, the later ones added to the earlier ones."""
        assert not self._waiting
        while len(self._kept) > 1:
            self._add(self._kept.pop().sums)
        return self._kept.pop().sums

    def _add(self, sums: Sums) -> None:
        """Add sums to those kept last."""
        last = self._kept[-1]
        last.sums, last.count = last.sums.add(sums), last.count + 1
        if self._spare is not None:
            self._spare.append(sums)


@dataclass
class _Level:
    """Sums of some neighbours, and how many there are: of parts at level 0, of `TOGETHER` sums of the level below."""

    level: int
    sums: Sums
    count: int = 1
