"""What the diagnostics of a log in parts need besides its features: sums over steps, made in one pass."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradtd.compiled import engine
from gradtd.core.arrays import Floats, Integers, Plain
from gradtd.evaluation.trust.records import Record
from gradtd.logs import Log

BINS, PER_OCTAVE, LOWEST = 1024, 16, -32
"""Bins of the histogram of ratios: 16 for every doubling, from 2^-32 to 2^32."""
COUNTED = (
    *("elsewhere", "r2", "r4", "early_rewards", "rho", "rho2", "not_one"),
    *("weights", "weights2", "off", "off2", "beyond"),
)
"""Numbers that are summed over steps, and in the second line over episodes."""


class Steps(NamedTuple):
    """Steps of some episodes: ``weight`` is that of doubly robust."""

    row: Any
    next_row: Any
    rho: Floats
    reward: Floats
    discount: Floats
    weight: Floats
    begins: Integers


class Counted(NamedTuple):
    """The sums of some steps: numbers by name, the histogram of ratios, weights and their squares by time."""

    numbers: Floats
    ratios: Floats
    by_time: Floats


def counted(log: Log, record: Record, weights: Floats) -> Counted:
    """The sums of the steps of a log, whose pieces are its episodes."""
    rho, reward, discount = (np.ascontiguousarray(a, np.float64) for a in (record.rho, record.reward, record.discount))
    steps = Steps(log.row, log.next_row, rho, reward, discount, weights, record.begins)
    longest = int(np.diff(record.begins).max())
    made = Counted(np.zeros(len(COUNTED)), np.zeros((2, BINS)), np.zeros((2, longest)))
    engine.kept(_counter)(steps, made)
    return made


def count_steps(steps: Any, made: Any) -> None:
    begins = steps.begins
    for p in range(begins.shape[0] - 1):
        count_piece(steps, begins[p], begins[p + 1], made)


def count_piece(steps: Any, first: int, last: int, made: Any) -> None:
    """Add an episode. Its own sums are made first, so that few small numbers are added to large ones."""
    elsewhere, r2, r4, early, ratio, ratio2, not_one, logs, left = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0
    for i in range(first, last):
        rho, discount, square = steps.rho[i], steps.discount[i], steps.reward[i] * steps.reward[i]
        r2 += square
        r4 += square * square
        ratio += rho
        ratio2 += rho * rho
        if steps.reward[i] != 0 and discount != 0:
            early += 1
        if rho != 1:
            not_one += 1
        if i + 1 < last and steps.next_row[i] != steps.row[i + 1]:
            elsewhere += 1
        of_rho = np.log2(rho)
        logs += of_rho
        left *= discount
        place = int(min(max((of_rho - LOWEST) * PER_OCTAVE, 0.0), BINS - 1.0))
        made.ratios[0, place] += 1
        made.ratios[1, place] += rho
        made.by_time[0, i - first] += steps.weight[i]
        made.by_time[1, i - first] += steps.weight[i] * steps.weight[i]
    whole, off = 2.0**logs, ratio - (last - first)
    found = (elsewhere, r2, r4, early, ratio, ratio2, not_one, whole, whole * whole, off, off * off, left)
    for k in range(len(found)):
        made.numbers[k] += found[k]


def _counter(fingerprint: str) -> Plain:
    def run(steps: Any, made: Any) -> None:
        fingerprint  # noqa: B018 (part of the closure, and so of the key of the cache)
        count_steps(steps, made)

    return run
