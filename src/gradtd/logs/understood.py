"""How a table was interpreted: the roles of its columns and why, how episodes and actions were identified."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.logs.column_names import SAID, Roles, listed, spelled
from gradtd.logs.steps import Flags

NUMBERS, CATEGORIES, ALPHABET = "numbers", "categories", "alphabetical"
"""Sources of the order of discrete actions."""
LISTS = ("unread", "lengths", "notes", "warnings", "target_shares")
"""Fields that are lists in JSON."""
SHOWN = 12
"""Number of actions shown with their counts."""
FEWEST_AT_LIMIT, SHARE_AT_LIMIT, SHORTEST_LIMIT = 5, 0.05, 5
"""Minimum number of episodes that end at the maximum length, and minimum length, to suspect a step limit."""
PEAK = (0.2, 0.9, 3)
"""In a column called terminated: their minimum and maximum share, since a task may have so many steps for all, and how
many times those that end a step before."""


@dataclass(frozen=True)
class ColumnUse:
    """The columns of one role, and why: "said", "by name", "by type" or "by position"."""

    role: str
    columns: tuple[str, ...]
    why: str

    @property
    def guessed(self) -> bool:
        """Whether this is a guess: the user did not name the column, and it does not have gradtd's name."""
        return self.why != SAID and tuple(map(spelled, self.columns)) != (self.role,)


@dataclass(frozen=True)
class Understood:
    """How a log was interpreted when it was read: ``log.understood`` of a `gradtd.Log`.

    Parameters
    ----------
    columns
        The columns of each role, and why.
    unread
        Columns of the table that were not read.
    rows, episodes
        Their numbers in the table.
    told_apart
        How episodes were separated.
    episodes_guessed
        Whether that was a guess.
    lengths
        Rows of the shortest and of the longest episode.
    terminated, truncated, unmarked
        Numbers of episodes that terminated, that were truncated, and that ended without a mark (counted as truncated).
    actions
        Every discrete action in the order of its code, and how often it was taken.
    order
        The source of that order: "numbers", "categories", "alphabetical" or "said". Empty for continuous actions.
    notes
        What was dropped, sorted, filled or encoded, each with its count.
    warnings
        Guesses that affect the value, each with the setting that makes it explicit.
    sampled
        Whether ends, lengths and actions were counted in a sample of the episodes.
    target_shares
        The target's probability of each of ``actions``, averaged over the log's observations. Empty if not known.
    """

    columns: tuple[ColumnUse, ...] = ()
    unread: tuple[str, ...] = ()
    rows: int = 0
    episodes: int = 0
    told_apart: str = ""
    episodes_guessed: bool = False
    lengths: tuple[int, int] = (0, 0)
    terminated: int = 0
    truncated: int = 0
    unmarked: int = 0
    actions: tuple[tuple[Any, int], ...] = ()
    order: str = ""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    sampled: bool = False
    target_shares: tuple[float, ...] = ()

    @property
    def order_guessed(self) -> bool:
        """Whether actions are text without a given order, so that probabilities may be matched to the wrong actions."""
        return self.order == ALPHABET

    def of_sample(self, rows: int, episodes: int) -> Understood:
        """A copy for the whole log, made from a sample of it."""
        return replace(self, rows=rows, episodes=episodes, sampled=True)

    def with_target(self, shares: Floats | None, labels: tuple[Any, ...] | None) -> Understood:
        """A copy with the target's probability of every action, from ``shares`` by code."""
        if shares is None:
            return self
        counts = dict(self.actions)
        names = [labels[code] if labels and code < len(labels) else code for code in range(len(shares))]
        shown = [(name, share) for name, share in zip(names, shares.tolist(), strict=True) if share or name in counts]
        return replace(
            self,
            actions=tuple((name, counts.get(name, 0)) for name, _ in shown),
            target_shares=tuple(share for _, share in shown),
        )

    def to_dict(self) -> dict[str, Any]:
        """The description as plain values, for JSON."""
        made = {name: getattr(self, name) for name in self.__dataclass_fields__}
        made["columns"] = [
            {"role": use.role, "columns": list(use.columns), "why": use.why, "guessed": use.guessed}
            for use in self.columns
        ]
        made["actions"] = [
            {"action": action.item() if isinstance(action, np.generic) else action, "count": count}
            for action, count in self.actions
        ]
        return made | {name: list(made[name]) for name in LISTS}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Understood:
        """Build from the output of `to_dict`."""
        known = {name: told[name] for name in cls.__dataclass_fields__ if name in told}
        known |= {name: tuple(known[name]) for name in LISTS if name in known}
        uses = [ColumnUse(use["role"], tuple(use["columns"]), use["why"]) for use in told.get("columns", ())]
        counts = [(one["action"], int(one["count"])) for one in told.get("actions", ())]
        return cls(**(known | {"columns": tuple(uses), "actions": tuple(counts)}))

    def lines(self) -> list[str]:
        """The table as text; ``?`` marks guesses."""
        if not self.columns:
            return []
        width = max(len(use.role) for use in self.columns)
        said = (f"{use.role:<{width}}  {listed(use.columns)}  ({_why(use)})" for use in self.columns)
        return [*said, *self._told()]

    def _told(self) -> Iterator[str]:
        if self.unread:
            yield f"not read: {listed(self.unread)}"
        mark = " ?" if self.episodes_guessed else ""
        low, high = self.lengths
        size = f"{low} row{'s' * (low > 1)} each" if low == high else f"{low} to {high} rows each"
        sample = " (lengths, ends and actions from a sample)" if self.sampled else ""
        yield f"episodes: {self.episodes} of {self.rows} rows, {size}; {self.told_apart}{mark}{sample}"
        without = f", {self.unmarked} of them without a mark ?" if self.unmarked else ""
        yield f"ends: {self.terminated} terminated, {self.truncated} truncated{without}"
        if self.actions:
            shown = ", ".join(f"{action} ({count})" for action, count in self.actions[:SHOWN])
            more = f" and {len(self.actions) - SHOWN} more" if len(self.actions) > SHOWN else ""
            how = {NUMBERS: "", ALPHABET: "; alphabetical order ?", CATEGORIES: "; order of the categories"}
            yield f"actions in order: {shown}{more}{how.get(self.order, '; order as given')}"
        if self.target_shares:
            total = max(sum(count for _, count in self.actions), 1)
            pairs = list(zip(self.actions, self.target_shares, strict=True))
            shown = ", ".join(f"{one}: {count / total:.1%} -> {share:.1%}" for (one, count), share in pairs[:SHOWN])
            yield f"share of each action, log -> target: {shown}{' ...' if len(pairs) > SHOWN else ''}"
        yield from self.notes
        yield from (f"Warning: {warning}" for warning in self.warnings)

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _why(use: ColumnUse) -> str:
    return "as you said" if use.why == SAID else f"{use.why}{' ?' if use.guessed else ''}"


