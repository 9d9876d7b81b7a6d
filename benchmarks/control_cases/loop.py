"""The loop of `gradtd.deep.control.train`, compiled and mapped over seeds; no step is forgotten.

All random numbers are drawn before the loop, and a step is one row of one array: both save more time than all agents
need for their updates.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from control_cases.worlds import World
from gradtd.deep import Batch
from gradtd.deep.control import Agent, Exploration


class Protocol(NamedTuple):
    """What is the same for all agents of a world."""

    steps: int = 50_000
    every: int = 5
    batch: int = 32
    gamma: float = 0.99
    exploration: Exploration = Exploration()


class _Acting(NamedTuple):
    """What the next step of the environment needs."""

    state: Any
    in_episode: Any
    episode: Any
    total: Any
    last_return: Any
    held: Any
    random_action: Any


class _Random(NamedTuple):
    """Numbers between 0 and 1 that one step needs."""

    coin: Any
    length: Any
    action: Any
    start: Any


def learning_curve(world: World, agent: Agent, asked: Protocol, key: Any) -> Any:
    """The return of the last episode that ended, after every update; NaN where the network is not finite."""
    rounds, every, m = asked.steps // asked.every, asked.every, asked.batch
    keys = jax.random.split(key, 7)
    steps = (rounds, every)
    random = _Random(
        jax.random.uniform(keys[0], steps),
        jax.random.uniform(keys[1], steps),
        jax.random.uniform(keys[2], steps),
        jax.random.uniform(keys[3], (*steps, world.n_random)),
    )
    swaps, draws = jax.random.bernoulli(keys[4], 0.5, (rounds,)), jax.random.uniform(keys[6], (rounds, 2, m))
    start, first_state = jax.random.split(keys[5])
    zero = jnp.zeros((), jnp.int32)
    begin = world.reset(jax.random.uniform(first_state, (world.n_random,)))
    acting = _Acting(begin, zero, zero, jnp.zeros(()), jnp.full((), world.worst), zero, zero)
    width = 2 * (world.n_inputs + world.n_actions) + 2
    rows = jnp.zeros((rounds * every, width))
    members, counts = jnp.zeros((2, rounds * every), jnp.int32), jnp.zeros(2, jnp.int32)

    def round_of(carried: Any, given: Any) -> tuple[Any, Any]:
        network, acting, rows, members, counts = carried
        number, random, swap, draw = given
        at = number * every + jnp.arange(every)
        acting, (made, sides) = jax.lax.scan(partial(_act, world, agent, asked, network), acting, (at, random))
        rows = jax.lax.dynamic_update_slice(rows, made, (number * every, 0))
        for k in range(every):
            members = members.at[sides[k], counts[sides[k]]].set(at[k])
            counts = counts.at[sides[k]].add(1)
        order = jnp.where(swap, jnp.array([1, 0]), jnp.array([0, 1]))
        places = (draw * counts[order, None]).astype(jnp.int32)
        first, second = (_as_batch(world, rows[members[order[k], places[k]]]) for k in range(2))
        updated = agent.update(network, first, second)
        ready = jnp.min(counts) > 0
        network = jax.tree.map(lambda new, old: jnp.where(ready, new, old), updated, network)
        finite = jnp.isfinite(network.params["net"]["head"]).all()
        return (network, acting, rows, members, counts), jnp.where(finite, acting.last_return, jnp.nan)

    network = jax.tree.map(jnp.asarray, agent.init(start))
    given = (jnp.arange(rounds), random, swaps, draws)
    return jax.lax.scan(round_of, (network, acting, rows, members, counts), given)[1]


def _act(
    world: World, agent: Agent, asked: Protocol, network: Any, now: _Acting, given: Any
) -> tuple[_Acting, tuple[Any, Any]]:
    """One step of the environment: its row, and whether its episode is odd."""
    step, random = given
    explore = asked.exploration
    chance = explore.first + (explore.last - explore.first) * jnp.minimum(step / explore.until, 1.0)
    begins = (now.held == 0) & (random.coin < chance)
    length = jnp.minimum(explore.longest, 1 / jnp.maximum(random.length, 1e-9)).astype(jnp.int32)
    held = jnp.where(begins, length, now.held)
    random_action = jnp.where(begins, (random.action * world.n_actions).astype(jnp.int32), now.random_action)
    x = world.observe(now.state)
    greedy = jnp.argmax(agent.values(network, x[None])[0]).astype(jnp.int32)
    action = jnp.where(held > 0, random_action, greedy)
    after, reward, terminated = world.step(now.state, action)
    over = terminated | (now.in_episode + 1 == world.limit)
    total = now.total + reward
    discount = jnp.where(terminated, 0.0, asked.gamma)
    taken, unknown = jax.nn.one_hot(action, world.n_actions), jnp.zeros(world.n_actions)
    row = jnp.concatenate([x, taken, world.observe(after), unknown, jnp.stack([reward, discount])])
    then = _Acting(
        jnp.where(over, world.reset(random.start), after),
        jnp.where(over, 0, now.in_episode + 1),
        now.episode + over,
        jnp.where(over, 0.0, total),
        jnp.where(over, total, now.last_return),
        jnp.where(over, 0, jnp.maximum(held - 1, 0)),
        random_action,
    )
    return then, (row, now.episode % 2)


def _as_batch(world: World, rows: Any) -> Batch:
    n = world.n_inputs + world.n_actions
    return Batch(rows[:, :n], rows[:, -2], rows[:, n : 2 * n], rows[:, -1], jnp.ones(len(rows)))


def curves(world: World, agent: Callable[[Any], Agent], asked: Protocol) -> Any:
    """A compiled function of (step_size, seeds) that returns (seeds, updates) numbers."""

    def every(step_size: Any, seeds: Any) -> Any:
        return jax.vmap(lambda seed: learning_curve(world, agent(step_size), asked, jax.random.key(seed)))(seeds)

    return jax.jit(every)
