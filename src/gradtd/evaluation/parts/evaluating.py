"""`evaluate` for logs that do not fit into memory: survey, fit features to a sample, add sums of parts, judge."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.core.progress import StageProgress, stage
from gradtd.evaluation.actions.rows import PairWide
from gradtd.evaluation.estimate import Estimate
from gradtd.evaluation.methods import ACTION, AUTO, RESAMPLES, Settings, histogram
from gradtd.evaluation.parts.answer import Answer, evaluation_of
from gradtd.evaluation.parts.cell_evaluating import evaluate_cells
from gradtd.evaluation.parts.cell_table import cell_features, cell_wide
from gradtd.evaluation.parts.fitting import MOST_FEATURES, fitted, observed, refuse_many, sampled
from gradtd.evaluation.parts.job import MOST_GROUPS, Job, Reading, groups_for
from gradtd.evaluation.parts.judging import Solved, decided, undecided
from gradtd.evaluation.parts.pair_cells import pair_cells
from gradtd.evaluation.parts.pairs import Chooser, chooser_of, pair_template
from gradtd.evaluation.parts.state_table import StateWide, state_wide
from gradtd.evaluation.parts.states import DENSE_STATES, find_states
from gradtd.evaluation.parts.sums import Reduction, Sums, part_sums
from gradtd.evaluation.planning import MOST_CHECKED
from gradtd.evaluation.preparing import is_auto
from gradtd.evaluation.resamples import interval_from, student_interval
from gradtd.evaluation.result import Evaluation
from gradtd.evaluation.trust.checking import other_lambda
from gradtd.evaluation.trust.clock import clock_of
from gradtd.evaluation.trust.deciding import Decision
from gradtd.evaluation.trust.enriching import WORK, real_wide
from gradtd.evaluation.trust.records import Record, Wide
from gradtd.features import Features, OneHot
from gradtd.logs import Log
from gradtd.logs.beside import are_names, kept_columns
from gradtd.logs.files import ParquetTable
from gradtd.logs.names import Roles, resolve
from gradtd.logs.parts import Survey, survey
from gradtd.logs.read import open_table
from gradtd.logs.shuffle import bring_together
from gradtd.running.crew import Crew, Threads

LARGE = 2e8
"""Numbers in a Parquet log from which on it is read in parts (1.6 GB), unless the caller says otherwise."""
METHODS = (AUTO, "lstd")
NO_CLOCK = np.zeros((1, 0))
"""No columns of the time."""


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


def large_table(log: Any, in_parts: bool | None) -> ParquetTable | None:
    """The Parquet table behind a log that is to be read in parts; None where it is to be read into memory."""
    if in_parts is False or not isinstance(log, (str, Path)):
        if in_parts:
            raise InputError(f"in_parts=True needs a Parquet file, a folder or a pattern, got {type(log).__name__}.")
        return None
    table = open_table(log)
    if not isinstance(table, ParquetTable):
        if in_parts:
            raise InputError(f"in_parts=True needs Parquet files, and {table.name!r} is none: write it as Parquet.")
        return None
    return table if in_parts or table.size() >= LARGE else None


def evaluate_in_parts(
    table: ParquetTable,
    targets: Mapping[str, Any],
    settings: Settings,
    asked: Asked,
    crew: Crew,
    progress: StageProgress | None,
) -> dict[str, Evaluation]:
    """Every target on a log that is read once for each of them, part by part."""
    keep = tuple(kept_columns(*targets.values(), asked.behaviour))
    _refuse(settings, targets, asked)
    roles = resolve(table.kinds, asked.columns, keep)
    if "episode" not in roles.single:
        raise InputError(f"{table.name!r} has no column of episodes, which a log that is read in parts needs: add one.")
    with ExitStack() as stack:
        seen, notes = grouped(table, roles, stack, progress)
        found = {}
        for name, target in targets.items():
            pairs = settings.values == ACTION and not (isinstance(target, str) and target == "behaviour")
            reading = reading_of("behaviour" if pairs else target, asked, keep, roles)
            chosen = replace(asked, choosing=(target,)) if pairs else asked
            job, sample = _prepared(table, seen, reading, settings, chosen, crew)
            if sample is None:
                made = evaluate_cells(job, seen, settings, notes, crew, progress)
            else:
                made = _evaluated(job, add_parts(job, seen, crew, progress), sample, settings, notes)
            found[name] = replace(made, target=name)
        return found


def _refuse(settings: Settings, targets: Mapping[str, Any], asked: Asked) -> None:
    if settings.method not in METHODS:
        raise InputError(
            f"a log that is read in parts is solved directly, got algorithm={settings.method!r}: take 'auto' or "
            "'lstd', or in_parts=False where it fits into memory."
        )
    for what, given in (
        *((f"the target {name!r}", given) for name, given in targets.items()),
        ("behaviour", asked.behaviour),
    ):
        if not (given is None or isinstance(given, str) or callable(given) or are_names(given)):
            raise InputError(f"{what} of a log that is read in parts must be the name of a column or a function.")
    if asked.behaviour == "estimate":
        raise InputError(
            "a behaviour is not estimated from a log that is read in parts: give a column of probabilities."
        )


def grouped(
    table: ParquetTable, roles: Roles, stack: ExitStack, progress: StageProgress | None
) -> tuple[Survey, list[str]]:
    """Where episodes begin; their rows brought together in a temporary folder where they are not."""
    column = roles.single["episode"]
    seen = survey(table, column, stage(progress, "looking for episodes"))
    notes = []
    if not seen.grouped:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gradtd-")))
        by = [column, *([roles.single["t"]] if "t" in roles.single else [])]
        files = bring_together(seen, by, folder, stage(progress, "bringing episodes together"))
        seen = survey(ParquetTable(table.name, files), column)
        notes.append("rows of an episode did not stand together: the log was sorted once, in a temporary folder.")
    elif seen.spanning:
        notes.append(f"{seen.spanning} episode{'s' * (seen.spanning > 1)} went on in the next file.")
    return seen, notes


def reading_of(target: Any, asked: Asked, keep: tuple[str, ...], roles: Roles) -> Reading:
    needed = [*roles.single.values(), *(name for names in roles.several.values() for name in names), *roles.keep]
    return Reading(
        asked.columns,
        keep,
        asked.log_probabilities,
        asked.duplicates,
        target,
        asked.behaviour,
        asked.clip,
        roles.single["episode"],
        list(dict.fromkeys(needed)),
    )


def _prepared(
    table: ParquetTable, seen: Survey, reading: Reading, settings: Settings, asked: Asked, crew: Crew
) -> tuple[Job, tuple[Record, Wide] | None]:
    """Features and checks fitted to the episodes of a sample, or to all states, and those episodes.

    With many states there is no sample: everything is looked for in all of the log.
    """
    log, found = sampled(table, seen, reading)
    if not isinstance(crew, Threads):  # others read by themselves
        seen.remembered.forget_all()
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
            return Job(reading, settings.gamma, features, wide, 0.0, MOST_GROUPS, table.name, NO_CLOCK, named), None
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
    job = Job(reading, settings.gamma, features, wide, 0.0, groups_for(wide), table.name, clock, named, chooser)
    own = job.table(log)
    record = job.record(log, found, own)
    # The lambda of the fits with memory depends on how many episodes the whole log has.
    lam = other_lambda(replace(record, begins=np.zeros(seen.episodes + 1, np.int64)))
    return replace(job, lam=lam), (record, own)


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


def add_parts(job: Job, seen: Survey, crew: Crew, progress: StageProgress | None) -> Sums:
    """The sums of the whole log, part by part, in one order."""
    parts = seen.parts()
    reduction, done = Reduction(), 0
    work: Callable[[Any], Sums] = _PartWork(job)
    for number, sums in crew.each(work, parts):
        reduction.put(number, sums)
        done += len(parts[number])
        if progress:
            progress("reading", done, seen.rows)
    return reduction.total()


@dataclass(frozen=True, eq=False)
class _PartWork:
    """What a worker is sent."""

    job: Job

    def __call__(self, part: Any) -> Sums:
        return part_sums(self.job, part)


def _evaluated(job: Job, sums: Sums, sample: tuple[Record, Wide], settings: Settings, notes: list[str]) -> Evaluation:
    decision = decided(job, sums, settings.level, sample)
    columns = job.wide.rungs[decision.rung]
    solved = Solved(sums, columns)
    features = _features(job, decision.rung)
    rows, resampled = _rows(sums, solved, decision, columns, settings)
    refits = len(resampled) if settings.method == "lstd" else 0
    told = solved.measured(sums, columns) | {"refits": refits, "undecided": undecided(job, sums, decision, sample)}
    record, wide = sample
    if isinstance(wide, PairWide):
        told |= {"values": ACTION, "outside_range": wide.outside}
    starts = histogram(wide.rows(record.start_rows)[:, columns] @ solved.theta)
    answer = Answer(decision, solved.value, solved.theta, features, rows, resampled, starts, told)
    return evaluation_of(job, sums, answer, settings, [*notes, *_about(job, sums, sample)])


def _features(job: Job, rung: str) -> Features:
    """The features named, or those of the rung that was chosen; of pairs where values are of actions."""
    inner = job.wide.inner if isinstance(job.wide, PairWide) else job.wide
    assert inner is not None
    features = job.features
    if features is None:
        assert inner.cosines is not None
        features = inner.cosines.longer(len(inner.rungs[rung]))
    return features if job.chooser is None else job.chooser.features(features)


def _rows(
    sums: Sums, solved: Solved, decision: Decision, columns: Any, settings: Settings
) -> tuple[tuple[Estimate, ...], Floats]:
    """The direct solution with the interval that the checks decided, and LSTD with one from its refits."""
    low, high = decision.hull
    note = f"the solution that Impression GTD, Expected GTD and LSTD share; {decision.rung}"
    auto = Estimate(AUTO, solved.value, low, high, decision.fit.error, note)
    groups = len(decision.fit.psi)
    low, high = student_interval(solved.value, decision.fit.error, settings.level, groups - 1)
    sandwich = f"sandwich interval [{low:.5g}, {high:.5g}] of {groups} groups of episodes"
    plain = Estimate("lstd", solved.value, low, high, decision.fit.error, sandwich)
    count = RESAMPLES if settings.resamples is None else settings.resamples
    resampled = solved.refits(sums, columns, count, settings.seed) if count > 1 else np.zeros(0)
    if settings.method == "lstd" and count > 1:
        low, high = interval_from(solved.value, resampled, settings.level, groups, settings.interval)
        error = float(resampled.std(ddof=1))
        plain = Estimate("lstd", solved.value, low, high, error, f"{count} refits; {sandwich}")
    rows = {AUTO: auto, "lstd": plain}
    return (rows.pop(settings.method), *rows.values()), resampled


def _about(job: Job, sums: Sums, sample: tuple[Record, Wide]) -> list[str]:
    groups = int((sums["pieces"] > 0).sum())
    fitted_too = "" if isinstance(job.wide, StateWide) else "features were fitted, and "
    return [
        f"the log was read in parts: the interval comes from {groups} groups of episodes, by the hash of their ids.",
        f"{fitted_too}missing choices were looked for in {sample[0].n_pieces} episodes drawn by their hash.",
    ]
