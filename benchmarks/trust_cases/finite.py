"""Finite problems: exact values, logs drawn episode by episode in parallel, features good and bad."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gradtd.logs import Log
from trust_cases.case import Case, as_log, looked_up


@dataclass(frozen=True, eq=False)
class Finite:
    """P[s, a, s'] (rows may sum to less than 1: the rest terminates), mean reward[s, a], noise, start law."""

    P: np.ndarray
    reward: np.ndarray
    noise: float
    start: np.ndarray
    gamma: float
    sparse: bool = False  # the reward is 0 or 1, with the mean as its chance

    @property
    def n_states(self) -> int:
        return len(self.P)

    def value(self, policy: np.ndarray) -> np.ndarray:
        P = np.einsum("sa,sat->st", policy, self.P)
        r = (policy * self.reward).sum(1)
        return np.linalg.solve(np.eye(len(P)) - self.gamma * P, r)

    def truth(self, policy: np.ndarray) -> float:
        return float(self.start @ self.value(policy))


def draw(rng: np.random.Generator, cumulative: np.ndarray) -> np.ndarray:
    """One outcome for each row of cumulative chances; the number of columns where it falls beyond the last."""
    return (rng.random(len(cumulative))[:, None] >= cumulative).sum(1)


def pick(rng: np.random.Generator, cumulative: np.ndarray) -> np.ndarray:
    """The same where the chances sum to one but for rounding."""
    return (rng.random(len(cumulative))[:, None] * cumulative[:, -1:] >= cumulative).sum(1)


def simulate(
    problem: Finite,
    behaviour: np.ndarray,
    target: np.ndarray,
    episodes: int,
    rng: np.random.Generator,
    limit: int = 1000,
    show: np.ndarray | None = None,
    ratios: bool = True,
    actions: bool = False,
) -> Log:
    """A log of whole episodes; ``show`` maps states to what is observed of them. Without ratios it has the actions."""
    S = problem.n_states
    cum_b, cum_P = behaviour.cumsum(1), problem.P.cumsum(2)
    state = pick(rng, np.tile(problem.start.cumsum(), (episodes, 1)))
    alive = np.arange(episodes)
    parts = []
    for t in range(limit):
        a = pick(rng, cum_b[state])
        after = draw(rng, cum_P[state, a])
        ended = after >= S
        mean = problem.reward[state, a]
        if problem.sparse:  # a 0 or 1 at the end of an episode
            over = np.maximum(1 - cum_P[state, a, -1], 1e-12)
            r = (ended & (rng.random(len(a)) < mean / over)).astype(float)
        else:
            r = mean + problem.noise * rng.standard_normal(len(a))
        nxt = np.where(ended, state, after)
        parts.append((alive, np.full(len(a), t), state, nxt, a, r, ended))
        state, alive = after[~ended], alive[~ended]
        if not len(alive):
            break
    e, t, s, nxt, a, r, ended = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((t, e))
    e, s, nxt, a, r, ended = (column[order] for column in (e, s, nxt, a, r, ended))
    seen = np.arange(S) if show is None else show
    rho = target[s, a] / behaviour[s, a]
    begins = np.r_[np.flatnonzero(np.r_[True, e[1:] != e[:-1]]), len(e)]
    discount = np.where(ended, 0.0, problem.gamma)
    return as_log(seen, s, nxt, r, discount, rho if ratios else None, begins, a if actions or not ratios else None)


def random_policy(rng: np.random.Generator, S: int, A: int, width: float = 1.0) -> np.ndarray:
    return rng.dirichlet(np.full(A, width), S) * 0.95 + 0.05 / A


def random_problem(rng: np.random.Generator) -> Finite:
    """A Garnet or a chain, with ends."""
    S, A = int(rng.integers(5, 31)), int(rng.integers(2, 5))
    gamma = float(rng.choice([0.9, 0.95, 0.99, 1.0]))
    end = float(rng.uniform(0.02, 0.15))
    P = np.zeros((S, A, S))
    if rng.random() < 0.6:
        for s in range(S):
            for a in range(A):
                to = rng.choice(S, int(rng.integers(2, 5)), replace=False)
                P[s, a, to] = rng.dirichlet(np.ones(len(to)))
        P *= 1 - end
    else:
        for s in range(S):
            for a in range(A):
                up = float(rng.uniform(0.1, 0.9))
                P[s, a, min(s + 1, S - 1)] += up
                P[s, a, max(s - 1, 0)] += 1 - up
        P *= 1 - end / 2
        P[-1] *= 0.3
        P[0] *= 0.6
    reward = (
        float(rng.choice([-1.0, 0.0, 1.0]))
        + rng.standard_normal((S, 1))
        + float(rng.choice([0.1, 0.5])) * rng.standard_normal((S, A))
    )
    if rng.random() < 0.4:
        reward *= rng.random((S, 1)) < 0.2
    start = rng.dirichlet(np.full(S, 0.5)) if rng.random() < 0.5 else np.eye(S)[rng.integers(S)]
    return Finite(P, reward, float(rng.choice([0.0, 0.0, 0.3, 1.0])), start, gamma)


def policies(problem: Finite, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    S, A = problem.reward.shape
    behaviour = random_policy(rng, S, A, 2.0)
    mix = float(rng.uniform(0.2, 0.9))
    return behaviour, (1 - mix) * behaviour + mix * random_policy(rng, S, A, 1.0)


FEATURES = ("one-hot", "adequate", "near", "aggregated", "random")


def features(kind: str, problem: Finite, target: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A table of features; one-hot and adequate ones represent the value, the others do not, near ones nearly."""
    S = problem.n_states
    d = int(rng.integers(2, max(3, S // 4) + 1))
    bias = np.ones((S, 1))
    if kind == "one-hot":
        return np.eye(S)
    if kind in ("adequate", "near"):
        v = problem.value(target)
        if kind == "near":
            v = v + 0.15 * v.std() * rng.standard_normal(S)
        basis = np.c_[v, bias, rng.standard_normal((S, d - 1))]
        return basis @ rng.standard_normal((d + 1, d + 1))
    if kind == "aggregated":
        groups = rng.integers(0, d, S) if rng.random() < 0.5 else np.arange(S) * d // S
        return np.eye(d)[groups]
    return np.c_[bias, rng.standard_normal((S, d))]


def finite_cases(seed: int, count: int) -> Iterator[Case]:
    """Random finite problems, features good and bad in turn, 30 to 1000 episodes."""
    for k in range(count):
        rng = np.random.default_rng([seed, k, 1])
        problem = random_problem(rng)
        episodes = round(np.exp(rng.uniform(np.log(30), np.log(1000))))
        behaviour, target = policies(problem, rng)
        kind = FEATURES[k % len(FEATURES)]
        table = features(kind, problem, target, rng)
        log = simulate(problem, behaviour, target, episodes, rng)
        given = None if kind == "one-hot" else looked_up(table)
        good = kind in ("one-hot", "adequate")
        yield Case("finite", kind, episodes, good, problem.truth(target), log, problem.gamma, given)


def estimated_cases(seed: int, count: int) -> Iterator[Case]:
    """The behaviour is not known and estimated from the log; features represent the value."""
    for k in range(count):
        rng = np.random.default_rng([seed, k, 55])
        problem = random_problem(rng)
        episodes = round(np.exp(rng.uniform(np.log(30), np.log(1000))))
        behaviour, target = policies(problem, rng)
        log = simulate(problem, behaviour, target, episodes, rng, ratios=False)
        truth = problem.truth(target)
        yield Case(
            "estimated", "one-hot", episodes, True, truth, log, problem.gamma, None, None, 0.0, target, "estimate"
        )


def determined(problem: Finite, rng: np.random.Generator, slip: float) -> Finite:
    """The problem with one next state for every state and action, or the end, and another one with a small chance."""
    S, A = problem.reward.shape
    P = np.zeros((S, A, S))
    pairs = np.ix_(range(S), range(A))
    for chance in (1 - slip, slip):
        to, goes_on = rng.integers(0, S, (S, A)), rng.random((S, A)) > 0.1
        P[(*pairs, to)] += chance * goes_on
    noise = 0.0 if rng.random() < 0.7 else problem.noise
    return Finite(P, problem.reward, noise, problem.start, min(problem.gamma, 0.98))


def determined_cases(seed: int, count: int) -> Iterator[Case]:
    """Both policies give the probabilities of every action; a pair determines the next state, or up to a rare slip, or
    does not, in turn. Half of the logs are cut off."""
    for k in range(count):
        rng = np.random.default_rng([seed, k, 31])
        problem = random_problem(rng)
        slip = (0.0, float(np.exp(rng.uniform(np.log(1e-3), np.log(0.1)))), 1.0)[k % 3]
        problem = problem if slip == 1 else determined(problem, rng, slip)
        episodes = round(np.exp(rng.uniform(np.log(30), np.log(1000))))
        behaviour, target = policies(problem, rng)
        limit = int(rng.choice([20, 60, 200, 1000]))
        log = simulate(problem, behaviour, target, episodes, rng, limit=limit, ratios=False)
        cell = ("determined", "rare slips", "random")[k % 3]
        truth = problem.truth(target)
        yield Case("determined", cell, episodes, True, truth, log, problem.gamma, None, None, 0.0, target, behaviour)


def hidden_cases(seed: int, count: int) -> Iterator[Case]:
    """Several states look alike, and policies depend on the look only."""
    for k in range(count):
        rng = np.random.default_rng([seed, k, 77])
        problem = random_problem(rng)
        episodes = round(np.exp(rng.uniform(np.log(30), np.log(1000))))
        S, A = problem.reward.shape
        looks = max(3, S // int(rng.integers(2, 4)))
        show = rng.integers(0, looks, S)
        b, t = policies(Finite(np.zeros((looks, A, looks)), np.zeros((looks, A)), 0, np.ones(1), 1.0), rng)
        log = simulate(problem, b[show], t[show], episodes, rng, show=show)
        yield Case("hidden", "looks", episodes, False, problem.truth(t[show]), log, problem.gamma)
