"""Finds which axis of arrays (T, N, ...) from several environments is the time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pair = tuple[float, float]
CLOSER = 0.7
"""An axis is the time if the squared changes of observations along it are less than this multiple of those along the
other axis: consecutive rows of one environment are similar, rows of different environments are not."""


def time_axis(now: Any, after: Any, flags: Sequence[NDArray[Any]], shape: Sequence[int]) -> tuple[int, str]:
    """Find which of the first two axes is the time. Returns the axis, and a warning if it was guessed.

    The next observations ``after`` show the axis, or the marks ``flags`` of ends, or how much the observations ``now``
    change along each axis. If none of these does, the first axis is the time.
    """
    a, b = shape[:2]
    if now is not None and after is not None:
        along = [bool((now[1:] == after[:-1]).mean() > 0.5) if a > 1 else False]
        along.append(bool((now[:, 1:] == after[:, :-1]).mean() > 0.5) if b > 1 else False)
        if along[0] != along[1]:
            return along.index(True), ""
    done = np.zeros((a, b), bool)
    if flags:
        done = np.logical_or.reduce([flag.reshape(a, b) != 0 for flag in flags])
        rows, columns = done[:, :-1].any(), done[:-1].any()  # ends before the last entry of each axis
        if rows != columns:
            return (1 if columns else 0), ""
        rises = [bool((np.diff(done.astype(np.int8), axis=k) >= 0).all()) for k in (0, 1)]
        moves = [bool(np.diff(done.astype(np.int8), axis=k).any()) for k in (0, 1)]
        over = [up and move for up, move in zip(rises, moves, strict=True)]  # ends that continue: padding
        if over[0] != over[1]:
            return over.index(True), ""
    first, second = _changes(now, done)
    axis = 1 if second < CLOSER * first else 0
    name, rest, other = ("first", "second", b) if axis == 0 else ("second", "first", a)
    return axis, (
        f"The arrays have the shape {(a, b)}. The {name} axis was read as time, the {rest} as {other} environments. "
        "If it is the other way round, swap the axes: numpy.swapaxes(array, 0, 1)."
    )


def _changes(now: Any, done: NDArray[np.bool_]) -> Pair:
    """Mean squared changes of the observations along each axis, except after ends. Infinite if there are no
    changes, 0 if unknown."""
    if now is None or now.dtype.kind not in "biuf":
        return 0.0, 0.0
    seen = now.reshape(*done.shape, -1).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        scale = np.maximum(np.nanvar(seen, axis=(0, 1)), 1e-300)
        along = (np.square(np.diff(seen, axis=0)) / scale).mean(axis=2)[~done[:-1]]
        across = (np.square(np.diff(seen, axis=1)) / scale).mean(axis=2)[~done[:, :-1]]
    return float(along.mean()) if along.size else np.inf, float(across.mean()) if across.size else np.inf
