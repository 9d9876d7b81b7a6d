"""Rows for continuous observations: the user's features, polynomials, a ladder of cosines, and random waves."""

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
from gradtd.features.polynomial import Polynomial
from gradtd.features.table import Table
from gradtd.features.wrapped import Selected, fit_varying
from gradtd.logs import Log

WAVES = {1: 0.3, 2: 0.4, 3: 0.7}
"""Widths of random waves, in standard deviations of the observations, by the number of columns; 1 for more."""


class Waves(NamedTuple):
    """cos(2 pi (phase + x . frequency)) of observations x: random Fourier features without a bias."""

    frequencies: Floats
    phases: Floats


@dataclass(frozen=True, eq=False)
class RealDesign:
    """The design whose columns are the user's features, then polynomials, cosines and random waves."""

    ladder: Ladder  # the fits
    cosines: Cosines
    waves: Waves  # cosines and waves: the maps of the rungs and of the checks
    features: Features | None = None  # the user's fitted map, or None if rungs of cosines may be reported
    table: Any = None  # its rows for the whole log, if already computed in memory
    polynomials: Features | None = None  # the map of polynomial rungs, if these may be reported and are not too wide

    def rows(self, log: Log, pieces: Integers | None = None) -> Rows:
        base = self.table
        if base is None and self.features is not None:
            base = self.features.transform(log.observations)
            refuse_extreme("feature", base if isinstance(base, np.ndarray) else base.data, "rescale the features")
        make = partial(self._writer, base, log.observations)
        named = 0 if base is None else base.shape[1]
        return Rows(log.row, log.next_row, len(log.observations), self.ladder.n_columns, make_writer=make, named=named)

    def _writer(self, base: Any, observations: Any, columns: int) -> Writer:
        """A writer of the first ``columns``, which computes only the cosines and waves that these need."""
        of_columns, kept = None, slice(None)
        before = 0 if base is None else min(base.shape[1], columns)
        if self.polynomials is not None:
            of_columns, kept = _inner(self.polynomials), self.polynomials.learned.get("kept", kept)
        powers = 0 if of_columns is None else of_columns.n_features
        cosines = min(self.cosines.n, columns - before - powers)
        waves = columns - before - powers - cosines
        few = self.cosines if cosines == self.cosines.n else self.cosines.longer(max(cosines, 1))
        put_cosines = few.writer() if cosines > 0 else None
        put_waves = wave_writer(self.waves.frequencies[:, :waves], self.waves.phases[:waves]) if waves > 0 else None

        def write(index: Any, out: Floats) -> None:
            if base is not None:
                part = base[index][:, :before]
                out[:, :before] = part if isinstance(part, np.ndarray) else part.toarray()
            if columns == before:
                return
            seen, done = observations[index], before + powers
            if of_columns is not None:
                chunk = np.array(seen[:, kept], np.float64)
                if done <= columns:
                    of_columns.fill(chunk, out[:, before:done])
                else:
                    out[:, before:] = of_columns.transform(chunk)[:, : columns - before]
            if put_cosines is not None:
                put_cosines(seen, out, done)
            if put_waves is not None:
                put_waves(seen, out, done + cosines)

        return write

    def chosen(self, rung: str) -> Features:
        """The features of a rung that may be reported."""
        orders = () if self.polynomials is None else range(2, _inner(self.polynomials).order + 1)
        for order in orders:
            made = _of_order(self.polynomials, order)
            if rung == _name(made):
                return made
        return self.cosines.longer(len(self.ladder.rungs[rung]))


