"""CartPole in NumPy, many episodes at once: logs of a noisy controller, and values by roll-outs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

GAMMA, LIMIT = 0.99, 200
Policy = Callable[[np.ndarray], np.ndarray]


def step(state: np.ndarray, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The next states of Gymnasium's CartPole-v1, and which of them are ends."""
    x, v, angle, turn = state.T
    force = np.where(action == 1, 10.0, -10.0)
    pull = (force + 0.05 * turn**2 * np.sin(angle)) / 1.1
    speed = (9.8 * np.sin(angle) - np.cos(angle) * pull) / (0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1))
    push = pull - 0.05 * speed * np.cos(angle) / 1.1
    after = np.stack([x + 0.02 * v, v + 0.02 * push, angle + 0.02 * turn, turn + 0.02 * speed], axis=1)
    return after, (np.abs(after[:, 0]) > 2.4) | (np.abs(after[:, 2]) > 12 * np.pi / 180)


def controller(seed: int) -> Policy:
    """A noisy controller: mostly towards where the pole falls, sometimes at random."""
    rng = np.random.default_rng([seed, 4])
    gain, noise = float(rng.uniform(3, 10)), float(rng.uniform(0.3, 0.6))

    def policy(observations: np.ndarray) -> np.ndarray:
        score = gain * (observations[:, 2] + 0.3 * observations[:, 3])
        right = (1 - noise) / (1 + np.exp(-np.clip(4 * score, -30, 30))) + noise / 2
        return np.stack([1 - right, right], axis=1)

    return policy


def play(policy: Policy, episodes: int, rng: np.random.Generator, limit: int = LIMIT) -> list[tuple[Any, ...]]:
    """Steps of all episodes: episode, t, state, action, probability, end, cut, next state."""
    state = rng.uniform(-0.05, 0.05, (episodes, 4))
    alive, parts = np.arange(episodes), []
    for t in range(limit):
        chance = policy(state)
        action = (rng.random(len(state)) < chance[:, 1]).astype(int)
        after, over = step(state, action)
        cut = np.full(len(state), t == limit - 1) & ~over
        parts.append(
            (alive, np.full(len(state), t), state, action, chance[np.arange(len(state)), action], over, cut, after)
        )
        state, alive = after[~over], alive[~over]
        if not len(alive):
            break
    return parts


def cartpole_log(policy: Policy, episodes: int, rng: np.random.Generator) -> dict[str, Any]:
    columns = [np.concatenate(one) for one in zip(*play(policy, episodes, rng), strict=True)]
    order = np.lexsort((columns[1], columns[0]))
    episode, t, state, action, chance, over, cut, after = (column[order] for column in columns)
    named = {"episode": episode, "t": t, "action": action, "action_prob": chance, "reward": np.ones(len(t))}
    return named | {"terminated": over, "truncated": cut, "observation": state, "next_observation": after}


def cartpole_value(policy: Policy, seed: int, episodes: int = 400) -> float:
    """The mean discounted length of episodes, up to 500 steps."""
    parts = play(policy, episodes, np.random.default_rng(seed), 500)
    return float(sum((GAMMA ** part[1][0]) * len(part[0]) for part in parts) / episodes)
