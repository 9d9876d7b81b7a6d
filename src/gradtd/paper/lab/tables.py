"""What the page knows about a problem: the library's own tables as plain numbers, so no dynamics are written twice.

Python and JavaScript read the same decimal digits of a float64 as the same number, so nothing is lost on the way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtd.algorithms.auto_step import auto_fields
from gradtd.core.arrays import Floats
from gradtd.problems import as_problem
from gradtd.problems.base import Problem
from gradtd.problems.exact import SINGULAR, Exact, exact, largest_value, rank
from gradtd.problems.simulate import outcome_tables

METRICS = ("rmsve", "rmspbe", "distance")
"""The metrics that the page shows: each is the length of F theta + f."""


def problem_tables(name: str) -> dict[str, Any]:
    """Everything about a problem that the page needs, ready for JSON."""
    problem = as_problem(name)
    found = exact(problem)
    return {
        "name": name,
        "gamma": problem.gamma,
        "block": problem.block,
        "theta0": problem.theta0.tolist(),
        "features": problem.features.tolist(),
        "outcomes": _outcomes(problem),
        "p": _probabilities(problem, found).tolist(),
        "theta_star": found.theta_star.tolist(),
        "span": _span(problem, found).tolist(),
        "metrics": {metric: _as_map(found, metric) for metric in METRICS},
        "root": _root(found).tolist(),
        "finite_below": found.traces.finite_below if np.isfinite(found.traces.finite_below) else None,
        "probe": auto_fields(problem.n_features, {})["z"].tolist(),
        "off_policy": not np.array_equal(problem.behaviour, problem.target),
        "states": len(found.states),
        "source": problem.source,
    }


def _outcomes(problem: Problem) -> dict[str, Any]:
    """The alias tables that the sampler walks by."""
    tables = outcome_tables(problem)
    names = ("begin", "keep", "alias", "next_state", "reward", "rho")
    return {name: getattr(tables, name).tolist() for name in names} | {"ends": tables.ends.astype(int).tolist()}


def _probabilities(problem: Problem, found: Exact) -> Floats:
    """The long-run probability of every outcome, in the order of the tables."""
    joint = problem.behaviour[:, :, None] * problem.mdp.transition
    return np.concatenate([found.d_mu[s] * joint[s][np.nonzero(joint[s])] for s in range(problem.mdp.n_states)])


def _span(problem: Problem, found: Exact) -> Floats:
    """Orthonormal rows that span the features of the states visited: the directions in which weights move."""
    visited = problem.features[found.d_mu > 0]
    values, directions = np.linalg.svd(visited)[1:]
    kept = int((values > SINGULAR * values[0]).sum())
    return np.eye(problem.n_features) if kept == problem.n_features else np.asarray(directions[:kept])


def _as_map(found: Exact, metric: str) -> dict[str, Any]:
    """F and f such that the metric is the length of F theta + f."""
    if metric == "rmsve":
        scale = 1 / np.sqrt(len(found.states))
        F, f = scale * found.problem.features[found.states], -scale * found.v_pi[found.states]
    elif metric == "rmspbe":
        root = _root(found)
        F, f = root @ found.A, root @ found.b
    else:
        seen = np.linalg.svd(found.A)[2][: rank(found.A, largest_value(found.C))]
        F, f = seen, -seen @ found.theta_star
    return {"F": F.tolist(), "f": f.tolist()}


def _root(found: Exact) -> Floats:
    """R with R'R = C^{-1} where C is regular: the projected error is the length of R (A theta + b), with any lambda."""
    values, vectors = np.linalg.eigh(found.C)
    kept = values > SINGULAR * values[-1]
    return np.asarray((vectors[:, kept] / np.sqrt(values[kept])).T)
