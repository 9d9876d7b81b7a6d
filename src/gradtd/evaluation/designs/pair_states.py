"""Rows for values of actions of discrete states in parts: states with an action, or with the target's expectation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.core.stream import episode_begins
from gradtd.evaluation.designs.base import Ladder, Rows
from gradtd.evaluation.designs.choices import map_of_codes, without_never
from gradtd.evaluation.designs.chooser import Chooser
from gradtd.evaluation.designs.pairs import pair_ladder
from gradtd.evaluation.designs.states import StateDesign
from gradtd.features.actions import row_products
from gradtd.logs import Log


@dataclass(frozen=True, eq=False)
class PairStateDesign:
    """A sparse table with rows for every row of ``inner``: with each action, then with what the target expects.

    Parameters
    ----------
    ladder
        The fits.
    inner
        The design of states.
    chooser
        What the target would do.
    chances
        The target's probabilities of every action, by state.
    table
        The rows.
    """

    ladder: Ladder
    inner: StateDesign
    chooser: Chooser
    chances: Floats
    table: Any

    @property
    def kinds(self) -> int:
        """Rows for each of ``inner``: every action, and the expectation."""
        return int(self.chances.shape[1]) + 1

    def rows(self, log: Log) -> Rows:
        at, A = self.inner.rows(log), self.kinds - 1
        if log.action is None or not log.discrete_actions or log.action_labels is not None or log.action.max() >= A:
            raise InputError(f"actions of a log that is read in parts must be numbered 0 to {A - 1} throughout.")
        row = at.row * self.kinds + log.action
        after = np.where(log.terminated, row, at.next_row * self.kinds + A)
        starts = at.row[episode_begins(log.episode)[:-1]] * self.kinds + A
        return Rows.stored(row, after, self.table, starts)

    def never(self, visits: Any) -> Any:
        """Which actions were never taken in which state; ``visits`` counts the steps from every row."""
        taken = np.zeros(self.chances.shape, bool)
        by_action = np.asarray(visits).reshape(-1, self.kinds)[:, :-1] > 0
        np.logical_or.at(taken, self.inner.state_of_row, by_action)
        return ~taken

    def without(self, never: Any) -> Any:
        """The table for a target that makes none of these choices."""
        return _table(self.inner, self.chooser, without_never(self.chances, never))


def pair_state_design(inner: StateDesign, chooser: Chooser) -> PairStateDesign:
    """The fits of states, for pairs: every set of columns times every feature of an action."""
    chances = np.zeros((len(inner.states), chooser.n_actions))
    made = chooser.of_states(inner.states)
    chances[:, : made.shape[1]] = made
    ladder = pair_ladder(inner.ladder, chooser.width)
    return PairStateDesign(ladder, inner, chooser, chances, _table(inner, chooser, chances))


def _table(inner: StateDesign, chooser: Chooser, chances: Floats) -> Any:
    chi = map_of_codes(chooser.of_action, chooser.n_actions)[2]
    state = inner.state_of_row
    mix = np.concatenate([np.tile(chi, (len(state), 1, 1)), (chances @ chi)[state][:, None]], axis=1)
    at = np.repeat(np.arange(len(state)), chooser.n_actions + 1)
    return row_products(inner.table[at], mix.reshape(-1, mix.shape[2]))
