"""Warns about numbers which suggest that a log's rows are not what they seem, and says what to do.

Tests that need more than one pass over the narrow columns use only the first steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core.arrays import Floats
from gradtd.logs.calibration import MOST_STEPS, RowTable
from gradtd.logs.column_names import Roles
from gradtd.logs.columns import gather
from gradtd.logs.log import Log
from gradtd.logs.row_episodes import FEW_GAPS
from gradtd.logs.sanity_checks import resets
from gradtd.logs.tables import Table

SENTINELS = (-99.0, -999.0, -9999.0, -99999.0, 999.0, 9999.0, 99999.0, 999999.0)
"""Numbers commonly written for missing values."""
FAR = 3
"""A number is suspicious if it exceeds this multiple of the largest other number."""


def sentinels(log: Log, roles: Roles) -> tuple[str, ...]:
    """A warning for each column with an extreme number that seems to mean "missing"."""
    found = []
    for name, column, cure in _numbers_of(log, roles):
        low, high = float(column.min()), float(column.max())
        for one in (number for number in (low, high) if number in SENTINELS):
            at = column == one
            rest = np.inf if at.all() else np.abs(column[~at]).max()
            if abs(one) > FAR * rest:
                found.append(
                    f"Column {name!r} is {one:g} in {int(at.sum())} rows and at most {rest:g} in size in all "
                    f"others. If {one:g} means a missing value, replace it by NaN and use missing={cure!r}."
                )
    return tuple(found)


def _numbers_of(log: Log, roles: Roles) -> Iterator[tuple[str, Floats, str]]:
    """The reward and the continuous observation columns, with the advice for missing values."""
    yield roles.single.get("reward", "reward"), log.reward, "drop"
    if not log.discrete_observations:
        for k, name in enumerate(_names_observed(log, roles)):
            yield name, log.observations[:, k], "indicator"


def _names_observed(log: Log, roles: Roles) -> Sequence[str]:
    """The table's names for the numbers of an observation, if each has its own column."""
    columns = roles.several["observation"]
    width = 1 if log.discrete_observations else log.observations.shape[1]
    return columns if len(columns) == width else log.observation_names


def signs(log: Log, roles: Roles, table: Table) -> Iterator[str]:
    """Warnings about the numbers of a log and the index of a frame."""
    yield from index_signs(log, table, roles)
    yield from sentinels(log, roles)
    if "next_observation" in roles.several:
        yield from resets(log)
    yield from copies(log, roles)
    yield from doubled(log)
    yield from totals(log, roles)
    yield from zeros(log, roles)
    yield from means(log, roles)
    yield from filled_ratios(log, roles)
    yield from reset_rows(log)
    yield from same_policy(log, roles)


MANY_VALUES = 0.1
"""Above this share of distinct values, equal values in two rows are no coincidence."""
MOST_SEEN = 200
"""Maximum number of observation components to test."""
FEW_ROWS = 20
"""Minimum number of rows or episodes for a pattern in all of them to count."""


def copies(log: Log, roles: Roles) -> tuple[str, ...]:
    """A warning if a component of the observation is the reward or the action of its own row, perhaps scaled."""
    seen, found = _first_seen(log), list[str]()
    n = len(seen)
    if n < FEW_ROWS:
        return ()
    others = [(roles.single.get("reward", "reward"), "reward", log.reward[:n])]
    if log.discrete_actions and log.action is not None:
        others.append((roles.several["action"][0], "action", log.action[:n]))
    for name, column in zip(_names_observed(log, roles), seen.T, strict=False):
        found += [
            f"Column {name!r} of the observation is the {what} of the same row ({other!r}), or a multiple of it. An "
            f"observation must not contain what happens after it: leave it out, columns={{'observation': [...]}}."
            for other, what, values in others
            if other != name and _linear(column, values)
        ]
    return tuple(found)


def _first_seen(log: Log) -> NDArray[Any]:
    """The observations of the first steps, without a copy. For images, only the first numbers of each."""
    return log.observations[: min(len(log), MOST_STEPS)].reshape(min(len(log), MOST_STEPS), -1)[:, :MOST_SEEN]


