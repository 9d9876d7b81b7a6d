"""Reads a Parquet log in chunks of whole episodes, and turns rows into steps with ratios.

The same reader serves the sample for fitting features, the states, and every part.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Floats, Integers, Words
from gradtd.core.checks import InputError, RowError
from gradtd.core.executors import Executor
from gradtd.core.files import writing
from gradtd.core.progress import StageProgress, stage
from gradtd.evaluation.designs.states import States, merge_states, states_of
from gradtd.evaluation.log_questions import Groups, ask_files, columns_asked, with_times
from gradtd.evaluation.settings import Settings
from gradtd.evaluation.step_blocks import ELSEWHERE
from gradtd.logs import Log, Ratios, ratios
from gradtd.logs.column_names import Roles
from gradtd.logs.columns import Facts
from gradtd.logs.data_files import is_data_file
from gradtd.logs.files import ParquetTable
from gradtd.logs.parts import Part, Survey, bring_together, survey
from gradtd.logs.read import EPISODE, LogReader
from gradtd.logs.sources import open_table
from gradtd.logs.steps import ENDS, NothingFollows


class LogChunk(NamedTuple):
    """Whole episodes as a log with its ratios, the hash of every episode, and its group, if there are groups."""

    log: Log
    ratios: Ratios
    hashes: Words
    labels: Integers | None = None


@dataclass(frozen=True, eq=False)
class ChunkReader:
    """Reads chunks of whole episodes. Instances are sent to workers."""

    reader: LogReader  # reads rows into a log, as `gradtd.read_log` does
    target: Any
    behaviour: Any
    clip: float | None  # target, behaviour and clip: arguments of `gradtd.logs.ratios`
    episode: str | None  # the name of the episode column, or None
    needed: Sequence[str]  # the columns to read
    name: str  # the name of the log
    shared: int = 0  # number of episode ids that occur in several files
    clock: str | None = None  # the column of times, if steps are not evenly spaced
    clustered: bool = False  # whether labels are clusters of episodes, which groups for the error must keep together

    def read(self, rows: Any, begins: Integers, order: Integers | None = None) -> tuple[Log, Ratios]:
        """Read whole episodes as a log and renumber them; ``order`` selects rows (by default all)."""
        table = rows if order is None else rows.take(order)
        try:
            log = self.reader.read_chunk(table, begins, self.name)
            if self.clock is not None:
                log = with_times(log, log, self.clock)[0]
            return log, ratios(log, self.target, behaviour=self.behaviour, clip=self.clip)
        except RowError as error:
            # Rows may have been sorted within their episode.
            episode = None if self.episode is None else table.column(self.episode)[error.row].as_py()
            raise InputError(self._located(error, episode)) from None

    def scan(self, part: Part) -> Facts:
        """The facts of one part of the log. Merged, the facts of all parts are those of the log."""
        facts = Facts()
        for rows, begins, _ in part.chunks(self.reader.scanned()):
            facts = facts.merge(self.reader.scan(rows, begins))
        return facts

    def _located(self, error: RowError, episode: Any) -> str:
        """The message about a row of a chunk, with its episode, or about ids that occur in several files."""
        if not self.shared or not error.clash:
            which = "" if episode is None else f"; this row belongs to episode {episode!r}"
            return f"{error} Row numbers refer to the piece of the log that was read{which}."
        twice = "" if self.reader.duplicates == "drop" else ' If rows were written twice, use duplicates="drop".'
        return (
            f"some episode ids occur in several files of {self.name!r} ({self.shared} of them), and "
            f"{error.clash.format(episode=repr(episode))}: the files seem to reuse episode numbers. Give every "
            "episode a unique id, such as the file's name and the number. If rows are in order and ends are "
            f'marked, you can leave ids out, columns={{"episode": None}}.{twice}'
        )

    def chunks(self, part: Part, groups: int = 0) -> Iterator[LogChunk | list[str]]:
        """The chunks of a part, or only notes if no row of a chunk has a next observation.

        With ``groups``, episodes are ordered by group (hash modulo that number), so that sums by group have longer
        runs.
        """
        done = 0
        for rows, begins, hashes in part.chunks(self.needed):
            labels = None if part.labels is None else part.labels[done : done + len(hashes)]
            done += len(hashes)
            if self.clustered and labels is not None:
                hashes = labels.astype(np.uint64)  # up to as many clusters as groups, each is a group
            order, at = np.arange(len(hashes)) if labels is None else np.flatnonzero(labels >= 0), None
            if not len(order):
                continue
            if groups:
                # Each run of steps of one group is one product of matrices, and ordering by group makes few runs.
                order = order[np.argsort(hashes[order] % np.uint64(groups), kind="stable")]
            lengths = np.diff(begins)[order]
            edges = np.r_[0, np.cumsum(lengths)]
            if len(order) < len(hashes) or (np.diff(order) != 1).any():
                at = np.repeat(begins[:-1][order] - edges[:-1], lengths) + np.arange(edges[-1])
            try:
                log, made = self.read(rows, edges, at)
            except NothingFollows as nothing:
                yield list(nothing.notes)
                continue
            # Reading may have dropped episodes without a remaining step.
            left = order[log.extra[EPISODE][log.starts].astype(np.int64)]
            yield LogChunk(log, made, hashes[left], None if labels is None else labels[left])


LARGE = 2e8
"""A Parquet log with more numbers than this (1.6 GB) is read in parts, unless the caller decides otherwise."""
SAMPLE_ROWS, FEWEST_SAMPLED, MOST_SAMPLED = 4096, 32, 4096
"""Size of the sample for fitting features and finding missing choices: rows, and bounds on episodes."""
NO_COLUMN = (
    "there is no episode column: episodes were split after rows that are terminated or truncated, in the order of the "
    "files. They are grouped by their number, so the interval depends on that order."
)


def large_table(log: Any, in_parts: bool | None) -> ParquetTable | None:
    """The Parquet table of a log that is to be read in parts. None if it is to be read into memory."""
    if isinstance(log, ParquetTable) and in_parts is not False:
        return log
    if in_parts is False or not isinstance(log, (str, Path)):
        if in_parts:
            raise InputError(
                f"in_parts=True, a scheduler and sums need a Parquet file, a folder or a pattern, got "
                f"{type(log).__name__}: write it as Parquet."
            )
        return None
    if not in_parts and is_data_file(Path(log)):  # it would be read twice
        return None
    table = open_table(log)
    if not isinstance(table, ParquetTable):
        if in_parts:
            raise InputError(
                f"in_parts=True, a scheduler and sums need Parquet files, and {table.name!r} is not Parquet: write it "
                f"as Parquet."
            )
        return None
    return table if in_parts or table.size() >= LARGE else None


def find_roles(table: ParquetTable, settings: Settings, keep: tuple[str, ...]) -> Roles:
    """The roles of columns, including one that identifies episodes."""
    roles = log_reader(settings, keep).resolve(table.kinds)
    if not roles.alone and not any(role in roles.single for role in ("episode", *ENDS)):
        raise InputError(
            f"{table.name!r} has neither an episode column nor a terminated or truncated column. A log that is read "
            "in parts needs one of them: add it, or give in_parts=False if the log fits into memory."
        )
    return roles


def log_reader(settings: Settings, keep: tuple[str, ...]) -> LogReader:
    """The reader that turns tables into logs, in parts and in memory."""
    return LogReader(keep=keep, **settings.reading)


def make_reader(
    table: ParquetTable, settings: Settings, target: Any, keep: tuple[str, ...], roles: Roles, shared: int = 0
) -> ChunkReader:
    """The reader that turns chunks of rows into steps with ratios."""
    reader = log_reader(settings, keep).for_chunks(table.kinds)
    episode, needed = roles.single.get("episode"), reader.needed(table.kinds)
    if episode is not None and episode not in needed:
        needed = [episode, *needed]
    given = (settings.behaviour, settings.clip, episode, needed, table.name, shared, settings.time_column)
    clustered = settings.cluster is not None
    return ChunkReader(reader, target, *given, clustered)


@dataclass(frozen=True, eq=False)
class Folder:
    """A log in Parquet files: the files, the roles of their columns, and the row where each episode begins."""

    table: ParquetTable  # the files
    roles: Roles
    keep: tuple[str, ...]  # roles and keep: the roles of columns, and the columns of policies
    seen: Survey  # where episodes begin
    notes: tuple[str, ...]  # what was done to find the episodes
    shared: int  # number of episode ids that occur in several files
    groups: Groups | None = None  # groups of starts, or clusters, if requested

    def reader(self, settings: Settings, target: Any, executor: Executor) -> ChunkReader:
        """The reader of the log's chunks. If chunks depend on all rows, for example on the list of actions, a first
        pass reads all of them."""
        made = make_reader(self.table, settings, target, self.keep, self.roles, self.shared)
        if not made.reader.scanned():
            return made
        facts = Facts()
        # Codes of actions, strides and kinds of probabilities must not depend on the chunk that is read first.
        for _, one in executor.each(made.scan, self.seen.parts()):  # facts merge in any order
            facts = facts.merge(one)
        return replace(made, reader=replace(made.reader, facts=facts))


def open_folder(
    table: ParquetTable, settings: Settings, keep: tuple[str, ...], stack: ExitStack, progress: StageProgress | None
) -> Folder:
    """Find the episodes. If the rows of an episode are scattered, sort all rows in a temporary folder."""
    roles, notes = find_roles(table, settings, keep), []
    beside = columns_asked(settings, table.kinds)
    column = roles.single.get("episode")
    seen = survey(table, roles if column is None else column, stage(progress, "looking for episodes"))
    shared = 0 if column is None else seen.shared()
    if column is None:
        notes.append(NO_COLUMN)
    elif not seen.grouped:
        if "t" not in roles.single:
            raise InputError(_apart(table.name, shared))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gradtd-")))
        by, needed = [column, roles.single["t"]], [*make_reader(table, settings, None, keep, roles).needed, *beside]
        with writing(folder, ELSEWHERE):
            files = bring_together(
                seen, by, [*dict.fromkeys(needed)], folder, stage(progress, "bringing episodes together")
            )
        seen = survey(ParquetTable(table.name, files), column)
        notes.append("Rows of an episode were not consecutive, so the log was sorted once, in a temporary folder.")
        if shared:
            notes.append(
                f"Some episode ids occur in several files ({shared} of them). Rows with the same id were read as one "
                "episode."
            )
    spanning = spanning_note(seen)
    seen, groups, said = ask_files(seen, table.kinds, column, settings)
    return Folder(table, roles, keep, seen, (*notes, *spanning, *said), shared, groups)


def spanning_note(seen: Survey) -> list[str]:
    return [f"{seen.spanning} episode{'s' * (seen.spanning > 1)} continued in the next file."] if seen.spanning else []


def _apart(name: str, shared: int) -> str:
    if not shared:
        return (
            f"rows of one episode in {name!r} must be consecutive, but some episodes continue later: add a column t "
            "to sort by, or give every episode a unique id."
        )
    return (
        f"rows of one episode in {name!r} must be consecutive, but some ids occur in several files ({shared} of "
        "them). If files reuse episode numbers, give every episode a unique id, such as the file's name and the "
        "number. If rows of an episode are scattered, add a column t to sort by."
    )


def refuse_single(seen: Survey, name: str, later: bool = False) -> None:
    """Refuse a single episode, since the interval needs groups; ``later``: more files may be added later."""
    if seen.episodes > 1:
        return
    files = len({stretch.path for stretch in seen.stretches})
    anew = f" in {files} files: if each file is an episode, give each a unique id" if files > 1 else ""
    way = (
        "nothing was saved; run again with the same folder when it has files with more episodes"
        if later
        else "if the log fits into memory, use in_parts=False and block_length=T0 to count every T0 steps as one"
    )
    raise InputError(
        f"{name!r} has a single episode ({seen.rows} rows){anew}. The interval comes from groups of episodes: {way}."
    )


def episodes_of_sample(seen: Survey) -> int:
    """Number of episodes in the sample: fewer if they are long."""
    return int(np.clip(SAMPLE_ROWS / (seen.rows / seen.episodes), FEWEST_SAMPLED, MOST_SAMPLED))


def read_sample(seen: Survey, reader: ChunkReader) -> tuple[Log, Ratios]:
    """The episodes of the sample."""
    return reader.read(*seen.sample(min(episodes_of_sample(seen), seen.episodes), reader.needed))


def observed(table: ParquetTable, log: Log) -> Floats:
    """Continuous observations of a sample, and after them the minimum and maximum of all, if the files store them."""
    observations = log.observations
    if len(log.observation_names) != observations.shape[1]:
        return observations
    ranges = table.ranges(log.observation_names)
    return observations if ranges is None else np.r_[observations, ranges]


def find_states(seen: Survey, reader: ChunkReader, executor: Executor) -> States:
    """Read the log once for its states."""
    found: list[States] = []
    for _, one in executor.each(_StatesOfPart(reader), seen.parts()):  # counts: in any order
        found.append(one)
        # Merge tables of similar size, since merging costs as much as both sizes together.
        while len(found) > 1 and len(found[-2].pairs) <= 2 * len(found[-1].pairs):
            found[-2:] = [merge_states(found[-2:])]
    return merge_states(found)


@dataclass(frozen=True, eq=False)
class _StatesOfPart:
    """The work sent to a worker: the states of a part."""

    reader: ChunkReader

    def __call__(self, part: Part) -> States:
        nothing = States(*(np.zeros(shape, np.int64) for shape in (0, 0, (0, 3), 0)))
        read = (chunk for chunk in self.reader.chunks(part) if isinstance(chunk, LogChunk))
        return merge_states([nothing, *(states_of(chunk.log) for chunk in read)])
