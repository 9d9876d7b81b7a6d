"""Converts additional answers of an evaluation to and from JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from gradtd.evaluation.anytime import Anytime
from gradtd.evaluation.report.estimate import BehaviourValue
from gradtd.evaluation.sensitivity import Confounding
from gradtd.evaluation.subgroups import GroupValue

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
    """The same fields from the output of `told_extras`."""
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
