"""Action values for logs in memory: the same fits and checks, over (observation, action) pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gradtd.compiled.traces import Tracing
from gradtd.core.arrays import Floats, Integers, dense
from gradtd.core.blas import one_thread
from gradtd.core.checks import InputError
from gradtd.core.stream import Stream, episode_begins
from gradtd.evaluation.designs.base import Design, Rows, stream_of
from gradtd.evaluation.designs.choices import Choices, RealTarget, discrete_choices, real_choices
from gradtd.evaluation.designs.log_features import (
    MOST_CHECKED,
    MOST_DENSE,
    LogFeatures,
    is_auto,
    make_log_features,
    pieces_of,
)
from gradtd.evaluation.designs.pairs import PairRows, StoredPairs, function_table, lay_out, store_pairs
from gradtd.evaluation.designs.real import real_design
from gradtd.evaluation.designs.states import are_cells, state_design, states_of
from gradtd.evaluation.estimators.least_squares import least_squares, start_features
from gradtd.evaluation.estimators.methods import Case
from gradtd.evaluation.estimators.products import condition, second_moments, times, whiten, whitened_moments
from gradtd.evaluation.plan import Plan
from gradtd.evaluation.report.estimate import ESTIMATORS
from gradtd.evaluation.settings import Settings
from gradtd.features import Features, OneHot, default_features
from gradtd.features.actions import ActionFeatures, PairFunction
from gradtd.logs import Log, Ratios, ratios

TREE = "tree"


def traces_as_given(tracing: Tracing) -> Tracing:
    """Settings of traces for a stream that stores the factor c of every step (see `shares`) where other streams store
    the target's probabilities."""
    return Tracing(tracing.lam, TREE)


def shares(log: Log, target: Any, settings: Settings) -> Floats:
    """The factor c of the step after each step: the target's probability of its action, or its ratio clipped at 1.

    The equations hold with any trace, because the TD error has mean zero given the observation and the action. c should
    measure how far the target agrees with the log. With features of (s_t, a_t) the trace is e_t = discount_{t-1} lam
    c_t e_{t-1} + x_t, where c_t belongs to the action of step t. State values use c_{t-1} instead. Each step therefore
    stores the c of the next step.
    """
    assert settings.tracing is not None
    if not log.discrete_actions:
        raise InputError(
            "Traces of action values need the target's probability of the action taken, which "
            "value_function='action' does not have for continuous actions. Leave lam out, or use "
            "value_function='state' "
            "with densities of both policies."
        )
    if settings.tracing.kind == TREE:
        taken = ratios(log, target, behaviour=np.ones(len(log))).target
        assert taken is not None
    elif settings.behaviour is None and log.behaviour is None:
        raise InputError(
            "trace='clipped' needs the behaviour's probability of every action taken, which the log lacks. "
            "Choose trace='tree', which needs only the target's probabilities, or give the behaviour policy."
        )
    else:
        made = ratios(log, target, behaviour=settings.behaviour, seed=settings.seed)
        taken = np.minimum(made.rho, 1.0)
    return np.append(taken[1:], 0.0)


@dataclass(frozen=True, eq=False)
class PairFeatures(LogFeatures):
    """A log in features of (observation, action) pairs. ``otherwise`` makes the same table for other choices of the
    target."""

    laid: PairRows | None = None
    choices: Choices | None = None
    otherwise: Callable[[Choices], Any] | None = None

    def stream(self, rho: Floats, gamma: float, target: Floats | None = None) -> Stream:
        """The stream over rows of pairs, in which episodes start with the target's expectation."""
        return self._over(self.table, rho, gamma, target)

    def _over(self, table: Any, rho: Floats, gamma: float, target: Floats | None = None) -> Stream:
        assert self.laid is not None
        rows = Rows.stored(self.laid.row, self.laid.next_row, table, self.laid.starts)
        return stream_of(self.log, table, rows, self.episode, rho, gamma, target)

    def measured(self, case: Case) -> dict[str, Any]:
        """Diagnostics of the target's choices. Diagnostics of ratios would say nothing, because all ratios are 1."""
        assert self.choices is not None
        made: dict[str, Any] = {"values": "action", "never_taken": self.choices.never}
        made["outside_range"] = self.choices.outside
        if self.choices.kept is not None and self.otherwise is not None:
            after, first = self.choices.kept
            table = self.otherwise(replace(self.choices, after=after, first=first))
            stream = self._over(table, np.ones(len(case.stream)), case.settings.gamma)
            starts = start_features(stream, case.begins)
            again = least_squares(stream, starts, case.begins, traces=case.traces, C=self.C)
            made["never_taken_effect"] = abs(again.value - case.square.value) / case.error
        return made


