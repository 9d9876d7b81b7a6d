"""The two buffers of a run, and how batches from them are kept independent (the paper's independence sampling).

Buffers hold step indices, as windows over one list. The stream is known in advance, and so are the buffers: ``members``
lists the step indices of buffer 1 and then those of buffer 2, in order of arrival. Inserting a step moves a counter,
and a bounded buffer is a window that ends at the counter. Nothing is copied.

A `Split` says which buffer a step goes to and how two batches are drawn from the buffers:

* ``odd-even``: odd episodes fill buffer 1, even ones buffer 2 (Algorithm 1);
* ``coin``: a fair coin per episode chooses the buffer;
* ``episode-index``: one buffer; at every step its episodes are assigned to the two batches at random, so the batches
  never share an episode (eq. buffer1, buffer2);
* ``none``: one buffer, both batches from all of it. Biased while data arrive, and included to show that bias; valid for
  a log that is complete.

`gradtd.compiled.draws` defines which batches a rule gets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradtd.compiled import random
from gradtd.compiled.plan import Plan
from gradtd.compiled.random import mixed, next_below, next_word
from gradtd.core.algorithm import Now
from gradtd.core.arrays import Batch, Index, Integers, Plain, Words
from gradtd.core.checks import InputError, NeverLearnsError
from gradtd.core.stream import Stream


class Buffers(NamedTuple):
    """The two buffers of a run, as windows over ``members``."""

    side: NDArray[np.uint8]
    members: NDArray[np.uint32]
    begin: Integers
    arrived: Integers
    capacity: int
    unit: Integers
    stamps: Integers


def no_buffers(n_steps: int) -> Buffers:
    """Buffers of a rule that draws nothing."""
    nothing = np.zeros(0, np.int64)
    return Buffers(nothing.astype(np.uint8), nothing.astype(np.uint32), nothing, nothing, n_steps, nothing, nothing)


def fill_up(buffers: Buffers) -> None:
    """Fill the buffers with all steps, as in a second pass over the stream."""
    if len(buffers.members):
        buffers.arrived[:] = buffers.begin[1], len(buffers.members) - buffers.begin[1]


def insert(buffers: Buffers, t: Index) -> Any:
    """Insert step t into its buffer, and return which one. In a second pass over the stream all are already there."""
    side = np.int64(buffers.side[t])
    end = buffers.begin[1] if side == 0 else buffers.members.shape[0]
    if buffers.begin[side] + buffers.arrived[side] < end:
        buffers.arrived[side] += 1
    return side


def stored(buffers: Buffers, side: int) -> Any:
    """Number of steps in a buffer."""
    return min(buffers.arrived[side], buffers.capacity)


def draw(buffers: Buffers, side: int, rng: Words, batch: Batch, stamp: int) -> None:
    """Fill ``batch`` with step indices of one buffer, drawn uniformly. With a ``stamp``, each is drawn at most once."""
    n = stored(buffers, side)
    begin = np.uint64(buffers.begin[side] + buffers.arrived[side] - n)
    members = buffers.members
    if stamp == 0:
        for i in range(batch.shape[0]):
            batch[i] = members[begin + next_below(rng, n)]
        return
    # Floyd's algorithm: a subset in as many draws as it has elements.
    m = batch.shape[0]
    for i in range(m):
        last = n - m + i
        place = begin + next_below(rng, last + 1)
        if buffers.stamps[place] == stamp:
            place = begin + np.uint64(last)
        buffers.stamps[place] = stamp
        batch[i] = members[place]


# Which buffer a step goes to

Seed = tuple[int, int]
"""The seed of a run: (seed, run)."""
Sides = NDArray[np.uint8]
AT_ONCE = 2**20
"""Number of steps that are assigned to buffers at a time."""


def odd_or_even(unit: Integers, seed: Seed) -> Sides:
    """Odd episodes, starting with the first, go to buffer 1."""
    return (1 - unit % 2).astype(np.uint8)


_COINS = 4096


def by_coin(unit: Integers, seed: Seed) -> Sides:
    """The coin of every episode, drawn in blocks, so that late episodes do not need all earlier coins."""
    block = unit // _COINS
    side = np.empty(len(unit), np.uint8)
    for k in np.unique(block):
        side[block == k] = _coin_block(seed, int(k))[unit[block == k] % _COINS]
    return side


@lru_cache(maxsize=16)
def _coin_block(seed: Seed, k: int) -> Sides:
    generator = np.random.PCG64(random.seeded(*seed, random.SPLIT)[0])
    generator.advance(k * _COINS // 8)  # one 64-bit number makes eight coins
    return np.random.Generator(generator).integers(0, 2, _COINS, dtype=np.uint8)


def all_in_one(unit: Integers, seed: Seed) -> Sides:
    """One buffer holds every step."""
    return np.zeros(len(unit), np.uint8)


def stamp_of(plan: Plan, now: Now) -> int:
    """The mark of the steps drawn for one batch: 0 with replacement, otherwise a new number."""
    return 0 if plan.replacement else now.seen


def both_filled(buffers: Buffers, rng: Words, plan: Plan, now: Now) -> bool:
    """Whether each buffer has enough steps for learning."""
    return stored(buffers, 0) > plan.fill_1 and stored(buffers, 1) > plan.fill_2


def draw_from_both(buffers: Buffers, rng: Words, plan: Plan, now: Now) -> bool:
    """A batch from each of two buffers."""
    if not both_filled(buffers, rng, plan, now):
        return False
    draw(buffers, 0, rng, now.first, stamp_of(plan, now))
    draw(buffers, 1, rng, now.second, stamp_of(plan, now))
    return True


def draw_carelessly(buffers: Buffers, rng: Words, plan: Plan, now: Now) -> bool:
    """Draw both batches from all steps of one buffer."""
    if stored(buffers, 0) <= max(plan.fill_1, plan.fill_2):
        return False
    draw(buffers, 0, rng, now.first, stamp_of(plan, now))
    draw(buffers, 0, rng, now.second, -stamp_of(plan, now))
    return True


def draw_dealt(buffers: Buffers, rng: Words, plan: Plan, now: Now) -> bool:
    """Draw both batches from one buffer. Its episodes are assigned to the batches at random."""
    if stored(buffers, 0) <= plan.fill_1 + plan.fill_2 or not several_episodes(buffers):
        return False
    return deal(buffers, rng, now.first, now.second, stamp_of(plan, now))


def several_episodes(buffers: Buffers) -> bool:
    """Whether the one buffer holds more than one episode."""
    n = stored(buffers, 0)
    if n == 0:
        return False
    last = buffers.arrived[0] - 1
    return buffers.unit[last] != buffers.unit[last + 1 - n]


def deal(buffers: Buffers, rng: Words, first: Batch, second: Batch, stamp: int) -> bool:
    """Assign the episodes of one buffer to two batches with new coins, and draw both uniformly.

    Returns False if no assignment fills both, as with very few episodes.
    """
    n = stored(buffers, 0)
    begin = np.uint64(buffers.arrived[0] - n)
    for _ in range(32):
        # A hash of one random word and the episode gives its coin, so no list of coins is needed.
        coins = next_word(rng)
        if _draw_with_coin(buffers, begin, n, rng, coins, 0, first, stamp) and _draw_with_coin(
            buffers, begin, n, rng, coins, 1, second, stamp
        ):
            return True
        if stamp > 0:
            for i in range(n):
                buffers.stamps[begin + np.uint64(i)] = 0
    return False


def _draw_with_coin(
    buffers: Buffers, begin: Any, n: int, rng: Words, coins: Any, wanted: int, batch: Batch, stamp: int
) -> bool:
    """Draw from the episodes whose coin is ``wanted``. Returns False if there seem to be too few."""
    tries = 0
    i = 0
    while i < batch.shape[0]:
        tries += 1
        if tries > 64 + 64 * batch.shape[0]:
            return False
        place = begin + next_below(rng, n)
        coin = mixed(coins + np.uint64(buffers.unit[place])) & np.uint64(1)
        if coin != np.uint64(wanted) or (stamp > 0 and buffers.stamps[place] == stamp):
            continue
        if stamp > 0:
            buffers.stamps[place] = stamp
        batch[i] = buffers.members[place]
        i += 1
    return True


@dataclass(frozen=True)
class Split:
    """A rule for assigning steps to buffers and for drawing two batches from them.

    ``sides(unit, seed)`` gives the buffer of each step, 0 or 1, from the number of the independent piece it belongs
    to. ``apart``: there are two buffers. ``dealt``: the episodes of one buffer are assigned to the two batches.
    ``stores`` is False for a rule that never reads earlier steps.
    """

    name: str
    sides: Callable[[Integers, Seed], Sides]
    draw_two: Plain
    apart: bool = False
    dealt: bool = False
    stores: bool = True

    def needed(self, fill: tuple[int, int]) -> int:
        """Learning starts when each buffer holds more steps than this."""
        return sum(fill) if self.dealt else max(fill)

    def buffers(
        self,
        stream: Stream,
        seed: Seed,
        *,
        block: int | None = None,
        unit: Integers | None = None,
        capacity: int | None = None,
        replacement: bool = True,
        fill: tuple[int, int] = (0, 0),
        filled: bool = False,
    ) -> Buffers:
        """Assign the steps of a stream to buffers. ``block`` is the number of steps that count as an episode.

        ``unit`` numbers the pieces that must stay together if they are not the episodes, such as copies of one episode.
        Refuses a stream on which learning could never start, because the buffers will not hold more than ``fill``
        steps. ``filled``: all steps are there from the beginning.
        """
        if not self.stores:
            return no_buffers(len(stream))
        n = len(stream)
        # For a stream mapped from disk these arrays are on disk, too: they have the same length.
        side, kept = stream.room(n, np.uint8), stream.room(n if self.dealt else 0, np.int64)
        first, several, n_first = None, False, 0
        for part in _pieces(n):
            here = units(stream, block, part) if unit is None else unit[part]
            first = here[0] if first is None else first
            several = several or bool((here != first).any())
            side[part] = self.sides(here, seed)
            n_first += int((side[part] == 0).sum())
            if self.dealt:
                kept[part] = here
        if (self.apart or self.dealt) and not several:
            raise InputError(_single_episode(stream, block))
        self._refuse_too_few(stream, (n_first, n - n_first), fill)
        made = Buffers(
            side=side,
            members=_members(stream, side, n_first),
            begin=np.array([0, n_first], np.int64),
            arrived=np.zeros(2, np.int64),
            capacity=n if capacity is None else capacity,
            unit=kept,
            stamps=stream.room(0 if replacement else n, np.int64),
        )
        if filled:
            fill_up(made)
        return made

    def filled_after(self, buffers: Buffers, fill: tuple[int, int]) -> int:
        """The number of steps after which the next step makes it possible to draw two batches.

        ``episode-index`` also needs a second episode, so it may take longer.
        """
        if self.apart:
            return int(max(buffers.members[fill[0]], buffers.members[buffers.begin[1] + fill[1]]))
        return self.needed(fill)

    def _refuse_too_few(self, stream: Stream, held: tuple[int, int], fill: tuple[int, int]) -> None:
        if not self.apart:
            if len(stream) <= self.needed(fill):
                raise NeverLearnsError(f"{stream.name} has {len(stream)} steps, too few for a batch of {max(fill)}.")
            return
        for i in (0, 1):
            if held[i] <= fill[i]:
                raise NeverLearnsError(
                    f"buffer {i + 1} gets only {held[i]} of the {len(stream)} steps of {stream.name} and must hold "
                    f"more than {fill[i]} before learning starts: take more steps, a smaller batch, or another split."
                )


def _pieces(n: int) -> Iterator[slice]:
    """Blocks of steps, since all of them may not fit into memory."""
    for begin in range(0, n, AT_ONCE):
        yield slice(begin, min(begin + AT_ONCE, n))


def _members(stream: Stream, side: Sides, n_first: int) -> NDArray[np.uint32]:
    """The steps of the first buffer, then those of the second, in their order."""
    members, end = stream.room(len(side), np.uint32), [0, n_first]
    for part in _pieces(len(side)):
        for k in (0, 1):
            found = np.flatnonzero(side[part] == k)
            members[end[k] : end[k] + len(found)] = found + part.start
            end[k] += len(found)
    return members


def units(stream: Stream, block: int | None, part: slice | None = None) -> Integers:
    """The number of the piece that each step (or each of a part) belongs to: its episode, or its block of steps."""
    part = slice(0, len(stream)) if part is None else part
    if block is None:
        return np.ascontiguousarray(stream.view.steps["episode"][part])
    return np.arange(part.start, part.stop, dtype=np.int64) // block


def _single_episode(stream: Stream, block: int | None) -> str:
    what = "a single episode" if block is None else f"no more than one block of {block} steps"
    return (
        f"{stream.name} has {what} ({len(stream)} steps), so one of the two buffers would stay empty: "
        "give block=T0 to count every T0 steps as an episode, with T0 below half the number of steps."
    )


ONE_BUFFER = Split("none", all_in_one, draw_carelessly)
SPLITS = {
    split.name: split
    for split in (
        Split("odd-even", odd_or_even, draw_from_both, apart=True),
        Split("coin", by_coin, draw_from_both, apart=True),
        Split("episode-index", all_in_one, draw_dealt, dealt=True),
        ONE_BUFFER,
    )
}
NO_BUFFER = Split("latest", all_in_one, draw_carelessly, stores=False)
"""The split of rules that use only the latest steps."""
