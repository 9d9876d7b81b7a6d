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
    from gradtd import features, theory
    from gradtd.algorithms import ALGORITHMS
    from gradtd.checks import InputError
    from gradtd.evaluation import Evaluation, evaluate, load_evaluation, log_stream, sample_log, true_value
    from gradtd.features import Features, make_features
    from gradtd.learner import Horde, Learner
    from gradtd.logs.collect import collect, rollout_value
    from gradtd.logs.log import Log
    from gradtd.logs.read import read_log
    from gradtd.logs.write import write_log
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
    "Evaluation": "evaluation",
    "Features": "features",
    "FiniteMDP": "types",
    "Horde": "learner",
    "InputError": "checks",
    "Log": "logs",
    "Learner": "learner",
    "METRICS": "metrics",
    "PROBLEMS": "problems",
    "Parameter": "types",
    "Problem": "types",
    "Result": "types",
    "Stream": "types",
    "collect": "logs",
    "empirical_neu": "metrics",
    "evaluate": "evaluation",
    "exact": "mdp",
    "load_evaluation": "evaluation",
    "log_stream": "evaluation",
    "learn": "runner",
    "make_features": "features",
    "measure": "metrics",
    "read_log": "logs",
    "rollout_value": "logs",
    "run": "runner",
    "sample": "stream",
    "sample_log": "evaluation",
    "sweep": "runner",
    "true_value": "evaluation",
    "write_log": "logs",
}

__all__ = [
    "ALGORITHMS",
    "METRICS",
    "PROBLEMS",
    "Algorithm",
    "Evaluation",
    "Exact",
    "Features",
    "FiniteMDP",
    "Horde",
    "InputError",
    "Learner",
    "Log",
    "Parameter",
    "Problem",
    "Result",
    "Stream",
    "collect",
    "empirical_neu",
    "evaluate",
    "exact",
    "features",
    "learn",
    "load_evaluation",
    "log_stream",
    "make_features",
    "measure",
    "read_log",
    "rollout_value",
    "run",
    "sample",
    "sample_log",
    "sweep",
    "theory",
    "true_value",
    "write_log",
]


def __getattr__(name: str) -> Any:
    if name in ("features", "theory"):
        return importlib.import_module(f"gradtd.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'gradtd' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"gradtd.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
