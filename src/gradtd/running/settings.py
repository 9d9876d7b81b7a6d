"""Checks, completes and sorts the user's hyper-parameters for the loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradtd.compiled.buffers import Split
from gradtd.compiled.draws import DRAWS, TWO_SIZES, Draws
from gradtd.compiled.plan import Plan
from gradtd.compiled.traces import KINDS, Tracing
from gradtd.core import checks
from gradtd.core.algorithm import REQUIRED, Algorithm, Parameter
from gradtd.core.checks import InputError, above, at_least, choice, optional, whole


def _step_size(name: str, value: Any) -> float:
    if isinstance(value, str) and value == "auto":
        raise InputError(
            f"{name}='auto' works with impression_gtd, and on-policy by td and minibatch_td. Other rules diverge "
            "with every step-size on some problem (tdrc and tdc, for one eta and beta), or their single steps do not "
            f"show which step-size is stable (gtd, gtd2): give {name} a number."
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
        "the weights to report: the last ones, or an average (with alpha=auto: polynomial)",
        choice("none", "uniform", "tail", "polynomial"),
    ),
    "average_from": Parameter(None, "step after which averaging starts (tail: half of them)", optional(whole(0))),
    "average_power": Parameter(3.0, "polynomial average: the weight of a step grows with this power", at_least(0)),
    "limit": Parameter(1e12, "a run with a weight beyond this has diverged", above(0)),
}
TRACES = {
    "lam": Parameter(0.0, "decay of eligibility traces, from 0 (none) to 1", checks.fraction),
    "trace": Parameter("rho", "the factor in a trace: rho, clipped (at 1), or tree", choice(*KINDS)),
}
START = {"start": Parameter(0, "number of steps before learning starts", whole(0))}


def parameters(algorithm: Algorithm) -> dict[str, Parameter]:
    """Every hyper-parameter an algorithm takes, with default, help and check."""
    steps = STEP_SIZE | START if algorithm.step_size else {}
    steps = steps | (TRACES if algorithm.traces is True else {})
    return steps | dict(algorithm.parameters) | dict(DRAWS[algorithm.draws].parameters) | ALWAYS


@dataclass(frozen=True)
class Setup:
    """An algorithm with its hyper-parameters, checked and completed.

    ``hyper`` holds all hyper-parameters, ``given`` holds the names of those that the user gave, and ``numbers`` holds
    those that the rule reads. ``m1`` and ``m2`` are the sizes of the two batches. ``tracing`` describes the traces that
    the rule reads, or is None.
    """

    algorithm: Algorithm
    hyper: Mapping[str, Any]
    given: tuple[str, ...]
    numbers: Mapping[str, float]
    plan: Plan
    draws: Draws
    split: Split
    m1: int
    m2: int
    tracing: Tracing | None = None

    def lasting(self, n_steps: int) -> Setup:
        """The settings for another number of steps, since averaging may begin at another step."""
        return replace(self, plan=self.plan._replace(average_from=_average_from(self.hyper, n_steps)))


def set_up(algorithm: Algorithm, given: Mapping[str, Any], *, n_steps: int, block: int | None = None) -> Setup:
    """Check and complete the hyper-parameters. ``block`` is the problem's block, if any."""
    hyper = _completed(algorithm, given, block)
    batch = hyper.get("batch_size", 0)
    m1, m2 = hyper.get("m1", batch), hyper.get("m2", batch)
    chosen = algorithm.choose(hyper) if algorithm.choose else algorithm
    draws = DRAWS[chosen.draws]
    split = draws.split_of(hyper)
    fill = draws.fill(hyper, (m1, m2))
    plan = Plan(
        alpha=1.0 if _chooses_step_size(hyper) else hyper.get("alpha", np.nan),
        t0=hyper.get("t0", 1.0),
        p=hyper.get("p", 0.0),
        start=hyper.get("start", 0),
        fill_1=fill[0],
        fill_2=fill[1],
        replacement=hyper.get("replacement", True),
        average_from=_average_from(hyper, n_steps),
        average_power=hyper["average_power"] if hyper["average"] == "polynomial" else 0.0,
        limit=hyper["limit"],
    )
    _check_room(hyper, plan, (m1, m2))
    if chosen.read is not None and plan.average_from >= 0:
        raise InputError(
            f"{algorithm.name} as set here finds its weights at snapshots only: there is nothing to average."
        )
    names = [*algorithm.parameters, *(["lam"] if chosen.traces is True else [])]
    own = {name: hyper[name] for name in names if isinstance(hyper[name], (int, float))}
    numbers = {name: float(value) for name, value in own.items()} | {"alpha": plan.alpha}
    return Setup(chosen, hyper, tuple(given), numbers, plan, draws, split, m1, m2, _tracing(chosen, hyper))


