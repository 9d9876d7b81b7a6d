"""Rows for real observations: features that were named, a ladder of cosines, and random waves to check them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.evaluation.designs.base import GIVEN, Ladder, Rows, Writer, refuse_extreme
from gradtd.evaluation.limits import DEFAULT, Limits
from gradtd.features import Features
from gradtd.features.cosines import SAMPLE, Cosines, frequencies, wave_writer
from gradtd.features.table import Table
from gradtd.logs import Log

WAVES = {1: 0.3, 2: 0.4, 3: 0.7}
"""Widths of random waves, in deviations of the observations, by the number of columns; 1 for more."""


class Waves(NamedTuple):
    """cos(2 pi (phase + x . frequency)) of observations x: random Fourier features without a bias."""

    frequencies: Floats
    phases: Floats


@dataclass(frozen=True, eq=False)
class RealDesign:
    """Columns: features that were named, then cosines, then random waves.

    Parameters
    ----------
    ladder
        The fits.
    cosines, waves
        The maps of the checks.
    features
        The map that was named, fitted; None where rungs of cosines may be reported.
    table
        Its rows for the whole log, where that is in memory and they were computed already.
    """

    ladder: Ladder
    cosines: Cosines
    waves: Waves
    features: Features | None = None
    table: Any = None

    def rows(self, log: Log) -> Rows:
        base = self.table
        if base is None and self.features is not None:
            base = self.features.transform(log.observations)
            refuse_extreme("feature", base if isinstance(base, np.ndarray) else base.data, "rescale the features")
        make = partial(self._writer, base, log.observations)
        return Rows(log.row, log.next_row, len(log.observations), self.ladder.n_columns, make_writer=make)

    def _writer(self, base: Any, observations: Any) -> Writer:
        put_cosines, put_waves = self.cosines.writer(), wave_writer(*self.waves)

        def write(index: Any, out: Floats) -> None:
            done = 0
            if base is not None:
                part = base[index]
                done = part.shape[1]
                out[:, :done] = part if isinstance(part, np.ndarray) else part.toarray()
            seen = observations[index]
            put_cosines(seen, out, done)
            put_waves(seen, out, done + self.cosines.n)

        return write

    def chosen(self, rung: str) -> Features:
        """The features of a rung of cosines."""
        return self.cosines.longer(len(self.ladder.rungs[rung]))


def real_design(observations: Any, base: Any, n_steps: int, n_pieces: int, limits: Limits = DEFAULT) -> RealDesign:
    """A ladder of cosines of the observations, each rung about twice as wide, and random waves to check them.

    Parameters
    ----------
    observations
        Real numbers, one row per observation of the log or of a sample of it.
    base
        Features that were named, one row each, the first rung and the only headline; None where rungs may be chosen.
    n_steps, n_pieces
        Sizes of the log, which bound how rich a rung may be.
    limits
        How many columns there may be.
    """
    cosines = Cosines(n=1).fit(observations)
    varies = cosines.learned["varies"]
    k, d = len(varies), 0 if base is None else base.shape[1]
    # Sums cost n D^2: a long log has the work bound D, a short one the number of its episodes and steps.
    affordable = limits.rung_share * max(np.sqrt(limits.most_work / n_steps) - d, limits.fewest_columns)
    carried = min(limits.most_columns, max(limits.fewest_columns, n_pieces), n_steps / limits.steps_per_column)
    D = max(int(min(carried, affordable)), k + 1)
    cuts = _rung_sizes(frequencies(k, D)[1], k, limits.rung_growth)
    m = cuts[-1]
    count = max(limits.fewest_waves, min(D // (2 if k > 2 else 4), m))
    if affordable < carried:  # the log could carry more: as many as a check of the features given must have
        count = max(count, int(np.ceil(limits.step_columns * d)) - m)
    count = min(limits.most_waves, count)
    waves = random_waves(observations, varies, count)
    rungs = {f"{size} cosines": d + np.arange(size) for size in cuts}
    checkers = {
        f"{size} cosines and {count} waves": d + np.r_[np.arange(size), m + np.arange(count)] for size in cuts[-2:]
    }
    headlines = tuple(rungs)
    if base is not None:
        rungs, headlines = {GIVEN: np.arange(d)} | rungs, (GIVEN,)
    ladder = Ladder(rungs, checkers, headlines, complete=False, endless=True)
    return RealDesign(ladder, cosines.longer(m), waves)


def _rung_sizes(sizes: list[int], columns: int, steep: float) -> list[int]:
    """The numbers of cosines of the rungs: each at least ``steep`` times the one before."""
    cuts = [sizes[-1]]
    for size in sizes[-2:0:-1]:
        if steep * size <= cuts[0] and size > columns + 1:
            cuts.insert(0, size)
    return cuts


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
    turns = np.zeros((observations.shape[1], count))
    rng = np.random.default_rng(0)
    turns[varies] = rng.standard_normal((len(varies), count)) / WAVES.get(len(varies), 1.0)
    turns[varies] /= 2 * np.pi * np.where(sd > 0, sd, 1.0)[:, None]
    return Waves(turns, rng.random(count) - seen.mean(axis=0) @ turns[varies])


def network_design(
    observations: Any, tables: Sequence[Any], n_steps: int, n_pieces: int, limits: Limits = DEFAULT
) -> RealDesign:
    """The network's columns are the only headline. They are checked with cosines beside them, and by other seeds.

    Parameters
    ----------
    observations
        Real numbers, one row per observation.
    tables
        Columns of the network of every training seed, whitened or not; the first is the one reported.
    n_steps, n_pieces
        Sizes of the log.
    limits
        How many columns there may be.
    """
    base = np.concatenate(tables, axis=1)
    made = real_design(observations, base, n_steps, n_pieces, limits)
    d, own = base.shape[1], np.arange(tables[0].shape[1])
    cosines = {name: columns for name, columns in made.ladder.rungs.items() if name != GIVEN}
    rungs = {GIVEN: own} | {f"network and {name}": np.r_[own, columns] for name, columns in cosines.items()}
    edges = np.cumsum([0, *(table.shape[1] for table in tables)])
    checkers = {f"training seed {k}": np.arange(edges[k], edges[k + 1]) for k in range(1, len(tables))}
    checkers["networks of all seeds"] = np.arange(d)
    ladder = Ladder(rungs, checkers | made.ladder.checkers, (GIVEN,), complete=False, endless=True)
    return replace(made, ladder=ladder, table=base)
