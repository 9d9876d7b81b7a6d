"""What a run leaves, and how it is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.core.stream import Stream
from gradtd.problems.base import Problem
from gradtd.problems.metrics import METRICS, cached_exact


@dataclass(frozen=True, eq=False)
class Result:
    """What a run leaves: weights at the snapshots, and what is needed to run it again.

    ``thetas`` has shape (runs, snapshots, features), for `gradtd.learn` (snapshots, features);
    ``steps`` the step numbers of the snapshots; ``diverged_at`` for each run the step at which it
    was found diverged, -1 where it was not. From then on the run is frozen. (With d >= 1000 features the
    weights are looked at every 1 + d // 1000 steps and after the last one.) ``alphas`` has shape (runs,
    snapshots), for `gradtd.learn` (snapshots,): the step-size of the latest update, NaN before the first
    and for an algorithm without one. ``hyper`` holds every hyper-parameter, ``given`` the names of those
    that were not left at their default.
    """

    thetas: Floats
    steps: Integers
    diverged_at: Integers
    problem: str
    algorithm: str
    hyper: Mapping[str, Any]
    given: tuple[str, ...]
    seed: int
    versions: Mapping[str, str]
    source: Problem | Stream
    alphas: Floats

    @property
    def theta(self) -> Floats:
        """The weights at the last snapshot."""
        return np.asarray(self.thetas[..., -1, :])

    @property
    def diverged(self) -> int:
        """How many runs diverged."""
        return int((self.diverged_at >= 0).sum())

    def __repr__(self) -> str:
        return (
            f"Result({self.label} on {self.problem}, seed {self.seed}: "
            f"thetas {self.thetas.shape}, {self.diverged} diverged)"
        )

    @property
    def label(self) -> str:
        """The algorithm and the hyper-parameters that were given."""
        shown = {name: self.hyper.get(name) for name in self.given}
        settings = ", ".join(f"{k}={'...' if isinstance(v, np.ndarray) else v}" for k, v in shown.items())
        return f"{self.algorithm}({settings})" if settings else self.algorithm


def measure(result: Result, metric: str | Callable[..., Floats] = "rmsve", **options: Any) -> Floats:
    """A metric of a result's weights: shape (runs, snapshots).

    >>> import gradtd
    >>> result = gradtd.run("boyan_chain", "lstd", runs=3, steps=2000, snapshots=1000)
    >>> gradtd.measure(result, "rmsve").shape
    (3, 2)
    """
    if not isinstance(result, Result):
        raise InputError(f"measure takes one Result of gradtd.run, got {type(result).__name__}.")
    if not isinstance(result.source, Problem):
        raise InputError("the exact metrics need a problem; for a stream see empirical_neu.")
    if not callable(metric):
        metric = METRICS[checks.known_name("metric", metric, METRICS)]
    return metric(cached_exact(result.source), result.thetas, **options)
