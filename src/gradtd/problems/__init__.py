"""Problems, each one function that returns a `Problem`. To add one, write a function and add a line below."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature

from gradtd.core import checks
from gradtd.core.checks import InputError
from gradtd.core.parsing import parse_settings
from gradtd.problems.base import Problem
from gradtd.problems.chains import (
    boyan_chain,
    boyan_chain_tdrc,
    collision,
    random_walk,
    random_walk_dependent,
    random_walk_inverted,
    random_walk_tabular,
)
from gradtd.problems.counterexamples import baird, star, two_state
from gradtd.problems.garnet import garnet

PROBLEMS: dict[str, Callable[..., Problem]] = {
    make.__name__: make
    for make in (
        boyan_chain,
        boyan_chain_tdrc,
        random_walk,
        random_walk_tabular,
        random_walk_inverted,
        random_walk_dependent,
        baird,
        two_state,
        garnet,
        collision,
        star,
    )
}


def as_problem(problem: Problem | str) -> Problem:
    """The problem, given as an object or by name, with optional parameters.

    Parameters
    ----------
    problem : Problem or str
        The problem itself, a name from `PROBLEMS`, or ``name:parameter=value,...``.

    >>> as_problem("random_walk_tabular:n=19")
    Problem(random_walk_tabular_19: 21 states, 19 features, gamma 1, episodic; Ghiassian et al. (2020))
    """
    if isinstance(problem, Problem):
        return problem
    if not isinstance(problem, str):
        raise InputError(f"problem must be a Problem or a name, got {type(problem).__name__}.")
    name, settings = parse_settings("problem", problem, "random_walk_tabular:n=19")
    make = PROBLEMS[checks.known_name("problem", name, PROBLEMS)]
    for parameter in settings:
        checks.known_name(f"parameter of {name}", parameter, signature(make).parameters)
    return make(**settings)


__all__ = [
    "PROBLEMS",
    "as_problem",
    "baird",
    "boyan_chain",
    "boyan_chain_tdrc",
    "collision",
    "garnet",
    "random_walk",
    "random_walk_dependent",
    "random_walk_inverted",
    "random_walk_tabular",
    "star",
    "two_state",
]
