"""Handles options about the log: irregular times, episodes used for training, groups of starts.

Their columns are extra columns of the log's table, aligned with its steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.evaluation.settings import Settings
from gradtd.logs import Ratios
from gradtd.logs.behaviour_model import BehaviourModel
from gradtd.logs.column_names import Roles, listed, resolve
from gradtd.logs.columns import Column, gather
from gradtd.logs.log import Log, take_episodes
from gradtd.logs.parts import Survey
from gradtd.logs.row_episodes import hash_of
from gradtd.logs.row_policies import InOrder, Probabilities, are_names, steps_in_table
from gradtd.logs.sources import open_table

MOST_GROUPS = 50
FEWEST_HELD = 2
"""Minimum number of held-out episodes."""


@dataclass(frozen=True, eq=False)
class Groups:
    """The name of every group of starts, and the group of every episode."""

    column: str
    names: tuple[str, ...]
    of_episode: Integers

    def taken(self, mask: NDArray[np.bool_]) -> Groups:
        """The groups of the episodes that ``mask`` selects. Names of groups without such episodes are dropped."""
        labels, codes = np.unique(self.of_episode[mask], return_inverse=True)
        return replace(self, names=tuple(self.names[one] for one in labels), of_episode=codes)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Episodes that the target was not trained on."""

    log: Log
    steps: Integers
    note: str

    def ratios(self, found: Ratios) -> Ratios:
        """Select the ratios of the held-out episodes."""
        some = {name: _some(getattr(found, name), self.steps) for name in ("rho", "target", "behaviour", "other")}
        model = None if found.model is None else _model_of(found.model, self.steps)
        return replace(found, **some, model=model, notes=(*found.notes, self.note))


def _some(values: Any, steps: Integers) -> Any:
    return None if values is None else np.asarray(values)[steps]


def _model_of(model: BehaviourModel, steps: Integers) -> BehaviourModel:
    names = ("chance", "other", "action", "state", "x", "every")
    return replace(model, **{name: _some(getattr(model, name), steps) for name in names})


def ask_log(source: Any, log: Log, settings: Settings) -> tuple[Log, HeldOut | None, Settings, tuple[str, ...]]:
    """The log with its times and held-out episodes, settings for groups of episodes, and notes."""
    said: tuple[str, ...] = ()
    if settings.time_column is not None:
        log, said = with_times(source, log, settings.time_column)
    groups = None if settings.by is None else groups_of(source, log, settings)
    clusters = None if settings.cluster is None else clusters_of(source, log, settings)
    held = None
    if settings.trained_on is not None:
        mask = ~trained_episodes(source, log, settings)
        held = hold_out(log, mask)
        groups, clusters = (None if one is None else one.taken(mask) for one in (groups, clusters))
    if clusters is not None:
        said = (*said, f"{_clusters_note(clusters)} {UNCLUSTERED}")
    return log, held, replace(settings, by=groups, cluster=clusters), said


def with_times(source: Any, log: Log, name: str) -> tuple[Log, tuple[str, ...]]:
    """The log with the time from every step to the next."""
    values, rows = column_of_rows(source, log, name, "time_column")
    apart, unknown = elapsed_times(log, values, rows, name)
    if not unknown:
        return replace(log, elapsed=apart), ()
    note = "Truncated steps whose end has no time in the log, so the median of the others was used"
    return replace(log, elapsed=apart), (f"{note}: {unknown}.",)


def groups_of(source: Any, log: Log, settings: Settings) -> Groups:
    """The group of every episode, read from a column in the episode's first row."""
    if settings.block_length is not None:
        raise InputError("by= groups whole episodes, but block_length cuts them: leave one of them out.")
    values, rows = column_of_rows(source, log, _name_of("by", settings.by), "by")
    return _groups(settings.by, values[rows[log.row[log.starts]]])


def _name_of(option: str, given: Any) -> str:
    if not isinstance(given, str):
        raise InputError(f"{option} must be the name of a column, got {type(given).__name__}.")
    return given


