"""Sums of a log in features of pairs: what the target expects after a step is a row of its own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.evaluation.parts.blocks import DECAY, SINCE, layout_of, numbers_of, steps_of
from gradtd.evaluation.parts.job import Job
from gradtd.evaluation.trust.clock import time_rows
from gradtd.evaluation.trust.records import Record, Wide

RUN = 1024
"""Steps that are added at a time, at most."""


class PairSums:
    """Adds the steps of chunks to sums, as `gradtd.evaluation.parts.blocks.Layout` has them."""

    def __init__(self, job: Job) -> None:
        self.job, self.layout = job, layout_of(job)

    def __call__(self, arrays: dict[str, Floats], record: Record, wide: Wide, group: Integers, weights: Floats) -> None:
        """Add the steps of some episodes, of these groups."""
        n, narrow, D = len(record), self.layout.narrow, self.layout.D
        since, decay = steps_of(record, wide.n_rows)[SINCE], numbers_of(record, weights, self.job.lam)[DECAY]
        make, piece = wide.maker(), np.repeat(np.arange(record.n_pieces), np.diff(record.begins))
        of_piece, z = np.zeros((record.n_pieces, narrow)), np.zeros((RUN + 1, narrow))
        for g, a, b in _runs(record.begins, group):
            x, after = np.empty((b - a, D)), np.empty((b - a, D))
            make(slice(a, b), x)
            make(slice(n + a, n + b), after)
            rho, discount, reward = record.rho[a:b], record.discount[a:b], record.reward[a:b]
            plain = rho[:, None] * x
            for i in range(b - a):
                z[i + 1] = plain[i, :narrow] + (0.0 if decay[a + i] == 0 else rho[i] * decay[a + i] * z[i])
            time = time_rows(self.job.clock, since[a:b], rho, discount, reward)
            left = np.c_[plain, z[1 : b - a + 1], weights[a:b], time.z]
            own = np.c_[x, time.t, np.ones(b - a), 1.0 - rho]
            arrays["products"][g] += left.T @ np.c_[discount[:, None] * after - x, reward, time.y]
            arrays["own"] += own.T @ own
            arrays["marginal"] += plain[:, :narrow].T @ plain[:, :narrow]
            np.add.at(of_piece, piece[a:b], plain[:, :narrow])
            z[0] = z[b - a]
        for begin in range(0, record.n_pieces, RUN):
            some = slice(begin, begin + RUN)
            np.add.at(arrays["starts"], group[some], wide.rows(record.start_rows[some]))
        arrays["marginal_episodes"] += of_piece.T @ of_piece
        arrays["marginal_sum"] += of_piece.sum(axis=0)


def _runs(begins: Integers, group: Integers) -> Iterator[tuple[int, int, int]]:
    """Runs of steps of one group: the group, the first step, the end; a longer one is cut.

    >>> [run for run in _runs(np.array([0, 100, 300, 1400]), np.array([7, 7, 1]))]
    [(7, 0, 300), (1, 300, 1324), (1, 1324, 1400)]
    """
    first = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    edges = np.r_[begins[first], begins[-1]].tolist()
    for g, a, b in zip(group[first].tolist(), edges[:-1], edges[1:], strict=True):
        for begin in range(a, b, RUN):
            yield g, begin, min(begin + RUN, b)
