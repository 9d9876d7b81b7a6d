"""The computation for every part of a folder, local or on a worker, and the ordered sum of the results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.compiled.traces import Tracing
from gradtd.core.arrays import Floats, Integers
from gradtd.core.blas import one_thread
from gradtd.core.executors import Executor
from gradtd.core.progress import StageProgress
from gradtd.evaluation.checks import products
from gradtd.evaluation.chunks import ChunkReader, LogChunk
from gradtd.evaluation.designs.base import CHUNK, Design, Rows, Steps, known_chances, steps_of
from gradtd.evaluation.designs.choices import Chooser
from gradtd.evaluation.designs.pairs import PairStateDesign
from gradtd.evaluation.designs.states import StateDesign
from gradtd.evaluation.moments import Moments, Shape, read_moments, shape_of
from gradtd.evaluation.report.step_sums import StepSums, sum_steps
from gradtd.evaluation.step_blocks import Block, StepFile, block_of, join_blocks
from gradtd.features import Features
from gradtd.logs import Log, Ratios
from gradtd.logs.parts import Part

MOST_GROUPS, FEWEST_GROUPS = 500, 40
"""Number of groups of episodes, whose influences give the interval."""
NUMBERS = 16_000_000
"""Approximate maximum size of the products of all groups (128 MB; the behaviour's add up to half of that): with many
features there are fewer groups."""
TOGETHER = 8
"""Number of neighbouring sums that are added in sequence: with more of them, fewer stay in memory, but rounding errors
accumulate."""


def groups_for(shape: Shape) -> int:
    """The number of groups: fewer if sums are large."""
    return int(np.clip(NUMBERS // ((shape.wide + shape.narrow) * shape.wide), FEWEST_GROUPS, MOST_GROUPS))


@dataclass(frozen=True, eq=False)
class Job:
    """What to compute for every part of a log. A job is sent to workers."""

    reader: ChunkReader  # how rows become steps
    gamma: float
    tracing: Tracing | None  # gamma and tracing: the discount factor, and the requested traces
    design: Design  # how steps become design rows
    features: Features | None  # the user's features, or one per state, fitted, or None if gradtd chooses a rung
    clock: Floats  # columns of the time since the start
    groups: int  # number of groups of episodes
    lam: float = 0.0  # the lambda of the fits with other traces
    named: bool = False  # whether the user named features
    chooser: Chooser | None = None  # the target's choices, for action values
    n_labels: int = 0  # number of requested groups of starts; 0 if there are none

    @property
    def of_states(self) -> bool:
        """Whether steps are stored as rows of a table and read again."""
        return isinstance(self.design, StateDesign | PairStateDesign)

    @property
    def table(self) -> Any:
        """The stored table of a `StateDesign`."""
        assert isinstance(self.design, StateDesign | PairStateDesign)
        return self.design.table

    def step_file(self, folder: Path, lam: float) -> StepFile:
        """The file in which the steps of a `StateDesign` are stored."""
        cell = self.design.state_of_row if isinstance(self.design, StateDesign) else None
        return StepFile(folder, self.table, self.groups, lam, n_labels=self.n_labels, cell=cell)

    def steps(self, log: Log, found: Ratios) -> Steps:
        """The steps of a chunk over the rows of the design."""
        rows: Rows = self.design.rows(log)
        return steps_of(log, rows, found.rho, self.gamma, None, self.tracing, known_chances(log, found))


@dataclass
class PartSums:
    """The sums of a part of the log: what the diagnostics need, and moments by group or the steps themselves.

    ``starts`` contains sums of start features, followed by sums of ones, by group of episodes and by group of starts.
    """

    steps: StepSums = field(default_factory=StepSums)
    moments: Moments | None = None
    blocks: list[Block] = field(default_factory=list)
    starts: Floats | None = None

    def add(self, other: PartSums) -> None:
        """Add the sums of later episodes."""
        self.steps.add(other.steps)
        self.blocks += other.blocks
        if other.starts is not None:
            self.starts = other.starts if self.starts is None else self.starts + other.starts
        if self.moments is None:
            self.moments = other.moments
        elif other.moments is not None:
            self.moments.add(other.moments)


@dataclass(frozen=True, eq=False)
class SumPart:
    """The work sent to a worker: the sums of a part."""

    job: Job

    @one_thread()
    def __call__(self, part: Part) -> PartSums:
        """Read a part, about ten thousand rows at a time."""
        job, made = self.job, PartSums()
        if not job.of_states:
            made.moments = Moments.zeros(job.groups, shape_of(job.design.ladder, job.clock))
        for chunk in job.reader.chunks(part, 0 if job.of_states else job.groups):
            if isinstance(chunk, LogChunk):
                self._add(made, chunk)
            else:
                made.steps.notes.update(chunk)
        # A worker returns or writes one block, not one per chunk.
        made.blocks = [join_blocks(made.blocks)] if made.blocks else []
        return made

    def _add(self, made: PartSums, chunk: LogChunk) -> None:
        job, log, found = self.job, chunk.log, chunk.ratios
        group = (chunk.hashes % np.uint64(job.groups)).astype(np.int64)
        both = group  # one number for both groups of an episode, if there are groups of starts
        if job.n_labels and chunk.labels is not None:
            both = group * job.n_labels + chunk.labels
        steps = job.steps(log, found)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            weights = products(steps.rho, steps.discount, steps.begins)
            numbers = sum_steps(log, found, steps.discount, steps.begins, weights)
            if made.moments is None:
                made.blocks.append(block_of(steps, both))
            else:
                if job.n_labels:
                    add_starts(made, steps, both, job)
                read_moments(made.moments, steps, group, job.lam, job.clock, weights)
        choices = steps.rows.choices
        if choices is not None:
            numbers.unseen, numbers.unseen_pairs = choices.unseen, None
        made.steps.add(numbers)


def add_starts(made: PartSums, steps: Steps, group: Integers, job: Job) -> None:
    """Add the starts of these episodes to the sums by ``group``, one number for both kinds of groups."""
    n = job.design.ladder.n_headline_columns
    if made.starts is None:
        made.starts = np.zeros((job.groups, job.n_labels, n + 1))
    by_group = made.starts.reshape(-1, n + 1)
    for begin in range(0, len(group), CHUNK):
        some = slice(begin, begin + CHUNK)
        rows = np.asarray(steps.rows.at(steps.start_rows[some]))[:, :n]
        np.add.at(by_group, group[some], np.c_[rows, np.ones(len(rows))])


class Reduction:
    """Adds sums in a fixed order: neighbouring parts first, then the results. Few sums are in memory at a time."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, PartSums]] = []

    def put(self, sums: PartSums) -> None:
        """Add the sums of the next part."""
        level = 0
        # Pairwise summation: sums of equal size are added, so rounding grows with the logarithm of the number of
        # parts, and the order depends only on that number: the result is the same whichever worker finishes first.
        while self._waiting and self._waiting[-1][0] == level:
            _, count, earlier = self._waiting.pop()
            earlier.add(sums)
            if count + 1 < TOGETHER:
                self._waiting.append((level, count + 1, earlier))
                return
            level, sums = level + 1, earlier
        self._waiting.append((level, 1, sums))

    def total(self) -> PartSums:
        while len(self._waiting) > 1:
            last = self._waiting.pop()[2]
            self._waiting[-1][2].add(last)
        return self._waiting.pop()[2]


class Source(ABC):
    """A log in parts: the sums of its parts, in order."""

    @property
    def later(self) -> bool:
        """Whether files were added after features were fitted."""
        return False

    @property
    @abstractmethod
    def notes(self) -> tuple[str, ...]:
        """Notes about how the log was read."""

    @abstractmethod
    def steps(self, job: Job, put: Callable[[PartSums], None]) -> None:
        """Pass the sums of every part to ``put``. If rows are states, the sums include the steps."""

    def moments(self, job: Job) -> PartSums:
        """The sums of the whole log."""
        total = Reduction()
        self.steps(job, total.put)
        return total.total()


def sum_parts(
    job: Job, parts: Sequence[Part], put: Callable[[PartSums], None], executor: Executor, progress: StageProgress | None
) -> None:
    """Pass the sums of all parts to ``put``, in order."""
    rows, done = sum(map(len, parts)), 0
    for number, sums in in_order(executor.each(SumPart(job), parts)):
        put(sums)
        done += len(parts[number])
        if progress:
            progress("reading", done, rows)


def in_order(results: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """Results in the order of their numbers, not of completion."""
    waiting: dict[int, Any] = {}
    following = 0
    for number, one in results:
        waiting[number] = one
        while following in waiting:
            yield following, waiting.pop(following)
            following += 1