def _groups(name: str, values: Any) -> Groups:
    labels, codes = np.unique([str(one) for one in values], return_inverse=True)
    if not 2 <= len(labels) <= MOST_GROUPS:
        raise InputError(
            f"by={name!r} has {len(labels)} groups of episodes; gradtd supports 2 to {MOST_GROUPS}: give a "
            "column with few values."
        )
    return Groups(name, tuple(map(str, labels)), codes)


def clusters_of(source: Any, log: Log, settings: Settings) -> Groups:
    """The cluster of every episode, read from a column that is the same in all rows of the episode."""
    name = _name_of("cluster", settings.cluster)
    values, rows = column_of_rows(source, log, name, "cluster")
    labels, codes = np.unique([str(one) for one in values[rows[log.row]]], return_inverse=True)
    of_episode = codes[log.starts]
    if (codes != of_episode[log.episode]).any():
        _refuse_cut_cluster(name, int(log.episode[np.flatnonzero(codes != of_episode[log.episode])[0]]))
    return _clusters(name, labels, of_episode)


def _refuse_cut_cluster(name: str, episode: int) -> None:
    raise InputError(
        f"cluster={name!r} changes within episode {episode}, but a cluster consists of whole episodes: give a column "
        "that is constant within episodes."
    )


def _clusters(name: str, labels: Any, of_episode: Integers) -> Groups:
    if len(labels) < 2:
        raise InputError(f"cluster={name!r} has the same value in all rows: an error needs at least two clusters.")
    return Groups(name, tuple(map(str, labels)), of_episode)


def _clusters_note(clusters: Groups) -> str:
    count = f"{len(clusters.names)} clusters of {len(clusters.of_episode)} episodes"
    return f"Errors are clustered by {clusters.column!r}: {count}."


UNCLUSTERED = "Rows of other methods treat episodes as independent."


def trained_episodes(source: Any, log: Log, settings: Settings) -> NDArray[np.bool_]:
    """For every episode, whether the target was trained on it."""
    given = settings.trained_on
    starts = log.row[log.starts]
    if isinstance(given, str):
        values, rows = column_of_rows(source, log, given, "trained_on")
        return np.asarray(np.maximum.reduceat(_marks(given, values[rows[log.row]]), log.starts))
    known = _ids(given)
    if isinstance(source, Log):
        if source.n_given is not None:
            raise InputError(IDS_LOST)
        ids = every = np.arange(log.n_episodes).astype(str)
    else:
        table = open_table(source)
        column = resolve(table.kinds, settings.columns, ()).single.get("episode")
        if column is None:
            raise InputError(NO_IDS)
        values, rows = column_of_rows(source, log, column, "trained_on")
        ids = np.array([str(one) for one in values[rows[starts]]])
        every = np.unique(values).astype(str)  # including episodes without a step
    _refuse_unknown_ids(set(known) - set(every))
    return np.isin(ids, known)


NO_IDS = "trained_on by ids needs a column of episodes: add one, or give a column of 0 and 1."
IDS_LOST = (
    "trained_on by ids needs the table, because a log that was read numbers its episodes 0, 1, ...: give the table, or "
    "a column of 0 and 1 that read_log(keep=...) keeps."
)


def _marks(name: str, values: Any) -> NDArray[np.bool_]:
    if values.dtype.kind not in "biuf" or not np.isin(values, (0, 1)).all():
        raise InputError(
            f"trained_on={name!r} must contain 0 and 1, where 1 marks the episodes the target was trained on."
        )
    return np.asarray(values.astype(bool))


def _ids(given: Any) -> list[str]:
    # an iterator would be empty when it is read again, and bytes iterate as numbers
    if not isinstance(given, Iterable) or isinstance(given, Iterator | bytes):
        raise InputError(f"trained_on must be a column, or a list of ids of episodes, got {type(given).__name__}.")
    return [str(one) for one in given]


