"""Tables richer than the features given, and the ladder of features where none are given."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtd.core.arrays import Integers
from gradtd.core.checks import InputError
from gradtd.core.stream import begins_episode
from gradtd.evaluation.trust.records import GIVEN, Waves, Wide
from gradtd.features.cosines import SAMPLE, Cosines, frequencies
from gradtd.features.table import Table
from gradtd.logs import Log

WAVES = {1: 0.3, 2: 0.4, 3: 0.7}
"""Widths of random waves, in deviations of the observations, by the number of columns; 1 for more."""
FEWEST_WAVES, MOST_WAVES = 20, 80
SEEN = 10
"""Visits that a state needs to get a feature of its own; a pair of states needs twice as many."""
FEWEST_STATES, PIECES_PER_STATE = 30, 8
"""At most so many states, or one for so many pieces, get a feature of their own."""
FEWEST_GROUPED, MOST_GROUPS, GROUPED = 8, 4, "the {} states seen most, and one for the others"
"""Fewest states of a rung on which the rare ones share a feature, the most such rungs, and their name."""
FEWEST_COLUMNS, MOST_COLUMNS, STEPS_PER_COLUMN = 30, 220, 20
"""Bounds of the widest rung: the number of pieces too, and one column for so many steps."""
LEAST_STEPS = 5
"""Steps that there must be for every feature that is chosen."""
WORK = 2e10
"""Multiplications that reading the log for all fits may take, about: it bounds how wide their table is."""
SLACK = 0.66
"""Part of the width for which there is time that rungs take; the rest is for random waves."""
STEEP = 1.5
"""A rung has at least so many times the columns of the one before."""
STEP = 1.5
"""Times the columns of a poorer rung that one must have for the step between them to say how fast the value moves."""


def discrete_wide(log: Log, observations: Any, table: Any, episode: Integers, chosen: bool = False) -> Wide:
    """Features given, then those with one for each state that is seen often, then with pairs of states in a row.

    Where features are to be chosen, one per state, and states are many, there are also rungs on which only those seen
    most have one of their own.

    Parameters
    ----------
    log
        The steps.
    observations
        One number per row of the log's observations.
    table
        The features of those rows.
    episode
        The number of every step's piece.
    chosen
        Whether the features are one per state because none were asked for.
    """
    from scipy.sparse import csr_array, hstack

    _, first, state = np.unique(observations, return_index=True, return_inverse=True)
    base, cells = table[first], are_cells(table)
    if chosen:
        base = columns_of(len(first), np.arange(len(first))) if cells else np.eye(len(first))
    base = base if cells or isinstance(base, np.ndarray) else base.toarray()
    row, next_row = state[log.row], state[log.next_row]
    S, d = base.shape
    visits = np.bincount(row, minlength=S)
    most = max(FEWEST_STATES, (int(episode[-1]) + 1) // PIECES_PER_STATE)
    met = base[np.flatnonzero(visits)]
    complete = bool((len(np.unique(met.indices)) if cells else np.linalg.matrix_rank(met)) >= (visits > 0).sum())
    often = np.argsort(-visits, kind="stable")[:most]
    often = often[(visits[often] >= SEEN) & (not complete)]
    groups = grouped_rungs(visits, most) if chosen else {}
    k, e = len(often), d + bool(groups)  # what all states share comes first
    pairs = _Pairs(row, next_row, begins_episode(episode), S, most // 2)
    p = len(pairs.often)
    shared = csr_array(np.ones((len(pairs.now), e - d)))
    states, rows = columns_of(S, often)[pairs.now], columns_of(len(pairs.now), pairs.often)
    made: Any
    if cells:
        made = hstack((shared, base[pairs.now], states, rows), format="csr")
    else:
        made = np.c_[shared.toarray(), base[pairs.now], states.toarray(), rows.toarray()]
    fewer = tuple(groups)[:0:-1]
    headlines = fewer if fewer and len(row) < LEAST_STEPS * (visits > 0).sum() else (GIVEN, *fewer)
    given = e - d + np.arange(d)
    rungs, checkers = fits_of_states(given, k, p)
    return Wide(
        groups | rungs, checkers, headlines, complete, False, table=made, row=pairs.row, next_row=pairs.next_row
    )


def fits_of_states(given: Integers, k: int, p: int) -> tuple[dict[str, Integers], dict[str, Integers]]:
    """Rungs and checkers by their columns: behind those ``given`` one for each of k states, then of p pairs."""
    states = int(given[-1]) + 1 + np.arange(k)
    pairs = int(given[-1]) + 1 + k + np.arange(p)
    rungs, checkers = {GIVEN: given}, {}
    if k:
        rungs["with a feature per state"] = np.r_[given, states]
        if p:
            rungs["with states and pairs"] = np.r_[given, states, pairs]
        checkers = {
            "with half of the states": np.r_[given, states[: k // 2]],
            "with a quarter": np.r_[given, states[: k // 4]],
        }
    if p:
        checkers["with pairs of states"] = np.r_[given, pairs]
    return rungs, checkers


def grouped_rungs(visits: Integers, most: int) -> dict[str, Integers]:
    """The first column, which all states share, and those of the states seen most; none where states are few."""
    S = len(visits)
    found: dict[str, Integers] = {}
    often = np.argsort(-visits, kind="stable")
    size = S // 2
    while most < S and size >= FEWEST_GROUPED and len(found) < MOST_GROUPS:
        if visits[often[size - 1]] >= SEEN:
            found[GROUPED.format(size)] = np.r_[0, 1 + often[:size]]
        size //= 2
    return dict(reversed(found.items()))


class _Pairs:
    """Rows that are pairs (state before, state), and which of them are seen often."""

    def __init__(self, row: Integers, next_row: Integers, first: Any, states: int, most: int) -> None:
        before = np.where(first, states, np.r_[0, row[:-1]])
        here, there = before * states + row, row * states + next_row
        kinds, index = np.unique(np.r_[here, there], return_inverse=True)
        n = len(row)
        self.row, self.next_row = index[:n], index[n:]
        self.now = kinds % states
        visits = np.bincount(self.row, minlength=len(kinds))
        often = np.argsort(-visits, kind="stable")[:most]
        self.often = often[visits[often] >= 2 * SEEN]


def are_cells(table: Any) -> bool:
    """Whether a table is sparse, and every row of it has one entry at most."""
    return not isinstance(table, np.ndarray) and bool((np.diff(table.indptr) <= 1).all())


def columns_of(n_rows: int, rows: Integers) -> Any:
    """A sparse table with a column for each of these rows, 1 there."""
    from scipy.sparse import csr_array

    at = (rows, np.arange(len(rows)))
    return csr_array((np.ones(len(rows)), at), shape=(n_rows, len(rows)))


def real_wide(observations: Any, base: Any, n_steps: int, n_pieces: int) -> Wide:
    """A ladder of cosines of the observations, each rung about twice as wide, and random waves to check them.

    Parameters
    ----------
    observations
        Real numbers, one row per row of the log's observations.
    base
        Features given, one row each, the first rung and the only headline; None where rungs may be chosen.
    n_steps, n_pieces
        Sizes of the log, which bound how rich a rung may be.
    """
    cosines = Cosines(n=1).fit(observations)
    varies = cosines.learned["varies"]
    k, d = len(varies), 0 if base is None else base.shape[1]
    room = SLACK * max(np.sqrt(WORK / n_steps) - d, FEWEST_COLUMNS)
    carried = min(MOST_COLUMNS, max(FEWEST_COLUMNS, n_pieces), n_steps / STEPS_PER_COLUMN)
    D = max(int(min(carried, room)), k + 1)
    sizes = frequencies(k, D)[1]
    cuts = [sizes[-1]]
    for size in sizes[-2:0:-1]:
        if STEEP * size <= cuts[0] and size > k + 1:
            cuts.insert(0, size)
    m = cuts[-1]
    count = max(FEWEST_WAVES, min(D // (2 if k > 2 else 4), m))
    if room < carried:  # the log could carry more: as many as a check of the features given must have
        count = max(count, int(np.ceil(STEP * d)) - m)
    count = min(MOST_WAVES, count)
    waves = random_waves(observations, varies, count)
    rungs = {f"{size} cosines": d + np.arange(size) for size in cuts}
    checkers = {
        f"{size} cosines and {count} waves": d + np.r_[np.arange(size), m + np.arange(count)] for size in cuts[-2:]
    }
    headlines = tuple(rungs)
    if base is not None:
        rungs = {GIVEN: np.arange(d)} | rungs
        headlines = (GIVEN,)
    return Wide(
        rungs,
        checkers,
        headlines,
        False,
        True,
        base=base,
        observations=observations,
        cosines=cosines.longer(m),
        waves=waves,
    )


def random_waves(observations: Any, varies: Integers, count: int) -> Waves:
    """Random Fourier features of the columns that vary, in deviations of these over a sample."""
    seen = Table(observations).sample(SAMPLE)[:, varies]
    with np.errstate(over="ignore", invalid="ignore"):
        sd = seen.std(axis=0)
    if not np.isfinite(sd).all():
        j = int(np.flatnonzero(~np.isfinite(sd))[0])
        low, high = seen[:, j].min(), seen[:, j].max()
        raise InputError(
            f"observation column {varies[j]} goes from {low:g} to {high:g}, which cannot be scaled: rescale it."
        )
    frequencies = np.zeros((observations.shape[1], count))
    rng = np.random.default_rng(0)
    frequencies[varies] = rng.standard_normal((len(varies), count)) / WAVES.get(len(varies), 1.0)
    frequencies[varies] /= 2 * np.pi * np.where(sd > 0, sd, 1.0)[:, None]
    return Waves(frequencies, rng.random(count) - seen.mean(axis=0) @ frequencies[varies])
