"""Importance ratios of a log's steps: the target's probability of the action taken over the behaviour's."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError, RowError
from gradtd.logs.chances import check_chances
from gradtd.logs.column_names import listed
from gradtd.logs.given_policies import is_action, one_a_step, policy_over, prepared
from gradtd.logs.log import Log
from gradtd.logs.models import densities_of, is_model
from gradtd.logs.policies import is_constant, observation_chunks, row_chunks, takes_two
from gradtd.logs.row_policies import ByRow, InOrder, Probabilities, steps_in_table
from gradtd.logs.sanity_checks import refuse_other_ratios
from gradtd.logs.tables import plain_array


@dataclass(frozen=True, eq=False)
class Ratios:
    """The ratios of a log's steps, and what they were made of.

    Parameters
    ----------
    rho
        One ratio per step.
    notes
        Warnings to show.
    unseen
        Says which actions the target takes that the log never took.
    unseen_mass
        How much of the target's probability they have, a mean over the log's observations. None where the target's
        other actions are not known.
    unseen_pairs
        The same for actions in the very state, where observations are discrete.
    target, behaviour
        The two policies' probabilities of the actions taken.
    estimated
        Whether the behaviour's probabilities are a model's.
    clipped
        How many ratios were cut.
    shares
        How often the target takes each discrete action, by code, a mean over the log's observations. Where only its
        probabilities of the actions taken are known, by importance weights. None where actions are real or not there.
    """

    rho: Floats
    notes: tuple[str, ...] = ()
    unseen: str | None = None
    unseen_mass: float | None = None
    unseen_pairs: float | None = None
    target: Floats | None = None
    behaviour: Floats | None = None
    estimated: bool = False
    clipped: int = 0
    shares: Floats | None = None


def ratios(log: Log, target: Any = None, *, behaviour: Any = None, clip: float | None = None, seed: int = 0) -> Ratios:
    """rho = target / behaviour for every step of a log.

    Parameters
    ----------
    log
        The log.
    target
        None for the log's own (target over behaviour, else its column rho); "behaviour" for rho = 1; "uniform"; the
        name of a kept column of probabilities of the actions taken, or the names of the columns of every action's; an
        array of either, one row per step or per row of the table that the log was read from (`Probabilities`); a table
        [states, actions]; a function policy(observations) that returns probabilities (n, actions), or one action per
        observation, or, where actions are real-valued, policy(observations, actions) that returns densities.
    behaviour
        The same for the policy that made the log, or "estimate", which fits one.
    clip
        The largest ratio allowed: less variance, and a bias.
    seed
        Seed of the folds that a behaviour is estimated on.

    >>> from gradtd.logs import read_log
    >>> log = read_log({"episode": [0, 0], "obs": [0, 1], "action": [1, 0], "reward": [0, 1], "terminated": [0, 1],
    ...                 "action_prob": [0.5, 0.8]})
    >>> ratios(log, [[0.4, 0.6], [0.4, 0.6]]).rho
    array([1.2, 0.5])
    """
    if not isinstance(log, Log):
        raise InputError(f"ratios takes a Log, got {type(log).__name__}: make one with read_log.")
    limit = None if clip is None else checks.number_above("clip", clip, 0)
    if isinstance(target, str) and target == "behaviour":
        return Ratios(np.ones(len(log)), shares=_weighted_shares(log, np.ones(len(log))))
    if target is None and behaviour is None and log.rho is not None and (log.target is None or log.behaviour is None):
        rho, notes, over = _clipped(log.rho, limit)
        return Ratios(rho, notes, clipped=over, shares=_weighted_shares(log, log.rho))
    if target is None and behaviour is None and log.rho is not None:
        assert log.target is not None
        assert log.behaviour is not None
        refuse_other_ratios(log.rho, log.target, log.behaviour)
    found = _Chances(log.target) if target is None and log.target is not None else _target(log, target)
    wanted, unseen, mass = found.taken, found.unseen, found.mass
    taken, said, estimated = _behaviour(log, behaviour, seed)
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
    return Ratios(rho, (*said, *warned, *cut), unseen, mass, found.pairs, wanted, taken, estimated, over, shares)


def _order_notes(log: Log) -> tuple[str, ...]:
    """A warning where probabilities go by position, and actions are text whose order nobody gave."""
    if not log.understood.order_guessed:
        return ()
    return (
        "Probabilities were taken in the alphabetical order of the actions, "
        f"{listed(log.action_labels or ())}. Say the order with actions=[...], or name columns after the actions.",
    )


def _target(log: Log, target: Any) -> _Chances:
    if target is None:
        raise InputError(
            "nothing says what the target policy would do: give a target: a function policy(observations), a "
            "table [states, actions], an array of probabilities or the name of a kept column, 'uniform', or "
            "'behaviour' to evaluate the policy that made the log."
        )
    return _chances(log, "target", target)


def _behaviour(log: Log, behaviour: Any, seed: int) -> tuple[Floats, tuple[str, ...], bool]:
    if isinstance(behaviour, str) and behaviour == "estimate":
        chance, notes = estimate_behaviour(log, seed)
        return chance, notes, True
    if behaviour is not None:
        return _chances(log, "behaviour", behaviour).taken, (), False
    if log.behaviour is None:
        raise InputError(
            "the log does not say how probable its actions were: give the behaviour (a function, a table, an array or "
            "the name of a column), or behaviour='estimate' to fit a model to the log."
        )
    return log.behaviour, (), False


@dataclass(frozen=True, eq=False)
class _Chances:
    """The probability of each action taken; what of the policy's other choices the log never took, where known."""

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
    """The probability of each action taken under a policy, in whatever form that is given."""
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
            f"{listed(log.extra)}: give the name to read_log(keep=...)."
        )
    if given in log.of_every_action:
        raise InputError(
            f"column {given!r} is one of several that sum to one in every row, a policy's probabilities of each "
            f"action, and {name} by one name needs those of the action taken: give all of them, "
            f"{name}=[{given!r},...], in the order of the actions."
        )
    values = log.extra[given]
    if (values <= 0).all() and (values < 0).any():
        raise InputError(
            f"column {given!r} holds logarithms (none is above 0) of probabilities: take exp of them, "
            'or read with log_probabilities="convert".'
        )
    return check_chances(f"column {given!r}", values, name, real_action, steps_in_table(log))


