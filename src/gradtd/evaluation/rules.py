"""The table of rules that a verdict is made of.

A rule is added by a row of `REASONS` or `REMARKS`. `gradtd.evaluation.verdict.markdown` makes the table in
docs/evaluate.md of them.
"""

from __future__ import annotations

from gradtd.evaluation.reasons import REASONS
from gradtd.evaluation.remarks import REMARKS
from gradtd.evaluation.rule import Rule

RULES: tuple[Rule, ...] = (*REASONS, *REMARKS)