def _refuse_unknown_ids(unknown: set[str]) -> None:
    if unknown:
        raise InputError(
            f"trained_on names {len(unknown)} episodes that are not in the log, such as {min(unknown)!r}: give ids "
            "as they are in the log."
        )


def columns_asked(settings: Settings, kinds: Mapping[str, str]) -> list[str]:
    """Columns of a log in parts that contain groups of starts, clusters, and episodes used for training."""
    names = {"by": settings.by, "cluster": settings.cluster}
    asked = {option: _name_of(option, name) for option, name in names.items() if name is not None}
    if isinstance(settings.trained_on, str):
        asked["trained_on"] = settings.trained_on
    for option, name in asked.items():
        refuse_unknown_column(name, kinds, option)
    return list(asked.values())


def ask_files(
    seen: Survey, kinds: Mapping[str, str], episode: str | None, settings: Settings
) -> tuple[Survey, Groups | None, tuple[str, ...]]:
    """The log with a label for every episode (its group or cluster, -1 if excluded), the groups or clusters, and
    notes."""
    groups, held = None, np.ones(seen.episodes, bool)
    said: tuple[str, ...] = ()
    if settings.trained_on is not None:
        held = ~_trained_in_files(seen, kinds, episode, settings.trained_on)
        said = (_held_note(held),)
    if settings.by is not None:
        names = [labels_of(one)[_firsts(seen, at, len(one.values))] for at, one in seen.column(settings.by)]
        groups = _groups(settings.by, np.concatenate(names)).taken(held)
    if settings.cluster is not None:  # never beside groups of starts
        groups = _clusters_in_files(seen, settings.cluster).taken(held)
        said = (*said, _clusters_note(groups))
    labels = np.where(held, 0, -1)
    if groups is not None:
        labels[held] = groups.of_episode
    return (seen if groups is None and held.all() else replace(seen, labels=labels)), groups, said


def _firsts(seen: Survey, at: int, rows: int) -> Integers:
    """The first rows of episodes among ``rows`` rows from row ``at`` on."""
    low, high = np.searchsorted(seen.begins[:-1], (at, at + rows))
    return seen.begins[low:high] - at


def _clusters_in_files(seen: Survey, name: str) -> Groups:
    """The cluster of every episode, which is the same in all rows of the episode. The episodes of a cluster may be in
    several files."""
    found: list[Any] = []
    last = None
    for at, one in seen.column(name):
        values = labels_of(one)
        changed = np.flatnonzero(np.r_[last is not None and str(values[0]) != last, one.values[1:] != one.values[:-1]])
        inside = changed[~np.isin(at + changed, seen.begins)]
        if len(inside):
            _refuse_cut_cluster(name, int(np.searchsorted(seen.begins, at + inside[0], "right")) - 1)
        found += [str(value) for value in values[_firsts(seen, at, len(values))]]
        last = str(values[-1])
    return _clusters(name, *np.unique(found, return_inverse=True))


def _trained_in_files(seen: Survey, kinds: Mapping[str, str], episode: str | None, given: Any) -> NDArray[np.bool_]:
    if isinstance(given, str):
        trained = np.zeros(seen.episodes, bool)
        for at, one in seen.column(given):
            rows = at + np.flatnonzero(_marks(given, labels_of(one)))
            trained[np.searchsorted(seen.begins, rows, "right") - 1] = True
        return trained
    known = _ids(given)
    if episode is None:
        raise InputError(NO_IDS)
    hashes = {one: _hash(one, kinds[episode] == "text") for one in known}
    there = set(seen.hashes.tolist())
    _refuse_unknown_ids({one for one, word in hashes.items() if word not in there})
    return np.isin(seen.hashes, np.array([*hashes.values()], np.uint64))


def _hash(one: str, text: bool) -> int | None:
    """The hash of an id in the files' episode column, or None if the column contains numbers and the id is not one."""
    for kind in (str,) if text else (int, float):
        try:
            found = kind(one)
            if str(found) == one:  # int("1_0") is 10, but it is a different id
                return int(hash_of(np.array([found]))[0])
        except (ValueError, OverflowError):
            continue
    return None


