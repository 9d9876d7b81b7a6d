"""Finite worlds: exact values, optimal policies, and logs of a behaviour with its probabilities."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class World:
    """P[s, a, s'] with one more column for the end, reward R[s, a, s'] plus noise, and the behaviour of its log."""

    name: str
    P: np.ndarray
    R: np.ndarray
    start: np.ndarray
    gamma: float
    behaviour: np.ndarray
    episodes: int
    noise: float = 0.0
    limit: int = 500

    @property
    def n_states(self) -> int:
        return len(self.P)

    @property
    def mean_reward(self) -> np.ndarray:
        return (self.P * self.R).sum(axis=2)

    def value(self, policy: np.ndarray) -> float:
        """The exact value of a policy [states, actions], without a limit of steps."""
        P = np.einsum("sa,sat->st", policy, self.P[:, :, :-1])
        r = (policy * self.mean_reward).sum(axis=1)
        return float(self.start @ np.linalg.solve(np.eye(len(P)) - self.gamma * P, r))

    @cached_property
    def q(self) -> np.ndarray:
        """Optimal values of actions."""
        q = np.zeros_like(self.mean_reward)
        for _ in range(3000):
            new = self.mean_reward + self.gamma * self.P[:, :, :-1] @ q.max(axis=1)
            if np.abs(new - q).max() < 1e-9:
                break
            q = new
        return q

    def optimal(self) -> np.ndarray:
        q = self.q
        return np.eye(q.shape[1])[q.argmax(axis=1)]

    def soft(self, temperature: float, uniform: float) -> np.ndarray:
        """A softmax of the optimal values, mixed with uniform actions."""
        q = self.q
        chance = np.exp((q - q.max(axis=1, keepdims=True)) / temperature)
        chance /= chance.sum(axis=1, keepdims=True)
        return (1 - uniform) * chance + uniform / q.shape[1]

    def log(self, rng: np.random.Generator, episodes: int | None = None) -> dict[str, np.ndarray]:
        """A log as a dictionary of columns."""
        n = self.episodes if episodes is None else episodes
        cum_b, cum_P, S = self.behaviour.cumsum(axis=1), self.P.cumsum(axis=2), self.n_states
        state = _pick(rng, np.tile(self.start.cumsum(), (n, 1)))
        alive, parts = np.arange(n), []
        for t in range(self.limit):
            action = _pick(rng, cum_b[state])
            after = _pick(rng, cum_P[state, action])
            reward = self.R[state, action, after] + self.noise * rng.standard_normal(len(state))
            over = after == S
            cut = np.full(len(state), t == self.limit - 1) & ~over
            chance = self.behaviour[state, action]
            parts.append((alive, np.full(len(state), t), state, action, chance, reward, over, cut, after % S))
            state, alive = after[~over], alive[~over]
            if not len(alive):
                break
        names = (
            *("episode", "t", "obs", "action", "action_prob", "reward", "terminated", "truncated"),
            "next_obs",
        )
        columns = dict(zip(names, (np.concatenate(one) for one in zip(*parts, strict=True)), strict=True))
        order = np.lexsort((columns["t"], columns["episode"]))
        return {name: column[order] for name, column in columns.items()}

    def with_behaviour(self, behaviour: np.ndarray, name: str = "") -> World:
        return replace(self, behaviour=behaviour, name=name or self.name)

    def doubled(self) -> World:
        """Every action twice, and the optimal behaviour, which draws between copies: nothing is better."""
        P, R = np.concatenate([self.P, self.P], axis=1), np.concatenate([self.R, self.R], axis=1)
        best = self.optimal()
        half = np.concatenate([0.5 * best, 0.5 * best], axis=1)
        return replace(self, name=f"{self.name}, optimal", P=P, R=R, behaviour=half)


def _pick(rng: np.random.Generator, cumulative: np.ndarray) -> np.ndarray:
    return (rng.random(len(cumulative))[:, None] * cumulative[:, -1:] >= cumulative).sum(axis=1)


def from_gymnasium(name: str, gamma: float, **options: object) -> World:
    """A toy text environment, from the table of its transitions; a goal's state is the end."""
    import gymnasium

    env = gymnasium.make(name, **options).unwrapped
    table, S, A = env.P, env.observation_space.n, env.action_space.n  # type: ignore[attr-defined]
    P, R = np.zeros((S, A, S + 1)), np.zeros((S, A, S + 1))
    for s in range(S):
        for a in range(A):
            for chance, after, reward, over in table[s][a]:
                to = S if over else after
                R[s, a, to] += chance * reward
                P[s, a, to] += chance
    np.divide(R, P, out=R, where=P > 0)
    start = np.asarray(getattr(env, "initial_state_distrib", np.eye(S)[36 if S == 48 else 0]), float)
    uniform = np.full((S, A), 1.0 / A)
    return World(name, P, R, start, gamma, uniform, 1000)


def frozen_lake(seed: int) -> World:
    world = from_gymnasium("FrozenLake-v1", 0.99, is_slippery=True)
    rng = np.random.default_rng(seed)
    behaviour = world.soft(float(rng.choice([0.05, 0.1])), float(rng.choice([0.3, 0.6])))
    return replace(world, name="FrozenLake", behaviour=behaviour, episodes=int(rng.choice([300, 1000, 3000])))


def taxi(seed: int) -> World:
    world = from_gymnasium("Taxi-v4", 0.95)
    rng = np.random.default_rng(seed)
    behaviour = world.soft(1.0, float(rng.choice([0.2, 0.4])))
    return replace(world, name="Taxi", behaviour=behaviour, episodes=int(rng.choice([300, 1000])), limit=200)


