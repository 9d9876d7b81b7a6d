"""The observations themselves, and products of their columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement, pairwise
from typing import Any, ClassVar

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.features.base import FEATURE_LIMIT, Features
from gradtd.features.table import Table, statistics


@dataclass(frozen=True, eq=False)
class Identity(Features):
    """phi(s) = (1, (s - mean) / sd): the columns themselves, with a bias.

    Cost: one pass; temporary memory for one chunk.

    Parameters
    ----------
    bias : bool
        Whether the first feature is always one.
    scale : bool
        Whether columns are scaled to mean 0 and standard deviation 1.

    >>> Identity().fit([[0.0, 10.0], [2.0, 30.0]]).transform([[1.0, 30.0]])
    array([[1., 0., 1.]])
    """

    name: ClassVar[str] = "identity"
    LEARNED = {"mean": ("columns",), "sd": ("columns",)}
    CHECKS = {"bias": checks.yes_or_no, "scale": checks.yes_or_no}
    bias: bool = True
    scale: bool = True

    def _title(self) -> str:
        scaled = "scaled to mean 0 and deviation 1" if self.scale else "as they are"
        return f"Identity features ({scaled}, {'with' if self.bias else 'without'} bias)"

    def _size(self, n_columns: int) -> int:
        return n_columns + self.bias

    def _learn(self, table: Table) -> dict[str, Any]:
        found = statistics(table)
        if self.scale:
            return {"mean": found.mean, "sd": found.sd}
        return {"mean": np.zeros(table.n_columns), "sd": np.ones(table.n_columns)}

    def _fill(self, chunk: Floats, out: Floats) -> None:
        out[:, : int(self.bias)] = 1.0
        rest = out[:, int(self.bias) :]
        np.subtract(chunk, self.learned["mean"], out=rest)
        rest /= self.learned["sd"]

    def label(self, index: int) -> str:
        return "bias" if self.bias and index == 0 else f"x{index - self.bias}"


@dataclass(frozen=True, eq=False)
class Polynomial(Features):
    """All products of at most ``order`` columns, each scaled to [-1, 1]; the empty product is the bias.

    (k + order)! / (k! order!) features of k columns. Outside the range seen in fit, the products keep growing. The
    square of a column with two values is constant, like the bias: use identity for such columns.

    Parameters
    ----------
    order : int
        Maximum number of factors, counting repeated columns.
    cross : bool
        Whether different columns are multiplied. If False, there are only powers of single columns, 1 + k order
        features.

    >>> Polynomial(order=2).fit([[0.0], [4.0]]).transform([[3.0]])
    array([[1.  , 0.5 , 0.25]])
    """

    name: ClassVar[str] = "polynomial"
    LEARNED = {"low": ("columns",), "high": ("columns",)}
    CHECKS = {"order": checks.whole(1, FEATURE_LIMIT), "cross": checks.yes_or_no}
    order: int = 2
    cross: bool = True

    def _title(self) -> str:
        return f"Polynomial features of order {self.order}{'' if self.cross else ' without products of two columns'}"

    def _size(self, n_columns: int) -> int:
        return self.size(n_columns)

    def size(self, n_columns: int) -> int:
        """Number of features for this number of columns."""
        return math.comb(n_columns + self.order, self.order) if self.cross else 1 + n_columns * self.order

    def of_order(self, order: int) -> Polynomial:
        """A copy of this map with a different order, so with fewer or more features."""
        return Polynomial(order=order, cross=self.cross)._with(self.learned)

    def _check_size(self, n_columns: int) -> None:
        if self._size(n_columns) > FEATURE_LIMIT:
            raise InputError(
                f"polynomial features of order {self.order} of {n_columns} columns are more than {FEATURE_LIMIT}: "
                "lower the order, or use identity or rbf features."
            )

    def _learn(self, table: Table) -> dict[str, Any]:
        found = statistics(table)
        return {"low": found.low, "high": found.high}

    def _fill(self, chunk: Floats, out: Floats) -> None:
        self.fill(chunk, out)

    def fill(self, chunk: Floats, out: Floats) -> None:
        """Write the features to ``out``; the observations are overwritten."""
        low, high = self.learned["low"], self.learned["high"]
        chunk -= low
        chunk *= 2.0 / (high - low)
        chunk -= 1.0
        out[:, 0] = 1.0
        for here, parents, columns in self._steps:
            np.multiply(out[:, parents], chunk[:, columns], out=out[:, here])

    @cached_property
    def _products(self) -> list[tuple[int, ...]]:
        """The columns that each feature multiplies, fewest first."""
        degrees = range(self.order + 1)
        if not self.cross:
            alone = [(k,) * degree for degree in degrees[1:] for k in range(self.n_columns)]
            return [(), *alone]
        return [p for degree in degrees for p in combinations_with_replacement(range(self.n_columns), degree)]

    @cached_property
    def _steps(self) -> list[tuple[slice, Integers, Integers]]:
        """For each degree: its features, the features of lower degree that they extend, and the column they multiply
        by."""
        place = {product: index for index, product in enumerate(self._products)}
        ends = [1, *(self.of_order(degree).n_features for degree in range(1, self.order + 1))]
        steps = []
        for begin, end in pairwise(ends):
            products = self._products[begin:end]
            parents, columns = [place[p[:-1]] for p in products], [p[-1] for p in products]
            steps.append((slice(begin, end), np.array(parents), np.array(columns)))
        return steps

    def names(self) -> list[str]:
        return [_product_name(product) for product in self._products]

    def label(self, index: int) -> str:
        return _product_name(self._products[index])


def _product_name(product: tuple[int, ...]) -> str:
    """The name "x0^2 x1" for the columns 0, 0, 1."""
    powers = {column: product.count(column) for column in product}
    return " ".join(f"x{column}^{power}" if power > 1 else f"x{column}" for column, power in powers.items()) or "bias"
