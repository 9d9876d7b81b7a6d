"""The table of a log with many states in parts, as `gradtd.evaluation.trust.enriching` has it in memory: sparse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.evaluation.parts.state_table import States, StateWide
from gradtd.evaluation.planning import TOO_MANY
from gradtd.evaluation.trust.enriching import (
    FEWEST_STATES,
    LEAST_STEPS,
    PIECES_PER_STATE,
    SEEN,
    are_cells,
    columns_of,
    fits_of_states,
    grouped_rungs,
)
from gradtd.evaluation.trust.records import GIVEN
from gradtd.features import Features, Grouped, default_features, make_features

MOST_ROWS = 1_000_000
"""Rows that features are fitted to, about."""


@dataclass(frozen=True, eq=False)
class CellWide(StateWide):
    """The same table, sparse: a row per state, and one for each pair seen often."""

    def weights(self, rung: str, theta: Floats, features: Features) -> tuple[Floats, Features, tuple[str, ...]]:
        """Weights of the features of a rung, these features, and what is to be said of them."""
        if rung == GIVEN:
            return theta, features, ()
        often = self.rungs[rung][1:] - 1
        order, n = np.argsort(often), len(often)
        shared = Grouped(n=n).fit(self.states[often])
        return np.r_[theta[0] + theta[1:][order], theta[0]], shared, (TOO_MANY.format(len(self.states), n),)


def cell_features(features: Any, states: States) -> Features:
    """Features that were named, or those for so many states where None; fitted to states as often as they were seen."""
    made = default_features(states.values) if features is None else make_features(features)
    if made.fitted:
        return made
    times = states.visits * min(1.0, MOST_ROWS / states.visits.sum())
    return made.fit(np.repeat(states.values, np.maximum(times.round().astype(np.int64), 1)))


def cell_wide(states: States, base: Any, n_pieces: int, chosen: bool) -> CellWide:
    """Features that are cells of states, one per state that is seen often, pairs; rungs of fewer where none were named.

    Parameters
    ----------
    states
        The states, how often each was seen, and which followed each other.
    base
        Their features: one entry for each of them at most.
    n_pieces
        Episodes of the log.
    chosen
        Whether there is one feature per state because none were asked for.
    """
    from scipy.sparse import csr_array, hstack, vstack

    base = csr_array(base)
    if not are_cells(base):
        raise InputError(
            f"a log of {len(states.values)} states is read in parts with features of which a state has one, as one-hot "
            "and aggregation are: name such features, or read it into memory, in_parts=False."
        )
    S, d = base.shape
    visits, most = states.visits, max(FEWEST_STATES, n_pieces // PIECES_PER_STATE)
    met = np.flatnonzero(visits)
    complete = len(np.unique(base[met].indices)) >= len(met)
    often = np.argsort(-visits, kind="stable")[: 0 if complete else most]
    often = often[visits[often] >= SEEN]
    pairs = states.pairs[np.argsort(-states.pairs[:, 2], kind="stable")][: most // 2]
    pairs = pairs[pairs[:, 2] >= 2 * SEEN]
    groups = grouped_rungs(visits, most) if chosen else {}
    k, p, e = len(often), len(pairs), int(bool(groups))
    of_state = hstack((csr_array(np.ones((S, e))), base, columns_of(S, often)), format="csr")
    rows = vstack((of_state, of_state[pairs[:, 1]]), format="csr")
    table = hstack((rows, columns_of(S + p, S + np.arange(p))), format="csr")
    fewer = tuple(groups)[:0:-1]
    headlines = fewer if fewer and visits.sum() < LEAST_STEPS * len(met) else (GIVEN, *fewer)
    rungs, checkers = fits_of_states(e + np.arange(d), k, p)
    return CellWide(
        groups | rungs, checkers, headlines, complete, False, table=table, states=states.values, pairs=pairs
    )
