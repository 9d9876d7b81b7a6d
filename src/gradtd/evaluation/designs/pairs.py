"""Rows for action values: the action taken, the target's expectation after each step and at starts.

A row combines a place (a row of the design of observations) with a mixture of actions; its features are their products.
If states are discrete and the log is read in parts, all rows are known beforehand, and the table is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats, Integers, dense
from gradtd.core.checks import InputError
from gradtd.core.stream import episode_begins
from gradtd.evaluation.designs.base import GIVEN, Ladder, Rows, Writer
from gradtd.evaluation.designs.choices import Choices, Chooser, RealTarget, as_columns, map_of_codes, without_never
from gradtd.evaluation.designs.real import RealDesign
from gradtd.evaluation.designs.states import StateDesign
from gradtd.features.actions import PairFunction, row_products
from gradtd.logs import Log

STORED = 4e6
"""Maximum size of a stored table, for few recurring rows."""


@dataclass(frozen=True, eq=False)
class PairRows:
    """Rows (a place and a mixture of actions each), and the indices of the rows of steps and pieces."""

    at: Integers
    mix: Floats
    row: Integers
    next_row: Integers
    starts: Integers

    def table(self, of_place: Any) -> Any:
        """The features of all rows, computed from the features of the places."""
        return row_products(of_place[self.at], self.mix)


def lay_out(choices: Choices, log: Log, taken_at: Any, after_at: Any, first_at: Any) -> PairRows:
    """Make one row per step, per next observation and per start. If few rows are distinct, each is stored once."""
    after_at = np.where(log.terminated, taken_at, after_at).astype(np.int64)
    at = np.concatenate([np.asarray(taken_at, np.int64), after_at, np.asarray(first_at, np.int64)])
    mix = np.concatenate([choices.taken, choices.after, choices.first])
    n = len(log)
    if not choices.by_state or choices.codes is None:
        return PairRows(at, mix, np.arange(n), n + np.arange(n), np.arange(2 * n, len(at)))
    kinds = choices.n_actions + 1  # every action, and the target's expectation
    chosen = np.concatenate([choices.codes, np.full(len(at) - n, choices.n_actions)])
    chosen[n : 2 * n][log.terminated] = choices.codes[log.terminated]
    mix[n : 2 * n][log.terminated] = choices.taken[log.terminated]
    # With few states and actions pairs recur, and their features are computed once.
    kind, first, index = np.unique(at * kinds + chosen, return_index=True, return_inverse=True)
    return PairRows(kind // kinds, mix[first], index[:n], index[n : 2 * n], index[2 * n :])


def function_table(
    function: PairFunction, laid: PairRows, choices: Choices, log: Log, observations: Any, target: RealTarget | None
) -> Any:
    """The features of all rows, computed by a function of pairs. Expectations are sums over actions or means of
    samples."""
    if choices.n_actions:
        table: Any = 0.0
        for a in range(choices.n_actions):
            some = np.flatnonzero(laid.mix[:, a] > 0)
            if len(some):
                made = dense(function.transform(observations[laid.at[some]], np.full(len(some), a)))
                table = np.zeros((len(laid.at), made.shape[1])) if isinstance(table, float) else table
                table[some] += laid.mix[some, a][:, None] * made
        return table
    assert target is not None
    assert log.action is not None
    n = len(log)
    taken = dense(function.transform(observations[laid.at[:n]], log.action))
    table = np.zeros((len(laid.at), taken.shape[1]))
    table[:n] = taken
    goes_on = n + np.flatnonzero(~log.terminated)
    for rows in (goes_on, np.arange(2 * n, len(laid.at))):
        for part, chosen, weight in target.about(observations, laid.at[rows]):
            acted = chosen if as_columns(log.action).shape == np.shape(log.action) else chosen[:, 0]
            table[rows[part]] += weight * dense(function.transform(observations[laid.at[rows[part]]], acted))
    return table


def pair_ladder(inner: Ladder, K: int, given: int = 0) -> Ladder:
    """The fits of observations, extended to pairs: every column times each of K action features.

    Columns of a function of pairs, ``given`` by the user, come first.
    """

    def of_pairs(columns: Integers) -> Integers:
        return np.asarray(given + (columns[:, None] * K + np.arange(K)).ravel())

    rungs = {name: of_pairs(columns) for name, columns in inner.rungs.items()}
    checkers = {name: of_pairs(columns) for name, columns in inner.checkers.items()}
    if not given:
        return Ladder(rungs, checkers, inner.headlines, inner.complete, inner.endless)
    renamed = {name.replace(GIVEN, "a feature per pair"): columns for name, columns in rungs.items()}
    return Ladder({GIVEN: np.arange(given)} | renamed, checkers, (GIVEN,), False, inner.endless)


def pair_rows(inner: Rows, laid: PairRows, n_columns: int, given: Any = None) -> Rows:
    """Rows computed on demand: those of ``inner`` times mixtures, after the columns ``given``."""

    def make_writer(columns: int) -> Writer:
        write_inner = inner.writer()

        def write(index: Any, out: Floats) -> None:
            at, mix = laid.at[index], laid.mix[index]
            if write_inner is None:
                wide = inner.table[at]
            else:
                wide = np.empty((len(at), inner.n_columns))
                write_inner(at, wide)
            d = 0
            if given is not None:
                d = min(given.shape[1], columns)
                out[:, :d] = given[index, :d]
            out[:, d:] = row_products(wide, mix)[:, : columns - d]

        return write

    return Rows(laid.row, laid.next_row, len(laid.at), n_columns, make_writer=make_writer, starts=laid.starts)


@dataclass(frozen=True, eq=False)
class PairDesign:
    """Rows of pairs for a log that is read in parts, over continuous observations."""

    ladder: Ladder  # the fits
    inner: RealDesign  # the design of observations
    choose: Callable[[Log], Choices]  # the actions taken and the target's expectations in a chunk

    def rows(self, log: Log, pieces: Integers | None = None) -> Rows:
        inner, first = self.inner.rows(log, pieces), episode_begins(log.episode)[:-1]
        choices = self.choose(log)
        laid = lay_out(choices, log, inner.row, inner.next_row, inner.row[first])
        return replace(pair_rows(inner, laid, self.ladder.n_columns), choices=choices)


@dataclass(frozen=True, eq=False)
class StoredPairs:
    """Rows of pairs for a log in memory, computed once."""

    ladder: Ladder
    inner: Any
    made: Rows

    def rows(self, log: Log, pieces: Integers | None = None) -> Rows:
        return self.made


def store_pairs(inner: Any, inner_rows: Rows, laid: PairRows, given: Any = None) -> StoredPairs:
    """The design of (observation, action) pairs, made from a design of observations. Its table is stored if it is small
    or sparse.

    ``given`` contains features of pairs from the user's function, one row for each row of ``laid``.
    """
    ladder = pair_ladder(inner.ladder, laid.mix.shape[1], 0 if given is None else given.shape[1])
    if inner_rows.sparse:
        return _of_cells(inner, ladder, inner_rows, laid, given)
    rows = pair_rows(inner_rows, laid, ladder.n_columns, given)
    if rows.n_rows * rows.n_columns <= STORED:
        table = rows.at(np.arange(rows.n_rows))
        rows = Rows.stored(laid.row, laid.next_row, table, laid.starts)
    return StoredPairs(ladder, inner, rows)


def _of_cells(inner: Any, ladder: Ladder, inner_rows: Rows, laid: PairRows, given: Any) -> StoredPairs:
    """The sparse table without the columns that do not occur in the log."""
    from scipy.sparse import csr_array, hstack

    table: Any = laid.table(inner_rows.table)
    if given is not None:
        table = hstack((csr_array(given), table), format="csr")
    met = np.unique(table[np.unique(laid.row)].indices)
    place = np.full(table.shape[1], -1)
    place[met] = np.arange(len(met))

    def left(columns: Integers) -> Integers:
        return np.asarray(place[columns][place[columns] >= 0])

    rungs, checkers = ({name: left(c) for name, c in some.items()} for some in (ladder.rungs, ladder.checkers))
    fewer = Ladder(rungs, checkers, ladder.headlines, ladder.complete, ladder.endless)
    kept = table[:, met].tocsr()
    return StoredPairs(fewer, inner, Rows.stored(laid.row, laid.next_row, kept, laid.starts))


@dataclass(frozen=True, eq=False)
class PairStateDesign:
    """A sparse table with several rows for every row of ``inner``: one per action, then the target's expectation."""

    ladder: Ladder  # the fits
    inner: StateDesign  # the design of states
    chooser: Chooser  # the target's choices
    chances: Floats  # the target's probabilities of every action, by state
    table: Any  # the rows

    @property
    def kinds(self) -> int:
        """Number of rows for each row of ``inner``: one per action, and the expectation."""
        return int(self.chances.shape[1]) + 1

    def rows(self, log: Log, pieces: Integers | None = None) -> Rows:
        at, A = self.inner.rows(log, pieces), self.kinds - 1
        if log.action is None or not log.discrete_actions or log.action_labels is not None or log.action.max() >= A:
            raise InputError(f"actions of a log that is read in parts must be numbered 0 to {A - 1} throughout.")
        row = at.row * self.kinds + log.action
        after = np.where(log.terminated, row, at.next_row * self.kinds + A)
        starts = at.row[episode_begins(log.episode)[:-1]] * self.kinds + A
        return Rows.stored(row, after, self.table, starts)

    def never(self, visits: Any) -> Any:
        """The actions never taken in each state. ``visits`` counts the steps from every row."""
        taken = np.zeros(self.chances.shape, bool)
        by_action = np.asarray(visits).reshape(-1, self.kinds)[:, :-1] > 0
        np.logical_or.at(taken, self.inner.state_of_row, by_action)
        return ~taken

    def without(self, never: Any) -> Any:
        """The table for a target that never takes the actions of the mask."""
        return _table(self.inner, self.chooser, without_never(self.chances, never))


def pair_state_design(inner: StateDesign, chooser: Chooser) -> PairStateDesign:
    """The fits of states, extended to pairs: every set of columns times every action feature."""
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
