"""Algorithms. To add one, write its function and its `Algorithm`, and add a line below."""

from __future__ import annotations

from gradtd.algorithms import (
    control,
    generic_gtd,
    impression_gtd,
    krylov_gtd,
    least_squares,
    minibatch_tdc,
    mirror_prox,
    td,
    true_online,
    two_step_sizes,
    variance_reduction,
)
from gradtd.core import checks
from gradtd.core.algorithm import Algorithm
from gradtd.core.checks import InputError

ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm
    for module in (
        impression_gtd,
        generic_gtd,
        td,
        true_online,
        two_step_sizes,
        mirror_prox,
        minibatch_tdc,
        least_squares,
        krylov_gtd,
        variance_reduction,
        control,
    )
    for algorithm in module.ALGORITHMS
}


def as_algorithm(algorithm: Algorithm | str) -> Algorithm:
    """The algorithm, given as an object or by name."""
    if isinstance(algorithm, Algorithm):
        return algorithm
    if not isinstance(algorithm, str):
        raise InputError(f"algorithm must be an Algorithm or a name, got {type(algorithm).__name__}.")
    return ALGORITHMS[checks.known_name("algorithm", algorithm, ALGORITHMS)]
