"""Breakout on a grid of 10 x 10 in JAX, with the rules of MinAtar 1.0.15 (Young and Tian 2019), without sticky actions.

A state is (ball's column and row, its direction as steps to the right and down, paddle's column, whether the last step
broke a brick, the ball's place before, 30 bricks). `tests/benchmarks/test_control.py` compares it with MinAtar.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

SIDE, FIRST_ROW, ROWS = 10, 1, 3
N_BRICKS = ROWS * SIDE
N_INPUTS = 4 * SIDE * SIDE


def reset(uniform: Any) -> Any:
    """The ball begins at the left or the right wall, the paddle in the middle."""
    left = uniform[0] < 0.5
    x, right = jnp.where(left, 0.0, SIDE - 1.0), jnp.where(left, 1.0, -1.0)
    return jnp.concatenate([jnp.stack([x, 3.0, right, 1.0, 4.0, 0.0, x, 3.0]), jnp.ones(N_BRICKS)])


def step(state: Any, action: Any) -> tuple[Any, Any, Any]:
    """Actions: stay, left, right."""
    x, y, right, down, paddle, struck, _, _ = state[:8]
    bricks = state[8:]
    paddle = jnp.clip(paddle + jnp.where(action == 1, -1.0, jnp.where(action == 2, 1.0, 0.0)), 0.0, SIDE - 1.0)
    new_x, new_y = x + right, y + down
    wall = (new_x < 0) | (new_x > SIDE - 1)
    new_x, right = jnp.clip(new_x, 0.0, SIDE - 1.0), jnp.where(wall, -right, right)

    ceiling = new_y < 0
    place = ((new_y - FIRST_ROW) * SIDE + new_x).astype(int)
    among = (new_y >= FIRST_ROW) & (new_y < FIRST_ROW + ROWS)
    on_brick = ~ceiling & among & (bricks[jnp.clip(place, 0, N_BRICKS - 1)] == 1)
    breaks = on_brick & (struck == 0)
    bottom = ~ceiling & ~on_brick & (new_y == SIDE - 1)

    bricks = jnp.where(breaks & (jnp.arange(N_BRICKS) == place), 0.0, bricks)
    bricks = jnp.where(bottom & (bricks.sum() == 0), 1.0, bricks)
    straight, corner = bottom & (x == paddle), bottom & (x != paddle) & (new_x == paddle)
    down = jnp.where(ceiling | breaks | straight | corner, -down, down)
    right = jnp.where(corner, -right, right)
    new_y = jnp.where(ceiling, 0.0, jnp.where(breaks | straight | corner, y, new_y))
    moved = jnp.stack([new_x, new_y, right, down, paddle, on_brick.astype(x.dtype), x, y])
    return jnp.concatenate([moved, bricks]), breaks.astype(x.dtype), bottom & ~straight & ~corner


def observe(state: Any) -> Any:
    """MinAtar's four images (paddle, ball, trail, bricks), one after the other."""
    x, y, paddle, last_x, last_y = (state[k].astype(int) for k in (0, 1, 4, 6, 7))
    images = jnp.zeros((4, SIDE, SIDE))
    images = images.at[0, SIDE - 1, paddle].set(1.0).at[1, y, x].set(1.0).at[2, last_y, last_x].set(1.0)
    bricks = state[8:].reshape(ROWS, SIDE)
    return images.at[3, FIRST_ROW : FIRST_ROW + ROWS].set(bricks).ravel()
