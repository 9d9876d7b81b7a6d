"""Which column of a table is which: by the user's mapping, otherwise by the names that are in use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from gradtd.core import checks
from gradtd.core.checks import InputError

ALIASES: dict[str, tuple[str, ...]] = {
    "episode": ("episode", "episode_id", "eps_id", "trajectory", "trajectory_id", "traj_id"),
    "t": ("t", "step", "time", "timestep"),
    "observation": ("observation", "observations", "obs", "state", "states"),
    "next_observation": (
        *("next_observation", "next_observations", "new_observation", "new_observations"),
        *("next_obs", "new_obs", "next_state", "next_states", "new_state"),
    ),
    "action": ("action", "actions"),
    "reward": ("reward", "rewards", "r"),
    "terminated": ("terminated", "terminateds", "terminal", "terminals", "done", "dones"),
    "truncated": ("truncated", "truncateds", "timeout", "timeouts"),
    "behaviour": (
        *("behaviour", "behavior", "behaviour_probability", "behavior_probability", "behaviour_prob", "behavior_prob"),
        *("action_prob", "action_probability", "propensity", "propensity_score", "pscore"),
    ),
    "target": ("target", "target_probability", "target_prob", "evaluation_prob", "evaluation_probability"),
    "rho": ("rho", "ratio", "weight", "importance_ratio"),
    "behaviour_log": (
        *("action_logp", "action_log_prob", "action_log_probability"),
        *("behaviour_logp", "behaviour_log_prob", "behaviour_log_probability"),
        *("behavior_logp", "behavior_log_prob", "behavior_log_probability"),
    ),
    "target_log": (
        *("target_logp", "target_log_prob", "target_log_probability"),
        *("evaluation_logp", "evaluation_log_prob", "evaluation_log_probability"),
    ),
}
"""What we call a column, and the names it is recognised by, in any case of letters."""

SEVERAL = ("observation", "next_observation", "action")
"""These may be spread over several columns: observation_0, observation_1, or obs.x, obs.v."""

_HOME = {alias: role for role, aliases in ALIASES.items() for alias in aliases}
_PART = re.compile(r"^(?P<stem>.+?)(?:(?:_|\.|/)(?P<number>\d+)|\[(?P<index>\d+)\]|\.(?P<word>.+))$", re.DOTALL)


@dataclass
class Roles:
    """Which columns play which role; ``parts`` are the names of the observation's components.

    ``done_flag`` says that ends are marked by a column, recognised by its name, that may mean either end. ``alone``
    says that every row is an episode of one step, ``guessed`` that nobody said so.
    """

    single: dict[str, str] = field(default_factory=dict)
    several: dict[str, list[str]] = field(default_factory=dict)
    parts: tuple[str, ...] = ()
    next_parts: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    done_flag: bool = False
    alone: bool = False
    guessed: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def columns(self) -> list[str]:
        """All columns that have a role."""
        several = (name for names in self.several.values() for name in names)
        return list(dict.fromkeys([*self.single.values(), *several, *self.keep]))


def resolve(kinds: Mapping[str, str], columns: Any = None, keep: Any = ()) -> Roles:
    """Give every role its columns; ``kinds`` maps the table's columns to what they hold.

    >>> roles = resolve({"obs_10": "real", "obs_2": "real", "R": "real"})
    >>> roles.several["observation"], roles.single["reward"], roles.parts
    (['obs_2', 'obs_10'], 'R', ('2', '10'))
    """
    roles, taken = _mapped(kinds, columns)
    _refuse_unreadable(kinds, taken)
    free = {name: kind for name, kind in kinds.items() if name not in taken.names and kind != "nested"}
    for role in ALIASES:
        if role in taken.roles:
            continue
        groups = _recognised(role, tuple(free))
        if len(groups) > 1:
            both = " and ".join(repr(group[0][0]) for group in groups[:2])
            raise InputError(
                f"the columns {both} both look like the {role}: say which one it is, "
                f"columns={{{role!r}: {groups[0][0][0]!r}}}."
            )
        if groups:
            _assign(roles, role, groups[0])
    for kind in ("behaviour", "target"):
        if kind in roles.single and f"{kind}_log" in roles.single:
            ignored = roles.single.pop(f"{kind}_log")
            roles.notes.append(f"column {ignored!r} was not read, since {roles.single[kind]!r} has the probabilities.")
    roles.done_flag = "terminated" not in taken.roles and roles.single.get("terminated", "").lower() in (
        "done",
        "dones",
    )
    roles.keep = _kept(kinds, keep)
    _check_complete(roles, kinds)
    return roles


@dataclass
class _Taken:
    roles: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)


def _refuse_unreadable(kinds: Mapping[str, str], taken: _Taken) -> None:
    """A column that goes by a known name and cannot be read is not passed over: the log would mean something else."""
    for name, kind in kinds.items():
        role = _HOME.get(name.lower())
        if kind == "nested" and role is not None and role not in taken.roles and name not in taken.names:
            raise InputError(
                f"column {name!r} looks like the {role}, but holds bytes or something nested, which cannot be read: "
                f"make it numbers, or leave it out, columns={{{role!r}: None}}."
            )


def _mapped(kinds: Mapping[str, str], columns: Any) -> tuple[Roles, _Taken]:
    """The user's own mapping; None for a column says that there is none."""
    if columns is not None and not isinstance(columns, Mapping):
        raise InputError(f"columns must be a dictionary from our names to yours, got {type(columns).__name__}.")
    roles, taken = Roles(), _Taken()
    for key, given in (columns or {}).items():
        role = _HOME.get(str(key).lower()) or checks.known_name("column name", key, ALIASES)
        taken.roles.add(role)
        if given is None:
            continue
        theirs = [str(name) for name in given] if isinstance(given, (list, tuple)) else [str(given)]
        if not theirs or (len(theirs) > 1 and role not in SEVERAL):
            several = " or several" if role in SEVERAL else ""
            raise InputError(f"columns={{{key!r}: ...}} takes one column{several}, got {given!r}.")
        for name in theirs:
            if name not in kinds:
                raise InputError(f"there is no column {name!r} for {key!r}; the columns are {listed(kinds)}.")
        taken.names.update(theirs)
        _assign(roles, role, [(name, name) for name in theirs])
    return roles, taken


