"""Evaluates a folder of Parquet files in parts: fits features to a sample and adds up the sums of the parts. The
decision and the report are computed as for a log in memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core.checks import InputError
from gradtd.core.executors import Executor
from gradtd.core.progress import StageProgress
from gradtd.evaluation.checks import BlockEquations, GroupEquations, other_lambda
from gradtd.evaluation.chunks import (
    ChunkReader,
    Folder,
    find_states,
    large_table,
    observed,
    open_folder,
    read_sample,
    refuse_single,
)
from gradtd.evaluation.decide import decide
from gradtd.evaluation.designs.base import refuse_extreme_steps
from gradtd.evaluation.designs.choices import Chooser, make_chooser
from gradtd.evaluation.designs.log_features import MOST_CHECKED, NO_CLOCK, clock_of, is_auto
from gradtd.evaluation.designs.pairs import PairDesign, pair_ladder, pair_state_design
from gradtd.evaluation.designs.real import real_design
from gradtd.evaluation.designs.states import States, are_cells, state_design
from gradtd.evaluation.folder_answer import answer
from gradtd.evaluation.kept_sums import add_to_kept
from gradtd.evaluation.moments import shape_of
from gradtd.evaluation.part_sums import MOST_GROUPS, Job, PartSums, Source, groups_for, sum_parts
from gradtd.evaluation.report.comparison import Evaluations
from gradtd.evaluation.report.estimate import AUTO
from gradtd.evaluation.report.result import Evaluation
from gradtd.evaluation.report.step_sums import StepSums
from gradtd.evaluation.report.verdict import judge
from gradtd.evaluation.settings import ACTION, Settings, refuse_unknown_chances
from gradtd.features import Features, OneHot, default_features, make_features
from gradtd.features.choose import fit_features
from gradtd.logs import Log, Ratios
from gradtd.logs.calibration import with_doubt
from gradtd.logs.files import ParquetTable
from gradtd.logs.models import is_model
from gradtd.logs.policies import is_constant
from gradtd.logs.row_policies import are_names, kept_columns, stands_beside

__all__ = ["evaluate_folder", "large_table"]
METHODS = (AUTO, "lstd")
MOST_FEATURES = 1000
MOST_ROWS = 1_000_000
"""Approximate number of rows for fitting features of states."""
Sample = tuple[Log, Ratios]


def evaluate_folder(
    table: ParquetTable,
    targets: Mapping[str, Any],
    settings: Settings,
    executor: Executor,
    progress: StageProgress | None,
) -> Evaluations:
    """Evaluate every target on a log in parts, reading it once per target."""
    refuse_in_parts(settings, targets)
    if settings.checkpoint is not None:
        return Evaluations(_evaluate_kept(table, targets, settings, executor, progress))
    keep = tuple(kept_columns(*targets.values(), settings.behaviour, settings.time_column))
    with ExitStack() as stack:
        folder = open_folder(table, settings, keep, stack, progress)
        refuse_single(folder.seen, table.name)
        by, cluster = (folder.groups, None) if settings.cluster is None else (None, folder.groups)
        settings = replace(settings, by=by, cluster=cluster)
        made = {}
        for name, target in targets.items():
            pairs = settings.value_function == ACTION and not (isinstance(target, str) and target == "behaviour")
            reader = folder.reader(settings, "behaviour" if pairs else target, executor)
            sample = read_sample(folder.seen, reader)
            job = fit_design(folder, reader, settings, executor, sample, target if pairs else None)
            job = _asked_groups(job, settings)
            source = _FolderSource(folder, executor, progress)
            found = _evaluate_job(job, source, sample, settings)
            made[name] = _with_sample(found, name, folder, sample, settings, target)
        return Evaluations(made)


def _asked_groups(job: Job, settings: Settings) -> Job:
    """The job for groups of starts, or for clusters: each is a group, unless there are more of them."""
    if settings.cluster is not None:
        return replace(job, groups=min(job.groups, len(settings.cluster.names)))
    return job if settings.by is None else replace(job, n_labels=len(settings.by.names))


def _with_sample(
    evaluation: Evaluation, name: str, folder: Folder, sample: Sample, settings: Settings, target: Any
) -> Evaluation:
    """The evaluation with its name, and with the facts about the log and the tests of probabilities from the sample."""
    log, found = sample
    told = log.understood.of_sample(folder.seen.rows, folder.seen.episodes)
    told = told.with_target(found.shares, log.action_labels)
    made = replace(evaluation, target=name, understood=told, warnings=(*told.warnings, *evaluation.warnings))
    if evaluation.diagnostics.values == ACTION:
        return made
    doubted = with_doubt(log, replace(found, notes=()), stands_beside(target))
    made = replace(made, warnings=(*made.warnings, *doubted.notes))
    if doubted.doubt is None:
        return made
    told_too = replace(made.diagnostics, doubt=doubted.doubt)
    verdict = judge(told_too, made.estimates, settings.limits)
    return replace(made, diagnostics=told_too, verdict=verdict.word, reasons=verdict.reasons)


def refuse_in_parts(settings: Settings, targets: Mapping[str, Any]) -> None:
    """Refuse settings that logs in parts do not support. No other function checks this.

    Limits that depend on the log, such as its number of features, are checked later.
    """
    if settings.method not in METHODS:
        raise InputError(
            f"algorithm={settings.method!r} needs the log in memory: use 'auto' or 'lstd', or in_parts=False if the "
            f"log fits into memory."
        )
    if settings.history > 1 or settings.with_time or settings.since is not None:
        raise InputError(
            "history, with_time and since need the log in memory: give in_parts=False, or write such columns into the "
            "log."
        )
    for what, given in (
        *((f"the target {name!r}", given) for name, given in targets.items()),
        ("behaviour", settings.behaviour),
    ):
        if not (given is None or callable(given) or is_model(given) or is_constant(given) or are_names(given)):
            raise InputError(f"{what} of a log that is read in parts must be the name of a column or a function.")
    if settings.behaviour == "estimate":
        raise InputError(
            "gradtd cannot estimate the behaviour from a log that is read in parts: give a column of probabilities."
        )
    if settings.checkpoint is not None:
        for name in ("time_column", "by", "trained_on", "cluster"):
            if getattr(settings, name) is not None:
                raise InputError(
                    f"{name} cannot be combined with a checkpoint, whose sums cover all episodes with one discount: "
                    "leave one of "
                    "them out."
                )
    if settings.confounding is not None:
        raise InputError(
            "confounding solves the log's equations many times and needs the log in memory: give in_parts=False."
        )
    if settings.block_length is not None:
        raise InputError(
            "block_length needs the log in memory: the interval of a log in parts comes from groups of episodes by "
            "the hash of their id, not from blocks. Leave block_length out, or give in_parts=False."
        )
    if settings.value_function == ACTION and settings.tracing is not None:
        raise InputError("action values with lam need the log in memory: leave lam out, or give in_parts=False.")


def fit_design(
    folder: Folder, reader: ChunkReader, settings: Settings, executor: Executor, sample: Sample, target: Any = None
) -> Job:
    """Features and checks fitted to the episodes of a sample, or to all states.

    ``target`` is the policy for action values; None for state values.
    """
    log, seen = sample[0], folder.seen
    refuse_extreme_steps(log, sample[1].rho)  # before their squares overflow
    chooser = None
    if target is not None:
        names = folder.roles.several.get("action", ())
        chooser = make_chooser(folder.table, names, log, target, settings.action_features)
    if log.discrete_observations:
        return _fit_states(find_states(seen, reader, executor), seen.episodes, reader, settings, chooser)
    named = not is_auto(settings.features)
    observations = observed(folder.table, log)
    features = None if not named else _few(fit_features(settings.features, observations))
    base = None if features is None else features.transform(observations)
    design: Any
    if chooser is None:
        design = replace(real_design(observations, base, seen.rows, seen.episodes, settings.limits), features=features)
    else:
        design = _pair_design((observations, base, features), seen.rows, seen.episodes, chooser, settings)
    clock = NO_CLOCK if settings.tracing is not None else clock_of(np.bincount(np.diff(np.r_[log.starts, len(log)])))
    groups = groups_for(shape_of(design.ladder, clock))
    own = 0.0 if settings.tracing is None else settings.tracing.lam
    lam = other_lambda(own, float(np.square(sample[1].rho).mean()), seen.episodes, settings.limits)
    return Job(reader, settings.gamma, settings.tracing, design, features, clock, groups, lam, named, chooser)


def _fit_states(states: States, episodes: int, reader: ChunkReader, settings: Settings, chooser: Chooser | None) -> Job:
    """Fit a design of states with one feature per state, or with the user's features. The sums of cells are sparse."""
    from scipy.sparse import csr_array

    named = not is_auto(settings.features)
    features = make_features(settings.features) if named else default_features(states.values)
    if not features.fitted:  # fit to states weighted by frequency, as for a log in memory
        # A million rows are enough for an aggregation, and fitting needs them in memory.
        times = states.observed * min(1.0, MOST_ROWS / states.observed.sum())
        features = features.fit(np.repeat(states.values, np.maximum(times.round().astype(np.int64), 1)))
    base = features.transform(states.values)
    cells = csr_array(base)
    if are_cells(cells):
        base = cells
    elif chooser is not None:
        raise InputError(
            "Action values of discrete states in parts need one feature per state, such as one-hot. Name "
            "such features, or read the log into memory with in_parts=False."
        )
    else:
        _few(features)
    chosen = not named and isinstance(features, OneHot) and chooser is None
    design: Any = state_design(states, base, episodes, chosen, settings.limits)
    if chooser is not None:
        design = pair_state_design(design, chooser)
    given = (settings.gamma, settings.tracing, design, features, NO_CLOCK, MOST_GROUPS, 0.0, named, chooser)
    return Job(reader, *given)


