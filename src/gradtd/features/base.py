"""What every feature map has in common: fitting returns a new map, and transforming works chunk by chunk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats
from gradtd.core.checks import Check, InputError
from gradtd.features.table import Table

if TYPE_CHECKING:
    import scipy.sparse

FEATURE_LIMIT = 100_000
"""Maximum number of features of a map that lists every one of them."""


@dataclass(frozen=True, eq=False)
class Features:
    """A map from observations to features, made with `gradtd.make_features`.

    ``fit`` returns a new map with statistics (ranges, means, values) of a log's observations;
    ``transform`` applies it. A kind of map is a frozen dataclass whose fields are its parameters; it names the arrays
    that it learns, with their shapes, in ``LEARNED`` ("columns" means the number of columns, any other word a
    parameter, None any length), and defines ``_title``, ``_size``, ``_learn`` and ``_fill``. This class itself has no
    parameters.
    """

    name: ClassVar[str] = ""
    LEARNED: ClassVar[Mapping[str, tuple[str | None, ...]]] = {}
    CHECKS: ClassVar[Mapping[str, Check]] = {}
    learned: Mapping[str, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for parameter, check in self.CHECKS.items():
            object.__setattr__(self, parameter, check(parameter, getattr(self, parameter)))

    @classmethod
    def parameter_names(cls) -> list[str]:
        """The parameters that this kind takes."""
        return [f.name for f in fields(cls) if f.init]

    @property
    def fitted(self) -> bool:
        return bool(self.learned)

    @property
    def n_columns(self) -> int:
        """Number of columns of the observations it was fitted on."""
        return int(self._what_was_learned()["n_columns"])

    @property
    def n_features(self) -> int:
        return self._size(self.n_columns)

    def fit(self, observations: Any) -> Self:
        """A new map, fitted to observations (n, k) or (n,); cost: one or two passes in chunks."""
        table = Table(observations)
        self._check_size(table.n_columns)
        return self._with(self._learn(table) | {"n_columns": table.n_columns})

    def transform(self, observations: Any) -> Floats | scipy.sparse.csr_array:
        """The features of observations, one row each: a C-contiguous float64 array, or compressed sparse rows."""
        made = self.rows(observations)
        return made if made.dtype == np.float64 else made.astype(np.float64)

    def rows(self, observations: Any) -> Floats | scipy.sparse.csr_array:
        """`transform`, except that float32 from a function or a transformer stays float32, as a `Stream` stores it."""
        columns, table = self.n_columns, Table(observations)
        if table.n_columns != columns:
            raise InputError(
                f"{self.name} features were fitted on {columns} column{'s' * (columns > 1)} of observations and got "
                f"{table.n_columns}: give the same columns in the same order."
            )
        return self._transform(table)

    def describe(self) -> str:
        """A description in one sentence, without a full stop."""
        if not self.fitted:
            return f"{self._title()}, not fitted yet"
        return f"{self._title()} of {self.n_columns} observation{'s' * (self.n_columns > 1)}, {self.n_features} in all"

    def names(self) -> list[str]:
        """A name for every feature."""
        return [self.label(index) for index in range(self.n_features)]

    def label(self, index: int) -> str:
        """The name of one feature."""
        return f"feature {index}"

    def to_dict(self) -> dict[str, Any]:
        """Its name, its parameters and the fitted values: scalars, strings and arrays, for `from_dict`."""
        return {"name": self.name} | {p: getattr(self, p) for p in self.parameter_names()} | dict(self.learned)

    @classmethod
    def _restored(cls, stored: Mapping[str, Any]) -> Self:
        """The inverse of ``to_dict``; fitted values are checked like any other input."""
        values = {key: value for key, value in stored.items() if key != "name"}
        parameters, learned = cls.parameter_names(), [*cls.LEARNED, "n_columns"]
        for key in values:
            checks.known_name(f"entry of stored {cls.name} features", key, [*parameters, *learned])
        made = cls(**{key: value for key, value in values.items() if key in parameters})
        if not any(key in values for key in learned):
            return made
        missing = [key for key in learned if key not in values]
        if missing:
            raise InputError(
                f"stored {cls.name} features lack {', '.join(missing)}: store everything that to_dict returns."
            )
        columns = checks.whole_number("n_columns", values["n_columns"], 1)
        arrays = {key: made._restored_array(key, values[key], columns) for key in cls.LEARNED}
        made._check_size(columns)  # after the arrays, which determine the number of columns
        made._check_learned(arrays)
        return made._with(arrays | {"n_columns": columns})

    def _restored_array(self, key: str, value: Any, columns: int) -> Any:
        sizes = self.LEARNED[key]
        array = checks.numeric_array(key, value, len(sizes))
        array = array.astype(np.int64) if array.dtype.kind in "iu" else checks.finite_array(key, array, len(sizes))
        for size, found in zip(sizes, array.shape, strict=True):
            wanted = columns if size == "columns" else found if size is None else getattr(self, size)
            if found != wanted:
                raise InputError(f"stored {self.name} features: {key} needs {wanted} for {size}, got {found}.")
        return array

    def _with(self, learned: Mapping[str, Any]) -> Self:
        made = type(self)(**{p: getattr(self, p) for p in self.parameter_names()})
        for value in learned.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        object.__setattr__(made, "learned", dict(learned))
        return made

    def _what_was_learned(self) -> Mapping[str, Any]:
        if not self.fitted:
            raise InputError(f"{self.name} features are not fitted yet: call fit(observations) and use its result.")
        return self.learned

    def _transform(self, table: Table) -> Floats | scipy.sparse.csr_array:
        out = np.empty((table.n_rows, self.n_features))
        for start, chunk in table.chunks(self.n_features):
            self._fill(chunk, out[start : start + len(chunk)])
        return out

    def _check_learned(self, arrays: Mapping[str, Any]) -> None:
        """Refuse stored arrays that fitting cannot produce."""
        if "sd" in arrays and not (arrays["sd"] > 0).all():
            raise InputError(f"stored {self.name} features: sd must be greater than 0 in every column.")
        if "low" in arrays and not (arrays["low"] < arrays["high"]).all():
            raise InputError(f"stored {self.name} features: low must be below high in every column.")
        with np.errstate(over="ignore"):
            if "low" in arrays and not np.isfinite(arrays["high"] - arrays["low"]).all():
                raise InputError(f"stored {self.name} features: low and high are too far apart to be scaled.")

    def _check_size(self, n_columns: int) -> None:
        """Refuse more columns than this kind supports."""

    def _title(self) -> str:
        raise NotImplementedError

    def _size(self, n_columns: int) -> int:
        raise NotImplementedError

    def _learn(self, table: Table) -> dict[str, Any]:
        raise NotImplementedError

    def _fill(self, chunk: Floats, out: Floats) -> None:
        raise NotImplementedError
