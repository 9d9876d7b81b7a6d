"""Adds the past to observations: previous observations with their actions, and the time.

Ratios are computed earlier, on the original observations, because policies depend on those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.core.stream import episode_begins
from gradtd.evaluation.markov import TIME
from gradtd.evaluation.report.estimate import AUTO
from gradtd.evaluation.settings import STATE, Settings
from gradtd.logs import Log, Ratios

MOST_TIMES = 30
"""Maximum number of distinct times for discrete observations; longer episodes are cut into spans of equal counts."""
FEWEST_EPISODES = 100
"""Minimum number of episodes for trying the past automatically."""
MOST_TRIED = 1_000_000
"""Maximum number of steps for trying the past, because a log in parts is then read as a whole."""
LONGEST = 3
"""The history that is tried."""


class _Laid(NamedTuple):
    """Rows of a log, rearranged: those of the steps in order, then those that are only next observations.

    ``here`` is the observation of each row, ``last`` the previous step (-1 for none), and ``time`` the number of
    previous
    steps.
    """

    here: Integers
    last: Integers
    time: Integers
    next_row: Integers


def _lay_out(log: Log) -> _Laid:
    n, first = len(log), np.asarray(log.starts)
    since = np.arange(n) - np.repeat(first, np.diff(np.r_[first, n]))
    follows = np.r_[np.asarray(log.next_row)[:-1] == np.asarray(log.row)[1:], False] & np.r_[since[1:] > 0, False]
    alone = np.flatnonzero(~follows)
    next_row = np.arange(1, n + 1)
    next_row[alone] = n + np.arange(len(alone))
    here = np.r_[np.asarray(log.row), np.asarray(log.next_row)[alone]].astype(np.int64)
    last = np.r_[np.where(since > 0, np.arange(n) - 1, -1), alone]
    return _Laid(here, last, np.r_[since, since[alone] + 1], next_row)


def _with_rows(log: Log, observations: Any, laid: _Laid, names: Any) -> Log:
    return replace(
        log,
        observations=observations,
        row=np.arange(len(log), dtype=np.uint32),
        next_row=laid.next_row.astype(np.uint32),
        observation_names=names,
        given=None,
        extra_beyond={},
    )


def with_past(log: Log, settings: Settings) -> Log:
    """The log with the last ``history`` observations, the actions between them, and the time if requested."""
    if settings.history == 1 and not settings.with_time:
        return log
    if int(np.diff(np.r_[log.starts, len(log)]).max(initial=1)) < 2:
        raise InputError("Every episode has one step and therefore no past: leave out history and with_time.")
    laid = _lay_out(log)
    made, names = _columns(log, settings, laid.here, laid.last, laid.time)
    if made.dtype.kind in "biu":
        made, names = _codes(made), (" ".join(names),)
    return _with_rows(log, made, laid, names)


def _columns(
    log: Log, settings: Settings, here: Integers, last: Integers, time: Integers
) -> tuple[Any, tuple[str, ...]]:
    """The columns of the new observation and their names. The array has whole numbers if all columns are whole
    numbers."""
    seen = np.asarray(log.observations)
    discrete = log.discrete_observations
    whole = seen.reshape(len(seen), -1)
    width = whole.shape[1]
    known = tuple(map(str, log.observation_names or ()))
    names = known if len(known) == width else tuple(f"x{k}" for k in range(width))
    columns, called = [whole[here]], list(names)
    action = None if log.action is None else np.asarray(log.action)
    codes = log.discrete_actions
    kinds = np.unique(action) if action is not None and codes else np.zeros(0)
    at = last
    for k in range(1, settings.history):
        began = (at < 0)[:, None]
        before = np.maximum(at, 0)
        of_row = whole[np.asarray(log.row)[before]]
        columns.append(np.where(began, -1 if discrete else 0, of_row))
        called += [f"{name} {k} before" for name in names]
        if action is not None:
            acted = action[before].reshape(len(before), -1)
            if codes and not discrete:
                acted = (acted == kinds[1:]).astype(np.float64)
            columns.append(np.where(began, -1 if discrete else 0, acted))
            called += [f"action {k} before"] * acted.shape[1]
        if not discrete:
            columns.append(began.astype(np.float64))
            called.append(f"began within {k}")
        at = np.where(at < 0, -1, last[before])
    if settings.with_time:
        columns.append((_spans(time) if discrete else time)[:, None])
        called.append("time")
    if discrete and action is not None and not codes:
        raise InputError(
            "history with discrete observations needs discrete actions: group the actions into classes first."
        )
    return np.concatenate(columns, axis=1), tuple(called)


def _spans(time: Integers) -> Integers:
    """The times. If there are many, spans of time with about equal numbers of rows replace them."""
    if time.max() < MOST_TIMES:
        return time
    edges = np.unique(np.quantile(time, np.linspace(0, 1, MOST_TIMES + 1)[1:-1]).astype(np.int64))
    return np.asarray(np.searchsorted(edges, time, "right"))


def unseen_after_cuts(log: Log, by_state: bool, discount: Floats) -> float:
    """The share of the discounted time after truncations where more episodes were cut than the log has steps.

    There the value is a guess: in a log whose episodes were all cut at one step, no step has the time of that cut.
    "Where" is the state if each has a feature of its own (``by_state``), else the time, in spans.
    """
    n, first = len(log), np.asarray(log.starts)
    length = np.diff(np.r_[first, n])
    if by_state:
        seen = np.asarray(log.observations)
        place = np.r_[seen[log.row], seen[log.next_row][np.r_[first[1:], n] - 1]]
    else:
        place = _spans(np.r_[np.arange(n) - np.repeat(first, length), length])
    place = np.unique(place, return_inverse=True)[1].ravel()
    steps, after, left = place[:n], place[n:], np.multiply.reduceat(np.asarray(discount, np.float64), first)
    cuts = np.bincount(after, left > 0, int(place.max()) + 1)
    return float((left * (cuts > np.bincount(steps, minlength=len(cuts)))[after]).mean())


def _codes(columns: Integers) -> Integers:
    """One number for each combination of whole numbers."""
    return np.asarray(np.unique(columns, axis=0, return_inverse=True)[1].ravel().astype(np.int64))


def episodes_since(log: Log, made: Mapping[str, Ratios], since: float) -> tuple[Log, dict[str, Ratios]]:
    """The later part of a log and its ratios: from the episode with this number on, or a share at the end, such as
    0.5."""
    begins = episode_begins(log.episode)
    episodes = len(begins) - 1
    number = int(since if since >= 1 else since * episodes)
    if number > episodes - 2:
        raise InputError(
            f"since={since:g} leaves {max(episodes - number, 0)} of {episodes} episodes: give a smaller number."
        )
    some = slice(int(begins[number]), None)
    steps = ("row", "next_row", "reward", "terminated", "truncated", "action", "behaviour", "target", "rho")
    known = {name: getattr(log, name) for name in steps}
    cut: dict[str, Any] = {name: None if values is None else values[some] for name, values in known.items()}
    later = replace(log, **cut, episode=log.episode[some] - log.episode[some.start], given=None, extra={})
    later = replace(later, extra={name: np.asarray(values)[some] for name, values in log.extra.items()})
    laid = _lay_out(later)
    later = _with_rows(later, np.asarray(log.observations)[laid.here], laid, log.observation_names)
    note = f"The last {episodes - number} of {episodes} episodes were evaluated, because of since={since:g}."
    few = {
        name: replace(
            one,
            rho=one.rho[some],
            target=None if one.target is None else one.target[some],
            notes=(*one.notes, note),
        )
        for name, one in made.items()
    }
    return later, few


def remedies(settings: Settings, told: Any, named: bool) -> Iterator[Settings]:
    """Settings to try if checks show that the observations hide the time or part of the state."""
    if not _is_open(settings, told.episodes, named) or told.steps > MOST_TRIED:
        return
    differ = told.hull_of_limit is not None and told.hull_of_limit > 1
    by_time, by_past = told.predicted_by == TIME, told.predicted_by not in (None, TIME)
    time = [replace(settings, with_time=True)]
    past = [replace(settings, history=history) for history in range(2, LONGEST + 1)]
    if told.hidden_time is not None or by_time or (differ and not by_past):
        yield from time
    if told.hidden_state is not None or told.predicted_by is not None or differ:
        yield from past
    if by_past and told.hidden_time is None:
        yield from time


def _is_open(settings: Settings, episodes: int, named: bool) -> bool:
    """Whether the past may be tried automatically."""
    asked = settings.history > 1 or settings.with_time or named or settings.method != AUTO
    if asked or settings.value_function != STATE or settings.block_length or settings.tracing is not None:
        return False
    return episodes >= FEWEST_EPISODES


def added_kind(settings: Settings) -> str:
    """The kind of the check that shows what is added: of the past, or of the time."""
    return "past" if settings.history > 1 else "time"


def described(settings: Settings) -> str:
    """A description of what was added to the observation."""
    parts = [f"the last {settings.history} observations and actions"] if settings.history > 1 else []
    parts += ["the time since the start"] if settings.with_time else []
    return " and ".join(parts)
