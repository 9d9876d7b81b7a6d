"""Features of the actions in the log, and their expectation under the target.

With features phi(s) times chi(a), the expectation over the target's action is phi(s) times that of chi(a). A row
therefore needs an observation and one short vector: chi of the action taken, or its mean under the target. For discrete
actions the mean is exact. For continuous actions it is chi of the action of a deterministic target, or the mean over
samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers, dense
from gradtd.core.checks import InputError
from gradtd.core.stream import episode_begins
from gradtd.features import Features
from gradtd.features.actions import ActionFeatures
from gradtd.features.choose import fit_features
from gradtd.logs import Log
from gradtd.logs.files import ParquetTable
from gradtd.logs.given_policies import policy_over, prepared
from gradtd.logs.models import as_function, is_model
from gradtd.logs.policies import as_policy, is_constant, row_chunks, takes_two
from gradtd.logs.row_policies import Beside, InOrder, are_names
from gradtd.logs.tables import plain_array

OF_REAL_ACTIONS = "polynomial:order=2"
"""The default feature map for continuous actions."""


@dataclass(frozen=True, eq=False)
class Choices:
    """Features of actions in the rows that a fit needs."""

    taken: Floats  # features of the action of every step, (n, K)
    after: Floats  # the target's expectation in the next observation of every step; zero after the last step
    first: Floats  # the target's expectation at the start of pieces
    codes: Integers | None  # the action of every step, if actions are discrete
    by_state: bool  # whether actions are discrete and the target depends only on the observation
    of_action: Features | None
    bias: bool
    n_actions: int  # n_actions, of_action and bias: the map of actions, as in `ActionFeatures`
    never: float | None = None
    """The target's probability of actions never taken in the log, at next observations and starts, or None if
    observations or actions are continuous."""
    kept: tuple[Floats, Floats] | None = None  # ``after`` and ``first`` without those actions, if there are any
    unseen: float | None = None
    outside: float | None = None  # share of the target's continuous actions outside the range of the log's actions
    shares: Floats | None = None  # the target's mean probability of each discrete action in these observations


def discrete_choices(log: Log, target: Any, of_action: Any, pieces: Integers, actions: int = 0) -> Choices:
    """The choices of a target over discrete actions. ``actions`` is the minimum number of actions."""
    assert log.action is not None
    target = refuse_probabilities_of_taken(log, target)
    policy = policy_over(log, "target", target)
    starts = log.row[episode_begins(pieces)[:-1]]
    width = max(log.n_actions, policy(starts[:1]).shape[1], actions)
    goes_on = np.flatnonzero(~log.terminated)
    after, first = np.zeros((len(log), width)), np.zeros((len(starts), width))
    for part in row_chunks(goes_on):
        here = policy(log.next_row[goes_on[part]])
        after[goes_on[part], : here.shape[1]] = here
    for part in row_chunks(starts):
        here = policy(starts[part])
        first[part, : here.shape[1]] = here
    fitted, bias, chi = map_of_codes(of_action, width)
    never_after, never_first = _never_taken(log, starts, width)
    places = len(goes_on) + len(starts)
    never, kept = None, None
    if log.discrete_observations:
        never = float((after * never_after).sum() + (first * never_first).sum()) / places
    if never:
        kept = (without_never(after, never_after) @ chi, without_never(first, never_first) @ chi)
    taken_ever = np.zeros(width, bool)
    taken_ever[log.action] = True
    unseen = float(after[:, ~taken_ever].sum() + first[:, ~taken_ever].sum()) / places
    by_state = log.discrete_observations and not isinstance(policy, Beside)
    codes = np.asarray(log.action, np.int64)
    shares = (after.sum(axis=0) + first.sum(axis=0)) / places
    mapped = (chi[codes], after @ chi, first @ chi)
    return Choices(*mapped, codes, by_state, fitted, bias, width, never, kept, unseen, shares=shares)


def refuse_probabilities_of_taken(log: Log, target: Any) -> Any:
    """The target as a function of all actions. Refuses probabilities of only the actions taken."""
    target = prepared(log, "target", target)
    column = isinstance(target, str) and target in log.extra
    if target is None or column or isinstance(target, InOrder):
        raise InputError(
            "value_function='action' needs the target's probabilities of every action, not only of the action "
            "taken: give the target as a policy, 'uniform', columns or an array (n, actions)."
        )
    return target


def _never_taken(log: Log, starts: Any, width: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Masks of the actions that the log never took at next observations, and at starts."""
    if not log.discrete_observations:
        return np.zeros((len(log), width), bool), np.zeros((len(starts), width), bool)
    _, state = np.unique(log.observations, return_inverse=True)
    taken = np.zeros((int(state.max()) + 1, width), bool)
    taken[state[log.row], log.action] = True
    return ~taken[state[log.next_row]], ~taken[state[starts]]


