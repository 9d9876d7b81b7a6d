"""Importance ratios of a log's steps: the target's probability of the action taken over the behaviour's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.logs.columns import are_logarithms, check_chances
from gradtd.logs.damage import refuse_other_ratios
from gradtd.logs.log import Log
from gradtd.logs.names import listed
from gradtd.logs.policies import as_policy, observation_chunks
from gradtd.logs.propensity import estimate_behaviour


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


def ratios(log: Log, target: Any = None, *, behaviour: Any = None, clip: float | None = None, seed: int = 0) -> Ratios:
    """rho = target / behaviour for every step of a log.

    Parameters
    ----------
    log
        The log.
    target
        None for the log's own (target over behaviour, else its column rho); "behaviour" for rho = 1; the name of a kept
        column of probabilities; an array of them, one per step; a table [states, actions]; a function
        policy(observations) that returns probabilities (n, actions), or, where actions are real-valued,
        policy(observations, actions) that returns densities.
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
        return Ratios(np.ones(len(log)))
    if target is None and behaviour is None and log.rho is not None and (log.target is None or log.behaviour is None):
        rho, notes, over = _clipped(log.rho, limit)
        return Ratios(rho, notes, clipped=over)
    if target is None and behaviour is None and log.rho is not None:
        assert log.target is not None
        assert log.behaviour is not None
        refuse_other_ratios(log.rho, log.target, log.behaviour)
    wanted, unseen, mass = _target(log, target)
    taken, said, estimated = _behaviour(log, behaviour, seed)
    with np.errstate(over="ignore"):
        rho = wanted / taken
    if not np.isfinite(rho).all():
        at = int(np.flatnonzero(~np.isfinite(rho))[0])
        raise InputError(
            f"the ratio of step {at} is not finite: the target's probability is {wanted[at]}, "
            f"the behaviour's {taken[at]}."
        )
    rho, cut, over = _clipped(rho, limit)
    warned = () if unseen is None else (unseen,)
    pairs = _unseen_pairs(log, target)
    return Ratios(rho, (*said, *warned, *cut), unseen, mass, pairs, wanted, taken, estimated, over)


def _target(log: Log, target: Any) -> tuple[Floats, str | None, float | None]:
    if target is None:
        if log.target is None:
            raise InputError(
                "nothing says what the target policy would do: give target= as a function policy(observations), a "
                "table [states, actions], an array of probabilities or the name of a kept column, or 'behaviour' to "
                "evaluate the policy that made the log."
            )
        return log.target, None, None
    return _chances(log, "target", target)


def _behaviour(log: Log, behaviour: Any, seed: int) -> tuple[Floats, tuple[str, ...], bool]:
    if isinstance(behaviour, str) and behaviour == "estimate":
        chance, notes = estimate_behaviour(log, seed)
        return chance, notes, True
    if behaviour is not None:
        return _chances(log, "behaviour", behaviour)[0], (), False
    if log.behaviour is None:
        raise InputError(
            "the log does not say how probable its actions were: give behaviour= (a function, a table, an array or the "
            "name of a kept column), or behaviour='estimate' to fit a model to the log."
        )
    return log.behaviour, (), False


def _chances(log: Log, name: str, given: Any) -> tuple[Floats, str | None, float | None]:
    """The probability of each action taken under a policy, in whatever form that is given."""
    real_action = log.action is not None and not log.discrete_actions
    if isinstance(given, str):
        if given not in log.extra:
            also = "'behaviour'" if name == "target" else "'estimate'"
            raise InputError(
                f"{name} must be {also} or the name of a kept column, got {given!r}; kept are {listed(log.extra)}: "
                "read the log with keep=."
            )
        if given in log.of_every_action:
            raise InputError(
                f"column {given!r} is one of several that sum to one in every row, a policy's probabilities of each "
                f"action: {name} needs those of the action taken; make one column of them, "
                "pi[range(len(pi)), action], or give a function of the observations."
            )
        if are_logarithms(log.extra[given]):
            raise InputError(
                f"column {given!r} holds logarithms (none is above 0) of probabilities: take exp of them, "
                'or read with log_probabilities="convert".'
            )
        return check_chances(f"column {given!r}", log.extra[given], name, real_action), None, None
    if not callable(given) and np.ndim(given) == 1:
        values = checks.finite_array(name, given, 1)
        if len(values) != len(log):
            raise InputError(f"{name} needs one probability per step ({len(log)}), got {len(values)}.")
        return check_chances(name, values, name, real_action), None, None
    if log.action is None:
        raise InputError(f"the log has no action column, so {name} cannot be asked about its actions: give an array.")
    if real_action:
        return _densities(log, name, given), None, None
    return _from_policy(log, name, given)


def _densities(log: Log, name: str, given: Any) -> Floats:
    if not callable(given):
        raise InputError(
            f"actions are real-valued: give {name} as a function policy(observations, actions) that returns densities."
        )
    assert log.action is not None
    density = np.empty(len(log))
    for at, seen in observation_chunks(log.observations, log.row):
        values = checks.finite_array(f"{name}'s densities", given(seen, log.action[at]), 1)
        if len(values) != len(seen):
            raise InputError(f"{name} must return one density per step ({len(seen)}), got {len(values)}.")
        density[at] = values
    return check_chances(f"{name}'s densities", density, name, True)


def _from_policy(log: Log, name: str, given: Any) -> tuple[Floats, str | None, float | None]:
    assert log.action is not None
    n_actions = int(log.action.max()) + 1
    policy = as_policy(name, given, n_actions, log.discrete_observations, more=True)
    chance = np.empty(len(log))
    mass = np.zeros(n_actions)
    for at, seen in observation_chunks(log.observations, log.row):
        every = policy(seen)
        if every.shape[1] > len(mass):
            mass = np.r_[mass, np.zeros(every.shape[1] - len(mass))]
        mass[: every.shape[1]] += every.sum(axis=0)
        chance[at] = every[np.arange(len(seen)), log.action[at]]
    unseen, total = _unseen(log, mass / len(log)) if name == "target" else (None, None)
    return check_chances(f"{name}'s probability of the action taken", chance, name, False), unseen, total


def _unseen_pairs(log: Log, target: Any) -> float | None:
    """How often the target would do, in a state that the log visited, what the log never did there."""
    one_a_step = target is None or isinstance(target, str) or (not callable(target) and np.ndim(target) == 1)
    if one_a_step or not (log.discrete_observations and log.discrete_actions):
        return None
    assert log.action is not None
    states, code = np.unique(log.observations[log.row], return_inverse=True)
    chances = as_policy("target", target, int(log.action.max()) + 1, True, more=True)(states)
    taken = np.zeros(chances.shape, bool)
    taken[code, log.action] = True
    visits = np.bincount(code, minlength=len(states)) / len(log)
    return float(visits @ np.where(taken, 0.0, chances).sum(axis=1))


def _unseen(log: Log, mass: Floats) -> tuple[str | None, float]:
    """Say which actions the target takes and the log never took."""
    assert log.action is not None
    never = np.ones(len(mass), bool)
    never[np.unique(log.action)] = False
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
    return np.minimum(rho, limit), (f"{over} of {len(rho)} ratios were clipped to {limit:g}.",) if over else (), over
