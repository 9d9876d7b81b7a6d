"""Logs of every kind, made by code with fixed seeds: finite worlds, real observations, real actions, bandits.

A log is a dictionary of columns. The same seed gives the same bytes, whichever tree reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Table = dict[str, Any]


@dataclass(frozen=True, eq=False)
class World:
    """A finite world: ``transition[s, a]`` has one column more than there are states, for the end of the episode."""

    transition: np.ndarray
    reward: np.ndarray
    behaviour: np.ndarray
    target: np.ndarray
    start: np.ndarray
    noise: float = 0.1
    horizon: int = 60
    clock: float = 0.0
    """What every step since the start adds to the reward, though no observation tells it."""


def play(world: World, episodes: int, seed: int) -> Table:
    """Episodes of the behaviour, all of them at once, in the order of episodes and time."""
    rng = np.random.default_rng(seed)
    states, actions = world.behaviour.shape
    odds = np.cumsum(world.behaviour, axis=1)
    moves = np.cumsum(world.transition.reshape(states * actions, states + 1), axis=1)
    alive, state = np.arange(episodes), rng.choice(states, episodes, p=world.start)
    rows: dict[str, list[np.ndarray]] = {
        name: [] for name in ("episode", "t", "obs", "action", "reward", "terminated", "truncated")
    }
    for t in range(world.horizon):
        action = np.minimum((rng.random((len(alive), 1)) > odds[state]).sum(axis=1), actions - 1)
        after = np.minimum((rng.random((len(alive), 1)) > moves[state * actions + action]).sum(axis=1), states)
        reward = world.reward[state, action] + world.noise * rng.standard_normal(len(alive)) + world.clock * t
        ended = after == states
        row = (alive, np.full(len(alive), t), state, action, reward, ended, ~ended & (t == world.horizon - 1))
        for name, values in zip(rows, row, strict=True):
            rows[name].append(values)
        alive, state = alive[~ended], after[~ended]
        if not len(alive):
            break
    table = {name: np.concatenate(values) for name, values in rows.items()}
    order = np.lexsort((table["t"], table["episode"]))
    table = {name: values[order] for name, values in table.items()}
    at = table["obs"], table["action"]
    return table | {"action_prob": world.behaviour[at], "target_prob": world.target[at]}


def walk(states: int = 9, target: float = 0.6, noise: float = 0.1, horizon: int = 200, clock: float = 0.0) -> World:
    """Left or right on a line with an end on both sides; the right one pays 1."""
    transition, reward = np.zeros((states, 2, states + 1)), np.zeros((states, 2))
    for s in range(states):
        transition[s, 0, s - 1 if s else states] = 1.0
        transition[s, 1, s + 1] = 1.0
    reward[-1, 1] = 1.0
    start = np.zeros(states)
    start[states // 2] = 1.0
    even, leaning = np.full((states, 2), 0.5), np.tile([1 - target, target], (states, 1))
    return World(transition, reward, even, leaning, start, noise, horizon, clock)


def ring(states: int = 800, horizon: int = 40, ends: float = 0.03, spread: int = 20) -> World:
    """Steps of one to three on a circle, rewards in waves; episodes start in the first states and end now and then."""
    transition, here = np.zeros((states, 3, states + 1)), np.arange(states)
    for action in range(3):
        for jump in (1, 2, 3):
            transition[here, action, (here + jump * (action - 1)) % states] += (1 - ends) / 3
    transition[:, :, states] = ends
    reward = np.cos(2 * np.pi * 8 * here / states)[:, None] + np.array([0.0, 0.1, 0.2])
    start = np.where(here < spread, 1 / spread, 0.0)
    behaviour, target = np.full((states, 3), 1 / 3), np.tile([0.2, 0.3, 0.5], (states, 1))
    return World(transition, reward, behaviour, target, start, 0.3, horizon)


def maze(states: int = 60, actions: int = 3, branches: int = 4, seed: int = 0, ends: float = 0.05) -> World:
    """Random moves to a few states each; two policies drawn apart from each other."""
    rng = np.random.default_rng([7, seed])
    transition = np.zeros((states, actions, states + 1))
    for s in range(states):
        for a in range(actions):
            transition[s, a, rng.choice(states, branches, replace=False)] = rng.dirichlet(np.ones(branches)) * (
                1 - ends
            )
    transition[:, :, states] = ends
    behaviour = rng.dirichlet(3 * np.ones(actions), states)
    target = 0.6 * behaviour + 0.4 * rng.dirichlet(np.ones(actions), states)
    reward = rng.normal(size=(states, actions))
    return World(transition, reward, behaviour, target, np.full(states, 1 / states), 0.2, 40)


def clinic(states: int = 300, actions: int = 8, seed: int = 0) -> World:
    """As in an intensive care unit: one reward at the end, rare actions, and a target that mixes in the best ones."""
    rng = np.random.default_rng([11, seed])
    transition = np.zeros((states, actions, states + 1))
    health = np.linspace(0, 1, states)
    for s in range(states):
        near = np.clip(s + rng.integers(-40, 41, 6), 0, states - 1)
        for a in range(actions):
            odds = rng.dirichlet(np.ones(len(near)))
            np.add.at(transition[s, a], near, odds * 0.88)
            transition[s, a, states] = 0.12
    reward = 0.12 * np.tile(health[:, None], (1, actions))
    taken = rng.dirichlet(0.5 * np.ones(actions), states)
    taken = np.where(taken < 0.02, 0.0, taken)
    taken /= taken.sum(axis=1, keepdims=True)
    better = np.where(taken > 0, rng.random((states, actions)), 0.0)
    better /= better.sum(axis=1, keepdims=True)
    return World(transition, reward, taken, 0.6 * taken + 0.4 * better, np.full(states, 1 / states), 0.0, 80)


def plane(
    episodes: int, columns: int = 2, seed: int = 0, horizon: int = 30, ends: float = 0.06, hidden: bool = False
) -> Table:
    """Real observations that two actions move; with ``hidden`` one of the numbers that matter is not in the log."""
    rng = np.random.default_rng([23, seed, columns])
    x, alive, rows = rng.normal(size=(episodes, columns)), np.arange(episodes), []
    for t in range(horizon):
        up = 1 / (1 + np.exp(-0.5 * x[:, 0]))
        action = (rng.random(len(alive)) < up).astype(np.int64)
        taken = np.where(action == 1, up, 1 - up)
        wanted = leaning(x)[np.arange(len(alive)), action]
        reward = np.cos(1.5 * x[:, 0]) + 0.5 * np.tanh(x[:, -1]) + 0.2 * rng.standard_normal(len(alive))
        over = rng.random(len(alive)) < ends
        cut = ~over & (t == horizon - 1)
        rows.append((alive, np.full(len(alive), t), x, action, reward, over, cut, taken, wanted))
        push = np.zeros(columns)
        push[0] = 0.5
        x = 0.8 * x + push * (2 * action - 1)[:, None] + 0.4 * rng.standard_normal(x.shape)
        alive, x = alive[~over], x[~over]
        if not len(alive):
            break
    episode, time, seen, *rest = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    order = np.lexsort((time, episode))
    names = ("action", "reward", "terminated", "truncated", "action_prob", "target_prob")
    kept = columns - 1 if hidden else columns
    table = {"episode": episode[order], "t": time[order]} | {f"obs_{k}": seen[order, k] for k in range(kept)}
    return table | {name: values[order] for name, values in zip(names, rest, strict=True)}


def leaning(observations: Any) -> np.ndarray:
    """A target over two actions that prefers the second one, the more, the smaller the first observation is."""
    x = np.asarray(observations, float).reshape(len(observations), -1)[:, 0]
    up = 1 / (1 + np.exp(0.4 * x - 0.3))
    return np.column_stack((1 - up, up))


def always_up(observations: Any) -> np.ndarray:
    """A deterministic target: one action each."""
    return np.ones(len(observations), np.int64)


def thirds(observations: Any) -> np.ndarray:
    """A target over three actions that depends on the state alone."""
    x = np.asarray(observations, float).reshape(len(observations), -1)[:, 0]
    first = 0.2 + 0.1 * np.cos(x)
    return np.column_stack((first, np.full(len(x), 0.3), 0.7 - first))


def pendulum(episodes: int, seed: int = 0, horizon: int = 25) -> Table:
    """Two real observations and one real action, with the densities of a behaviour and of a target."""
    rng = np.random.default_rng([31, seed])
    x, rows = 0.5 * rng.normal(size=(episodes, 2)), []
    for t in range(horizon):
        action = behaved(x) + 0.6 * rng.standard_normal(episodes)
        reward = -((x[:, 0] - 0.3) ** 2) - 0.1 * action**2 + 0.1 * rng.standard_normal(episodes)
        row = (np.arange(episodes), np.full(episodes, t), x, action, reward, np.full(episodes, t == horizon - 1))
        rows.append((*row, bell(action, behaved(x), 0.6), bell(action, steering(x), 0.5)))
        x = np.column_stack((0.7 * x[:, 0] + 0.2 * x[:, 1], 0.6 * x[:, 1] + 0.4 * action)) + 0.1 * rng.standard_normal(
            (episodes, 2)
        )
    episode, time, seen, *rest = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    order = np.lexsort((time, episode))
    table = {"episode": episode[order], "t": time[order], "obs_0": seen[order, 0], "obs_1": seen[order, 1]}
    names = ("action", "reward", "terminated", "action_prob", "target_prob")
    return table | {name: values[order] for name, values in zip(names, rest, strict=True)}


def behaved(observations: Any) -> np.ndarray:
    """The mean real action of the behaviour."""
    return 0.3 * np.asarray(observations)[:, 0]


def steering(observations: Any) -> np.ndarray:
    """A target that gives the real action."""
    return -0.2 * np.asarray(observations)[:, 0] + 0.1


def density(observations: Any, actions: Any) -> np.ndarray:
    """A target over real actions by its density."""
    return bell(np.asarray(actions).ravel(), steering(observations), 0.5)


def sampled(observations: Any, rng: Any) -> np.ndarray:
    """A random target that gives a sample of its real action."""
    return steering(observations) + 0.5 * rng.standard_normal(len(observations))


def bell(x: np.ndarray, centre: np.ndarray, width: float) -> np.ndarray:
    return np.exp(-0.5 * ((x - centre) / width) ** 2) / (width * np.sqrt(2 * np.pi))


def bandit(rows: int = 3000, contexts: int = 4, items: int = 3, seed: int = 0) -> Table:
    """One decision per row: a position, an item, a click, and the probability of what was shown."""
    rng = np.random.default_rng([41, seed])
    shown = rng.dirichlet(4 * np.ones(items), contexts)
    position = rng.integers(0, contexts, rows)
    item = np.minimum((rng.random((rows, 1)) > np.cumsum(shown, axis=1)[position]).sum(axis=1), items - 1)
    click = (rng.random(rows) < 0.1 + 0.1 * item + 0.05 * position).astype(float)
    return {"position": position, "item": item, "click": click, "propensity_score": shown[position, item]}


def long_episode(steps: int = 4000, seed: int = 0) -> Table:
    """One episode that never ends, for blocks."""
    rng = np.random.default_rng([43, seed])
    state, states, action = 0, np.empty(steps, np.int64), rng.integers(0, 2, steps)
    for t in range(steps):
        states[t] = state
        state = (state + (1 if action[t] else -1) * rng.integers(1, 3)) % 7
    reward = np.sin(states) + 0.3 * rng.standard_normal(steps)
    wanted = np.where(action == 1, 0.6, 0.4)
    return {
        "episode": np.zeros(steps, np.int64),
        "t": np.arange(steps),
        "obs": states,
        "action": action,
        "reward": reward,
        "terminated": np.zeros(steps, bool),
        "action_prob": np.full(steps, 0.5),
        "target_prob": wanted,
    }
