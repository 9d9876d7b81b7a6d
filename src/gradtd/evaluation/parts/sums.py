"""The sums of a part of a log: all that the value, its interval, the checks and the diagnostics need of it.

Sums of parts are added. What is kept by group of episodes stands in for the episodes themselves: a group is the hash of
an episode's id, so it does not depend on the order of parts nor on how they are cut.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from gradtd.compiled import engine
from gradtd.core.arrays import Floats, Integers, Plain
from gradtd.core.blas import one_thread
from gradtd.core.stream import begins_episode
from gradtd.evaluation.parts.job import PIECE, Job
from gradtd.evaluation.products import cross, rows_at
from gradtd.evaluation.trust.clock import TimeRows, TimeSums, since_start, time_rows
from gradtd.evaluation.trust.reading import CHUNK, DISCOUNT, REWARD, RHO, Reader
from gradtd.evaluation.trust.records import Record, Wide
from gradtd.evaluation.trust.robust import products
from gradtd.logs import Log, Ratios
from gradtd.logs.parts import Part

BINS, PER_OCTAVE, LOWEST = 1024, 16, -32
"""Bins of the histogram of ratios: 16 for every doubling, from 2^-32 to 2^32."""
SUMMED = (
    *("steps", "terminated", "truncated", "elsewhere", "inside", "strangers", "ends_unknown"),
    *("r2", "r4", "early_rewards", "rho", "rho2", "not_one", "clipped"),
    *("weights", "weights2", "off", "off2", "beyond"),
)
"""Numbers that are added."""
TIMED = "time_"
"""How the names of sums of the time since the start begin."""
LARGEST = ("largest_ratio", "largest_reward", "smallest_reward")
"""Numbers of which the largest counts; the smallest reward with its sign changed."""


@dataclass
class Sums:
    """Sums over some episodes of a log.

    Parameters
    ----------
    arrays
        Arrays that are added, by name; ``products``, ``starts`` and ``pieces`` by group. The products of a group are
        [z, w]'[y, r]: of the plain columns of z, then of those with traces, then of the weights of doubly robust.
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
        if name in ("A", "b"):
            of = self.arrays["products"][:, :-1]
            return of[..., :-1] if name == "A" else of[..., -1]
        return self.arrays[name]


def nothing(job: Job) -> Sums:
    """The sums of no episodes."""
    G, D, narrow = job.groups, job.wide.n_columns, job.wide.n_headline_columns
    shapes: dict[str, tuple[int, ...]] = {
        "products": (G, D + narrow + 1, D + 1),
        "starts": (G, D),
        "pieces": (G,),
        "C": (D, D),
        "x": (D,),
        "missing": (D,),
        "marginal": (narrow, narrow),
        "marginal_episodes": (narrow, narrow),
        "marginal_sum": (narrow,),
        "ratios": (2, BINS),
        "numbers": (len(SUMMED),),
    }
    arrays = {name: np.zeros(shape) for name, shape in shapes.items()}
    timed = TimeSums.nothing(G, narrow, job.clock)
    arrays |= {TIMED + name: array for name, array in timed._asdict().items()}
    return Sums(arrays, np.zeros((2, 0)), dict.fromkeys(LARGEST, -np.inf))


def time_sums(sums: Sums) -> TimeSums:
    """Those of the time since the start: what is added to them is added here."""
    return TimeSums(*(sums.arrays[TIMED + name] for name in TimeSums._fields))


@one_thread()
def part_sums(job: Job, part: Part) -> Sums:
    """Read a part of a log, some ten thousand rows at a time."""
    total = nothing(job)
    for rows, begins, hashes in part.chunks(job.reading.needed):
        group = job.group_of(hashes)
        order = np.argsort(group, kind="stable")
        lengths = np.diff(begins)[order]
        edges = np.r_[0, np.cumsum(lengths)]
        at = None
        if (np.diff(order) != 1).any():
            at = np.repeat(begins[:-1][order] - edges[:-1], lengths) + np.arange(edges[-1])
        log, found = job.reading.log(rows, edges, job.name, at)
        _add_log(job, total, log, found, group[order])
    return total


def _add_log(job: Job, total: Sums, log: Log, found: Ratios, group: Integers) -> None:
    """Add some episodes, sorted by group. Reading may have dropped some that had no step left."""
    group = group[log.extra[PIECE][log.starts].astype(np.int64)]
    wide = job.table(log)
    record = job.record(log, found, wide)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        weights = products(record)
        _add_features(job, total, record, wide, group, weights)
        _add_numbers(total, log, found, record)
        since = np.arange(len(record)) - np.repeat(record.begins[:-1], np.diff(record.begins))
        by_time = np.array([np.bincount(since, weights), np.bincount(since, weights**2)])
    short = Sums({}, by_time, {}, found.unseen_mass, Counter((*log.notes, *found.notes)))
    short.largest = dict.fromkeys(LARGEST, -np.inf)
    total.add(short)


