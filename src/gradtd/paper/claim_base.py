"""What a claim is, and the words that claims share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gradtd.paper.criteria import Criterion, Curves, Outcome, combined

IM = "Impression GTD"
TWO = ("TD", "TDRC")
BASELINES = ("TD", "TDRC", "TDC", "GTD2", "GTD", "HTD", "Vtrace")
Sweeps = Mapping[str, Mapping[str, Any]]

MUCH, FAR = 0.8, 0.5
"""Much lower: at most .8 of the other error. Far off, or biased: at least twice the other error."""
INITIAL = 5000
"""The paper names no step for "the initial stage". It is at most half of the curve."""


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper in our words, and the criteria it must meet."""

    id: str
    statement: str  # id and statement: its number in the list, and what it says
    parts: tuple[tuple[str, Criterion], ...] = ()
    """Pairs of a figure's label and a criterion. The claim holds where all of them do."""
    sweep: Callable[[Sweeps], Outcome] | None = None  # judges by the step-size sweeps instead
    explain: Callable[[Mapping[str, Curves]], str] | None = None  # what we think, where it does not hold

    @property
    def figures(self) -> tuple[str, ...]:
        return tuple(figure for figure, _ in self.parts)

    def judge(self, curves: Mapping[str, Curves]) -> Outcome:
        outcomes = [criterion(curves[figure]) for figure, criterion in self.parts]
        if len(outcomes) > 1:
            names = [figure.partition(":")[2] for figure in self.figures]
            outcomes = [replace(o, measured=f"{n}: {o.measured}") for n, o in zip(names, outcomes, strict=True)]
        return combined(outcomes)


def at(figure: str, criterion: Criterion) -> tuple[tuple[str, Criterion], ...]:
    """The parts of a claim about one figure."""
    return ((figure, criterion),)


def sizes(*each: int) -> list[str]:
    """Labels of Impression GTD at these batch sizes."""
    return [f"{IM} m={m}" for m in each]


def alphas(*each: float) -> list[str]:
    """Labels of Impression GTD at these step-sizes."""
    return [f"{IM} alpha={alpha:g}" for alpha in each]
