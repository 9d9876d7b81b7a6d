"""Numbers episodes without ids, and explains rows that do not fit their episode."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core.arrays import Integers, Words
from gradtd.core.checks import InputError, RowError

if TYPE_CHECKING:
    from gradtd.logs.steps import Rows

Flags = NDArray[np.bool_]


class EpisodeCounter:
    """Numbers episodes without ids: an episode ends at a terminated or truncated row.

    Call it with the rows in order, some at a time. Rows may share a timestamp.
    """

    def __init__(self, clock: bool = False) -> None:
        self.clock, self.rows, self.episode = clock, 0, 0
        self.over, self.last_t = False, np.zeros(0)

    def number(self, ends: Flags, t: NDArray[Any] | None) -> Integers:
        """The number of the episode of each row."""
        begins = np.r_[self.over, ends[:-1]]
        if t is not None:
            self._refuse_falling(t, begins)
        numbers: Integers = self.episode + np.cumsum(begins)
        self.episode, self.over, self.rows = int(numbers[-1]), bool(ends[-1]), self.rows + len(ends)
        return numbers

    def _refuse_falling(self, t: NDArray[Any], begins: Flags) -> None:
        """Check that t increases within an episode. A decrease means that the end of an episode is not marked."""
        before = np.r_[self.last_t if len(self.last_t) else t[:1], t[:-1]]
        falls = ~begins & (t < before if self.clock else t <= before)
        falls[0] &= bool(len(self.last_t))
        if falls.any():
            at = int(np.flatnonzero(falls)[0])
            row = self.rows + at
            raise RowError(
                f"t falls from {before[at]} to {t[at]} at row {row}, but row {row - 1} is neither terminated nor "
                "truncated: add an episode column, or mark where episodes end.",
                row,
            )
        self.last_t = t[-1:].copy()


SORTED = 'sort the rows by t, as read_log(order="sort") does'
FEW_GAPS = 100
"""Gaps in t give a warning if at least one row in this number precedes a gap."""
FEW_LOST = 5
"""Dropped episodes give a warning if they are at least one in this number."""


def pieces_told(rows: Rows, episode: Integers, at: int) -> str:
    """The message about an episode whose rows are not contiguous. Its second piece begins at row ``at``."""
    first = int(np.flatnonzero(episode == episode[at])[0])
    told = f"rows {first} and {at} have the same {rows.name!r}, with rows of other episodes between them: "
    if rows.t is not None:
        return f"{told}{SORTED}."
    return (
        f"{told}if several episodes were recorded at once and the rows are in the order of time, sort them, "
        f"frame.sort_values({rows.name!r}, kind='stable'), or name a column to sort by, columns={{'t': ...}}; if two "
        "episodes share a number, give each its own number."
    )


def gap_warning(goes_on: Flags, follower: Flags, rows: Rows) -> tuple[str, ...]:
    """A warning if steps are lost at jumps of t: t may be a timestamp."""
    lost = int((goes_on & ~follower).sum()) if rows.lost is None else 0
    if not lost or lost * FEW_GAPS < goes_on.sum():
        return ()
    return (
        f"t jumps after {lost} of {int(goes_on.sum())} rows, so gradtd assumes that rows are missing there. If t is "
        'a timestamp and does not count steps, use columns={"timestamp": ...} with its name.',
    )


def late_warning(rows: Rows, at: Any, goes_on: Flags) -> tuple[str, ...]:
    """A warning if some episodes begin at a later t than others, or all at a t above 1: their first rows may be
    missing."""
    if rows.t is None or not rows.counted or rows.cut or rows.episode is None or not goes_on.any():
        return ()
    t = rows.t[at]
    first = t[np.r_[True, ~goes_on[:-1]]]
    least = int(first.min())
    late = int((first > least).sum()) if least in (0, 1) else len(first)
    apart = np.diff(first)
    # t continues from one episode to the next
    if not late or (len(first) > 1 and bool((apart > 0).all() or (apart < 0).all())):
        return ()
    return (
        f"{late} of {len(first)} episodes begin at a t above {least if least in (0, 1) else 1}, so their first rows "
        "seem to be missing. The value is that of the first rows. Leave these episodes out or, if they do begin "
        "there, leave t out with columns={'t': None}.",
    )


FIRST_ENDS = (
    "The first row of the table ends an episode, and the last one does not. If the column marks the first row of each "
    "episode, name it with columns={'start': ...}."
)


def lost_warning(lost: int, episodes: int) -> tuple[str, ...]:
    """A warning if many single-row episodes were dropped."""
    if lost * FEW_LOST < episodes:
        return ()
    return (
        f"{lost} of {episodes} episodes have a single row without an end or a next observation, and were dropped. Does "
        "the episode column number rows? Name another one, columns={'episode': ...}, or None to split after ends.",
    )


def hash_of(ids: NDArray[Any]) -> Words:
    """A reproducible 64-bit hash of every id."""
    if ids.dtype.kind in "iub":
        return mixed(ids.astype(np.int64).view(np.uint64))
    if ids.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            whole = ids.astype(np.int64)
        words = np.where(whole == ids, whole.view(np.uint64), ids.astype(np.float64).view(np.uint64))
        return mixed(words)  # 3.0 and 3 are the same episode
    digests = (hashlib.blake2b(str(one).encode(), digest_size=8).digest() for one in ids)
    return np.frombuffer(b"".join(digests), np.uint64)


def mixed(words: Words) -> Words:
    """The splitmix64 mixing function."""
    z = words + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def refuse_padding(ends: NDArray[np.bool_]) -> None:
    """Refuse padding: rows after an episode's first end that are also marked as ends."""
    padded = (ends[:, -1] & ends[:, -2]) if ends.shape[1] > 1 else np.zeros(len(ends), bool)
    if 2 * int(padded.sum()) > len(ends):
        raise InputError(
            f"{int(padded.sum())} of {len(ends)} episodes end in several rows marked as ends: they seem to be "
            "padded to one length. Remove the rows after the first end, or give a list of episodes."
        )
