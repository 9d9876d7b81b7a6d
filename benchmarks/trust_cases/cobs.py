"""The worlds of the COBS comparison (Voloshin et al., arXiv 1911.06854), written from their description.

Graph, Graph-POMDP, Toy-MC and Gridworld, and ModelWin and ModelFail (Thomas and Brunskill 2016). Values are exact.
Where an episode has a fixed length and the observation does not tell the time, the time is hidden, as it is in COBS.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from trust_cases.case import Case
from trust_cases.finite import Finite, simulate
from trust_cases.limited import ended, finite_value


def _case(family: str, cell: str, problem: Finite, chances: tuple, rng: np.random.Generator, **how) -> Case:
    """A log of 64 to 1024 episodes; ``how`` may have show, length (the episode ends there) and cut (it goes on)."""
    behaviour, target = chances
    episodes = int(2 ** rng.integers(6, 11))
    length, cut = how.get("length"), how.get("cut")
    log = simulate(problem, behaviour, target, episodes, rng, limit=length or cut or 1000, show=how.get("show"))
    truth = problem.truth(target) if length is None else finite_value(problem, target, length)
    log = log if length is None else ended(log, length, True)
    return Case(family, cell, episodes, None, truth, log, problem.gamma)


def constant(S: int, chance: float) -> np.ndarray:
    """A policy that takes action 0 with one chance everywhere."""
    return np.tile([chance, 1 - chance], (S, 1))


def graph(T: int, slip: float, sparse: bool, noise: float) -> Finite:
    """State 0, then two for each later time: action 0 leads up, reward 1, action 1 down, reward -1."""
    S = 2 * T - 1
    P, r = np.zeros((S, 2, S)), np.zeros((S, 2))
    for s in range(S):
        t = (s + 1) // 2
        for a in range(2):
            up = 1 - slip if a == 0 else slip
            if t < T - 1:
                P[s, a, 2 * t + 1], P[s, a, 2 * t + 2] = up, 1 - up
            if t == T - 1 or not sparse:
                r[s, a] = 2 * up - 1
    return Finite(P, r, noise, np.eye(S)[0], 0.98)


def graph_cases(seed: int, count: int) -> Iterator[Case]:
    for k in range(count):
        rng = np.random.default_rng([seed, k, 901])
        T = int(rng.choice([4, 16]))
        problem = graph(T, float(rng.choice([0.0, 0.25])), bool(rng.random() < 0.5), float(rng.choice([0.0, 1.0])))
        S = problem.n_states
        both = constant(S, float(rng.choice([0.2, 0.6]))), constant(S, 0.8)
        yield _case("graph", f"T {T}", problem, both, rng)


def graph_pomdp_cases(seed: int, count: int) -> Iterator[Case]:
    """The reward of a step depends on the state that the step before led to, and states look alike in groups."""
    for k in range(count):
        rng = np.random.default_rng([seed, k, 902])
        T, seen = int(rng.choice([2, 6, 16])), int(rng.choice([2, 6]))
        slip, noise = float(rng.choice([0.0, 0.25])), float(rng.choice([0.0, 0.5]))
        problem = delayed(T + 1, slip, noise)
        S = problem.n_states
        both = constant(S, float(rng.choice([0.2, 0.6]))), constant(S, 0.8)
        show = np.minimum((np.arange(S) + 1) // 2, seen - 1)
        yield _case("graph-pomdp", f"T {T}", problem, both, rng, show=show)


def model_win(noise: float) -> Finite:
    P, r = np.zeros((3, 2, 3)), np.zeros((3, 2))
    P[0, 0], P[0, 1], P[1:, :, 0] = [0, 0.4, 0.6], [0, 0.6, 0.4], 1.0
    r[0] = [-0.2, 0.2]
    return Finite(P, r, noise, np.eye(3)[0], 0.99)


def model_win_cases(seed: int, count: int) -> Iterator[Case]:
    for k in range(count):
        rng = np.random.default_rng([seed, k, 903])
        problem = model_win(float(rng.choice([0.0, 1.0])))
        chance = float(rng.choice([0.73, 0.6]))
        both = constant(3, chance), constant(3, 1 - chance)
        over = bool(k % 2)
        yield _case("model-win", "ended" if over else "cut", problem, both, rng, **{"length" if over else "cut": 20})


def delayed(T: int, slip: float, noise: float) -> Finite:
    """The graph with the reward of a step decided by the action of the step before."""
    problem = graph(T, slip, False, noise)
    r = np.where(np.arange(problem.n_states) % 2 == 1, 1.0, -1.0)[:, None] * np.ones(2)
    r[0] = 0.0
    return replace(problem, reward=r)


def model_fail_cases(seed: int, count: int) -> Iterator[Case]:
    """Two to four steps that look alike; the reward of a step is decided by the action of the step before."""
    for k in range(count):
        rng = np.random.default_rng([seed, k, 904])
        T = int(rng.choice([2, 2, 3, 4]))
        problem = delayed(T, 0.0, float(rng.choice([0.0, 0.5])))
        S = problem.n_states
        chance = float(rng.choice([0.88, 0.7, 0.6]))
        both = constant(S, chance), constant(S, 1 - chance)
        show = np.zeros(S, int)
        yield _case("model-fail", f"T {T}", replace(problem, gamma=1.0), both, rng, show=show)


TOY_MC_PAIRS = ((0.45, 0.45), (0.6, 0.6), (0.45, 0.6), (0.6, 0.45), (0.8, 0.2), (0.2, 0.8))
"""Chances of going right: behaviour, target."""


def toy_mc() -> Finite:
    S = 21
    P = np.zeros((S, 2, S))
    for s in range(S):
        P[s, 0, max(s - 1, 0)] = 1.0
        if s < S - 1:
            P[s, 1, s + 1] = 1.0
    return Finite(P, -np.ones((S, 2)), 0.0, np.eye(S)[10], 0.99)


def toy_mc_cases(seed: int, count: int) -> Iterator[Case]:
    problem = toy_mc()
    for k in range(count):
        rng = np.random.default_rng([seed, k, 905])
        b, e = TOY_MC_PAIRS[k % len(TOY_MC_PAIRS)]
        both = constant(problem.n_states, 1 - b), constant(problem.n_states, 1 - e)
        yield _case("toy-mc", f"{b:g} to {e:g}", problem, both, rng, cut=250)


def gridworld(rng: np.random.Generator) -> tuple[Finite, np.ndarray]:
    """8 x 8, a goal in the corner, holes, and the greedy policy."""
    n, moves, S = 8, ((0, 1), (1, 0), (0, -1), (-1, 0)), 64
    P, r = np.zeros((S, 4, S)), np.full((S, 4), -0.01)
    holes = set(rng.choice(np.arange(8, S - 1), 6, replace=False).tolist())
    for s in range(S):
        for a, (dy, dx) in enumerate(moves):
            y, x = min(max(s // n + dy, 0), n - 1), min(max(s % n + dx, 0), n - 1)
            to = y * n + x
            if to == S - 1:
                r[s, a] = 1.0
            else:
                P[s, a, to] = 1.0
                r[s, a] -= 0.5 * (to in holes)
    start = np.zeros(S)
    start[:8] = 1 / 8
    v = np.zeros(S)
    for _ in range(200):
        q = r + 0.96 * P @ v
        v = q.max(1)
    return Finite(P, r, 0.0, start, 0.96), np.eye(4)[q.argmax(1)]


def gridworld_cases(seed: int, count: int) -> Iterator[Case]:
    """25 steps; policies are greedy with noise."""
    for k in range(count):
        rng = np.random.default_rng([seed, k, 906])
        problem, greedy = gridworld(rng)
        noise = float(rng.choice([1.0, 0.8, 0.6, 0.4, 0.2]))
        both = (1 - noise) * greedy + noise / 4, 0.9 * greedy + 0.1 / 4
        over = bool(k % 2)
        yield _case("gridworld", "ended" if over else "cut", problem, both, rng, **{"length" if over else "cut": 25})
