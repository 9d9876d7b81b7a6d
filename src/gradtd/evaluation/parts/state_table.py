"""The table of a log of discrete observations in parts: a row per state and, behind them, pairs seen often."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Integers
from gradtd.core.stream import begins_episode
from gradtd.evaluation.trust.enriching import FEWEST_STATES, PIECES_PER_STATE, SEEN, fits_of_states
from gradtd.evaluation.trust.records import GIVEN, Wide
from gradtd.logs import Log

MOST_PAIRS = 100
"""Pairs of states in a row that get a feature, to check the others."""


class States(NamedTuple):
    """The states of a log, sorted, and how many steps started from each.

    ``pairs`` are rows (before, state, steps) by number; the number of states stands in for the state before the first.
    """

    values: Integers
    visits: Integers
    pairs: Integers


def state_before(now: Integers, episode: Integers, states: int) -> Integers:
    """The state before every step; the number of states where there is none."""
    return np.where(begins_episode(episode), states, np.r_[0, now[:-1]])


@dataclass(frozen=True, eq=False)
class StateWide(Wide):
    """The table of states and pairs; its rows are looked up in every chunk."""

    states: Any = None
    pairs: Any = None

    def of(self, log: Log) -> Wide:
        """The same with the rows of the steps of a log."""
        S = len(self.states)
        state = np.searchsorted(self.states, log.observations)
        now, after = state[log.row], state[log.next_row]
        before = state_before(now, log.episode, S)
        return replace(self, row=self.place(before, now), next_row=self.place(now, after))

    def place(self, before: Integers, now: Integers) -> Integers:
        """The rows of pairs; a pair that is not seen often has that of its state."""
        S, keys = len(self.states), self._keys
        key = before * S + now
        at = np.searchsorted(keys[0], key).clip(max=max(len(keys[0]) - 1, 0))
        return np.where(keys[0][at] == key, S + keys[1][at], now) if len(keys[0]) else now

    @cached_property
    def _keys(self) -> tuple[Integers, Integers]:
        """The pairs seen often, sorted, and where they stand in the table."""
        key = self.pairs[:, 0] * len(self.states) + self.pairs[:, 1]
        order = np.argsort(key)
        return key[order], order


def state_wide(states: States, base: Any, n_pieces: int) -> Wide:
    """The features given for every state; where they do not tell all states apart, one per state; pairs seen often."""
    base = base if isinstance(base, np.ndarray) else base.toarray()
    S, d = base.shape
    visits, most = states.visits, max(FEWEST_STATES, n_pieces // PIECES_PER_STATE)
    complete = bool(np.linalg.matrix_rank(base[visits > 0]) >= (visits > 0).sum())
    often = np.argsort(-visits, kind="stable")[: 0 if complete else most]
    often = often[visits[often] >= SEEN]
    pairs = states.pairs[np.argsort(-states.pairs[:, 2], kind="stable")][: min(most // 2, MOST_PAIRS)]
    pairs = pairs[pairs[:, 2] >= 2 * SEEN]
    k, p = len(often), len(pairs)
    of_state = np.c_[base, np.eye(S)[:, often], np.zeros((S, p))]
    of_pair = of_state[pairs[:, 1]]
    of_pair[np.arange(p), d + k + np.arange(p)] = 1.0
    rungs, checkers = fits_of_states(np.arange(d), k, p)
    return StateWide(
        rungs, checkers, (GIVEN,), complete, False, table=np.r_[of_state, of_pair], states=states.values, pairs=pairs
    )
