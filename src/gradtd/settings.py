"""From what a user writes to what the loop needs: hyper-parameters checked, completed and sorted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd import checks
from gradtd.algorithms.parameters import above, at_least, choice, whole
from gradtd.buffers import SPLITS
from gradtd.checks import InputError
from gradtd.types import REQUIRED, Algorithm, Parameter, Plan


def _optional(check: Any) -> Any:
    return lambda name, value: None if value is None else check(name, value)


def _step_size(name: str, value: Any) -> float:
    if isinstance(value, str) and value == "auto":
        raise InputError(
            f"{name}='auto' is offered by impression_gtd alone: other rules may diverge with every step-size; "
            f"give {name} a number."
        )
    return checks.number_above(name, value, 0)


STEP_SIZE = {
    "alpha": Parameter(REQUIRED, "step-size", _step_size),
    "t0": Parameter(1000.0, "the step-size of update n is alpha / (1 + n / t0)^p", above(0)),
    "p": Parameter(0.0, "power of the decay; 0 keeps the step-size constant", at_least(0)),
}
ALWAYS = {
    "average": Parameter(
        "none",
        "weights reported: the last ones, or an average (with alpha=auto: polynomial)",
        choice("none", "uniform", "tail", "polynomial"),
    ),
    "average_from": Parameter(None, "step after which averaging starts (tail: half of them)", _optional(whole(0))),
    "average_power": Parameter(3.0, "polynomial average: weights grow like this power", at_least(0)),
    "limit": Parameter(1e12, "a run with a weight beyond this has diverged", above(0)),
}
START = {"start": Parameter(0, "number of steps before learning starts", whole(0))}
SIZE = {"batch_size": Parameter(32, "steps in a batch", whole(1))}
ONE_BATCH = SIZE | {
    "capacity": Parameter(None, "most steps a buffer holds; the oldest leaves first", _optional(whole(1))),
    "replacement": Parameter(True, "draw with replacement", checks.yes_or_no),
}
FILL = {"fill": Parameter(None, "learning starts when buffers hold more than this", _optional(whole(0)))}
TWO_SIZES = {
    "m1": Parameter(None, "size of batch 1, for the gradient (else batch_size)", _optional(whole(1))),
    "m2": Parameter(None, "size of batch 2, for the TD error (else batch_size)", _optional(whole(1))),
}
TWO_BUFFERS = {
    "split": Parameter("odd-even", "how the two buffers are kept independent", choice(*SPLITS)),
    "block": Parameter(None, "steps that count as one episode, where the problem has none", _optional(whole(1))),
}

_BY_DRAWS: dict[str, dict[str, Parameter]] = {
    "nothing": {},
    "new batch": SIZE,
    "one batch": ONE_BATCH | FILL,
    "other batch": ONE_BATCH | FILL | TWO_BUFFERS,
    "two buffers": FILL | TWO_BUFFERS,
    "two batches": ONE_BATCH | FILL | TWO_SIZES | TWO_BUFFERS,
}


def parameters(algorithm: Algorithm) -> dict[str, Parameter]:
    """Every hyper-parameter an algorithm takes, with default, help and check."""
    steps = STEP_SIZE | START if algorithm.step_size else {}
    return steps | dict(algorithm.parameters) | _BY_DRAWS[algorithm.draws] | ALWAYS


@dataclass(frozen=True)
class Setup:
    """An algorithm with its hyper-parameters, ready to be run on streams of a known size."""

    algorithm: Algorithm
    hyper: Mapping[str, Any]
    given: tuple[str, ...]
    numbers: Mapping[str, float]
    plan: Plan
    split: str
    m1: int
    m2: int


def set_up(algorithm: Algorithm, given: Mapping[str, Any], *, n_steps: int, block: int | None) -> Setup:
    """Check and complete the hyper-parameters; ``block`` is the problem's own, where it has one."""
    known = parameters(algorithm)
    hyper: dict[str, Any] = {}
    for name in given:
        checks.known_name(f"hyper-parameter of {algorithm.name}", name, known)
    for name, parameter in known.items():
        value = given.get(name, parameter.default)
        if value is REQUIRED:
            raise InputError(f"{algorithm.name} needs {name} ({parameter.help}), for example {name}=0.1.")
        hyper[name] = value if name not in given and value is None else parameter.check(name, value)
    if "block" in hyper and hyper["block"] is None:
        hyper["block"] = block
    auto = isinstance(hyper.get("alpha"), str)
    if auto and "average" not in given:
        hyper["average"] = "polynomial"
    batch = hyper.get("batch_size", 0)
    for name in TWO_SIZES:
        if name in hyper and hyper[name] is None:
            hyper[name] = batch
    m1, m2 = hyper.get("m1", batch), hyper.get("m2", batch)
    chosen = algorithm.choose(hyper) if algorithm.choose else algorithm
    fill = hyper.get("fill")
    draws = chosen.draws
    uses_batches = draws in ("one batch", "other batch", "two batches")
    plan = Plan(
        alpha=1.0 if auto else hyper.get("alpha", np.nan),
        t0=hyper.get("t0", 1.0),
        p=hyper.get("p", 0.0),
        start=hyper.get("start", 0),
        fill_1=(m1 if uses_batches else 0) if fill is None else fill,
        fill_2=(m2 if uses_batches else 0) if fill is None else fill,
        replacement=hyper.get("replacement", True),
        average_from=_average_from(hyper, n_steps),
        average_power=hyper["average_power"] if hyper["average"] == "polynomial" else 0.0,
        limit=hyper["limit"],
    )
    _check_room(hyper, plan, m1, m2)
    if chosen.read is not None and plan.average_from >= 0:
        raise InputError(
            f"{algorithm.name} as set here finds its weights at snapshots only: there is nothing to average."
        )
    split = {"nothing": "latest", "new batch": "latest", "one batch": "none"}.get(draws, hyper.get("split", "none"))
    own = {name: hyper[name] for name in algorithm.parameters if isinstance(hyper[name], (int, float))}
    numbers = {name: float(value) for name, value in own.items()} | {"alpha": plan.alpha}
    return Setup(chosen, hyper, tuple(given), numbers, plan, split, m1, m2)


def _average_from(hyper: Mapping[str, Any], n_steps: int) -> int:
    if hyper["average"] == "none":
        return -1
    if hyper["average_from"] is not None:
        return int(hyper["average_from"])
    return n_steps // 2 if hyper["average"] == "tail" else 0


def _check_room(hyper: Mapping[str, Any], plan: Plan, m1: int, m2: int) -> None:
    """A bounded buffer must be able to hold what learning waits for, and what a batch takes."""
    capacity = hyper.get("capacity")
    dealt = hyper.get("split") == "episode-index"
    wanted = plan.fill_1 + plan.fill_2 if dealt else max(plan.fill_1, plan.fill_2)
    if capacity is not None and capacity <= wanted:
        raise InputError(
            f"capacity must be greater than {wanted} so that learning can start "
            f"(a buffer must hold more than {'both batches' if dealt else 'a batch'}), got {capacity}."
        )
    if not plan.replacement and min(plan.fill_1 - m1, plan.fill_2 - m2) < -1:
        raise InputError(
            f"fill={hyper['fill']} lets learning start before a batch of {max(m1, m2)} "
            "can be drawn without replacement."
        )