def is_deterministic(log: Log, given: Any) -> bool:
    """Whether a policy over real actions returns them, so that it has no densities: only action values can tell."""
    if log.action is None or log.discrete_actions or given is None or isinstance(given, str | InOrder | Probabilities):
        return False
    if densities_of(given) is not None:
        return False
    return is_model(given) or is_constant(given) or (callable(given) and not takes_two(given))


def _densities(log: Log, name: str, given: Any) -> Floats:
    if is_deterministic(log, given):
        raise InputError(
            f"actions are real-valued and {name} returns them, so it has no densities: give value_function='action', "
            f"or {name} as a function (observations, actions) that returns densities."
        )
    given = densities_of(given) or given
    if not callable(given):
        raise InputError(
            f"actions are real-valued: give {name} as a function (observations, actions) that returns densities, or, "
            "with value_function='action', as a function of observations that returns the action."
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
    """Ask about every step, once: the action taken, and the mass of actions that were never taken."""
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
    """For every state, which actions the log took there."""
    if states is None:
        return np.zeros((0, 0), bool)
    taken = np.zeros((int(states.max()) + 1, log.n_actions), bool)
    taken[states, log.action] = True
    return taken


def _unseen(log: Log, mass: Floats) -> tuple[str | None, float]:
    """Say which actions the target takes and the log never took."""
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
        "the log cannot tell what they are worth.",
        total,
    )


