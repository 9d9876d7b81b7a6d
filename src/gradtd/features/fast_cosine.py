"""Cosines of many angles at once, several times as fast as one at a time: the same few products for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtd.compiled import engine
from gradtd.compiled.tiles import ACROSS, DOWN, room_for, tile
from gradtd.core.arrays import Floats, Plain

TERMS = (
    *(6.283185307179586, -41.341702240399755, 81.60524927607504, -76.70585975306136, 42.058693944897634),
    *(-15.094642576822984, 3.8199525848482803, -0.7181223017785001, 0.10422916220813978, -0.012031585942120619),
)
"""(2 pi)^(2 k + 1) / (2 k + 1)!, signs alternating: the sine's series, exact to rounding up to a quarter turn."""


def turned(t: Any) -> Any:
    """cos(2 pi t): turned back to a quarter turn."""
    return sine(0.25 - abs(t - np.floor(t + 0.5)))


def sine(s: Any) -> Any:
    """sin(2 pi s) of at most a quarter turn, where ten terms of its series do."""
    q = s * s
    r = q * q
    w = r * r
    low = (TERMS[0] + TERMS[1] * q) + (TERMS[2] + TERMS[3] * q) * r  # in pairs: few of them wait for one another
    high = (TERMS[4] + TERMS[5] * q) + (TERMS[6] + TERMS[7] * q) * r
    return ((low + high * w) + (TERMS[8] + TERMS[9] * q) * (w * w)) * s


def turn_all(turns: Floats) -> None:
    for i in range(turns.shape[0]):
        for k in range(turns.shape[1]):
            turns[i, k] = turned(turns[i, k])


def wave_rows(x: Floats, frequencies: Floats, phases: Floats, spot: Floats, out: Floats, at: int) -> None:
    """cos(2 pi (phase + x . frequency)) of rows, at least `DOWN` of them, to columns of a table from ``at`` on."""
    columns, waves, n = x.T, phases.shape[0], x.shape[0]
    for i in range(0, n, DOWN):
        first = min(i, n - DOWN)
        for j in range(0, waves, ACROSS):
            tile(columns, frequencies, 0, x.shape[1], first, j, spot)
            for m in range(DOWN):
                line, found, phase = out[first + m, at + j :], spot[m], phases[j:]
                for k in range(min(ACROSS, waves - j)):
                    line[k] = turned(found[k] + phase[k])


def _waver(fingerprint: str) -> Plain:
    def run(x: Floats, frequencies: Floats, phases: Floats, spot: Floats, out: Floats, at: int) -> None:
        fingerprint  # noqa: B018 (part of the closure, and so of the key of the cache)
        wave_rows(x, frequencies, phases, spot, out, at)

    return run


def wave_writer(frequencies: Floats, phases: Floats) -> Callable[[Any, Floats, int], None]:
    """A function of rows x, a table and a column, which writes cos(2 pi (phase + x . frequency)) there.

    >>> out = np.zeros((1, 3))
    >>> wave_writer(np.array([[0.25, 0.5]]), np.array([0.0, 0.5]))(np.array([[2.0]]), out, 1)
    >>> out
    array([[ 0., -1., -1.]])
    """
    write, spot = engine.kept(_waver), np.zeros((DOWN, ACROSS))
    wide = room_for(*frequencies.shape)
    wide[:, : len(phases)] = frequencies

    def put(x: Any, out: Floats, at: int) -> None:
        x = np.ascontiguousarray(x, np.float64)
        if len(x) >= DOWN:
            write(x, wide, phases, spot, out, at)
        else:  # too few for a tile
            rows, found = np.zeros((DOWN, x.shape[1])), np.empty((DOWN, len(phases)))
            rows[: len(x)] = x
            write(rows, wide, phases, spot, found, 0)
            out[:, at : at + len(phases)] = found[: len(x)]

    return put


def _maker(fingerprint: str) -> Plain:
    def run(turns: Floats) -> None:
        fingerprint  # noqa: B018 (part of the closure, and so of the key of the cache)
        turn_all(turns)

    return run


def turner() -> Plain:
    """A function of a table that puts cos(2 pi t) in place of every t; looked up once, it is called for every chunk.

    >>> turns = np.array([[0.0, 0.25, -0.5, 7.125]])
    >>> turner()(turns)
    >>> turns.round(12) + 0.0
    array([[ 1.        ,  0.        , -1.        ,  0.70710678]])
    """
    return engine.kept(_maker)
