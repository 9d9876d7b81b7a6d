"""Digests of everything a saved result depends on: the code around the rules, a problem's arrays, a user's function."""

from __future__ import annotations

import hashlib
import sys
from functools import lru_cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from gradtd.compiled import engine
from gradtd.compiled.buffers import Split
from gradtd.problems.base import Problem
from gradtd.problems.exact import exact
from gradtd.problems.metrics import rmspbe, rmsve
from gradtd.problems.simulate import outcome_tables, walk
from gradtd.running.session import Session

AROUND = (
    *(walk, outcome_tables, exact, rmsve, rmspbe),
    *(Split.buffers, Session.buffers, Session.begin, Session.drive, Session.over),
)
"""The code around the rules. Methods are listed one by one, because a fingerprint follows only functions."""


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


PLAIN = (int, float, complex, str, bytes, np.generic, np.ndarray, type(None), FunctionType, ModuleType)
"""Types that a fingerprint covers completely; of a module, it covers the names in use."""
PACKAGES = ("site-packages", "dist-packages")


def not_in_fingerprint(function: Any) -> list[str]:
    """The values that a function reads outside its fingerprint, whose changes would go unnoticed."""
    if not isinstance(function, FunctionType):
        return [f"what a {type(function).__name__} holds"]
    told: list[str] = []
    for one, outside in engine._reachable([function]).items():
        if not _installed(one):
            told.extend(f"{name!r} ({type(value).__name__})" for name, value in outside if not _held(value))
            told.extend("a set of words" for constant in one.__code__.co_consts if _unordered(constant))
    return told


def _held(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_held, value))
    return isinstance(value, PLAIN) or (callable(value) and _installed(value))


def _installed(code: Any) -> bool:
    """Whether a function or class belongs to Python or a package and changes only with its version."""
    package = str(getattr(code, "__module__", "")).partition(".")[0]
    if package in sys.stdlib_module_names or package == "gradtd":
        return True
    file = getattr(sys.modules.get(package), "__file__", None)
    return file is not None and any(part in PACKAGES for part in Path(file).parts)


def _unordered(constant: Any) -> bool:
    """Whether a constant's order differs between processes."""
    return isinstance(constant, frozenset) and any(isinstance(one, str) for one in constant)
