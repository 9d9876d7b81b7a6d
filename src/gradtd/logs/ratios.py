"""Importance ratios of a log's steps: the target's probability of the action taken over the behaviour's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError, RowError
from gradtd.logs.actions import check_chances
from gradtd.logs.behaviour_model import BehaviourModel, estimate_behaviour
from gradtd.logs.column_names import listed
from gradtd.logs.given_policies import is_action, one_a_step, policy_over, prepared
from gradtd.logs.log import Log
from gradtd.logs.models import densities_of, is_model
from gradtd.logs.policies import is_constant, observation_chunks, row_chunks, spelled, takes_two
from gradtd.logs.row_policies import ByRow, InOrder, Probabilities, steps_in_table
from gradtd.logs.sanity_checks import of_one_action, refuse_other_ratios
from gradtd.logs.tables import plain_array

FEW_VALUES = 12
"""Continuous actions with at most this many values may be discrete."""


@dataclass(frozen=True, eq=False)
class Ratios:
    """The importance ratios of a log's steps, and their ingredients.

    Parameters
    ----------
    rho
        One ratio per step.
    notes
        Warnings to show.
    unseen
        A sentence that names the target's actions that the log lacks.
    unseen_mass
        The target's probability of these actions, averaged over the log's observations. None if the target's other
        probabilities are unknown.
    unseen_pairs
        The same for actions that the log never took in the same state, if observations are discrete.
    target, behaviour
        The two policies' probabilities of the actions taken.
    model, other
        The model of an estimated behaviour, and the ratios by a second model.
    clipped
        Number of clipped ratios.
    shares
        The target's probability of each discrete action, by code, averaged over the log's observations. If only the
        probabilities of the actions taken are known, it is estimated by importance weighting. None if actions are
        continuous or unknown.
    doubt
        Evidence against the probabilities; see `gradtd.logs.calibration`. None if there is none.
    """

    rho: Floats
    notes: tuple[str, ...] = ()
    unseen: str | None = None
    unseen_mass: float | None = None
    unseen_pairs: float | None = None
    target: Floats | None = None
    behaviour: Floats | None = None
    model: BehaviourModel | None = None
    other: Floats | None = None
    clipped: int = 0
    shares: Floats | None = None
    doubt: str | None = None

    @property
    def estimated(self) -> bool:
        """Whether the behaviour's probabilities are estimated."""
        return self.model is not None


def ratios(log: Log, target: Any = None, *, behaviour: Any = None, clip: float | None = None, seed: int = 0) -> Ratios:
    """The ratio rho = target / behaviour of every step of a log.

    Parameters
    ----------
    log
        The log.
    target
        None for the log's own (target over behaviour, or its column rho); "behaviour" for rho = 1; "uniform"; the
        name of a kept column with the probabilities of the actions taken, or the names of one column per action; an
        array of either, one row per step or per row of the table that the log was read from (`Probabilities`); a table
        [states, actions]; a function policy(observations) that returns probabilities (n, actions) or one action per
        observation; if actions are continuous, a function policy(observations, actions) that returns densities.
    behaviour
        The same for the behaviour policy, or "estimate" to fit a model.
    clip
        The largest ratio allowed. Clipping reduces variance and adds bias.
    seed
        Seed of the folds for an estimated behaviour.

    >>> from gradtd.logs import read_log
    >>> log = read_log({"episode": [0, 0], "obs": [0, 1], "action": [1, 0], "reward": [0, 1], "terminated": [0, 1],
    ...                 "action_prob": [0.5, 0.8]})
    >>> ratios(log, [[0.4, 0.6], [0.4, 0.6]]).rho
    array([1.2, 0.5])
    """
    if not isinstance(log, Log):
        raise InputError(f"ratios takes a Log, got {type(log).__name__}: make one with read_log.")
    limit, target = None if clip is None else checks.number_above("clip", clip, 0), spelled(target)
    if isinstance(target, str) and target == "behaviour":
        return Ratios(np.ones(len(log)), shares=_weighted_shares(log, np.ones(len(log))))
    if target is None and behaviour is None and log.rho is not None:
        if log.target is None or log.behaviour is None:
            rho, notes, over = _clipped(log.rho, limit)
            return Ratios(rho, notes, clipped=over, shares=_weighted_shares(log, log.rho))
        refuse_other_ratios(log.rho, log.target, log.behaviour)
    target = prepared(log, "target", target)
    found = _Chances(log.target) if target is None and log.target is not None else _target(log, target)
    wanted, unseen, mass = found.taken, found.unseen, found.mass
    taken, said, model = _behaviour(log, behaviour, seed)
    _refuse_one_action(log, target, behaviour, wanted, taken)
    with np.errstate(over="ignore"):
        rho = wanted / taken
    if not np.isfinite(rho).all():
        at = int(np.flatnonzero(~np.isfinite(rho))[0])
        row = int(steps_in_table(log)[at])
        raise RowError(
            f"the ratio of row {row} is not finite: the target's probability is {wanted[at]}, "
            f"the behaviour's {taken[at]}.",
            row,
        )
    shares = _weighted_shares(log, rho) if found.shares is None else found.shares
    rho, cut, over = _clipped(rho, limit)
    warned = () if unseen is None else (unseen,)
    said = (*said, *found.notes)
    other = None if model is None else _clipped(wanted / model.other, limit)[0]
    return Ratios(rho, (*said, *warned, *cut), unseen, mass, found.pairs, wanted, taken, model, other, over, shares)


