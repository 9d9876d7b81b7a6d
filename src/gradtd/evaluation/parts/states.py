"""The states of a log of discrete observations, found in a pass of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradtd.core.checks import InputError
from gradtd.core.executors import Executor
from gradtd.evaluation.parts.job import Reading
from gradtd.evaluation.parts.state_table import States, state_before
from gradtd.logs import Log
from gradtd.logs.parts import Part, Survey

DENSE_STATES = 500
"""States up to which there are sums for every pair of them; with more, for those that follow each other."""
MOST_STATES, MOST_PAIRS = 1_000_000, 10_000_000
"""States that a log in parts may have, and pairs of them that follow each other: they are kept in memory."""


def find_states(seen: Survey, reading: Reading, name: str, crew: Executor) -> States:
    """Read the log once for its states."""
    found: list[States] = []
    for _, one in crew.each(_Look(reading, name), seen.parts()):  # counts: whoever is done first
        found.append(one)
        while len(found) > 1 and len(found[-2].pairs) <= 2 * len(found[-1].pairs):
            found[-2:] = [_together(found[-2:])]
    return _together(found)


@dataclass(frozen=True, eq=False)
class _Look:
    """What a worker is sent."""

    reading: Reading
    name: str

    def __call__(self, part: Part) -> States:
        read = (self.reading.steps(rows, begins, self.name) for rows, begins, _ in part.chunks(self.reading.needed))
        return _together([NOTHING, *(_of_chunk(made[0]) for made in read if made)])


NOTHING = States(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 3), np.int64))


def _of_chunk(log: Log) -> States:
    values, state = np.unique(log.observations, return_inverse=True)
    now, S = state[log.row], len(values)
    kinds, count = np.unique(state_before(now, log.episode, S) * S + now, return_counts=True)
    return States(values, np.bincount(now, minlength=S), np.c_[kinds // S, kinds % S, count])


def _together(found: Sequence[States]) -> States:
    values = np.unique(np.concatenate([one.values for one in found]))
    S = len(values)
    visits = np.zeros(S, np.int64)
    keys, counts = [], []
    for one in found:
        at = np.append(np.searchsorted(values, one.values), S)
        visits[at[:-1]] += one.visits
        keys.append(at[one.pairs[:, 0]] * S + at[one.pairs[:, 1]])
        counts.append(one.pairs[:, 2])
    key, place = np.unique(np.concatenate(keys), return_inverse=True)
    _refuse_many(S, len(key))
    count = np.zeros(len(key), np.int64)
    np.add.at(count, place, np.concatenate(counts))
    return States(values, visits, np.c_[key // S, key % S, count])


def _refuse_many(states: int, pairs: int) -> None:
    if states > MOST_STATES or pairs > MOST_PAIRS:
        raise InputError(
            f"a log that is read in parts has at most {MOST_STATES} states, of which at most {MOST_PAIRS} pairs follow "
            f"each other: this one has {states} and {pairs}, or more; put states together."
        )
