"""Checks whether observations are Markov states, with fits that have the past as extra features.

If the observation is a Markov state, the past does not predict TD errors, and a fit with columns of the past gives the
same value. If observations hide something, that fit gives a different value, closer to the truth. Like LSTD, it uses
one ratio per step, so it is precise even if products of ratios over an episode are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gradtd.compiled import engine
from gradtd.core.arrays import Floats, Integers
from gradtd.evaluation.designs.base import CHUNK, Ladder, Steps, Writer, rows_of_chunk
from gradtd.evaluation.fits import Equations, Fit, Solution, columns_as_slice, solve
from gradtd.evaluation.moments import group_edges

MOST_NUMBERS = 12_000_000
"""Maximum size of the table for these fits. From a longer log, only the first episodes are used."""
MOST_KNOWN = 48_000_000
"""Maximum size of the table if the sums of the features are known, so that a step takes less time."""
MOST_COLUMNS = 800
"""Maximum number of feature columns for this check."""
MOST_BEFORE = 7
"""Number of leading features of the previous observation that are used."""
DECAY = 0.7
"""Decay per step of the means over the past."""


class Remembered(NamedTuple):
    """Two fits to the same steps: with the features alone, and with the past."""

    plain: Fit
    past: Fit


class _Block(NamedTuple):
    """Consecutive pieces in one tenth of the log.

    ``rows`` contains rows of features, sparse if states have one feature each; ``here``, ``there`` and ``starts`` are
    the rows of steps, of next observations and of starts. ``now`` and ``then`` contain columns of the past, before and
    after every step.
    """

    tenth: int
    rows: Any
    here: Integers
    there: Integers
    starts: Integers
    now: Floats
    then: Floats
    rho: Floats
    reward: Floats
    discount: Floats
    begins: Integers


def most_steps(ladder: Ladder) -> int:
    """The maximum number of steps to which the fits with the past are made."""
    return max(1, MOST_NUMBERS // ladder.n_headline_columns)


class Known(NamedTuple):
    """Results that other fits to the same steps computed: sums of all features by tenth, and fits of the features
    alone."""

    sums: Equations
    plain: Mapping[str, Fit]


def fits_with_past(steps: Steps, ladder: Ladder, known: Known | None = None) -> dict[str, Remembered]:
    """Fit every headline with and without features of the past. Empty if all episodes have one step or traces were
    requested."""
    names, columns = _columns(ladder)
    if steps.traced is not None or int(np.diff(steps.begins).max()) < 2 or not names:
        return {}
    d, edges = len(columns), group_edges(steps.n_pieces)
    D = d + 7 + min(d, MOST_BEFORE)
    sums = _sums_of(known, columns, edges, D)
    for block in _blocks(steps, columns, edges):
        _add(sums, block, known is None)
    past = np.arange(d, D)
    own = {name: np.searchsorted(columns, ladder.rungs[name]) for name in names}
    ways = (None, past) if known is None else (past,)
    solved = [solve(name, sums, at, more) for name, at in own.items() for more in ways]
    at = [own[s.name] if len(s.theta) == len(own[s.name]) else np.r_[own[s.name], past] for s in solved]
    theta, left = np.zeros((2, D, len(solved)))
    for j, s in enumerate(solved):
        theta[at[j], j], left[at[j], j] = s.theta, s.left
    start, pull = [], []
    k, weights = len(solved), np.concatenate([theta, left], axis=1)
    for block in _blocks(steps, columns, edges):
        of_row = np.asarray(block.rows @ weights[:d])  # the value of a row, computed once for all its steps
        now = of_row[block.here] + block.now @ weights[d:]
        then = of_row[block.there, :k] + block.then @ theta[d:]
        delta = block.reward[:, None] + block.discount[:, None] * then - now[:, :k]
        pull.append(np.add.reduceat(delta * (block.rho[:, None] * now[:, k:]), block.begins[:-1]))
        start.append(of_row[block.starts, :k])
    starts, pulls = np.concatenate(start), np.concatenate(pull)
    fits = [_fit(s, starts[:, j], pulls[:, j]) for j, s in enumerate(solved)]
    if known is not None:
        return {name: Remembered(known.plain[name], fit) for name, fit in zip(names, fits, strict=True)}
    return {name: Remembered(fits[2 * k], fits[2 * k + 1]) for k, name in enumerate(names)}


def _sums_of(known: Known | None, columns: Integers, edges: Integers, D: int) -> Equations:
    """Sums of D columns by tenth. They are 0, except the sums of the features if those are known."""
    G, d = len(edges) - 1, len(columns)
    sizes = ((G, D, D), (G, D), (D, D), (G, D))
    A, b, C, starts = map(np.zeros, sizes)
    if known is not None:
        of_all, own = known.sums, columns_as_slice(columns)
        A[:, :d, :d], b[:, :d] = of_all.A[:, own][:, :, own], of_all.b[:, own]
        C[:d, :d], starts[:, :d] = of_all.C[own][:, own], of_all.starts[:, own]
    return Equations(A, b, C, starts, np.diff(edges).astype(np.float64), np.zeros(D))


def _columns(ladder: Ladder) -> tuple[list[str], Integers]:
    """The names of the headlines with few enough columns, the smallest first, and the columns that they use."""
    names: list[str] = []
    columns = np.zeros(0, np.int64)
    for name in sorted(ladder.headlines, key=lambda name: len(ladder.rungs[name])):
        more = np.union1d(columns, ladder.rungs[name])
        if len(more) <= MOST_COLUMNS:
            names, columns = [*names, name], more
    return names, columns


def _fit(solution: Solution, start: Floats, pull: Floats) -> Fit:
    psi = start - solution.value - len(start) * pull
    return Fit(solution.name, solution.value, psi, solution.bias, solution.rank)


def _add(sums: Equations, block: _Block, features_too: bool) -> None:
    """Add the steps of a block: the past's contribution to A, b and C of its tenth, and the features' own sums if
    requested.

    Sums by row come first, so that the time per step depends only on the number of columns of the past.
    """
    g, rows, d = block.tenth, block.rows, block.rows.shape[1]
    here, there = (_picks(at, rows.shape[0]) for at in (block.here, block.there))
    rho, discount = block.rho[:, None], block.discount[:, None]
    y, z = discount * block.then - block.now, rho * block.now
    sums.A[g, :d, d:] += rows.T @ (here.T @ (rho * y))
    sums.A[g, d:, :d] += (rows.T @ (there.T @ (discount * z) - here.T @ z)).T
    sums.A[g, d:, d:] += z.T @ y
    sums.b[g, d:] += z.T @ block.reward
    sums.C[:d, d:] += rows.T @ (here.T @ block.now)
    sums.C[d:, :d] = sums.C[:d, d:].T
    sums.C[d:, d:] += block.now.T @ block.now
    if not features_too:
        return
    sums.starts[g, :d] += np.asarray(rows[block.starts].sum(axis=0)).ravel()
    sums.b[g, :d] += rows.T @ (here.T @ (block.rho * block.reward))
    if isinstance(rows, np.ndarray):
        x = rows[block.here]
        sums.A[g, :d, :d] += (rho * x).T @ (discount * rows[block.there] - x)
        sums.C[:d, :d] += x.T @ x
    else:  # one feature per state: dense rows would cost the square of their number for every step
        moved = here.T @ (there.multiply(rho * discount) - here.multiply(rho))
        sums.A[g, :d, :d] += (rows.T @ (moved @ rows)).toarray()
        sums.C[:d, :d] += (rows.T @ ((here.T @ here) @ rows)).toarray()


def _picks(at: Integers, n: int) -> Any:
    """A sparse matrix that selects the rows ``at`` of n rows."""
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(at)), at, np.arange(len(at) + 1)), shape=(len(at), n))


def _blocks(steps: Steps, columns: Integers, edges: Integers) -> Iterator[_Block]:
    """Yield the steps in blocks of consecutive pieces within one tenth. If rows are sparse, each tenth is one block."""
    scale = float(np.std(steps.reward)) or float(np.abs(steps.reward).max()) or 1.0
    rows = steps.rows.first(1 + int(columns.max()))
    steps = replace(steps, rows=rows)
    most = len(steps) if rows.sparse else CHUNK
    write = rows.writer()
    stored = None if rows.table is None else rows.table[:, columns]
    for g in range(len(edges) - 1):
        first = int(edges[g])
        while first < edges[g + 1]:
            last = int(np.searchsorted(steps.begins, steps.begins[first] + most, "right")) - 1
            last = min(max(last, first + 1), int(edges[g + 1]))
            yield _block(g, steps.cut(first, last), columns, scale, stored, write)
            first = last


def _block(tenth: int, steps: Steps, columns: Integers, scale: float, stored: Any, write: Writer | None) -> _Block:
    rows, begins = steps.rows, steps.begins
    made, here, there = rows_of_chunk(rows, slice(0, len(steps)), write)
    starts = here[begins[:-1]] if rows.starts is None else rows.starts
    if stored is None:
        made = made[:, columns_as_slice(columns)]
        if rows.starts is not None:  # separate rows, after those of the steps
            starts = len(made) + np.arange(len(rows.starts))
            made = np.concatenate([made, rows.at(rows.starts)[:, columns]])
    else:
        made = stored
    rho, reward, discount = (np.ascontiguousarray(a, np.float64) for a in (steps.rho, steps.reward, steps.discount))
    before = made[:, :MOST_BEFORE]
    before = before if isinstance(before, np.ndarray) else before.toarray()
    then = _past(before[here], rho, reward / scale, begins)
    now = np.zeros_like(then)
    now[1:] = then[:-1]
    now[begins[:-1]] = 0.0
    return _Block(tenth, made, here, there, starts, now, then, rho, reward, discount, begins)


def _past(x: Floats, rho: Floats, reward: Floats, begins: Integers) -> Floats:
    """Columns that describe the past after every step: its ratio, its reward, its observation, and means.

    The ratio, bounded as rho / (1 + rho), identifies the action to the extent that the policies differ.
    """
    turn = rho / (1 + rho)
    told = np.c_[turn, reward, turn * reward]
    means = np.empty_like(told)
    engine.compile_once(run_means)(told, begins, DECAY, means)
    return np.asarray(np.c_[np.ones(len(reward)), told, means, x])


def run_means(told: Floats, begins: Integers, decay: float, means: Floats) -> None:
    """Exponentially weighted means over the earlier steps of a piece."""
    for e in range(begins.shape[0] - 1):
        for k in range(told.shape[1]):
            mean = 0.0
            for t in range(begins[e], begins[e + 1]):
                mean = decay * mean + (1 - decay) * told[t, k]
                means[t, k] = mean
