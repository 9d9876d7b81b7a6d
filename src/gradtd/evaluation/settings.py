"""The settings of an evaluation: the record that carries them, and what is refused before a log is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradtd.algorithms import ALGORITHMS, as_algorithm
from gradtd.compiled.traces import Tracing
from gradtd.core import checks
from gradtd.core.algorithm import Algorithm
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.evaluation.limits import DEFAULT, Limits
from gradtd.evaluation.report.estimate import AUTO, COMPUTED, ESTIMATORS, NETWORK
from gradtd.running.settings import refuse_traces

STATE, ACTION = "state", "action"
"""What values are of. Those of actions need no ratios."""
FEWEST_PERCENTILES = 200
"""Refits that percentiles need: 5 of them lie beyond each end of a 95 % interval."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that was asked of an evaluation, the same for every target; see `gradtd.evaluate` for the fields."""

    gamma: float
    algorithm: Algorithm | str = AUTO
    hyper: Mapping[str, Any] = field(default_factory=dict)
    features: Any = None
    values: str = STATE
    action_features: Any = None
    samples: int = 20
    tracing: Tracing | None = None
    behaviour: Any = None
    clip: float | None = None
    level: float = 0.95
    resamples: int | None = None
    interval: str = "student"
    own_refits: bool | None = None
    updates: int | None = None
    block: int | None = None
    whiten: bool = True
    columns: Mapping[str, Any] | None = None
    log_probabilities: str = "refuse"
    duplicates: str = "refuse"
    one_step: bool | None = None
    actions: Sequence[Any] | None = None
    time_limit: int | None = None
    missing: str = "refuse"
    sums: Path | None = None
    anytime: bool = False
    seed: int = 0
    threads: int = 1
    limits: Limits = DEFAULT

    @property
    def reading(self) -> dict[str, Any]:
        """What `gradtd.read_log` is told."""
        names = ("columns", "log_probabilities", "duplicates", "one_step", "actions", "time_limit", "missing")
        return {name: getattr(self, name) for name in names}

    @property
    def pair_function(self) -> Any:
        """A function of observations and actions, where that is what was given as features of actions."""
        given = self.action_features
        return given if callable(given) and not hasattr(given, "transform") else None

    @property
    def of_traces(self) -> dict[str, Any]:
        """Hyper-parameters of the traces asked for."""
        if self.tracing is None:
            return {}
        named = {} if self.tracing.kind == "rho" else {"trace": self.tracing.kind}  # some rules have another default
        return {"lam": self.tracing.lam} | named

    @property
    def method(self) -> str:
        return self.algorithm if isinstance(self.algorithm, str) else self.algorithm.name

    @property
    def computed(self) -> bool:
        """Whether the method computes its value in closed form, where others make updates."""
        return self.method in COMPUTED


def known_method(algorithm: Algorithm | str, hyper: Mapping[str, Any], lam: float = 0.0) -> Algorithm | str:
    """A rule or the name of one or of an estimator; refused where it is neither, or takes no hyper-parameters."""
    if not isinstance(algorithm, str | Algorithm):
        raise InputError(f"algorithm must be a name or an Algorithm, got {type(algorithm).__name__}.")
    method = algorithm
    if isinstance(algorithm, str):
        method = checks.known_name("algorithm", algorithm, [*ALGORITHMS, *COMPUTED])
    name = method if isinstance(method, str) else method.name
    if hyper and name in COMPUTED:
        raise InputError(f"{name} takes no hyper-parameters here, got {', '.join(hyper)}.")
    if lam > 0 and name in COMPUTED and name not in (AUTO, "lstd"):
        other = "algorithm='auto' or algorithm='lstd'"
        raise InputError(f"{name} has no traces, got lam={lam:g}: leave it out, or take {other}.")
    if lam > 0 and name not in COMPUTED:
        refuse_traces(as_algorithm(method), lam)
    return method


def refuse_unknown_chances(settings: Settings, chances: Floats | None) -> None:
    if settings.tracing is not None and settings.tracing.kind == "tree" and chances is None:
        raise InputError(
            "trace='tree' needs the target's probability of every action taken, and the log has ratios or densities "
            "only: give the target as a policy or as probabilities, or choose trace='rho' or trace='clipped'."
        )


def refuse_without_ratios(settings: Settings) -> None:
    """Values of actions have no ratios to multiply or to clip, and traces of ratios up to 1."""
    if settings.values == STATE:
        if settings.action_features is not None:
            raise InputError("a map of actions is for values of actions: give values='action' with it.")
        return
    if isinstance(settings.features, str) and settings.features == NETWORK:
        raise InputError("features='network' learns values of observations: leave out values='action', or the network.")
    if settings.method in ESTIMATORS:
        raise InputError(
            f"values='action' has ratio 1 everywhere, and no use for {settings.method}: leave one of them out."
        )
    if settings.clip is not None:
        raise InputError(
            "values='action' has ratio 1 everywhere, and no use for clip: leave it out; its traces have no ratio above "
            "1 either."
        )
    if settings.tracing is not None and settings.tracing.kind == "rho":
        raise InputError(
            "with values='action' the equations hold with any trace, and ratios above 1 only add variance: choose "
            "trace='tree', which needs the target's probabilities only, or trace='clipped' where the behaviour's are "
            "known, too."
        )


def refuse_without_influences(settings: Settings) -> None:
    """Importance sampling has no influences that were checked, and no answers that are made of them."""
    if settings.anytime and settings.method in ESTIMATORS:
        raise InputError(
            f"anytime=True needs the influences of the direct solution, and algorithm={settings.method!r} has none: "
            "leave one of them out."
        )


def refuse_few_percentiles(settings: Settings) -> None:
    """Percentiles of a handful of refits are far too close together."""
    if settings.interval == "percentile" and settings.resamples is not None and settings.resamples < FEWEST_PERCENTILES:
        raise InputError(
            f"interval='percentile' needs at least {FEWEST_PERCENTILES} resamples, got {settings.resamples}: its ends "
            "are the refits furthest out, and few refits do not get there; give more, or interval='student'."
        )


def level_of(level: Any) -> float:
    if not 0 < checks.number("level", level) < 1:
        raise InputError(f"level must lie between 0 and 1, for example 0.95, got {level!r}.")
    return float(level)
