"""Sums over the steps of a log for the diagnostics, computed in one pass.

Sums of chunks are added, so logs in memory and in files have the same diagnostics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.logs import Log, Ratios
from gradtd.logs.log import merge_notes

BINS, PER_OCTAVE, LOWEST = 1024, 16, -32
"""Bins of the histogram of ratios: 16 for every doubling, from 2^-32 to 2^32."""
BY_STEP = (
    *("elsewhere", "r2", "r4", "early_rewards", "rho", "rho2", "not_one"),
    *("weights", "weights2", "off", "off2", "beyond"),
)
"""Names of the quantities that are summed over steps and, in the second line, over episodes."""
BY_CHUNK = ("steps", "episodes", "terminated", "truncated", "inside", "strangers", "ends_unknown", "clipped")
"""Names of the quantities that each chunk of a log has."""
LARGEST = ("largest_ratio", "largest_reward", "smallest_reward")
"""Names of the quantities of which the maximum is taken; the smallest reward is stored with its sign changed."""


@dataclass
class StepSums:
    """Sums over the steps of a chunk or a whole log."""

    numbers: dict[str, float] = field(default_factory=lambda: dict.fromkeys((*BY_STEP, *BY_CHUNK), 0.0))  # sums by name
    largest: dict[str, float] = field(default_factory=lambda: dict.fromkeys(LARGEST, -np.inf))
    """Quantities combined by maximum."""
    ratios: Floats = field(default_factory=lambda: np.zeros((2, BINS)))
    """Counts and sums of the ratios by size, (2, bins)."""
    by_time: Floats = field(default_factory=lambda: np.zeros((2, 0)))
    """Sums of the products of ratios, and of their squares, by the time since the episode began."""
    top: float | None = None
    """Share of the total weight in the largest 1 % of ratios, or None if chunks were added, because it then comes from
    the histogram."""
    unseen: float | None = None
    unseen_pairs: float | None = None
    """``unseen`` and ``unseen_pairs``: the smallest probability, over chunks, of target actions that the chunk lacks,
    or None if unknown."""
    alone: bool = False
    estimated: bool = False
    """``alone`` and ``estimated``: whether one-step episodes were inferred, and whether the behaviour was estimated."""
    notes: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    """``notes`` and ``warnings``: notes of the reader and warnings about the ratios, with counts."""

    def __getitem__(self, name: str) -> float:
        return self.numbers[name]

    def add(self, other: StepSums) -> StepSums:
        """Add the sums of other episodes."""
        self.top = other.top if self["steps"] == 0 else None
        self.numbers = {name: value + other.numbers[name] for name, value in self.numbers.items()}
        self.largest = {name: max(value, other.largest[name]) for name, value in self.largest.items()}
        self.ratios = self.ratios + other.ratios
        longest = max(self.by_time.shape[1], other.by_time.shape[1])
        both = np.zeros((2, longest))
        for one in (self, other):
            both[:, : one.by_time.shape[1]] += one.by_time
        self.by_time = both
        self.unseen = least(self.unseen, other.unseen)
        self.unseen_pairs = least(self.unseen_pairs, other.unseen_pairs)
        self.alone, self.estimated = self.alone or other.alone, self.estimated or other.estimated
        self.notes.update(other.notes)
        self.warnings.update(other.warnings)
        return self

    def diagnostics(self) -> dict[str, Any]:
        """The fields of `Diagnostics` that follow from these sums."""
        steps, off = self["steps"], self["off2"] ** 0.5
        low, high = -self.largest["smallest_reward"], self.largest["largest_reward"]
        return {
            "steps": int(steps),
            "terminated": int(self["terminated"]),
            "truncated": int(self["truncated"]),
            "leading_elsewhere": self["elsewhere"] / max(self["inside"], 1.0),
            "ends_known": self["ends_unknown"] == 0,
            "rows_alone": self.alone or None,
            "strangers": self["strangers"] / steps,
            "reward_sample": self["r2"] ** 2 / self["r4"] if self["r4"] > 0 else 0.0,
            "largest_reward": max(abs(low), abs(high)),
            "unseen_mass": self.unseen,
            "unseen_pairs": self.unseen_pairs,
            "clipped": int(self["clipped"]),
            "on_policy": self["not_one"] == 0,
            "ess": effective(self["rho"], self["rho2"]),
            "ess_episodes": effective(self["weights"], self["weights2"]),
            "largest_ratio": self.largest["largest_ratio"],
            "mean_ratio": self["rho"] / steps,
            "mean_ratio_off": self["off"] / off if off > 0 else 0.0,
            "top_hundredth_carries": self.top if self.top is not None else _top_of_bins(self.ratios),
            "beyond_cuts": self["beyond"] / self["episodes"],
            "estimated_behaviour": self.estimated or None,
        }

    def possible(self, gamma: float) -> tuple[float, float]:
        """The smallest and largest return that the log's rewards allow. They are infinite if rewards set no limit.

        With gamma below 1, a return is at most the largest reward times 1 / (1 - gamma), or 0 if that is negative. If
        only last steps of terminated episodes have rewards, it is at most the largest of them.
        """
        at_the_end = self["early_rewards"] == 0
        if gamma == 1 and not at_the_end:
            return -np.inf, np.inf
        times = 1.0 if at_the_end else 1 / (1 - gamma)
        low, high = min(-self.largest["smallest_reward"], 0.0), max(self.largest["largest_reward"], 0.0)
        return times * low, times * high

    def beyond_rewards(self, gamma: float, value: float | None, error: float) -> float | None:
        """Distance of a value from the range that the log's rewards allow, in standard errors, or None if unbounded."""
        low, high = self.possible(gamma)
        if value is None or high == np.inf:
            return None
        return max(low - value, value - high, 0.0) / error

    def told(self) -> tuple[list[str], list[str]]:
        """Merge the notes and warnings of all chunks. The counts of equal sentences are added."""
        return merge_notes(self.notes.elements()), merge_notes(self.warnings.elements())


