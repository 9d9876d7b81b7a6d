"""What is asked of a log in parts, and what is fitted before its parts are read: features, checks, clock, lambda."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core.checks import InputError
from gradtd.core.executors import Executor
from gradtd.evaluation.parts.cell_table import cell_features, cell_wide
from gradtd.evaluation.parts.fitting import MOST_FEATURES, fitted, observed, refuse_many
from gradtd.evaluation.parts.job import EPISODE, MOST_GROUPS, Job, Reading, groups_for
from gradtd.evaluation.parts.pair_cells import pair_cells
from gradtd.evaluation.parts.pairs import Chooser, chooser_of, pair_template
from gradtd.evaluation.parts.state_table import state_wide
from gradtd.evaluation.parts.states import DENSE_STATES, find_states
from gradtd.evaluation.planning import MOST_CHECKED
from gradtd.evaluation.preparing import is_auto
from gradtd.evaluation.trust.checking import other_lambda
from gradtd.evaluation.trust.clock import clock_of
from gradtd.evaluation.trust.enriching import WORK, real_wide
from gradtd.evaluation.trust.records import Record, Wide
from gradtd.features import Features, OneHot
from gradtd.logs import Log, Ratios
from gradtd.logs.column_names import Roles, resolve
from gradtd.logs.files import ParquetTable
from gradtd.logs.parts import Survey

NO_CLOCK = np.zeros((1, 0))
"""No columns of the time."""
Sample = tuple[Log, Ratios]
"""The episodes that features are fitted to and missing choices are looked for in."""
Looked = tuple[Record, Wide]
"""Their steps, and the rows of the widest table."""


@dataclass(frozen=True, eq=False)
class Asked:
    """What was asked for: the arguments of `gradtd.evaluate` that are not in `Settings`."""

    features: Any
    behaviour: Any
    clip: float | None
    columns: Mapping[str, Any] | None
    log_probabilities: str
    duplicates: str
    action_features: Any = None
    choosing: tuple[Any, ...] = ()
    """The target whose values of actions are asked for; nothing where values are of observations."""
    sums: Path | None = None
    """The folder in which sums are kept, where there is one."""


def reading_of(target: Any, asked: Asked, keep: tuple[str, ...], roles: Roles, shared: int = 0) -> Reading:
    """How rows become steps; ``shared`` ids of episodes stand in several files."""
    known = "episode" in roles.single
    return Reading(
        asked.columns if known else {**(asked.columns or {}), "episode": EPISODE},
        keep,
        asked.log_probabilities,
        asked.duplicates,
        target,
        asked.behaviour,
        asked.clip,
        roles.single["episode"] if known else EPISODE,
        needed(roles),
        shared,
    )


def needed(roles: Roles) -> list[str]:
    """The columns that have a part in the log."""
    several = (name for names in roles.several.values() for name in names)
    return list(dict.fromkeys([*roles.single.values(), *several, *roles.keep]))


def prepared(
    table: ParquetTable, seen: Survey, reading: Reading, gamma: float, asked: Asked, crew: Executor, sample: Sample
) -> tuple[Job, Looked | None]:
    """Features and checks fitted to the episodes of a sample, or to all states, and the steps of those episodes.

    With many states there are no such steps: everything is looked for in all of the log.
    """
    log = sample[0]
    features: Features | None = None
    wide: Wide
    named, chooser = not is_auto(asked.features), None
    if asked.choosing:
        names = resolve(table.kinds, asked.columns, reading.keep).several.get("action", ())
        chooser = chooser_of(table, names, log, asked.choosing[0], asked.action_features)
    if log.discrete_observations:
        states = find_states(seen, reading, table.name, crew)
        if len(states.values) > DENSE_STATES or chooser is not None:
            features = cell_features(asked.features if named else None, states)
            chosen = not named and isinstance(features, OneHot)
            wide = cells = cell_wide(states, features.transform(states.values), seen.episodes, chosen and not chooser)
            wide = cells if chooser is None else pair_cells(cells, chooser)
            return Job(reading, gamma, features, wide, 0.0, MOST_GROUPS, table.name, NO_CLOCK, named), None
        features = refuse_many(fitted(asked.features if named else "one-hot", states.values))
        wide = state_wide(states, features.transform(states.values), seen.episodes)
    else:
        seen_there = observed(table, log)
        features = None if not named else refuse_many(fitted(asked.features, seen_there))
        base = None if features is None else features.transform(seen_there)
        if chooser is not None:
            wide = _wide_of_pairs(seen, log, (seen_there, base), chooser)
        else:
            wide = real_wide(seen_there, base, seen.rows, seen.episodes)
            wide = replace(wide, base=None, observations=seen_there[:0])
    clock = clock_of(np.r_[log.starts, len(log)])
    job = Job(reading, gamma, features, wide, 0.0, groups_for(wide), table.name, clock, named, chooser)
    looked = record, _ = looked_at(job, sample)
    # The lambda of the fits with memory depends on how many episodes the whole log has.
    lam = other_lambda(replace(record, begins=np.zeros(seen.episodes + 1, np.int64)))
    return replace(job, lam=lam), looked


def looked_at(job: Job, sample: Sample) -> Looked:
    """The steps of the sample, on which missing choices are looked for."""
    log, found = sample
    own = job.table(log)
    return job.record(log, found, own), own


def _wide_of_pairs(seen: Survey, log: Log, known: tuple[Any, Any], chooser: Chooser) -> Wide:
    """The ladder for values of actions, without its rows; ``known`` are observations and their features."""
    observations, base = known
    K = chooser.width
    if base is not None and base.shape[1] * K > MOST_FEATURES:
        raise InputError(
            f"a log is read in parts with at most {MOST_FEATURES} features, got {base.shape[1]} times {K} of actions."
        )
    room = int(min(seen.episodes / K, np.sqrt(WORK / seen.rows) / K, MOST_CHECKED / K))
    inner = real_wide(observations, base, max(seen.rows // K, 1), room)
    return pair_template(inner, log, chooser)
