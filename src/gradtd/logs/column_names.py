"""Assigns the columns of a table to roles, by the user's mapping or by common names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from gradtd.core import checks
from gradtd.core.checks import Faults, InputError
from gradtd.core.parsing import whole_numbers

ALIASES: dict[str, tuple[str, ...]] = {
    "episode": ("episode", "episode_id", "eps_id", "trajectory", "trajectory_id", "traj_id"),
    "user": (),
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
    "start": (),
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
"""The roles, and the column names recognised for each of them, in upper or lower case."""

LESS_USUAL: dict[str, tuple[str, ...]] = {
    "episode": ("ep", "ep_id", "episodes", "episode_idx", "episode_index", "episode_number", "traj", "rollout_id"),
    "user": (
        *(
            "user",
            "user_id",
            "session",
            "session_id",
            "patient",
            "patient_id",
            "subject",
            "subject_id",
            "run",
            "run_id",
        ),
        *("customer", "customer_id", "player", "player_id", "visitor_id", "stay_id", "env", "env_id"),
    ),
    "t": (
        *("timestamp", "timestamps", "ts", "datetime", "date", "event_time", "created_at"),
        *("time_step", "timesteps", "step_id", "step_index", "step_idx", "step_number"),
    ),
    "observation": ("ob", "s", "context", "contexts"),
    "next_observation": ("next_ob", "obs_next", "next_s", "s_next", "s2", "s_prime", "next_context"),
    "action": ("act", "acts", "a", "action_id", "arm"),
    "reward": ("rew", "rews"),
    "terminated": ("termination", "terminations", "is_terminal", "is_terminated", "is_done", "episode_end"),
    "truncated": ("truncation", "truncations", "is_truncated", "time_limit_reached", "episode_terminals"),
    "start": ("reset", "resets", "is_first", "episode_start", "episode_starts"),
    "behaviour": ("logging_prob", "logging_probability", "behaviour_p", "behavior_p", "b_prob", "prob_b"),
    "behaviour_log": ("logp", "logprob", "log_prob", "logps", "log_probs", "logprobs", "action_logprob"),
}
"""Fallback names, used only if no column has one of `ALIASES`. A user is anything that has several episodes in
sequence."""

CLOCKS = ("timestamp", "timestamps", "ts", "datetime", "date", "event_time", "created_at")
"""Names of a timestamp, which orders rows but does not count steps."""
DONE = ("done", "dones", "is_done", "episode_end")
"""Names of a column that may mark either end of an episode."""
SAID, BY_NAME = "said", "by name"
"""How a column got its role."""

SEVERAL = ("observation", "next_observation", "action")
"""Roles that may use several columns: observation_0, observation_1, or obs.x, obs.v."""

_TIERS = tuple({alias: role for role, aliases in names.items() for alias in aliases} for names in (ALIASES, LESS_USUAL))
_HOME = {**_TIERS[1], **_TIERS[0]} | {role: role for role in ALIASES}
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_PART = re.compile(r"^(?P<stem>.+?)(?:(?:_|\.|/)(?P<number>\d+)|\[(?P<index>\d+)\]|\.(?P<word>.+))$", re.DOTALL)


@dataclass
class Roles:
    """The columns of each role. ``parts`` are the names of the observation's components.

    ``done_flag``: the ends are marked by a column whose name can mean termination or truncation. ``alone``: every row
    is an episode of one step; ``guessed``: this is a guess. ``cut``: the episode column numbers users, whose rows are
    split after ends. ``clock``: t only orders the rows. ``why`` is the reason for the columns of every role.
    """

    single: dict[str, str] = field(default_factory=dict)
    several: dict[str, list[str]] = field(default_factory=dict)
    parts: tuple[str, ...] = ()
    next_parts: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    done_flag: bool = False
    alone: bool = False
    guessed: bool = False
    cut: bool = False
    clock: bool = False
    why: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def columns(self) -> list[str]:
        several = (name for names in self.several.values() for name in names)
        return list(dict.fromkeys([*self.single.values(), *several, *self.keep]))


def resolve(kinds: Mapping[str, str], columns: Any = None, keep: Any = ()) -> Roles:
    """Assign columns to roles. ``kinds`` maps the table's columns to their types.

    >>> roles = resolve({"obs_10": "real", "obs_2": "real", "R": "real"})
    >>> roles.several["observation"], roles.single["reward"], roles.parts
    (['obs_2', 'obs_10'], 'R', ('2', '10'))
    """
    faults = Faults()
    roles, taken = _mapped(kinds, columns, faults)
    _refuse_unreadable(kinds, taken, faults)
    free = {name: kind for name, kind in kinds.items() if name not in taken.names and kind != "nested"}
    for role in ALIASES:
        if role in taken.roles or (role == "user" and "episode" in taken.roles | set(roles.single)):
            continue
        groups = _recognised(role, tuple(free))
        if role == "terminated":
            groups = _without_done(groups, roles, taken, tuple(free))
        if len(groups) > 1:
            both = " and ".join(repr(group[0][0]) for group in groups[:2])
            faults.add(
                f"the columns {both} both look like the {role}: name one of them, "
                f"columns={{{role!r}: {groups[0][0][0]!r}}}."
            )
        if groups:
            _assign(roles, role, groups[0], BY_NAME)
    for kind in ("behaviour", "target"):
        if kind in roles.single and f"{kind}_log" in roles.single:
            ignored = roles.single.pop(f"{kind}_log")
            roles.notes.append(f"Column {ignored!r} was not read: {roles.single[kind]!r} contains the probabilities.")
    roles.done_flag = roles.why.get("terminated") == BY_NAME and spelled(roles.single["terminated"]) in DONE
    roles.clock |= spelled(roles.single.get("t", "")) in CLOCKS
    _take_users(roles)
    roles.keep = _kept(kinds, keep, faults)
    _check_complete(roles, kinds, faults)
    faults.raise_all()
    return roles


def _without_done(
    groups: list[list[tuple[str, str]]], roles: Roles, taken: _Taken, names: tuple[str, ...]
) -> list[list[tuple[str, str]]]:
    """If there is a terminated column, a done column may mark either end: use it for truncation if no other column
    does."""
    done = [group for group in groups if spelled(group[0][0]) in DONE]
    sure = [group for group in groups if group not in done]
    if len(done) != 1 or len(sure) != 1:
        return groups
    if "truncated" not in taken.roles and not _recognised("truncated", names):
        taken.roles.add("truncated")
        _assign(roles, "truncated", done[0], BY_NAME)
    return sure


def _take_users(roles: Roles) -> None:
    """Group rows by user if there is a time or an end column but no episode column."""
    name = roles.single.pop("user", None)
    told = any(role in roles.single for role in ("t", "terminated", "truncated"))
    if name is None or "episode" in roles.single or not (told or roles.why["user"] == SAID):
        roles.why.pop("user", None)
    else:
        roles.single["episode"], roles.cut, roles.why["episode"] = name, True, roles.why.pop("user")
    others = any(role in roles.single for role in ("episode", "terminated", "truncated", "start"))
    if roles.clock and roles.why["t"] == BY_NAME and not others and "next_observation" not in roles.several:
        del roles.single["t"]  # rows of a bandit may have times, too


@dataclass
class _Taken:
    roles: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)


def spelled(name: str) -> str:
    """A column's name in the normal form: nextState and "Next state" become next_state."""
    return _HUMP.sub("_", name.strip()).lower().replace(" ", "_").replace("-", "_")


