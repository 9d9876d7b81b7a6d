"""A log read a chunk of steps at a time: the rows it needs of the widest table, each made once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.evaluation.trust.records import Record, Wide

CHUNK = 2048
"""Steps that are read at a time."""
RHO, DISCOUNT, REWARD, DECAY, PRODUCT, OWN_DECAY = range(6)


class Chunk(NamedTuple):
    """Steps from ``start`` on: rows of features, where those of every step are, and their numbers (6, steps)."""

    start: int
    feats: Any
    here: Integers
    there: Integers
    numbers: Floats


class Reader:
    """Reads chunks of a log; ``lam`` is the lambda of the fits with memory, ``products`` those of ratios."""

    def __init__(self, record: Record, wide: Wide, lam: float = 0.0, products: Floats | None = None) -> None:
        self.record, self.wide, self.lam, self.products = record, wide, lam, products
        self._make = wide.maker() if wide.table is None else None

    def chunks(self, steps: slice) -> Iterator[Chunk]:
        for begin in range(steps.start, steps.stop, CHUNK):
            part = slice(begin, min(begin + CHUNK, steps.stop))
            yield Chunk(begin, *self._rows(part), self.numbers(part))

    def _rows(self, part: slice) -> tuple[Any, Integers, Integers]:
        row, after = (np.asarray(a[part], np.int64) for a in (self.record.row, self.record.next_row))
        if self._make is None:
            return self.wide.table, row, after
        first, last, n = int(row[0]), int(row[-1]), len(row)
        if last - first == n - 1 and (row[1:] - row[:-1] == 1).all():  # as the steps of a log mostly are
            elsewhere = np.flatnonzero((after < first) | (after > last))
            feats = np.empty((n + len(elsewhere), self.wide.n_columns))
            self._make(slice(first, last + 1), feats[:n])
            self._make(after[elsewhere], feats[n:])
            there = after - first
            there[elsewhere] = n + np.arange(len(elsewhere))
            return feats, row - first, there
        rows, where = np.unique(np.concatenate([row, after]), return_inverse=True)
        feats = np.empty((len(rows), self.wide.n_columns))
        self._make(rows, feats)
        return feats, where[:n], where[n:]

    def numbers(self, part: slice) -> Floats:
        """Ratio, discount, reward, decay of the trace (0 where a piece begins) and product of ratios of every step.

        And the decay of the traces asked for, which run on across blocks.
        """
        record, numbers = self.record, np.zeros((6, part.stop - part.start))
        numbers[RHO], numbers[DISCOUNT], numbers[REWARD] = record.rho[part], record.discount[part], record.reward[part]
        numbers[DECAY, 1:] = self.lam * numbers[DISCOUNT, :-1]
        numbers[DECAY, 0] = self.lam * record.discount[part.start - 1] if part.start else 0.0
        first, last = np.searchsorted(record.begins, [part.start, part.stop])
        numbers[DECAY, record.begins[first:last] - part.start] = 0.0
        if self.products is not None:
            numbers[PRODUCT] = self.products[part]
        if record.traced is not None:
            numbers[OWN_DECAY] = record.traced.decay[part]
        return numbers
