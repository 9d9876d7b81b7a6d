"""Cosines of the observations: by total degree (cosines), a grid of frequencies (fourier), or random ones (rbf).

`wave_writer` computes the cosines of many angles together, several times faster than one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement, islice
from typing import Any, ClassVar

import numpy as np

from gradtd.compiled import engine
from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.features.base import FEATURE_LIMIT, Features
from gradtd.features.table import Table, refuse_constant, statistics

SAMPLE = 20_000
"""Maximum number of observations for quantiles."""
RANKED, KNOTS = 6, 65
"""Maximum number of columns for scaling by rank, and the number of quantiles of each."""
_MEDIAN_ROWS = 1000


def frequencies(columns: int, most: int) -> tuple[Integers, list[int]]:
    """At most ``most`` integer vectors c, ordered by their sum, and the numbers with a sum of at most 0, 1, 2, ...

    >>> frequencies(2, 6)
    (array([[0, 0],
           [1, 0],
           [0, 1],
           [2, 0],
           [1, 1],
           [0, 2]]), [1, 3, 6])
    """
    kept: list[tuple[int, ...]] = []
    rungs: list[int] = []
    for degree in range(most):
        kept.extend(islice(combinations_with_replacement(range(columns), degree), most + 1 - len(kept)))
        if len(kept) > most:
            break
        rungs.append(len(kept))
    found = np.zeros((min(len(kept), most), columns), np.int64)
    for row, chosen in zip(found, kept, strict=False):
        for k in chosen:
            row[k] += 1
    return found, rungs


@dataclass(frozen=True, eq=False)
class Cosines(Features):
    """The first n products prod_k cos(pi c_k u_k), by the total degree sum_k c_k; the first is the bias.

    Every column is scaled to [0, 1] by its range; with at most 6 columns, by the mean of range and rank, so that
    frequent values are spread out. A constant column adds nothing.

    Parameters
    ----------
    n : int
        Number of products, including the bias.

    >>> Cosines(n=3).fit([[0.0], [4.0]]).transform([[2.0], [99.0]]).round(12) + 0.0
    array([[ 1.,  0., -1.],
           [ 1., -1.,  1.]])
    """

    name: ClassVar[str] = "cosines"
    LEARNED = {"lowest": ("columns",), "span": ("columns",), "knots": ("columns", None), "counts": ("columns",)} | {
        "varies": (None,)
    }
    CHECKS = {"n": checks.whole(1, FEATURE_LIMIT)}
    n: int = 16

    def _title(self) -> str:
        return "Cosines by total degree"

    def _size(self, n_columns: int) -> int:
        return self.n

    def _learn(self, table: Table) -> dict[str, Any]:
        low, high = np.full(table.n_columns, np.inf), np.full(table.n_columns, -np.inf)
        for _, chunk in table.chunks():
            low, high = np.minimum(low, chunk.min(axis=0)), np.maximum(high, chunk.max(axis=0))
        if not (high > low).any():
            refuse_constant(table, low, high)
        with np.errstate(over="ignore"):
            span = np.where(high > low, high - low, 1.0)
        if not np.isfinite(span).all():
            j = int(np.argmin(np.isfinite(span)))
            raise InputError(
                f"{table.column(j)} goes from {low[j]:g} to {high[j]:g}, which cannot be scaled: rescale it."
            )
        ranked = table.n_columns <= RANKED
        knots, counts = np.zeros((table.n_columns, KNOTS if ranked else 1)), np.zeros(table.n_columns, np.int64)
        if ranked:
            for k, column in enumerate(table.sample(SAMPLE).T):
                found = np.unique(np.quantile(column, np.linspace(0, 1, KNOTS)))
                knots[k, : len(found)], counts[k] = found, len(found)
        varies = np.flatnonzero(high > low)
        return {"lowest": low, "span": span, "knots": knots, "counts": counts, "varies": varies}

    def _check_learned(self, arrays: Mapping[str, Any]) -> None:
        """Check the columns in ``varies``, because compiled code reads a cosine for each of them."""
        varies, counts, knots = (arrays[name] for name in ("varies", "counts", "knots"))
        columns, most = knots.shape
        whole = all(array.dtype == np.int64 and (array >= 0).all() for array in (varies, counts))
        if not whole or not len(varies) or varies[-1] >= columns or (np.diff(varies) <= 0).any():
            raise InputError("stored cosines features: varies must contain numbers of columns in increasing order.")
        rising = all((np.diff(row[:count]) > 0).all() for row, count in zip(knots, counts, strict=True))
        if (counts > most).any() or not rising or not (arrays["span"] > 0).all():
            raise InputError("stored cosines features: knots must increase, and span must be greater than 0.")

    def _fill(self, chunk: Floats, out: Floats) -> None:
        self.writer()(chunk, out, 0)

    def writer(self) -> Callable[[Any, Floats, int], None]:
        """A function that writes features of observations to consecutive columns of a table, from a given one on."""
        ways, varies = self._ways, self.learned["varies"]
        power = np.ones((max(len(varies), 1), int(ways[:, 2].max(initial=1)) + 1))
        low, span, no_phase = self.learned["lowest"], self.learned["span"], np.zeros(len(varies))
        # Wide observations often have one cosine per column and no products, which takes one pass.
        single = (self.learned["counts"] <= 1).all() and len(varies) == len(low) and self.n == len(varies) + 1
        single_pass, turn = engine.compile_once(scale_and_turn), engine.compile_once(write_cosines)
        multiplied = engine.compile_once(multiply)

        def write(chunk: Any, out: Floats, at: int) -> None:
            if single:
                single_pass(np.ascontiguousarray(chunk, np.float64), low, span, out, at)
                return
            turns = self._unit(chunk)
            turns *= 0.5
            turns = turns if len(varies) == turns.shape[1] else np.ascontiguousarray(turns[:, varies])
            turn(turns, no_phase, turns, 0)
            multiplied(turns, ways, power, out, at)

        return write

    @cached_property
    def _ways(self) -> Integers:
        """For every feature: the simpler feature it extends, and the column and the multiple of the cosine for it."""
        c = self._frequencies()
        place = {tuple(row): j for j, row in enumerate(c.tolist())}
        ways = np.zeros((len(c), 3), np.int64)
        for j, row in enumerate(c.tolist()):
            k = max((k for k, times in enumerate(row) if times), default=0)
            ways[j] = place[(*row[:k], 0, *row[k + 1 :])], k, row[k]
        return ways

    def longer(self, n: int) -> Cosines:
        """A copy of this map with a different number of features."""
        return Cosines(n=n)._with(self.learned)

    def _frequencies(self) -> Integers:
        return frequencies(max(len(self.learned["varies"]), 1), self.n)[0]

    def _unit(self, chunk: Floats) -> Floats:
        unit = chunk - self.learned["lowest"]
        unit /= self.learned["span"]
        np.clip(unit, 0.0, 1.0, out=unit)
        for k, count in enumerate(self.learned["counts"]):
            if count > 1:
                rank = np.interp(chunk[:, k], self.learned["knots"][k, :count], np.linspace(0, 1, count))
                unit[:, k] = 0.5 * (unit[:, k] + rank)
        return np.asarray(unit)

    def label(self, index: int) -> str:
        pairs = zip(self.learned["varies"], self._frequencies()[index], strict=True)
        terms = [f"cos(pi {f'{times} ' if times > 1 else ''}x{k})" for k, times in pairs if times]
        return " ".join(terms) or "bias"


def multiply(cosines: Floats, ways: Integers, power: Floats, out: Floats, at: int) -> None:
    """prod_k cos(pi c_k u_k) from cos(pi u_k): Chebyshev's recursion for c_k, then one product for every feature."""
    for i in range(cosines.shape[0]):
        for k in range(power.shape[0]):
            power[k, 1] = cosines[i, k]
            for times in range(2, power.shape[1]):
                power[k, times] = 2.0 * power[k, 1] * power[k, times - 1] - power[k, times - 2]
        out[i, at] = 1.0
        for j in range(1, ways.shape[0]):
            out[i, at + j] = out[i, at + ways[j, 0]] * power[ways[j, 1], ways[j, 2]]


