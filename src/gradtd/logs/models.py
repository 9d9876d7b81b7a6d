"""Wraps models of other libraries as functions of observations. They are recognised by their attributes, so no library
is imported.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core.checks import InputError
from gradtd.logs.column_names import listed


@dataclass(frozen=True, eq=False)
class Labelled:
    """Probabilities (n, k) of named actions."""

    values: Any
    labels: Sequence[Any]


def is_model(given: Any) -> bool:
    """Whether an object is a model: a scikit-learn estimator, a torch module, an agent."""
    return not isinstance(given, type) and (hasattr(given, "predict") or _is_module(given))


def as_function(name: str, given: Any, columns: Iterable[Sequence[str]] = ()) -> Callable[..., Any]:
    """Wrap a model as a function of observations. Other functions are returned unchanged.

    ``columns`` are the names of the observation's components, for models fitted to named columns.
    """
    if isinstance(given, type):
        raise InputError(f"{name} is the class {given.__name__}: give an instance, {given.__name__}(...).")
    if _is_module(given):
        return _Module(given)
    if hasattr(getattr(given, "policy", None), "obs_to_tensor"):
        return _Agent(given)
    if hasattr(given, "predict"):
        return _Estimator(name, given, tuple(tuple(one) for one in columns))
    return given  # type: ignore[no-any-return]


def _is_module(given: Any) -> bool:
    return any(kind.__module__.startswith("torch.nn") for kind in type(given).__mro__)


@dataclass(frozen=True, eq=False)
class _Module:
    """Wraps a torch network, which is called without gradients, in evaluation mode."""

    module: Any

    def __call__(self, observations: NDArray[Any]) -> Any:
        torch = sys.modules["torch"]
        first = next(iter(self.module.parameters()), None)
        given = {} if first is None else {"device": first.device}
        kind = torch.int64 if observations.dtype.kind in "iu" else torch.float32 if first is None else first.dtype
        training = self.module.training
        self.module.eval()
        try:
            with torch.no_grad():
                return self.module(torch.as_tensor(observations).to(dtype=kind, **given))
        finally:
            self.module.train(training)


@dataclass(frozen=True, eq=False)
class _Agent:
    """Wraps a Stable-Baselines3 agent: its probabilities if it has a distribution, else its best action.

    Called with observations and actions, it returns densities.
    """

    agent: Any

    def __call__(self, observations: NDArray[Any]) -> Any:
        found = self.distribution(observations)
        if found is not None and hasattr(found.distribution, "probs"):
            return found.distribution.probs
        return self.agent.predict(_narrow(observations), deterministic=True)[0]

    def densities(self, observations: NDArray[Any], actions: NDArray[Any]) -> Any:
        found, torch = self.distribution(observations), sys.modules["torch"]
        assert found is not None
        given = np.asarray(actions, np.float32).reshape(len(observations), -1)
        with torch.no_grad():
            return found.log_prob(torch.as_tensor(given)).exp()

    @property
    def random(self) -> bool:
        return hasattr(self.agent.policy, "get_distribution")

    def distribution(self, observations: NDArray[Any]) -> Any:
        if not self.random:
            return None
        with sys.modules["torch"].no_grad():
            return self.agent.policy.get_distribution(self.agent.policy.obs_to_tensor(_narrow(observations))[0])


def densities_of(given: Any) -> Callable[..., Any] | None:
    """A function (observations, actions) that returns the agent's densities."""
    if hasattr(getattr(given, "policy", None), "obs_to_tensor") and _Agent(given).random:
        return _Agent(given).densities
    return None


@dataclass(frozen=True, eq=False)
class _Estimator:
    """Wraps a model with ``predict`` and, if available, ``predict_proba``, as in scikit-learn and d3rlpy."""

    name: str
    model: Any
    columns: tuple[tuple[str, ...], ...]

    def __call__(self, observations: NDArray[Any]) -> Any:
        seen = self._columns(observations[:, None] if observations.ndim == 1 else observations)
        if hasattr(self.model, "predict_proba"):
            chances = self.model.predict_proba(seen)
            classes = getattr(self.model, "classes_", None)
            return chances if classes is None else Labelled(chances, list(classes))
        return self.model.predict(seen)

    def _columns(self, seen: NDArray[Any]) -> Any:
        """The columns the model was fitted to, by name if it has names."""
        wanted, known = getattr(self.model, "feature_names_in_", None), getattr(self.model, "n_features_in_", None)
        if wanted is not None:
            for names in self.columns:
                if len(names) == seen.shape[1] and set(wanted) <= set(names):
                    return _framed(seen[:, [names.index(one) for one in wanted]], wanted)
        if known is not None and known != seen.shape[1]:
            has = f" ({listed(wanted)})" if wanted is not None else ""
            raise InputError(
                f"{self.name} was fitted to {known} column{'s' * (known != 1)}{has}, and an observation of the log has "
                f"{seen.shape[1]} ({listed(self._known())}). Give its probabilities by row, "
                f"{self.name}=pandas.DataFrame(model.predict_proba(X), X.index, model.classes_)."
            )
        if wanted is not None:
            raise InputError(
                f"{self.name} was fitted to the columns {listed(wanted)}, and the log's columns are "
                f"{listed(self._known())}. Use the same names, or, if they are in the "
                f"same order, {self.name}=lambda s: model.predict_proba(s)."
            )
        return seen if known is not None else _narrow(seen)

    def _known(self) -> Sequence[str]:
        """The names of the log's columns, for a message."""
        return next((names for names in reversed(self.columns) if names), ())


def _framed(seen: NDArray[Any], names: Any) -> Any:
    try:
        import pandas
    except ImportError:
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return seen
    return pandas.DataFrame(seen, columns=list(names))


def _narrow(observations: NDArray[Any]) -> NDArray[Any]:
    """Cast to single precision, in which agents are trained."""
    return observations.astype(np.float32) if observations.dtype.kind == "f" else observations
