"""Converts the fields of an evaluation to JSON and arrays and back, and checks that a loaded evaluation can be
shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtd.core.arrays import entries_under, number_or_nan
from gradtd.evaluation.decide import Check
from gradtd.evaluation.estimators.lambda_values import LambdaValues
from gradtd.evaluation.extra_answers import GroupValue
from gradtd.evaluation.report.diagnostics import Diagnostics
from gradtd.evaluation.report.estimate import BehaviourValue, Estimate
from gradtd.evaluation.sensitivity import Anytime, Confounding
from gradtd.features import from_dict
from gradtd.logs import Understood

if TYPE_CHECKING:
    from gradtd.evaluation.report.result import Evaluation

RECORDS: dict[str, Any] = {"behaviour": BehaviourValue, "anytime": Anytime, "confounding": Confounding}
"""Fields of an `Evaluation` that hold a record or None."""


def told_extras(evaluation: Evaluation) -> dict[str, Any]:
    """The requested answers by name. An infinite tipping point is None in JSON."""
    made = {name: getattr(evaluation, name) for name in RECORDS}
    told: dict[str, Any] = {name: asdict(record) for name, record in made.items() if record is not None}
    if evaluation.groups:
        told["groups"] = [asdict(group) for group in evaluation.groups]
    return told


def read_extras(told: Mapping[str, Any]) -> dict[str, Any]:
    """The requested answers from the output of `told_extras`."""
    made: dict[str, Any] = {}
    for name, record in RECORDS.items():
        if name in told:
            known = {entry.name: _tuples(told[name][entry.name]) for entry in fields(record)}
            made[name] = record(**known)
    if "groups" in told:
        made["groups"] = tuple(GroupValue(**group) for group in told["groups"])
    if "confounding" in told and told["confounding"]["tipping"] is None:
        made["confounding"] = Confounding(**(asdict(made["confounding"]) | {"tipping": float("inf")}))
    return made


def _tuples(value: Any) -> Any:
    """Convert JSON lists to the tuples of records."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


LARGEST = 1e150
"""Maximum size of a number in an evaluation, because plots multiply them."""


def refuse_unshown(made: Evaluation) -> None:
    """Raise if a loaded evaluation could not be shown, so that the error occurs on loading and not later."""
    from rich.console import Console

    from gradtd.output.evaluation_text import COLOUR, in_notebook, on_terminal

    own = (made.theta, made.resampled, made.influences)
    if made.verdict not in COLOUR or any(array.ndim != 1 for array in own) or not 0 <= made.level <= 1:
        raise ValueError("verdict, level or arrays")
    if any(array.dtype.kind != "f" or _beyond(array) for array in (*own, *made.pictured.values())):
        raise ValueError("arrays of a wrong type or with numbers too large")
    if not made.estimates or not (0 <= made.gamma <= 1 and made.episodes >= 0 and made.steps >= 0):
        raise ValueError("rows or sizes")
    if len(made.theta) not in (0, made.features.n_features):
        raise ValueError("theta")
    for name in ("rho", "starts"):
        counts, edges = made.pictured[name], made.pictured[f"{name}_edges"]
        sound = counts.ndim == 1 and edges.shape == (len(counts) + 1,) and np.isfinite(edges).all()
        if not (sound and len(counts) and (counts >= 0).all() and (np.diff(edges) >= 0).all()):
            raise ValueError(name)
    over_log = made.pictured.get("over_log")
    if over_log is not None and (over_log.ndim != 2 or len(over_log) != 4 or not over_log.size):
        raise ValueError("over_log")
    _refuse_lambda(made)
    _refuse_rows(made)
    in_notebook(made)
    Console(file=StringIO(), width=200).print(on_terminal(made, verbose=True))


def _beyond(numbers: Any) -> bool:
    """Whether any number is so large that a plot of it would overflow."""
    values = np.asarray(numbers, np.float64)
    return bool((np.abs(values[np.isfinite(values)]) > LARGEST).any())


def _refuse_lambda(made: Evaluation) -> None:
    found = LambdaValues.from_arrays(made.pictured)
    if found is None:
        return
    count = len(found.lams)
    shapes = {getattr(found, one.name).shape for one in fields(found) if one.name not in ("intervals", "level")}
    numbers = [getattr(found, one.name) for one in fields(found)]
    if shapes != {(count,)} or found.intervals.shape != (count, 2) or not count or not 0 < found.level < 1:
        raise ValueError("lambda")
    if not all(np.isfinite(one).all() for one in numbers):
        raise ValueError("lambda")


def _refuse_rows(made: Evaluation) -> None:
    """Check the rows of estimates and of checks, which plots draw."""
    drawn: list[tuple[Any, ...]] = [(made.value, *made.interval)]
    for row in made.estimates:
        if not all(isinstance(one, str) for one in (row.method, row.note, row.mark, row.reason)):
            raise TypeError("a row's words")
        if (row.low is None) != (row.high is None) or (row.low is not None and row.value is None):
            raise ValueError("a row's interval")
        drawn.append((row.value, row.low, row.high, row.error))
    for check in made.checks:
        if not all(isinstance(one, str) for one in (check.name, check.kind, check.fault)) or check.columns < 0:
            raise TypeError("a check")
        if not check.fault and (check.value < check.low or check.value > check.high):
            raise ValueError("a check's interval")
        drawn.append((check.value, check.low, check.high, check.columns))
    if made.confounding is not None:
        drawn += [(made.confounding.against,), *made.confounding.curve]
        if not all(len(point) == 3 and point[0] > 0 for point in made.confounding.curve) or not made.confounding.curve:
            raise ValueError("confounding")
    if any(isinstance(one, str | bool) or _beyond(one) for row in drawn for one in row if one is not None):
        raise ValueError("numbers")


MOST = 2**63
"""Maximum size of numbers in the header of a saved evaluation."""


def restored_fields(told: Mapping[str, Any], features: Mapping[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    """The fields of a saved evaluation."""
    described = dict(features) | entries_under(arrays, "features.")
    names = ("level", "method", "gamma", "episodes", "steps", "verdict", "target", "log")
    sentences: dict[str, Any] = {name: tuple(map(str, told[name])) for name in ("reasons", "warnings", "notes")}
    for name in names:
        kinds = str if name in ("method", "verdict", "target", "log") else (int, float)
        if not isinstance(told[name], kinds) or (kinds is not str and abs(told[name]) > MOST):
            raise TypeError(name)
    low, high = told["interval"]
    return dict(
        **{name: told[name] for name in names},
        **sentences,
        value=number_or_nan(told["value"]),
        interval=(number_or_nan(low), number_or_nan(high)),
        estimates=tuple(Estimate(**row) for row in told["estimates"]),
        checks=tuple(_check(row) for row in told.get("checks", ())),
        diagnostics=Diagnostics.from_dict(told["diagnostics"]),
        theta=arrays["theta"],
        features=from_dict(described),
        resampled=arrays["resampled"],
        influences=arrays.get("influences", np.zeros(0)),
        **read_extras(told),
        pictured=entries_under(arrays, "pictured."),
        understood=Understood.from_dict(told.get("understood", {})),
    )


def _check(row: Mapping[str, Any]) -> Check:
    return Check(**(dict(row) | {name: number_or_nan(row[name]) for name in ("value", "low", "high")}))
