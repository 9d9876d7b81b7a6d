"""Sums of a log of discrete observations, entry by entry, as `gradtd.evaluation.parts.blocks` has them for real ones.

A step costs as many additions as its rows have entries, and its trace as many as its episode has met features.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtd.compiled import engine
from gradtd.core.arrays import Floats, Integers, Plain
from gradtd.evaluation.parts.blocks import numbers_of, steps_of
from gradtd.evaluation.parts.job import Job
from gradtd.evaluation.trust.records import Record


class StateSums:
    """Adds the steps of chunks to sums, as `gradtd.evaluation.parts.blocks` has them, entry by entry."""

    def __init__(self, job: Job) -> None:
        from scipy.sparse import csr_array

        table = csr_array(job.wide.table)
        self.job, narrow = job, job.wide.n_headline_columns
        self.table = (table.indptr.astype(np.int64), table.indices.astype(np.int64), table.data)
        self.room, self.add = np.zeros((4, narrow)), engine.compiled(_adder)

    def __call__(self, record: Record, group: Integers, weights: Floats, arrays: dict[str, Floats]) -> None:
        steps = np.empty((5, len(record)), np.int64)
        steps[0], steps[1] = record.row, record.next_row
        steps[2:4] = steps_of(record, 0)[1:]
        steps[4] = group[steps[2]]
        sums = tuple(arrays[name] for name in ("products", "own", "marginal", "marginal_episodes", "marginal_sum"))
        self.add(self.table, steps, numbers_of(record, weights, self.job.lam), self.job.clock, sums, self.room)


TRACE, SUM, MET, LIST = range(4)
"""What an episode has in its room, by feature: trace, sum of rho x, whether it was met; and the features met."""


def add_entries(table: Any, steps: Integers, numbers: Floats, clock: Floats, sums: Any, room: Floats) -> None:
    """Add steps of whole episodes in a row; ``table`` is indptr, indices and data."""
    products, own, marginal, marginal_episodes, marginal_sum = sums
    met, n = 0, steps.shape[1]
    for i in range(n):
        met = meet(table, steps[0, i], numbers[:, i], room, met)
        add_products(table, steps[:, i], numbers[:, i], clock, products[steps[4, i]], room, met)
        now = clock[min(steps[3, i], clock.shape[0] - 1)]
        add_moments(table, steps[0, i], numbers[0, i], now, own, marginal)
        if i + 1 == n or steps[2, i + 1] != steps[2, i]:
            end_episode(room, met, marginal_episodes, marginal_sum)
            met = 0


def meet(table: Any, row: int, numbers: Floats, room: Floats, met: int) -> int:
    """The trace of a step, and how many features its episode has met."""
    indptr, indices, data = table
    for m in range(met):
        room[0, int(room[3, m])] *= numbers[0] * numbers[4]
    for a in range(indptr[row], indptr[row + 1]):
        k = indices[a]
        if k < room.shape[1]:
            if room[2, k] == 0.0:
                room[2, k] = 1.0
                room[3, met] = k
                met += 1
            room[0, k] += numbers[0] * data[a]
            room[1, k] += numbers[0] * data[a]
    return met


def add_products(table: Any, step: Integers, numbers: Floats, clock: Floats, P: Floats, room: Floats, met: int) -> None:
    """left'right of a step. What nobody reads of it, of traces and of weights with the time, is left out."""
    indptr, indices, data = table
    rho, weight = numbers[0], numbers[3]
    narrow, times, last = room.shape[1], clock.shape[1], clock.shape[0] - 1
    D = P.shape[1] - 1 - times
    now, then = clock[min(step[3], last)], clock[min(step[3] + 1, last)]
    for part in range(2 + 1 + times):
        # y has the entries of the next row and minus those of this one; then there are the reward and the time.
        if part < 2:
            at, factor = step[1 - part], numbers[1] if part == 0 else -1.0
            first, end = indptr[at], indptr[at + 1]
        else:
            first, end, factor = 0, 1, 1.0
        for b in range(first, end):
            if part < 2:
                c, y = indices[b], factor * data[b]
            elif part == 2:
                c, y = D, numbers[2]
            else:
                c, y = D + part - 2, numbers[1] * then[part - 3] - now[part - 3]
            for a in range(indptr[step[0]], indptr[step[0] + 1]):
                P[indices[a], c] += rho * data[a] * y
            for j in range(times):
                P[D + narrow + 1 + j, c] += rho * now[j] * y
            if part < 3:
                for m in range(met):
                    P[D + int(room[3, m]), c] += room[0, int(room[3, m])] * y
                P[D + narrow, c] += weight * y


def add_moments(table: Any, row: int, rho: float, now: Floats, own: Floats, marginal: Floats) -> None:
    """own'own and plain'plain of a step."""
    indptr, indices, data = table
    times, narrow = now.shape[0], marginal.shape[0]
    D = own.shape[0] - times - 2
    for a in range(indptr[row], indptr[row + 1]):
        k, x = indices[a], data[a]
        for b in range(indptr[row], indptr[row + 1]):
            own[k, indices[b]] += x * data[b]
            if k < narrow and indices[b] < narrow:
                marginal[k, indices[b]] += rho * rho * x * data[b]
        for j in range(times):
            own[k, D + j] += x * now[j]
        own[D + times, k] += x
        own[D + times + 1, k] += (1.0 - rho) * x
    for j in range(times):
        for h in range(times):
            own[D + j, D + h] += now[j] * now[h]
        own[D + times, D + j] += now[j]
        own[D + times + 1, D + j] += (1.0 - rho) * now[j]


def end_episode(room: Floats, met: int, marginal_episodes: Floats, marginal_sum: Floats) -> None:
    """Add the sum of an episode, and clear its room."""
    for m in range(met):
        k = int(room[3, m])
        marginal_sum[k] += room[1, k]
        for h in range(met):
            marginal_episodes[k, int(room[3, h])] += room[1, k] * room[1, int(room[3, h])]
    for m in range(met):
        k = int(room[3, m])
        room[0, k], room[1, k], room[2, k] = 0.0, 0.0, 0.0


def _adder(fingerprint: str) -> Plain:
    def run(table: Any, steps: Integers, numbers: Floats, clock: Floats, sums: Any, room: Floats) -> None:
        fingerprint  # noqa: B018 (part of the closure, and so of the key of the cache)
        add_entries(table, steps, numbers, clock, sums, room)

    return run
