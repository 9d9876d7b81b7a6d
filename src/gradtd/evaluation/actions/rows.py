"""The rows of features that a log of pairs needs: taken, expected after each step, expected at the start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.evaluation.actions.choices import Asked, Choices, as_columns
from gradtd.evaluation.trust.records import Wide
from gradtd.features.actions import PairFunction, row_products
from gradtd.logs import Log

STORED = 4e6
"""Numbers up to which the widest table is kept, where there are few rows that come again and again."""


@dataclass(frozen=True, eq=False)
class Laid:
    """Rows, each a place (of an observation) and a mixture of actions; which of them steps and pieces need."""

    at: Integers
    mix: Floats
    row: Integers
    next_row: Integers
    starts: Integers

    def table(self, of_place: Any) -> Any:
        """Features of all rows, from those of the places."""
        return row_products(of_place[self.at], self.mix)


def lay_out(choices: Choices, log: Log, taken_at: Any, after_at: Any, first_at: Any) -> Laid:
    """One row for each step, for what follows it, and for each start; every row once where there are few of them."""
    after_at = np.where(log.terminated, taken_at, after_at).astype(np.int64)
    at = np.concatenate([np.asarray(taken_at, np.int64), after_at, np.asarray(first_at, np.int64)])
    mix = np.concatenate([choices.taken, choices.after, choices.first])
    n = len(log)
    if not choices.by_state or choices.codes is None:
        return Laid(at, mix, np.arange(n), n + np.arange(n), np.arange(2 * n, len(at)))
    kinds = choices.n_actions + 1  # every action, and the target's expectation
    chosen = np.concatenate([choices.codes, np.full(len(at) - n, choices.n_actions)])
    chosen[n : 2 * n][log.terminated] = choices.codes[log.terminated]
    mix[n : 2 * n][log.terminated] = choices.taken[log.terminated]
    kind, first, index = np.unique(at * kinds + chosen, return_index=True, return_inverse=True)
    return Laid(kind // kinds, mix[first], index[:n], index[n : 2 * n], index[2 * n :])


def pair_table(
    function: PairFunction, laid: Laid, choices: Choices, log: Log, observations: Any, ask: Asked | None
) -> Any:
    """Features by a function of pairs for all rows; expectations are sums over actions, or means of samples."""
    if choices.n_actions:
        table: Any = 0.0
        for a in range(choices.n_actions):
            some = np.flatnonzero(laid.mix[:, a] > 0)
            if len(some):
                found = _dense(function.transform(observations[laid.at[some]], np.full(len(some), a)))
                table = np.zeros((len(laid.at), found.shape[1])) if isinstance(table, float) else table
                table[some] += laid.mix[some, a][:, None] * found
        return table
    assert ask is not None
    assert log.action is not None
    n = len(log)
    taken = _dense(function.transform(observations[laid.at[:n]], log.action))
    table = np.zeros((len(laid.at), taken.shape[1]))
    table[:n] = taken
    goes_on = n + np.flatnonzero(~log.terminated)
    for rows in (goes_on, np.arange(2 * n, len(laid.at))):
        for part, chosen, weight in ask.about(observations, laid.at[rows]):
            acted = chosen if as_columns(log.action).shape == np.shape(log.action) else chosen[:, 0]
            table[rows[part]] += weight * _dense(function.transform(observations[laid.at[rows[part]]], acted))
    return table


def _dense(table: Any) -> Floats:
    return table if isinstance(table, np.ndarray) else np.asarray(table.toarray())


@dataclass(frozen=True, eq=False)
class PairWide(Wide):
    """The widest table of the checks, times features of actions: rows of ``inner`` times mixtures.

    ``given`` are features of pairs that a function gave, whose columns come first. ``unseen`` and ``outside`` are those
    of the choices, where the rows are a part of a log.
    """

    inner: Wide | None = None
    laid: Laid | None = None
    given: Any = None
    unseen: float | None = None
    outside: float | None = None

    @property
    def n_rows(self) -> int:
        assert self.laid is not None
        return len(self.laid.at)

    def maker(self) -> Callable[[Any, Floats], None]:
        inner, laid, given = self.inner, self.laid, self.given
        assert inner is not None
        assert laid is not None
        make = None if inner.table is not None else inner.maker()

        def write(index: Any, out: Floats) -> None:
            at, mix = laid.at[index], laid.mix[index]
            if inner.table is not None:
                wide = inner.table[at]
            else:
                assert make is not None
                wide = np.empty((len(at), inner.n_columns))
                make(at, wide)
            d = 0
            if given is not None:
                d = given.shape[1]
                out[:, :d] = given[index]
            out[:, d:] = row_products(wide, mix)

        return write


def pair_wide(inner: Wide, laid: Laid, given: Any = None) -> PairWide:
    """The checks of observations, for pairs: every set of columns times every feature of an action."""
    K, d = laid.mix.shape[1], 0 if given is None else given.shape[1]

    def of_pairs(columns: Integers) -> Integers:
        return np.asarray(d + (columns[:, None] * K + np.arange(K)).ravel())

    rungs = {name: of_pairs(columns) for name, columns in inner.rungs.items()}
    checkers = {name: of_pairs(columns) for name, columns in inner.checkers.items()}
    headlines, complete = inner.headlines, inner.complete
    if given is not None:
        rungs = {"the features given": np.arange(d)} | {
            name.replace("the features given", "a feature per pair"): columns for name, columns in rungs.items()
        }
        headlines, complete = ("the features given",), False
    made = PairWide(
        rungs,
        checkers,
        headlines,
        complete,
        inner.endless,
        row=laid.row,
        next_row=laid.next_row,
        starts=laid.starts,
        inner=inner,
        laid=laid,
        given=given,
    )
    if inner.sparse:
        return _of_cells(made, given)
    if made.n_rows * made.n_columns > STORED:
        return made
    table = np.empty((made.n_rows, made.n_columns))
    made.maker()(np.arange(made.n_rows), table)
    return replace(made, table=table)


def _of_cells(made: PairWide, given: Any) -> PairWide:
    """The table stored sparsely, without the columns that no pair of the log has."""
    from scipy.sparse import csr_array, hstack

    assert made.inner is not None
    assert made.laid is not None
    table: Any = made.laid.table(made.inner.table)
    if given is not None:
        table = hstack((csr_array(given), table), format="csr")
    met = np.unique(table[np.unique(made.laid.row)].indices)
    place = np.full(table.shape[1], -1)
    place[met] = np.arange(len(met))

    def left(columns: Integers) -> Integers:
        return np.asarray(place[columns][place[columns] >= 0])

    rungs = {name: left(columns) for name, columns in made.rungs.items()}
    checkers = {name: left(columns) for name, columns in made.checkers.items()}
    return replace(made, rungs=rungs, checkers=checkers, table=table[:, met].tocsr())