def least(a: float | None, b: float | None) -> float | None:
    known = [value for value in (a, b) if value is not None]
    return min(known) if known else None


def effective(total: float, squares: float) -> float:
    """(sum w)^2 / sum w^2, from the two sums: 0 if all weights are 0, 1 if they overflow."""
    if squares == 0:
        return 0.0
    return total**2 / squares if squares < np.inf else 1.0


def effective_size(weights: Floats) -> float:
    """(sum w)^2 / sum w^2: the number of equal weights with the same variance of a mean.

    >>> float(effective_size(np.array([1.0, 1.0, 1.0, 0.0])))
    3.0
    """
    largest = max(weights.max(initial=0.0), -weights.min(initial=0.0))  # marginal weights may be negative
    if not 0 < largest < np.inf:
        return 0.0 if largest == 0 else 1.0
    part = weights / largest  # avoid overflow of the squared weights
    return float(part.sum() ** 2 / (part**2).sum())


def sum_steps(log: Log, found: Ratios, discount: Floats, begins: Integers, weights: Floats) -> StepSums:
    """The sums of a chunk of a log.

    ``begins`` are the first steps of the independent pieces and the number of steps; ``weights`` are the products of
    ratios and discounts up to every step.
    """
    rho = np.asarray(found.rho, np.float64)
    numbers, ratios = np.zeros(len(BY_STEP)), np.zeros((2, BINS))
    by_time = np.zeros((2, int(np.diff(begins).max())))
    with np.errstate(all="ignore"):
        for pieces in _runs_of_pieces(begins):
            part = slice(int(pieces[0]), int(pieces[-1]))
            t, length = pieces[:-1] - part.start, np.diff(pieces)
            follows = np.asarray(log.next_row[part])[:-1] == np.asarray(log.row[part])[1:]
            follows[t[1:] - 1] = True  # the next row belongs to another piece
            r, size = rho[part], np.log2(rho[part])
            reward, left = (np.asarray(a[part], np.float64) for a in (log.reward, discount))
            square = reward * reward
            # The product of a long episode may overflow or underflow; its logarithm does not.
            whole, off = 2.0 ** np.add.reduceat(size, t), np.add.reduceat(r, t) - length
            of_steps = (~follows, square, square * square, (reward != 0) & (left != 0), r, r * r, r != 1)
            of_pieces = (whole, whole * whole, off, off * off, np.multiply.reduceat(left, t))
            numbers += [x.sum(dtype=np.float64) for x in (*of_steps, *of_pieces)]
            place = np.clip((size - LOWEST) * PER_OCTAVE, 0, BINS - 1).astype(np.int64)
            time, weight = np.arange(len(r)) - np.repeat(t, length), weights[part]
            ratios += [np.bincount(place, x, BINS) for x in (None, r)]
            for k, x in enumerate((weight, weight * weight)):
                made = np.bincount(time, x)
                by_time[k, : len(made)] += made
    inside = len(log) - (len(begins) - 1)  # pieces may be blocks: the loop does not look beyond their ends
    ends = (log.terminated.sum(), log.truncated.sum())
    chunk = (len(log), len(begins) - 1, *ends, inside, log.strangers * len(log), not log.ends_known, found.clipped)
    sums = dict(zip((*BY_STEP, *BY_CHUNK), map(float, (*numbers, *chunk)), strict=True))
    largest = dict(zip(LARGEST, map(float, (rho.max(), log.reward.max(), -log.reward.min())), strict=True))
    return StepSums(
        sums,
        largest,
        ratios,
        by_time,
        top_hundredth(rho),
        found.unseen_mass,
        found.unseen_pairs,
        log.rows_alone,
        found.estimated,
        Counter(log.notes),
        Counter(found.notes),
    )


