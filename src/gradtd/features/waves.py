"""Cosines of the observations: a grid of frequencies (Fourier), or random ones (rbf)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats, Plain
from gradtd.core.checks import InputError
from gradtd.features.base import FEATURE_LIMIT, Features
from gradtd.features.table import Table, statistics

_MEDIAN_ROWS = 1000


@dataclass(frozen=True, eq=False)
class Fourier(Features):
    """phi_c(s) = cos(pi c . s) for every c in {0, ..., order}^k, with s scaled to [0, 1] by the range seen in fit.

    Observations outside that range are moved to its edge. c = 0 is the bias. (order + 1)^k features of k columns
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
    order: int = 3

    def __post_init__(self) -> None:
        self._checked(order=checks.whole_number("order", self.order, 1, FEATURE_LIMIT))

    def _title(self) -> str:
        return f"Fourier features of order {self.order}"

    def _size(self, n_columns: int) -> int:
        return int((self.order + 1) ** n_columns)

    def _check_size(self, n_columns: int) -> None:
        if self._size(n_columns) > FEATURE_LIMIT:
            order = max(q for q in range(self.order) if (q + 1) ** n_columns <= FEATURE_LIMIT)
            advice = f"take order={order} or rbf features" if order else "take rbf features"
            raise InputError(
                f"fourier features of order {self.order} of {n_columns} columns are {self.order + 1}^{n_columns}, more "
                f"than {FEATURE_LIMIT}: {advice}."
            )

    def _learn(self, table: Table) -> dict[str, Any]:
        found = statistics(table)
        return {"low": found.low, "high": found.high}

    def _fill(self, chunk: Floats, out: Floats) -> None:
        from gradtd.compiled import engine

        to_unit(chunk, self.learned["low"], self.learned["high"])
        engine.compiled(_writer)(chunk, self.order, out, np.empty(out.shape[1]))

    def label(self, index: int) -> str:
        places = np.unravel_index(index, (self.order + 1,) * self.n_columns)
        terms = [f"x{column}" if c == 1 else f"{c} x{column}" for column, c in enumerate(places) if c]
        return f"cos(pi ({' + '.join(terms)}))" if terms else "bias"


@dataclass(frozen=True, eq=False)
class Rbf(Features):
    """1 and sqrt(2 / n) cos(w . s + b): random features of the kernel exp(-|s - s'|^2 / (2 width^2)).

    s are the columns scaled to mean 0 and deviation 1, w ~ N(0, I / width^2), b ~ U[0, 2 pi], drawn with ``seed`` in
    fit and stored (Rahimi and Recht, 2007). n + 1 features.

    Parameters
    ----------
    n : int
        Number of random features; the bias comes on top.
    width : float or str
        Width of the kernel, in deviations; ``median`` takes the median distance between two of up to 1000 observations.
    seed : int
        Draws the frequencies.

    >>> Rbf(n=50).fit([[0.0, 1.0], [2.0, 3.0], [4.0, 0.0]]).describe()
    'Random Fourier features (50 of width 1, with bias) of 2 observations, 51 in all'
    """

    name: ClassVar[str] = "rbf"
    LEARNED = {"mean": ("columns",), "sd": ("columns",), "frequencies": ("columns", "n"), "phases": ("n",)}
    n: int = 100
    width: float | str = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.width, str) and self.width != "median":
            raise InputError(f"width must be a number greater than 0 or 'median', got {self.width!r}.")
        width = self.width if self.width == "median" else checks.number_above("width", self.width, 0)
        n = checks.whole_number("n", self.n, 1, FEATURE_LIMIT)
        self._checked(n=n, width=width, seed=checks.whole_number("seed", self.seed, 0))

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


def _writer(fingerprint: str) -> Plain:
    def write(chunk: Floats, order: int, out: Floats, sines: Floats) -> None:
        fingerprint  # noqa: B018 (part of the closure, and so of the key of the cache)
        write_waves(chunk, order, out, sines)

    return write


def write_waves(chunk: Floats, order: int, out: Floats, sines: Floats) -> None:
    """out[row, c] = cos(pi c . s) for every c, the first column's number changing slowest.

    exp(i pi c . s) is the product of the columns' exp(i pi s)^c: a multiplication a feature, where a cosine costs
    several times as much. Each column widens what is there from the end on, so that it can be written over.
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
    """Scale columns to [0, 1] in place; what lies outside the range is moved to its edge."""
    chunk -= low
    chunk /= high - low
    np.clip(chunk, 0.0, 1.0, out=chunk)


def _median_distance(table: Table, sd: Floats) -> float:
    """The median distance between two different observations, in deviations of the columns."""
    from scipy.spatial.distance import pdist

    distances = pdist(table.sample(_MEDIAN_ROWS) / sd)
    apart = distances[distances > 0]
    if not apart.size:
        raise InputError("width='median' found no two different observations in a sample: give width a number.")
    return float(np.median(apart))
