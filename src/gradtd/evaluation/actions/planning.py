"""A plan for values of actions: the same checks and fits, over rows of pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gradtd.compiled.traces import Tracing
from gradtd.core.arrays import Floats, Integers
from gradtd.core.blas import one_thread
from gradtd.core.checks import InputError
from gradtd.core.stream import STEP, Stream, episode_begins
from gradtd.evaluation.actions.choices import Asked, Choices, discrete_choices, real_choices
from gradtd.evaluation.actions.rows import Laid, PairWide, lay_out, pair_table, pair_wide
from gradtd.evaluation.actions.traces import shares
from gradtd.evaluation.estimators.least_squares import least_squares, start_features
from gradtd.evaluation.estimators.methods import Case
from gradtd.evaluation.estimators.products import times
from gradtd.evaluation.estimators.whitening import condition, second_moments, whiten, whitened_moments
from gradtd.evaluation.planning import MOST_CHECKED, Plan
from gradtd.evaluation.preparing import MOST_DENSE, Prepared, is_auto, pieces_of, prepare_log, refuse_extreme_steps
from gradtd.evaluation.trust.enriching import WORK, are_cells, discrete_wide, real_wide
from gradtd.evaluation.trust.records import Wide
from gradtd.features import Features, OneHot, default_features
from gradtd.features.actions import ActionFeatures, PairFunction
from gradtd.logs import Log, Ratios


@dataclass(frozen=True)
class Asking:
    """What was asked of action values, the same for every target.

    Parameters
    ----------
    features
        Of observations; None or "auto" chooses.
    action_features
        A map of actions; a function of observations and actions is all the features there are.
    samples, seed
        Samples of a random target's real action, and their seed.
    block
        Steps of a piece, where episodes are cut.
    whiten
        Whether features are whitened.
    tracing, behaviour
        The traces asked for, and what their ratios are made of.
    """

    features: Any
    action_features: Any
    samples: int
    seed: int
    block: int | None
    whiten: bool
    tracing: Tracing | None = None
    behaviour: Any = None

    @property
    def function(self) -> Any:
        """A function of observations and actions, where that is what was given."""
        given = self.action_features
        return given if callable(given) and not hasattr(given, "transform") else None


@dataclass(frozen=True, eq=False)
class PreparedPairs(Prepared):
    """A log in features of pairs; ``otherwise`` makes the same table for other choices of the target."""

    laid: Laid | None = None
    choices: Choices | None = None
    otherwise: Callable[[Choices], Any] | None = None

    def stream(self, rho: Floats, gamma: float, target: Floats | None = None) -> Stream:
        """The steps over rows of pairs; episodes start in the target's expectation."""
        return self._over(self.table, rho, gamma, target)

    def _over(self, table: Any, rho: Floats, gamma: float, target: Floats | None = None) -> Stream:
        assert self.laid is not None
        refuse_extreme_steps(self.log, rho)
        steps = np.zeros(len(self.log), STEP)
        steps["row"], steps["next_row"] = self.laid.row, self.laid.next_row
        steps["reward"], steps["rho"], steps["episode"] = self.log.reward, rho, self.episode
        steps["discount"] = np.where(self.log.terminated, 0.0, gamma)
        highest = int(max(self.laid.row.max(), self.laid.next_row.max()))
        return replace(Stream.of_own(table, steps, self.log.name, highest, target), starts=self.laid.starts)

    def measured(self, case: Case) -> dict[str, Any]:
        """What the verdict has to know of the target's choices beside the ratios, which are all one."""
        assert self.choices is not None
        found: dict[str, Any] = {"values": "action", "never_taken": self.choices.never}
        found["outside_range"] = self.choices.outside
        if self.choices.kept is not None and self.otherwise is not None:
            after, first = self.choices.kept
            table = self.otherwise(replace(self.choices, after=after, first=first))
            stream = self._over(table, np.ones(len(case.stream)), case.settings.gamma)
            starts = start_features(stream, case.begins)
            again = least_squares(stream, starts, case.begins, traces=case.traces, C=self.C)
            found["never_taken_effect"] = abs(again.value - case.square.value) / case.error
        return found


