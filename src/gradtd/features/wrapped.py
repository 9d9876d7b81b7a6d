"""Wrappers: a scikit-learn transformer, a function, or a map of some of the columns."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers, entries_under
from gradtd.core.checks import InputError
from gradtd.features.base import Features
from gradtd.features.table import Table

if TYPE_CHECKING:
    import scipy.sparse

_TRIAL_ROWS, _ROUNDING = 1000, 1e-6


@dataclass(frozen=True, eq=False)
class _Wrapped(Features):
    """The common base of wrappers: it checks the results, and it cannot be stored."""

    def _size(self, n_columns: int) -> int:
        return int(self._what_was_learned()["size"])

    def _transform(self, table: Table) -> Floats | scipy.sparse.csr_array:
        for _ in table.chunks():
            pass  # refuses non-finite numbers and names their row and column
        features = self._output(table.given)
        if features.shape[1] != self.n_features:
            raise InputError(
                f"{self._called()} returned {self.n_features} features in fit and now returns {features.shape[1]}: "
                "it must always return the same number."
            )
        return features

    def _checked_output(self, features: Any, rows: int) -> Any:
        try:
            table = checks.feature_table(features, narrow=True)
        except InputError as error:
            raise InputError(f"{self._called()} does not return features: {error}") from None
        if table.shape[0] != rows:
            raise InputError(f"{self._called()} must return one row per observation, ({rows}, d); got {table.shape}.")
        return table

    def to_dict(self) -> dict[str, Any]:
        """Raises an error: code cannot be stored."""
        raise InputError(
            f"{self._called()} cannot be stored, because it is code: use one of the named features "
            "(identity, polynomial, fourier, rbf, tiles, aggregation, one-hot), or store the computed features."
        )

    def _called(self) -> str:
        raise NotImplementedError

    def _output(self, observations: Any) -> Any:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Transformer(_Wrapped):
    """A scikit-learn transformer, or any object with ``fit`` and ``transform``.

    A copy of it is fitted on all observations as a table (n, k), and transforms them in one call, so memory depends on
    the transformer. Features may be dense or sparse. If no combination of them is constant, as with PCA or a scaler, a
    constant is added: without it every value would be zero at the mean observation.

    Parameters
    ----------
    transformer : object
        The object with these two methods.
    """

    name: ClassVar[str] = "transformer"
    transformer: Any

    def _called(self) -> str:
        return f"the transformer {type(self.transformer).__name__}"

    def _title(self) -> str:
        added = "A constant and features" if self.fitted and self.learned["constant"] else "Features"
        return f"{added} of {self._called()}"

    def _learn(self, table: Table) -> dict[str, Any]:
        for _ in table.chunks():
            pass
        own = copy.deepcopy(self.transformer)
        own.fit(table.array)
        rows = table.array[:_TRIAL_ROWS]
        features = self._checked_output(own.transform(rows), len(rows))
        lacks = not makes_constant(features)
        return {"transformer": own, "size": features.shape[1] + lacks, "constant": lacks}

    def _output(self, observations: Any) -> Any:
        table = observations[:, None] if observations.ndim == 1 else observations
        features = self._checked_output(self.learned["transformer"].transform(table), len(table))
        return with_constant(features) if self.learned["constant"] else features


def makes_constant(features: Any) -> bool:
    """Whether some linear combination of these features is a nonzero constant.

    >>> bool(makes_constant(np.eye(2))), bool(makes_constant(np.array([[1.0], [2.0]])))
    (True, False)
    """
    ones = np.ones(features.shape[0])
    if not isinstance(features, np.ndarray):
        from scipy.sparse.linalg import lsmr

        left = ones - features @ lsmr(features, ones, atol=1e-10, btol=1e-10)[0]
    else:
        left = ones - features @ np.linalg.lstsq(features.astype(np.float64), ones)[0]
    return bool(np.abs(left).max() < _ROUNDING)


def with_constant(features: Any) -> Any:
    """The features with a column of ones in front."""
    ones = np.ones((features.shape[0], 1), features.dtype)
    if isinstance(features, np.ndarray):
        return np.hstack([ones, features])
    from scipy.sparse import csr_array, hstack

    return csr_array(hstack([ones, features]))


@dataclass(frozen=True, eq=False)
class Function(_Wrapped):
    """A function from observations, (n, k) or (n,) as given, to features (n, d), dense or sparse.

    It is called on the first 1000 observations in fit, and on all of them in one call in transform.

    Parameters
    ----------
    function : callable
        Takes observations, returns features.

    >>> import numpy as np
    >>> Function(lambda x: np.hstack([np.ones_like(x), x, x**3])).fit([[1.0], [2.0]]).transform([[2.0]])
    array([[1., 2., 8.]])
    """

    name: ClassVar[str] = "function"
    function: Any

    def _called(self) -> str:
        return f"the function {getattr(self.function, '__name__', type(self.function).__name__)}"

    def _title(self) -> str:
        return f"Features of {self._called()}"

    def _learn(self, table: Table) -> dict[str, Any]:
        for _ in table.chunks():
            pass
        return {"size": self._output(table.given[:_TRIAL_ROWS]).shape[1]}

    def _output(self, observations: Any) -> Any:
        return self._checked_output(self.function(observations), len(observations))


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
    inner = restore(entries_under(stored, "inner_"))
    kept = checks.numeric_array("kept", stored.get("kept", []), 1).astype(np.int64)
    columns = checks.whole_number("n_columns", stored.get("n_columns"), 1)
    if len(kept) != inner.n_columns or kept.min() < 0 or kept.max() >= columns:
        raise InputError(f"stored selected features: kept must name {inner.n_columns} of {columns} columns.")
    return Selected.of(inner, kept, columns)


def varying_columns(observations: Any) -> Integers:
    """The columns that are not constant, read chunk by chunk."""
    table = Table(observations)
    varies = np.zeros(table.n_columns, bool)
    for _, chunk in table.chunks():
        varies |= (chunk != table.array[0]).any(axis=0)
        if varies.all():
            break
    return np.flatnonzero(varies)


def fit_varying(features: Features, observations: Any) -> tuple[Features, str | None]:
    """The map, fitted to the columns that vary, and a note about the constant ones.

    If none varies, the map is fitted to all columns, which raises its own error.
    """
    columns = 1 if np.ndim(observations) == 1 else int(np.shape(observations)[1])
    kept = varying_columns(observations) if columns > 1 else np.zeros(1, np.int64)
    if len(kept) in (0, columns):
        return features.fit(observations), None
    constant = ", ".join(str(k) for k in range(columns) if k not in kept)
    said = f"observation column {constant} is the same in every row and tells nothing about the state: left out."
    return Selected.of(features.fit(observations[:, kept]), kept, columns), said
