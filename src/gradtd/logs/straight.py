"""Rows that are in order already, as those of most logs are, become steps in one pass.

What `gradtd.logs.steps.arrange` does for any table needs some thirty passes over the narrow columns. A log that is read
in parts is arranged a hundred thousand rows at a time, and each pass counts. So rows that need no mending are taken
here. Where one does, nothing is decided, and `arrange` says what is wrong or mends it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradtd.compiled import engine
from gradtd.core.arrays import Integers, Plain
from gradtd.logs.steps import Flags, Rows, Steps, note_lost, note_unfinished, notes_on_dropped

STEPS, UNFINISHED, CUT, LOST = range(4)


class _Given(NamedTuple):
    """Columns of a table, in its order."""

    episode: Integers
    t: Integers
    terminated: Flags
    truncated: Flags


class _Made(NamedTuple):
    """Room for what `Steps` has.

    ``counts``: steps, episodes whose end is not marked, last rows that are dropped, episodes that had no other row.
    """

    source: Integers
    place: Any
    serves: Any
    episode: Integers
    terminated: Flags
    truncated: Flags
    follower: Flags
    counts: Integers


def straight(rows: Rows, n_rows: int, notes: list[str]) -> Steps | None:
    """The steps of rows that are in order, without gaps and with ends where episodes end; None where some are not.

    >>> none, last = np.zeros(3, bool), np.array([False, True, False])
    >>> episode, notes = np.array([0, 0, 1]), []
    >>> straight(Rows(episode, np.array([0, 1, 0]), True, last, None, none), 3, notes).follower.tolist()
    [True, False]
    >>> notes[2:]
    ['1 episode disappeared: no step of it remained.']
    >>> straight(Rows(episode, np.array([1, 0, 0]), True, last, None, none), 3, notes) is None
    True
    """
    if n_rows >= 2**31 or rows.episode is None or (rows.t is not None and not rows.counted) or rows.given.any():
        return None
    if rows.t is not None and rows.t.dtype != np.int64:
        return None
    nothing, flags = np.zeros(0, np.int64), np.zeros(0, bool)
    given = _Given(
        np.ascontiguousarray(rows.episode, np.int64),
        nothing if rows.t is None else np.ascontiguousarray(rows.t),
        flags if rows.terminated is None else np.ascontiguousarray(rows.terminated),
        flags if rows.truncated is None else np.ascontiguousarray(rows.truncated),
    )
    kinds = (np.int64, np.int32, np.int32, np.int64, np.bool_, np.bool_, np.bool_)
    room: list[Any] = [np.empty(n_rows, kind) for kind in kinds]
    made = _Made(*(*room, np.zeros(4, np.int64)))
    if not engine.kept(_maker)(given, made):
        return None
    n, unfinished, cut, lost = map(int, made.counts)
    notes.extend((*note_unfinished(unfinished), *notes_on_dropped(cut, 0), *note_lost(lost)))
    return Steps(
        source=made.source[:n],
        place=made.place,
        serves=made.serves,
        episode=made.episode[:n],
        terminated=made.terminated[:n],
        truncated=made.truncated[:n],
        follower=made.follower[:n],
        own=np.zeros(n, bool),
        unmarked=unfinished,
    )


def take_rows(given: Any, made: Any) -> bool:
    """Row after row; whether all are in order."""
    n, number, step, begin, stride = given.episode.shape[0], 0, 0, 0, 0
    timed, ends, cuts = given.t.shape[0] > 0, given.terminated.shape[0] > 0, given.truncated.shape[0] > 0
    for i in range(n):
        terminated = ends and given.terminated[i]
        truncated = cuts and given.truncated[i]
        goes_on = i + 1 < n and given.episode[i + 1] == given.episode[i]
        made.serves[i] = -1
        if goes_on:
            ahead = given.t[i + 1] - given.t[i] if timed else 1
            stride = ahead if stride == 0 else stride
            if terminated or truncated or ahead != stride or ahead <= 0:
                return False
        elif (i + 1 < n and given.episode[i + 1] < given.episode[i]) or (terminated and truncated):
            return False
        if not goes_on and not terminated:  # nothing is known of what follows, and the step before leads here
            made.place[i] = -1
            made.counts[CUT] += 1
            made.counts[UNFINISHED] += not truncated
            if i > begin:
                made.serves[i], made.follower[step - 1], made.truncated[step - 1] = step - 1, False, True
            else:
                made.counts[LOST] += 1
                number -= 1
        else:
            made.source[step], made.place[i], made.episode[step] = i, step, number
            made.terminated[step], made.truncated[step], made.follower[step] = terminated, False, goes_on
            step += 1
        if not goes_on:
            number, begin = number + 1, i + 1
    made.counts[STEPS] = step
    return step > 0


def _maker(fingerprint: str) -> Plain:
    def run(given: Any, made: Any) -> bool:
        fingerprint  # noqa: B018 (part of the closure, and so of the key of the cache)
        return take_rows(given, made)

    return run
