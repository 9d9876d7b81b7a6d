"""Rows for discrete observations: one per state, and one per frequent pair of consecutive states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Integers
from gradtd.core.checks import InputError
from gradtd.core.stream import begins_episode
from gradtd.evaluation.designs.base import GIVEN, Ladder, Rows
from gradtd.evaluation.limits import DEFAULT, Limits
from gradtd.logs import Log

GROUPED = "the {} most frequent states, and one for the others"
"""The name of a rung on which rare states share a feature."""
MOST_DENSE_PAIRS = 500
"""Maximum number of pairs of states with a column in a dense table, whose sums grow with the square of the columns."""
MOST_STATES, MOST_PAIRS = 1_000_000, 10_000_000
"""Maximum number of states and of consecutive pairs, which are kept in memory."""


class States(NamedTuple):
    """The sorted states of a log, and the number of steps from each.

    ``pairs`` are rows (before, state, steps) by number, sorted; before the first step of an episode, ``before`` is the
    number of states. ``observed`` counts observations, including final ones.
    """

    values: Any
    visits: Integers
    pairs: Integers
    observed: Integers


def states_of(log: Log, pieces: Integers | None = None) -> States:
    """The states of a log or of a chunk of one; ``pieces`` numbers the blocks, if episodes are cut into blocks."""
    values, state = np.unique(np.ravel(log.observations), return_inverse=True)
    now, S = state[log.row], len(values)
    kinds, count = np.unique(_before(now, log.episode if pieces is None else pieces, S) * S + now, return_counts=True)
    observed = np.bincount(state, minlength=S)
    return States(values, np.bincount(now, minlength=S), np.c_[kinds // S, kinds % S, count], observed)


def merge_states(parts: Sequence[States]) -> States:
    """Merge the states of several parts of a log."""
    values = np.unique(np.concatenate([one.values for one in parts]))
    S = len(values)
    visits, observed = np.zeros(S, np.int64), np.zeros(S, np.int64)
    keys, counts = [], []
    for one in parts:
        at = np.append(np.searchsorted(values, one.values), S)
        visits[at[:-1]] += one.visits
        observed[at[:-1]] += one.observed
        keys.append(at[one.pairs[:, 0]] * S + at[one.pairs[:, 1]])
        counts.append(one.pairs[:, 2])
    key, place = np.unique(np.concatenate(keys), return_inverse=True)
    if S > MOST_STATES or len(key) > MOST_PAIRS:
        raise InputError(
            f"A log that is read in parts has at most {MOST_STATES} states, and at most {MOST_PAIRS} pairs of "
            f"consecutive states. This one has {S} and {len(key)}, or more. Merge states."
        )
    count = np.zeros(len(key), np.int64)
    np.add.at(count, place, np.concatenate(counts))
    return States(values, visits, np.c_[key // S, key % S, count], observed)


def _before(now: Integers, episode: Integers, states: int) -> Integers:
    """The state before every step. For the first step of an episode, this is the number of states."""
    return np.where(begins_episode(episode), states, np.r_[0, now[:-1]])


@dataclass(frozen=True, eq=False)
class StateDesign:
    """A design with a stored table: a row for each state, then one for each pair (before, state) in ``pairs``."""

    ladder: Ladder  # the fits
    table: Any  # the rows; sparse if features are cells
    states: Any  # the states, sorted
    pairs: Integers  # the pairs of states that have a row

    def rows(self, log: Log, pieces: Integers | None = None) -> Rows:
        """The rows of a chunk. Refuses a state that the design does not know."""
        seen, S = np.ravel(log.observations), len(self.states)
        state = np.searchsorted(self.states, seen).clip(max=S - 1)
        unknown = np.flatnonzero(self.states[state] != seen)
        if len(unknown):
            raise InputError(
                f"State {seen[unknown[0]]} was not in the log when features were fitted and their sums saved. Give a "
                "new folder, so that gradtd fits features to all states."
            )
        now, after = state[log.row], state[log.next_row]
        before = _before(now, log.episode if pieces is None else pieces, S)
        row, next_row = self._place(before, now), self._place(now, after)
        return Rows.stored(row, next_row, self.table, cell=self.state_of_row)

    def _place(self, before: Integers, now: Integers) -> Integers:
        """The rows of pairs of states. A pair without its own row uses the row of its second state."""
        keys, order = self._keys
        if not len(keys):
            return now
        key = before * len(self.states) + now
        at = np.searchsorted(keys, key).clip(max=len(keys) - 1)
        return np.where(keys[at] == key, len(self.states) + order[at], now)

    @cached_property
    def _keys(self) -> tuple[Integers, Integers]:
        """The sorted pairs, and their rows in the table."""
        key = self.pairs[:, 0] * len(self.states) + self.pairs[:, 1]
        order = np.argsort(key)
        return key[order], order

    @property
    def state_of_row(self) -> Integers:
        """The state of every row of the table."""
        return np.asarray(np.r_[np.arange(len(self.states)), self.pairs[:, 1]])


def state_design(
    states: States, base: Any, n_pieces: int, chosen: bool = False, limits: Limits = DEFAULT
) -> StateDesign:
    """The user's features, then one per frequent state, then one per consecutive pair of states.

    If gradtd chooses one feature per state (``chosen``) and there are many states, there are also rungs on which only
    the most frequent states have a separate feature. ``base`` has the features, one row for each state.
    """
    from scipy.sparse import csr_array, hstack, vstack

    cells = are_cells(base)
    if chosen:
        S = len(states.values)
        base = columns_of(S, np.arange(S)) if cells else np.eye(S)
    base = base if cells or isinstance(base, np.ndarray) else base.toarray()
    S, d = base.shape
    visits, most = states.visits, max(limits.fewest_states, n_pieces // limits.pieces_per_state)
    met = base[np.flatnonzero(visits)]
    complete = bool((len(np.unique(met.indices)) if cells else np.linalg.matrix_rank(met)) >= (visits > 0).sum())
    often = np.argsort(-visits, kind="stable")[: 0 if complete else most]
    # A rarely visited state would add an equation with very few steps.
    often = often[visits[often] >= limits.fewest_visits]
    most_pairs = most // 2 if cells else min(most // 2, MOST_DENSE_PAIRS)
    pairs = states.pairs[np.argsort(-states.pairs[:, 2], kind="stable")][:most_pairs]
    pairs = pairs[pairs[:, 2] >= 2 * limits.fewest_visits]
    groups = grouped_rungs(visits, most, limits) if chosen else {}
    k, p, e = len(often), len(pairs), int(bool(groups))  # the shared column comes first
    of_state: Any
    if cells:
        of_state = hstack((csr_array(np.ones((S, e))), base, columns_of(S, often)), format="csr")
        rows = vstack((of_state, of_state[pairs[:, 1]]), format="csr")
        table = hstack((rows, columns_of(S + p, S + np.arange(p))), format="csr")
    else:
        of_state = np.c_[np.ones((S, e)), base, np.eye(S)[:, often]]
        table = np.c_[np.r_[of_state, of_state[pairs[:, 1]]], np.r_[np.zeros((S, p)), np.eye(p)]]
    fewer = tuple(groups)[:0:-1]
    too_many = fewer and visits.sum() < limits.fewest_steps_per_feature * (visits > 0).sum()
    headlines = fewer if too_many else (GIVEN, *fewer)
    rungs, checkers = _sets_of_states(e + np.arange(d), k, p)
    return StateDesign(Ladder(groups | rungs, checkers, headlines, complete, False), table, states.values, pairs[:, :2])


def _sets_of_states(given: Integers, k: int, p: int) -> tuple[dict[str, Integers], dict[str, Integers]]:
    """The columns of rungs and checkers: those ``given``, then k states, then p pairs."""
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


def grouped_rungs(visits: Integers, most: int, limits: Limits) -> dict[str, Integers]:
    """The shared first column and the columns of the most frequent states, by rung. Empty if there are few states."""
    S = len(visits)
    made: dict[str, Integers] = {}
    often = np.argsort(-visits, kind="stable")
    size = S // 2
    while most < S and size >= limits.fewest_grouped_states and len(made) < limits.most_grouped_rungs:
        if visits[often[size - 1]] >= limits.fewest_visits:
            made[GROUPED.format(size)] = np.r_[0, 1 + often[:size]]
        size //= 2
    return dict(reversed(made.items()))


def are_cells(table: Any) -> bool:
    """Whether a table is sparse and has at most one entry per row."""
    return not isinstance(table, np.ndarray) and bool((np.diff(table.indptr) <= 1).all())


def columns_of(n_rows: int, rows: Integers) -> Any:
    """A sparse table with ``n_rows`` rows and one column for each of ``rows``, which has a 1 in that row and 0
    elsewhere."""
    from scipy.sparse import csr_array

    at = (rows, np.arange(len(rows)))
    return csr_array((np.ones(len(rows)), at), shape=(n_rows, len(rows)))