def _clipped(rho: Floats, limit: float | None) -> tuple[Floats, tuple[str, ...], int]:
    if limit is None:
        return rho, (), 0
    over = int((rho > limit).sum())
    return np.minimum(rho, limit), (f"Ratios clipped to {limit:g}: {over}.",) if over else (), over


FOLDS = 5
MOST = 200_000
"""How many steps a model is fitted to at most; more would only take longer."""


def estimate_behaviour(log: Log, seed: int) -> tuple[Floats, tuple[str, ...]]:
    """The probability of each action taken, from a model that never saw the step's episode.

    With N training steps (of the same observation, if that is discrete) and A actions,
    p = (N p_model + 1) / (N + A): no action is impossible. The model is a frequency for discrete
    observations, else multinomial logistic regression on standardised ones.
    """
    if not log.discrete_actions or log.action is None:
        what = "has no actions" if log.action is None else "has real-valued actions"
        raise InputError(f"behaviour='estimate' needs discrete actions, and the log {what}: give its densities.")
    if log.n_episodes < 2:
        raise InputError("behaviour='estimate' needs at least 2 episodes, to judge each by a model that never saw it.")
    labels, action = np.unique(log.action, return_inverse=True)
    folds = min(FOLDS, log.n_episodes)
    rng = np.random.default_rng(seed)
    fold = (rng.permutation(log.n_episodes) % folds)[log.episode]
    chance, notes = np.empty(len(log)), []
    for k in range(folds):
        inside, outside = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        if log.discrete_observations:
            chance[outside] = _frequencies(log, action, len(labels), inside, outside)
            continue
        if len(inside) > MOST:
            inside = np.sort(rng.choice(inside, MOST, replace=False))
        chance[outside], converged = _regression(log, action, len(labels), inside, outside)
        if not converged:
            notes.append("the model of the behaviour did not converge: scale the observations, or give probabilities.")
    how = "frequencies" if log.discrete_observations else "logistic regression"
    said = (
        f"the behaviour's probabilities were estimated ({how}, {folds} folds over episodes): "
        "what is computed from them is only as good as that model."
    )
    return chance, (said, *dict.fromkeys(notes))


def _frequencies(log: Log, action: Integers, n_actions: int, inside: Integers, outside: Integers) -> Floats:
    """Add-one counts of actions at each observation."""
    states, state = np.unique(log.observations[log.row], return_inverse=True)
    pair = state * n_actions + action
    counts = np.bincount(pair[inside], minlength=len(states) * n_actions)
    visits = np.bincount(state[inside], minlength=len(states))
    return np.asarray((counts[pair[outside]] + 1.0) / (visits[state[outside]] + n_actions))


def _regression(log: Log, action: Integers, n_actions: int, inside: Integers, outside: Integers) -> tuple[Floats, bool]:
    """Chances under a regression fitted inside, for the steps outside, and whether it converged."""
    seen = np.unique(action[inside])
    converged = True
    if len(seen) == 1:
        chance = (action[outside] == seen[0]).astype(np.float64)
    else:
        x = log.observations[log.row[inside]]
        mean, spread = x.mean(axis=0), x.std(axis=0)
        spread[spread == 0] = 1.0
        model, converged = _fitted((x - mean) / spread, action[inside])
        column = np.full(n_actions, -1)
        column[seen] = np.arange(len(seen))
        every = model.predict_proba((log.observations[log.row[outside]] - mean) / spread)
        mine = column[action[outside]]
        chance = np.where(mine < 0, 0.0, every[np.arange(len(outside)), np.maximum(mine, 0)])
    return (len(inside) * chance + 1) / (len(inside) + n_actions), converged


def _fitted(x: NDArray[Any], action: Integers) -> tuple[Any, bool]:
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise InputError(
            "behaviour='estimate' needs scikit-learn: pip install gradtd[sklearn], or give the probabilities."
        ) from None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = LogisticRegression(max_iter=1000).fit(x, action)
    return model, not any(issubclass(w.category, ConvergenceWarning) for w in caught)
