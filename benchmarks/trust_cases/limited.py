"""Episodes of a fixed length whose observations do not tell the time: the last step ends them, or cuts them off.

Where it ends them the value depends on the time that is left, which is hidden. Where it cuts them off it does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gradtd.logs import Log
from trust_cases.case import Case
from trust_cases.finite import Finite, policies, random_problem, simulate
from trust_cases.systems import ROLLOUTS, System

LENGTHS = (5, 41)


def finite_value(problem: Finite, policy: np.ndarray, length: int) -> float:
    """The value from the start of what so many steps give."""
    P, r = np.einsum("sa,sat->st", policy, problem.P), (policy * problem.reward).sum(1)
    v = np.zeros(len(P))
    for _ in range(length):
        v = r + problem.gamma * P @ v
    return float(problem.start @ v)


def ended(log: Log, length: int, over: bool) -> Log:
    """The log with its last steps marked: ended, or cut off. A step before that ended an episode stays an end."""
    begins = np.r_[log.starts, len(log)]
    last = begins[1:][np.diff(begins) == length] - 1
    terminated, truncated = log.terminated.copy(), log.truncated.copy()
    if over:
        terminated[last], truncated[last] = True, False
    return replace(log, terminated=terminated, truncated=truncated)


def of_states(rng: np.random.Generator, over: bool, name: str) -> Case:
    problem, length = random_problem(rng), int(rng.integers(*LENGTHS))
    if rng.random() < 0.7:  # the length alone ends it
        problem = replace(problem, P=problem.P / problem.P.sum(2, keepdims=True))
    if not over:
        problem = replace(problem, gamma=min(problem.gamma, 0.99))
    episodes = round(np.exp(rng.uniform(np.log(30), np.log(1000))))
    behaviour, target = policies(problem, rng)
    log = ended(simulate(problem, behaviour, target, episodes, rng, limit=length), length, over)
    truth = finite_value(problem, target, length if over else 5000)
    return Case("limited", name, episodes, None, truth, log, problem.gamma)


def of_numbers(rng: np.random.Generator, over: bool, name: str) -> Case:
    system, length = System(rng), int(rng.integers(*LENGTHS))
    system.end, system.edge = (0.0 if rng.random() < 0.7 else system.end), False
    if not over:
        system.gamma = min(system.gamma, 0.97)
    episodes = round(np.exp(rng.uniform(np.log(30), np.log(1000))))
    total = np.zeros(ROLLOUTS)
    for t, alive, _, _, r, _, _, _ in system.run("target", ROLLOUTS, rng, length if over else 300):
        total[alive] += system.gamma**t * r
    log = ended(system.log(episodes, rng, length), length, over)
    error = float(total.std() / np.sqrt(ROLLOUTS))
    return Case("limited", name, episodes, None, float(total.mean()), log, system.gamma, error=error)


CELLS = {
    "states, ended": (of_states, True),
    "states, cut off": (of_states, False),
    "numbers, ended": (of_numbers, True),
    "numbers, cut off": (of_numbers, False),
}


def limited_cases(seed: int, count: int) -> Iterator[Case]:
    """``count`` logs of each cell, 5 to 40 steps long."""
    for name, (make, over) in CELLS.items():
        for k in range(count):
            yield make(np.random.default_rng([seed, k, sum(map(ord, name))]), over, name)
