"""CartPole, Acrobot, MountainCar and Breakout in JAX, with the dynamics, rewards and ends of Gymnasium and MinAtar.

`tests/benchmarks/test_control.py` compares them with the originals step by step. A state is an array, so that worlds
map over seeds. Time limits are the loop's.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import Any, NamedTuple

import jax.numpy as jnp

from control_cases import breakout


class World(NamedTuple):
    """``reset(uniform)`` -> state, from numbers in [0, 1); ``step(state, action)`` -> (state, reward, terminated)."""

    reset: Callable[[Any], Any]
    step: Callable[[Any, Any], tuple[Any, Any, Any]]
    observe: Callable[[Any], Any]
    n_random: int
    n_inputs: int
    n_actions: int
    limit: int
    worst: float
    best: float


def cartpole_step(state: Any, action: Any) -> tuple[Any, Any, Any]:
    """Barto, Sutton and Anderson (1983); Euler steps of .02 s."""
    _, speed, angle, turning = state
    total, half_length, pole = 1.1, 0.5, 0.1
    push = jnp.where(action == 1, 10.0, -10.0)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    moved = (push + pole * half_length * turning**2 * sin) / total
    bend = (9.8 * sin - cos * moved) / (half_length * (4.0 / 3.0 - pole * cos**2 / total))
    drift = moved - pole * half_length * bend * cos / total
    after = state + 0.02 * jnp.stack([speed, drift, turning, bend])
    fallen = (jnp.abs(after[0]) > 2.4) | (jnp.abs(after[2]) > 12 * 2 * pi / 360)
    return after, jnp.ones(()), fallen


def cartpole_reset(uniform: Any) -> Any:
    return 0.1 * uniform - 0.05


def mountain_car_step(state: Any, action: Any) -> tuple[Any, Any, Any]:
    """Moore (1990); at the left wall the car stops."""
    position, speed = state
    speed = jnp.clip(speed + (action - 1) * 0.001 - 0.0025 * jnp.cos(3 * position), -0.07, 0.07)
    position = jnp.clip(position + speed, -1.2, 0.6)
    speed = jnp.where((position <= -1.2) & (speed < 0), 0.0, speed)
    return jnp.stack([position, speed]), -jnp.ones(()), (position >= 0.5) & (speed >= 0)


def mountain_car_reset(uniform: Any) -> Any:
    return jnp.stack([0.2 * uniform[0] - 0.6, 0.0])


def acrobot_step(state: Any, action: Any) -> tuple[Any, Any, Any]:
    """Sutton (1996) with the book's equations; one step of Runge and Kutta of .2 s."""
    torque, dt = action - 1.0, 0.2
    k1 = _swing(state, torque)
    k2 = _swing(state + dt / 2 * k1, torque)
    k3 = _swing(state + dt / 2 * k2, torque)
    k4 = _swing(state + dt * k3, torque)
    after = state + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    angles = after[:2] - 2 * pi * jnp.round(after[:2] / (2 * pi))
    fastest = jnp.array([4 * pi, 9 * pi])
    after = jnp.concatenate([angles, jnp.clip(after[2:], -fastest, fastest)])
    high = -jnp.cos(after[0]) - jnp.cos(after[0] + after[1]) > 1
    return after, jnp.where(high, 0.0, -1.0), high


def _swing(state: Any, torque: Any) -> Any:
    """Time derivatives of both angles and their speeds; links of length and mass 1."""
    one, two, speed_1, speed_2 = state
    g, centre = 9.8, 0.5
    d1 = centre**2 + (1 + centre**2 + 2 * centre * jnp.cos(two)) + 2
    d2 = centre**2 + centre * jnp.cos(two) + 1
    phi2 = centre * g * jnp.cos(one + two - pi / 2)
    pull = -centre * speed_2**2 * jnp.sin(two) - 2 * centre * speed_2 * speed_1 * jnp.sin(two)
    phi1 = pull + (centre + 1) * g * jnp.cos(one - pi / 2) + phi2
    bend_2 = (torque + d2 / d1 * phi1 - centre * speed_1**2 * jnp.sin(two) - phi2) / (centre**2 + 1 - d2**2 / d1)
    bend_1 = -(d2 * bend_2 + phi1) / d1
    return jnp.stack([speed_1, speed_2, bend_1, bend_2])


def acrobot_reset(uniform: Any) -> Any:
    return 0.2 * uniform - 0.1


def acrobot_observe(state: Any) -> Any:
    one, two = state[:2]
    return jnp.stack([jnp.cos(one), jnp.sin(one), jnp.cos(two), jnp.sin(two), state[2], state[3]])


def _as_it_is(state: Any) -> Any:
    return state


WORLDS = {
    "CartPole": World(cartpole_reset, cartpole_step, _as_it_is, 4, 4, 2, 500, 0.0, 500.0),
    "Acrobot": World(acrobot_reset, acrobot_step, acrobot_observe, 4, 6, 3, 500, -500.0, 0.0),
    "MountainCar": World(mountain_car_reset, mountain_car_step, _as_it_is, 1, 2, 3, 1000, -1000.0, 0.0),
    "Breakout": World(breakout.reset, breakout.step, breakout.observe, 1, breakout.N_INPUTS, 3, 1000, 0.0, 10.0),
}
"""Time limits are Gymnasium's, but MountainCar's is 1000: within Gymnasium's 200 steps no agent here finds the goal.
MinAtar has no limit; Breakout's is 1000 steps, and its score is 1 for ten bricks an episode, a third of the wall."""