def scale_and_turn(chunk: Floats, low: Floats, span: Floats, out: Floats, at: int) -> None:
    """The bias and the cosine of every column, as computed by `Cosines._unit`, `write_cosines` and `multiply`."""
    for i in range(chunk.shape[0]):
        out[i, at] = 1.0
        row, line = chunk[i], out[i, at + 1 :]
        for k in range(chunk.shape[1]):
            unit = np.true_divide(row[k] - low[k], span[k])  # "/" checks for zeros and is not vectorised
            line[k] = sine(0.25 - 0.5 * min(max(unit, 0.0), 1.0))  # at most half a turn: no range reduction needed


@dataclass(frozen=True, eq=False)
class Fourier(Features):
    """phi_c(s) = cos(pi c . s) for every c in {0, ..., order}^k, with s scaled to [0, 1] by the range seen in fit.

    Observations outside that range are clipped. c = 0 is the bias. (order + 1)^k features of k columns
    (Konidaris, Osentoski and Thomas, 2011).

    Parameters
    ----------
    order : int
        Largest frequency in each column.

    >>> Fourier(order=2).fit([[0.0], [4.0]]).transform([[2.0], [99.0]]).round(12) + 0.0
    array([[ 1.,  0., -1.],
           [ 1., -1.,  1.]])
    """

    name: ClassVar[str] = "fourier"
    LEARNED = {"low": ("columns",), "high": ("columns",)}
    CHECKS = {"order": checks.whole(1, FEATURE_LIMIT)}
    order: int = 3

    def _title(self) -> str:
        return f"Fourier features of order {self.order}"

    def _size(self, n_columns: int) -> int:
        return int((self.order + 1) ** n_columns)

    def _check_size(self, n_columns: int) -> None:
        if self._size(n_columns) > FEATURE_LIMIT:
            order = max(q for q in range(self.order) if (q + 1) ** n_columns <= FEATURE_LIMIT)
            advice = f"use order={order} or rbf features" if order else "use rbf features"
            raise InputError(
                f"fourier features of order {self.order} of {n_columns} columns are {self.order + 1}^{n_columns}, more "
                f"than {FEATURE_LIMIT}: {advice}."
            )

    def _learn(self, table: Table) -> dict[str, Any]:
        found = statistics(table)
        return {"low": found.low, "high": found.high}

    def _fill(self, chunk: Floats, out: Floats) -> None:
        to_unit(chunk, self.learned["low"], self.learned["high"])
        engine.compile_once(write_waves)(chunk, self.order, out, np.empty(out.shape[1]))

    def label(self, index: int) -> str:
        places = np.unravel_index(index, (self.order + 1,) * self.n_columns)
        terms = [f"x{column}" if c == 1 else f"{c} x{column}" for column, c in enumerate(places) if c]
        return f"cos(pi ({' + '.join(terms)}))" if terms else "bias"


