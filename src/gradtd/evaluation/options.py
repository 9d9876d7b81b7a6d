"""The options of `gradtd.evaluate` in three groups: how the log is read, how the value is computed, and where.

Each option is defined once here, with its default, check and description. `Settings` contains the fields of all three.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from gradtd.compiled.traces import KINDS
from gradtd.core import checks
from gradtd.core.checks import InputError

MOST_RESAMPLES = 10_000
FEWEST_PERCENTILES = 200
"""Minimum number of refits for percentiles: 5 of them lie beyond each end of a 95 % interval."""


MOST_HISTORY = 100
"""Maximum history: every additional observation adds its columns again."""


@dataclass(frozen=True, kw_only=True)
class LogFormat:
    """How a log is read: ``evaluate(..., log_format=LogFormat(columns={"reward": "r"}))``.

    The fields are keywords of `gradtd.read_log`, which describes them in detail. An existing `Log` is not
    read again.

    Parameters
    ----------
    columns
        The roles of columns whose names are not recognised: gradtd's names mapped to the table's.
    log_probabilities
        "convert" if probability columns contain logarithms; by default such columns are refused.
    duplicates
        "drop" drops duplicate rows; by default they are refused.
    one_step
        True if every row is a whole episode, as in the log of a bandit.
    actions
        All actions in the order of the probabilities.
    time_limit
        The environment's step limit: an end at exactly that step counts as truncated.
    missing
        Missing values: "refuse" them, "drop" the rows, or mark them in extra columns ("indicator").

    >>> LogFormat(time_limit=200)
    LogFormat(time_limit=200)
    """

    columns: Mapping[str, Any] | None = None
    log_probabilities: str = "refuse"
    duplicates: str = "refuse"
    one_step: bool | None = None
    actions: Sequence[Any] | None = None
    time_limit: int | None = None
    missing: str = "refuse"

    def __repr__(self) -> str:
        return changed_fields(self)


@dataclass(frozen=True, kw_only=True)
class Inference:
    """How a value and its interval are computed: ``evaluate(..., inference=Inference(lam=0.8))``.

    Parameters
    ----------
    lam
        Decay of eligibility traces, from 0 (none) to 1. Above 0 the value, its interval and its checks use the
        equations with traces; least squares without traces is shown next to it.
    trace
        The ratio in a trace: "rho", "clipped" (at 1), or "tree" (the target's probability of the action taken). With
        action values "tree" does not need the behaviour's probabilities.
    clip
        Maximum importance ratio: clipping reduces variance and adds bias.
    resamples
        Bootstrap samples of whole episodes, 100 by default. The direct solution takes its interval from the checks, and
        uses the samples only for the comparison rows. If this is given, an algorithm, or lstd, is refitted on each of
        them; 0 uses the sandwich error of least squares instead.
    interval_method
        How refits become an interval. "student": value -+ t times their standard deviation. "percentile": their
        quantiles, for 200 refits or more.
    anytime
        Whether to add an interval that is valid at every look at a growing log, ``result.anytime``. See
        ``docs/assumptions.md``.
    confounding
        A factor above 1 by which an unrecorded cause may change the odds of every action: ``result.confounding`` has
        the interval for such a cause, and the strength at which the interval contains ``against``.
    against
        A number, or "behaviour" for the value of the behaviour policy, the default for state values; for action values
        the default is zero.
    by
        A column whose value in the first row of an episode names its group: ``result.groups`` has the value of each
        group's starts, with simultaneous intervals.
    cluster
        A column whose value names the cluster of an episode, such as its hospital. Influences are summed by cluster
        before the variance, so that episodes of one cluster may depend on each other.
    trained_on
        The episodes that the target was learned from: a column of 0 and 1, or a list of ids of episodes. The value is
        computed on the others.
    time_column
        A column of times: gamma is then per unit of time, and steps that last longer are discounted more.
    own_refits
        Whether an algorithm takes its interval from its own refits. By default only if resamples are given.
    history
        Number of past observations to use as one, with the actions between them. For logs whose observations hide part
        of the state. The target and the behaviour policy still receive only the last one.
    with_time
        Whether to add the time since the start to the observation.
    since
        Evaluate the later part of the log: episodes from this number on, or a share of them at the end (0.5 for the
        second half). For logs that drift.
    block_length
        Number of steps that count as one independent piece, for logs of one long episode.
    n_updates
        Number of updates of an algorithm. By default it continues until its value no longer changes.
    whiten
        Whether to learn on whitened features (C = I). The features represent the same values, and step-sizes become
        comparable.
    action_features
        For action values: the map of actions whose features are multiplied with those of the observations. By default
        one feature per discrete action, and polynomials of order 2 for continuous actions. Or a function of
        observations and actions that returns all features.
    action_samples
        Number of actions sampled per state to average over a stochastic policy with continuous actions.

    >>> Inference(lam=0.8, trace="clipped")
    Inference(lam=0.8, trace='clipped')
    """

    lam: float = 0.0
    trace: str = "rho"
    clip: float | None = None
    resamples: int | None = None
    interval_method: str = "student"
    anytime: bool = False
    confounding: float | None = None
    against: float | str | None = None
    by: Any = None
    cluster: Any = None
    trained_on: Any = None
    time_column: str | None = None
    own_refits: bool | None = None
    history: int = 1
    with_time: bool = False
    since: float | None = None
    block_length: int | None = None
    n_updates: int | None = None
    whiten: bool = True
    action_features: Any = None
    action_samples: int = 20

    def __post_init__(self) -> None:
        checks.fraction("lam", self.lam)
        checks.one_of("trace", self.trace, KINDS)
        checks.one_of("interval_method", self.interval_method, ("student", "percentile"))
        checks.yes_or_no("anytime", self.anytime)
        if self.confounding is not None:
            checks.number_above("confounding", self.confounding, 1)
        if self.against is not None and self.against != "behaviour":
            checks.number("against", self.against)
        if self.against is not None and self.confounding is None:
            raise InputError(
                "against is the value that the interval with confounding is compared with: also give confounding, such "
                "as "
                "confounding=1.5."
            )
        checks.whole_number("action_samples", self.action_samples, 1)
        checks.whole_number("history", self.history, 1, MOST_HISTORY)
        checks.yes_or_no("with_time", self.with_time)
        if self.since is not None and checks.number("since", self.since) < 0:
            raise InputError(f"since must be the number of an episode, or a share below 1, got {self.since!r}.")
        if self.own_refits is not None and not isinstance(self.own_refits, bool):
            raise InputError(f"own_refits must be True or False, got {self.own_refits!r}.")
        for name, least, most in (("resamples", 0, MOST_RESAMPLES), ("block_length", 1, None), ("n_updates", 1, None)):
            if (given := getattr(self, name)) is not None:
                checks.whole_number(name, given, least, most)
        refuse_few_percentiles(self)

    def __repr__(self) -> str:
        return changed_fields(self)


def refuse_few_percentiles(inference: Inference) -> None:
    """Refuse percentiles of a few refits, which are much too close together."""
    given = inference.resamples
    if inference.interval_method == "percentile" and given is not None and given < FEWEST_PERCENTILES:
        raise InputError(
            f"interval_method='percentile' needs at least {FEWEST_PERCENTILES} resamples, got {given}: with few "
            f"refits its ends are too close together. Give more, or interval_method='student'."
        )


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Where an evaluation runs: ``evaluate(..., machine=Machine(threads=4))``.

    Parameters
    ----------
    threads
        Number of threads; by default one for each core.
    in_parts
        Whether a Parquet log is read part by part, so that memory does not depend on its length. By default this is so
        if it contains more than 2e8 numbers. The interval then comes from groups of episodes.
    checkpoint
        A folder that saves fitted features and the sums of every part of a Parquet log read in parts. After a kill, the
        evaluation continues from there. If files were added to the log, only those are read, with the features of the
        first run. See ``docs/large-logs.md``.
    scheduler
        The address of a Dask scheduler whose workers read the parts, or ``"local:2"`` for two processes.

    >>> Machine(threads=4)
    Machine(threads=4)
    """

    threads: int | None = None
    in_parts: bool | None = None
    checkpoint: str | Path | None = None
    scheduler: str | None = None

    def __post_init__(self) -> None:
        if self.in_parts is not False:
            return
        if self.scheduler is not None:
            raise InputError(
                "a scheduler needs a log that is read in parts: leave out in_parts=False, or the scheduler."
            )
        if self.checkpoint is not None:
            raise InputError(
                "a checkpoint needs a log that is read in parts: leave out in_parts=False, or the checkpoint."
            )

    def __repr__(self) -> str:
        return changed_fields(self)


GROUPS: dict[str, type] = {"log_format": LogFormat, "inference": Inference, "machine": Machine}
"""The records, by the keyword of `gradtd.evaluate` that takes them."""
RENAMED = {
    "values": "value_function",
    "interval": "interval_method",
    "block": "block_length",
    "updates": "n_updates",
    "samples": "action_samples",
    "sums": "checkpoint",
}
"""Keywords of `gradtd.evaluate` that have been renamed."""
Record = TypeVar("Record", LogFormat, Inference, Machine)


def group_of(option: str) -> str | None:
    """The keyword of the group that has this option."""
    return next((group for group, record in GROUPS.items() if option in names_of(record)), None)


def names_of(record: Any) -> list[str]:
    return [one.name for one in fields(record)]


def changed_fields(record: Any) -> str:
    """A group as a call would create it, with the fields that differ from their defaults."""
    given = [f"{one.name}={getattr(record, one.name)!r}" for one in fields(record) if _changed(record, one)]
    return f"{type(record).__name__}({', '.join(given)})"


def _changed(record: Any, one: Any) -> bool:
    value = getattr(record, one.name)
    return value is not one.default and not (isinstance(value, (str, int, float)) and value == one.default)


def record_of(kind: type[Record], name: str, given: Any, old: Mapping[str, Any]) -> Record:
    """The given group of options, or the default group, with the options that came as old keywords."""
    if given is not None and not isinstance(given, kind):
        raise InputError(
            f"{name} must be of the class {kind.__name__}, {name}={kind.__name__}(...), got {type(given).__name__}."
        )
    return replace(given or kind(), **old)


def take_old_keywords(given: dict[str, Any], stacklevel: int) -> dict[str, dict[str, Any]]:
    """Remove the old keywords of `gradtd.evaluate` from ``given``. Returns their options and values by group."""
    taken: dict[str, dict[str, Any]] = {group: {} for group in ("", *GROUPS)}
    said = []
    for name in list(given):
        option = RENAMED.get(name, name)
        group = group_of(option)
        if group is None and name not in RENAMED:
            continue
        taken[group or ""][option] = given.pop(name)
        said.append(f"{name}= is now {spelled().get(option, option + '=')}")
    if said:
        text = f"Keywords of gradtd.evaluate have moved: {', '.join(said)}. The old ones still work."
        warnings.warn(text, DeprecationWarning, stacklevel=stacklevel)
    return taken


def spelled() -> dict[str, str]:
    """Every option of the groups as it is written in a call of `gradtd.evaluate`."""
    return {
        option: f"{group}={record.__name__}({option}=...)"
        for group, record in GROUPS.items()
        for option in names_of(record)
    }
