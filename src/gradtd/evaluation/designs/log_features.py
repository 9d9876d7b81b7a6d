"""Turns a log into features: fits the map, makes the whitened table of observations, and cuts independent pieces.

If episodes have a fixed length, the value decreases with the remaining time. Features without the time give one value
for all times, which is wrong at the start; a fit with a few smooth functions of the time since the start gives the
right value. If the time does not matter, both fits agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.core.stream import Stream, begins_episode, episode_begins
from gradtd.evaluation.designs.base import refuse_extreme, rows_of_log, stream_of
from gradtd.evaluation.estimators.products import (
    AS_DENSE,
    chunk_rows,
    chunks,
    condition,
    original,
    second_moments,
    whiten,
    whitened_moments,
    widened,
)
from gradtd.features import Features, Function, Transformer, default_features, fit_varying, make_features
from gradtd.logs import Log

MOST_DENSE = 2000
"""Maximum number of dense features: memory of least squares grows with their square, time with their cube."""
MOST_CHECKED = 1000
"""Maximum number of features for which richer fits can check them."""
TOO_MANY = "{} states are too many for this log: the {} most frequent have one feature each; the others share one."


@dataclass(frozen=True, eq=False)
class LogFeatures:
    """A log in features: the fitted map, the table of all its observations, and the pieces for the bootstrap.

    ``log`` is stored without its observations, which may be as large as the table, so that they can be freed. For a
    dense table, ``C`` is the mean of x x' over its steps.
    """

    log: Log
    features: Features
    table: Any
    W: Floats | None
    used: Integers | None
    condition_C: float | None
    episode: Integers
    notes: tuple[str, ...]
    C: Any = None

    def weights(self, theta: Floats) -> Floats:
        """Weights of the original features, computed from those of the whitened ones. They are 0 for features that
        never occur."""
        found = original(self.W, theta)
        if self.used is None:
            return found
        weights = np.zeros(self.features.n_features)
        weights[self.used] = found
        return weights

    @property
    def leading_elsewhere(self) -> float:
        """Share of the steps inside episodes whose next observation is not that of the following step."""
        inside = ~begins_episode(self.log.episode)[1:]
        return float((self.log.next_row[:-1] != self.log.row[1:])[inside].mean()) if inside.any() else 0.0

    def measured(self, case: Any) -> dict[str, Any]:
        """Facts about the log for the diagnostics."""
        return {}

    def stream(self, rho: Floats, gamma: float, target: Floats | None = None) -> Stream:
        """The steps with their ratios and discounts. They share the table of features instead of copying it."""
        rows = rows_of_log(self.log, self.table.shape[1])
        return stream_of(self.log, self.table, rows, self.episode, rho, gamma, target)


def is_auto(features: Any) -> bool:
    """Whether gradtd chooses the features."""
    return features is None or (isinstance(features, str) and features.strip() == "auto")


def pieces_of(log: Log, block: int | None) -> Integers:
    """Number the independent pieces, one number per step. Refuses a log with a single piece."""
    episode = log.episode if block is None else cut_into_blocks(log.episode, block)
    if episode[-1] == 0:
        raise InputError(
            f"{log.name} has a single episode ({len(log)} steps), and the interval needs several: give "
            "block_length=T0 to count every T0 steps as one, with T0 large enough that blocks are nearly independent "
            "of each other."
        )
    return episode


def make_log_features(
    log: Log, features: Any, block: int | None, whitened: bool = True, as_dense: int = AS_DENSE
) -> LogFeatures:
    """Fit the features to the log's observations and compute them, once for all targets."""
    chosen = default_features(log.observations) if is_auto(features) else make_features(features)
    notes = list(log.notes)
    ours = not isinstance(chosen, (Function, Transformer))
    fitted, said = chosen, None
    if not chosen.fitted:
        fitted, said = fit_varying(chosen, log.observations) if ours else (chosen.fit(log.observations), None)
    notes += [said] if said else []
    if fitted.n_features > MOST_DENSE and isinstance(fitted.transform(log.observations[:1]), np.ndarray):
        raise InputError(
            f"{fitted.describe()}: least squares allows at most {MOST_DENSE} dense features; use fewer, or "
            "sparse ones such as tiles."
        )
    table = fitted.rows(log.observations)  # a dense float32 table stays so; sums convert it in chunks
    table = table if isinstance(table, np.ndarray) else widened(table)
    refuse_extreme("feature", table if isinstance(table, np.ndarray) else table.data, "rescale the features")
    W = None
    used = without_constants(table) if ours else None
    if used is not None:
        left_out = table.shape[1] - len(used)
        notes.append(f"Left out {left_out} redundant constant feature{'s' * (left_out > 1)}.")
        table = np.ascontiguousarray(table[:, used])
    if (log.observations == log.observations[:1]).all():
        notes.append("Every observation of the log is the same: the value is that of this one state.")
    else:
        refuse_useless(fitted, table)
    if not isinstance(table, np.ndarray):
        used = np.unique(table.indices).astype(np.int64)  # most columns of hashed tiles are unused
        table = table[:, used]
    C = second_moments(table, log.row)
    if whitened:
        if isinstance(fitted, (Function, Transformer)):
            table = table.copy()  # it may be the user's array
        table, W = whiten(table, C, as_dense)
    episode = pieces_of(log, block)
    if block is not None:
        notes.append(
            f"Every {block} steps of an episode count as one independent piece, and the value is that of the states at "
            "which pieces begin."
        )
    narrow = log.without_observations()
    known = whitened_moments(table, C, W)
    return LogFeatures(narrow, fitted, table, W, used, condition(C), episode, tuple(notes), known)


