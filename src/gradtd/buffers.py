"""Independence sampling: which buffer a step belongs to, and drawing batches of step indices.

The stream is known, so the buffers are, too: ``members`` lists the step indices of buffer 1 and
then those of buffer 2, in the order they arrive. Inserting a step moves a counter, and a bounded
buffer is a window that ends at the counter (oldest leaves first). Nothing is ever copied.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradtd import splitmix
from gradtd.checks import InputError, NeverLearnsError
from gradtd.splitmix import mixed, next_below, next_word
from gradtd.types import Batch, Index, Integers, Now, Plain, Plan, Stream, Words

SPLITS = ("odd-even", "coin", "episode-index", "none")
"""How the two batches are kept independent:

* ``odd-even``: odd episodes fill buffer 1, even ones buffer 2 (Algorithm 1);
* ``coin``: a fair coin per episode chooses the buffer;
* ``episode-index``: one buffer; at every step the episodes in it are dealt anew to the two
  batches, so no pair of them shares an episode (eq. buffer1, buffer2);
* ``none``: one buffer, both batches from all of it. Biased; kept to show the bias.
"""


class Buffers(NamedTuple):
    """The two buffers of a run, as windows over ``members``."""

    side: NDArray[np.uint8]
    members: NDArray[np.uint32]
    begin: Integers
    arrived: Integers
    capacity: int
    unit: Integers
    stamps: Integers


def make_buffers(
    stream: Stream,
    split: str,
    seed: tuple[int, int],
    *,
    block: int | None = None,
    capacity: int | None = None,
    replacement: bool = True,
    fill: tuple[int, int] = (0, 0),
    unit: Integers | None = None,
) -> Buffers:
    """Deal the steps of a stream to buffers; ``block`` makes that many steps count as an episode.

    ``unit`` numbers the pieces that must stay together, where they are not the episodes: copies of one episode do.

    ``seed`` is that of the run, (seed, run). Refuses a stream on which learning could never start, because
    the buffers will not hold more than ``fill`` steps.
    """
    if split == "latest":
        nothing = np.zeros(0, np.int64)
        return Buffers(
            nothing.astype(np.uint8), nothing.astype(np.uint32), nothing, nothing, len(stream), nothing, nothing
        )
    unit = units(stream, block) if unit is None else unit
    if split != "none" and (unit == unit[0]).all():
        raise InputError(_single_episode(stream, block))
    side = assign(unit, split, seed)
    n_first = int((side == 0).sum())
    if split in ("odd-even", "coin"):
        _refuse_too_few(stream, (n_first, len(stream) - n_first), fill)
    elif len(stream) <= (sum(fill) if split == "episode-index" else max(fill)):
        raise NeverLearnsError(f"{stream.name} has {len(stream)} steps, too few for a batch of {max(fill)}.")
    return Buffers(
        side=side,
        members=np.argsort(side, kind="stable").astype(np.uint32),
        begin=np.array([0, n_first], np.int64),
        arrived=np.zeros(2, np.int64),
        capacity=len(stream) if capacity is None else capacity,
        unit=unit if split == "episode-index" else unit[:0],
        stamps=np.zeros(0 if replacement else len(stream), np.int64),
    )


def _single_episode(stream: Stream, block: int | None) -> str:
    what = "a single episode" if block is None else f"no more than one block of {block} steps"
    return (
        f"{stream.name} has {what} ({len(stream)} steps), so one of the two buffers would stay empty: "
        "give block=T0 to count every T0 steps as an episode, with T0 below half the number of steps."
    )


def _refuse_too_few(stream: Stream, held: tuple[int, int], fill: tuple[int, int]) -> None:
    for i in (0, 1):
        if held[i] <= fill[i]:
            raise NeverLearnsError(
                f"buffer {i + 1} gets only {held[i]} of the {len(stream)} steps of {stream.name} and must hold more "
                f"than {fill[i]} before learning starts: take more steps, a smaller batch, or another split."
            )


def units(stream: Stream, block: int | None) -> Integers:
    """The number of the independent piece each step belongs to: its episode, or its block of steps."""
    if block is None:
        return np.ascontiguousarray(stream.steps["episode"])
    return np.arange(len(stream), dtype=np.int64) // block


def assign(unit: Integers, split: str, seed: tuple[int, int]) -> NDArray[np.uint8]:
    """The buffer of each step: 0 for buffer 1, 1 for buffer 2; all 0 where there is one buffer.

    ``seed`` is that of the run, (seed, run); only the coins need it.
    """
    if split == "odd-even":
        return (1 - unit % 2).astype(np.uint8)
    if split == "coin":
        word = splitmix.seeded(*seed, splitmix.SPLIT)[0]
        coins = np.random.default_rng(word).integers(0, 2, int(unit.max()) + 1, dtype=np.uint8)
        return np.ascontiguousarray(coins[unit])
    return np.zeros(len(unit), np.uint8)


_COINS = 4096


def coins(unit: Integers, seed: tuple[int, int]) -> NDArray[np.uint8]:
    """The coins that `assign` tosses for a few episodes, without those of all the episodes before."""
    block = unit // _COINS
    side = np.empty(len(unit), np.uint8)
    for k in np.unique(block):
        side[block == k] = _coin_block(seed, int(k))[unit[block == k] % _COINS]
    return side


@lru_cache(maxsize=16)
def _coin_block(seed: tuple[int, int], k: int) -> NDArray[np.uint8]:
    generator = np.random.PCG64(splitmix.seeded(*seed, splitmix.SPLIT)[0])
    generator.advance(k * _COINS // 8)  # one 64-bit number makes eight coins
    return np.random.Generator(generator).integers(0, 2, _COINS, dtype=np.uint8)


def filled_after(buffers: Buffers, plan: Plan, split: str) -> int:
    """After how many steps two batches can not yet be drawn, but with the next one they can.

    With ``episode-index`` a second episode is needed besides, so it may take longer.
    """
    if split in ("odd-even", "coin"):
        return int(max(buffers.members[plan.fill_1], buffers.members[buffers.begin[1] + plan.fill_2]))
    return plan.fill_1 + plan.fill_2 if split == "episode-index" else max(plan.fill_1, plan.fill_2)


def insert(buffers: Buffers, t: Index) -> Any:
    """Step t arrives in its buffer; returns which. In a second pass over the stream all have arrived already."""
    side = np.int64(buffers.side[t])
    end = buffers.begin[1] if side == 0 else buffers.members.shape[0]
    if buffers.begin[side] + buffers.arrived[side] < end:
        buffers.arrived[side] += 1
    return side


def _no_insertion(buffers: Buffers, t: Index) -> Any:
    return np.int64(0)


def stored(buffers: Buffers, side: int) -> Any:
    """How many steps a buffer holds."""
    return min(buffers.arrived[side], buffers.capacity)


def draw(buffers: Buffers, side: int, rng: Words, batch: Batch, stamp: int) -> None:
    """Fill ``batch`` with step indices of one buffer, uniformly; a ``stamp`` draws each at most once."""
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


def draw_dealt(buffers: Buffers, rng: Words, first: Batch, second: Batch, stamp: int) -> bool:
    """Deal the episodes of one buffer to two batches with fresh coins, and draw both uniformly.

    False where no deal was found that fills both, as with very few episodes.
    """
    n = stored(buffers, 0)
    begin = np.uint64(buffers.arrived[0] - n)
    for _ in range(32):
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
    """Draw from the episodes whose coin shows ``wanted``; False where there seem to be too few of them."""
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


def several_episodes(buffers: Buffers) -> bool:
    """Whether the one buffer holds more than one episode."""
    n = stored(buffers, 0)
    if n == 0:
        return False
    last = buffers.arrived[0] - 1
    return buffers.unit[last] != buffers.unit[last + 1 - n]


def _stamp(plan: Plan, now: Now) -> int:
    """What marks the steps drawn for one batch: 0 with replacement, else a number not used before."""
    return 0 if plan.replacement else now.seen


def _latest_only(buffers: Buffers, rng: Words, plan: Plan, now: Now) -> bool:
    return True


def _new_batch(buffers: Buffers, rng: Words, plan: Plan, now: Now) -> bool:
    m = now.first.shape[0]
    if now.seen % m != 0:
        return False
    for i in range(m):
        latest = np.int64(now.t) - (m - 1 - i)
        now.first[i] = latest if latest >= 0 else latest + buffers.capacity
    return True


def _one_batch(buffers: Buffers, rng: Words, plan: Plan, now: Now) -> bool:
    if stored(buffers, 0) <= plan.fill_1:
        return False
    draw(buffers, 0, rng, now.first, _stamp(plan, now))
    return True


def _other_batch(buffers: Buffers, rng: Words, plan: Plan, now: Now) -> bool:
    if not _two_buffers(buffers, rng, plan, now):
        return False
    draw(buffers, 1 - now.side, rng, now.first, _stamp(plan, now))
    return True


def _two_buffers(buffers: Buffers, rng: Words, plan: Plan, now: Now) -> bool:
    return stored(buffers, 0) > plan.fill_1 and stored(buffers, 1) > plan.fill_2


def _two_batches(buffers: Buffers, rng: Words, plan: Plan, now: Now) -> bool:
    if not _two_buffers(buffers, rng, plan, now):
        return False
    draw(buffers, 0, rng, now.first, _stamp(plan, now))
    draw(buffers, 1, rng, now.second, _stamp(plan, now))
    return True


def _two_dealt_batches(buffers: Buffers, rng: Words, plan: Plan, now: Now) -> bool:
    if stored(buffers, 0) <= plan.fill_1 + plan.fill_2 or not several_episodes(buffers):
        return False
    return draw_dealt(buffers, rng, now.first, now.second, _stamp(plan, now))


def _two_careless_batches(buffers: Buffers, rng: Words, plan: Plan, now: Now) -> bool:
    if stored(buffers, 0) <= max(plan.fill_1, plan.fill_2):
        return False
    draw(buffers, 0, rng, now.first, _stamp(plan, now))
    draw(buffers, 0, rng, now.second, -_stamp(plan, now))
    return True


def drawing(draws: str, split: str) -> tuple[Plain, Plain]:
    """The functions that insert a step and draw what a rule needs; the latter is False before learning starts."""
    if draws in ("nothing", "new batch"):
        return _no_insertion, _latest_only if draws == "nothing" else _new_batch
    if draws == "two batches":
        special = {"episode-index": _two_dealt_batches, "none": _two_careless_batches}
        return insert, special.get(split, _two_batches)
    if draws != "one batch" and split not in ("odd-even", "coin"):
        raise InputError(f"this algorithm needs two buffers: split must be odd-even or coin, got {split!r}.")
    return insert, {"one batch": _one_batch, "other batch": _other_batch, "two buffers": _two_buffers}[draws]
