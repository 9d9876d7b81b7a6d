"""Cells where intervals fail: rare rewards, heavy ratios, blocks that do not forget. All features are one-hot."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from gradtd.logs import Log
from trust_cases.case import Case, as_log
from trust_cases.finite import Finite, draw, simulate


def one_step(chance: float, episodes: int) -> Callable[[str, np.random.Generator], Case]:
    """Success in a small part of one-step episodes; two actions, the target prefers the second."""

    def make(name: str, rng: np.random.Generator) -> Case:
        reward = np.array([[chance, chance]])
        problem = Finite(np.zeros((1, 2, 1)), reward, 0.0, np.ones(1), 1.0, sparse=True)
        behaviour, target = np.array([[0.5, 0.5]]), np.array([[0.4, 0.6]])
        log = simulate(problem, behaviour, target, episodes, rng)
        return Case("cells", name, episodes, True, problem.truth(target), log, problem.gamma)

    return make


def walk(to: float, episodes: int, n: int = 9) -> Callable[[str, np.random.Generator], Case]:
    def make(name: str, rng: np.random.Generator) -> Case:
        P = np.zeros((n, 2, n))
        for s in range(n):
            if s > 0:
                P[s, 0, s - 1] = 1
            if s < n - 1:
                P[s, 1, s + 1] = 1
        reward = np.zeros((n, 2))
        reward[-1, 1] = 1
        problem = Finite(P, reward, 0.0, np.eye(n)[n // 2], 1.0)
        behaviour, target = np.tile([0.7, 0.3], (n, 1)), np.tile([1 - to, to], (n, 1))
        log = simulate(problem, behaviour, target, episodes, rng)
        return Case("cells", name, episodes, True, problem.truth(target), log, problem.gamma)

    return make


def heavy(episodes: int) -> Callable[[str, np.random.Generator], Case]:
    """Ratios up to 36: a rare action that the target likes, with a reward of its own."""

    def make(name: str, rng: np.random.Generator) -> Case:
        P = np.zeros((3, 2, 3))
        P[0, :, 1] = P[1, :, 2] = 1
        reward = rng.standard_normal((3, 2))
        problem = Finite(P, reward, 0.5, np.eye(3)[0], 1.0)
        behaviour, target = np.tile([0.98, 0.02], (3, 1)), np.tile([0.28, 0.72], (3, 1))
        log = simulate(problem, behaviour, target, episodes, rng)
        return Case("cells", name, episodes, True, problem.truth(target), log, problem.gamma)

    return make


def blocks(leave: float, steps: int, kind: str, block: int = 30) -> Callable[[str, np.random.Generator], Case]:
    """One long episode in blocks; the value is that of the states at which blocks begin, gamma .9."""

    def make(name: str, rng: np.random.Generator) -> Case:
        S, gamma = 8, 0.9
        inside = np.zeros((S, 2, S))
        for s in range(S):
            for a in range(2):
                if kind == "clusters":
                    mine = np.arange(4) + 4 * (s // 4)
                    inside[s, a, mine] = (1 - leave) * rng.dirichlet(np.ones(4))
                    inside[s, a, (mine + 4) % S] = leave / 4
                elif kind == "sticky":
                    inside[s, a] = leave * np.eye(S)[s] + (1 - leave) / S
                else:
                    inside[s, a] = rng.dirichlet(np.full(S, 0.5))
        reward = rng.standard_normal((S, 1)) + 0.5 * rng.standard_normal((S, 2))
        if kind == "clusters":
            reward[4:] += 1.0
        behaviour, target = np.tile([0.5, 0.5], (S, 1)), np.tile([0.3, 0.7], (S, 1))
        P_b = np.einsum("sa,sat->st", behaviour, inside)
        law = np.linalg.matrix_power(P_b, 2**20)[0]
        problem = Finite(inside, reward, 0.3, law / law.sum(), gamma)
        log = long_episode(problem, behaviour, target, steps, rng)
        return Case("blocks", name, steps // block, True, problem.truth(target), log, gamma, None, block)

    return make


def long_episode(
    problem: Finite, behaviour: np.ndarray, target: np.ndarray, steps: int, rng: np.random.Generator
) -> Log:
    S = problem.n_states
    s = np.zeros(steps + 1, int)
    a = (rng.random(steps) >= behaviour[0, 0]).astype(int)
    cumulative, u = problem.P.cumsum(2), rng.random(steps)
    s[0] = int(draw(rng, problem.start.cumsum()[None])[0]) % S
    for t in range(steps):
        s[t + 1] = min(int(np.searchsorted(cumulative[s[t], a[t]], u[t], "right")), S - 1)
    r = problem.reward[s[:-1], a] + problem.noise * rng.standard_normal(steps)
    rho = target[s[:-1], a] / behaviour[s[:-1], a]
    return as_log(np.arange(S), s[:-1], s[1:], r, np.full(steps, problem.gamma), rho, np.array([0, steps]))


CELLS = {
    "one-step 2 %, 300": one_step(0.02, 300),
    "one-step 2 %, 100": one_step(0.02, 100),
    "one-step 2 %, 2000": one_step(0.02, 2000),
    "walk .3 to .7, 100": walk(0.7, 100),
    "walk .3 to .5, 100": walk(0.5, 100),
    "walk .3 to .5, 500": walk(0.5, 500),
    "ratios to 36, 100": heavy(100),
    "ratios to 36, 1000": heavy(1000),
    "clusters .02": blocks(0.02, 30 * 200, "clusters"),
    "clusters .005": blocks(0.005, 30 * 200, "clusters"),
    "sticky .995": blocks(0.995, 30 * 200, "sticky"),
    "mixing": blocks(0.0, 30 * 200, "mixing"),
}


def cell_cases(seed: int, count: int) -> Iterator[Case]:
    """``count`` logs of each cell."""
    for name, make in CELLS.items():
        for k in range(count):
            yield make(name, np.random.default_rng([seed, k, sum(map(ord, name))]))
