"""Turns table rows into steps: their order, the ends of episodes, and what follows each step.

Only the narrow columns are needed for this. Observations are read afterwards and written directly to their final place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core.arrays import Integers
from gradtd.core.checks import InputError, RowError
from gradtd.core.stream import begins_episode, episode_numbers
from gradtd.logs.row_episodes import (
    FIRST_ENDS,
    SORTED,
    EpisodeCounter,
    gap_warning,
    late_warning,
    lost_warning,
    pieces_told,
)

Flags = NDArray[np.bool_]
ENDS = ("terminated", "truncated")
SAME_T = "rows of episode {episode} have the same t"
GOES_ON = "episode {episode} continues after its end"
"""Reasons why rows cannot form one episode, carried by `gradtd.core.checks.RowError`."""


class NothingFollows(InputError):
    """Raised if no row has a next observation. Other chunks may have next observations. ``notes`` are those of this
    chunk."""

    def __init__(self, message: str, notes: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.notes = tuple(notes)


@dataclass
class Rows:
    """The narrow columns in the table's order. ``given``: whether a row has its own next observation.

    ``cut``: ``episode`` ranks users, whose rows are split after ends. ``clock``: t is a timestamp, which rows may
    share. ``start`` marks the first row of an episode. ``limit`` is the number of rows after which an episode is
    truncated. ``lost`` are rows that cannot be used.
    """

    episode: Integers | None  # ranks of the ids
    t: NDArray[Any] | None
    counted: bool  # whether t counts steps, so that gaps can be detected; otherwise it only orders rows
    terminated: Flags | None
    truncated: Flags | None
    given: Flags
    done_flag: bool = False
    cut: bool = False
    clock: bool = False
    start: Flags | None = None
    limit: int | None = None
    lost: Flags | None = None
    name: str = "episode"  # name of the episode column


@dataclass
class Steps:
    """The arrangement of rows into steps.

    ``source[i]`` is the row of step i. ``place[r]`` is the step of row r, -1 if it is dropped; ``serves[r]`` is the
    step whose next observation is that of the dropped row r, else -1. ``follower``: whether a step's next observation
    is that of the following step (or is compared with it, if the row also has one). ``own``: whether the row's own next
    observation is used. ``unmarked`` counts the episodes whose last row is neither terminated nor truncated.
    ``lengths`` are the numbers of rows of the table's episodes; ``ended`` marks those that terminated.
    """

    source: Integers
    place: NDArray[Any]
    serves: NDArray[Any]
    episode: Integers
    terminated: Flags
    truncated: Flags
    follower: Flags
    own: Flags
    unmarked: int = 0
    warnings: tuple[str, ...] = ()
    lengths: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    ended: Flags = field(default_factory=lambda: np.zeros(0, bool))


def single_steps(n_rows: int) -> Rows:
    """Rows of which each is an episode."""
    return Rows(np.arange(n_rows), None, False, np.ones(n_rows, bool), None, np.zeros(n_rows, bool))


Equal = Callable[[Integers, Integers], Flags]


def arrange(
    rows: Rows, n_rows: int, order: str, same: Equal | None, notes: list[str], stride: float | None = None
) -> Steps:
    """Order the rows and find the next observation of each step.

    ``same`` compares rows, if duplicates may be dropped. ``stride`` is the difference of t from step to step; it is
    estimated unless the rows are a chunk of a log.
    """
    terminated, truncated = _ends(rows, n_rows, notes)
    episode = _episodes(rows, terminated | truncated, notes)
    source = _ordered(episode, rows, order, notes)
    timed = None if rows.clock and same is None else rows.t
    source = _without_duplicates(source, episode, timed, same, notes)
    at = _places(source, n_rows)
    episode, terminated, truncated = episode[at], terminated[at], truncated[at]
    if rows.cut:
        begins = begins_episode(episode)
        begins[1:] |= (terminated | truncated)[:-1]
        episode = np.cumsum(begins) - 1
    if rows.limit is not None:
        _cut_at_limit(rows.limit, episode, terminated, truncated, notes)
    goes_on = ~_ends_episode(episode)
    _refuse_ends_inside(goes_on, terminated, truncated, source)
    unfinished = ~goes_on & ~terminated & ~truncated
    truncated |= unfinished
    _note(notes, "Episodes without an end in the log, counted as truncated", unfinished)
    follower = goes_on & ~_gaps(rows, at, goes_on, stride, notes)
    own = rows.given[at]
    keep = follower | own | terminated
    if rows.lost is not None:
        lost = rows.lost[at]
        follower &= ~np.r_[lost[1:], False]
        keep = (follower | own | terminated) & ~lost
        _note(notes, "Rows dropped because a value is missing", lost)
        _note(notes, "Episodes whose first row was dropped, so that they begin later", lost & begins_episode(episode))
    _note(
        notes,
        "Last steps of truncated episodes dropped, because they have no next observation to bootstrap from (they "
        "serve as the next observation of the previous step)",
        ~keep & ~goes_on,
    )
    _note(notes, "Steps before a gap in t dropped, because their next observation is missing", ~keep & goes_on)
    lost = int(begins_episode(episode).sum() - begins_episode(episode[keep]).sum())
    notes.extend(note_lost(lost))
    if not keep.any():
        raise NothingFollows(
            "every episode has a single row without an end or a next observation, so there is no complete step: add "
            "the next observations as columns, or pass one_step=True if each row is a whole episode.",
            notes,
        )
    steps = _steps(source, episode, terminated, truncated, follower, own, keep, n_rows)
    steps.unmarked, steps.warnings = int(unfinished.sum()), gap_warning(goes_on, follower, rows)
    steps.warnings += lost_warning(lost, int((~goes_on).sum()))
    if rows.episode is None and rows.start is None and bool((terminated | truncated)[0]) and bool(unfinished[-1]):
        steps.warnings += (FIRST_ENDS,)
    steps.warnings += late_warning(rows, at, goes_on)
    last = np.flatnonzero(~goes_on)
    steps.lengths, steps.ended = np.diff(np.r_[-1, last]), terminated[last]
    return steps


def _cut_at_limit(limit: int, episode: Integers, terminated: Flags, truncated: Flags, notes: list[str]) -> None:
    """Count ends at the step limit as truncated."""
    begins = np.flatnonzero(begins_episode(episode))
    age = np.arange(len(episode)) - np.repeat(begins, np.diff(np.r_[begins, len(episode)]))
    if (age >= limit).any():
        at = int(np.flatnonzero(age >= limit)[0])
        raise InputError(
            f"an episode has more than time_limit={limit} rows: give the step limit of the environment, "
            f"{int(age.max()) + 1} or more, or the column that numbers the episodes (step {at})."
        )
    late = terminated & (age == limit - 1)
    terminated &= ~late
    truncated |= late
    _note(notes, f"Ends after {limit} steps, counted as truncated", late)


def _ends(rows: Rows, n_rows: int, notes: list[str]) -> tuple[Flags, Flags]:
    terminated = np.zeros(n_rows, bool) if rows.terminated is None else rows.terminated.copy()
    truncated = np.zeros(n_rows, bool) if rows.truncated is None else rows.truncated.copy()
    both = terminated & truncated
    if both.any() and rows.done_flag:  # done marks either end; the other column decides
        terminated &= ~truncated
        _note(notes, "Rows with both done and truncated, counted as truncated", both)
    elif both.any():
        truncated &= ~terminated
        _note(notes, "Rows with both terminated and truncated, counted as terminated", both)
    return terminated, truncated


def _episodes(rows: Rows, ends: Flags, notes: list[str]) -> Integers:
    if rows.episode is not None:
        return rows.episode
    if rows.start is not None:
        begins = rows.start.copy()
        begins[1:] |= ends[:-1]
        begins[0] = True
        return np.asarray(np.cumsum(begins) - 1)
    if rows.terminated is None and rows.truncated is None:
        raise InputError(
            "there is no episode column and no terminated or truncated column, so gradtd cannot see where "
            'episodes end: name the column that numbers them, columns={"episode": ...}, or use one_step=True if '
            "every row is an episode."
        )
    notes.append("There is no episode column: episodes were split after terminated or truncated rows.")
    return EpisodeCounter(rows.clock).number(ends, rows.t)


def _ordered(episode: Integers, rows: Rows, order: str, notes: list[str]) -> Integers:
    """Sort rows by (episode, t). The order is unchanged if there is no t or sorting is not requested."""
    everything = np.arange(len(episode), dtype=np.int64)
    if rows.episode is None:
        return everything
    t = rows.t
    begins = begins_episode(episode)
    same = ~begins[1:]
    if t is not None and order == "sort":
        behind = (episode[1:] < episode[:-1]) | (same & (t[1:] < t[:-1]))
        if not behind.any():
            return everything
        notes.append("The rows were not in order: sorted by episode and t.")
        return np.lexsort((t, episode)).astype(np.int64)  # stable, so equal rows keep their order
    first, count = np.unique(episode[begins], return_counts=True)
    if (count > 1).any() and rows.cut and t is None and order == "sort":
        notes.append(
            f"the rows of each {rows.name!r} were read as one sequence, in the order of the table, because there is no "
            "t."
        )
        return np.argsort(episode, kind="stable").astype(np.int64)
    if (count > 1).any():
        at = int(np.flatnonzero(begins & (episode == first[count > 1][0]))[1])
        raise RowError(pieces_told(rows, episode, at), at)
    if t is not None and (same & (t[1:] < t[:-1])).any():
        at = int(np.flatnonzero(same & (t[1:] < t[:-1]))[0]) + 1
        raise RowError(f"t falls from {t[at - 1]} to {t[at]} at row {at}, within an episode: {SORTED}.", at)
    return everything


def _without_duplicates(
    source: Integers, episode: Integers, t: NDArray[Any] | None, same: Equal | None, notes: list[str]
) -> Integers:
    if t is None:
        return source
    again, at = np.ones(len(source) - 1, bool), _places(source, len(t))
    for column in (episode, t):
        ordered = column[at]
        again &= ordered[1:] == ordered[:-1]
    if not again.any():
        return source
    before, after = source[:-1][again], source[1:][again]
    if same is None:
        raise RowError(
            f"rows {before[0]} and {after[0]} have the same episode and t (as do {len(after) - 1} more pairs): "
            'remove one of them, or use duplicates="drop" if they are equal. If several files reuse episode numbers, '
            "give every episode a unique id.",
            int(before[0]),
            SAME_T,
        )
    differ = ~same(before, after)
    if differ.any():
        at = int(np.flatnonzero(differ)[0])
        raise RowError(
            f"rows {before[at]} and {after[at]} have the same episode and t but differ: remove one of them.",
            int(before[at]),
            SAME_T,
        )
    _note(notes, "Rows dropped because they equal the previous row in every column read", again)
    return source[np.r_[True, ~again]]


def _places(source: Integers, n_rows: int) -> Any:
    """An index into columns. If all rows are used in order, this is a slice, which does not copy."""
    in_order = len(source) == n_rows and bool((source[1:] > source[:-1]).all())
    return slice(None) if in_order else source


def _refuse_ends_inside(goes_on: Flags, terminated: Flags, truncated: Flags, source: Integers) -> None:
    for word, flags in (("terminated", terminated), ("truncated", truncated)):
        inside = np.flatnonzero(goes_on & flags)
        if len(inside):
            at = int(inside[0])
            raise RowError(
                f"row {source[at]} is {word}, but row {source[at + 1]} continues the same episode "
                f"({len(inside)} such rows): give every episode a unique number.",
                int(source[at]),
                GOES_ON,
            )


def _gaps(rows: Rows, at: Any, goes_on: Flags, stride: float | None, notes: list[str]) -> Flags:
    """Whether rows are missing between a step and its next row."""
    nowhere = np.zeros(len(goes_on), bool)
    if rows.t is None or not goes_on.any():
        return nowhere
    if not rows.counted:
        notes.append(
            "Column t does not count steps: it was used only to order rows, so missing rows cannot be detected."
        )
        return nowhere
    t = rows.t[at]
    ahead = np.r_[np.diff(t), 0]
    gaps = goes_on & (ahead > (ahead[goes_on].min() if stride is None else stride))
    clock = '(if t is a timestamp and not a step count, leave it out: columns={"t": None})'
    _note(notes, f"Gaps in t, where rows seem to be missing {clock}", gaps)
    return np.asarray(gaps)


def smallest_stride(rows: Rows, order: str) -> float:
    """The smallest difference of t between steps: 4 if every fourth frame is logged."""
    if rows.t is None or rows.episode is None or not rows.counted:
        return np.inf
    source = _ordered(rows.episode, rows, order, [])
    episode, t = rows.episode[source], rows.t[source]
    ahead = np.diff(t)[episode[1:] == episode[:-1]]
    ahead = ahead[ahead > 0]
    return float(ahead.min()) if len(ahead) else np.inf


def note_lost(episodes: int) -> list[str]:
    """The note about episodes that were dropped, since no step remained."""
    return [f"Episodes dropped, since none of their steps remained: {episodes}."] if episodes else []


def _note(notes: list[str], what: str, flags: Flags) -> None:
    """Add a note that ends with a count, so that `gradtd.logs.log.merge_notes` can add counts of chunks."""
    if flags.any():
        notes.append(f"{what}: {int(flags.sum())}.")


def _steps(
    source: Integers,
    episode: Integers,
    terminated: Flags,
    truncated: Flags,
    follower: Flags,
    own: Flags,
    keep: Flags,
    n_rows: int,
) -> Steps:
    small = np.int32 if n_rows < 2**31 else np.int64
    kept = np.flatnonzero(keep)
    place, of = np.full(n_rows, -1, small), source[kept]
    place[of] = np.arange(len(kept), dtype=small)
    # If the following row is dropped, its observation is stored as an extra row.
    widowed = keep & follower
    widowed[:-1] &= ~keep[1:]
    widowed[-1] = False
    serves = np.full(n_rows, -1, small)
    before = np.flatnonzero(widowed & ~own)
    serves[source[before + 1]] = place[source[before]]
    episode, terminated = episode[kept], terminated[kept]
    return Steps(
        source=of,
        place=place,
        serves=serves,
        episode=episode_numbers(episode),
        terminated=terminated,
        truncated=truncated[kept] | (_ends_episode(episode) & ~terminated),  # even if the last row was dropped
        follower=(follower & ~widowed)[kept],
        own=own[kept],
    )


def rows_given(steps: Steps, next_row: NDArray[Any], n_observations: int, n_rows: int) -> Integers | None:
    """The table row of every observation, -1 for none, or None if observations are the rows in order."""
    n = len(steps.source)
    if n == n_rows == n_observations and (np.diff(steps.source) == 1).all():
        return None
    given = np.full(n_observations, -1, np.int64)
    given[:n] = steps.source
    dropped = np.flatnonzero(steps.serves >= 0)
    given[next_row[steps.serves[dropped]]] = dropped
    return given


def _ends_episode(episode: Integers) -> Flags:
    """Whether each step is the last of its episode."""
    return begins_episode(episode[::-1])[::-1]