def _width(name: str, value: Any) -> float | str:
    if isinstance(value, str) and value != "median":
        raise InputError(f"{name} must be a number greater than 0 or 'median', got {value!r}.")
    return value if isinstance(value, str) else checks.number_above(name, value, 0)


@dataclass(frozen=True, eq=False)
class Rbf(Features):
    """1 and sqrt(2 / n) cos(w . s + b): random features of the kernel exp(-|s - s'|^2 / (2 width^2)).

    s are the columns scaled to mean 0 and standard deviation 1, w ~ N(0, I / width^2), b ~ U[0, 2 pi], drawn with
    ``seed`` in fit and stored (Rahimi and Recht, 2007). n + 1 features.

    Parameters
    ----------
    n : int
        Number of random features, without the bias.
    width : float or str
        Width of the kernel, in standard deviations; ``median`` is the median distance between two of up to 1000
        observations.
    seed : int
        Seed of the frequencies.

    >>> Rbf(n=50).fit([[0.0, 1.0], [2.0, 3.0], [4.0, 0.0]]).describe()
    'Random Fourier features (50 of width 1, with bias) of 2 observations, 51 in all'
    """

    name: ClassVar[str] = "rbf"
    LEARNED = {"mean": ("columns",), "sd": ("columns",), "frequencies": ("columns", "n"), "phases": ("n",)}
    CHECKS = {
        "n": checks.whole(1, FEATURE_LIMIT),
        "width": _width,
        "seed": lambda name, value: checks.seed_number(value, name),
    }
    n: int = 100
    width: float | str = 1.0
    seed: int = 0

    def _title(self) -> str:
        width = "the median distance" if self.width == "median" else f"{self.width:g}"
        return f"Random Fourier features ({self.n} of width {width}, with bias)"

    def _size(self, n_columns: int) -> int:
        return self.n + 1

    def _learn(self, table: Table) -> dict[str, Any]:
        found = statistics(table)
        width = _median_distance(table, found.sd) if isinstance(self.width, str) else self.width
        rng = np.random.default_rng(self.seed)
        frequencies = rng.standard_normal((table.n_columns, self.n)) / width
        phases = rng.uniform(0.0, 2.0 * np.pi, self.n)
        return {"mean": found.mean, "sd": found.sd, "frequencies": frequencies, "phases": phases}

    def _fill(self, chunk: Floats, out: Floats) -> None:
        chunk -= self.learned["mean"]
        chunk /= self.learned["sd"]
        out[:, 0] = 1.0
        waves = out[:, 1:]
        np.matmul(chunk, self.learned["frequencies"], out=waves)
        waves += self.learned["phases"]
        np.cos(waves, out=waves)
        waves *= np.sqrt(2.0 / self.n)

    def label(self, index: int) -> str:
        return f"wave {index - 1}" if index else "bias"