def cut_into_blocks(episode: Integers, block: int) -> Integers:
    """Number the pieces of ``block`` steps. Pieces do not cross the end of an episode.

    >>> cut_into_blocks(np.array([0, 0, 0, 1, 1]), 2)
    array([0, 0, 1, 2, 2])
    """
    begins = episode_begins(episode)
    since = np.arange(len(episode)) - np.repeat(begins[:-1], np.diff(begins))
    return np.cumsum(since % block == 0) - 1


def _varying(table: Floats) -> Any:
    varies = np.zeros(table.shape[1], bool)
    for part in chunks(len(table), chunk_rows(table)):
        varies |= (table[part] != table[0]).any(axis=0)
        if varies.any() and varies[1:].all():  # all vary, except perhaps a bias; no need to read more
            break
    return varies


def without_constants(table: Any) -> Integers | None:
    """The features to keep if gradtd's map has several constant ones, such as waves of a 0/1 column."""
    if not isinstance(table, np.ndarray):
        return None
    constant = ~_varying(table)
    if constant.sum() < 2 or constant.all():
        return None
    constant[int(np.argmax(constant & (table[0] != 0)))] = False
    return np.flatnonzero(~constant).astype(np.int64)


def refuse_useless(features: Features, table: Any) -> None:
    """Refuse several constant features, which are redundant, and features that are all constant."""
    if not isinstance(table, np.ndarray):
        return
    varies = _varying(table)
    constant = [int(k) for k in np.flatnonzero(~varies & (table[0] != 0))]
    if len(constant) > 1:
        labels = ", ".join(features.label(k) for k in constant[:5])
        raise InputError(f"{len(constant)} features are constant ({labels}): leave out all but one of them.")
    if not varies.any():
        raise InputError("all features are constant, so they cannot distinguish observations: name other features.")


DEGREE = 4
"""Number of polynomials of the time."""
NO_CLOCK = np.zeros((1, 0))
"""The clock of a log whose pieces have one step: no columns."""


def clock_of(lengths: Integers) -> Floats:
    """Polynomials of the time since the start, shape (times, columns). The time is expressed as the share of the log's
    steps that are earlier.

    ``lengths`` counts the pieces by length. If all pieces have one step, there are no columns. The time is capped at
    the last one in the log, because a polynomial could take any value beyond it.

    >>> clock_of(np.array([0, 0, 0, 2])).round(2)[:, :1]
    array([[-0.67],
           [ 0.  ],
           [ 0.67]])
    """
    steps = lengths[::-1].cumsum()[::-1][1:]  # number of pieces with a step at each time
    earlier = (np.cumsum(steps) - steps / 2) / max(steps.sum(), 1)
    made = np.polynomial.legendre.legvander(2 * earlier - 1, min(DEGREE, len(steps) - 1))
    return np.asarray(made[:, 1:], np.float64)


def since_start(begins: Integers, start: int, stop: int) -> Integers:
    """Number of steps since the start of the piece, for every step from ``start`` on.

    >>> since_start(np.array([0, 3, 6]), 2, 6)
    array([2, 0, 1, 2])
    """
    first, last = np.searchsorted(begins, start, "right") - 1, np.searchsorted(begins, stop, "left")
    edges = begins[first : last + 1]
    return np.asarray(np.arange(start, stop) - np.repeat(edges[:-1], np.diff(edges.clip(start, stop))))


class TimeRows(NamedTuple):
    """Features t of the time for a chunk of steps, with y = discount t_next - t and z = rho t."""

    t: Floats
    y: Floats
    z: Floats


def time_rows(clock: Floats, since: Integers, rho: Any, discount: Any) -> TimeRows:
    """Columns of the time for steps at these distances from the start, capped at the last known time."""
    last = len(clock) - 1
    t, after = clock[since.clip(max=last)], clock[(since + 1).clip(max=last)]
    return TimeRows(t, np.asarray(discount)[:, None] * after - t, np.asarray(rho)[:, None] * t)
