"""Some columns of the observations only: a map for logs with columns that never change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.features.base import Features
from gradtd.features.table import Table

if TYPE_CHECKING:
    import scipy.sparse


@dataclass(frozen=True, eq=False)
class Selected(Features):
    """A fitted map of some columns of the observations; made by `fit_varying`."""

    name: ClassVar[str] = "selected"
    inner: Features

    @classmethod
    def of(cls, inner: Features, kept: Integers, n_columns: int) -> Self:
        """A fitted map that reads only the columns ``kept`` of ``n_columns``."""
        return cls(inner)._with({"kept": np.array(kept, np.int64), "n_columns": n_columns})

    def _size(self, n_columns: int) -> int:
        return self.inner.n_features

    def _transform(self, table: Table) -> Floats | scipy.sparse.csr_array:
        return self.inner.rows(table.array[:, self.learned["kept"]])

    def describe(self) -> str:
        columns = ", ".join(map(str, self.learned["kept"]))
        return f"{self.inner.describe()}, which are column{'s' * (len(self.learned['kept']) > 1)} {columns}"

    def label(self, index: int) -> str:
        return self.inner.label(index)

    def to_dict(self) -> dict[str, Any]:
        inner = {f"inner_{key}": value for key, value in self.inner.to_dict().items()}
        return {"name": self.name} | dict(self.learned) | inner


def restore_selected(stored: Mapping[str, Any], restore: Any) -> Selected:
    """The map that `Selected.to_dict` described; ``restore`` makes the map inside."""
    inner = restore({key.removeprefix("inner_"): value for key, value in stored.items() if key.startswith("inner_")})
    kept = checks.numeric_array("kept", stored.get("kept", []), 1).astype(np.int64)
    columns = checks.whole_number("n_columns", stored.get("n_columns"), 1)
    if len(kept) != inner.n_columns or kept.min() < 0 or kept.max() >= columns:
        raise InputError(f"stored selected features: kept must name {inner.n_columns} of {columns} columns.")
    return Selected.of(inner, kept, columns)


def varying_columns(observations: Any) -> Integers:
    """The columns that are not the same number in every row, read a chunk at a time."""
    table = Table(observations)
    varies = np.zeros(table.n_columns, bool)
    for _, chunk in table.chunks():
        varies |= (chunk != table.array[0]).any(axis=0)
        if varies.all():
            break
    return np.flatnonzero(varies)


def fit_varying(features: Features, observations: Any) -> tuple[Features, str | None]:
    """The map, fitted to the columns that vary, and what to say of those that do not.

    Where none varies, the map is fitted to all of them, and says itself why it cannot be.
    """
    columns = 1 if np.ndim(observations) == 1 else int(np.shape(observations)[1])
    kept = varying_columns(observations) if columns > 1 else np.zeros(1, np.int64)
    if len(kept) in (0, columns):
        return features.fit(observations), None
    constant = ", ".join(str(k) for k in range(columns) if k not in kept)
    said = f"observation column {constant} is the same in every row and says nothing about the state: left out."
    return Selected.of(features.fit(observations[:, kept]), kept, columns), said
