"""How a chunk of rows becomes steps with ratios: the same reader for a sample, for states and for every part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Integers
from gradtd.core.checks import InputError, RowError
from gradtd.logs import Log, Ratios, ratios
from gradtd.logs.columns import Facts
from gradtd.logs.parts import Part, Words
from gradtd.logs.read import EPISODE, LogReader
from gradtd.logs.steps import NothingFollows


class LogChunk(NamedTuple):
    """Whole episodes as a log with its ratios, and the hash of every episode."""

    log: Log
    ratios: Ratios
    hashes: Words


@dataclass(frozen=True, eq=False)
class ChunkReader:
    """Reads chunks of whole episodes; it is sent to workers.

    Parameters
    ----------
    reader
        Reads rows into a log, as `gradtd.read_log` does.
    target, behaviour, clip
        What `gradtd.logs.ratios` is told.
    episode
        The name of the column of episodes; None where there is none.
    needed
        The columns to read.
    name
        What the log is called.
    shared
        How many ids of episodes stand in several files.
    """

    reader: LogReader
    target: Any
    behaviour: Any
    clip: float | None
    episode: str | None
    needed: Sequence[str]
    name: str
    shared: int = 0

    def read(self, rows: Any, begins: Integers, order: Integers | None = None) -> tuple[Log, Ratios]:
        """Some whole episodes as a log, numbered in their order here; ``order`` are the rows to take, if not all."""
        table = rows if order is None else rows.take(order)
        try:
            log = self.reader.read_chunk(table, begins, self.name)
            return log, ratios(log, self.target, behaviour=self.behaviour, clip=self.clip)
        except RowError as error:
            # Rows may have been sorted, but not beyond their episode.
            episode = None if self.episode is None else table.column(self.episode)[error.row].as_py()
            raise InputError(self._located(error, episode)) from None

    def scan(self, part: Part) -> Facts:
        """What only all rows tell, of those of a part."""
        facts = Facts()
        for rows, begins, _ in part.chunks(self.reader.scanned()):
            facts = facts.merge(self.reader.scan(rows, begins))
        return facts

    def _located(self, error: RowError, episode: Any) -> str:
        """A sentence about a row of a chunk, with its episode; or why rows of several files do not fit together."""
        if not self.shared or not error.clash:
            which = "" if episode is None else f"; that one is of episode {episode!r}"
            return f"{error} Rows are counted in the piece of the log that was read{which}."
        twice = "" if self.reader.duplicates == "drop" else ' Where rows were written twice, use duplicates="drop".'
        return (
            f"ids of episodes stand in several files of {self.name!r} ({self.shared} of them), and "
            f"{error.clash.format(episode=repr(episode))}: the files seem to number their episodes anew. Give every "
            "episode an id of its own, such as the file's name and the number. Where rows are in order and ends are "
            f'marked, ids may be left out, columns={{"episode": None}}.{twice}'
        )

    def chunks(self, part: Part, groups: int = 0) -> Iterator[LogChunk | list[str]]:
        """The chunks of a part; notes where no row of a chunk leads anywhere.

        With ``groups`` episodes are ordered by group, their hash modulo that number: sums by group have longer runs.
        """
        for rows, begins, hashes in part.chunks(self.needed):
            order, at = np.arange(len(hashes)), None
            if groups:
                order = np.argsort(hashes % np.uint64(groups), kind="stable")
            lengths = np.diff(begins)[order]
            edges = np.r_[0, np.cumsum(lengths)]
            if (np.diff(order) != 1).any():
                at = np.repeat(begins[:-1][order] - edges[:-1], lengths) + np.arange(edges[-1])
            try:
                log, made = self.read(rows, edges, at)
            except NothingFollows as nothing:
                yield list(nothing.notes)
                continue
            # Reading may have dropped episodes that had no step left.
            yield LogChunk(log, made, hashes[order][log.extra[EPISODE][log.starts].astype(np.int64)])
