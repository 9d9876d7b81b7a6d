"""The target's choices in every chunk of a log in parts, for action values: settings that all chunks share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.evaluation.designs.choices import (
    OF_REAL_ACTIONS,
    Choices,
    RealTarget,
    action_map,
    as_columns,
    discrete_choices,
    map_of_codes,
    real_choices,
    refuse_probabilities_of_taken,
)
from gradtd.features import Features
from gradtd.features.actions import ActionFeatures
from gradtd.logs import Log
from gradtd.logs.files import ParquetTable
from gradtd.logs.policies import as_policy
from gradtd.logs.row_policies import are_names


@dataclass(frozen=True, eq=False)
class Uniform:
    """The uniform policy."""

    actions: int

    def __call__(self, observations: Any) -> Floats:
        return np.full((len(observations), self.actions), 1.0 / self.actions)


@dataclass(frozen=True, eq=False)
class Chooser:
    """Settings shared by all chunks, so that every chunk is treated in the same way.

    Parameters
    ----------
    target
        A function of observations, or the names of the columns of its probabilities.
    of_action, bias, n_actions
        The map of actions, as in `ActionFeatures`; no actions where these are real.
    span
        The smallest and largest real action of the log.
    """

    target: Any
    of_action: Features | None
    bias: bool
    n_actions: int
    span: Any = None

    @property
    def width(self) -> int:
        """Features of an action."""
        return self.n_actions if self.of_action is None else self.of_action.n_features + self.bias

    def features(self, inner: Features) -> Features:
        """Features of pairs."""
        return ActionFeatures.of(inner, self.of_action, self.n_actions, self.bias)

    def choices(self, log: Log) -> Choices:
        """The choices in a chunk."""
        _refuse_labels(log)
        if not self.n_actions:
            return real_choices(log, self.target, self.of_action, log.episode, 1, 0, self.span)
        found = discrete_choices(log, self.target, self.of_action, log.episode, self.n_actions)
        if found.n_actions > self.n_actions:
            raise InputError(
                f"the target chose action {found.n_actions - 1}, but the log has {self.n_actions} actions: let it "
                "return probabilities of every action."
            )
        return found

    def of_states(self, states: Any) -> Floats:
        """The target's probabilities of every action in these states."""
        if are_names(self.target):
            raise InputError(
                "values of actions of discrete states in parts need a target that is a function of the state, got "
                "columns of probabilities: give a function, or read the log into memory, in_parts=False."
            )
        found = as_policy("target", self.target, self.n_actions, True, more=True)(states)
        if found.shape[1] > self.n_actions:
            raise InputError(
                f"the target has {found.shape[1]} actions, but the log has {self.n_actions}: give one column per "
                "action."
            )
        return found


def make_chooser(table: ParquetTable, names: Any, log: Log, target: Any, of_action: Any) -> Chooser:
    """Build the chooser from a sample of the log and the ranges of its actions.

    Parameters
    ----------
    table
        The files.
    names
        The columns of actions.
    log
        The sample.
    target
        The policy to evaluate.
    of_action
        The map of actions asked for.
    """
    if log.action is None:
        raise InputError(
            "value_function='action' needs the log's actions, and gradtd found no action column: name it with columns."
        )
    if callable(of_action) and not hasattr(of_action, "transform"):
        raise InputError(
            "a function of observations and actions is for logs in memory: name a map of actions, or in_parts=False."
        )
    _refuse_labels(log)
    ranges = table.ranges(names)
    if ranges is None:
        raise InputError(
            f"values of actions in parts need the range of {', '.join(names)}, and the files of {table.name!r} have no "
            "statistics of it: write them with statistics, as pyarrow does."
        )
    if not log.discrete_actions:
        actions = np.r_[as_columns(log.action), ranges]
        fitted, bias = action_map(of_action or OF_REAL_ACTIONS, actions)
        if RealTarget(target, actions.shape[1], 1, 0).random:
            raise InputError(
                "a target that draws real actions is for logs in memory, as samples would depend on how a log is cut: "
                "give a function of observations alone, or in_parts=False."
            )
        return Chooser(target, fitted, bias, 0, (ranges[0], ranges[1]))
    target = refuse_probabilities_of_taken(log, target)
    seen = int(ranges[1, 0]) + 1
    uniform = isinstance(target, str) and target == "uniform"
    if not uniform:
        seen = max(seen, len(target)) if are_names(target) else _actions_of(target, log, seen)
    fitted, bias, _ = map_of_codes(of_action, seen)
    return Chooser(Uniform(seen) if uniform else target, fitted, bias, seen)


def _actions_of(target: Any, log: Log, seen: int) -> int:
    """The target's number of actions."""
    return int(as_policy("target", target, seen, log.discrete_observations, more=True)(log.observations).shape[1])


def _refuse_labels(log: Log) -> None:
    if log.action_labels is not None:
        raise InputError(
            "values of actions of a log that is read in parts need actions that are numbered 0, 1, ..., got labels "
            f"such as {log.action_labels[0]!r}: number them, or read the log into memory, in_parts=False."
        )
