"""`PolicyEvaluator`: an evaluation as an estimator of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.evaluation.evaluate import evaluate
from gradtd.evaluation.options import LogFormat
from gradtd.evaluation.report.result import Evaluation

if TYPE_CHECKING:
    BaseEstimator: Any = object
else:
    try:
        from sklearn.base import BaseEstimator
    except ImportError:

        class BaseEstimator:
            """Placeholder if scikit-learn is not installed."""

            def __new__(cls, *arguments: Any, **keywords: Any) -> Self:
                raise InputError("PolicyEvaluator needs scikit-learn: pip install gradtd[sklearn].")


STEP_COLUMNS = ("episode", "terminated", "truncated", "action", "behaviour", "target", "rho")
"""Optional step columns, one entry per row."""


class PolicyEvaluator(BaseEstimator):  # type: ignore[misc]
    """`gradtd.evaluate` with ``fit`` and ``predict``, for pipelines and scikit-learn users.

    ``fit(log)`` accepts any source of `gradtd.read_log`. ``fit(X, y, episode=...)`` takes observations and rewards, one
    row per step, and other columns. Without episodes, every row is an episode. Afterwards ``value_``, ``interval_``,
    ``verdict_`` and ``reasons_`` hold the result, ``evaluation_`` the whole `Evaluation`, and ``predict(X)`` gives the
    values of observations. Needs scikit-learn.

    Parameters
    ----------
    gamma
        The discount factor, 0 to 1. It has no default: ``fit`` raises an error if it is None.
    features, algorithm, target, behaviour, level, seed, log_format, inference, machine
        As in `gradtd.evaluate`.

    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> rng = np.random.default_rng(0)
    >>> episode, X = np.repeat(np.arange(200), 2), rng.normal(size=(400, 2))
    >>> steps = {"episode": episode, "terminated": np.tile([0, 1], 200), "rho": rng.choice([0.5, 1.5], 400)}
    >>> both = make_pipeline(StandardScaler(), PolicyEvaluator(gamma=0.9, features="identity"))
    >>> fitted = both.fit(X, rng.normal(1, 1, 400), **{f"policyevaluator__{name}": it for name, it in steps.items()})
    >>> low, high = fitted[-1].interval_
    >>> low < 1.9 < high, fitted.predict(X).shape
    (True, (400,))
    """

    def __init__(
        self,
        gamma: float | None = None,
        *,
        features: Any = None,
        algorithm: Any = "auto",
        target: Any = None,
        behaviour: Any = None,
        level: float = 0.95,
        seed: int = 0,
        log_format: Any = None,
        inference: Any = None,
        machine: Any = None,
    ) -> None:
        self.gamma = gamma
        self.features = features
        self.algorithm = algorithm
        self.target = target
        self.behaviour = behaviour
        self.level = level
        self.seed = seed
        self.log_format = log_format
        self.inference = inference
        self.machine = machine

    def fit(self, X: Any, y: Any = None, **steps: Any) -> Self:
        """Evaluate the target.

        Parameters
        ----------
        X
            A log, or observations, one row per step.
        y
            The rewards, one per step, if X are observations.
        **steps
            Other columns, one entry per step: episode, terminated, truncated, action, behaviour, target, rho.
        """
        log, how = (X, self.log_format) if y is None and not _is_matrix(X) else self._steps(X, y, steps)
        if y is None and steps:
            raise InputError(
                f"{', '.join(steps)}: a log already has these columns. Give them only with observations and rewards."
            )
        self.evaluation_: Evaluation = evaluate(
            log,
            self.target,
            self.gamma,
            features=self.features,
            algorithm=self.algorithm,
            behaviour=self.behaviour,
            level=self.level,
            seed=self.seed,
            progress=False,
            log_format=how,
            inference=self.inference,
            machine=self.machine,
        )
        self.value_, self.interval_ = self.evaluation_.value, self.evaluation_.interval
        self.verdict_, self.reasons_ = self.evaluation_.verdict, self.evaluation_.reasons
        return self

    def predict(self, X: Any) -> Floats:
        """The values of observations.

        Parameters
        ----------
        X
            Observations, as in ``fit``.
        """
        from sklearn.utils.validation import check_is_fitted, validate_data

        check_is_fitted(self, "evaluation_")
        if not hasattr(self, "n_features_in_"):  # fitted to a log
            return self.evaluation_(X)
        return self.evaluation_(validate_data(self, X, reset=False, dtype=np.float64))

    def summary(self) -> Any:
        """The summary of the evaluation."""
        return self.evaluation_.summary()

    def _steps(self, X: Any, y: Any, steps: dict[str, Any]) -> tuple[dict[str, Any], LogFormat]:
        """Observations, rewards and step columns as a log."""
        from sklearn.utils.validation import validate_data

        unknown = set(steps) - set(STEP_COLUMNS)
        if unknown:
            raise InputError(f"fit has no argument {unknown.pop()!r}: it takes X, y, {', '.join(STEP_COLUMNS)}.")
        seen, reward = validate_data(self, X, y, y_numeric=True, dtype=np.float64, ensure_min_samples=2)
        names = [f"obs_{place}" for place in range(seen.shape[1])]
        log = {name: seen[:, place] for place, name in enumerate(names)}
        log |= {"reward": np.asarray(reward, np.float64)} | {n: v for n, v in steps.items() if v is not None}
        if "rho" not in log and not {"behaviour", "target"} & log.keys() and self.target is None:
            log["rho"] = np.ones(len(seen))
        columns = {name: name for name in ("reward", *STEP_COLUMNS) if name in log} | {"observation": names}
        alone = True if "episode" not in log else None
        return log, LogFormat(columns=columns, one_step=alone)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True  # if X are observations
        return tags


def _is_matrix(X: Any) -> bool:
    """Whether this is an unnamed numeric array, that is, observations and not a log."""
    return isinstance(X, np.ndarray) and X.ndim <= 2 and X.dtype.names is None
