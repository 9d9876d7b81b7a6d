"""What was asked, in words that a file can hold: sums are of use for the same question only."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import gradtd
from gradtd.compiled import engine
from gradtd.core.checks import InputError
from gradtd.core.files import checksum
from gradtd.evaluation.parts.job import Reading
from gradtd.evaluation.parts.preparing import Asked
from gradtd.evaluation.parts.states import DENSE_STATES
from gradtd.evaluation.preparing import is_auto
from gradtd.evaluation.report.result import plain
from gradtd.features import make_features
from gradtd.logs.column_names import Roles
from gradtd.running.fingerprints import not_in_fingerprint

Question = dict[str, Any]
ROOMS = ("core", "compiled", "features", "logs", "evaluation/parts", "evaluation/parts/kept", "evaluation/trust")
"""Where the code stands that makes sums of rows."""


@lru_cache
def code_of_sums() -> str:
    """A digest of the source that makes sums of rows: sums of another version are made anew, never added to."""
    digest = hashlib.sha256(np.__version__.encode())
    for room in ROOMS:
        for file in sorted((Path(gradtd.__file__).parent / room).glob("*.py")):
            digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:32]


def question_of(reading: Reading, asked: Asked, gamma: float, roles: Roles, kinds: Mapping[str, str]) -> Question:
    """All that the sums depend on besides rows and code. How the answer is shown is no part of it."""
    told = {
        "gamma": gamma,
        "target": policy_told("the target", reading.target),
        "behaviour": policy_told("behaviour", reading.behaviour),
        "clip": reading.clip,
        "features": _features_told(asked.features),
        "log_probabilities": reading.log_probabilities,
        "duplicates": reading.duplicates,
        "columns": {"one": roles.single, "several": roles.several},
        "types": {name: kinds[name] for name in sorted(reading.needed)},
    }
    return dict(plain(told))


def policy_told(what: str, given: Any) -> Any:
    """A policy as names of columns, a word, or a digest of a function's code."""
    if not callable(given):
        return given if given is None or isinstance(given, str) else list(given)
    if hidden := not_in_fingerprint(given):
        raise InputError(
            f"{what} reads {hidden[0]}, and nobody could tell later whether that has changed: its sums are not kept; "
            "give a function that reads numbers, words and arrays alone, or write its probabilities to a column."
        )
    return {"function": engine.fingerprint(given)}


def _features_told(given: Any) -> Any:
    if is_auto(given):
        return "auto"
    if isinstance(given, str):
        return given
    described = make_features(given).to_dict()  # refuses code in a sentence of its own
    arrays = {name: value for name, value in described.items() if isinstance(value, np.ndarray)}
    rest = {name: value for name, value in described.items() if name not in arrays}
    return {"name": described["name"], "digest": checksum(rest, arrays)[:32]}


def refuse_other(folder: Path, before: Question, now: Question) -> None:
    """Refuse a question that is not the one whose sums are kept."""
    for name, given in now.items():
        if before.get(name) != given:
            told = f"{name} was {before.get(name)!r}, and is {given!r}"
            if isinstance(given, dict) or isinstance(before.get(name), dict):
                told = f"{name} is not what it was"
            raise InputError(
                f"the sums in {str(folder)!r} are of another question: {told}; ask as before, or give another folder."
            )


def refuse_unkept(*, action_values: bool = False, many_states: bool = False, episodes_numbered: bool = True) -> None:
    """Refuse what has no sums that could be kept."""
    if action_values:
        raise InputError("sums are kept for values of states, not of actions: leave values='action' or the folder out.")
    if not episodes_numbered:
        raise InputError(
            "sums are kept of logs with a column of episodes, as files that come later may not change which episode is "
            "which: add one, or leave the folder of sums out."
        )
    if many_states:
        raise InputError(
            f"sums are kept of real observations and of up to {DENSE_STATES} states, and this log has more: leave the "
            "folder of sums out."
        )