def _pair_design(
    known: tuple[Any, Any, Features | None], rows: int, episodes: int, chooser: Chooser, settings: Settings
) -> PairDesign:
    """The ladder for action values. ``known`` holds observations, their features, and the feature map."""
    observations, base, features = known
    K = chooser.width
    if base is not None and base.shape[1] * K > MOST_FEATURES:
        raise InputError(
            f"a log in parts supports at most {MOST_FEATURES} features, got {base.shape[1]} times {K} for actions: "
            "use fewer."
        )
    columns = int(min(episodes / K, np.sqrt(settings.limits.most_work / rows) / K, MOST_CHECKED / K))
    inner = real_design(observations, base, max(rows // K, 1), columns, settings.limits)
    return PairDesign(pair_ladder(inner.ladder, K), replace(inner, features=features), chooser.choices)


def _few(features: Features) -> Features:
    """Return the features, or refuse them if there are too many for sums by group."""
    if features.n_features > MOST_FEATURES:
        raise InputError(
            f"a log in parts supports at most {MOST_FEATURES} features, got {features.n_features}: use fewer."
        )
    return features


@dataclass(frozen=True, eq=False)
class _FolderSource(Source):
    """The sums of all parts of a folder, which are computed again each time."""

    folder: Folder
    executor: Executor
    progress: StageProgress | None

    @property
    def notes(self) -> tuple[str, ...]:
        return self.folder.notes

    def steps(self, job: Job, put: Callable[[PartSums], None]) -> None:
        sum_parts(job, self.folder.seen.parts(), put, self.executor, self.progress)


def _evaluate_job(job: Job, source: Source, sample: Sample, settings: Settings) -> Evaluation:
    """Decide and report, from sums of groups or from the steps of states."""
    if settings.tracing is not None:
        refuse_unknown_chances(settings, sample[1].target)
    if job.of_states:
        with tempfile.TemporaryDirectory(prefix="gradtd-") as folder:
            lam = 0.0 if settings.tracing is None else settings.tracing.lam
            steps, numbers = job.step_file(Path(folder), lam), StepSums()

            def put(sums: PartSums) -> None:
                numbers.add(sums.steps)
                for block in sums.blocks:
                    steps.add(block)

            source.steps(job, put)
            steps.finish()
            equations = BlockEquations(steps, job.design.ladder, job.groups)
            decision = decide(equations, settings.level, settings.limits).within(
                *numbers.possible(settings.most_discount)
            )
            return answer(job, equations, numbers, decision, settings, source)
    # Quantities that are not sums of products, such as maxima, come from the sample.
    seen = job.steps(*sample)

    def read(lam: float) -> PartSums:
        return source.moments(replace(job, lam=lam))

    by_group = GroupEquations(read, job.design.ladder, job.clock, seen, job.lam)
    decision, numbers = decide(by_group, settings.level, settings.limits), by_group.last.steps
    return answer(job, by_group, numbers, decision.within(*numbers.possible(settings.most_discount)), settings, source)


def _evaluate_kept(
    table: ParquetTable,
    targets: Mapping[str, Any],
    settings: Settings,
    executor: Executor,
    progress: StageProgress | None,
) -> dict[str, Evaluation]:
    """The evaluation with sums saved in a folder: only new files are read."""
    made = {}
    with add_to_kept(table, settings, executor, progress) as kept:
        for name, target in targets.items():
            source, sample = kept.open(name, target, fit_design)
            found = _evaluate_job(source.job, source, sample, settings)
            made[name] = _with_sample(found, name, source.folder, sample, settings, target)
    return made
