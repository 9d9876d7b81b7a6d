"""Feature maps written straight from their definitions: one observation ``x`` of a ``log``, plain loops."""

import math
from itertools import product

import numpy as np


def standardised(log, x):
    return [(x[j] - np.mean(log[:, j])) / np.std(log[:, j]) for j in range(len(x))]


def in_unit_range(log, x):
    return [min(max((x[j] - min(log[:, j])) / (max(log[:, j]) - min(log[:, j])), 0.0), 1.0) for j in range(len(x))]


def identity(log, x):
    return [1.0, *standardised(log, x)]


def polynomial(log, x, order):
    s = [2 * (x[j] - min(log[:, j])) / (max(log[:, j]) - min(log[:, j])) - 1 for j in range(len(x))]
    powers = [p for p in product(range(order + 1), repeat=len(x)) if sum(p) <= order]
    return sorted(math.prod(value**power for value, power in zip(s, p, strict=True)) for p in powers)


def fourier(log, x, order):
    s = in_unit_range(log, x)
    return [math.cos(math.pi * float(np.dot(c, s))) for c in product(range(order + 1), repeat=len(x))]


def mixed(word):
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) % 2**64
    return word ^ (word >> 31)


def tiles(log, x, tilings, tiles, hashing=None):
    """A dictionary from columns to values."""
    place = [share * tiles for share in in_unit_range(log, x)]
    odd = [d for d in range(1, 1000, 2) if math.gcd(d, tilings) == 1]
    row = {}
    for t in range(tilings):
        cell = [math.floor(p + (t * odd[i] % tilings) / tilings) for i, p in enumerate(place)]
        assert all(0 <= c <= tiles for c in cell)
        if hashing is None:
            column = int(np.ravel_multi_index((t, *cell), (tilings, *[tiles + 1] * len(x))))
        else:
            word = mixed(t + 1)
            for c in cell:
                word = mixed((word + c) % 2**64)
            column = ((word >> 32) * hashing) >> 32
        row[column] = row.get(column, 0.0) + 1.0
    return row
