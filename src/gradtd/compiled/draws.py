"""Which batches a rule receives: the six words of ``Algorithm.draws``, as objects with their hyper-parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from gradtd.compiled.buffers import (
    NO_BUFFER,
    ONE_BUFFER,
    SPLITS,
    Buffers,
    Split,
    both_filled,
    draw,
    insert,
    stamp_of,
    stored,
)
from gradtd.compiled.plan import Plan
from gradtd.core import checks
from gradtd.core.algorithm import Now, Parameter
from gradtd.core.arrays import Index, Plain, Words
from gradtd.core.checks import InputError, choice, optional, whole


class Drawing(NamedTuple):
    """The functions that the loop calls at each step. ``draw`` returns False before learning starts."""

    insert: Plain
    draw: Plain


def _no_insertion(buffers: Buffers, t: Index) -> Any:
    return np.int64(0)


def _latest_only(buffers: Buffers, rng: Words, plan: Plan, now: Now) -> bool:
    return True


def _new_batch(buffers: Buffers, rng: Words, plan: Plan, now: Now) -> bool:
    m = now.first.shape[0]
    if now.seen % m != 0:
        return False
    for i in range(m):
        # The latest m steps end at this one; those before the first of a second pass are at the end of the stream.
        latest = np.int64(now.t) - (m - 1 - i)
        now.first[i] = latest if latest >= 0 else latest + buffers.capacity
    return True


def _one_batch(buffers: Buffers, rng: Words, plan: Plan, now: Now) -> bool:
    if stored(buffers, 0) <= plan.fill_1:
        return False
    draw(buffers, 0, rng, now.first, stamp_of(plan, now))
    return True


def _other_batch(buffers: Buffers, rng: Words, plan: Plan, now: Now) -> bool:
    if not both_filled(buffers, rng, plan, now):
        return False
    draw(buffers, 1 - now.side, rng, now.first, stamp_of(plan, now))
    return True


@dataclass(frozen=True)
class Draws:
    """Which batches a rule receives, and the hyper-parameters for them.

    ``draw`` fills the batches, or None if the split does that. ``split`` is the only split allowed, or None if the user
    chooses one. With ``apart`` the split must have two buffers. ``batches``: the rule draws stored steps.
    """

    name: str
    draw: Plain | None
    split: Split | None = None
    apart: bool = False
    batches: bool = False
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    def split_of(self, hyper: Mapping[str, Any]) -> Split:
        """The split for these hyper-parameters."""
        return self.split or SPLITS[hyper["split"]]

    def drawing(self, split: Split) -> Drawing:
        """How a step is inserted and batches are drawn."""
        if self.apart and not split.apart:
            raise InputError(f"this algorithm needs two buffers: split must be odd-even or coin, got {split.name!r}.")
        return Drawing(insert if split.stores else _no_insertion, self.draw or split.draw_two)

    def fill(self, hyper: Mapping[str, Any], sizes: tuple[int, int]) -> tuple[int, int]:
        """The number of steps that buffers must exceed before learning starts: a batch, unless another number is
        given."""
        given = hyper.get("fill")
        if given is not None:
            return given, given
        return sizes if self.batches else (0, 0)

    def keeps(self, size: int, fill: tuple[int, int], capacity: int | None) -> int | None:
        """The number of latest steps that a buffer must keep. None if it keeps all."""
        if self.split is NO_BUFFER:
            return max(1, size)  # at least one, because a rule takes the step at position 0 for the first of all
        if not self.batches:
            return max(fill) + 1  # such a rule draws nothing and only waits for enough steps
        return capacity


LARGEST_BATCH = 2**26
"""Memory for a batch is allocated before the first step, so its size is limited."""


def _size(name: str, value: Any) -> int:
    size = checks.whole_number(name, value, 1)
    if size > LARGEST_BATCH:
        raise InputError(f"{name} must be at most {LARGEST_BATCH}, got {size}.")
    return size


SIZE = {"batch_size": Parameter(32, "steps in a batch", _size)}
ONE_BATCH = SIZE | {
    "capacity": Parameter(None, "most steps a buffer holds; the oldest leaves first", optional(whole(1))),
    "replacement": Parameter(True, "draw with replacement", checks.yes_or_no),
}
FILL = {"fill": Parameter(None, "learning starts when buffers hold more than this", optional(whole(0)))}
TWO_SIZES = {
    "m1": Parameter(None, "size of batch 1, for the gradient (else batch_size)", optional(_size)),
    "m2": Parameter(None, "size of batch 2, for the TD error (else batch_size)", optional(_size)),
}
TWO_BUFFERS = {
    "split": Parameter("odd-even", "how the two buffers are kept independent", choice(*SPLITS)),
    "block": Parameter(None, "steps that count as one episode, where the problem has none", optional(whole(1))),
}

DRAWS = {
    draws.name: draws
    for draws in (
        Draws("nothing", _latest_only, NO_BUFFER),
        Draws("new batch", _new_batch, NO_BUFFER, parameters=SIZE),
        Draws("one batch", _one_batch, ONE_BUFFER, batches=True, parameters=ONE_BATCH | FILL),
        Draws("other batch", _other_batch, apart=True, batches=True, parameters=ONE_BATCH | FILL | TWO_BUFFERS),
        Draws("two buffers", both_filled, apart=True, parameters=FILL | TWO_BUFFERS),
        Draws("two batches", None, batches=True, parameters=ONE_BATCH | FILL | TWO_SIZES | TWO_BUFFERS),
    )
}