@dataclass(frozen=True, eq=False)
class PairPlan(Plan):
    """A plan whose features are made for pairs."""

    choices: Choices | None = None
    asking: Asking | None = None
    whole: Log | None = field(default=None, repr=False)

    def prepare(self, rung: str) -> Prepared:
        assert self.choices is not None
        assert self.asking is not None
        assert self.whole is not None
        assert isinstance(self.wide, PairWide)
        inner = self.wide.inner
        assert inner is not None
        assert inner.cosines is not None
        chosen = inner.cosines.longer(len(inner.rungs[rung]))
        return prepare_pairs(self.whole, self.choices, replace(self.asking, features=chosen), None)


def plan_pairs(log: Log, target: Any, asking: Asking, checked: bool) -> tuple[PairPlan, Ratios]:
    """What a target's values of actions need, and ratios that are all one.

    Parameters
    ----------
    log
        The log.
    target
        The policy to evaluate.
    asking
        What was asked for.
    checked
        Whether the checks are to be made.
    """
    if log.action is None:
        raise InputError("values='action' needs the log's actions, and it has no column of them: say which it is.")
    pieces = pieces_of(log, asking.block)
    of_action = None if asking.function else asking.action_features
    ask = None
    if log.discrete_actions:
        choices = discrete_choices(log, target, of_action, pieces)
    else:
        choices = real_choices(log, target, of_action, pieces, asking.samples, asking.seed)
        ask = Asked(target, choices_width(log), asking.samples, asking.seed)
    carried = None
    if asking.tracing is not None:
        carried = shares(log, target, asking.tracing, asking.behaviour, asking.seed)
    found = Ratios(np.ones(len(log)), unseen_mass=choices.unseen, unseen_pairs=choices.never, target=carried)
    default = default_features(log.observations) if is_auto(asking.features) else None
    discrete = log.discrete_observations or isinstance(default, OneHot)
    named = default is None or asking.function is not None
    chosen_later = default is not None and not discrete and asking.function is None
    ready = None if chosen_later else prepare_pairs(log, choices, asking, ask)
    wide, why = _checks(log, choices, ready, pieces, discrete, asking) if checked or chosen_later else (None, "")
    narrow = log if ready is None else ready.log
    plan = PairPlan(
        narrow, asking.block, asking.whiten, named, ready, wide, why, choices=choices, asking=asking, whole=log
    )
    return plan, found


def choices_width(log: Log) -> int:
    """Numbers of a real action."""
    assert log.action is not None
    return 1 if log.action.ndim == 1 else int(log.action.shape[1])


def _places(log: Log) -> tuple[Integers, Integers]:
    """Observations that differ, where they are discrete: a row of each, and which of them every row has."""
    if log.discrete_observations:
        _, first, state = np.unique(log.observations, return_index=True, return_inverse=True)
        return first, state
    every = np.arange(len(log.observations))
    return every, every


