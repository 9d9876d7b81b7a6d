"""Whether an estimate can be trusted: every rule is asked, and what holds is said.

A rule is added by a row of `REASONS` or `WARNINGS`; `markdown` makes the tables of docs/evaluate.md of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradtd.evaluation.report.diagnostics import Diagnostics
from gradtd.evaluation.report.estimate import Estimate
from gradtd.evaluation.report.reasons import REASONS
from gradtd.evaluation.report.rule import Evidence, Kind, Rule
from gradtd.evaluation.report.warnings import WARNINGS

RULES: tuple[Rule, ...] = (*REASONS, *WARNINGS)
"""Every rule, in the order in which their sentences are shown."""


@dataclass(frozen=True)
class Verdict:
    """The reasons against, what could not be checked, and what to know even so."""

    against: tuple[str, ...]
    unchecked: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def word(self) -> str:
        """Nothing that could not be checked counts as passed."""
        return "not usable" if self.against else "unchecked" if self.unchecked else "usable"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the word is not usable."""
        return self.against + self.unchecked


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
    return Verdict(said[Kind.REASON], said[Kind.UNCHECKED], said[Kind.WARNING])


def markdown() -> str:
    """The rules as the tables of docs/evaluate.md, one table for each kind."""
    lines = []
    for kind in Kind:
        lines += [f"| {kind.value} | when | what is said |", "|---|---|---|"]
        lines += [f"| {rule.name} | {rule.when} | {rule.shown()} |" for rule in RULES if rule.kind is kind]
        lines.append("")
    return "\n".join(lines)
