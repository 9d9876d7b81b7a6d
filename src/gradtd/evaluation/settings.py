"""The settings of an evaluation, and the checks made before a log is read."""

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
"""Kinds of value functions. Action values need no ratios."""
VALUE_FUNCTIONS = (AUTO, STATE, ACTION)


@dataclass(frozen=True, kw_only=True)
class Settings(LogFormat, Inference, Machine):
    """All settings of an evaluation, shared by all targets: the three records and derived values.

    See `gradtd.evaluate` for the fields.
    """

    gamma: float
    algorithm: Algorithm | str = AUTO
    hyper: Mapping[str, Any] = field(default_factory=dict)
    features: Any = None
    value_function: str = STATE
    chooses_values: bool = False  # whether the value may be that of action values
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
        """Arguments of `gradtd.read_log`."""
        return {name: getattr(self, name) for name in names_of(LogFormat)}

    @property
    def most_discount(self) -> float:
        """The largest possible discount of a step: gamma, or 1 if steps can take any time."""
        return self.gamma if self.time_column is None else 1.0

    @property
    def tracing(self) -> Tracing | None:
        """The requested traces, or None."""
        return Tracing(float(self.lam), self.trace) if self.lam > 0 else None

    def with_trace(self, tracing: Tracing | None) -> Settings:
        """A copy with other traces."""
        return self if tracing is None else replace(self, lam=tracing.lam, trace=tracing.kind)

    @property
    def pair_function(self) -> Any:
        """The user's function of observations and actions, if given as features of actions."""
        given = self.action_features
        return given if callable(given) and not hasattr(given, "transform") else None

    @property
    def of_traces(self) -> dict[str, Any]:
        """Hyper-parameters of the requested traces."""
        if self.tracing is None:
            return {}
        # some rules have a different default
        named = {} if self.tracing.kind == "rho" else {"trace": self.tracing.kind}
        return {"lam": self.tracing.lam} | named

    @property
    def method(self) -> str:
        return self.algorithm if isinstance(self.algorithm, str) else self.algorithm.name

    @property
    def computed(self) -> bool:
        """Whether the method has a closed form, unlike rules that make updates."""
        return self.method in COMPUTED


def known_method(algorithm: Algorithm | str, lam: float = 0.0) -> Algorithm | str:
    """Check that this is a rule, or the name of a rule or estimator."""
    if not isinstance(algorithm, str | Algorithm):
        raise InputError(f"algorithm must be a name or an Algorithm, got {type(algorithm).__name__}.")
    method = algorithm
    if isinstance(algorithm, str):
        method = checks.known_name("algorithm", algorithm, [*ALGORITHMS, *COMPUTED])
    name = method if isinstance(method, str) else method.name
    if lam > 0 and name in COMPUTED and name not in (AUTO, "lstd"):
        other = "algorithm='auto' or algorithm='lstd'"
        raise InputError(f"{name} has no traces, got lam={lam:g}: leave it out, or use {other}.")
    if lam > 0 and name not in COMPUTED:
        refuse_traces(as_algorithm(method), lam)
    return method


def refuse_unknown(settings: Settings) -> None:
    """Refuse an unknown keyword and suggest the nearest one."""
    own = {} if settings.computed else parameters(as_algorithm(settings.algorithm))
    words = set(names_of(Settings)) - {"hyper", "limits", "chooses_values"} | {"target", "progress"}
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
            "trace='tree' needs the target's probability of every action taken, but the log has only ratios or "
            "densities: give the target as a policy or as probabilities, or choose trace='rho' or trace='clipped'."
        )


def refuse_without_ratios(settings: Settings) -> None:
    """Refuse options about ratios for action values, and traces with ratios above 1."""
    if settings.value_function == STATE:
        if settings.action_features is not None:
            raise InputError("action_features needs action values: add value_function='action'.")
        return
    if settings.history > 1 or settings.with_time or settings.since is not None:
        raise InputError(
            "history, with_time and since need state values: leave out either them or value_function='action'."
        )
    if isinstance(settings.features, str) and settings.features == NETWORK:
        raise InputError(
            "features='network' learns state values: leave out either value_function='action' or the network."
        )
    if settings.method in ESTIMATORS:
        raise InputError(
            f"value_function='action' does not use ratios, but {settings.method} does: leave one of them out."
        )
    if settings.clip is not None:
        raise InputError(
            "value_function='action' does not use ratios, so clip has no effect: leave it out. Its traces have no "
            "ratio above 1."
        )
    if settings.tracing is not None and settings.tracing.kind == "rho":
        raise InputError(
            "with value_function='action' the equations hold with any trace, and ratios above 1 only add variance: "
            "choose trace='tree', which needs only the target's probabilities, or trace='clipped' if the "
            "behaviour's are also known."
        )


def refuse_beside_clusters(settings: Settings) -> None:
    """Refuse clusters except for the direct solution of state values."""
    if settings.cluster is None:
        return
    if settings.method != AUTO or settings.value_function != STATE:
        raise InputError(
            "cluster needs algorithm='auto' and value_function='state', whose interval comes from influences: leave "
            "cluster out, or use these."
        )
    for name in ("by", "confounding", "block_length"):
        if getattr(settings, name) is not None:
            raise InputError(f"cluster and {name} cannot be combined: leave one of them out.")
    if settings.anytime:
        raise InputError("anytime=True needs independent episodes: leave out anytime or cluster.")


def refuse_without_influences(settings: Settings) -> None:
    """Refuse additional answers for importance sampling, which has no checked influences."""
    asked = [name for name in ("anytime", "confounding", "by") if getattr(settings, name) not in (None, False)]
    if asked and settings.method in ESTIMATORS:
        raise InputError(
            f"{asked[0]} needs the influences of the direct solution, but algorithm={settings.method!r} has none: "
            "leave one of them out."
        )
    if settings.confounding is not None and settings.tracing is not None:
        raise InputError("confounding supports only values without traces: leave lam or confounding out.")
