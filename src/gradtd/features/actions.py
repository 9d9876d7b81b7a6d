"""Features of an observation and an action together, for action values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats, dense, entries_under
from gradtd.core.checks import InputError
from gradtd.features.base import Features

if TYPE_CHECKING:
    import scipy.sparse


@dataclass(frozen=True, eq=False)
class ActionFeatures(Features):
    """Every feature of the observation times every feature of the action.

    Discrete actions have one feature each, unless a map of actions is given. With a map a constant is added, so that
    the products include the features of the observation alone.

    Parameters
    ----------
    inner
        The fitted map of observations.
    of_action
        The fitted map of actions; None for one feature per action.
    n_actions
        Number of discrete actions; 0 for continuous ones.
    bias
        Whether to put a constant before the action features, if they contain none.
    """

    name: ClassVar[str] = "actions"
    inner: Features
    of_action: Features | None
    n_actions: int
    bias: bool

    @classmethod
    def of(cls, inner: Features, of_action: Features | None, n_actions: int, bias: bool = False) -> Self:
        """Combine two fitted maps."""
        return cls(inner, of_action, n_actions, bias)._with({"n_columns": inner.n_columns})

    @property
    def per_action(self) -> int:
        """Number of features of an action."""
        if self.of_action is None:
            return self.n_actions
        return self.of_action.n_features + self.bias

    def _size(self, n_columns: int) -> int:
        return self.inner.n_features * self.per_action

    def chosen(self, actions: Any) -> Floats:
        """Features of actions: (n, per_action)."""
        if self.of_action is None:
            codes = checks.whole_numbers("actions", actions)
            outside = (codes < 0) | (codes >= self.n_actions)
            checks.refuse_where("actions", outside, codes, f"must be 0 to {self.n_actions - 1}")
            return np.asarray(np.eye(self.n_actions)[codes])
        made = dense(self.of_action.transform(actions))
        return np.column_stack([np.ones(len(made)), made]) if self.bias else made

    def transform(self, observations: Any, actions: Any = None) -> Floats | scipy.sparse.csr_array:
        """The features of pairs, one row each."""
        if actions is None:
            raise InputError("these features depend on observations and actions: give both.")
        return row_products(self.inner.transform(observations), self.chosen(actions))

    def describe(self) -> str:
        of_action = "each action" if self.of_action is None else f"{self.per_action} features of the action"
        return f"{self.inner.describe()}, times {of_action}: {self.n_features}"

    def label(self, index: int) -> str:
        return f"{self.inner.label(index // self.per_action)}, action {index % self.per_action}"

    def to_dict(self) -> dict[str, Any]:
        parts = {"inner": self.inner} | ({} if self.of_action is None else {"action": self.of_action})
        told = {f"{part}_{key}": value for part, it in parts.items() for key, value in it.to_dict().items()}
        return {"name": self.name, "n_actions": self.n_actions, "bias": self.bias} | told


@dataclass(frozen=True, eq=False)
class PairFunction(Features):
    """A function of observations and actions that returns features (n, d).

    Parameters
    ----------
    function
        Takes observations and actions, returns features.
    """

    name: ClassVar[str] = "pair function"
    function: Any

    @classmethod
    def of(cls, function: Any, observations: Any, actions: Any) -> Self:
        """Wrap a function after one call, which shows how many features it returns."""
        columns = 1 if np.ndim(observations) == 1 else int(np.shape(observations)[1])
        made = cls(function)._with({"n_columns": columns})
        made.learned["size"] = made.transform(observations[:100], actions[:100]).shape[1]  # type: ignore[index]
        return made

    def _size(self, n_columns: int) -> int:
        return int(self.learned["size"])

    def transform(self, observations: Any, actions: Any = None) -> Floats | scipy.sparse.csr_array:
        """The features of pairs, one row each."""
        called = f"the function {getattr(self.function, '__name__', type(self.function).__name__)}"
        try:
            table = checks.feature_table(self.function(observations, actions))
        except InputError as error:
            raise InputError(f"{called} does not return features: {error}") from None
        if table.shape[0] != len(observations):
            raise InputError(f"{called} must return one row per pair, ({len(observations)}, d); got {table.shape}.")
        return table

    def describe(self) -> str:
        return f"{self.n_features} features of a function of observation and action"

    def to_dict(self) -> dict[str, Any]:
        """Raises an error: code cannot be stored."""
        raise InputError("a function of observations and actions cannot be stored, because it is code.")


def restore_actions(stored: Mapping[str, Any], restore: Any) -> ActionFeatures:
    """The map that `ActionFeatures.to_dict` described; ``restore`` makes the maps inside."""
    n_actions = checks.whole_number("n_actions", stored.get("n_actions"), 0)
    of_action = entries_under(stored, "action_")
    inner, bias = restore(entries_under(stored, "inner_")), checks.yes_or_no("bias", stored.get("bias"))
    return ActionFeatures.of(inner, restore(of_action) if of_action else None, n_actions, bias)


def row_products(x: Any, mix: Floats) -> Any:
    """Every column of x times every column of mix, row by row: column j K + k is x_j mix_k; sparse where x is.

    >>> row_products(np.array([[1.0, 2.0]]), np.array([[3.0, 0.0]])).tolist()
    [[3.0, 0.0, 6.0, 0.0]]
    """
    n, K = mix.shape
    if isinstance(x, np.ndarray):
        return np.ascontiguousarray((x[:, :, None] * mix[:, None, :]).reshape(n, x.shape[1] * K))
    from scipy.sparse import csr_array

    x = x.tocsr()
    rows = np.repeat(np.arange(n), np.diff(x.indptr))
    values = (x.data[:, None] * mix[rows]).ravel()
    columns = (x.indices.astype(np.int64)[:, None] * K + np.arange(K)).ravel()
    there = values != 0
    placed = (values[there], (np.repeat(rows, K)[there], columns[there]))
    return csr_array(placed, shape=(n, x.shape[1] * K))