def _refuse_one_action(log: Log, target: Any, behaviour: Any, wanted: Floats, taken: Floats) -> None:
    """Refuse propensity scores (probabilities of action 1 in every row) given as probabilities of the actions taken."""
    turned = "numpy.where(action == 1, p, 1 - p)"
    if behaviour is None and of_one_action(log, taken):
        uses = log.understood.columns
        column = next((f"column {u.columns[0]!r}" for u in uses if u.role.startswith("behaviour")), "behaviour")
        raise InputError(
            f"{column} seems to hold the probability of action 1 in every row, and the behaviour's "
            f"probability of the action taken is needed: give {turned}."
        )
    of_taken = isinstance(target, InOrder) and not target.sure
    if of_taken and of_one_action(log, wanted, taken):
        raise InputError(
            f"the target's numbers seem to be the probability of action 1 in every row, but the probability of the "
            f"action taken is needed: give {turned}, or both columns, numpy.column_stack([1 - p, p])."
        )


def _order_notes(log: Log) -> tuple[str, ...]:
    """A warning if probabilities are matched by position and text actions have no given order."""
    if not log.understood.order_guessed:
        return ()
    return (
        f"The order of the actions was guessed for the probabilities: {listed(log.action_labels or ())}. "
        "Give the order with actions=[...], or name columns after the actions.",
    )


def _target(log: Log, target: Any) -> _Chances:
    if target is None:
        raise InputError(
            "there is no target policy. Give target: a function policy(observations), a table [states, actions], an "
            "array of probabilities or the name of a kept column, 'uniform', or 'behaviour' to evaluate the policy "
            "that produced the log."
        )
    return _chances(log, "target", target)


def _behaviour(log: Log, behaviour: Any, seed: int) -> tuple[Floats, tuple[str, ...], BehaviourModel | None]:
    if isinstance(behaviour, str) and behaviour == "estimate":
        model = estimate_behaviour(log, seed)
        return model.chance, model.notes, model
    if behaviour is not None:
        return _chances(log, "behaviour", behaviour).taken, (), None
    if log.behaviour is None:
        raise InputError(
            "the log has no probabilities of its actions: give behaviour (a function, a table, an array or "
            "the name of a column), or behaviour='estimate' to fit a model to the log."
        )
    return log.behaviour, (), None


@dataclass(frozen=True, eq=False)
class _Chances:
    """The probability of each action taken, and the target's probability of all actions that the log never took, if
    known."""

    taken: Floats
    unseen: str | None = None
    mass: float | None = None
    pairs: float | None = None
    shares: Floats | None = None
    notes: tuple[str, ...] = ()


def _weighted_shares(log: Log, rho: Floats) -> Floats | None:
    """The target's share of each action, estimated from the ratios."""
    if not log.discrete_actions or log.action is None:
        return None
    return np.bincount(log.action, weights=rho, minlength=log.n_actions) / len(log)


def _chances(log: Log, name: str, given: Any) -> _Chances:
    """The probability of each action taken under a policy in any form."""
    real_action = log.action is not None and not log.discrete_actions
    given = prepared(log, name, given)
    if isinstance(given, str) and given != "uniform" and (given in log.extra or not is_action(log, given)):
        return _Chances(_column(log, name, given, real_action))
    if isinstance(given, InOrder):
        taken = check_chances(name, one_a_step(log, name, given), name, real_action, steps_in_table(log))
        return _Chances(taken, notes=given.notes)
    if real_action:
        return _Chances(_densities(log, name, given))
    return _from_policy(log, name, policy_over(log, name, given))


def _column(log: Log, name: str, given: str, real_action: bool) -> Floats:
    if given not in log.extra:
        also = "'behaviour', 'uniform'" if name == "target" else "'estimate', 'uniform'"
        actions = f", or one of the actions, {listed(log.action_labels)}" if log.action_labels else ""
        raise InputError(
            f"{name} must be {also} or the name of a kept column{actions}, got {given!r}; kept are "
            f"{listed(log.extra)}: add the name to read_log(keep=...)."
        )
    if given in log.of_every_action:
        raise InputError(
            f"column {given!r} is one of several that sum to 1 in every row, so it contains the probability of one "
            f"particular action, and {name} needs that of the action taken: give all columns, "
            f"{name}=[{given!r},...], in the order of the actions."
        )
    values = log.extra[given]
    if (values <= 0).all() and (values < 0).any():
        raise InputError(
            f"column {given!r} contains logarithms of probabilities (no number is above 0): exponentiate them, "
            'or read with log_probabilities="convert".'
        )
    return check_chances(f"column {given!r}", values, name, real_action, steps_in_table(log))


