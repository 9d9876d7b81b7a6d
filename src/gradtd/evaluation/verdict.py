"""Whether an estimate can be trusted: every rule is asked, and what holds is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradtd.evaluation.diagnostics import Diagnostics
from gradtd.evaluation.estimate import Estimate
from gradtd.evaluation.rule import Evidence, Kind
from gradtd.evaluation.rules import RULES


@dataclass(frozen=True)
class Verdict:
    """``usable`` or not, the reasons against, and what to know even so."""

    usable: bool
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def word(self) -> str:
        return "usable" if self.usable else "not usable"


def judge(diagnostics: Diagnostics, estimates: Sequence[Estimate]) -> Verdict:
    """What the rules say of an evaluation.

    Parameters
    ----------
    diagnostics
        What was measured.
    estimates
        The rows of the methods, the one asked for first.
    """
    evidence = Evidence(diagnostics, estimates)
    holding = [rule for rule in RULES if rule.test(evidence)]
    said = {kind: tuple(rule.said(evidence) for rule in holding if rule.kind is kind) for kind in Kind}
    return Verdict(not said[Kind.REASON], said[Kind.REASON], said[Kind.WARNING])


def markdown() -> str:
    """The rules as the tables of docs/evaluate.md, one table for each kind."""
    lines = []
    for kind in Kind:
        lines += [f"| {kind.value} | when | what is said |", "|---|---|---|"]
        lines += [f"| {rule.name} | {rule.when} | {rule.shown()} |" for rule in RULES if rule.kind is kind]
        lines.append("")
    return "\n".join(lines)