@dataclass(frozen=True, eq=False)
class PairPlan(Plan):
    """A plan with features of pairs."""

    choices: Choices | None = None
    whole: Log | None = field(default=None, repr=False)

    def make_features(self, rung: str) -> LogFeatures:
        assert self.choices is not None
        assert self.whole is not None
        assert isinstance(self.design, StoredPairs)
        chosen = self.design.inner.chosen(rung)
        return make_pair_features(self.whole, self.choices, replace(self.settings, features=chosen), None)


def plan_pairs(log: Log, target: Any, settings: Settings) -> tuple[PairPlan, Ratios]:
    """Prepare the evaluation of a target's action values. Returns the plan, and ratios that are all 1."""
    if log.action is None:
        raise InputError(
            "value_function='action' needs the log's actions, and gradtd found no action column. "
            "Name it: columns={'action': ...}."
        )
    pieces = pieces_of(log, settings.block_length)
    of_action = None if settings.pair_function else settings.action_features
    drawn = None
    if log.discrete_actions:
        choices = discrete_choices(log, target, of_action, pieces)
    else:
        choices = real_choices(log, target, of_action, pieces, settings.action_samples, settings.seed)
        width = 1 if log.action.ndim == 1 else int(log.action.shape[1])
        drawn = RealTarget(target, width, settings.action_samples, settings.seed)
    carried = None if settings.tracing is None else shares(log, target, settings)
    found = Ratios(np.ones(len(log)), target=carried, unseen_mass=choices.unseen, unseen_pairs=choices.never)
    found = replace(found, shares=choices.shares)
    default = default_features(log.observations) if is_auto(settings.features) else None
    discrete = log.discrete_observations or isinstance(default, OneHot)
    named = default is None or settings.pair_function is not None
    chosen_later = not named and not discrete
    ready = None if chosen_later else make_pair_features(log, choices, settings, drawn)
    design, why = None, ""
    if settings.method not in ESTIMATORS or chosen_later:
        design, why = _pair_design(log, choices, ready, pieces, discrete, settings)
    if design is None and ready is None:  # without checks no rung is chosen
        ready = make_pair_features(log, choices, settings, drawn)
    narrow = log if ready is None else ready.log
    return PairPlan(narrow, settings, named, ready, design, why, choices=choices, whole=log), found


def _places(log: Log) -> tuple[Integers, Integers]:
    """The distinct discrete observations: a row with each of them, and the index of every row's observation."""
    if log.discrete_observations:
        _, first, state = np.unique(log.observations, return_index=True, return_inverse=True)
        return first, state
    every = np.arange(len(log.observations))
    return every, every