def write_waves(chunk: Floats, order: int, out: Floats, sines: Floats) -> None:
    """out[row, c] = cos(pi c . s) for every c; the first entry of c changes slowest.

    exp(i pi c . s) is the product of the columns' exp(i pi s)^c: one multiplication per feature, while a cosine costs
    several times as much. Each column expands the existing features from the end, so that they can be overwritten.
    """
    for row in range(chunk.shape[0]):
        cosines = out[row]
        cosines[0], sines[0] = 1.0, 0.0
        known = 1
        for column in range(chunk.shape[1]):
            angle = np.pi * chunk[row, column]
            turn, lift = np.cos(angle), np.sin(angle)
            for f in range(known - 1, -1, -1):
                real, imaginary = cosines[f], sines[f]
                for c in range(f * (order + 1), (f + 1) * (order + 1)):
                    cosines[c], sines[c] = real, imaginary
                    real, imaginary = real * turn - imaginary * lift, real * lift + imaginary * turn
            known *= order + 1


def to_unit(chunk: Floats, low: Floats, high: Floats) -> None:
    """Scale columns to [0, 1] in place; values outside the range are clipped."""
    chunk -= low
    chunk /= high - low
    np.clip(chunk, 0.0, 1.0, out=chunk)


def _median_distance(table: Table, sd: Floats) -> float:
    """The median distance between two different observations, in standard deviations of the columns."""
    from scipy.spatial.distance import pdist

    distances = pdist(table.sample(_MEDIAN_ROWS) / sd)
    apart = distances[distances > 0]
    if not apart.size:
        raise InputError("width='median' found only equal observations in a sample: give width as a number.")
    return float(np.median(apart))


TERMS = (
    *(6.283185307179586, -41.341702240399755, 81.60524927607504, -76.70585975306136, 42.058693944897634),
    *(-15.094642576822984, 3.8199525848482803, -0.7181223017785001, 0.10422916220813978, -0.012031585942120619),
)
"""(2 pi)^(2 k + 1) / (2 k + 1)!, signs alternating: the sine's series, exact to rounding up to a quarter turn."""


def cosine(t: Any) -> Any:
    """cos(2 pi t), as the sine of at most a quarter turn."""
    return sine(0.25 - abs(t - np.floor(t + 0.5)))


def sine(s: Any) -> Any:
    """sin(2 pi s) of at most a quarter turn, for which ten terms of the series suffice."""
    q = s * s
    r = q * q
    w = r * r
    low = (TERMS[0] + TERMS[1] * q) + (TERMS[2] + TERMS[3] * q) * r  # in pairs, for shorter dependency chains
    high = (TERMS[4] + TERMS[5] * q) + (TERMS[6] + TERMS[7] * q) * r
    return ((low + high * w) + (TERMS[8] + TERMS[9] * q) * (w * w)) * s


def write_cosines(turns: Floats, phases: Floats, out: Floats, at: int) -> None:
    """cos(2 pi (turn + phase)) of all columns, to columns of a table from ``at`` on; works in place if compiled."""
    for i in range(turns.shape[0]):
        row, line = turns[i], out[i, at:]
        for k in range(turns.shape[1]):
            line[k] = cosine(row[k] + phases[k])


def wave_writer(frequencies: Floats, phases: Floats) -> Callable[[Any, Floats, int], None]:
    """A function of rows x, a table and a column, which writes cos(2 pi (phase + x . frequency)) to the table from that
    column on.

    >>> out = np.zeros((1, 3))
    >>> wave_writer(np.array([[0.25, 0.5]]), np.array([0.0, 0.5]))(np.array([[2.0]]), out, 1)
    >>> out
    array([[ 0., -1., -1.]])
    """
    write = engine.compile_once(write_cosines)

    def put(x: Any, out: Floats, at: int) -> None:
        write(np.ascontiguousarray(x, np.float64) @ frequencies, phases, out, at)

    return put
