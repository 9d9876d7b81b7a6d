"""Random numbers inside the loop: SplitMix64 (Steele, Lea and Flood, 2014), seeded from NumPy.

One 64-bit word of state, kept in an array of length one so that compiled code can advance it.
Inlined it costs about a nanosecond, a third of a call into a NumPy generator, and it gives the same
numbers interpreted and compiled. Every (seed, run, purpose) starts at its own random place of a
sequence of length 2**64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtd.core.arrays import Words

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S11 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(11)
_UNIT = 2.0**-53

EXPERIENCE, DRAWS, SPLIT = 0, 1, 2
"""A run has one sequence for each of these: the data, the batches, and the coin per episode."""


def seeded(seed: int, run: int, purpose: int) -> Words:
    """The state of the sequence that belongs to one run of one seed and one purpose."""
    return np.random.SeedSequence(seed, spawn_key=(run, purpose)).generate_state(1, np.uint64).astype(np.uint64)


def mixed(word: Any) -> Any:
    """Scramble a 64-bit word."""
    word = (word ^ (word >> _S30)) * _MIX_1
    word = (word ^ (word >> _S27)) * _MIX_2
    return word ^ (word >> _S31)


def next_word(rng: Words) -> Any:
    """A random 64-bit word."""
    rng[0] = rng[0] + _GOLDEN
    return mixed(rng[0])


def next_unit(rng: Words) -> Any:
    """A random number in [0, 1) with 53 bits."""
    return np.float64(np.int64(next_word(rng) >> _S11)) * _UNIT


def next_below(rng: Words, n: int) -> Any:
    """A random index 0, ..., n - 1, uniform to within n / 2**53."""
    return np.uint64(np.int64(next_unit(rng) * n))