def is_deterministic(log: Log, given: Any) -> bool:
    """Whether a policy over continuous actions returns actions, not densities. Then only action values can be used."""
    if log.action is None or log.discrete_actions or given is None or isinstance(given, str | InOrder | Probabilities):
        return False
    if densities_of(given) is not None:
        return False
    return is_model(given) or is_constant(given) or (callable(given) and not takes_two(given))


def _densities(log: Log, name: str, given: Any) -> Floats:
    if is_deterministic(log, given):
        raise InputError(
            f"actions are continuous and {name} returns them, so it has no densities: give value_function='action', "
            f"or {name} as a function (observations, actions) that returns densities."
        )
    given = densities_of(given) or given
    if not callable(given):
        values = np.unique(log.action) if log.action is not None and log.action.ndim == 1 else np.zeros(0)
        few = f" They have only {len(values)} values: if they are discrete, use actions={values.tolist()}."
        raise InputError(
            f"actions are continuous: give {name} as a function (observations, actions) that returns densities, or, "
            f"with value_function='action', as a function of observations that returns the action."
            f"{few if 1 < len(values) <= FEW_VALUES else ''}"
        )
    assert log.action is not None
    density = np.empty(len(log))
    for at, seen in observation_chunks(log.observations, log.row):
        values = checks.finite_array(f"{name}'s densities", plain_array(given(seen, log.action[at])), 1)
        if len(values) != len(seen):
            raise InputError(f"{name} must return one density per step ({len(seen)}), got {len(values)}.")
        density[at] = values
    return check_chances(f"{name}'s densities", density, name, True, steps_in_table(log))


def _from_policy(log: Log, name: str, policy: ByRow) -> _Chances:
    """Call the policy once per step. Returns the probability of the action taken, and that of all actions never
    taken."""
    assert log.action is not None
    states = np.unique(log.observations[log.row], return_inverse=True)[1] if log.discrete_observations else None
    taken = _taken(log, states)
    chance, mass, pairs = np.empty(len(log)), np.zeros(log.n_actions), 0.0
    for at in row_chunks(log.row):
        every = policy(log.row[at])
        width = every.shape[1]
        if width > len(mass):
            mass = np.r_[mass, np.zeros(width - len(mass))]
        mass[:width] += every.sum(axis=0)
        chance[at] = every[np.arange(len(every)), log.action[at]]
        if states is not None:
            known = taken.shape[1]
            pairs += float(every[:, :known][~taken[states[at]]].sum() + every[:, known:].sum())
    unseen, total = _unseen(log, mass / len(log)) if name == "target" else (None, None)
    what = f"{name}'s probability of the action taken"
    taken_chance = check_chances(what, chance, name, False, steps_in_table(log))
    by_state, notes = None if states is None else pairs / len(log), getattr(policy, "notes", ())
    if getattr(policy, "by_position", False):
        notes = (*notes, *_order_notes(log))
    return _Chances(taken_chance, unseen, total, by_state, mass / len(log), notes)


def _taken(log: Log, states: Integers | None) -> NDArray[np.bool_]:
    """For every state, the actions the log took there."""
    if states is None:
        return np.zeros((0, 0), bool)
    taken = np.zeros((int(states.max()) + 1, log.n_actions), bool)
    taken[states, log.action] = True
    return taken


def _unseen(log: Log, mass: Floats) -> tuple[str | None, float]:
    """A message about the target's actions that the log never took."""
    assert log.action is not None
    never = np.ones(len(mass), bool)
    never[np.unique(log.action) if log.actions_taken is None else log.actions_taken] = False
    total = float(mass[never].sum())
    if total <= 0:
        return None, 0.0
    labels = log.action_labels or range(len(mass))
    taken = [a for a in np.argsort(-mass, kind="stable") if never[a] and mass[a] > 0]
    shares = (f"{labels[a] if a < len(labels) else a} ({mass[a]:.1%})" for a in taken)
    return (
        f"the target takes actions that the log never took, {total:.1%} of the time: {listed(shares)}; "
        "the log has no data on their value.",
        total,
    )


def _clipped(rho: Floats, limit: float | None) -> tuple[Floats, tuple[str, ...], int]:
    if limit is None:
        return rho, (), 0
    over = int((rho > limit).sum())
    return np.minimum(rho, limit), (f"Ratios clipped to {limit:g}: {over}.",) if over else (), over