def _tracing(chosen: Algorithm, hyper: Mapping[str, Any]) -> Tracing | None:
    """The traces that a rule reads: none if lam is 0, since they would equal the features."""
    if chosen.traces is not True or (hyper["lam"] == 0 and not chosen.emphatic):
        return None
    return Tracing(hyper["lam"], hyper["trace"], chosen.emphatic)


def _completed(algorithm: Algorithm, given: Mapping[str, Any], block: int | None) -> dict[str, Any]:
    """Every hyper-parameter of the algorithm, as given or by default."""
    known = parameters(algorithm)
    given = _without_traces(algorithm, given, known)
    for name in given:
        checks.known_name(f"hyper-parameter of {algorithm.name}", name, known)
    hyper: dict[str, Any] = {}
    for name, parameter in known.items():
        value = given.get(name, parameter.default)
        if value is REQUIRED:
            raise InputError(f"{algorithm.name} needs {name} ({parameter.help}), for example {name}=0.1.")
        hyper[name] = value if name not in given and value is None else parameter.check(name, value)
    if "block" in hyper and hyper["block"] is None:
        hyper["block"] = block
    if _chooses_step_size(hyper) and "average" not in given:
        hyper["average"] = "polynomial"
    for name in TWO_SIZES:
        if name in hyper and hyper[name] is None:
            hyper[name] = hyper["batch_size"]
    return hyper


def _without_traces(
    algorithm: Algorithm, given: Mapping[str, Any], known: Mapping[str, Parameter]
) -> Mapping[str, Any]:
    """Check ``lam`` and ``trace`` of a rule without traces: it accepts lam=0 and explains why it refuses other
    values."""
    asked = {name: TRACES[name].check(name, given[name]) for name in given if name in TRACES and name not in known}
    if not asked:
        return given
    refuse_traces(algorithm, asked.get("lam", 0.0))
    if "lam" in known and asked["trace"] != TRACES["trace"].default:
        raise InputError(
            f"{algorithm.name} takes trace='rho' only, got {asked['trace']!r}: it computes its traces with the "
            "full ratio."
        )
    return {name: value for name, value in given.items() if name not in asked}


def refuse_traces(algorithm: Algorithm, lam: float) -> None:
    """Explain why a rule does not support traces."""
    if lam > 0 and algorithm.traces is not True and "lam" not in algorithm.parameters:
        why = algorithm.traces if isinstance(algorithm.traces, str) else "it does not read traces"
        raise InputError(f"{algorithm.name} takes lam=0 only, got {lam:g}: {why}.")


def _chooses_step_size(hyper: Mapping[str, Any]) -> bool:
    return isinstance(hyper.get("alpha"), str)


def _average_from(hyper: Mapping[str, Any], n_steps: int) -> int:
    if hyper["average"] == "none":
        return -1
    if hyper["average_from"] is not None:
        return int(hyper["average_from"])
    return n_steps // 2 if hyper["average"] == "tail" else 0


def _check_room(hyper: Mapping[str, Any], plan: Plan, sizes: tuple[int, int]) -> None:
    """Check that a bounded buffer is large enough to start learning and to draw a batch."""
    capacity = hyper.get("capacity")
    dealt = hyper.get("split") == "episode-index"
    wanted = sum(plan.fill) if dealt else max(plan.fill)
    if capacity is not None and capacity <= wanted:
        raise InputError(
            f"capacity must be greater than {wanted} so that learning can start "
            f"(a buffer must hold more than {'both batches' if dealt else 'a batch'}), got {capacity}."
        )
    if not plan.replacement and min(plan.fill_1 - sizes[0], plan.fill_2 - sizes[1]) < -1:
        raise InputError(
            f"fill={hyper['fill']} lets learning start before a batch of {max(sizes)} can be drawn without replacement."
        )