def prepare_pairs(log: Log, choices: Choices, asking: Asking, ask: Asked | None) -> PreparedPairs:
    """Features of the pairs taken, of the target's expectations after them, and at the starts; whitened together."""
    episode = pieces_of(log, asking.block)
    first, place = _places(log)
    begins = episode_begins(episode)[:-1]
    laid = lay_out(choices, log, place[log.row], place[log.next_row], place[log.row[begins]])
    if asking.function is not None:
        function = PairFunction.of(asking.function, log.observations[log.row[:100]], log.action[:100])  # type: ignore[index]
        features: Features = function
        notes, inner_used = log.notes, None
        width = function.n_features

        def make(chosen: Choices) -> Any:
            again = lay_out(chosen, log, place[log.row], place[log.next_row], place[log.row[begins]])
            seen = log.observations[first]
            return pair_table(function, again, chosen, log, seen, ask)

    else:
        inner = prepare_log(log, asking.features, asking.block, False)
        features = ActionFeatures.of(inner.features, choices.of_action, choices.n_actions, choices.bias)
        notes, inner_used, of_place = inner.notes, inner.used, inner.table[first]
        width = of_place.shape[1] * laid.mix.shape[1]

        def make(chosen: Choices) -> Any:
            again = lay_out(chosen, log, place[log.row], place[log.next_row], place[log.row[begins]])
            return again.table(of_place)

    table = make(choices)
    if isinstance(table, np.ndarray) and width > MOST_DENSE:
        raise InputError(
            f"{features.describe()}: least squares is done with at most {MOST_DENSE} dense features; take fewer, or "
            "sparse ones such as one-hot or tiles."
        )
    met = _met(table, laid.row)
    table = table[:, met]
    C = second_moments(table, laid.row)
    W = None
    if asking.whiten:
        table, W = whiten(np.ascontiguousarray(table) if isinstance(table, np.ndarray) else table, C)
    K = 1 if asking.function is not None else laid.mix.shape[1]
    used = met if inner_used is None else inner_used[met // K] * K + met % K

    def otherwise(chosen: Choices) -> Any:
        return _like(make(chosen)[:, met], table, W)

    narrow = log.without_observations()
    made = (narrow, features, table, W, used, condition(C), episode, tuple(notes), whitened_moments(table, C, W))
    return PreparedPairs(*made, laid=laid, choices=choices, otherwise=otherwise)


def _met(table: Any, rows: Integers) -> Integers:
    """The features that some pair of the log has; of others it says nothing, and their weight is 0."""
    taken = table[np.unique(rows)]
    if isinstance(taken, np.ndarray):
        return np.flatnonzero((taken != 0).any(axis=0))
    return np.unique(taken.indices).astype(np.int64)


@one_thread()
def _like(table: Any, other: Any, W: Floats | None) -> Any:
    """A table in the whitened features of another."""
    if isinstance(other, np.ndarray) and not isinstance(table, np.ndarray):
        table = table.toarray()
    if W is None:
        return table
    if W.ndim == 1:
        table.data *= W[table.indices]
        return table
    return times(np.ascontiguousarray(table), W)


def _checks(
    log: Log, choices: Choices, ready: PreparedPairs | None, pieces: Integers, discrete: bool, asking: Asking
) -> tuple[Wide | None, str]:
    """The widest table of the checks, or why there is none."""
    K = choices.taken.shape[1]
    base = None
    if asking.function is None and ready is not None:
        base = prepare_log(log, asking.features, asking.block, False).table
    if discrete:
        of_states = OneHot().fit(log.observations).transform(log.observations) if base is None else base
        if of_states.shape[1] * K > MOST_CHECKED and not are_cells(of_states):
            return None, _too_many(of_states.shape[1] * K)
        inner = discrete_wide(log, log.observations.reshape(len(log.observations)), of_states, pieces)
    else:
        room = int(min((int(pieces[-1]) + 1) / K, np.sqrt(WORK / len(log)) / K, MOST_CHECKED / K))
        inner = real_wide(log.observations, base, max(len(log) // K, 1), room)
    if inner.n_columns * K > 2 * MOST_CHECKED and not inner.sparse:
        return None, _too_many(inner.n_columns * K)
    begins = episode_begins(pieces)[:-1]
    row, after = (log.row, log.next_row) if inner.row is None else (inner.row, inner.next_row)
    assert after is not None
    laid = lay_out(choices, log, row, after, row[begins])
    given = None
    if asking.function is not None:
        given = _given(laid, ready)
    return pair_wide(inner, laid, given), ""


def _given(laid: Laid, ready: PreparedPairs | None) -> Floats:
    """Features of a function of pairs in the rows of the checks, which stand for the same steps as those of the fit."""
    assert ready is not None
    assert ready.laid is not None
    rows = {"row": laid.row, "next_row": laid.next_row, "starts": laid.starts}
    table = np.zeros((len(laid.at), ready.table.shape[1]))
    own = ready.table if isinstance(ready.table, np.ndarray) else ready.table.toarray()
    for name, index in rows.items():
        table[index] = own[getattr(ready.laid, name)]
    return table


def _too_many(columns: int) -> str:
    return f"{columns} features of pairs are too many to be checked by fits with more of them"