def _add_features(job: Job, total: Sums, record: Record, wide: Wide, group: Integers, weights: Floats) -> None:
    arrays, D, narrow = total.arrays, wide.n_columns, wide.n_headline_columns
    reader, fill, trace = Reader(record, wide, job.lam, weights), engine.compiled(_filler), np.zeros(narrow)
    piece = np.repeat(np.arange(record.n_pieces), np.diff(record.begins))
    of_step = group[piece]
    piece_sums, product = np.zeros((record.n_pieces, narrow)), np.empty(arrays["products"].shape[1:])
    room, timed = (np.empty((CHUNK, D + narrow + 1)), np.empty((CHUNK, D + 1))), time_sums(total)
    for start, feats, here, there, numbers in reader.chunks(slice(0, len(record))):
        n = len(here)
        z, y = (array[:n] for array in room)
        fill(feats, np.array([here, there, piece[start : start + n]]), numbers, trace, piece_sums, z, y)
        x, groups = rows_at(feats, here), of_step[start : start + n]
        arrays["C"] += cross(x, x)
        arrays["x"] += np.ones(n) @ x
        arrays["missing"] += (1.0 - numbers[RHO]) @ x
        arrays["marginal"] += cross(z[:, :narrow], z[:, :narrow])
        cuts = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1], True]).tolist()
        since = since_start(record.begins, start, start + n)
        now = time_rows(job.clock, since, numbers[RHO], numbers[DISCOUNT], numbers[REWARD])
        for a, b in pairwise(cuts):
            arrays["products"][groups[a]] += np.matmul(z[a:b].T, y[a:b], out=product)
            timed.add(groups[a], TimeRows(*(part[a:b] for part in now)), y[a:b, :narrow], x[a:b, :narrow])
    first = wide.rows(record.start_rows)
    np.add.at(arrays["starts"], group, first)
    arrays["pieces"] += np.bincount(group, minlength=len(arrays["pieces"]))
    arrays["marginal_episodes"] += piece_sums.T @ piece_sums
    arrays["marginal_sum"] += piece_sums.sum(axis=0)


def fill_products(
    feats: Floats, at: Integers, numbers: Floats, trace: Floats, piece_sums: Floats, z: Floats, y: Floats
) -> None:
    """Rows z = rho x, then traces, then the weight of doubly robust; y = discount x_next - x, then the reward.

    As `gradtd.evaluation.trust.moments.fill_rows` has it; the first columns of z are also added by piece. ``at`` has
    the row of every step, the one it leads to, and its piece.
    """
    D, narrow = y.shape[1] - 1, trace.shape[0]
    for i in range(y.shape[0]):
        a, b, p = at[0, i], at[1, i], at[2, i]
        rho, discount, decay = numbers[0, i], numbers[1, i], numbers[3, i]
        for k in range(D):
            y[i, k] = discount * feats[b, k] - feats[a, k]
        for k in range(D):
            z[i, k] = rho * feats[a, k]
        for k in range(narrow):
            piece_sums[p, k] += z[i, k]
        for k in range(narrow):
            trace[k] = rho * (feats[a, k] + decay * trace[k])
            z[i, D + k] = trace[k]
        y[i, D], z[i, D + narrow] = numbers[2, i], numbers[4, i]


def _filler(fingerprint: str) -> Plain:
    def run(
        feats: Floats, at: Integers, numbers: Floats, trace: Floats, piece_sums: Floats, z: Floats, y: Floats
    ) -> None:
        fingerprint  # noqa: B018 (part of the closure, and so of the key of the cache)
        fill_products(feats, at, numbers, trace, piece_sums, z, y)

    return run


def _add_numbers(total: Sums, log: Log, found: Ratios, record: Record) -> None:
    """What the diagnostics need besides the features."""
    rho, reward, begins = found.rho, log.reward, record.begins
    inside = ~begins_episode(log.episode)[1:]
    products_of = np.exp(np.add.reduceat(np.log(rho), begins[:-1]))
    off = np.add.reduceat(rho, begins[:-1]) - np.diff(begins)
    told = {
        "steps": len(log),
        "terminated": log.terminated.sum(),
        "truncated": log.truncated.sum(),
        "elsewhere": (log.next_row[:-1] != log.row[1:])[inside].sum(),
        "inside": inside.sum(),
        "strangers": log.strangers * len(log),
        "ends_unknown": not log.ends_known,
        "r2": (reward**2).sum(),
        "r4": (reward**4).sum(),
        "early_rewards": (reward[record.discount != 0] != 0).sum(),
        "rho": rho.sum(),
        "rho2": (rho**2).sum(),
        "not_one": (rho != 1).sum(),
        "clipped": found.clipped,
        "weights": products_of.sum(),
        "weights2": (products_of**2).sum(),
        "off": off.sum(),
        "off2": (off**2).sum(),
        "beyond": np.exp(np.add.reduceat(np.log(record.discount), begins[:-1])).sum(),
    }
    total.arrays["numbers"] += [float(told[name]) for name in SUMMED]
    largest = {"largest_ratio": rho.max(), "largest_reward": reward.max(), "smallest_reward": -reward.min()}
    total.largest = {name: max(total.largest[name], float(value)) for name, value in largest.items()}
    place = ((np.log2(rho) - LOWEST) * PER_OCTAVE).clip(0, BINS - 1).astype(np.int64)
    total.arrays["ratios"] += [np.bincount(place, minlength=BINS), np.bincount(place, rho, minlength=BINS)]


class Reduction:
    """Adds sums of parts in pairs of neighbours: in one order, whoever is done first, and few are kept at a time."""

    def __init__(self) -> None:
        self._waiting: dict[int, Sums] = {}
        self._next = 0
        self._kept: list[tuple[int, Sums]] = []

    def put(self, number: int, sums: Sums) -> None:
        """The sums of the part with this number, counted from 0."""
        self._waiting[number] = sums
        while self._next in self._waiting:
            self._take(0, self._waiting.pop(self._next))
            self._next += 1

    def _take(self, level: int, sums: Sums) -> None:
        while self._kept and self._kept[-1][0] == level:
            sums = self._kept.pop()[1].add(sums)
            level += 1
        self._kept.append((level, sums))

    def total(self) -> Sums:
        """All of them, the later ones added to the earlier ones."""
        assert not self._waiting
        sums = self._kept.pop()[1]
        while self._kept:
            sums = self._kept.pop()[1].add(sums)
        return sums
