"""`evaluate` for logs that do not fit into memory: survey, fit features to a sample, add sums of parts, judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.core.executors import Executor, ThreadExecutor
from gradtd.core.progress import StageProgress
from gradtd.evaluation.actions.rows import PairWide
from gradtd.evaluation.estimators.bootstrap import interval_from, student_interval
from gradtd.evaluation.estimators.methods import RESAMPLES, histogram
from gradtd.evaluation.parts.answer import Answer, evaluation_of
from gradtd.evaluation.parts.cell_evaluating import evaluate_cells
from gradtd.evaluation.parts.episodes import grouped, refuse_single, roles_of
from gradtd.evaluation.parts.fitting import sampled
from gradtd.evaluation.parts.job import Job, Reading
from gradtd.evaluation.parts.judging import Solved, by_tenths, decided, undecided
from gradtd.evaluation.parts.kept.adding import Asking, add_to_kept
from gradtd.evaluation.parts.kept.question import question_of, refuse_unkept
from gradtd.evaluation.parts.kept.store import Store, open_folder
from gradtd.evaluation.parts.preparing import Asked, Looked, Sample, prepared, reading_of
from gradtd.evaluation.parts.room import ROOM
from gradtd.evaluation.parts.state_table import StateWide
from gradtd.evaluation.parts.sums import Reduction, Sums, part_sums
from gradtd.evaluation.report.estimate import AUTO, Estimate
from gradtd.evaluation.report.result import Evaluation
from gradtd.evaluation.settings import ACTION, Settings
from gradtd.evaluation.trust.deciding import Decision
from gradtd.features import Features
from gradtd.logs.files import ParquetTable
from gradtd.logs.parts import Survey
from gradtd.logs.read import open_table
from gradtd.logs.row_policies import are_names, kept_columns

LARGE = 2e8
"""Numbers in a Parquet log from which on it is read in parts (1.6 GB), unless the caller says otherwise."""
METHODS = (AUTO, "lstd")


def large_table(log: Any, in_parts: bool | None) -> ParquetTable | None:
    """The Parquet table behind a log that is to be read in parts; None where it is to be read into memory."""
    if in_parts is False or not isinstance(log, (str, Path)):
        if in_parts:
            raise InputError(
                "in_parts=True, a scheduler and sums need a Parquet file, a folder or a pattern, "
                f"got {type(log).__name__}."
            )
        return None
    table = open_table(log)
    if not isinstance(table, ParquetTable):
        if in_parts:
            raise InputError(
                f"in_parts=True, a scheduler and sums need Parquet files, and {table.name!r} is none: "
                "write it as Parquet."
            )
        return None
    return table if in_parts or table.size() >= LARGE else None


def evaluate_in_parts(
    table: ParquetTable,
    targets: Mapping[str, Any],
    settings: Settings,
    asked: Asked,
    crew: Executor,
    progress: StageProgress | None,
) -> dict[str, Evaluation]:
    """Every target on a log that is read once for each of them, part by part."""
    if asked.sums is not None:
        return _from_folder(table, targets, settings, asked, crew, progress)
    keep = tuple(kept_columns(*targets.values(), asked.behaviour))
    _refuse(settings, targets, asked)
    roles = roles_of(table, asked, keep)
    with ExitStack() as stack:
        seen, notes, shared = grouped(table, roles, stack, progress)
        refuse_single(seen, table.name)
        found = {}
        for name, target in targets.items():
            pairs = settings.values == ACTION and not (isinstance(target, str) and target == "behaviour")
            reading = reading_of("behaviour" if pairs else target, asked, keep, roles, shared)
            chosen = replace(asked, choosing=(target,)) if pairs else asked
            sample = sampled(table, seen, reading)
            job, looked = prepared(table, seen, reading, settings.gamma, chosen, crew, sample)
            if looked is None:
                made = evaluate_cells(job, seen, settings, notes, crew, progress)
            else:
                sums = add_parts(job, seen, crew, progress)
                made = _evaluated(job, sums, looked, settings, notes)
                ROOM.give([sums])
            found[name] = replace(made, target=name)
        return found


def _from_folder(
    table: ParquetTable,
    targets: Mapping[str, Any],
    settings: Settings,
    asked: Asked,
    crew: Executor,
    progress: StageProgress | None,
) -> dict[str, Evaluation]:
    """The same with sums that are kept in a folder: only what is not there is read."""
    assert asked.sums is not None
    _refuse(settings, targets, asked)
    refuse_unkept(action_values=settings.values == ACTION)
    folder, found = open_folder(asked.sums), {}
    with folder.locked():
        for name, target in targets.items():
            keep = tuple(kept_columns(target, asked.behaviour))
            roles = roles_of(table, asked, keep)
            refuse_unkept(episodes_numbered="episode" in roles.single)
            reading = reading_of(target, asked, keep, roles)
            question = question_of(reading, asked, settings.gamma, roles, table.kinds)
            fit = _Fit(reading, settings.gamma, asked, crew)
            asking = Asking(Store(folder.folder, name), question, table, reading, fit)
            made = add_to_kept(asking, crew, progress)
            one = _evaluated(made.job, made.sums, made.looked, settings, made.notes, made.later)
            found[name] = replace(one, target=name)
    return found


@dataclass(frozen=True, eq=False)
class _Fit:
    """Fits to a log whose sums are kept."""

    reading: Reading
    gamma: float
    asked: Asked
    crew: Executor

    def __call__(self, table: ParquetTable, seen: Survey, sample: Sample) -> Job:
        job, looked = prepared(table, seen, self.reading, self.gamma, self.asked, self.crew, sample)
        refuse_unkept(many_states=looked is None)
        return job


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


def add_parts(job: Job, seen: Survey, crew: Executor, progress: StageProgress | None) -> Sums:
    """The sums of the whole log, part by part, in one order."""
    parts, done = seen.parts(), 0
    spare = ROOM.take(job) if isinstance(crew, ThreadExecutor) else None  # others do not work in this memory
    reduction = Reduction(spare)
    work: Callable[[Any], Sums] = _PartWork(job, spare)
    for number, sums in crew.each(work, parts):
        reduction.put(number, sums)
        done += len(parts[number])
        if progress:
            progress("reading", done, seen.rows)
    total = reduction.total()
    ROOM.give(spare or ())
    return total


@dataclass(frozen=True, eq=False)
class _PartWork:
    """What a worker is sent."""

    job: Job
    spare: list[Sums] | None

    def __call__(self, part: Any) -> Sums:
        return part_sums(self.job, part, self.spare)


def _evaluated(
    job: Job, sums: Sums, sample: Looked, settings: Settings, notes: list[str], later: bool = False
) -> Evaluation:
    """The answer; ``later`` says that features were fitted before all of the log was there."""
    tenths = by_tenths(sums)
    decision = decided(job, sums, tenths, settings.level, sample)
    columns = job.wide.rungs[decision.rung]
    solved = Solved(tenths, columns)
    features = _features(job, decision.rung)
    rows, resampled = _rows(sums, solved, decision, columns, settings)
    refits = len(resampled) if settings.method == "lstd" else 0
    told = solved.measured(sums, columns) | {"refits": refits, "undecided": undecided(job, tenths, decision, sample)}
    record, wide = sample
    if isinstance(wide, PairWide):
        told |= {"values": ACTION, "outside_range": wide.outside}
    starts = histogram(wide.rows(record.start_rows)[:, columns] @ solved.theta)
    answer = Answer(decision, solved.value, solved.theta, features, rows, resampled, starts, told)
    return evaluation_of(job, sums, answer, settings, [*notes, *_about(job, sums, sample, later)])


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


def _about(job: Job, sums: Sums, sample: Looked, later: bool) -> list[str]:
    groups = int((sums["pieces"] > 0).sum())
    fitted_too = "" if later or isinstance(job.wide, StateWide) else "features were fitted, and "
    return [
        f"the log was read in parts: the interval comes from {groups} groups of episodes, by the hash of their ids.",
        f"{fitted_too}missing choices were looked for in {sample[0].n_pieces} episodes drawn by their hash.",
    ]