def uses_of(roles: Roles) -> tuple[ColumnUse, ...]:
    found = {**{role: [name] for role, name in roles.single.items()}, **roles.several}
    return tuple(
        ColumnUse("user" if role == "episode" and roles.cut else role, tuple(names), roles.why.get(role, SAID))
        for role, names in found.items()
        if role in roles.why
    )


def told_apart(roles: Roles) -> tuple[str, bool]:
    """How episodes are separated, and whether that is a guess."""
    single = roles.single
    ends = [repr(single[role]) for role in ("terminated", "truncated") if role in single]
    after = f"cut after rows with {' or '.join(ends)}" if ends else ""
    if roles.alone:
        return "every row is an episode of one step", roles.guessed
    if roles.cut:
        return f"by {single['episode']!r}{', ' + after if after else ''}", roles.why["episode"] != SAID
    if "episode" in single:
        return f"by {single['episode']!r}", False
    if "start" in single:
        return f"each begins where {single['start']!r} is true", False
    return after, True


def guesses(roles: Roles, lengths: Integers, ended: Flags, limit: int | None, unread: Sequence[str]) -> tuple[str, ...]:
    """Warnings about guesses that affect the value, with the setting that makes each explicit."""
    found, single = [], roles.single
    if roles.cut and roles.why["episode"] != SAID:
        name = single["episode"]
        how = "each group split after its ends" if {"terminated", "truncated"} & set(single) else "as one episode"
        found.append(
            f"No column numbers the episodes. Rows of one {name!r} were grouped, {how}. If that is right, use "
            f"columns={{'user': {name!r}}}; otherwise name the column of episodes, columns={{'episode': ...}}."
        )
    elif not roles.alone and "episode" not in single and (other := _may_tell(unread)):
        found.append(
            "Episodes were split after rows that end one, in the order of the table. If the rows of several "
            f"{other!r} are mixed, use columns={{'user': {other!r}}}."
        )
    longest = 0 if limit is not None or "truncated" in single else suspected_limit(lengths, ended)
    count = int((ended & (lengths == longest)).sum())
    before, share = int((ended & (lengths == longest - 1)).sum()), count / max(len(lengths), 1)
    by_name = roles.why.get("terminated") not in (None, SAID) and PEAK[0] <= share <= PEAK[1]
    if longest and (roles.done_flag or (by_name and count > PEAK[2] * before)):
        found.append(
            f"{count} of {len(lengths)} episodes end after exactly {longest} steps, with {single['terminated']!r} "
            f"true: they count as terminated. If {longest} is a limit of steps, use time_limit={longest}, or mark "
            f"cuts in a column truncated; otherwise use columns={{'terminated': {single['terminated']!r}}}."
        )
    if roles.why.get("rho") not in (None, SAID) and spelled(single.get("rho", "")) == "weight":
        found.append(
            f"Column {single['rho']!r} was read as the importance ratio because of its name. If that is right, use "
            f"columns={{'rho': {single['rho']!r}}}; otherwise columns={{'rho': None}}."
        )
    twice = [
        name
        for name in roles.several.get("observation", ())
        if name in (*single.values(), *roles.several.get("action", ()))
    ]
    if twice:
        found.append(
            f"Column {twice[0]!r} is part of the observation and also has another role. An observation must not "
            "contain what happens after it: leave the column out of the observation."
        )
    return tuple(found)


def alike(labels: Sequence[Any]) -> tuple[str, ...]:
    """A warning if action labels differ only in case or spaces."""
    seen: dict[str, str] = {}
    for label in map(str, labels):
        other = seen.setdefault(" ".join(label.lower().split()), label)
        if other != label:
            return (
                f"The actions {other!r} and {label!r} differ only in case or spaces and count as two actions. Merge "
                "them if they are one.",
            )
    return ()


def _may_tell(unread: Sequence[str]) -> str | None:
    """A column that was not read and may be a user id."""
    return next((name for name in unread if spelled(name).endswith("_id") or spelled(name) == "id"), None)


def suspected_limit(lengths: Integers, ended: Flags) -> int:
    """The maximum episode length if it looks like a step limit because many episodes terminate at it, else 0."""
    longest = int(lengths.max(initial=0))
    at = int((ended & (lengths == longest)).sum())
    few = max(FEWEST_AT_LIMIT, SHARE_AT_LIMIT * len(lengths))
    return longest if longest >= SHORTEST_LIMIT and at >= few else 0
