"""gradtd: what a policy is worth, from data that another policy produced, with linear values.

    >>> import gradtd
    >>> result = gradtd.run("boyan_chain", "impression_gtd", alpha=5, batch_size=16, runs=10, steps=2000)
    >>> gradtd.measure(result, "rmsve").shape
    (10, 100)

`run` an algorithm on a problem for many seeds, `learn` from one `Stream` of experience, `sample` a stream
from a problem, `measure` the weights a run leaves; a `Learner` takes its steps one by one.
Compiled code is loaded on first use only.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradtd import theory
    from gradtd.algorithms import ALGORITHMS
    from gradtd.checks import InputError
    from gradtd.learner import Horde, Learner
    from gradtd.mdp import exact
    from gradtd.metrics import METRICS, empirical_neu, measure
    from gradtd.problems import PROBLEMS
    from gradtd.runner import learn, run, sweep
    from gradtd.stream import sample
    from gradtd.types import Algorithm, Exact, FiniteMDP, Parameter, Problem, Result, Stream

__version__ = "0.1.0"

_HOMES = {
    "ALGORITHMS": "algorithms",
    "Algorithm": "types",
    "Exact": "types",
    "FiniteMDP": "types",
    "Horde": "learner",
    "InputError": "checks",
    "Learner": "learner",
    "METRICS": "metrics",
    "PROBLEMS": "problems",
    "Parameter": "types",
    "Problem": "types",
    "Result": "types",
    "Stream": "types",
    "empirical_neu": "metrics",
    "exact": "mdp",
    "learn": "runner",
    "measure": "metrics",
    "run": "runner",
    "sample": "stream",
    "sweep": "runner",
}

__all__ = [
    "ALGORITHMS",
    "METRICS",
    "PROBLEMS",
    "Algorithm",
    "Exact",
    "FiniteMDP",
    "Horde",
    "InputError",
    "Learner",
    "Parameter",
    "Problem",
    "Result",
    "Stream",
    "empirical_neu",
    "exact",
    "learn",
    "measure",
    "run",
    "sample",
    "sweep",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name == "theory":
        return importlib.import_module("gradtd.theory")
    if name not in _HOMES:
        raise AttributeError(f"module 'gradtd' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"gradtd.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