def _role_of(name: str, tier: int) -> str | None:
    return _TIERS[tier].get(name.lower()) or _TIERS[tier].get(spelled(name))


def role_of(name: str) -> str | None:
    """The role of a column with this name. A component has the role of the whole.

    >>> role_of("rew"), role_of("obs.x"), role_of("next_state_1"), role_of("speed")
    ('reward', 'observation', 'next_observation', None)
    """
    for tier in (0, 1):
        if role := _role_of(name, tier):
            return role
        part = _PART.match(name)
        if part and (role := _role_of(part["stem"], tier)) in SEVERAL:
            return role
    return None


def _refuse_unreadable(kinds: Mapping[str, str], taken: _Taken, faults: Faults) -> None:
    """Refuse an unreadable column with a known name, because skipping it would change the meaning of the log."""
    for name, kind in kinds.items():
        role = _role_of(name, 0)
        if kind == "nested" and role is not None and role not in taken.roles and name not in taken.names:
            faults.add(
                f"column {name!r} looks like the {role}, but contains bytes or nested values, which cannot be read: "
                f"convert it to numbers, or leave it out, columns={{{role!r}: None}}."
            )


def _mapped(kinds: Mapping[str, str], columns: Any, faults: Faults) -> tuple[Roles, _Taken]:
    """Check the user's mapping. None for a role means that the log has no such column."""
    if columns is not None and not isinstance(columns, Mapping):
        raise InputError(
            f"columns must be a dictionary from gradtd's names to your column names, got {type(columns).__name__}."
        )
    roles, taken = Roles(), _Taken()
    for key, given in (columns or {}).items():
        if not _HOME.get(str(key).lower()) and key in kinds and str(given) in _HOME:
            raise InputError(
                f"columns maps gradtd's names to your column names: write {{{given!r}: {key!r}}}, not "
                f"{{{key!r}: {given!r}}}."
            )
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
                turned = f" The mapping is from gradtd's names to yours: {{{name!r}: {key!r}}}." if key in kinds else ""
                faults.add(f"there is no column {name!r} for {key!r}; the columns are {listed(kinds)}.{turned}")
        taken.names.update(theirs)
        roles.clock |= spelled(str(key)) in CLOCKS
        _assign(roles, role, [(name, name) for name in theirs], SAID)
    return roles, taken


