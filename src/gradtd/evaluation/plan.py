"""Plans the evaluation of a log in memory: the features and design that its targets share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.evaluation.checks import BlockEquations
from gradtd.evaluation.decide import Decision, decide
from gradtd.evaluation.designs.base import GIVEN, Design, steps_of
from gradtd.evaluation.designs.log_features import (
    MOST_CHECKED,
    TOO_MANY,
    LogFeatures,
    is_auto,
    make_log_features,
    pieces_of,
)
from gradtd.evaluation.designs.real import RealDesign, network_design, real_design
from gradtd.evaluation.designs.states import StateDesign, are_cells, state_design, states_of
from gradtd.evaluation.estimators.products import AS_DENSE, AS_DENSE_SOLVED
from gradtd.evaluation.report.estimate import ESTIMATORS, NETWORK, Estimate
from gradtd.evaluation.settings import Settings
from gradtd.evaluation.step_blocks import MemoryBlocks
from gradtd.features import Grouped, OneHot, default_features
from gradtd.logs import Log


@dataclass(frozen=True, eq=False)
class Plan:
    """The inputs that the targets of a log share."""

    log: Log
    settings: Settings  # the requested settings
    named: bool  # whether the user named features
    ready: LogFeatures | None  # the log in the user's features, or None if gradtd chooses them
    design: Design | None  # the design of the checks, or None if there are none, with the reason in ``why_not``
    why_not: str = ""
    beside: tuple[Estimate, ...] = ()  # additional rows of estimates that come with the features
    choosable: Any = None  # what action values need, if the value may be theirs (`value_functions.Choosable`)
    _made: dict[str, LogFeatures] = field(default_factory=dict)
    _lock: Any = field(default_factory=Lock)

    def decide(self, settings: Settings, rho: Floats, chances: Floats | None) -> Decision | None:
        """The decision of the checks for a target with these ratios."""
        if self.design is None:
            return None
        block = settings.block_length
        pieces = None if block is None else pieces_of(self.log, block)
        steps = steps_of(
            self.log, self.design.rows(self.log, pieces), rho, settings.gamma, pieces, settings.tracing, chances
        )
        clusters = settings.cluster
        source = MemoryBlocks(
            replace(steps, threads=settings.threads), None if clusters is None else clusters.of_episode
        )
        groups = None if clusters is None else len(clusters.names)
        return decide(BlockEquations(source, self.design.ladder, groups), settings.level, settings.limits)

    def features_for(self, decision: Decision | None) -> LogFeatures:
        """The log in the user's features, or in those chosen by the decision."""
        if self.ready is not None and (decision is None or decision.rung == GIVEN):
            return self.ready
        assert decision is not None
        with self._lock:  # targets are evaluated on several threads
            if decision.rung not in self._made:
                self._made[decision.rung] = self.make_features(decision.rung)
            return self._made[decision.rung]

    def make_features(self, rung: str) -> LogFeatures:
        """The log in the features of a rung that was chosen."""
        asked, design = self.settings, self.design
        if isinstance(design, RealDesign):
            return make_log_features(self.log, design.chosen(rung), asked.block_length, asked.whiten)
        assert isinstance(design, StateDesign), "add the features of a new kind of design here"
        n = len(design.ladder.rungs[rung]) - 1
        seen = np.asarray(self.log.observations)[self.log.row]
        made = make_log_features(self.log, Grouped(n=n).fit(seen), asked.block_length, asked.whiten)
        return replace(made, notes=(*made.notes, TOO_MANY.format(len(np.unique(seen)), n)))


def make_plan(log: Log, settings: Settings) -> Plan:
    """Fit and compute the features once for all targets, if they do not depend on the target."""
    pieces = pieces_of(log, settings.block_length)
    n_pieces, auto = int(pieces[-1]) + 1, is_auto(settings.features)
    default = default_features(log.observations) if auto else None
    discrete = log.discrete_observations or isinstance(default, OneHot)
    if auto and not discrete:
        design = real_design(log.observations, None, len(log), n_pieces, settings.limits)
        return Plan(log, settings, False, None, design)
    as_dense = AS_DENSE_SOLVED if settings.computed else AS_DENSE
    ready = make_log_features(log, settings.features, settings.block_length, settings.whiten, as_dense)
    d = ready.table.shape[1]
    if settings.method in ESTIMATORS:
        return Plan(ready.log, settings, not auto, ready, None)
    if d > MOST_CHECKED and not (discrete and are_cells(ready.table)):
        why = f"{d} features are too many for a check with even more of them: use at most {MOST_CHECKED}"
        return Plan(ready.log, settings, not auto, ready, None, why)
    if not discrete:
        design = real_design(log.observations, ready.table, len(log), n_pieces, settings.limits)
        return Plan(log, settings, not auto, ready, replace(design, table=ready.table))
    cut = None if settings.block_length is None else pieces
    states, first = states_of(log, cut), np.unique(np.ravel(log.observations), return_index=True)[1]
    of_states = state_design(states, ready.table[first], n_pieces, isinstance(default, OneHot), settings.limits)
    return Plan(log, settings, not auto, ready, of_states)


def is_network(features: Any) -> bool:
    """Whether the features are to be learned by a network."""
    return isinstance(features, str) and features.strip() == NETWORK


def make_network_plan(log: Log, rho: Floats, settings: Settings) -> Plan:
    """The plan with features that networks learn on each half of the episodes for the other, with the ratios of one
    target."""
    from gradtd.deep.log_networks import learn_features

    if settings.block_length is not None:
        raise InputError(
            "features='network' learns on halves of the episodes and cannot use blocks: leave block_length out."
        )
    learned = learn_features(log, rho, settings.gamma, settings.seed)
    ready = make_log_features(log, learned.maps[0], None, settings.whiten)
    n_pieces = int(pieces_of(log, None)[-1]) + 1
    tables = [ready.table, *(one.rows(log.observations) for one in learned.maps[1:])]
    design = network_design(log.observations, tables, len(log), n_pieces, settings.limits)
    low, high = learned.own.min(), learned.own.max()
    note = f"no interval: a network's own value; {len(learned.own)} training seeds give {low:.4g} to {high:.4g}"
    beside = Estimate(NETWORK, float(learned.own[0]), None, None, None, note, "weak", "no interval")
    return Plan(log, settings, True, ready, design, beside=(beside,))
