"""Worlds in which hiding is a dial: nothing, some or much of the state; a reward that falls with the time; cuts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gradtd.logs import Log
from trust_cases.case import Case
from trust_cases.finite import Finite, policies, random_problem, simulate
from trust_cases.limited import ended
from trust_cases.systems import ROLLOUTS, System

DIAL = ("nothing", "some", "much")


def _episodes(rng: np.random.Generator) -> int:
    return round(np.exp(rng.uniform(np.log(60), np.log(1000))))


def looks_cases(seed: int, count: int) -> Iterator[Case]:
    """States that look alike: none, one in six, every second one; policies depend on the look, or on the state."""
    for k in range(count):
        rng = np.random.default_rng([seed, k, 911])
        problem, episodes = random_problem(rng), _episodes(rng)
        S, A = problem.reward.shape
        dial = DIAL[k % 3]
        share = {"nothing": 0.0, "some": 1 / 6, "much": 0.5}[dial]
        show = np.arange(S)
        hidden = rng.random(S) < share
        show[hidden] = rng.integers(0, S, int(np.sum(hidden)))
        b, t = policies(Finite(np.zeros((S, A, S)), np.zeros((S, A)), 0, np.ones(1), 1.0), rng)
        both = (b[show], t[show]) if rng.random() < 0.6 else (b, t)
        log = simulate(problem, *both, episodes, rng, show=show)
        yield Case("looks", dial, episodes, dial == "nothing", problem.truth(both[1]), log, problem.gamma)


def types_cases(seed: int, count: int) -> Iterator[Case]:
    """A type is drawn with every episode and never shown; it moves rewards and steps by nothing, some or much."""
    for k in range(count):
        rng = np.random.default_rng([seed, k, 912])
        base, episodes = random_problem(rng), _episodes(rng)
        dial = DIAL[k % 3]
        size = {"nothing": 0.0, "some": 0.3, "much": 1.0}[dial]
        S, A = base.reward.shape
        P, r = np.zeros((2 * S, A, 2 * S)), np.zeros((2 * S, A))
        other = base.P[rng.permutation(S)]
        P[:S, :, :S], P[S:, :, S:] = base.P, (1 - size / 2) * base.P + size / 2 * other
        r[:S], r[S:] = base.reward, base.reward + size * (rng.standard_normal((S, 1)) + 0.5)
        start = np.r_[base.start, base.start] / 2
        show = np.arange(2 * S) % S
        b, t = policies(base, rng)
        if rng.random() < 0.5:  # both policies see the type
            b, t = np.r_[b, policies(base, rng)[0]], np.r_[t, policies(base, rng)[1]]
        else:
            b, t = np.r_[b, b], np.r_[t, t]
        problem = Finite(P, r, base.noise, start, min(base.gamma, 0.97))
        length = 20 if k % 2 else 1000
        log = simulate(problem, b, t, episodes, rng, show=show, limit=length)
        yield Case("types", dial, episodes, dial == "nothing", problem.truth(t), log, problem.gamma)


def delayed_cases(seed: int, count: int) -> Iterator[Case]:
    """A share of the reward of a step is paid one or two steps later."""
    for k in range(count):
        rng = np.random.default_rng([seed, k, 913])
        problem, episodes = random_problem(rng), _episodes(rng)
        problem = replace(problem, gamma=min(problem.gamma, 0.97))
        dial = DIAL[k % 3]
        share = {"nothing": 0.0, "some": 0.3, "much": 1.0}[dial]
        b, t = policies(problem, rng)
        log = simulate(problem, b, t, episodes, rng)
        later = 1 + int(rng.random() < 0.5)
        begins = np.r_[log.starts, len(log)]
        since = np.arange(len(log)) - np.repeat(begins[:-1], np.diff(begins))
        left = np.repeat(begins[1:], np.diff(begins)) - 1 - np.arange(len(log))
        paid, reward = share * log.reward, log.reward.copy()
        moved = left >= later
        reward[moved] -= paid[moved]
        at = np.flatnonzero(moved)
        reward[at + later] += paid[moved] * problem.gamma**-later  # the discounted return stays what it is
        assert since.max() >= 0
        yield Case(
            "delayed", dial, episodes, dial == "nothing", problem.truth(t), replace(log, reward=reward), problem.gamma
        )


def clocked_cases(seed: int, count: int) -> Iterator[Case]:
    """Episodes of at most T steps whose rewards fall with the time by nothing, some or most of their size."""
    for k in range(count):
        rng = np.random.default_rng([seed, k, 914])
        problem, episodes, T = random_problem(rng), _episodes(rng), int(rng.integers(6, 31))
        dial = DIAL[k % 3]
        fall = {"nothing": 0.0, "some": 0.4, "much": 0.9}[dial]
        b, t = policies(problem, rng)
        log = simulate(problem, b, t, episodes, rng, limit=T)
        over = dial != "nothing"
        log = _falling(ended(log, T, over), fall, T)
        if over:
            P, r = np.einsum("sa,sat->st", t, problem.P), (t * problem.reward).sum(1)
            v = np.zeros(len(P))
            for s in range(T - 1, -1, -1):
                v = (1 - fall * s / T) * r + problem.gamma * P @ v
            truth = float(problem.start @ v)
        else:
            problem = replace(problem, gamma=min(problem.gamma, 0.99))
            truth = problem.truth(t)
        yield Case("clocked", dial, episodes, not over, truth, log, problem.gamma)


def _falling(log: Log, fall: float, T: int) -> Log:
    begins = np.r_[log.starts, len(log)]
    since = np.arange(len(log)) - np.repeat(begins[:-1], np.diff(begins))
    return replace(log, reward=log.reward * (1 - fall * since / T))


def clocked_real_cases(seed: int, count: int) -> Iterator[Case]:
    """The same with real observations."""
    for k in range(count):
        rng = np.random.default_rng([seed, k, 915])
        system, episodes, T = System(rng), _episodes(rng), int(rng.integers(6, 31))
        dial = DIAL[k % 3]
        fall = {"nothing": 0.0, "some": 0.4, "much": 0.9}[dial]
        over = dial != "nothing"
        system.gamma = min(system.gamma, 0.97)
        total = np.zeros(ROLLOUTS)
        for t, alive, _, _, r, _, _, _ in system.run("target", ROLLOUTS, rng, T if over else 300):
            total[alive] += system.gamma**t * r * (1 - fall * t / T)
        log = _falling(ended(system.log(episodes, rng, T), T, over), fall, T)
        error = float(total.std() / np.sqrt(ROLLOUTS))
        yield Case("clocked-real", dial, episodes, not over, float(total.mean()), log, system.gamma, error=error)


def columns_cases(seed: int, count: int) -> Iterator[Case]:
    """Real observations: no column hidden, the last one blurred, the last one missing."""
    for k in range(count):
        rng = np.random.default_rng([seed, k, 916])
        system, episodes = System(rng), _episodes(rng)
        while system.k < 2:
            system = System(rng)
        dial = DIAL[k % 3]
        truth, error = system.truth(rng)
        log = system.log(episodes, rng)
        seen = np.array(log.observations)
        if dial == "some":
            seen[:, -1] += rng.standard_normal(len(seen)) * seen[:, -1].std()
        elif dial == "much":
            seen = seen[:, :-1]
        yield Case(
            "columns",
            dial,
            episodes,
            dial == "nothing",
            truth,
            replace(log, observations=seen),
            system.gamma,
            error=error,
        )
