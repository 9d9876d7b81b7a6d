"""Which rows of a log in parts are an episode: where its rows begin, and what to say where files share ids."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from gradtd.core.checks import InputError
from gradtd.core.files import writing
from gradtd.core.progress import StageProgress, stage
from gradtd.evaluation.parts.preparing import Asked, needed
from gradtd.evaluation.parts.step_file import ELSEWHERE
from gradtd.logs.column_names import Roles, resolve
from gradtd.logs.files import ParquetTable
from gradtd.logs.parts import Survey, bring_together, survey
from gradtd.logs.steps import ENDS

NO_COLUMN = (
    "there is no episode column: episodes were cut after rows that are terminated or truncated, in the order of the "
    "files. They are grouped by their number, so the interval depends on that order."
)


class Grouped(NamedTuple):
    """Where episodes begin, notes about it, and how many ids of episodes stand in several files."""

    seen: Survey
    notes: list[str]
    shared: int


def roles_of(table: ParquetTable, asked: Asked, keep: tuple[str, ...]) -> Roles:
    """Which column is which, one that tells episodes apart among them."""
    roles = resolve(table.kinds, asked.columns, keep)
    if not any(role in roles.single for role in ("episode", *ENDS)):
        raise InputError(
            f"{table.name!r} has no column of episodes, and none that says terminated or truncated. A log that is read "
            "in parts needs one of them: add it, or give in_parts=False where the log fits into memory."
        )
    return roles


def grouped(table: ParquetTable, roles: Roles, stack: ExitStack, progress: StageProgress | None) -> Grouped:
    """Where episodes begin; their rows brought together in a temporary folder where they are not."""
    column = roles.single.get("episode")
    if column is None:
        seen = survey(table, roles, stage(progress, "looking for episodes"))
        return Grouped(seen, [NO_COLUMN, *_spanning(seen)], 0)
    seen = survey(table, column, stage(progress, "looking for episodes"))
    shared, notes = seen.shared(), []
    if not seen.grouped:
        if "t" not in roles.single:
            raise InputError(_apart(table.name, shared))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gradtd-")))
        by = [column, roles.single["t"]]
        with writing(folder, ELSEWHERE):
            files = bring_together(seen, by, needed(roles), folder, stage(progress, "bringing episodes together"))
        seen = survey(ParquetTable(table.name, files), column)
        notes.append("rows of an episode did not stand together: the log was sorted once, in a temporary folder.")
        if shared:
            notes.append(f"ids stood in several files ({shared} of them): rows of one id were taken as one episode.")
    return Grouped(seen, [*notes, *_spanning(seen)], shared)


def _spanning(seen: Survey) -> list[str]:
    return [f"{seen.spanning} episode{'s' * (seen.spanning > 1)} went on in the next file."] if seen.spanning else []


def _apart(name: str, shared: int) -> str:
    if not shared:
        return (
            f"an episode of {name!r} must be in one piece, and some begin again later: add a column t to sort by, or "
            "give every episode an id of its own."
        )
    return (
        f"an episode of {name!r} must be in one piece, and ids stand in several files ({shared} of them): where files "
        "number their episodes anew, give every episode an id of its own, such as the file's name and the number; "
        "where rows of an episode are scattered, add a column t to sort by."
    )


def refuse_single(seen: Survey, name: str, later: bool = False) -> None:
    """An interval comes from groups of episodes; ``later`` says that files may come later."""
    if seen.episodes > 1:
        return
    files = len({stretch.path for stretch in seen.stretches})
    anew = f" in {files} files: where each file is an episode, give each an id of its own" if files > 1 else ""
    way = (
        "nothing of it was kept; start again with the same folder when there are files with more episodes"
        if later
        else "give in_parts=False and block=T0 where the log fits into memory, to count every T0 steps as one"
    )
    raise InputError(
        f"{name!r} has a single episode ({seen.rows} rows){anew}. The interval comes from groups of episodes: {way}."
    )