_AT_ONCE = 2**16
"""Number of steps that are summed at a time (or one longer piece): larger arrays do not fit into the caches."""


def _runs_of_pieces(begins: Integers) -> Iterator[Integers]:
    """Yield the first steps of consecutive pieces in groups, followed by the end of the last piece of the group."""
    first = 0
    while first < len(begins) - 1:
        last = max(first + 1, int(np.searchsorted(begins, begins[first] + _AT_ONCE, "right")) - 1)
        yield begins[first : last + 1]
        first = last


def top_hundredth(rho: Floats) -> float:
    """Share of the total weight held by the largest 1 % of the ratios."""
    largest = max(1, len(rho) // 100)
    return float(np.partition(rho, -largest)[-largest:].sum() / rho.sum()) if rho.sum() > 0 else 1.0


def _top_of_bins(histogram: Floats) -> float:
    """`top_hundredth` from a histogram, with the accuracy of a bin."""
    count, weight = histogram[0][::-1], histogram[1][::-1]
    if weight.sum() <= 0:
        return 1.0
    before = np.r_[0.0, np.cumsum(count)[:-1]]
    taken = np.clip(max(1.0, count.sum() // 100) - before, 0.0, count)
    return float((weight * taken / np.maximum(count, 1)).sum() / weight.sum())


def ratio_picture(histogram: Floats) -> dict[str, Floats]:
    """The histogram of the ratios for the plot: bins of equal width, from those of equal ratio."""
    edges = 2.0 ** (np.arange(BINS + 1) / PER_OCTAVE + LOWEST)
    used = np.flatnonzero(histogram[0])
    low, high = edges[used[0]], edges[used[-1] + 1]
    counts, even = np.histogram(np.sqrt(edges[1:] * edges[:-1]), 40, (low, high), weights=histogram[0])
    return {"rho": np.asarray(counts, np.float64), "rho_edges": even}