def make_pair_features(log: Log, choices: Choices, settings: Settings, drawn: RealTarget | None) -> PairFeatures:
    """Compute and whiten the features of the pairs taken, of the target's expectations after them, and at the
    starts."""
    episode = pieces_of(log, settings.block_length)
    first, place = _places(log)
    begins = episode_begins(episode)[:-1]

    def lay(chosen: Choices) -> PairRows:
        return lay_out(chosen, log, place[log.row], place[log.next_row], place[log.row[begins]])

    laid = lay(choices)
    if settings.pair_function is not None:
        assert log.action is not None
        function = PairFunction.of(settings.pair_function, log.observations[log.row[:100]], log.action[:100])
        features: Features = function
        notes, inner_used, width = log.notes, None, function.n_features

        def make(chosen: Choices) -> Any:
            return function_table(function, lay(chosen), chosen, log, log.observations[first], drawn)

    else:
        inner = make_log_features(log, settings.features, settings.block_length, False)
        features = ActionFeatures.of(inner.features, choices.of_action, choices.n_actions, choices.bias)
        notes, inner_used, of_place = inner.notes, inner.used, inner.table[first]
        width = of_place.shape[1] * laid.mix.shape[1]

        def make(chosen: Choices) -> Any:
            return lay(chosen).table(of_place)

    table = make(choices)
    if isinstance(table, np.ndarray) and width > MOST_DENSE:
        raise InputError(
            f"{features.describe()}: least squares allows at most {MOST_DENSE} dense features. Use fewer, or sparse "
            "ones such as one-hot or tiles."
        )
    met = _met(table, laid.row)
    table = table[:, met]
    C = second_moments(table, laid.row)
    W = None
    if settings.whiten:
        table, W = whiten(np.ascontiguousarray(table) if isinstance(table, np.ndarray) else table, C)
    K = 1 if settings.pair_function is not None else laid.mix.shape[1]
    used = met if inner_used is None else inner_used[met // K] * K + met % K

    def otherwise(chosen: Choices) -> Any:
        return _like(make(chosen)[:, met], table, W)

    narrow = log.without_observations()
    made = (narrow, features, table, W, used, condition(C), episode, tuple(notes), whitened_moments(table, C, W))
    return PairFeatures(*made, laid=laid, choices=choices, otherwise=otherwise)


def _met(table: Any, rows: Integers) -> Integers:
    """The features that occur in the log. The others get weight 0."""
    taken = table[np.unique(rows)]
    if isinstance(taken, np.ndarray):
        return np.flatnonzero((taken != 0).any(axis=0))
    return np.unique(taken.indices).astype(np.int64)


@one_thread()
def _like(table: Any, other: Any, W: Floats | None) -> Any:
    """Whiten a table in the same way as another table."""
    if isinstance(other, np.ndarray) and not isinstance(table, np.ndarray):
        table = table.toarray()
    if W is None:
        return table
    if W.ndim == 1:
        table.data *= W[table.indices]
        return table
    return times(np.ascontiguousarray(table), W)


def _pair_design(
    log: Log, choices: Choices, ready: PairFeatures | None, pieces: Integers, discrete: bool, settings: Settings
) -> tuple[Design | None, str]:
    """The design of the checks, or the reason why there is none."""
    K, n_pieces, limits = choices.taken.shape[1], int(pieces[-1]) + 1, settings.limits
    base = None
    if settings.pair_function is None and ready is not None:
        base = make_log_features(log, settings.features, settings.block_length, False).table
    inner: Any
    cut = None if settings.block_length is None else pieces
    if discrete:
        of_rows = OneHot().fit(log.observations).transform(log.observations) if base is None else base
        if of_rows.shape[1] * K > MOST_CHECKED and not are_cells(of_rows):
            return None, _too_many(of_rows.shape[1] * K)
        first = np.unique(np.ravel(log.observations), return_index=True)[1]
        inner = state_design(states_of(log, cut), of_rows[first], n_pieces, limits=limits)
    else:
        columns = int(min(n_pieces / K, np.sqrt(limits.most_work / len(log)) / K, MOST_CHECKED / K))
        inner = replace(real_design(log.observations, base, max(len(log) // K, 1), columns, limits), table=base)
    rows = inner.rows(log, cut)
    if inner.ladder.n_columns * K > 2 * MOST_CHECKED and not rows.sparse:
        return None, _too_many(inner.ladder.n_columns * K)
    laid = lay_out(choices, log, rows.row, rows.next_row, rows.row[episode_begins(pieces)[:-1]])
    given = None if settings.pair_function is None else _given(laid, ready)
    return store_pairs(inner, rows, laid, given), ""


def _given(laid: PairRows, ready: PairFeatures | None) -> Floats:
    """Features from a function of pairs, in the rows that the checks use."""
    assert ready is not None
    assert ready.laid is not None
    table = np.zeros((len(laid.at), ready.table.shape[1]))
    own = dense(ready.table)
    for name in ("row", "next_row", "starts"):
        table[getattr(laid, name)] = own[getattr(ready.laid, name)]
    return table


def _too_many(columns: int) -> str:
    return f"{columns} features of pairs are too many for a check with even more of them"
