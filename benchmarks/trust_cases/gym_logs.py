"""Gymnasium logs with softened hand-written policies; truths by roll-outs without a time limit, or exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.logs import Log
from trust_cases.case import Case, as_log
from trust_cases.finite import Finite, simulate

CACHE = Path("trust-cache")
"""Logs and roll-outs that were made once; benchmarks/trust.py --cache changes it."""


@dataclass(frozen=True)
class World:
    id: str
    gamma: float
    limit: int
    policy: Callable[[Any, float], list[float]]
    behaviour: float
    target: float
    long: int  # steps of a roll-out for the truth
    torques: tuple[float, ...] | None = None


def _toward(k: int, n: int, p: float) -> list[float]:
    """Action k with chance p, the others share the rest."""
    chances = [(1 - p) / (n - 1)] * n
    chances[k] = p
    return chances


def _pendulum(o: Any, p: float) -> list[float]:
    spin = o[2] if o[0] < 0.7 else -(4 * o[1] + o[2])
    return _toward(2 if spin > 0 else 0, 3, p)


def _blackjack(o: Any, p: float) -> list[float]:
    return _toward(1 if o[0] < 17 else 0, 2, p)


def _lander(o: Any, p: float) -> list[float]:
    """Lean against the drift, and fire the main engine where it falls too fast."""
    angle = min(max(0.5 * o[0] + o[2], -0.4), 0.4)
    turn = 0.5 * (angle - o[4]) - o[5]
    lift = 0.5 * (0.55 * abs(o[0]) - o[1]) - 0.5 * o[3]
    if o[6] or o[7]:
        turn, lift = 0.0, -0.5 * o[3]
    k = 2 if lift > abs(turn) and lift > 0.05 else 3 if turn < -0.05 else 1 if turn > 0.05 else 0
    return _toward(k, 4, p)


WORLDS = {
    "LunarLander": World("LunarLander-v3", 0.99, 500, _lander, 0.7, 0.85, 1000),
    "MountainCar": World(
        "MountainCar-v0", 0.99, 200, lambda o, p: _toward(2 if o[1] > 0 else 0, 3, p), 0.75, 0.9, 2000
    ),
    "Acrobot": World("Acrobot-v1", 0.99, 500, lambda o, p: _toward(2 if o[4] < 0 else 0, 3, p), 0.7, 0.8, 2000),
    "CartPole": World("CartPole-v1", 0.98, 500, lambda o, p: _toward(int(o[2] + 0.5 * o[3] > 0), 2, p), 0.7, 0.8, 1000),
    "Pendulum": World("Pendulum-v1", 0.9, 100, _pendulum, 0.5, 0.7, 150, (-2.0, 0.0, 2.0)),
    "Blackjack": World("Blackjack-v1", 1.0, 50, _blackjack, 0.7, 0.9, 50),
}
FINITE = {"Taxi": "Taxi-v4", "CliffWalking": "CliffWalking-v1", "FrozenLake": "FrozenLake-v1"}


def run(world: World, p: float, episodes: int, seed: int, limit: int) -> tuple[list[Any], ...]:
    import gymnasium

    env: Any = gymnasium.make(world.id).unwrapped
    rng = np.random.default_rng([seed, 5])
    env.reset(seed=seed)
    seen, acts, chances, rewards, ends, firsts, lasts = [], [], [], [], [], [], []
    for _ in range(episodes):
        o, _ = env.reset()
        firsts.append(len(seen))
        for _t in range(limit):
            law = world.policy(o, p)
            u, a = rng.random(), 0
            while a < len(law) - 1 and u >= law[a]:
                u -= law[a]
                a += 1
            after, r, over, _, _ = env.step(a if world.torques is None else np.array([world.torques[a]]))
            seen.append(o)
            acts.append(a)
            chances.append(world.policy(o, world.target)[a] / law[a])
            rewards.append(float(r))
            ends.append(bool(over))
            o = after
            if over:
                break
        lasts.append(o)
    return seen, acts, chances, rewards, ends, firsts, lasts


def truth(name: str) -> tuple[float, float]:
    world, path = WORLDS[name], CACHE / f"truth-{name}.npy"
    if not path.exists():
        episodes = {"Blackjack": 200_000, "Acrobot": 5000, "LunarLander": 3000}.get(name, 8000)
        _, _, _, r, _, firsts, _ = run(world, world.target, episodes, 987, world.long)
        returns = []
        for begin, end in zip(firsts, [*firsts[1:], len(r)], strict=True):
            rewards = np.array(r[begin:end])
            returns.append(float(rewards @ world.gamma ** np.arange(len(rewards))))
        np.save(path, [np.mean(returns), np.std(returns) / np.sqrt(len(returns))])
    value, error = np.load(path)
    return float(value), float(error)


def log_of(name: str, episodes: int, seed: int) -> Log:
    world, path = WORLDS[name], CACHE / f"log-{name}-{episodes}-{seed}.npz"
    if not path.exists():
        seen, acts, rho, r, ends, firsts, lasts = run(world, world.behaviour, episodes, seed, world.limit)
        n = len(seen)
        begins = np.array([*firsts, n])
        nxt = np.arange(1, n + 1)
        nxt[begins[1:] - 1] = n + np.arange(episodes)
        np.savez(
            path,
            observations=np.array([*seen, *lasts], float),
            row=np.arange(n),
            next_row=nxt,
            reward=r,
            discount=np.where(ends, 0.0, world.gamma),
            rho=rho,
            begins=begins,
            action=acts,
        )
    z = np.load(path)
    names = ("observations", "row", "next_row", "reward", "discount", "rho", "begins", "action")
    return as_log(*(z[k] for k in names))


def policy_of(name: str) -> Callable[[Any], np.ndarray]:
    """The target's probabilities of every action, by observation."""
    world = WORLDS[name]
    return lambda observations: np.array([world.policy(o, world.target) for o in np.asarray(observations)])


