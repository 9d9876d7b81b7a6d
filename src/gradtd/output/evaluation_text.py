"""Evaluations and comparisons as text, for terminals, notebooks and frames."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gradtd.core.checks import printable
from gradtd.core.frames import make_frame
from gradtd.output.extra_lines import HEADING, assumption_lines, extra_lines
from gradtd.output.notebook_cells import chance
from gradtd.output.pages import render

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from gradtd.evaluation.decide import Check
    from gradtd.evaluation.report.comparison import Comparison
    from gradtd.evaluation.report.decision import TargetDecision
    from gradtd.evaluation.report.result import Evaluation


_MEANING = (
    ("lam", "Lambda of the traces", "{:g}"),
    ("trace", "Ratio in the traces", "{}"),
    ("ess", "Effective sample size, in steps", "{:.0f} of {steps}"),
    ("ess_marginal", "Effective sample size of the marginal weights, in steps", "{:.0f} of {steps}"),
    ("ess_marginal_episodes", "The same in episodes", "{:.1f} of {episodes}"),
    ("ess_episodes", "Effective sample size of whole-episode weights, in episodes", "{:.1f} of {episodes}"),
    ("largest_ratio", "Largest importance ratio of a step", "{:.3g}"),
    ("top_hundredth_carries", "Share of total weight held by the largest 1% of ratios", "{:.1%}"),
    ("mean_ratio", "Mean importance ratio (1 with correct probabilities)", "{:.4g}"),
    ("mean_ratio_off", "Its distance from 1, in standard errors", "{:+.1f}"),
    ("unseen_mass", "Target's probability of actions the log never took", "{:.2g}"),
    ("never_taken", "Target's next actions that the log never took in that state", "{:.2%}"),
    ("never_taken_effect", "Change of the value without them, in standard errors", "{:.2f}"),
    ("outside_range", "Target's actions outside the range of the log's", "{:.2%}"),
    ("terminated", "Episodes that terminated", "{}"),
    ("truncated", "Episodes that were truncated", "{}"),
    ("features", "Features", "{}"),
    ("solved_by", "Solver of the log's equations", "{}"),
    ("undetermined_directions", "Directions of feature space that the log does not determine", "{}"),
    ("condition_A", "Condition number of A, in the features used for learning", "{:.3g}"),
    ("condition_C", "Condition number of C (features scaled)", "{:.3g}"),
    ("neu_start", "Norm of the mean TD update, squared (NEU), at zero weights", "{:.3g}"),
    ("neu_end", "The same at the final weights", "{:.3g}"),
    ("updates", "Updates", "{}"),
    ("moved", "Change of the value in the second half of the updates, in standard errors", "{:.2f}"),
    ("from_lstd", "Distance from LSTD, in standard errors", "{:.2f}"),
    ("error_ratio", "Standard error by refits over the sandwich error", "{:.2f}"),
    ("from_dr", "Distance from doubly robust, in standard errors of the difference", "{:.2f}"),
    ("resamples", "Bootstrap samples of the episodes", "{}"),
    ("refits", "Refits of the method on them", "{}"),
    ("refits_lost", "Share of the refits that failed", "{:.1%}"),
    ("effective_pieces", "Episodes that the value rests on, by their influence", "{:.1f} of {episodes}"),
    ("refit_bias", "Bias with a tenth of the episodes left out, in standard errors", "{:.2f}"),
    ("lacking", "Share of the target's choices that the log lacks", "{:.1%}"),
    ("lacking_moves", "How far these could move the value, over half its interval", "{:.2f}"),
    ("surprises_met", "Effective number of steps behind the error", "{:.1f}"),
    ("model_moves", "Change of the value with another model of the behaviour, over the allowed change", "{:.2f}"),
    ("dependence", "Variance over that of independent episodes or blocks", "{:.2f}"),
    ("richer_checks", "Richer fits precise enough to count", "{}"),
    ("memory_checks", "Fits with memory precise enough to count", "{}"),
    ("hull_times", "Width of the interval over that of the chosen features alone", "{:.2f}"),
)
"""Diagnostics in the order of the table: name, label, and how the number is shown."""


_OF_RATIOS = (
    "ess",
    "ess_episodes",
    "largest_ratio",
    "top_hundredth_carries",
    "mean_ratio",
    "mean_ratio_off",
    "lacking",
)
"""Diagnostics of the ratios, hidden for action values, whose ratios are all 1."""


def explained(evaluation: Evaluation) -> list[tuple[str, str]]:
    """The label and the number of every diagnostic that is known."""
    numbers = evaluation.numbers
    hidden = _OF_RATIOS if numbers.get("values") == "action" else ()
    known = [entry for entry in _MEANING if numbers.get(entry[0]) is not None and entry[0] not in hidden]
    return [(text, form.format(numbers[name], **numbers)) for name, text, form in known]


def _text(words: str, style: str = "") -> Text:
    """Text for the terminal without control characters, which names of columns and targets may contain."""
    from rich.text import Text

    return Text(printable(words), style)


def headline(evaluation: Evaluation) -> str:
    """The value with its interval, in one line."""
    low, high = evaluation.interval
    return f"value {evaluation.value:.5g}, {evaluation.level:.0%} interval {low:.5g} to {high:.5g}"


COLOUR = {"usable": "green", "unchecked": "yellow", "not usable": "red"}
"""Colours of the verdicts on the terminal."""


def summary_lines(evaluation: Evaluation, name: str = "") -> list[str]:
    """Value, interval, verdict and reasons, the behaviour's value, the evidence, and how the log was interpreted."""
    lines = [f"{name}{headline(evaluation)}", f"{evaluation.verdict}{_agreed(evaluation)}"]
    lines += [f"  - {sentence}" for sentence in evaluation.reasons]
    lines += extra_lines(evaluation)
    lines += [f"warning: {sentence}" for sentence in evaluation.warnings]
    lines += ["", *evidence_lines(evaluation), "", *([READ_AS] if (read := understood_lines(evaluation)) else [])]
    lines += [f"  {line}" for line in read]
    size = f"{evaluation.steps} steps, {evaluation.episodes} episodes; {evaluation.features.describe()}"
    return [printable(line) for line in (*lines, *[""] * bool(read), size)]


