"""The cells of `benchmarks/peers.py`: a world, two policies, a number of episodes.

The COBS worlds stand in `trust_cases/cobs.py`. Horizons, policies and sizes are those of the study where the text of
arXiv 1911.06854 has them.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from trust_cases import gym_logs, icu
from trust_cases.cobs import constant, delayed, graph, gridworld, model_win, toy_mc
from trust_cases.finite import Finite, simulate
from trust_cases.limited import ended, finite_value

from peer_cases.task import Task

PEERS = Path("build/peers")
"""The environment that peers are installed into."""
Policies = tuple[np.ndarray, np.ndarray]
"""Behaviour and target."""


@dataclass(frozen=True)
class Cell:
    """``make(rng)`` draws one log; there are at most ``most`` of them."""

    world: str
    name: str
    make: Callable[[np.random.Generator], Task]
    most: int = 1_000_000


def of_problem(
    world: str, cell: str, problem: Finite, policies: Policies, episodes: int, **how: Any
) -> Callable[[np.random.Generator], Task]:
    """Logs of a finite problem.

    ``how``: show (what is seen of a state), length (the episode ends there), cut (it is only cut off there), pixels
    (an image of one bright pixel of that many), tells.
    """
    behaviour, target = policies
    length, cut, show = how.get("length"), how.get("cut"), how.get("show")
    truth = problem.truth(target) if length is None else finite_value(problem, target, length)
    seen = np.arange(problem.n_states) if show is None else show

    def make(rng: np.random.Generator) -> Task:
        log = simulate(problem, behaviour, target, episodes, rng, limit=length or cut or 1000, ratios=False)
        log = log if length is None else ended(log, length, True)
        row, after = log.row.astype(int), log.next_row.astype(int)
        images = None if "pixels" not in how else np.eye(how["pixels"])
        return Task(
            world,
            cell,
            seen[row] if images is None else images[row],
            seen[after] if images is None else images[after],
            np.asarray(log.action).astype(int),
            log.reward,
            log.terminated,
            log.episode,
            behaviour[row],
            target[row],
            target[after],
            problem.gamma,
            truth,
            int(seen.max()) + 1 if images is None else 0,
            how.get("tells", True),
        )

    return make


def of_gymnasium(world: str, name: str, episodes: int) -> Callable[[np.random.Generator], Task]:
    """Logs of a world with real observations; the truth comes from roll-outs and is kept in a folder."""
    env = gym_logs.WORLDS[name]

    def laws(observations: np.ndarray, p: float) -> np.ndarray:
        return np.array([env.policy(o, p) for o in observations])

    def make(rng: np.random.Generator) -> Task:
        truth, error = gym_logs.truth(name)
        run = gym_logs.run(env, env.behaviour, episodes, int(rng.integers(2**31)), env.limit)
        seen, action, _, reward, over, firsts, lasts = run
        n = len(seen)
        ends = np.array([*firsts[1:], n]) - 1
        here = np.array(seen, float)
        after = np.r_[here[1:], here[:1]]
        after[ends] = np.array(lasts, float)
        return Task(
            world,
            f"{episodes} episodes",
            here,
            after,
            np.array(action),
            np.array(reward),
            np.array(over),
            np.repeat(np.arange(episodes), np.diff([*firsts, n])),
            laws(here, env.behaviour),
            laws(here, env.target),
            laws(after, env.target),
            env.gamma,
            truth,
            error=error,
        )

    return make


def of_bandit(cell: str, rounds: int, seed: int) -> Callable[[np.random.Generator], Task]:
    """Contexts of five numbers, ten actions, a click with a logistic chance; policies are softmax of linear scores."""
    fixed = np.random.default_rng([91, seed])
    clicks, tastes, other = (fixed.normal(size=(5, 10)) for _ in range(3))

    def law(x: np.ndarray, scores: np.ndarray) -> np.ndarray:
        chances = np.exp(x @ scores - (x @ scores).max(1, keepdims=True))
        return 0.9 * chances / chances.sum(1, keepdims=True) + 0.01

    def chance(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(1.0 - 0.5 * x @ clicks))

    wanted = 0.3 * tastes + 0.3 * other
    many = fixed.normal(size=(400_000, 5))
    values = (law(many, wanted) * chance(many)).sum(1)
    truth, error = float(values.mean()), float(values.std() / np.sqrt(len(values)))

    def make(rng: np.random.Generator) -> Task:
        x = rng.normal(size=(rounds, 5))
        behaviour = law(x, 0.5 * tastes)
        action = np.minimum((rng.random((rounds, 1)) > behaviour.cumsum(1)).sum(1), 9)
        reward = (rng.random(rounds) < chance(x)[np.arange(rounds), action]).astype(float)
        over, episode, target = np.ones(rounds, bool), np.arange(rounds), law(x, wanted)
        return Task(
            "Bandit", cell, x, x, action, reward, over, episode, behaviour, target, target, 0.9, truth, error=error
        )

    return make


def of_theirs(world: str, cell: str, asked: str, episodes: int) -> Callable[[np.random.Generator], Task]:
    """Logs of a world that comes with a peer, written by `their_worlds.py` in its environment."""

    def make(rng: np.random.Generator) -> Task:
        script = Path(__file__).with_name("their_worlds.py")
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "log.npz")
            words = [asked, path, "--episodes", str(episodes), "--seed", str(rng.integers(2**31))]
            words += ["--truths", str(gym_logs.CACHE)]
            subprocess.run([str(PEERS / "bin" / "python"), str(script), *words], check=True, stdout=subprocess.DEVNULL)
            z = dict(np.load(path))
        truth, error = float(z.pop("truth")), float(z.pop("error"))
        return Task(world, cell, gamma=1.0, truth=truth, tells=world == "Open Bandit", error=error, **z)

    return make


def later(build: Callable[[], Callable[[np.random.Generator], Task]]) -> Callable[[np.random.Generator], Task]:
    """Logs of a world that takes seconds to build: it is built for the first log that is drawn."""
    built = cache(build)
    return lambda rng: built()(rng)


def of_finite(name: str, episodes: int) -> Callable[[np.random.Generator], Task]:
    problem, behaviour, target = gym_logs.finite_world(name)
    return of_problem(name, f"{episodes} episodes", problem, (behaviour, target), episodes)


def of_icu(name: str, cell: str) -> Callable[[np.random.Generator], Task]:
    problem, clinicians, _, targets = icu.world()
    return of_problem("ICU-Sepsis", cell, problem, (clinicians, targets[name]), 500)


def cobs_cells() -> list[Cell]:
    cells = []

    def add(
        world: str, name: str, problem: Finite, policies: tuple[np.ndarray, np.ndarray], n: int, **how: Any
    ) -> None:
        cells.append(Cell(world, name, of_problem(world, name, problem, policies, n, **how)))

    for T in (4, 16):
        for sparse in (False, True):
            for chance in (0.2, 0.6):
                for n in (64, 512):
                    problem = graph(T, 0.25, sparse, 1.0)
                    both = constant(problem.n_states, chance), constant(problem.n_states, 0.8)
                    name = f"T {T}, {'sparse' if sparse else 'dense'}, behaviour {chance}, {n} episodes"
                    add("Graph", name, problem, both, n)
    for T, seen in ((2, 2), (16, 6)):
        problem = delayed(T + 1, 0.25, 0.5)
        S = problem.n_states
        show = np.minimum((np.arange(S) + 1) // 2, seen - 1)
        for chance in (0.2, 0.6):
            name = f"T {T}, {seen} observations, behaviour {chance}, 512 episodes"
            both = constant(S, chance), constant(S, 0.8)
            add("Graph-POMDP", name, problem, both, 512, show=show, tells=False)
    problem = toy_mc()
    for b, e in ((0.45, 0.6), (0.6, 0.45), (0.8, 0.2)):
        both = constant(21, 1 - b), constant(21, 1 - e)
        add("Toy-MC", f"right {b} to {e}, 256 episodes", problem, both, 256, cut=250)
    for noise in (1.0, 0.6, 0.2):
        problem, greedy = gridworld(np.random.default_rng(7))
        both = (1 - noise) * greedy + noise / 4, 0.9 * greedy + 0.1 / 4
        for n in (128, 512):
            add("Gridworld", f"eps {noise}, {n} episodes", problem, both, n, cut=25)
        add("Pixel-Gridworld", f"eps {noise}, 512 episodes", problem, both, 512, cut=25, pixels=64)
    both = constant(3, 0.73), constant(3, 0.27)
    add("ModelWin", "20 steps, 256 episodes", model_win(1.0), both, 256, cut=20)
    problem = replace(delayed(2, 0.0, 0.0), gamma=1.0)
    S = problem.n_states
    both = constant(S, 0.88), constant(S, 0.12)
    add("ModelFail", "2 steps, 256 episodes", problem, both, 256, show=np.zeros(S, int), tells=False)
    return cells


def other_cells() -> list[Cell]:
    cells = []
    for name in ("FrozenLake", "Taxi", "CliffWalking"):
        for n in (100, 500):
            cells.append(Cell(name, f"{n} episodes", later(partial(of_finite, name, n))))
    for name in ("CartPole", "MountainCar"):
        for n in (100, 300):
            cells.append(Cell(name, f"{n} episodes", of_gymnasium(name, name, n)))
    for rounds in (300, 1000, 5000):
        cells.append(Cell("Bandit", f"{rounds} rounds", later(partial(of_bandit, f"{rounds} rounds", rounds, 1))))
    for name in ("near", "middle"):
        cell = f"{name} target, 500 episodes"
        cells.append(Cell("ICU-Sepsis", cell, later(partial(of_icu, name, cell))))
    return cells


def their_cells() -> list[Cell]:
    """Worlds that come with SCOPE-RL, whose observations do not tell the time that is left, and with obp."""
    cells = []
    for world in ("BasicGym", "RecGym"):
        for n in (100, 500):
            cells.append(Cell(world, f"{n} episodes", of_theirs(world, f"{n} episodes", world, n)))
    for campaign in ("all", "men", "women"):
        cells.append(Cell("Open Bandit", campaign, of_theirs("Open Bandit", campaign, campaign, 0), most=1))
    return cells


def all_cells() -> list[Cell]:
    return [*cobs_cells(), *other_cells(), *(their_cells() if PEERS.exists() else [])]