def finite_world(name: str) -> tuple[Finite, np.ndarray, np.ndarray]:
    import gymnasium

    env: Any = gymnasium.make(FINITE[name]).unwrapped
    S, A = int(env.observation_space.n), int(env.action_space.n)
    P, r = np.zeros((S, A, S)), np.zeros((S, A))
    for s in range(S):
        for a in range(A):
            for chance, to, reward, over in env.P[s][a]:
                r[s, a] += chance * reward
                if not over:
                    P[s, a, to] += chance
    gamma = 0.97
    problem = Finite(P, r, 0.0, np.asarray(env.initial_state_distrib), gamma, sparse=name == "FrozenLake")
    q = np.zeros((S, A))
    for _ in range(500):
        q = r + gamma * P @ q.max(1)
    best = np.eye(A)[q.argmax(1)]
    share = {"Taxi": (0.7, 0.85), "CliffWalking": (0.7, 0.85), "FrozenLake": (0.3, 0.6)}[name]
    behaviour, target = (p * best + (1 - p) / A for p in share)
    return problem, behaviour, target


def gym_case(name: str, size: int, seed: int) -> Case:
    """One log of a world that has to be simulated."""
    CACHE.mkdir(exist_ok=True)
    value, error = truth(name)
    log, gamma = log_of(name, size, seed), WORLDS[name].gamma
    return Case("gym", f"{name}, {size}", size, None, value, log, gamma, error=error, policy=policy_of(name))


def gym_cases(seed: int, count: int) -> Iterator[Case]:
    """100, 300 and 1000 episodes of every world, with default features."""
    CACHE.mkdir(exist_ok=True)
    for name in (*WORLDS, *FINITE):
        if name == "LunarLander" and find_spec("Box2D") is None:
            continue
        for size in (100, 300, 1000):
            for k in range(count):
                if name in WORLDS:
                    yield gym_case(name, size, seed + k)
                    continue
                problem, behaviour, target = finite_world(name)
                log = simulate(problem, behaviour, target, size, np.random.default_rng([seed, k, size, len(name)]))
                yield Case("gym", f"{name}, {size}", size, None, problem.truth(target), log, problem.gamma)
