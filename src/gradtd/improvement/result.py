"""What `improve` returns: the answer, the policy, its value, the paired difference, and where the policies differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gradtd.core.arrays import plain
from gradtd.evaluation.report.comparison import Difference, Evaluations
from gradtd.improvement.changes import Change
from gradtd.improvement.policy import ImprovedPolicy
from gradtd.output.tables import Table

if TYPE_CHECKING:
    from rich.console import Group

BETTER, NO_EVIDENCE, CANNOT_TELL = "better", "no evidence", "cannot tell"
SHOWN = 10
"""Maximum number of differences between the policies that are printed."""


@dataclass(frozen=True)
class Candidate:
    """One policy that was learned and evaluated.

    Parameters
    ----------
    least
        How often an action must occur in the log for its probability to change.
    iterations
        Maximum number of policy iterations.
    moved
        Share of the behaviour's probability that the policy changes, averaged over the steps of the log.
    difference
        Its value minus the behaviour's, or None if it equals the behaviour.
    """

    least: float
    iterations: int
    moved: float
    difference: Difference | None


@dataclass(frozen=True, eq=False)
class Improvement:
    """Whether a log shows a better policy than the one that made it. Made by `gradtd.improve`.

    Parameters
    ----------
    answer
        "better", "no evidence" (no candidate is shown to be better), or "cannot tell" (no candidate could be
        evaluated).
    policy
        The chosen policy, whether better or not, or None if the log allows only the behaviour.
    value, interval
        Its value, estimated on episodes that it was not learned from.
    behaviour_value, behaviour_interval
        The value of the behaviour policy.
    difference
        The paired difference of the two values, with the verdict on both, or None if no policy was evaluated.
    reasons
        Sentences that explain why a difference is not usable or unchecked.
    episodes_needed
        Approximate number of episodes needed to show a difference of this size, or None if unknown.
    candidates
        All policies that were evaluated, with simultaneous intervals.
    changes
        Where the chosen policy differs from the behaviour.
    evaluations
        The evaluations of the candidates and of the behaviour, by name.
    level
        The simultaneous level of the intervals of all candidates.
    episodes, steps
        The size of the log.
    log
        The name of the log.
    """

    answer: str
    policy: ImprovedPolicy | None
    value: float
    interval: tuple[float, float]
    behaviour_value: float
    behaviour_interval: tuple[float, float]
    difference: Difference | None
    reasons: tuple[str, ...]
    episodes_needed: int | None
    candidates: tuple[Candidate, ...]
    changes: tuple[Change, ...]
    evaluations: Evaluations
    level: float
    episodes: int
    steps: int
    log: str = "log"

    @property
    def better(self) -> bool:
        """Whether the policy is shown to be better than the behaviour."""
        return self.answer == BETTER

    @property
    def verdict(self) -> str:
        """The verdict of the difference: "usable", "unchecked" or "not usable"."""
        return "not usable" if self.difference is None else self.difference.verdict

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        row = self.difference
        if row is None:
            first = "No evidence that" if self.answer == NO_EVIDENCE else "The log cannot tell whether"
            return f"{first} anything is better: {self.reasons[0]}"
        found = f"{row.value:.4g} [{row.low:.4g}, {row.high:.4g}]" if row.low is not None else f"{row.value:.4g}"
        more = f" About {self.episodes_needed:,} episodes would show it." if self.episodes_needed else ""
        if self.better:
            return f"Better by {found}."
        if self.answer == NO_EVIDENCE:
            gain = f" The estimated difference, {found}, could be chance."
            return f"No evidence that anything is better.{gain}{more}"
        why = self.reasons[0] if self.reasons else "the difference has no interval."
        return f"The log cannot tell whether anything is better. {why}{more}"

    def to_dict(self) -> dict[str, Any]:
        """Everything except arrays, for JSON; non-finite numbers become None."""
        names = ("answer", "sentence", "verdict", "reasons", "value", "interval", "behaviour_value")
        rest = ("behaviour_interval", "episodes_needed", "level", "episodes", "steps", "log")
        told = {name: getattr(self, name) for name in (*names, *rest)}
        told["difference"] = None if self.difference is None else vars(self.difference)
        told["candidates"] = [
            vars(one) | {"difference": None if one.difference is None else vars(one.difference)}
            for one in self.candidates
        ]
        told["changes"] = [vars(one) for one in self.changes]
        return dict(plain(told))

    def __repr__(self) -> str:
        return f"Improvement({self.sentence} {self.verdict}; {self.episodes} episodes, {self.steps} steps)"

    def tables(self) -> list[Table]:
        """The values, the candidates, and where the policies differ."""
        values = [("behaviour", self.behaviour_value, *self.behaviour_interval)]
        if self.difference is not None:
            row = self.difference
            values.append(("improved", self.value, *self.interval))
            if row.low is not None and row.high is not None:
                values.append(("difference", row.value, row.low, row.high))
        title = f"{self.level:.0%} intervals; the improved policy is evaluated on episodes that it was not learned from"
        cells = [(name, *(f"{number:.5g}" for number in numbers)) for name, *numbers in values]
        made = [Table(title, ["", "value", "low", "high"], cells, words=1)]
        if any(one.difference for one in self.candidates):
            made.append(_of_candidates(self.candidates))
        if self.changes:
            made.append(_of_changes(self.changes))
        return made

    def __rich__(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        colour = {"usable": "green", "unchecked": "yellow", "not usable": "red"}[self.verdict]
        lines: list[Any] = [Text(self.sentence, "bold"), Text(f"verdict: {self.verdict}", colour)]
        said = self.reasons if self.difference is not None else ()
        lines += [Text(f"  {reason}") for reason in said]
        for table in self.tables():
            lines += ["", Text(table.text())]
        return Group(*lines)


def _of_candidates(candidates: tuple[Candidate, ...]) -> Table:
    rows = []
    for one in candidates:
        row = one.difference
        numbers = (None, None, None) if row is None else (row.value, row.low, row.high)
        cells = ["-" if number is None else f"{number:.5g}" for number in numbers]
        word = "moves nothing" if row is None else row.verdict
        rows.append((f"{one.least:g}", str(one.iterations), f"{one.moved:.1%}", *cells, word))
    title = (
        "Candidates: an action's probability changes where the log took it at least this often (simultaneous intervals)"
    )
    return Table(title, ["times", "iterations", "moved", "difference", "low", "high", "verdict"], rows)


def _of_changes(changes: tuple[Change, ...]) -> Table:
    rows = [
        (
            one.where,
            f"{one.less} -> {one.more}",
            f"{one.behaviour:.2f} -> {one.improved:.2f}",
            str(one.taken),
            str(one.steps),
        )
        for one in changes[:SHOWN]
    ]
    left = len(changes) - SHOWN
    notes = [f"... and {left} more."] if left > 0 else []
    columns = ["where", "action", "probability", "times taken", "of steps"]
    return Table("Where the policies differ, most steps first", columns, rows, words=2, notes=notes)
