"""Digests of what a kept result depends on: the code around the rules, and a problem's arrays."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np

from gradtd.compiled import engine
from gradtd.compiled.splits import Split
from gradtd.problems.base import Problem
from gradtd.problems.exact import exact
from gradtd.problems.metrics import rmspbe, rmsve
from gradtd.problems.simulate import outcome_tables, walk
from gradtd.running.session import Session

AROUND = (
    *(walk, outcome_tables, exact, rmsve, rmspbe),
    *(Split.buffers, Session.buffers, Session.begin, Session.drive, Session.over),
)
"""The code around the rules. Methods are named one by one, because a fingerprint follows functions only."""


@lru_cache
def code_around() -> str:
    """A digest of the code around the rules: simulator, buffers, exact solutions, metrics."""
    return engine.fingerprint(*AROUND)


def problem_digest(problem: Problem) -> str:
    """A digest of a problem's arrays."""
    digest = hashlib.sha256(f"{problem.name}|{problem.gamma}|{problem.block}".encode())
    mdp = problem.mdp
    arrays = (mdp.transition, mdp.reward, mdp.terminal, mdp.start)
    for array in (*arrays, problem.behaviour, problem.target, problem.features, problem.theta0):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]
