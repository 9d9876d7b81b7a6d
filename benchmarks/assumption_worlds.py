"""The problems and logs that `assumptions.py` measures on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass
class World:
    """A finite problem: chances of the next state (the last one is the end), rewards, and two policies."""

    P: Array
    R: Array
    behaviour: Array
    target: Array
    gamma: float
    start: Array

    @property
    def states(self) -> int:
        return len(self.P)

    def values(self, policy: Array | None = None) -> Array:
        pi = self.target if policy is None else policy
        P = np.einsum("sa,sax->sx", pi, self.P)[:, :-1]
        r = np.einsum("sa,sax,sax->s", pi, self.P, self.R)
        return np.linalg.solve(np.eye(self.states) - self.gamma * P, r)

    def truth(self) -> float:
        return float(self.start @ self.values())

    def log(self, episodes: int, seed: int, noise: float = 0.5, behaviour: Array | None = None) -> dict[str, Array]:
        """Columns of a log; all episodes go on together until the last one ends."""
        rng = np.random.default_rng(seed)
        taken = self.behaviour if behaviour is None else behaviour
        s, alive, rows = rng.choice(self.states, episodes, p=self.start), np.arange(episodes), []
        for t in range(400):
            a = drawn(taken[s], rng)
            then = drawn(self.P[s, a], rng)
            r = self.R[s, a, then] + noise * rng.standard_normal(len(s))
            rows.append(np.c_[alive, np.full(len(s), t), s, a, r, then == self.states, self.behaviour[s, a]])
            go = then < self.states
            s, alive = then[go], alive[go]
            if not len(s):
                break
        return columns_of(np.concatenate(rows))


def columns_of(table: Array) -> dict[str, Array]:
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    names = ("episode", "t", "obs", "action", "reward", "terminated", "action_prob")
    whole = ("episode", "t", "obs", "action", "terminated")
    return {n: table[:, k].astype(np.int64) if n in whole else table[:, k] for k, n in enumerate(names)}


def drawn(chances: Array, rng: np.random.Generator) -> Array:
    return np.asarray((rng.random((len(chances), 1)) > chances.cumsum(axis=1)).sum(axis=1)).clip(
        max=chances.shape[1] - 1
    )


def random_world(seed: int, states: int = 5, actions: int = 2, ends: float = 0.15, gamma: float = 0.95) -> World:
    rng = np.random.default_rng(seed)
    P = np.zeros((states, actions, states + 1))
    P[..., :-1] = rng.dirichlet(np.ones(states), (states, actions)) * (1 - ends)
    P[..., -1] = ends
    behaviour, target = (0.15 / actions + 0.85 * rng.dirichlet(np.ones(actions), states) for _ in range(2))
    behaviour = (behaviour + target) / 2 if actions > 1 else behaviour
    behaviour, target = (pi / pi.sum(axis=1, keepdims=True) for pi in (behaviour, target))
    R = rng.random((states, actions, states + 1))
    return World(P, R, behaviour, target, gamma, rng.dirichlet(np.ones(states)))


def first_episodes(log: dict[str, Array], n: int) -> dict[str, Array]:
    return {name: values[: np.searchsorted(log["episode"], n)] for name, values in log.items()}


def robust_truth(world: World, strength: float, sign: int) -> float:
    """Robust dynamic programming on the true problem: the least value (sign 1) or the largest (sign -1)."""
    V, b = np.zeros(world.states + 1), world.behaviour
    low, high = b + (1 - b) / strength, b + (1 - b) * strength
    for _ in range(600):
        Y = sign * (world.R + world.gamma * V)
        order = np.argsort(Y, axis=2)
        p = np.take_along_axis(world.P, order, 2)
        before = np.cumsum(p, axis=2) - p
        more = np.clip((1 - low)[..., None] - before * (high - low)[..., None], 0, p * (high - low)[..., None])
        Q = sign * (np.take_along_axis(Y, order, 2) * (p * low[..., None] + more)).sum(axis=2)
        V[:-1] = (world.target * Q).sum(axis=1)
    return float(world.start @ V[:-1])


def hidden_cause(world: World, strength: float, effect: float, seed: int) -> tuple[World, tuple[Array, Array, Array]]:
    """A cause u of two values, drawn at every step, that moves the odds of action 1 by just that factor either way.

    Returns the world without it, as the target lives in it, the chance of u = 1 by state, the behaviour by u, and what
    u adds to the reward by state and action.
    """
    rng = np.random.default_rng(seed)
    odds = world.behaviour[:, 1] / world.behaviour[:, 0]
    one, other = strength * odds / (1 + strength * odds), odds / strength / (1 + odds / strength)
    share = (world.behaviour[:, 1] - other) / (one - other)
    by_u = np.stack([np.c_[1 - other, other], np.c_[1 - one, one]])
    adds = effect * rng.uniform(0.5, 1, (world.states, 2)) * [-1, 1] * (1 if seed % 2 else -1)
    mean = world.R + (share[:, None] * adds)[..., None]
    return World(world.P, mean, world.behaviour, world.target, world.gamma, world.start), (share, by_u, adds)


def confounded_log(world: World, cause: tuple[Array, Array, Array], episodes: int, seed: int) -> dict[str, Array]:
    """Actions are drawn by u, and rewards have what it adds; what is recorded is the behaviour without it."""
    share, by_u, adds = cause
    reward = world.R - (share[:, None] * adds)[..., None]
    rng, rows = np.random.default_rng(seed), []
    s, alive = rng.choice(world.states, episodes, p=world.start), np.arange(episodes)
    for t in range(400):
        u = (rng.random(len(s)) < share[s]).astype(int)
        a = drawn(by_u[u, s], rng)
        then = drawn(world.P[s, a], rng)
        r = reward[s, a, then] + u * adds[s, a] + 0.1 * rng.standard_normal(len(s))
        rows.append(np.c_[alive, np.full(len(s), t), s, a, r, then == world.states, world.behaviour[s, a]])
        s, alive = then[then < world.states], alive[then < world.states]
        if not len(s):
            break
    return columns_of(np.concatenate(rows))


def large_log(real: bool) -> dict[str, Array]:
    """5000 episodes of 20 states, or of three real observations of these."""
    columns = random_world(1, states=20).log(5000, 2)
    if real:
        places = np.random.default_rng(3).standard_normal((20, 3))[columns.pop("obs")]
        places = places + 0.3 * np.random.default_rng(4).standard_normal(places.shape)
        columns |= {f"obs_{k}": places[:, k] for k in range(3)}
    return columns


def logistic(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def plane_log(episodes: int, seed: int, policy: Array) -> dict[str, Array]:
    """Two observed numbers that drift, two actions; the chance of action 1 is logistic in (1, o)."""
    rng = np.random.default_rng(seed)
    o, alive, rows = rng.standard_normal((episodes, 2)), np.arange(episodes), []
    for t in range(200):
        p = logistic(policy[0] + o @ policy[1:])
        a = (rng.random(len(o)) < p).astype(int)
        r = 0.5 * o[:, 0] + a * (0.4 - 0.5 * o[:, 1]) + 0.5 * rng.standard_normal(len(o))
        then = 0.7 * o + 0.4 * (2 * a[:, None] - 1) * [1.0, -0.5] + 0.5 * rng.standard_normal(o.shape)
        ends = rng.random(len(o)) < 0.2
        rows.append(np.c_[alive, np.full(len(o), t), a, r, ends, o])
        o, alive = then[~ends], alive[~ends]
        if not len(o):
            break
    table = np.concatenate(rows)
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    names = ("episode", "t", "action", "reward", "terminated", "obs_0", "obs_1")
    whole = ("episode", "t", "action", "terminated")
    return {n: table[:, k].astype(np.int64) if n in whole else table[:, k] for k, n in enumerate(names)}


def plane_truth(policy: Array, gamma: float) -> float:
    log = plane_log(400_000, 1, policy)
    return float((gamma ** log["t"] * log["reward"]).sum() / 400_000)


def as_policy(weights: Array) -> Callable[[Array], Array]:
    """Chances of two actions, logistic in the observations."""

    def policy(seen: Array) -> Array:
        p = logistic(weights[0] + np.asarray(seen) @ weights[1:])
        return np.c_[1 - p, p]

    return policy


def click_log(n: int, seed: int) -> tuple[dict[str, Array], Callable[[Array], Array], float]:
    """One-step episodes, three observed numbers, three actions; and the target with its exact value, over n = 10^6."""
    rng = np.random.default_rng(12)
    behaviour, target, effect = (rng.standard_normal((4, 3)) * scale for scale in (0.4, 0.4, 0.5))

    def chances(weights: Array, x: Array) -> Array:
        made = np.exp(np.c_[np.ones(len(x)), x] @ weights)
        return np.asarray(made / made.sum(axis=1, keepdims=True))

    many = np.random.default_rng(13).standard_normal((1_000_000, 3))
    truth = float((chances(target, many) * (np.c_[np.ones(len(many)), many] @ effect)).sum(axis=1).mean())
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 3))
    a = drawn(chances(behaviour, x), rng)
    r = (np.c_[np.ones(n), x] @ effect)[np.arange(n), a] + 0.5 * rng.standard_normal(n)
    log = {"action": a, "reward": r} | {f"obs_{k}": x[:, k] for k in range(3)}
    return log, lambda seen: chances(target, np.asarray(seen)), truth


def learn_policy(log: dict[str, Array], world: World) -> Array:
    """Nearly greedy for values that are learned from the log's own frequencies and means."""
    S, n = world.states, world.behaviour.shape[1]
    then = np.where(log["terminated"] == 1, S, np.r_[log["obs"][1:], 0])
    count, total = np.full((S, n, S + 1), 1e-3), np.zeros((S, n))
    np.add.at(count, (log["obs"], log["action"], then), 1)
    np.add.at(total, (log["obs"], log["action"]), log["reward"])
    P, r = count / count.sum(axis=2, keepdims=True), total / (count.sum(axis=2) + 1e-9)
    Q = np.zeros((S, n))
    for _ in range(300):
        Q = r + world.gamma * (P[..., :-1] @ Q.max(axis=1))
    return np.asarray(0.1 / n + 0.9 * np.eye(n)[Q.argmax(axis=1)])