def cliff(seed: int) -> World:
    world = from_gymnasium("CliffWalking-v1", 0.95)
    rng = np.random.default_rng(seed)
    behaviour = world.soft(1.0, float(rng.choice([0.1, 0.3])))
    return replace(world, name="CliffWalking", behaviour=behaviour, episodes=int(rng.choice([100, 300, 1000])))


def icu_sepsis(seed: int) -> World:
    """Clinicians' choices, from MIMIC-III; survival is worth 1."""
    return replace(_icu_sepsis(), episodes=int(np.random.default_rng(seed).choice([1000, 3000])))


@cache
def _icu_sepsis() -> World:
    from importlib.util import find_spec
    from pathlib import Path

    found = find_spec("icu_sepsis")
    assert found is not None
    assert found.origin is not None
    z = np.load(Path(found.origin).parent / "envs" / "assets" / "dynamics.npz")
    P0, r = z["tx_mat"], z["r_mat"]
    clinicians = z["expert_policy"]
    ends = (np.einsum("sas->sa", P0).min(axis=1) > 0.999) | (clinicians.sum(axis=1) == 0)
    reward = (P0 * r).sum(axis=2)
    S, A = reward.shape
    P, R = np.zeros((S, A, S + 1)), np.zeros((S, A, S + 1))
    P[:, :, :S] = np.where(ends, 0.0, P0)
    P[:, :, S] = 1 - P[:, :, :S].sum(axis=2)
    np.divide(reward, P[:, :, S], out=R[:, :, S], where=P[:, :, S] > 1e-9)
    P[ends], R[ends] = 0.0, 0.0
    P[ends, :, S] = 1.0
    behaviour = np.where(clinicians.sum(axis=1, keepdims=True) > 0, clinicians, 1.0 / A)
    behaviour /= behaviour.sum(axis=1, keepdims=True)
    return World("ICU-Sepsis", P, R, z["d_0"], 1.0, behaviour, 1000)


def inventory(seed: int) -> World:
    """Stock 0 to 15, orders of 0 to 5; sales earn, holding, ordering and lost sales cost; ends with chance .03."""
    rng = np.random.default_rng([seed, 1])
    S, A = 16, 6
    demand = rng.dirichlet(np.full(6, 2.0))
    price, hold, order, fixed = 2.0, 0.15, 1.0, float(rng.uniform(0.2, 1.0))
    P, R = np.zeros((S, A, S + 1)), np.zeros((S, A, S + 1))
    for s in range(S):
        for a in range(A):
            stock = min(s + a, S - 1)
            for wanted, chance in enumerate(demand):
                to = stock - min(wanted, stock)
                earned = price * min(wanted, stock) - hold * to - order * a - fixed * (a > 0) - (wanted > stock)
                R[s, a, to] += 0.97 * chance * earned
                R[s, a, S] += 0.03 * chance * earned
                P[s, a, to] += 0.97 * chance
                P[s, a, S] += 0.03 * chance
    np.divide(R, P, out=R, where=P > 0)
    level = int(rng.integers(3, 9))
    rule = np.eye(A)[np.clip(level - np.arange(S), 0, A - 1)]
    behaviour = 0.6 * rule + 0.4 / A
    start = np.full(S, 1.0 / S)
    return World("inventory", P, R, start, 0.97, behaviour, int(rng.choice([100, 300, 1000])), noise=0.5)


def queue(seed: int) -> World:
    """A queue of 0 to 20 with three speeds of service; waiting and speed cost; ends with chance .02."""
    rng = np.random.default_rng([seed, 2])
    S, A = 21, 3
    arrive, speeds = float(rng.uniform(0.3, 0.5)), np.array([0.2, 0.45, 0.7])
    cost = np.array([0.0, float(rng.uniform(0.1, 0.4)), float(rng.uniform(0.6, 1.5))])
    P, R = np.zeros((S, A, S + 1)), np.zeros((S, A, S + 1))
    for s in range(S):
        for a in range(A):
            for came, p in ((1, arrive), (0, 1 - arrive)):
                for served, q in ((1, speeds[a]), (0, 1 - speeds[a])):
                    P[s, a, min(max(s + came - served, 0), S - 1)] += 0.98 * p * q
            P[s, a, S] = 0.02
            R[s, a] = -0.1 * s - cost[a] - 2.0 * (s == S - 1)
    behaviour = rng.dirichlet(np.full(A, 2.0), S) * 0.9 + 0.1 / A
    return World("queue", P, R, np.eye(S)[0], 0.97, behaviour, int(rng.choice([100, 300, 1000])), noise=0.3)


def bandit(seed: int) -> World:
    """Ten contexts, five actions, one step; rewards of 0 or 1."""
    rng = np.random.default_rng([seed, 3])
    S, A = 10, 5
    mean = np.clip(0.3 + 0.12 * rng.standard_normal((S, A)), 0.02, 0.98)
    P = np.zeros((S, A, S + 1))
    P[:, :, S] = 1.0
    R = np.repeat(mean[:, :, None], S + 1, axis=2)
    behaviour = rng.dirichlet(np.full(A, 2.0), S) * 0.85 + 0.15 / A
    return World(
        "bandit", P, R, rng.dirichlet(np.ones(S)), 0.9, behaviour, int(rng.choice([500, 2000, 8000])), noise=0.45
    )


@cache
def best_value(name: str, seed: int) -> float:
    """The value of an optimal policy; that of ICU-Sepsis, which takes long, is computed once."""
    world = _icu_sepsis() if name == "icu" else WORLDS[name](seed)
    return world.value(world.optimal())


WORLDS = {
    "frozen_lake": frozen_lake,
    "taxi": taxi,
    "cliff": cliff,
    "icu": icu_sepsis,
    "inventory": inventory,
    "queue": queue,
    "bandit": bandit,
}
