"""A Parquet log that is read in parts: which rows are an episode, a sample of its episodes, and its states."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.core.executors import Executor
from gradtd.core.files import writing
from gradtd.core.progress import StageProgress, stage
from gradtd.evaluation.designs.states import States, merge_states, states_of
from gradtd.evaluation.moments.blocks import ELSEWHERE
from gradtd.evaluation.settings import Settings
from gradtd.evaluation.sources.chunks import ChunkReader, LogChunk
from gradtd.logs import Log, Ratios
from gradtd.logs.column_names import Roles
from gradtd.logs.columns import Facts
from gradtd.logs.files import ParquetTable
from gradtd.logs.parts import Part, Survey, bring_together, survey
from gradtd.logs.read import LogReader, open_table
from gradtd.logs.steps import ENDS

LARGE = 2e8
"""Numbers in a Parquet log from which on it is read in parts (1.6 GB), unless the caller says otherwise."""
SAMPLE_ROWS, FEWEST_SAMPLED, MOST_SAMPLED = 4096, 32, 4096
"""Rows, and bounds of episodes, that features are fitted to and missing choices are looked for in."""
NO_COLUMN = (
    "there is no episode column: episodes were cut after rows that are terminated or truncated, in the order of the "
    "files. They are grouped by their number, so the interval depends on that order."
)


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


def find_roles(table: ParquetTable, settings: Settings, keep: tuple[str, ...]) -> Roles:
    """Which column is which, one that tells episodes apart among them."""
    roles = log_reader(settings, keep).resolve(table.kinds)
    if not roles.alone and not any(role in roles.single for role in ("episode", *ENDS)):
        raise InputError(
            f"{table.name!r} has no column of episodes, and none that says terminated or truncated. A log that is read "
            "in parts needs one of them: add it, or give in_parts=False where the log fits into memory."
        )
    return roles


def log_reader(settings: Settings, keep: tuple[str, ...]) -> LogReader:
    """The reader of tables that a log in memory has, too."""
    return LogReader(keep=keep, **settings.reading)


def make_reader(
    table: ParquetTable, settings: Settings, target: Any, keep: tuple[str, ...], roles: Roles, shared: int = 0
) -> ChunkReader:
    """How chunks of rows become steps with ratios."""
    reader = log_reader(settings, keep).for_chunks(table.kinds)
    episode, needed = roles.single.get("episode"), reader.needed(table.kinds)
    if episode is not None and episode not in needed:
        needed = [episode, *needed]
    return ChunkReader(reader, target, settings.behaviour, settings.clip, episode, needed, table.name, shared)


@dataclass(frozen=True, eq=False)
class Folder:
    """A log in files.

    Parameters
    ----------
    table
        The files.
    roles, keep
        Which column is which, and those of policies.
    seen
        Where episodes begin.
    notes
        What was done to find out.
    shared
        How many ids of episodes stand in several files.
    """

    table: ParquetTable
    roles: Roles
    keep: tuple[str, ...]
    seen: Survey
    notes: tuple[str, ...]
    shared: int

    def reader(self, settings: Settings, target: Any, executor: Executor) -> ChunkReader:
        """The reader of its chunks. What only all rows tell, such as all actions, is looked for first."""
        made = make_reader(self.table, settings, target, self.keep, self.roles, self.shared)
        if not made.reader.scanned():
            return made
        facts = Facts()
        for _, one in executor.each(made.scan, self.seen.parts()):  # facts merge in any order
            facts = facts.merge(one)
        return replace(made, reader=replace(made.reader, facts=facts))


def open_folder(
    table: ParquetTable, settings: Settings, keep: tuple[str, ...], stack: ExitStack, progress: StageProgress | None
) -> Folder:
    """Look for episodes; their rows are brought together in a temporary folder where they are apart."""
    roles, notes = find_roles(table, settings, keep), []
    column = roles.single.get("episode")
    seen = survey(table, roles if column is None else column, stage(progress, "looking for episodes"))
    shared = 0 if column is None else seen.shared()
    if column is None:
        notes.append(NO_COLUMN)
    elif not seen.grouped:
        if "t" not in roles.single:
            raise InputError(_apart(table.name, shared))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gradtd-")))
        by, needed = [column, roles.single["t"]], make_reader(table, settings, None, keep, roles).needed
        with writing(folder, ELSEWHERE):
            files = bring_together(seen, by, needed, folder, stage(progress, "bringing episodes together"))
        seen = survey(ParquetTable(table.name, files), column)
        notes.append("rows of an episode did not stand together: the log was sorted once, in a temporary folder.")
        if shared:
            notes.append(f"ids stood in several files ({shared} of them): rows of one id were taken as one episode.")
    return Folder(table, roles, keep, seen, (*notes, *spanning_note(seen)), shared)


def spanning_note(seen: Survey) -> list[str]:
    return [f"{seen.spanning} episode{'s' * (seen.spanning > 1)} went on in the next file."] if seen.spanning else []


def _apart(name: str, shared: int) -> str:
    if not shared:
        return (
            f"an episode of {name!r} must be in one piece, and some begin again later: add a column t to sort by, or "
            "give every episode an id of its own."
        )
    return (
        f"an episode of {name!r} must be in one piece, and ids stand in several files ({shared} of them): where files "
        "number their episodes anew, give every episode an id of its own, such as the file's name and the number; "
        "where rows of an episode are scattered, add a column t to sort by."
    )


def refuse_single(seen: Survey, name: str, later: bool = False) -> None:
    """An interval comes from groups of episodes; ``later`` says that files may come later."""
    if seen.episodes > 1:
        return
    files = len({stretch.path for stretch in seen.stretches})
    anew = f" in {files} files: where each file is an episode, give each an id of its own" if files > 1 else ""
    way = (
        "nothing of it was kept; start again with the same folder when there are files with more episodes"
        if later
        else "give in_parts=False and block=T0 where the log fits into memory, to count every T0 steps as one"
    )
    raise InputError(
        f"{name!r} has a single episode ({seen.rows} rows){anew}. The interval comes from groups of episodes: {way}."
    )


def episodes_of_sample(seen: Survey) -> int:
    """How many episodes a sample has, where there are so many: fewer where they are long."""
    return int(np.clip(SAMPLE_ROWS / (seen.rows / seen.episodes), FEWEST_SAMPLED, MOST_SAMPLED))


def read_sample(seen: Survey, reader: ChunkReader) -> tuple[Log, Ratios]:
    """The episodes of the sample."""
    return reader.read(*seen.sample(min(episodes_of_sample(seen), seen.episodes), reader.needed))


def observed(table: ParquetTable, log: Log) -> Floats:
    """Real observations of a sample and, behind them, the least and the largest of all, where the files tell them."""
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
        while len(found) > 1 and len(found[-2].pairs) <= 2 * len(found[-1].pairs):
            found[-2:] = [merge_states(found[-2:])]
    return merge_states(found)


@dataclass(frozen=True, eq=False)
class _StatesOfPart:
    """What a worker is sent."""

    reader: ChunkReader

    def __call__(self, part: Part) -> States:
        nothing = States(*(np.zeros(shape, np.int64) for shape in (0, 0, (0, 3), 0)))
        read = (chunk for chunk in self.reader.chunks(part) if isinstance(chunk, LogChunk))
        return merge_states([nothing, *(states_of(chunk.log) for chunk in read)])
