"""Checks whether a table contains what its column names say. The checks run while reading, and the verdict uses their
results.

If reading fails, `find_faults` lists the faults of all columns, each checked separately.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core.arrays import Floats
from gradtd.core.checks import Faults, InputError
from gradtd.logs.actions import check_chances
from gradtd.logs.calibration import fits
from gradtd.logs.column_names import Roles
from gradtd.logs.columns import Column, gather
from gradtd.logs.encoding import count_missing
from gradtd.logs.log import Log
from gradtd.logs.steps import Rows, Steps
from gradtd.logs.tables import PIECE, Table

SUM_TOLERANCE = 1e-3
"""Allowed deviation of a policy's probabilities from sum 1, since they may be rounded."""
RATIO_TOLERANCE = 0.01
"""Allowed relative difference between a ratio and the quotient of its probabilities."""
ENOUGH = 10
"""Minimum number of agreeing steps before columns are reported as swapped."""
_NUMBERED = re.compile(r"^(?P<stem>.+?)[_.\[]?(?P<number>\d+)\]?$")


def ends_marked(roles: Roles, unmarked: int, episodes: int) -> bool:
    """Whether a log says how its episodes ended. One episode may be unfinished.

    Without a terminated column, an end that is not marked as truncated may be a termination or an unmarked truncation.
    If both columns exist and mark nothing, they were not filled in. A terminated column alone that marks nothing means
    that no episode terminated.
    """
    if unmarked <= 1:
        return "terminated" in roles.single or "truncated" in roles.single
    if "terminated" not in roles.single:
        return False
    return "truncated" not in roles.single or unmarked < episodes


def columns_of_one_policy(table: Table, names: Iterable[str]) -> tuple[str, ...]:
    """The given names that belong to numbered columns pi_0, pi_1, ... that sum to 1 in every row."""
    found = []
    for name in names:
        group = numbered_like(name, table.kinds)
        if len(group) > 1 and _sum_to_one(table, group):
            found.append(name)
    return tuple(found)


def numbered_like(name: str, columns: Iterable[str]) -> list[str]:
    """Columns with the same name up to a number: pi_0, pi_1, ..."""
    part = _NUMBERED.match(name)
    if part is None:
        return []
    others = ((other, _NUMBERED.match(other)) for other in columns)
    return [other for other, match in others if match is not None and match["stem"] == part["stem"]]


def _sum_to_one(table: Table, names: list[str]) -> bool:
    if any(table.kinds[name] not in ("real", "whole") for name in names):
        return False
    for pieces in table.pieces(names):
        columns = [np.asarray(pieces[name].values, np.float64) for name in names]
        total = np.sum(columns, axis=0)
        if min(column.min() for column in columns) < 0 or not (np.abs(total - 1) <= SUM_TOLERANCE).all():
            return False
    return True


