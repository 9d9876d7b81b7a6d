"""Signs that a table is not what its column names say: seen where it is read, judged where it is used."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.logs.calibration import fits
from gradtd.logs.column_names import Roles
from gradtd.logs.log import Log
from gradtd.logs.steps import Rows, Steps
from gradtd.logs.tables import PIECE, Table

SUM_TOLERANCE = 1e-3
"""How far a policy's probabilities may be from summing to one: they may have been rounded."""
RATIO_TOLERANCE = 0.01
"""Part of a ratio that it may be away from the quotient of the probabilities beside it."""
ENOUGH = 10
"""Steps that must all say the same before columns are said to have changed places."""
_NUMBERED = re.compile(r"^(?P<stem>.+?)[_.\[]?(?P<number>\d+)\]?$")


def ends_marked(roles: Roles, unmarked: int, episodes: int) -> bool:
    """Whether a log says how its episodes ended; one of them may be unfinished.

    Without a column for terminated, an end that is not marked as a cut may be either. With both columns and no mark at
    all, nobody filled them in. A column for terminated alone, without a mark, says that no episode ended.
    """
    if unmarked <= 1:
        return "terminated" in roles.single or "truncated" in roles.single
    if "terminated" not in roles.single:
        return False
    return "truncated" not in roles.single or unmarked < episodes


def columns_of_one_policy(table: Table, names: Iterable[str]) -> tuple[str, ...]:
    """Those of the names that are one of several numbered columns, pi_0, pi_1, ..., which sum to one in every row."""
    found = []
    for name in names:
        group = numbered_like(name, table.kinds)
        if len(group) > 1 and _sum_to_one(table, group):
            found.append(name)
    return tuple(found)


def numbered_like(name: str, columns: Iterable[str]) -> list[str]:
    """The columns that have the name of this one up to a number: pi_0, pi_1, ..."""
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
    """How far next observations are from those of the rows after, where the two should be one and the same.

    0 where they are, and 1 where they are no nearer to each other than two rows drawn at random. It is the mean squared
    distance in units of that of two such rows, every column for itself; for discrete observations, the part that
    differs.
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
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused by the features
        for begin in range(0, len(at), PIECE):  # in pieces: nothing of the size of the log is made
            here = at[begin : begin + PIECE]
            after = observations[here + 1]
            total += ((observations[next_row[here]] - after) ** 2).sum(axis=0)
            spread += 2 * ((after - centre) ** 2).sum(axis=0)
        away = np.divide(total, spread, out=(total > 0).astype(np.float64), where=spread > 0)
    return float(np.minimum(away, 1.0).mean())


def refuse_swapped(observations: NDArray[Any], next_row: NDArray[np.uint32], steps: Steps, roles: Roles) -> None:
    """Where next observations are those of the rows before, the two columns have changed places."""
    at = np.flatnonzero(steps.follower[1:] & steps.follower[:-1]) + 1
    if len(at) < ENOUGH or (next_row[at] == at + 1).all():
        return
    now = roles.several["observation"][0]
    if _equal(observations, next_row[at], at) == len(at) and _equal(observations, at, at - 1) < len(at):
        after = roles.several["next_observation"][0]
        raise InputError(
            f"every next observation is the observation of its own row: {after!r} is a copy of {now!r}. Leave it out, "
            "columns={'next_observation': None}: the observation of the next row is taken."
        )
    if _equal(observations, next_row[at], at - 1) == len(at):
        after = roles.several["next_observation"][0]
        raise InputError(
            f"every next observation is the observation of the row before: {now!r} and {after!r} have changed places; "
            f'say columns={{"observation": {after!r}, "next_observation": {now!r}}}.'
        )


def _equal(observations: NDArray[Any], first: NDArray[Any], second: NDArray[Any]) -> int:
    """How many of these pairs of rows have one observation; in pieces, as nothing of the size of the log is made."""
    same = 0
    for begin in range(0, len(first), PIECE):
        part = slice(begin, begin + PIECE)
        equal = observations[first[part]] == observations[second[part]]
        same += int((equal.all(axis=1) if equal.ndim == 2 else equal).sum())
    return same


FEWEST_CUTS = 3
"""Cuts that must all be followed by the next episode's beginning before that is a sign."""


def resets(log: Log) -> tuple[str, ...]:
    """A warning where what follows a cut is the beginning of the next episode: the environment has reset itself."""
    last = np.flatnonzero(log.truncated[:-1])
    last = last[log.next_row[last] >= len(log)]  # with an observation of their own
    if len(last) < FEWEST_CUTS or _equal(log.observations, log.next_row[last], last + 1) < len(last):
        return ()
    if len(np.unique(log.observations[last + 1], axis=0)) == 1:
        return ()  # all episodes begin alike
    return (
        f"After all {len(last)} cuts the next observation is the first one of the next episode, as environments that "
        "reset themselves give it. Give the final observation, or leave it out, columns={'next_observation': None}.",
    )


def ends_of_either_kind(rows: Rows) -> tuple[str, ...]:
    """A warning where every cut is also an end: then the column for ends seems to mark both."""
    if rows.terminated is None or rows.truncated is None or rows.done_flag or not rows.truncated.any():
        return ()
    if (rows.truncated & ~rows.terminated).any() or not (rows.terminated & ~rows.truncated).any():
        return ()
    return (
        f"All {int(rows.truncated.sum())} truncated rows are also terminated, and were taken as terminated. If "
        "terminated means that the episode is over for either reason, give terminated & ~truncated.",
    )


OFF, NEAR = 5.0, 3.0
"""Standard errors from 1: a mean that is surely off, and one that fits."""


def of_one_action(log: Log, chances: Floats, others: Floats | None = None) -> bool:
    """Whether numbers that should be probabilities of the actions taken are those of action 1 in every row.

    With probabilities b of the actions taken, 1[a = 0] / b has mean 1, and p / b too. That is tried with the numbers as
    they are, and turned round where action 0 was taken. ``others`` are b where ``chances`` are p.
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
    # Numbers of other rows may have this mean, too; but given the observation they do not fit.
    return fits(log, turned) if others is None else fits(log, others, turned / others)


def _away(values: Floats, otherwise: float) -> float:
    """Standard errors of the mean from 1; ``otherwise`` where one number is too large to tell."""
    if not (values < 1e100).all():
        return otherwise
    error = float(values.std()) / np.sqrt(len(values))
    return abs(float(values.mean()) - 1) / error if error > 0 else np.inf


def refuse_other_ratios(rho: Floats, target: Floats, behaviour: Floats) -> None:
    """Refuse ratios that are not those of the probabilities beside them."""
    with np.errstate(over="ignore"):
        quotient = target / behaviour
    off = np.abs(rho - quotient) > RATIO_TOLERANCE * np.maximum(rho, quotient) + 1e-9
    if off.any():
        at = int(np.flatnonzero(off)[0])
        raise InputError(
            f"the log's ratios disagree with its probabilities in {int(off.sum())} of {len(rho)} steps: in step {at} "
            f"rho is {rho[at]:.6g}, and target / behaviour is {quotient[at]:.6g}; leave out what is wrong, "
            'columns={"rho": None} or columns={"target": None}.'
        )
