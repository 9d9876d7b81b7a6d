"""Values of actions of discrete states in parts: rows are states with an action, or with the target's expectation."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.core.stream import episode_begins
from gradtd.evaluation.actions.choices import map_of_codes, without_never
from gradtd.evaluation.parts.cell_table import CellWide
from gradtd.evaluation.parts.pairs import Chooser
from gradtd.evaluation.trust.records import Wide
from gradtd.features import Features
from gradtd.features.actions import row_products
from gradtd.logs import Log


@dataclass(frozen=True, eq=False)
class PairCells(CellWide):
    """A sparse table with rows for every row of ``inner``: with each action, then with what the target expects.

    Parameters
    ----------
    inner
        The table of states.
    chooser
        What the target would do.
    chances
        The target's probabilities of every action, by state.
    """

    inner: Any = None
    chooser: Any = None
    chances: Any = None

    @property
    def kinds(self) -> int:
        """Rows for each of ``inner``."""
        return int(self.chances.shape[1]) + 1

    def of(self, log: Log) -> Wide:
        """The same with the rows of the steps of a log."""
        at, A = self.inner.of(log), self.kinds - 1
        if log.action is None or not log.discrete_actions or log.action_labels is not None or log.action.max() >= A:
            raise InputError(f"actions of a log that is read in parts must be numbered 0 to {A - 1} throughout.")
        row = at.row * self.kinds + log.action
        after = np.where(log.terminated, row, at.next_row * self.kinds + A)
        starts = at.row[episode_begins(log.episode)[:-1]] * self.kinds + A
        return replace(self, row=row, next_row=after, starts=starts)

    def weights(self, rung: str, theta: Floats, features: Features) -> tuple[Floats, Features, tuple[str, ...]]:
        return theta, self.chooser.features(features), ()

    @property
    def state(self) -> Any:
        """The state of every row of ``inner``."""
        return np.r_[np.arange(len(self.states)), self.pairs[:, 1]]

    def never(self, visited: Any) -> Any:
        """Which actions were never taken in which state; ``visited`` says it of rows."""
        taken = np.zeros(self.chances.shape, bool)
        np.logical_or.at(taken, self.state, np.asarray(visited).reshape(-1, self.kinds)[:, :-1])
        return ~taken

    def without(self, never: Any) -> PairCells:
        """The table for a target that makes none of these choices."""
        return replace(self, table=_table(self.inner, self.chooser, without_never(self.chances, never)))


def pair_cells(inner: CellWide, chooser: Chooser) -> PairCells:
    """The checks of states, for pairs: every set of columns times every feature of an action."""
    chances = np.zeros((len(inner.states), chooser.n_actions))
    found = chooser.of_states(inner.states)
    chances[:, : found.shape[1]] = found
    K = chooser.width

    def of_pairs(columns: Any) -> Any:
        return (columns[:, None] * K + np.arange(K)).ravel()

    sets = ({name: of_pairs(columns) for name, columns in some.items()} for some in (inner.rungs, inner.checkers))
    rungs, checkers = sets
    told = {f.name: getattr(inner, f.name) for f in fields(CellWide)}
    told |= {"rungs": rungs, "checkers": checkers, "table": _table(inner, chooser, chances)}
    return PairCells(**told, inner=inner, chooser=chooser, chances=chances)


def _table(inner: CellWide, chooser: Chooser, chances: Floats) -> Any:
    chi = map_of_codes(chooser.of_action, chooser.n_actions)[2]
    table, A = inner.table, chooser.n_actions
    state = np.r_[np.arange(len(inner.states)), inner.pairs[:, 1]]
    mix = np.concatenate([np.tile(chi, (len(state), 1, 1)), (chances @ chi)[state][:, None]], axis=1)
    at = np.repeat(np.arange(len(state)), A + 1)
    return row_products(table[at], mix.reshape(-1, mix.shape[2]))
