"""The states of a log of discrete observations, found in a pass of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradtd.core.checks import InputError
from gradtd.evaluation.parts.job import Reading
from gradtd.evaluation.parts.state_table import States, state_before
from gradtd.logs import Log
from gradtd.logs.parts import Part, Survey
from gradtd.running.crew import Crew

MOST_STATES = 500
"""States that a log in parts may have: for every pair of them there are sums."""


def find_states(seen: Survey, reading: Reading, name: str, crew: Crew) -> States:
    """Read the log once for its states."""
    found = [one for _, one in crew.each(_Look(reading, name), seen.parts())]
    return _together(found)


@dataclass(frozen=True, eq=False)
class _Look:
    """What a worker is sent."""

    reading: Reading
    name: str

    def __call__(self, part: Part) -> States:
        return _together(
            [
                _of_chunk(self.reading.log(rows, begins, self.name)[0])
                for rows, begins, _ in part.chunks(self.reading.needed)
            ]
        )


def _of_chunk(log: Log) -> States:
    values, state = np.unique(log.observations, return_inverse=True)
    _refuse_many(len(values))
    now, S = state[log.row], len(values)
    kinds, count = np.unique(state_before(now, log.episode, S) * S + now, return_counts=True)
    return States(values, np.bincount(now, minlength=S), np.c_[kinds // S, kinds % S, count])


def _together(found: Sequence[States]) -> States:
    values = np.unique(np.concatenate([one.values for one in found]))
    _refuse_many(len(values))
    S = len(values)
    visits, pairs = np.zeros(S, np.int64), np.zeros((S + 1, S), np.int64)
    for one in found:
        at = np.append(np.searchsorted(values, one.values), S)
        visits[at[:-1]] += one.visits
        pairs[at[one.pairs[:, 0]], at[one.pairs[:, 1]]] += one.pairs[:, 2]
    before, now = np.nonzero(pairs)
    return States(values, visits, np.c_[before, now, pairs[before, now]])


def _refuse_many(count: int) -> None:
    if count > MOST_STATES:
        raise InputError(
            f"a log that is read in parts has at most {MOST_STATES} states, as sums of every pair of them are kept: "
            f"this one has {count} or more; read it into memory, in_parts=False, or put states together."
        )