def _held_note(held: NDArray[np.bool_]) -> str:
    if held.sum() < FEWEST_HELD:
        raise InputError(
            f"the target was trained on {int((~held).sum())} of {len(held)} episodes. On the episodes that "
            "it was learned from, a policy looks better than it is, by an unknown amount. Keep some episodes out "
            "of training, and name only the others in trained_on."
        )
    return f"Episodes that the target was trained on, left out of the evaluation: {int((~held).sum())}."


def hold_out(log: Log, held: NDArray[np.bool_]) -> HeldOut:
    """The log without the episodes that the target was trained on."""
    note = _held_note(held)
    return HeldOut(*take_episodes(log, held), note)


def is_by_row(policy: Any) -> bool:
    """Whether a policy is given by an array with a row for every row of the log."""
    return isinstance(policy, InOrder) or (isinstance(policy, Probabilities) and not are_names(policy.now))


def column_of_rows(source: Any, log: Log, name: str, option: str) -> tuple[NDArray[Any], Integers]:
    """The labels or numbers of a column, by row of the table, and the row of every observation of the log (or -1)."""
    if isinstance(source, Log):
        if name not in log.extra:
            raise InputError(
                f"{option}={name!r} is not a kept column of the log: read it with read_log(keep={name!r})."
            )
        beyond = log.extra_beyond.get(name, np.full(len(log.observations) - len(log), np.nan))
        values = np.r_[log.extra[name], beyond]
        return values, np.where(np.isnan(values), -1, np.arange(len(values)))
    table = open_table(source)
    refuse_unknown_column(name, table.kinds, option)
    column = gather(table, Roles(keep=(name,)))[0][f"keep.{name}"]
    rows = steps_in_table(log) if log.given is None else np.asarray(log.given)
    if log.given is None and len(log.observations) > len(log):
        rows = np.r_[rows, np.full(len(log.observations) - len(log), -1)]
    return labels_of(column), rows


def refuse_unknown_column(name: str, kinds: Mapping[str, str], option: str) -> None:
    if name not in kinds:
        raise InputError(f"{option}={name!r} is not a column of the log; the columns are {listed(kinds)}.")


def labels_of(column: Column) -> NDArray[Any]:
    """The values of a column, with text as text instead of codes."""
    column.refuse_missing()
    if column.labels is None:
        return column.values
    return np.array(column.labels, object)[column.values.astype(np.int64)]


def elapsed_times(log: Log, values: NDArray[Any], rows: Integers, name: str) -> tuple[Floats, int]:
    """The time from every step to the next, and the number of truncated steps for which it is not known.

    Unknown times are set to the median of the others. Steps that terminate an episode get 0.
    """
    if values.dtype.kind not in "iuf":
        raise InputError(
            f"time_column={name!r} must contain numbers in the unit of time that gamma refers to, such as hours "
            f"since the start: convert it."
        )
    time = np.where(rows >= 0, np.asarray(values, np.float64)[rows], np.nan)
    apart = time[log.next_row] - time[log.row]
    inside = np.zeros(len(log), bool)
    inside[:-1] = log.episode[1:] == log.episode[:-1]
    apart[inside] = time[log.row][1:][inside[:-1]] - time[log.row][:-1][inside[:-1]]
    apart[log.terminated] = 0.0
    if (apart < 0).any():
        at = int(np.flatnonzero(apart < 0)[0])
        raise InputError(
            f"time_column={name!r} goes back from {time[log.row[at]]:g} within an episode (step {at} of the log): the "
            "time must increase from row to row. Sort the rows, or correct the column."
        )
    unknown = np.isnan(apart)
    known = apart[~unknown & ~log.terminated]
    apart[unknown] = float(np.median(known)) if len(known) else 1.0
    return apart, int(unknown.sum())