def _linear(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether one column is a linear function of another column, which must not be constant."""
    with np.errstate(over="ignore", invalid="ignore"):
        a, b = one - one.mean(), other - other.mean()
        size = float(a @ a) * float(b @ b)
        return 0 < size < np.inf and float(a @ b) ** 2 > (1 - 1e-12) * size


def doubled(log: Log) -> tuple[str, ...]:
    """A warning if consecutive rows are duplicates, as after a join."""
    seen = _first_seen(log)
    n = len(seen)
    same = log.episode[1:n] == log.episode[: n - 1]
    if same.sum() < FEW_ROWS:
        return ()
    for values in (log.reward, seen, log.action, log.behaviour):
        if values is not None:
            equal = values[1:n] == values[: n - 1]
            same &= equal.all(axis=1) if equal.ndim == 2 else equal
    runs = np.diff(np.flatnonzero(np.r_[True, ~same, True]))
    often = same.mean() >= MOST_DOUBLED
    often = often and max(len(np.unique(column)) for column in (log.reward[:n], *seen.T)) >= MANY_VALUES * n
    if not often and (len(runs) < FEW_ROWS or (runs % 2).any()):
        return ()
    return (
        f"{same.mean():.0%} of the rows equal the previous row in every column read. If a join doubled them, drop the "
        "copies before reading (drop_duplicates), or add a column t that counts steps and use duplicates='drop'.",
    )


MOST_DOUBLED = 0.05
"""Maximum share of rows that may equal the previous row, if there are many distinct numbers."""
STEADIER = 0.1
"""Rewards count as running totals if the variance of their differences is at most this share of their own variance."""


def totals(log: Log, roles: Roles) -> tuple[str, ...]:
    """A warning if rewards are constant within an episode, or accumulate over it."""
    n, name = min(len(log), MOST_STEPS), roles.single.get("reward", "reward")
    reward, goes_on = log.reward[:n], np.flatnonzero(np.diff(log.episode[:n]) == 0) + 1
    reward = reward / max(1.0, float(np.abs(reward).max(initial=0.0)))  # its squares cannot overflow
    if len(goes_on) < FEW_ROWS or np.ptp(reward) == 0:
        return ()
    first, step = reward[log.starts[log.episode[:n]]], np.diff(reward, prepend=0.0)
    if (first == reward).all():
        return (
            f"Column {name!r} is the same in all rows of an episode and differs between episodes: it seems to be the "
            "episode's total. Give each step's own reward, or the total in the last row and 0 before.",
        )
    if np.square(first).mean() > 10 * np.square(step[goes_on]).mean():
        return ()
    table, some = RowTable.of(log), np.zeros(n, bool)
    some[goes_on] = True
    both = np.stack([reward, step], axis=1)
    levels, steps = np.square((both - table.expected(both, some))[some]).mean(axis=0)
    if steps >= STEADIER * levels or levels <= 1e-9 * float(np.square(reward).mean()):
        return ()
    return (
        f"Column {name!r} seems to accumulate over an episode: its change from row to row varies much less than the "
        f"column itself. If it is a running total, take its differences: groupby('episode')[...].diff().fillna(first).",
    )


def zeros(log: Log, roles: Roles) -> tuple[str, ...]:
    """A warning if some rewards are 0 and far from all other rewards."""
    none = log.reward == 0
    if not 0 < none.mean() <= 0.5:
        return ()
    rest = log.reward[~none]
    inside = none & (log.episode == np.r_[log.episode[1:], -1]) & (log.episode == np.r_[-1, log.episode[:-1]])
    if not inside.any() or len(np.unique(rest)) < FEW_ROWS:
        return ()
    low, high = float(rest.min()), float(rest.max())
    if max(low, -high) < (high - low) / 4:
        return ()
    return (
        f"Column {roles.single.get('reward', 'reward')!r} is 0 in {int(none.sum())} rows and between {low:g} and "
        f"{high:g} elsewhere. If 0 means a missing value, replace it by NaN and use missing='drop'.",
    )


FEWEST_FILLED = 0.01
"""If a number has at least this share of the rows, it may have replaced missing numbers."""
SAMPLED = 4000
"""Number of rows, spread over the whole log, that are searched for such a number."""


def means(log: Log, roles: Roles) -> tuple[str, ...]:
    """A warning if some rewards are the mean of all others, to the last digit."""
    reward = some = log.reward
    if len(reward) > SAMPLED:  # sorting all rewards would take half as long as reading the log
        some = reward[np.random.default_rng(0).integers(0, len(reward), SAMPLED)]
    values, counts = np.unique(some, return_counts=True)
    if not 3 <= len(values) < len(some):
        return ()
    for at in np.argsort(-counts, kind="stable")[:3]:
        one = float(values[at])
        if FEWEST_FILLED * len(some) > 2 * counts[at] or one == round(one, 4):
            continue
        filled = reward == one
        count = int(filled.sum())
        with np.errstate(over="ignore", invalid="ignore"):
            apart, spread = abs(reward[~filled].mean() - one), float(reward.std())
        if count >= FEWEST_FILLED * len(reward) and apart < 1e-9 * spread < np.inf:
            return (
                f"Column {roles.single.get('reward', 'reward')!r} is {one:g} in {count} rows, which is the "
                "mean of all others. If it replaced missing values, leave them as NaN and use missing='drop'.",
            )
    return ()


def filled_ratios(log: Log, roles: Roles) -> tuple[str, ...]:
    """A warning if ratios are 1 in some rows, but not in others with the same episode, observation and action."""
    n = min(len(log), MOST_STEPS)
    if log.rho is None or log.action is None or not (log.discrete_observations and log.discrete_actions):
        return ()
    one = np.asarray(log.rho[:n] == 1)
    if not FEWEST_FILLED <= one.mean() < 1:
        return ()
    pair = np.unique(np.c_[log.observations[log.row[:n]], log.action[:n]], axis=0, return_inverse=True)[1].ravel()
    for group in (pair, log.episode[:n]):
        mixed = np.bincount(group, ~one)[group] > 0
        if mixed[one].mean() < 0.5:
            return ()
    return (
        f"Column {roles.single.get('rho', 'rho')!r} is exactly 1 in {one.mean():.0%} of the rows, but a different "
        "number in rows with the same observation and action. If 1 replaced missing ratios, leave them as NaN and use "
        "missing='drop'.",
    )


def reset_rows(log: Log) -> tuple[str, ...]:
    """A warning if the first row of every episode is not a decision."""
    first = np.asarray(log.starts)
    chance = log.behaviour if log.behaviour is not None else log.rho
    if len(first) < FEW_ROWS or len(log) < 2 * len(first) or chance is None or log.action is None:
        return ()
    if (chance == 1).all() or (chance[first] != 1).any() or log.reward[first].any():
        return ()
    follows = np.r_[np.diff(log.episode) == 0, False][first]
    now, after = log.observations[log.row[first[follows]]], log.observations[log.next_row[first[follows]]]
    if not follows.any() or (now != after).any() or (log.action[first] != log.action[first[0]]).any():
        return ()
    return (
        "The first row of every episode has the observation of the second, one action with probability 1 and no "
        "reward: it seems to be the reset of the environment, and discounts all rewards once too often. Remove these "
        "rows.",
    )


def same_policy(log: Log, roles: Roles) -> tuple[str, ...]:
    """A warning if two columns of probabilities belong to one policy."""
    if log.target is None or log.behaviour is None or log.rho is not None:
        return ()
    if len(log) < FEW_ROWS or not np.ptp(log.behaviour) or (log.target != log.behaviour).any():
        return ()
    return (
        f"The target's probabilities ({roles.single.get('target')!r}) are the behaviour's "
        f"({roles.single.get('behaviour')!r}) in every row, so the value is that of the behaviour policy. If they "
        "should differ, name another column with target=.",
    )


def index_signs(log: Log, table: Table, roles: Roles) -> tuple[str, ...]:
    """A warning if a frame's index shows that rows were reordered or removed, but no column t does so."""
    index = getattr(table, "index", None)
    if index is None or roles.alone or "t" in roles.single or index.dtype.kind not in "iu" or not index.is_unique:
        return ()  # not unique: from several frames
    if not index.is_monotonic_increasing:
        return (
            "The rows of the frame are not in the order of its index, and no column t gives their order. If they were "
            "shuffled or sorted by something other than time, frame.sort_index() restores it; if their order is "
            "right, use frame.reset_index(drop=True).",
        )
    at = np.asarray(index)[slice(None) if log.given is None else log.given[: len(log)]]
    apart = np.diff(at)[(np.diff(log.episode) == 0) & (log.next_row[:-1] == log.row[1:])]
    gone = int((apart > apart.min(initial=1)).sum())
    if gone * FEW_GAPS < max(len(apart), 1):
        return ()
    return (
        f"The index of the frame jumps {gone} times inside episodes, and no column t counts their steps: if steps were "
        "removed, by a filter or as duplicates, the rows around them were read as one step and the next. Number the "
        "steps in a column t before removing rows; if none was removed, use frame.reset_index(drop=True).",
    )


def mixed_users(log: Log, table: Table, roles: Roles, unread: Sequence[str]) -> tuple[str, ...]:
    """A warning if a column that was not read shows that rows of several sources are mixed within episodes.

    Rows of one device are more similar to each other than rows of several devices.
    """
    if roles.alone or {"episode", "start"} & set(roles.single):
        return ()
    names = tuple(name for name in unread if table.kinds[name] in ("whole", "text"))
    if not names:
        return ()
    others, _ = gather(table, Roles(keep=names))
    rows = slice(None) if log.given is None else log.given[: len(log)]
    seen = np.asarray(_first_seen(log), np.float64)
    n = len(seen)
    inside = log.episode[1:n] == log.episode[: n - 1]
    for name in names:
        values = others[f"keep.{name}"].values[rows][:n]
        if not 2 <= len(np.unique(values)) <= n / 4 or (np.diff(values) != 0)[inside].mean() < MOST_MIXED:
            continue
        order = np.argsort(values, kind="stable")
        own = np.diff(values[order]) == 0
        apart, within = _step_sizes(seen)[inside], _step_sizes(seen[order])[own]
        if len(within) and within.mean() < CLOSER * apart.mean():
            return (
                f"Episodes were split after rows that end one, in the order of the table, and rows of several "
                f"{name!r} are mixed in them: rows of one are more similar to each other. Use columns={{'user': "
                f"{name!r}}}.",
            )
    return ()


MOST_MIXED, CLOSER = 0.2, 0.7


def _step_sizes(seen: Floats) -> Floats:
    """Squared distances of rows from their previous rows, each column in units of its variance."""
    with np.errstate(over="ignore", invalid="ignore"):  # near the largest numbers; NaN gives no warning
        return np.asarray((np.diff(seen, axis=0) ** 2 / np.maximum(seen.var(axis=0), 1e-300)).sum(axis=1))
