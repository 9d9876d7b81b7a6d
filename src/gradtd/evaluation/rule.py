"""One rule of the verdict: a condition, and what is said where it holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from string import Formatter

from gradtd.evaluation.diagnostics import Diagnostics
from gradtd.evaluation.estimate import Estimate


class Kind(Enum):
    """What a rule that holds makes of an estimate."""

    REASON = "not usable"
    UNCHECKED = "unchecked"
    WARNING = "a warning"


@dataclass(frozen=True)
class Evidence:
    """What a rule may look at: the diagnostics ``d``, and the estimates, of which ``row`` is the one asked for."""

    d: Diagnostics
    estimates: Sequence[Estimate]

    @property
    def row(self) -> Estimate:
        return self.estimates[0]


@dataclass(frozen=True)
class Rule:
    """One row of the table.

    Parameters
    ----------
    name
        Two or three words.
    when
        The condition in words, thresholds included, for the docs.
    test
        The condition.
    sentence
        What is said where it holds: ``{d.ess:.0f}`` stands for a number of the diagnostics, ``{row.method}`` for one of
        the estimate.
    kind
        Whether that makes the estimate unusable, leaves it unchecked, or is to be known only.
    """

    name: str
    when: str
    test: Callable[[Evidence], bool]
    sentence: str
    kind: Kind = Kind.REASON

    def said(self, evidence: Evidence) -> str:
        """The sentence about this evaluation."""
        return self.sentence.format(d=evidence.d, row=evidence.row)

    def shown(self) -> str:
        """The sentence with names in place of numbers."""
        parts = Formatter().parse(self.sentence)
        return "".join(text + (f"*{name.partition('.')[2]}*" if name else "") for text, name, _, _ in parts)