def real_design(observations: Any, base: Any, n_steps: int, n_pieces: int, limits: Limits = DEFAULT) -> RealDesign:
    """Rungs of increasing numbers of polynomials and cosines of the observations, and random waves to check them.

    ``base`` are the user's features, which are the first rung and the only headline, or None if gradtd chooses the
    rung. The size of the log limits the number of columns of a rung.
    """
    cosines = Cosines(n=1).fit(observations)
    varies = cosines.learned["varies"]
    k, d = len(varies), 0 if base is None else base.shape[1]
    # Sums cost n D^2. The work limits D in a long log; in a short log, the number of episodes and steps does.
    affordable = limits.rung_share * max(np.sqrt(limits.most_work / n_steps) - d, limits.fewest_columns)
    carried = min(limits.most_columns, max(limits.fewest_columns, 2 * n_pieces), n_steps / limits.steps_per_column)
    D = max(int(min(carried, affordable)), k + 1)
    powers = None if base is not None else _polynomial(k, D)
    polynomials = None if powers is None else fit_varying(powers, observations)[0]
    cuts = _rung_sizes(frequencies(k, D)[1], k, limits.rung_growth)
    m = cuts[-1]
    count = max(limits.fewest_waves, min(D // (2 if k > 2 else 4), m))
    if affordable < carried:  # the log supports more columns: as many as a check of the user's features needs
        count = max(count, int(np.ceil(limits.step_columns * d)) - m)
    count = min(limits.most_waves, count)
    waves = random_waves(observations, varies, count)
    begin = d if polynomials is None else polynomials.n_features
    rungs = {f"{size} cosines": begin + np.arange(size) for size in cuts}
    checkers = {
        f"{size} cosines and {count} waves": begin + np.r_[np.arange(size), m + np.arange(count)] for size in cuts[-2:]
    }
    if polynomials is not None:
        for order in range(2, _inner(polynomials).order + 1):
            made = _of_order(polynomials, order)
            rungs[_name(made)] = np.arange(made.n_features)
        rungs = dict(sorted(rungs.items(), key=lambda rung: len(rung[1])))
        checkers[f"{_name(polynomials)} and {m} cosines"] = np.arange(begin + m)
    headlines = tuple(rungs)
    if base is not None:
        rungs, headlines = {GIVEN: np.arange(d)} | rungs, (GIVEN,)
    ladder = Ladder(rungs, checkers, headlines, complete=False, endless=True)
    return RealDesign(ladder, cosines.longer(m), waves, polynomials=polynomials)


def _polynomial(columns: int, most: int) -> Polynomial | None:
    """The polynomial features: all products of up to three columns, else of two, else squares, whichever is small
    enough. None if even squares are too many."""
    for made in (Polynomial(order=3), Polynomial(order=2), Polynomial(order=2, cross=False)):
        if made.size(columns) <= most:
            return made
    return None


def are_polynomials(features: Features) -> bool:
    """Whether the features are a fitted polynomial map of all columns, or of the columns that vary."""
    inner = features.inner if isinstance(features, Selected) else features
    return isinstance(inner, Polynomial) and inner.fitted


def _inner(polynomials: Features) -> Polynomial:
    """The map of the columns that vary."""
    inner = polynomials.inner if isinstance(polynomials, Selected) else polynomials
    assert isinstance(inner, Polynomial)
    return inner


def _of_order(polynomials: Features | None, order: int) -> Features:
    assert polynomials is not None
    made = _inner(polynomials).of_order(order)
    if isinstance(polynomials, Selected):
        return Selected.of(made, polynomials.learned["kept"], polynomials.n_columns)
    return made


def _name(polynomials: Features) -> str:
    """The name of a rung of polynomials."""
    inner = _inner(polynomials)
    return f"{inner.n_features} {'polynomials' if inner.cross else 'powers'} of order {inner.order}"


def _rung_sizes(sizes: list[int], columns: int, steep: float) -> list[int]:
    """Numbers of cosines per rung, each at least ``steep`` times the previous one."""
    cuts = [sizes[-1]]
    for size in sizes[-2:0:-1]:
        if steep * size <= cuts[0] and size > columns + 1:
            cuts.insert(0, size)
    return cuts


def random_waves(observations: Any, varies: Integers, count: int) -> Waves:
    """Random Fourier features of the columns that vary, scaled by their standard deviations in a sample."""
    seen = Table(observations).sample(SAMPLE)[:, varies]
    with np.errstate(over="ignore", invalid="ignore"):
        sd = seen.std(axis=0)
    if not np.isfinite(sd).all():
        j = int(np.flatnonzero(~np.isfinite(sd))[0])
        low, high = seen[:, j].min(), seen[:, j].max()
        raise InputError(
            f"observation column {varies[j]} ranges from {low:g} to {high:g}, which is too wide to scale: rescale it."
        )
    turns = np.zeros((observations.shape[1], count))
    rng = np.random.default_rng(0)
    turns[varies] = rng.standard_normal((len(varies), count)) / WAVES.get(len(varies), 1.0)
    turns[varies] /= 2 * np.pi * np.where(sd > 0, sd, 1.0)[:, None]
    return Waves(turns, rng.random(count) - seen.mean(axis=0) @ turns[varies])


def network_design(
    observations: Any, tables: Sequence[Any], n_steps: int, n_pieces: int, limits: Limits = DEFAULT
) -> RealDesign:
    """The network's columns are the only headline. Added cosines check them, and so do networks with other seeds.

    ``tables`` holds the columns of the networks, one per training seed, whitened or not; the first network is reported.
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