def without_never(chances: Floats, never: NDArray[np.bool_]) -> Floats:
    """Set the probability of actions that were never taken to 0 and renormalise. Rows without any other action are
    unchanged."""
    left = np.where(never, 0.0, chances)
    total = left.sum(axis=1, keepdims=True)
    return np.where(total > 0, left / np.where(total > 0, total, 1.0), chances)


def map_of_codes(of_action: Any, width: int) -> tuple[Features | None, bool, Floats]:
    """The feature map of discrete actions, whether it needs a constant, and the features of each action."""
    codes = np.arange(width, dtype=np.float64)[:, None]
    fitted, bias = action_map(of_action, codes)
    return fitted, bias, _applied(fitted, bias, codes, np.eye(width))


def action_map(of_action: Any, actions: Floats) -> tuple[Features | None, bool]:
    """The fitted map of actions (None for one feature per action), and whether it needs a constant."""
    if of_action is None or (isinstance(of_action, str) and of_action in ("one-hot", "one_hot")):
        return None, False
    fitted = fit_features(of_action, actions)
    table = dense(fitted.transform(actions))
    constant = ((table == table[0]).all(axis=0) & (table[0] != 0)).any()
    return fitted, not constant


def _applied(fitted: Features | None, bias: bool, actions: Any, otherwise: Floats) -> Floats:
    if fitted is None:
        return otherwise
    table = dense(fitted.transform(actions))
    return np.column_stack([np.ones(len(table)), table]) if bias else table


def real_choices(
    log: Log, target: Any, of_action: Any, pieces: Integers, samples: int, seed: int, span: Any = None
) -> Choices:
    """Choices of a target over continuous actions: a function of observations, or of observations and a generator.

    ``span`` are the smallest and largest actions of the whole log, if this is a part of it.
    """
    actions = as_columns(log.action)
    fitted, bias = action_map(of_action or OF_REAL_ACTIONS, actions)
    if fitted is None:
        raise InputError(
            "one-hot features need discrete actions, but the log's are continuous: use other action_features."
        )
    ask = RealTarget(target, actions.shape[1], samples, seed)
    starts = log.row[episode_begins(pieces)[:-1]]
    goes_on = np.flatnonzero(~log.terminated)
    low, high = (actions.min(axis=0), actions.max(axis=0)) if span is None else span
    taken = _applied(fitted, bias, actions, actions)
    K, far, asked = taken.shape[1], 0.0, 0.0
    parts = []
    for rows, places, length in ((log.next_row[goes_on], goes_on, len(log)), (starts, None, len(starts))):
        mean = np.zeros((len(rows), K))
        for part, chosen, weight in ask.about(log.observations, rows):
            mean[part] += weight * _applied(fitted, bias, chosen, chosen)
            far += weight * float(((chosen < low) | (chosen > high)).any(axis=1).sum())
            asked += weight * len(chosen)
        if places is not None:
            whole = np.zeros((length, K))
            whole[places] = mean
            mean = whole
        parts.append(mean)
    return Choices(taken, parts[0], parts[1], None, False, fitted, bias, 0, outside=far / max(asked, 1))


