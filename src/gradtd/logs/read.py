"""Reads a log: assigns columns, orders rows, links steps, then reads the observations."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core import checks
from gradtd.core.arrays import Integers
from gradtd.core.checks import InputError, RowError
from gradtd.core.memory_limits import BeyondMemory
from gradtd.core.progress import Progress
from gradtd.logs import columns as narrow_columns
from gradtd.logs.actions import chances, chosen_actions, code_actions, kept, kept_earlier
from gradtd.logs.column_names import Roles, resolve, take_rows_alone
from gradtd.logs.columns import Column, Facts, facts_of, gather
from gradtd.logs.encoding import MISSING, EncodedTable, encode
from gradtd.logs.log import Log, row_numbers
from gradtd.logs.number_signs import mixed_users, signs
from gradtd.logs.observations import read_observations
from gradtd.logs.sanity_checks import (
    columns_of_one_policy,
    ends_marked,
    ends_of_either_kind,
    find_faults,
    missing_told,
    numbered_like,
    refuse_swapped,
    strangers,
)
from gradtd.logs.sources import open_table
from gradtd.logs.steps import NothingFollows, Rows, Steps, arrange, rows_given, single_steps, smallest_stride
from gradtd.logs.tables import FrameTable, Table, with_column
from gradtd.logs.understood import Understood, alike, guesses, told_apart, uses_of


def read_log(
    source: Any,
    *,
    columns: Mapping[str, Any] | None = None,
    keep: Any = (),
    log_probabilities: str = "refuse",
    duplicates: str = "refuse",
    order: str = "sort",
    one_step: bool | None = None,
    actions: Sequence[Any] | None = None,
    time_limit: int | None = None,
    missing: str = "refuse",
    progress: Progress | None = None,
    **unknown: Any,
) -> Log:
    """Read the steps that a policy produced into a `Log`.

    ``log.understood`` describes how gradtd interpreted the table, and ``log.notes`` lists what gradtd changed.

    Parameters
    ----------
    source
        A Parquet file, a folder of them or a pattern such as ``logs/*.parquet``, a CSV file, a pandas or polars frame,
        an Arrow table, a dictionary of arrays (such as d4rl's), a Minari dataset or its id. A `Log` is returned
        unchanged.
    columns
        Maps gradtd's names to the table's: episode, user (with several episodes in sequence), t, start, observation,
        next_observation, action, reward, terminated, truncated, behaviour, target, rho. None excludes a column. Common
        names are recognised without a mapping.
    keep
        Names of other columns to keep, for example another policy's probabilities.
    log_probabilities
        "convert" takes exp of log-probabilities, also in kept columns without a number above 0 and with some below.
        "refuse" raises an error if a probability column contains logarithms.
    duplicates
        "drop" drops rows that equal another row in every column read.
    order
        "refuse" raises an error for rows out of order and keeps the order of the episodes. "sort" sorts.
    one_step
        True takes every row as an episode of one step, as in the log of a bandit, and ignores columns that contradict
        this. The default does so only if no column gives episodes, times or next observations.
    actions
        All discrete actions in the order of a policy's probabilities. By default whole numbers are their own
        codes, categories keep their order, and text is in alphabetical order.
    time_limit
        The step limit of the environment: an episode that ends at exactly this step counts as truncated.
    missing
        How to handle missing values: "refuse" raises an error with the columns and counts. "drop" drops the rows,
        and with each of them the step before it. "indicator" replaces them by the column's mean and adds a column that
        marks them.
    progress
        A function ``progress(done, total)``, called as observations are read.
    **unknown
        Refused with a suggestion.

    >>> log = read_log({"episode": [0, 0, 1], "obs": [3, 4, 3], "reward": [0, 1, 5], "terminated": [0, 1, 1]})
    >>> log
    Log(arrays: 3 steps, 2 episodes (2 terminated, 0 truncated), discrete observations)
      episode      episode  (by name)
      reward       reward  (by name)
      terminated   terminated  (by name)
      observation  obs  (by name ?)
      episodes: 2 of 3 rows, 1 to 2 rows each; by 'episode'
      ends: 2 terminated, 0 truncated
    >>> log.next_row
    array([1, 1, 2], dtype=uint32)
    """
    checks.refuse_arguments("read_log", unknown, [n for n in inspect.signature(read_log).parameters if n != "unknown"])
    checks.one_of("log_probabilities", log_probabilities, ("refuse", "convert"))
    if isinstance(source, Log):
        return _read_before(source, keep) if log_probabilities == "convert" else source
    reader = LogReader(columns, keep, log_probabilities, duplicates, order, one_step, actions, time_limit, missing)
    return reader.read(open_table(source), progress)


NO_ROWS = "has no rows"
EPISODE = "gradtd episode"
"""Added column in chunks: the number of every row's episode, since reading may drop episodes."""


@dataclass(frozen=True, eq=False)
class LogReader:
    """Reads tables into logs, whole or chunk by chunk, in the same way.

    The first nine fields are the arguments of `read_log`. `for_chunks` returns a reader for the chunks of one table. It
    knows the role of every column, but it also needs the ``facts`` of the whole log: `scan` every chunk and merge the
    results. ``whole`` holds the roles and the columns of the whole table.
    """

    columns: Mapping[str, Any] | None = None
    keep: Any = ()
    log_probabilities: str = "refuse"
    duplicates: str = "refuse"
    order: str = "sort"
    one_step: bool | None = None
    actions: Sequence[Any] | None = None
    time_limit: int | None = None
    missing: str = "refuse"
    roles: Roles | None = None
    facts: Facts | None = None
    whole: tuple[Roles, tuple[str, ...]] | None = None

    def __post_init__(self) -> None:
        checks.one_of("log_probabilities", self.log_probabilities, ("refuse", "convert"))
        checks.one_of("duplicates", self.duplicates, ("refuse", "drop"))
        checks.one_of("order", self.order, ("sort", "refuse"))
        if self.one_step is not None:
            checks.yes_or_no("one_step", self.one_step)
        checks.one_of("missing", self.missing, MISSING)
        if self.time_limit is not None:
            checks.whole_number("time_limit", self.time_limit, 1)

    def resolve(self, kinds: Mapping[str, str]) -> Roles:
        """The roles of the columns."""
        if self.roles is not None:
            return replace(self.roles, notes=list(self.roles.notes))
        roles = resolve(kinds, self.columns, self.keep)
        take_rows_alone(roles, self.one_step)
        return roles

    def for_chunks(self, kinds: Mapping[str, str]) -> LogReader:
        """A reader for chunks of whole episodes of a table with these columns."""
        roles = self.resolve(kinds)
        if self.missing != "refuse":
            raise InputError(
                "missing values are not supported in a log that is read in parts: fill them first, or give "
                "in_parts=False."
            )
        if "start" in roles.single and "episode" not in roles.single:
            raise InputError(
                f"column {roles.single['start']!r} marks where episodes begin, which is not supported for a log "
                "that is read in parts: number the episodes in a column, or give in_parts=False."
            )
        if not roles.alone:
            roles.single["episode"] = EPISODE
        roles.keep = (*roles.keep, EPISODE)
        return replace(self, roles=roles, whole=(self.resolve(kinds), tuple(kinds)))

    def needed(self, kinds: Mapping[str, str]) -> list[str]:
        """The columns that a chunk must have. A column of one action's probability implies those of all actions."""
        assert self.roles is not None
        beside = (other for name in self.roles.keep for other in numbered_like(name, kinds))
        return [name for name in dict.fromkeys([*self.roles.columns, *beside]) if name != EPISODE]

    def scanned(self) -> list[str]:
        """The columns that `scan` needs."""
        return [name for name in self._scanned_roles().columns if name != EPISODE]

    def _scanned_roles(self) -> Roles:
        assert self.roles is not None
        single = {role: name for role, name in self.roles.single.items() if role in SCANNED}
        several = {role: names for role, names in self.roles.several.items() if role == "action"}
        return Roles(single, several, keep=self.roles.keep, clock=self.roles.clock)

    def scan(self, rows: Any, begins: Integers) -> Facts:
        """The facts of whole episodes, from an Arrow table of the columns `scanned` and their first rows."""
        roles = self._scanned_roles()
        found, _ = gather(_with_episodes(rows, begins, ""), roles)
        t, counted = found["t"].times() if "t" in roles.single else (None, False)
        episode = found[f"keep.{EPISODE}"].ranks()
        nothing, counted = np.zeros(len(episode), bool), counted and not roles.clock
        return facts_of(found, roles, smallest_stride(Rows(episode, t, counted, None, None, nothing), self.order))

    def read_chunk(self, rows: Any, begins: Integers, name: str) -> Log:
        """Read the whole episodes of an Arrow table, which begin at these rows. An added column numbers them."""
        return self.read(_with_episodes(rows, begins, name))

    def read(self, table: Table, progress: Progress | None = None) -> Log:
        """Read the log in a table. If the table has faults, the error lists all of them."""
        roles = self.resolve(table.kinds)
        try:
            return self._read(table, roles, progress)
        except (NothingFollows, BeyondMemory):
            raise
        except InputError as error:
            if self.roles is None and NO_ROWS not in str(error):
                find_faults(table, self.resolve(table.kinds), error).raise_all()
            raise

    def _read(self, table: Table, roles: Roles, progress: Progress | None) -> Log:
        notes = roles.notes
        notes += getattr(table, "notes", ())
        found, next_state = gather(table, roles)
        seen = table if self.roles is not None else encode(table, roles, self.missing)
        lost = narrow_columns.drop_missing(found) if self.missing == "drop" else None
        if isinstance(seen, EncodedTable):
            notes += seen.notes()
            roles.parts = seen.parts
            if self.missing == "indicator" and next_state is not None:
                next_state = seen.next_state
            if lost is not None and seen.lost is not None:
                lost |= seen.lost
        length = len(found["reward"].values)
        if length == 0:
            raise InputError(f"{table.name!r} {NO_ROWS}.")
        facts = self.facts or facts_of(found, roles)
        same = (lambda a, b: narrow_columns.equal_rows(table, roles, a, b)) if self.duplicates == "drop" else None
        rows = single_steps(length) if roles.alone else self._rows(found, roles, next_state, facts, notes)
        rows.lost = lost if lost is not None and lost.any() else None
        steps = arrange(rows, length, self.order, same, notes, facts.stride)
        steps.warnings += ends_of_either_kind(rows)
        narrow_columns.refuse_unknown_next(next_state, steps, roles)
        # All narrow columns are checked before the observations are read.
        reward, logs = found["reward"].numbers(), self.log_probabilities
        by_letters = getattr(table, "by_letters", ())  # categories without a chosen order
        action, labels, order = code_actions(found, roles, facts, self.actions, by_letters)
        known = labels or _codes_taken(facts, None)
        codes = {name: chosen_actions(found[f"keep.{name}"], labels, known) for name in roles.keep if name != EPISODE}
        choices = {name: values for name, values in codes.items() if values is not None}
        numeric = [name for name in roles.keep if found[f"keep.{name}"].labels is None or name not in choices]
        extra = {name: kept(found[f"keep.{name}"], logs, facts, notes) for name in numeric}
        taken = chances(found, roles, logs, facts, notes)
        found.clear()
        try:
            observations, next_row = read_observations(seen, roles, steps, length, progress, notes)
        except RowError as error:
            told = missing_told(table, roles)
            what = f"the observation lacks a value in row {error.row}.{told}" if told else str(error)
            raise RowError(what, error.row) from None
        told_twice = "next_observation" in roles.several  # and may differ from the next row
        if told_twice:
            refuse_swapped(observations, next_row, steps, roles)
        at = steps.source if len(steps.source) < length or (np.diff(steps.source) != 1).any() else slice(None)

        def chosen(values: NDArray[Any] | None) -> Any:
            return None if values is None else np.ascontiguousarray(values[at])

        given = rows_given(steps, next_row, len(observations), length)
        log = Log(
            observations=observations,
            row=row_numbers(len(steps.source)),
            next_row=next_row,
            reward=chosen(reward),
            terminated=steps.terminated,
            truncated=steps.truncated,
            episode=steps.episode,
            action=chosen(action),
            action_labels=labels,
            behaviour=chosen(taken["behaviour"]),
            target=chosen(taken["target"]),
            rho=chosen(taken["rho"]),
            extra={name: chosen(values) for name, values in extra.items()},
            chosen={name: chosen(values) for name, values in choices.items()},
            observation_names=_component_names(roles, observations),
            name=table.name,
            notes=tuple(notes),
            ends_known=roles.alone or ends_marked(roles, steps.unmarked, int(steps.episode[-1]) + 1),
            strangers=strangers(observations, next_row, steps) if told_twice else 0.0,
            of_every_action=columns_of_one_policy(table, roles.keep),
            extra_beyond={name: _beyond(values, given, len(steps.source)) for name, values in extra.items()},
            given=given,
            n_given=length,
            rows_alone=roles.guessed,
            unmarked=steps.unmarked,
            actions_taken=_codes_taken(facts, labels),
            index=getattr(table, "index", None),
        )
        object.__setattr__(log, "understood", self._understood(log, table, roles, steps, order))
        return log

    def _understood(self, log: Log, table: Table, roles: Roles, steps: Steps, order: str) -> Understood:
        roles, names = self.whole or (roles, tuple(table.kinds))
        how, guessed = told_apart(roles)
        read = set(roles.columns)
        unread = [name for name in names if name not in read]
        counts: tuple[tuple[Any, int], ...] = ()
        if log.discrete_actions and log.action is not None:
            codes, times = np.unique(log.action, return_counts=True)
            if log.action_labels is not None:
                every = np.zeros(len(log.action_labels), np.int64)
                every[codes] = times
                counts = tuple(zip(log.action_labels, map(int, every), strict=True))
            else:
                counts = tuple(zip(map(int, codes), map(int, times), strict=True))
        return Understood(
            columns=uses_of(roles),
            unread=tuple(unread),
            rows=log.n_given or len(log),
            episodes=len(steps.lengths),
            told_apart=how,
            episodes_guessed=guessed,
            lengths=(int(steps.lengths.min()), int(steps.lengths.max())),
            terminated=int(steps.ended.sum()),
            truncated=int((~steps.ended).sum()),
            unmarked=steps.unmarked,
            actions=counts,
            order=order,
            notes=log.notes,
            warnings=(
                *guesses(roles, steps.lengths, steps.ended, self.time_limit, unread),
                *alike(log.action_labels or ()),
                *steps.warnings,
                *signs(log, roles, table),
                *(mixed_users(log, table, roles, unread) if self.roles is None else ()),
                *getattr(table, "warnings", ()),
            ),
        )

    def _rows(
        self,
        found: Mapping[str, Column],
        roles: Roles,
        next_state: NDArray[np.int8] | None,
        facts: Facts,
        notes: list[str],
    ) -> Rows:
        single = roles.single
        flags = {role: found[role].flags() if role in single else None for role in ("terminated", "truncated", "start")}
        if roles.done_flag and "truncated" not in single:
            notes.append(
                f"Column {single['terminated']!r} was read as terminated: if some episodes were only cut off, mark "
                "them in a column truncated."
            )
        return Rows(
            episode=found["episode"].ranks() if "episode" in single else None,
            t=found["t"].times()[0] if "t" in single else None,
            counted=facts.counted and not roles.clock,
            terminated=flags["terminated"],
            truncated=flags["truncated"],
            given=np.zeros(len(found["reward"].values), bool) if next_state is None else next_state == 0,
            done_flag=roles.done_flag,
            cut=roles.cut,
            clock=roles.clock,
            start=flags["start"],
            limit=self.time_limit,
            name=single.get("episode", "episode"),
        )


SCANNED = ("episode", "t", "behaviour", "target")


def _with_episodes(rows: Any, begins: Integers, name: str) -> FrameTable:
    return FrameTable(with_column(rows, EPISODE, np.repeat(np.arange(len(begins) - 1), np.diff(begins))), name)


def _codes_taken(facts: Facts, labels: tuple[Any, ...] | None) -> Integers | None:
    """Codes of all discrete actions of a log."""
    if facts.real_actions or not facts.actions:
        return None
    return np.arange(len(labels)) if labels is not None else np.array(sorted(facts.actions), np.int64)


def _beyond(values: NDArray[Any], given: Integers | None, n_steps: int) -> NDArray[Any]:
    """A column's values for observations that are only next observations. NaN if they were not rows of the table."""
    rows = np.zeros(0, np.int64) if given is None else given[n_steps:]
    return np.where(rows >= 0, values[rows], np.nan)


def _read_before(log: Log, keep: Any) -> Log:
    """An existing log, with its kept columns converted from logarithms."""
    extra, notes = kept_earlier(log.extra, (keep,) if isinstance(keep, str) else keep)
    return replace(log, extra=extra, notes=(*log.notes, *notes)) if notes else log


def _component_names(roles: Roles, observations: NDArray[Any]) -> tuple[str, ...]:
    if observations.ndim == 1 or len(roles.parts) == observations.shape[1]:
        return roles.parts
    return tuple(map(str, range(observations.shape[1])))