def strangers(observations: NDArray[Any], next_row: NDArray[np.uint32], steps: Steps) -> float:
    """Distance between next observations and the following rows' observations, which should be equal.

    0 if they are equal, 1 if they are as far apart as two random rows. It is the mean squared distance per column,
    divided by that of two random rows; for discrete observations, the share that differs.
    """
    at = np.flatnonzero(steps.follower)
    if not len(at) or (next_row[at] == at + 1).all():
        return 0.0
    if observations.ndim == 1:
        _, counts = np.unique(observations[: len(next_row)], return_counts=True)
        chance = 1 - float(((counts / counts.sum()) ** 2).sum())
        differ = float((observations[next_row[at]] != observations[at + 1]).mean())
        return min(1.0, differ / chance) if chance > 0 else float(differ > 0)
    spread, total = np.zeros(observations.shape[1]), np.zeros(observations.shape[1])
    centre = observations[at[:: max(1, len(at) // PIECE)] + 1].mean(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):  # features refuse numbers that overflow
        for begin in range(0, len(at), PIECE):  # in pieces, to avoid arrays of the size of the log
            here = at[begin : begin + PIECE]
            after = observations[here + 1]
            total += ((observations[next_row[here]] - after) ** 2).sum(axis=0)
            spread += 2 * ((after - centre) ** 2).sum(axis=0)
        away = np.divide(total, spread, out=(total > 0).astype(np.float64), where=spread > 0)
    return float(np.minimum(away, 1.0).mean())


def refuse_swapped(observations: NDArray[Any], next_row: NDArray[np.uint32], steps: Steps, roles: Roles) -> None:
    """Refuse swapped columns: next observations that equal the observations of the previous rows."""
    at = np.flatnonzero(steps.follower[1:] & steps.follower[:-1]) + 1
    if len(at) < ENOUGH or (next_row[at] == at + 1).all():
        return
    now = roles.several["observation"][0]
    if _equal(observations, next_row[at], at) == len(at) and _equal(observations, at, at - 1) < len(at):
        after = roles.several["next_observation"][0]
        raise InputError(
            f"every next observation is the observation of its own row: {after!r} is a copy of {now!r}. Leave it out, "
            "columns={'next_observation': None}: gradtd then uses the observation of the next row."
        )
    if _equal(observations, next_row[at], at - 1) == len(at):
        after = roles.several["next_observation"][0]
        raise InputError(
            f"every next observation is the observation of the previous row: {now!r} and {after!r} are swapped; "
            f'use columns={{"observation": {after!r}, "next_observation": {now!r}}}.'
        )


def _equal(observations: NDArray[Any], first: NDArray[Any], second: NDArray[Any]) -> int:
    """Number of row pairs with equal observations, counted in pieces to need little memory."""
    same = 0
    for begin in range(0, len(first), PIECE):
        part = slice(begin, begin + PIECE)
        equal = observations[first[part]] == observations[second[part]]
        same += int((equal.all(axis=1) if equal.ndim == 2 else equal).sum())
    return same


FEWEST_CUTS = 3
"""gradtd warns if at least this number of truncations are all followed by the start of the next episode."""


def resets(log: Log) -> tuple[str, ...]:
    """A warning if truncated episodes are followed by the start of the next one: the environment reset itself."""
    last = np.flatnonzero(log.truncated[:-1])
    last = last[log.next_row[last] >= len(log)]  # those whose next observation is not a row
    if len(last) < FEWEST_CUTS or _equal(log.observations, log.next_row[last], last + 1) < len(last):
        return ()
    if len(np.unique(log.observations[last + 1], axis=0)) == 1:
        return ()  # all episodes begin with the same observation
    return (
        f"After all {len(last)} truncations the next observation is the first one of the next episode, as in "
        "environments that reset themselves. Give the final observation, or leave it out, "
        "columns={'next_observation': None}.",
    )


def ends_of_either_kind(rows: Rows) -> tuple[str, ...]:
    """A warning if every truncated row is also terminated: the column may mean "done"."""
    if rows.terminated is None or rows.truncated is None or rows.done_flag or not rows.truncated.any():
        return ()
    if (rows.truncated & ~rows.terminated).any() or not (rows.terminated & ~rows.truncated).any():
        return ()
    return (
        f"All {int(rows.truncated.sum())} truncated rows are also terminated, and were read as terminated. If "
        "terminated means that the episode is over for either reason, give terminated & ~truncated.",
    )


OFF, NEAR = 5.0, 3.0
"""Distance from 1 in standard errors above which a mean is clearly wrong, and below which it is consistent."""


def of_one_action(log: Log, chances: Floats, others: Floats | None = None) -> bool:
    """Whether numbers that should be probabilities of the actions taken are those of action 1 in every row.

    With probabilities b of the actions taken, 1[a = 0] / b has mean 1, and so has p / b. This is tested with the
    numbers as given, and with 1 - p where action 0 was taken. ``others`` are b if ``chances`` are p.
    """
    if log.action is None or not log.discrete_actions or log.n_actions != 2 or len(np.unique(chances)) < 2:
        return False
    first = log.action == 0
    turned = np.where(first, 1 - chances, chances)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        as_given = first / chances if others is None else chances / others
        as_turned = first / turned if others is None else turned / others
    if not (_away(as_given, 0.0) > OFF and _away(as_turned, np.inf) < NEAR):
        return False
    # Numbers that belong to other rows may also have this mean, but they do not fit the observations.
    return fits(log, turned) if others is None else fits(log, others, turned / others)


def _away(values: Floats, otherwise: float) -> float:
    """Distance of the mean from 1 in standard errors, or ``otherwise`` if a number is too large for sums."""
    if not (values < 1e100).all():
        return otherwise
    error = float(values.std()) / np.sqrt(len(values))
    return abs(float(values.mean()) - 1) / error if error > 0 else np.inf


def refuse_other_ratios(rho: Floats, target: Floats, behaviour: Floats) -> None:
    """Refuse ratios that contradict the log's probabilities."""
    with np.errstate(over="ignore"):
        quotient = target / behaviour
    off = np.abs(rho - quotient) > RATIO_TOLERANCE * np.maximum(rho, quotient) + 1e-9
    if off.any():
        at = int(np.flatnonzero(off)[0])
        raise InputError(
            f"the log's ratios disagree with its probabilities in {int(off.sum())} of {len(rho)} steps: in step {at} "
            f"rho is {rho[at]:.6g}, and target / behaviour is {quotient[at]:.6g}; leave out the wrong column, "
            'columns={"rho": None} or columns={"target": None}.'
        )


def find_faults(table: Table, roles: Roles, first: InputError) -> Faults:
    """The fault that stopped the reader, and the faults of the other columns."""
    faults = Faults()
    faults.errors.append(first)
    found = faults.attempt(gather, table, roles)
    if found is not None:
        for role, column in found[0].items():
            if any(repr(column.name) in str(error) for error in faults.errors):
                continue  # report one fault per column
            work = _check_of(role, column, roles, table)
            if work is not None:
                faults.attempt(work)
    told = Faults().attempt(missing_told, table, roles)
    if told and told not in str(first):
        faults.add(f"the observation has missing values.{told}")
    return faults


def _check_of(role: str, column: Column, roles: Roles, table: Table) -> Any:
    """The function that reads a column of this role."""
    if role in ("behaviour", "target"):
        real = any(table.kinds[name] in ("real", "list") for name in roles.several.get("action", ()))
        return lambda: check_chances(f"column {column.name!r}", column.numbers(), role, real)
    if role.startswith("action."):
        return column.actions
    named = {"episode": column.ranks, "t": column.times, "reward": column.numbers}
    flags = dict.fromkeys(("terminated", "truncated", "start"), column.flags)
    return (named | flags | {"rho": column.numbers}).get(role)


def missing_told(table: Table, roles: Roles) -> str:
    """A sentence on missing values per column and what to do. Empty if none are missing."""
    counts, _, _ = count_missing(table, roles.several["observation"], roles.several.get("next_observation", []))
    told = ", ".join(f"{name!r} ({count})" for name, count in counts.items() if count)
    way = "Drop these rows with missing='drop', or add indicator columns with missing='indicator'."
    return f" Missing values: {told}. {way}" if told else ""