class RealTarget:
    """A target over continuous actions: a deterministic function of observations, or a sampler with a generator."""

    def __init__(self, target: Any, width: int, samples: int, seed: int) -> None:
        if is_constant(target) and not isinstance(target, str):
            fixed = float(target)
            target = lambda seen: np.full((len(seen), width), fixed)  # noqa: E731
        target = as_function("target", target) if is_model(target) else target
        if not callable(target):
            raise InputError(
                "actions are continuous: with value_function='action' give the target as a function of observations "
                "that returns the action, or of observations and a random generator that returns a sample of it."
            )
        self.target, self.width, self.seed = target, width, seed
        self.draws = samples if takes_two(self.target) else 1
        self.random = takes_two(self.target)

    def about(self, observations: Any, rows: Any) -> Iterator[tuple[slice, Floats, float]]:
        """Yield the target's actions for the given rows in pieces, one sample at a time. Each sample has a weight."""
        rng = np.random.default_rng([self.seed, 20232])
        for part in row_chunks(rows):
            seen = observations[rows[part]]
            for _ in range(self.draws):
                given = plain_array(self.target(seen, rng) if self.random else self.target(seen))
                given = given[0] if isinstance(given, tuple) and len(given) == 2 else given
                yield part, self._checked(given, len(seen)), 1 / self.draws

    def _checked(self, given: Any, rows: int) -> Floats:
        actions = as_columns(checks.finite_array("target's actions", given, np.ndim(given) or 1))
        if actions.shape != (rows, self.width):
            raise InputError(
                f"target must return one action per observation ({rows}, {self.width}), got shape {np.shape(given)}: "
                "with value_function='action' it is a function of observations, or of observations and a random "
                "generator."
            )
        return actions


def as_columns(actions: Any) -> Floats:
    """Continuous actions as an array (n, m)."""
    array = np.asarray(actions, np.float64)
    return array[:, None] if array.ndim == 1 else array


@dataclass(frozen=True, eq=False)
class Uniform:
    """The uniform policy."""

    actions: int

    def __call__(self, observations: Any) -> Floats:
        return np.full((len(observations), self.actions), 1.0 / self.actions)


@dataclass(frozen=True, eq=False)
class Chooser:
    """Settings shared by all chunks, so that every chunk is treated in the same way."""

    target: Any  # a function of observations, or the names of the columns of its probabilities
    of_action: Features | None
    bias: bool
    n_actions: int
    """of_action, bias and n_actions: the map of actions, as in `ActionFeatures`; n_actions is 0 if they are
    continuous."""
    span: Any = None  # the smallest and largest continuous action of the log

    @property
    def width(self) -> int:
        """Number of features of an action."""
        return self.n_actions if self.of_action is None else self.of_action.n_features + self.bias

    def features(self, inner: Features) -> Features:
        """The map of pairs, from the map of observations."""
        return ActionFeatures.of(inner, self.of_action, self.n_actions, self.bias)

    def choices(self, log: Log) -> Choices:
        """The choices in a chunk."""
        _refuse_labels(log)
        if not self.n_actions:
            return real_choices(log, self.target, self.of_action, log.episode, 1, 0, self.span)
        found = discrete_choices(log, self.target, self.of_action, log.episode, self.n_actions)
        if found.n_actions > self.n_actions:
            raise InputError(
                f"the target chose action {found.n_actions - 1}, but the log has {self.n_actions} actions: return "
                f"probabilities of every action."
            )
        return found

    def of_states(self, states: Any) -> Floats:
        """The target's probabilities of every action in these states."""
        if are_names(self.target):
            raise InputError(
                "action values of discrete states in parts need a target that is a function of the state, got "
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
    """Build the chooser from a sample of the log and the ranges of its actions."""
    if log.action is None:
        raise InputError(
            "value_function='action' needs the log's actions, and gradtd found no action column: name it with columns."
        )
    if callable(of_action) and not hasattr(of_action, "transform"):
        raise InputError(
            "action_features as a function of observations and actions needs the log in memory: name a "
            "map of actions, or give in_parts=False."
        )
    _refuse_labels(log)
    ranges = table.ranges(names)
    if ranges is None:
        raise InputError(
            f"action values in parts need the range of {', '.join(names)}, but the files of {table.name!r} have no "
            f"statistics of it: write them with statistics, as pyarrow does."
        )
    if not log.discrete_actions:
        actions = np.r_[as_columns(log.action), ranges]
        fitted, bias = action_map(of_action or OF_REAL_ACTIONS, actions)
        if RealTarget(target, actions.shape[1], 1, 0).random:
            raise InputError(
                "a target that samples continuous actions needs the log in memory, because samples would depend on how "
                "the log is cut: give a function of observations only, or in_parts=False."
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
            f"action values of a log in parts need actions that are numbered 0, 1, ..., got labels such as "
            f"{log.action_labels[0]!r}: number them, or read the log into memory, in_parts=False."
        )
