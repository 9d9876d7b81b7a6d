"""A log in the form for policy iteration: places, actions, transitions, and the behaviour's probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.evaluation.designs.log_features import is_auto, make_log_features, pieces_of
from gradtd.features import Features, OneHot, default_features, make_features
from gradtd.improvement.behaviour_model import BehaviourModel, fit_behaviour, known_probabilities
from gradtd.logs import Log


@dataclass(frozen=True, eq=False)
class Experience:
    """The steps of a log over *places*: the distinct states, or every observation if these are continuous.

    ``table`` holds the features of every place, or None if each place has its own feature. ``behaviour`` holds the
    behaviour's probabilities of all actions at every place; ``model`` is a function of features that returns them for
    observations outside the log. ``states`` are the distinct observations.
    """

    table: Floats | None
    place: Integers
    after: Integers
    action: Integers
    reward: Floats
    discount: Floats
    episode: Integers
    behaviour: Floats
    features: Features | None = None
    used: Integers | None = None
    model: BehaviourModel | None = None
    states: Any = None

    @property
    def n_actions(self) -> int:
        return int(self.behaviour.shape[1])

    @property
    def n_places(self) -> int:
        return int(self.behaviour.shape[0])


def make_experience(log: Log, gamma: float, features: Any, behaviour: Any, block: int | None) -> Experience:
    """Read a log for policy iteration. Discrete states have one value each unless features are given."""
    if log.action is None:
        raise InputError(
            f"improve needs actions, and {log.name} has no action column. Name it, columns={{'action': ...}}."
        )
    episode = pieces_of(log, block)
    steps: dict[str, Any] = {
        "action": log.action.astype(np.int64),
        "reward": log.reward,
        "discount": np.where(log.terminated, 0.0, gamma),
        "episode": episode,
    }
    chosen = default_features(log.observations) if is_auto(features) else make_features(features)
    one_column = log.discrete_observations or log.observations.shape[1] == 1
    if one_column and (isinstance(chosen, OneHot) or (is_auto(features) and log.discrete_observations)):
        states, place = np.unique(np.ravel(log.observations), return_inverse=True)
        steps |= {"place": place[log.row], "after": place[log.next_row]}
        known = known_probabilities(log, behaviour, place, len(states))
        return Experience(None, **steps, behaviour=known, states=states)
    made = make_log_features(log, chosen, block, whitened=False)
    table = made.table if isinstance(made.table, np.ndarray) else made.table.toarray()
    table = np.asarray(table, np.float64)
    model = fit_behaviour(table[log.row], log, behaviour)
    steps |= {"place": log.row.astype(np.int64), "after": log.next_row.astype(np.int64)}
    return Experience(table, **steps, behaviour=model(table), features=made.features, used=made.used, model=model)