def _agreed(evaluation: Evaluation) -> str:
    return "" if evaluation.reasons else ": All required checks ran and passed."


def evidence_rows(evaluation: Evaluation) -> list[tuple[str, str, str]]:
    """The behaviour's own value and the gain over it, then five rows of evidence with a word each."""
    own, rows = evaluation.behaviour, []
    if own is not None:
        rows.append(("Behaviour's own value", f"{own.value:.5g}", f"{own.low:.5g} to {own.high:.5g}"))
        rows.append(("Target minus behaviour", f"{own.gain:.5g}", f"{own.gain_low:.5g} to {own.gain_high:.5g}"))
    return rows + [(line.what, line.word, line.number) for line in evaluation.evidence]


def evidence_lines(evaluation: Evaluation) -> list[str]:
    """The same as text."""
    rows = evidence_rows(evaluation)
    wide, middle = (max(len(row[place]) for row in rows) for place in (0, 1))
    return [f"{what:{wide}}  {second:>{middle}}  {third}" for what, second, third in rows]


def on_terminal(
    evaluation: Evaluation, name: str = "", verbose: bool = False, say: Callable[[str], str] = str
) -> Group:
    """For the terminal: value and verdict, evidence, methods, assumptions, with ``verbose`` all diagnostics and checks.

    ``say`` turns parameters in sentences about assumptions into options.
    """
    from rich.console import Group

    colour = COLOUR.get(evaluation.verdict, "red")
    agreed = _agreed(evaluation)
    lines = [_text(f"{name}{headline(evaluation)}", "bold"), _text(evaluation.verdict, colour).append(agreed, "none")]
    lines += [_text(f"  - {sentence}") for sentence in evaluation.reasons]
    lines += [_text(line) for line in extra_lines(evaluation)]
    for title, sentences in (("warning", evaluation.warnings), ("note", evaluation.notes)):
        lines += [_text(f"{title}: {sentence}") for sentence in sentences]
    lines += [_text(""), *(_text(line) for line in evidence_lines(evaluation))]
    read = [_text(f"  {line}") for line in understood_lines(evaluation)]
    if read:
        lines += [_text("")] * bool(lines) + [_text(READ_AS, "bold"), *read]
    size = f"{evaluation.steps} steps, {evaluation.episodes} episodes; {evaluation.features.describe()}"
    parts: list[Any] = [_methods(evaluation), "", _text(HEADING, "bold")]
    parts += [*(_text(f"  {say(line)}") for line in assumption_lines(evaluation)), ""]
    if verbose:
        parts += [_diagnostics(evaluation), ""]
    if verbose and evaluation.checks:
        parts += [_checks(evaluation), ""]
    return Group(*lines, "", _text(size), _text(evaluation.resampling), "", *parts)