@lru_cache(maxsize=256)
def _recognised(role: str, kinds: tuple[str, ...]) -> list[list[tuple[str, str]]]:
    """Columns recognised for a role, as (column, component), grouped by their common name.

    The result is cached, because a log in parts needs it for every part. Do not modify it.
    """
    groups: dict[str, list[tuple[str, str]]] = {}
    for tier in (0, 1):
        for column in kinds:
            if _role_of(column, tier) == role:
                groups.setdefault(column, []).append((column, role))
            elif role in SEVERAL and (part := _PART.match(column)) and _role_of(part["stem"], tier) == role:
                component = part["number"] or part["index"] or part["word"]
                groups.setdefault(part["stem"] + ".", []).append((column, component))
        if groups:
            break
    for group in groups.values():
        if whole_numbers(component for _, component in group) is not None:
            group.sort(key=lambda pair: int(pair[1]))
    return list(groups.values())


def _assign(roles: Roles, role: str, group: list[tuple[str, str]], why: str) -> None:
    roles.why[role] = why
    if role not in SEVERAL:
        roles.single[role] = group[0][0]
        return
    roles.several[role] = [column for column, _ in group]
    components = tuple(component for _, component in group)
    if role == "observation":
        roles.parts = components
    elif role == "next_observation":
        roles.next_parts = components


TOGETHER = ("episode", "t", "terminated", "truncated", "start")
"""Roles that determine which rows form an episode, and in which order."""


def take_rows_alone(roles: Roles, one_step: bool | None) -> None:
    """Treat every row as an episode, if requested, and ignore columns that say otherwise.

    By default this is done if no column gives episodes, times or next observations.
    """
    told = any(role in roles.single for role in TOGETHER) or "next_observation" in roles.several
    roles.alone, roles.guessed = not told if one_step is None else one_step, not told and one_step is None
    if not roles.alone:
        return
    unread = [roles.single.pop(role) for role in TOGETHER if role in roles.single]
    unread += roles.several.pop("next_observation", [])
    roles.next_parts, roles.done_flag, roles.cut = (), False, False
    why = "no column says where episodes end, and rows have no time: " if roles.guessed else ""
    left = f"; not read: {listed(unread)}" if unread else ""
    roles.notes.append(f"{why}every row counts as an episode of one step{left}.")


def _kept(kinds: Mapping[str, str], keep: Any, faults: Faults) -> tuple[str, ...]:
    names = (keep,) if isinstance(keep, str) else tuple(keep)
    for name in names:
        if name not in kinds:
            faults.add(f"there is no column {name!r} to keep; the columns are {listed(kinds)}.")
    return names


def _check_complete(roles: Roles, kinds: Mapping[str, str], faults: Faults) -> None:
    if "observation" not in roles.several:
        faults.add(
            f"no observation column was found among {listed(kinds)}: name the columns, "
            'columns={"observation": ["x", "v"]}.'
        )
    if "reward" not in roles.single:
        faults.add(f'no reward column was found among {listed(kinds)}: name it, columns={{"reward": "r"}}.')
    now, after = roles.several.get("observation", []), roles.several.get("next_observation", [])
    if now and after and len(now) != len(after):
        faults.add(
            f"the observation has {len(now)} columns ({listed(now)}) and the next observation {len(after)} "
            f"({listed(after)}): map both, in the same order."
        )
    elif sorted(roles.parts) == sorted(
        roles.next_parts
    ):  # the same names in a different order: obs.x, obs.v and next_obs.v, next_obs.x
        where = dict(zip(roles.next_parts, after, strict=True))
        roles.several["next_observation"] = [where[part] for part in roles.parts]


def listed(names: Iterable[str]) -> str:
    """Names for a message, at most 20."""
    every = list(map(str, names))
    more = f" and {len(every) - 20} more" if len(every) > 20 else ""
    return (", ".join(every[:20]) or "none") + more
