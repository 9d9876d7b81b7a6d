"""Judging the claims: each one under every reading that its figures have, and as it was judged before a change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradtd.paper.changes import CHANGES
from gradtd.paper.claim_base import Claim, Sweeps
from gradtd.paper.claims import CLAIMS
from gradtd.paper.criteria import Curves, Outcome
from gradtd.paper.figures import DIRECTIONS, PAPER_PROBLEMS

Drawn = Mapping[tuple[str, str], Curves]
"""Curves by the label of their figure and the reading."""


def verdicts(curves: Drawn, sweeps: Sweeps) -> list[dict[str, Any]]:
    """The verdict on every claim whose figures, or sweeps, are all there."""
    there = {label for label, _ in curves}
    swept = set(sweeps) == set(PAPER_PROBLEMS)
    testable = [claim for claim in CLAIMS if (set(claim.figures) <= there if claim.parts else swept)]
    return [verdict(claim, curves, sweeps) for claim in testable]


def verdict(claim: Claim, curves: Drawn, sweeps: Sweeps) -> dict[str, Any]:
    """One claim judged: the verdict in words, what was measured under each reading, and an explanation.

    ``before`` has the same by the criterion as it was first written, and why that was changed; None where it was not.
    """
    changed = [change for change in CHANGES if claim.id in change.now]
    before = {**_judged(changed[0].before, curves, sweeps), "why": changed[0].why} if changed else None
    return {**_judged(claim, curves, sweeps), "before": before}


def _judged(claim: Claim, curves: Drawn, sweeps: Sweeps) -> dict[str, Any]:
    outcomes = _outcomes(claim, curves, sweeps)
    explanation = ""
    if not outcomes["A1"].holds and claim.explain is not None:
        explanation = claim.explain(_under(claim, curves, "A1"))
    return {
        "id": claim.id,
        "statement": claim.statement,
        "figures": list(claim.figures),
        "verdict": _word(outcomes),
        "readings": {r: {"holds": outcome.holds, "measured": outcome.measured} for r, outcome in outcomes.items()},
        "explanation": explanation,
    }


def _outcomes(claim: Claim, curves: Drawn, sweeps: Sweeps) -> dict[str, Outcome]:
    """What was measured under the first reading, and under those where it was something else."""
    if claim.sweep is not None:
        return {"A1": claim.sweep(sweeps)}
    shared = [{r for label, r in curves if label == figure} for figure in claim.figures]
    readings = [r for r in DIRECTIONS if all(r in each or each == {"A1"} for each in shared)]
    outcomes = {r: claim.judge(_under(claim, curves, r)) for r in readings}
    first = outcomes["A1"]
    return {r: o for r, o in outcomes.items() if r == "A1" or o.measured != first.measured}


def _word(outcomes: Mapping[str, Outcome]) -> str:
    holding = [r for r, outcome in outcomes.items() if outcome.holds]
    if outcomes["A1"].holds:
        return "reproduces"
    if holding:
        return f"reproduces under reading {holding[0]}"
    return "undecided" if outcomes["A1"].holds is None else "does not reproduce"


def _under(claim: Claim, curves: Drawn, reading: str) -> dict[str, Curves]:
    return {f: curves.get((f, reading), curves[f, "A1"]) for f in claim.figures}