READ_AS = "How the log was read (? marks a guess)"
"""The heading of that table, in every output."""


def understood_lines(evaluation: Evaluation) -> list[str]:
    """How the log was interpreted, without the lines shown as notes and warnings."""
    return replace(evaluation.understood, notes=(), warnings=()).lines()


def _checks(evaluation: Evaluation) -> Table:
    from rich.table import Table

    table = Table("features", "kind", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("columns", "value", "low", "high"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for row in evaluation.checks:
        numbers = (f"{number:.5g}" for number in (row.value, row.low, row.high))
        table.add_row(_text(row.name), _text(row.kind), str(row.columns), *numbers, _text(remark(row)))
    return table


def remark(row: Check) -> str:
    """Whether a rung was chosen, and the faults of a fit."""
    return ", ".join(text for text in ("chosen" if row.chosen else "", row.fault) if text)


def _methods(evaluation: Evaluation) -> Table:
    from rich.table import Table

    table = Table("method", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("value", "low", "high"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for row in evaluation.estimates:
        cells = ["-" if number is None else f"{number:.5g}" for number in (row.value, row.low, row.high)]
        table.add_row(_text(row.label), *cells, _text(row.remark), style="dim" if row.mark == "weak" else None)
    return table


def _diagnostics(evaluation: Evaluation) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(justify="right", no_wrap=True)
    for text, number in explained(evaluation):
        table.add_row(_text(text), _text(number))
    return table


def in_notebook(evaluation: Evaluation) -> str:
    """The value, the verdict and the methods as a piece of HTML."""
    read = {"read_as": READ_AS, "understood": understood_lines(evaluation)}
    own = evaluation.behaviour
    return render("evaluation_cell.html", e=evaluation, headline=headline(evaluation), own=own, **read)


def as_frame(evaluation: Evaluation) -> Any:
    """The estimates as a pandas frame, one row per method."""
    return make_frame([vars(row) for row in evaluation.estimates], index="method")


def as_text(shown: Any) -> str:
    """The output of `rich` as plain text of any width."""
    from rich.console import Console

    console = Console(width=10_000, file=io.StringIO(), highlight=False, color_system=None)
    console.print(shown)
    return "\n".join(line.rstrip() for line in console.file.getvalue().rstrip().splitlines())  # type: ignore[attr-defined]


def decided(decision: TargetDecision) -> str:
    """A decision in words.

    >>> from gradtd.evaluation.report.decision import TargetDecision
    >>> decided(TargetDecision("old", "excluded", "new", 0.1, 0.3))
    'excluded: new is better by 0.1 to 0.3'
    """
    if decision.low is None:
        return decision.decision
    return f"{decision.decision}: {decision.by} is better by {decision.low:.4g} to {decision.high:.4g}"


def comparison_on_terminal(comparison: Comparison) -> Group:
    """The differences, then the ranking."""
    from rich.console import Group
    from rich.table import Table

    pairs = Table("difference", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("value", "low", "high"):
        pairs.add_column(name, justify="right", no_wrap=True)
    pairs.add_column("verdict of both")
    for row in comparison.differences:
        cells = ["-" if number is None else f"{number:.5g}" for number in (row.value, row.low, row.high)]
        verdict = _text(row.verdict, COLOUR[row.verdict]).append_text(
            _text(f": {row.reason}" if row.reason else "", "none")
        )
        pairs.add_row(_text(f"{row.first} - {row.second}"), *cells, verdict)
    ranked = Table("target", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("value", "probability of being best"):
        ranked.add_column(name, justify="right")
    ranked.add_column("verdict")
    ranked.add_column(f"decision ({comparison.level:.0%} for all together)")
    decisions = {one.name: decided(one) for one in comparison.decisions}
    for place in comparison.ranking:
        best = chance(place.best)
        verdict = _text(place.verdict, COLOUR[place.verdict])
        ranked.add_row(_text(place.name), f"{place.value:.5g}", best, verdict, _text(decisions.get(place.name, "")))
    head = _text(f"paired differences on the same episodes, {comparison.level:.0%} intervals", "bold")
    return Group(head, pairs, "", ranked, "")
