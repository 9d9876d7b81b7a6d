"""Sample logs with known true values: to try `evaluate`, and to measure the coverage of its intervals."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtd.core import checks
from gradtd.logs import Log
from gradtd.problems import as_problem
from gradtd.problems.base import Problem
from gradtd.problems.exact import exact
from gradtd.problems.simulate import sampler

WARM_UP = 500
"""Burn-in steps of a continuing problem, so that its log begins in the stationary distribution."""


def sample_log(
    problem: Problem | str, episodes: int = 100, *, steps: int | None = None, seed: int = 0, run: int = 0
) -> Log:
    """The behaviour's experience on a problem as a log: the state as observation, and the ratios.

    Parameters
    ----------
    problem
        A problem, or the name of one.
    episodes
        Number of episodes, for an episodic problem.
    steps
        Steps of one long episode, for a continuing problem; 10 000 by default.
    seed, run
        The same two numbers give the same log.

    >>> import gradtd
    >>> gradtd.sample_log("random_walk_tabular", 100)
    Log(random_walk_tabular: 884 steps, 100 episodes (100 terminated, 0 truncated), discrete observations; has rho)
    """
    task, seed = as_problem(problem), checks.seed_number(seed)
    draw = sampler(task)
    if task.continuing:
        count = checks.whole_number("steps", 10_000 if steps is None else steps, 1)
        taken = draw(count + WARM_UP, seed, run).steps[WARM_UP:]
    else:
        wanted = checks.whole_number("episodes", episodes, 1)
        count = 32 * wanted
        taken = draw(count, seed, run).steps
        while taken["episode"][-1] < wanted:
            count *= 2
            taken = draw(count, seed, run).steps
        taken = taken[taken["episode"] < wanted]
    ends = taken["discount"] == 0 if not task.continuing else np.zeros(len(taken), bool)
    cut = np.zeros(len(taken), bool)
    cut[-1] = not ends[-1]
    columns: dict[str, Any] = {
        name: np.ascontiguousarray(taken[name]) for name in ("row", "next_row", "reward", "episode", "rho")
    }
    return Log(
        observations=np.arange(task.mdp.n_states),
        terminated=ends,
        truncated=cut,
        observation_names=("state",),
        name=task.name,
        **columns,
    )


def true_value(problem: Problem | str) -> tuple[float, float]:
    """The target's value from the start states, and that of the TD solution in the problem's features.

    For a continuing problem, start states follow the behaviour's stationary distribution. The two values differ if the
    features cannot represent the value function.

    Parameters
    ----------
    problem
        A problem, or the name of one.

    >>> true, fitted = true_value("random_walk_dependent")
    >>> round(true, 4), round(fitted, 4)
    (0.5429, 0.4946)
    """
    task = as_problem(problem)
    found = exact(task)
    law = found.d_mu if task.continuing else task.mdp.start
    return float(law @ found.v_pi), float(law @ task.features @ found.theta_star)
