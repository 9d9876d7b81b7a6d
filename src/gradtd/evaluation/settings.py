"""The settings of an evaluation: the record that carries them, and what is refused before a log is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gradtd.algorithms import ALGORITHMS, as_algorithm
from gradtd.compiled.traces import Tracing
from gradtd.core import checks
from gradtd.core.algorithm import Algorithm
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.evaluation.limits import DEFAULT, Limits
from gradtd.evaluation.options import Inference, LogFormat, Machine, names_of, spelled
from gradtd.evaluation.report.estimate import AUTO, COMPUTED, ESTIMATORS, NETWORK
from gradtd.running.settings import parameters, refuse_traces

STATE, ACTION = "state", "action"
"""What values are of. Those of actions need no ratios."""


@dataclass(frozen=True, kw_only=True)
class Settings(LogFormat, Inference, Machine):
    """Everything that was asked of an evaluation, the same for every target: the three records and what follows.

    See `gradtd.evaluate` for the fields.
    """

    gamma: float
    algorithm: Algorithm | str = AUTO
    hyper: Mapping[str, Any] = field(default_factory=dict)
    features: Any = None
    value_function: str = STATE
    behaviour: Any = None
    level: float = 0.95
    seed: int = 0
    threads: int = 1
    limits: Limits = DEFAULT

    def __post_init__(self) -> None:
        Inference.__post_init__(self)
        Machine.__post_init__(self)

    @property
    def reading(self) -> dict[str, Any]:
        """What `gradtd.read_log` is told."""
        return {name: getattr(self, name) for name in names_of(LogFormat)}

    @property
    def most_discount(self) -> float:
        """The largest discount that a step can have: gamma, or 1 where steps may take any time."""
        return self.gamma if self.time_column is None else 1.0

    @property
    def tracing(self) -> Tracing | None:
        """The traces asked for; None where there are none."""
        return Tracing(float(self.lam), self.trace) if self.lam > 0 else None

    def with_trace(self, tracing: Tracing | None) -> Settings:
        """The same with other traces."""
        return self if tracing is None else replace(self, lam=tracing.lam, trace=tracing.kind)

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


def known_method(algorithm: Algorithm | str, lam: float = 0.0) -> Algorithm | str:
    """A rule or the name of one or of an estimator; refused where it is neither."""
    if not isinstance(algorithm, str | Algorithm):
        raise InputError(f"algorithm must be a name or an Algorithm, got {type(algorithm).__name__}.")
    method = algorithm
    if isinstance(algorithm, str):
        method = checks.known_name("algorithm", algorithm, [*ALGORITHMS, *COMPUTED])
    name = method if isinstance(method, str) else method.name
    if lam > 0 and name in COMPUTED and name not in (AUTO, "lstd"):
        other = "algorithm='auto' or algorithm='lstd'"
        raise InputError(f"{name} has no traces, got lam={lam:g}: leave it out, or take {other}.")
    if lam > 0 and name not in COMPUTED:
        refuse_traces(as_algorithm(method), lam)
    return method


def refuse_unknown(settings: Settings) -> None:
    """Refuse a keyword that is neither an option nor a hyper-parameter, and name what was meant."""
    own = {} if settings.computed else parameters(as_algorithm(settings.algorithm))
    words = set(names_of(Settings)) - {"hyper", "limits"} | {"target", "progress"}
    options = {word: repr(word) for word in words} | spelled()
    for name in settings.hyper.keys() - own.keys():
        near = None if checks.meant_argument(name, own) else checks.meant_argument(name, options)
        if near:
            raise InputError(f"evaluate has no argument {name!r}: did you mean {options[near]}?")
        if settings.computed:
            raise InputError(f"{settings.method} takes no hyper-parameters here, got {', '.join(settings.hyper)}.")
        checks.known_name(f"hyper-parameter of {settings.method}", name, own)


def refuse_unknown_chances(settings: Settings, chances: Floats | None) -> None:
    if settings.tracing is not None and settings.tracing.kind == "tree" and chances is None:
        raise InputError(
            "trace='tree' needs the target's probability of every action taken, and the log has ratios or densities "
            "only: give the target as a policy or as probabilities, or choose trace='rho' or trace='clipped'."
        )


def refuse_without_ratios(settings: Settings) -> None:
    """Values of actions have no ratios to multiply or to clip, and traces of ratios up to 1."""
    if settings.value_function == STATE:
        if settings.action_features is not None:
            raise InputError("a map of actions is for values of actions: give value_function='action' with it.")
        return
    if settings.history > 1 or settings.with_time or settings.since is not None:
        raise InputError(
            "history, with_time and since are for values of observations: leave them out, or value_function='action'."
        )
    if isinstance(settings.features, str) and settings.features == NETWORK:
        raise InputError(
            "features='network' learns values of observations: leave out value_function='action', or the network."
        )
    if settings.method in ESTIMATORS:
        raise InputError(
            f"value_function='action' has ratio 1 everywhere, and no use for {settings.method}: leave one of them out."
        )
    if settings.clip is not None:
        raise InputError(
            "value_function='action' has ratio 1 everywhere, and no use for clip: leave it out; its traces have no "
            "ratio above 1 either."
        )
    if settings.tracing is not None and settings.tracing.kind == "rho":
        raise InputError(
            "with value_function='action' the equations hold with any trace, and ratios above 1 only add variance: "
            "choose trace='tree', which needs the target's probabilities only, or trace='clipped' where the "
            "behaviour's are known, too."
        )


def refuse_beside_clusters(settings: Settings) -> None:
    """Clusters are known to the direct solution of values of observations."""
    if settings.cluster is None:
        return
    if settings.method != AUTO or settings.value_function != STATE:
        raise InputError(
            "cluster needs algorithm='auto' and value_function='state', whose interval is made of influences: leave it "
            "out, or the others."
        )
    for name in ("by", "confounding", "block_length"):
        if getattr(settings, name) is not None:
            raise InputError(f"cluster and {name} are about episodes in different ways: leave one of them out.")
    if settings.anytime:
        raise InputError("anytime=True takes episodes as independent: leave it out, or cluster.")


def refuse_without_influences(settings: Settings) -> None:
    """Importance sampling has no influences that were checked, and no answers that are made of them."""
    asked = [name for name in ("anytime", "confounding", "by") if getattr(settings, name) not in (None, False)]
    if asked and settings.method in ESTIMATORS:
        raise InputError(
            f"{asked[0]} needs the influences of the direct solution, and algorithm={settings.method!r} has none: "
            "leave one of them out."
        )
    if settings.confounding is not None and settings.tracing is not None:
        raise InputError("confounding bounds values without traces: leave lam or confounding out.")


def level_of(level: Any) -> float:
    if not 0 < checks.number("level", level) < 1:
        raise InputError(f"level must lie between 0 and 1, for example 0.95, got {level!r}.")
    return float(level)
