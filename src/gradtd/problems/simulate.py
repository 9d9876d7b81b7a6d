"""Sampling a stream from a finite problem: the simulator, derived from the same arrays as the matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradtd.compiled import engine, random
from gradtd.compiled.random import next_unit
from gradtd.core import checks
from gradtd.core.arrays import Floats, Index, Words
from gradtd.core.stream import STEP, Stream
from gradtd.problems import as_problem
from gradtd.problems.base import Problem


class Outcomes(NamedTuple):
    """The possible outcomes in each state as Walker's alias tables: one random number picks an outcome.

    The outcomes of state s lie at ``begin[s] : begin[s + 1]``; one more entry after the last state has the start states
    as outcomes.
    """

    begin: NDArray[np.int64]
    keep: Floats
    alias: NDArray[np.int64]
    next_state: NDArray[np.uint32]
    reward: Floats
    rho: Floats
    target: Floats
    ends: NDArray[np.bool_]
    gamma: float


def sample(problem: Problem | str, steps: int, seed: int = 0, run: int = 0) -> Stream:
    """The behaviour's experience on a problem: the same for every algorithm at a given (seed, run).

    Parameters
    ----------
    problem : Problem or str
        The problem, or its name in `gradtd.PROBLEMS`, with optional parameters.
    steps : int
        Number of steps.
    seed, run : int
        A different seed, or a different run of a seed, gives different data. `gradtd.run` numbers its runs from 0.

    >>> sample("random_walk_tabular", 1000, seed=1)
    Stream(random_walk_tabular: 1000 steps, 120 episodes, 5 features, dense)
    """
    problem = as_problem(problem)
    steps = checks.whole_number("steps", steps, 1)
    return sampler(problem)(steps, checks.seed_number(seed), checks.whole_number("run", run, 0))


def sampler(problem: Problem, compile: bool | None = None) -> Callable[[int, int, int], Stream]:
    """``sampler(problem)(steps, seed, run)`` is `sample`, with the alias tables built once."""
    outcomes = outcome_tables(problem)
    fill = engine.compile_function(walk, compile)
    highest = int(outcomes.next_state.max())  # the highest row that a walk can write

    def draw(steps: int, seed: int, run: int) -> Stream:
        table = np.zeros(steps, STEP).view(np.recarray)
        target = np.empty(steps)
        fill(outcomes, random.seeded(seed, run, random.EXPERIENCE), table, target)
        return Stream.of_own(problem.features, table, problem.name, highest, target)

    return draw


def pick(outcomes: Outcomes, rng: Words, state: Index) -> Any:
    """Draw one of the outcomes of a state."""
    begin = outcomes.begin[state]
    place = next_unit(rng) * (outcomes.begin[state + 1] - begin)
    k = begin + np.int64(place)
    return k if place - np.floor(place) < outcomes.keep[k] else outcomes.alias[k]


def walk(outcomes: Outcomes, rng: Words, steps: Any, target: Floats) -> None:
    """Fill ``steps`` with the behaviour's experience, and ``target`` with the target's probabilities of its actions.

    When an episode ends, a new one begins.
    """
    reset = outcomes.begin.shape[0] - 2
    state = np.int64(outcomes.next_state[pick(outcomes, rng, reset)])
    episode = 0
    for t in range(steps.shape[0]):
        k = pick(outcomes, rng, state)
        step = steps[t]
        step.row = np.uint32(state)
        step.next_row = outcomes.next_state[k]
        step.reward = outcomes.reward[k]
        step.rho = outcomes.rho[k]
        target[t] = outcomes.target[k]
        step.episode = episode
        state = np.int64(outcomes.next_state[k])
        if outcomes.ends[k]:
            step.discount = 0.0
            state = np.int64(outcomes.next_state[pick(outcomes, rng, reset)])
            episode += 1
        else:
            step.discount = outcomes.gamma


def outcome_tables(problem: Problem) -> Outcomes:
    """The alias tables of a problem's behaviour."""
    mdp = problem.mdp
    joint = problem.behaviour[:, :, None] * mdp.transition
    ratio = np.divide(problem.target, problem.behaviour, out=np.zeros_like(problem.target), where=problem.behaviour > 0)
    parts: list[tuple[NDArray[Any], ...]] = []
    for s in range(mdp.n_states):
        a, after = np.nonzero(joint[s])
        of_target = problem.target[s, a]
        parts.append((joint[s, a, after], after, mdp.reward[s, a, after], ratio[s, a], of_target, mdp.terminal[after]))
    first = np.flatnonzero(mdp.start)
    nothing = np.zeros(len(first))
    parts.append((mdp.start[first], first, nothing, nothing, nothing, nothing > 0))
    begin = np.cumsum([0] + [len(p[0]) for p in parts])
    tables = [_alias_table(p[0]) for p in parts]
    _, after, reward, rho, target, ends = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Outcomes(
        begin=begin.astype(np.int64),
        keep=np.concatenate([keep for keep, _ in tables]),
        alias=np.concatenate([alias + at for (_, alias), at in zip(tables, begin, strict=False)]),
        next_state=after.astype(np.uint32),
        reward=np.ascontiguousarray(reward, dtype=np.float64),
        rho=np.ascontiguousarray(rho, dtype=np.float64),
        target=np.ascontiguousarray(target, dtype=np.float64),
        ends=np.ascontiguousarray(ends, dtype=np.bool_),
        gamma=float(problem.gamma),
    )


def _alias_table(probability: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Walker's table: cell k keeps its outcome with probability keep[k], else yields alias[k]."""
    n = len(probability)
    share = probability * n / probability.sum()
    keep, alias = np.ones(n), np.arange(n)
    small, large = [k for k in range(n) if share[k] < 1], [k for k in range(n) if share[k] >= 1]
    while small and large:
        k, donor = small.pop(), large[-1]
        keep[k], alias[k] = share[k], donor
        share[donor] -= 1 - share[k]
        if share[donor] < 1:
            small.append(large.pop())
    return keep, alias
