"""Whether an estimate can be trusted: `judge` asks every rule, and reports the sentences of those that hold.

A rule is added by a row of `REASONS` or `WARNINGS`; `markdown` makes the tables of docs/evaluate.md of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradtd.evaluation.limits import DEFAULT, Limits
from gradtd.evaluation.report.diagnostics import Diagnostics
from gradtd.evaluation.report.estimate import Estimate
from gradtd.evaluation.report.reasons import REASONS
from gradtd.evaluation.report.rule import Evidence, Kind, Rule
from gradtd.evaluation.report.warnings import WARNINGS

RULES: tuple[Rule, ...] = (*REASONS, *WARNINGS)
"""Every rule, in the order in which the report shows their sentences."""


@dataclass(frozen=True)
class Verdict:
    """The reasons against an estimate, what could not be checked, and warnings."""

    against: tuple[str, ...]
    unchecked: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def word(self) -> str:
        """usable, unchecked or not usable: what could not be checked does not count as passed."""
        return "not usable" if self.against else "unchecked" if self.unchecked else "usable"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the word is not "usable"."""
        return self.against + self.unchecked


def judge(diagnostics: Diagnostics, estimates: Sequence[Estimate], limits: Limits = DEFAULT) -> Verdict:
    """The verdict on an evaluation.

    Parameters
    ----------
    diagnostics
        What was measured.
    estimates
        The rows of the methods, the one asked for first.
    limits
        The thresholds.
    """
    evidence = Evidence(diagnostics, estimates, limits)
    holding = [rule for rule in RULES if rule.test(evidence)]
    said = {kind: tuple(rule.said(evidence) for rule in holding if rule.kind is kind) for kind in Kind}
    return Verdict(said[Kind.REASON], said[Kind.UNCHECKED], said[Kind.WARNING])


def markdown(limits: Limits = DEFAULT) -> str:
    """The rules as the tables of docs/evaluate.md, one table for each kind."""
    lines = []
    for kind in Kind:
        lines += [f"| {kind.value} | when | the report says |", "|---|---|---|"]
        lines += [rule.in_table(limits) for rule in RULES if rule.kind is kind]
        lines.append("")
    return "\n".join(lines)