@lru_cache(maxsize=256)
def _recognised(role: str, kinds: tuple[str, ...]) -> list[list[tuple[str, str]]]:
    """Columns that look like a role, as (column, component), grouped by the name they go by.

    A log that is read in parts asks the same again and again. The answer is to be read only.
    """
    groups: dict[str, list[tuple[str, str]]] = {}
    for column in kinds:
        lower = column.lower()
        if _HOME.get(lower) == role:
            groups.setdefault(column, []).append((column, role))
        elif role in SEVERAL and (part := _PART.match(column)) and _HOME.get(part["stem"].lower()) == role:
            component = part["number"] or part["index"] or part["word"]
            groups.setdefault(part["stem"] + ".", []).append((column, component))
    for group in groups.values():
        if all(component.isdigit() for _, component in group):
            group.sort(key=lambda pair: int(pair[1]))
    return list(groups.values())


def _assign(roles: Roles, role: str, group: list[tuple[str, str]]) -> None:
    if role not in SEVERAL:
        roles.single[role] = group[0][0]
        return
    roles.several[role] = [column for column, _ in group]
    components = tuple(component for _, component in group)
    if role == "observation":
        roles.parts = components
    elif role == "next_observation":
        roles.next_parts = components


TOGETHER = ("episode", "t", "terminated", "truncated")
"""What says which rows belong together, and in which order."""


def take_rows_alone(roles: Roles, one_step: bool | None) -> None:
    """Let every row stand for itself, where that was asked for: what would say otherwise is not read.

    Where nothing was said, it is done if nothing tells which rows belong together, when they were, or what followed.
    """
    told = any(role in roles.single for role in TOGETHER) or "next_observation" in roles.several
    roles.alone, roles.guessed = not told if one_step is None else one_step, not told and one_step is None
    if not roles.alone:
        return
    unread = [roles.single.pop(role) for role in TOGETHER if role in roles.single]
    unread += roles.several.pop("next_observation", [])
    roles.next_parts, roles.done_flag = (), False
    why = "nothing tells where episodes end, and rows have no time: " if roles.guessed else ""
    left = f"; not read: {listed(unread)}" if unread else ""
    roles.notes.append(f"{why}every row was taken as an episode of one step{left}.")


def _kept(kinds: Mapping[str, str], keep: Any) -> tuple[str, ...]:
    names = (keep,) if isinstance(keep, str) else tuple(keep)
    for name in names:
        if name not in kinds:
            raise InputError(f"there is no column {name!r} to keep; the columns are {listed(kinds)}.")
    return names


def _check_complete(roles: Roles, kinds: Mapping[str, str]) -> None:
    if "observation" not in roles.several:
        raise InputError(
            f"no observation column was found among {listed(kinds)}: say which they are, "
            'columns={"observation": ["x", "v"]}.'
        )
    if "reward" not in roles.single:
        raise InputError(
            f'no reward column was found among {listed(kinds)}: say which it is, columns={{"reward": "r"}}.'
        )
    now, after = roles.several["observation"], roles.several.get("next_observation", [])
    if after and len(now) != len(after):
        raise InputError(
            f"the observation has {len(now)} columns ({listed(now)}) and the next observation {len(after)} "
            f"({listed(after)}): map both, in the same order."
        )
    if sorted(roles.parts) == sorted(roles.next_parts):  # obs.x, obs.v beside next_obs.v, next_obs.x
        where = dict(zip(roles.next_parts, after, strict=True))
        roles.several["next_observation"] = [where[part] for part in roles.parts]


def listed(names: Iterable[str]) -> str:
    """Names for a sentence, at most 20."""
    every = list(map(str, names))
    more = f" and {len(every) - 20} more" if len(every) > 20 else ""
    return (", ".join(every[:20]) or "none") + more
