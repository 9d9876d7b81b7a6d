"""Training from stored steps: every update draws two batches from different episodes, in one compiled loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gradtd.deep.impression import Apply, Batch, impression_loss


class Sides(NamedTuple):
    """The steps from which batch 1 and batch 2 are drawn."""

    first: Any
    second: Any


def odd_and_even(episode: Any) -> Sides:
    """Steps of odd and of even episodes."""
    odd = np.asarray(episode) % 2 == 1
    return Sides(jnp.asarray(np.flatnonzero(odd)), jnp.asarray(np.flatnonzero(~odd)))


def take(steps: Batch, index: Any) -> Batch:
    """The steps at ``index``."""
    return Batch(*(column[index] for column in steps))


Loss = Callable[[Apply, Any, Batch, Batch], Any]
"""A loss on two batches, from `gradtd.deep.impression` or `gradtd.deep.baselines`."""


@partial(jax.jit, static_argnames=("apply", "loss", "optimiser", "updates", "sizes", "watch"))
def train(
    params: Any,
    key: Any,
    steps: Batch,
    sides: Sides,
    *,
    apply: Apply,
    optimiser: optax.GradientTransformation,
    updates: int,
    loss: Loss = impression_loss,
    sizes: tuple[int, int] = (32, 32),
    watch: Callable[[Any], Any] | None = None,
) -> tuple[Any, Any]:
    """Train; returns the parameters after ``updates`` updates, and the output of ``watch`` at a hundred points.

    The batches swap roles in half of the updates, so that every step is used in both.
    """

    def update(carried: Any, key: Any) -> tuple[Any, None]:
        p, state = carried
        one, two, coin = jax.random.split(key, 3)
        swap = jax.random.bernoulli(coin)
        drawn = [_draw(k, side, m) for k, side, m in zip((one, two), sides, sizes, strict=True)]
        other = [_draw(k, side, m) for k, side, m in zip((one, two), sides[::-1], sizes, strict=True)]
        first, second = (jnp.where(swap, b, a) for a, b in zip(drawn, other, strict=True))
        slope = jax.grad(lambda p: loss(apply, p, take(steps, first), take(steps, second)))(p)
        change, state = optimiser.update(slope, state, p)
        return (optax.apply_updates(p, change), state), None

    def stretch(carried: Any, keys: Any) -> tuple[Any, Any]:
        carried, _ = jax.lax.scan(update, carried, keys)
        return carried, None if watch is None else watch(carried[0])

    times = min(100, updates)
    keys = jax.random.split(key, (times, updates // times))
    (params, _), seen = jax.lax.scan(stretch, (params, optimiser.init(params)), keys)
    return params, seen


def _draw(key: Any, side: Any, m: int) -> Any:
    return side[jax.random.randint(key, (m,), 0, side.shape[0])]


def with_options(options: Mapping[str, Any]) -> Loss:
    """`impression_loss` with these options."""
    return partial(impression_loss, **options)
