"""What has to be done to every part of a log, and how a chunk of rows becomes a log of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError, RowError
from gradtd.evaluation.actions.rows import PairWide
from gradtd.evaluation.parts.pairs import Chooser, pairs_of
from gradtd.evaluation.parts.state_table import StateWide
from gradtd.evaluation.preparing import refuse_extreme
from gradtd.evaluation.trust.records import Record, Wide, record_of
from gradtd.features import Features
from gradtd.logs import Log, Ratios, ratios, read_log
from gradtd.logs.parts import Words
from gradtd.logs.steps import NothingFollows
from gradtd.logs.tables import FrameTable, with_column

MOST_GROUPS, FEWEST_GROUPS = 1000, 40
"""Groups of episodes whose sums are kept apart; their influences give the interval."""
NUMBERS = 16_000_000
"""Numbers that the sums of all groups may have, about (128 MB): with many features there are fewer groups."""


EPISODE = "gradtd episode"
"""A column of ours with the same numbers, where the log has no column of episodes."""
PIECE = "gradtd piece"
"""A column of ours with the number of every row's episode in a chunk: reading may drop episodes."""


@dataclass(frozen=True, eq=False)
class Reading:
    """How rows become steps with ratios: what `gradtd.read_log` and `gradtd.logs.ratios` are told."""

    columns: Mapping[str, Any] | None
    keep: tuple[str, ...]
    log_probabilities: str
    duplicates: str
    target: Any
    behaviour: Any
    clip: float | None
    episode: str
    """The name of the column of episodes."""
    needed: Sequence[str]
    """The columns to read."""
    shared: int = 0
    """How many ids of episodes stand in several files."""

    def log(self, rows: Any, begins: Integers, name: str, at: Integers | None = None) -> tuple[Log, Ratios]:
        """Some whole episodes as a log, numbered in their order here; ``at`` are the rows, where not all in order."""
        try:
            return self._log(rows, begins, name, at)
        except RowError as error:
            # Rows may have been sorted, but not beyond their episode.
            known = self.episode in rows.schema.names
            row = error.row if at is None else int(at[error.row])
            episode = rows.column(self.episode)[row].as_py() if known else None
            raise InputError(self._located(error, episode, name)) from None

    def _located(self, error: RowError, episode: Any, name: str) -> str:
        """A sentence about a row of a piece of the log, with its episode; or why rows of several files do not fit."""
        if not self.shared or not error.clash:
            which = "" if episode is None else f"; that one is of episode {episode!r}"
            return f"{error} Rows are counted in the piece of the log that was read{which}."
        twice = ' Where rows were written twice, use duplicates="drop".' if self.duplicates != "drop" else ""
        return (
            f"ids of episodes stand in several files of {name!r} ({self.shared} of them), and "
            f"{error.clash.format(episode=repr(episode))}: the files seem to number their episodes anew. Give every "
            "episode an id of its own, such as the file's name and the number. Where rows are in order and ends are "
            f'marked, ids may be left out, columns={{"episode": None}}.{twice}'
        )

    def _log(self, rows: Any, begins: Integers, name: str, at: Integers | None) -> tuple[Log, Ratios]:
        number = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
        table = rows if at is None else rows.take(at)
        for label in (self.episode, PIECE):
            table = with_column(table, label, number)
        read = read_log(
            FrameTable(table, name),
            columns=self.columns,
            keep=(*self.keep, PIECE),
            log_probabilities=self.log_probabilities,
            duplicates=self.duplicates,
        )
        found = ratios(read, self.target, behaviour=self.behaviour, clip=self.clip)
        return read, found

    def steps(self, rows: Any, begins: Integers, name: str, at: Integers | None = None) -> tuple[Log, Ratios] | None:
        """The same of some of the episodes; None where no row of them leads anywhere, as the last one may not."""
        try:
            return self.log(rows, begins, name, at)
        except NothingFollows:
            return None


def groups_for(wide: Wide) -> int:
    """How many groups there are: fewer where sums are large."""
    each = (wide.n_columns + wide.n_headline_columns) * wide.n_columns
    return int(np.clip(NUMBERS // each, FEWEST_GROUPS, MOST_GROUPS))


@dataclass(frozen=True, eq=False)
class Job:
    """What is computed of every part.

    Parameters
    ----------
    reading
        How rows become steps.
    gamma
        The discount factor.
    features
        The features named, or one per state, fitted; None where they are chosen among the rungs.
    wide
        The widest table of the checks, without its rows.
    lam
        The lambda of the fits with memory.
    groups
        Groups of episodes whose sums are kept apart.
    name
        What the log is called.
    clock
        Columns of the time since the start.
    named
        Whether features were asked for by name.
    chooser
        What the target would do, where values are of actions.
    """

    reading: Reading
    gamma: float
    features: Features | None
    wide: Wide
    lam: float
    groups: int
    name: str
    clock: Floats
    named: bool = False
    chooser: Chooser | None = None

    def group_of(self, hashes: Words) -> Integers:
        """The group of every episode."""
        return (hashes % np.uint64(self.groups)).astype(np.int64)

    def table(self, log: Log) -> Wide:
        """The widest table over the observations of some episodes."""
        if isinstance(self.wide, StateWide):
            return self.wide.of(log)
        base = None if self.features is None else self.features.transform(log.observations)
        if base is not None:
            refuse_extreme("feature", base if isinstance(base, np.ndarray) else base.data, "rescale the features")
        if self.chooser is not None:
            assert isinstance(self.wide, PairWide)
            return pairs_of(self.wide, log, base, self.chooser)
        return replace(self.wide, base=base, observations=log.observations)

    def unseen(self, found: Ratios, wide: Wide) -> float | None:
        """Part of the target's choices that some episodes never took anywhere."""
        return wide.unseen if isinstance(wide, PairWide) else found.unseen_mass

    def record(self, log: Log, found: Ratios, wide: Wide) -> Record:
        return record_of(log, log.episode, found.rho, self.gamma, wide, blocks=False)
