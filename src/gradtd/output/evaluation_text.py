"""Evaluations and comparisons as text, for terminals, notebooks and frames."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gradtd.core.arrays import make_frame
from gradtd.core.checks import printable
from gradtd.output.pages import render
from gradtd.output.tables import Table

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    from gradtd.evaluation.decide import Check
    from gradtd.evaluation.report.assumptions import Assumption
    from gradtd.evaluation.report.comparison import Comparison
    from gradtd.evaluation.report.decision import TargetDecision
    from gradtd.evaluation.report.result import Evaluation

_MEANING = (
    ("lam", "Lambda of the traces", "{:g}"),
    ("trace", "Ratio in the traces", "{}"),
    ("ess", "Effective sample size, in steps", "{:.0f} of {steps}"),
    ("ess_marginal", "Effective sample size of the marginal weights, in steps", "{:.0f} of {steps}"),
    ("ess_marginal_episodes", "Effective sample size of the marginal weights, in episodes", "{:.1f} of {episodes}"),
    ("ess_episodes", "Effective sample size of whole-episode weights, in episodes", "{:.1f} of {episodes}"),
    ("largest_ratio", "Largest importance ratio of a step", "{:.3g}"),
    ("top_hundredth_carries", "Share of total weight held by the largest 1% of ratios", "{:.1%}"),
    ("mean_ratio", "Mean importance ratio (1 with correct probabilities)", "{:.4g}"),
    ("mean_ratio_off", "Distance of the mean ratio from 1, in standard errors", "{:+.1f}"),
    ("unseen_mass", "Target's probability of actions the log never took", "{:.2g}"),
    ("never_taken", "Target's next actions that the log never took in that state", "{:.2%}"),
    ("never_taken_effect", "Change of the value without them, in standard errors", "{:.2f}"),
    ("outside_range", "Target's actions outside the range of the log's actions", "{:.2%}"),
    ("action_error", "Estimated error of the value, from action values", "{:.3g}"),
    ("state_value", "Value from state values", "{:.5g}"),
    ("terminated", "Episodes that terminated", "{}"),
    ("truncated", "Episodes that were truncated", "{}"),
    ("features", "Features", "{}"),
    ("solved_by", "Solver of the log's equations", "{}"),
    ("undetermined_directions", "Directions of feature space that the log does not determine", "{}"),
    ("condition_A", "Condition number of A, in the features used for learning", "{:.3g}"),
    ("condition_C", "Condition number of C (features scaled)", "{:.3g}"),
    ("neu_start", "Norm of the mean TD update, squared (NEU), at zero weights", "{:.3g}"),
    ("neu_end", "NEU at the final weights", "{:.3g}"),
    ("updates", "Updates", "{}"),
    ("moved", "Change of the value in the second half of the updates, in standard errors", "{:.2f}"),
    ("from_lstd", "Distance from LSTD, in standard errors", "{:.2f}"),
    ("error_ratio", "Standard error by refits, divided by the sandwich error", "{:.2f}"),
    ("from_dr", "Distance from doubly robust, in standard errors of the difference", "{:.2f}"),
    ("resamples", "Bootstrap samples of the episodes", "{}"),
    ("refits", "Refits of the method on bootstrap samples", "{}"),
    ("refits_lost", "Share of the refits that failed", "{:.1%}"),
    ("effective_pieces", "Effective number of episodes behind the value, by influence", "{:.1f} of {episodes}"),
    ("refit_bias", "Bias with a tenth of the episodes left out, in standard errors", "{:.2f}"),
    ("lacking", "Share of the target's choices that the log lacks", "{:.1%}"),
    ("lacking_moves", "Possible effect of these on the value, relative to half its interval", "{:.2f}"),
    ("surprises_met", "Effective number of steps behind the error", "{:.1f}"),
    (
        "model_moves",
        "Change of the value with another behaviour model, relative to the allowed change",
        "{:.2f}",
    ),
    ("dependence", "Variance relative to that of independent episodes or blocks", "{:.2f}"),
    ("richer_checks", "Richer fits that are precise enough to count", "{}"),
    ("memory_checks", "Fits with memory that are precise enough to count", "{}"),
    ("hull_times", "Width of the interval relative to that of the chosen features alone", "{:.2f}"),
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


def _opening(evaluation: Evaluation, name: str = "") -> list[Text]:
    """The first lines: value, verdict, reasons, additional answers and warnings."""
    colour = COLOUR.get(evaluation.verdict, "red")
    agreed = "" if evaluation.reasons else ": All required checks ran and passed."
    lines = [_text(f"{name}{headline(evaluation)}", "bold"), _text(evaluation.verdict, colour).append(agreed, "none")]
    lines += [_text(f"  - {sentence}") for sentence in evaluation.reasons]
    lines += [_text(evaluation.value_function)] if evaluation.value_function else []
    lines += [_text(line) for line in extra_lines(evaluation)]
    return lines + [_text(f"warning: {sentence}") for sentence in evaluation.warnings]


def _size(evaluation: Evaluation) -> str:
    return f"{evaluation.steps} steps, {evaluation.episodes} episodes; {evaluation.features.describe()}"


def summary_lines(evaluation: Evaluation) -> list[str]:
    """The value, the verdict and the reasons as lines that are not wrapped."""
    lines = [*(line.plain for line in _opening(evaluation)), "", *evidence_lines(evaluation), ""]
    if read := understood_lines(evaluation):
        lines += [READ_AS, *(f"  {line}" for line in read), ""]
    return [printable(line) for line in (*lines, _size(evaluation))]


def evidence_rows(evaluation: Evaluation) -> list[tuple[str, str, str]]:
    """The behaviour's own value and the gain over it, then five rows of evidence with a word each."""
    own, rows = evaluation.behaviour, []
    if own is not None:
        rows.append(("Behaviour's own value", f"{own.value:.5g}", f"{own.low:.5g} to {own.high:.5g}"))
        rows.append(("Target minus behaviour", f"{own.gain:.5g}", f"{own.gain_low:.5g} to {own.gain_high:.5g}"))
    return rows + [(line.what, line.word, line.number) for line in evaluation.evidence]


def evidence_lines(evaluation: Evaluation) -> list[str]:
    """`evidence_rows` as lines of text."""
    rows = evidence_rows(evaluation)
    wide, middle = (max(len(row[place]) for row in rows) for place in (0, 1))
    return [f"{what:{wide}}  {second:>{middle}}  {third}" for what, second, third in rows]


def on_terminal(
    evaluation: Evaluation, name: str = "", verbose: bool = False, say: Callable[[str], str] = str
) -> Group:
    """The output for the terminal: value and verdict, evidence, methods and assumptions; with ``verbose``, also all
    diagnostics and checks.

    ``say`` rewrites parameters in sentences about assumptions as options.
    """
    from rich.console import Group

    lines = _opening(evaluation, name) + [_text(f"note: {sentence}") for sentence in evaluation.notes]
    lines += [_text(""), *map(_text, evidence_lines(evaluation))]
    if read := understood_lines(evaluation):
        lines += [_text(""), _text(READ_AS, "bold"), *(_text(f"  {line}") for line in read)]
    parts: list[Any] = [_methods(evaluation), "", _text(HEADING, "bold")]
    parts += [*(_text(f"  {say(line)}") for line in assumption_lines(evaluation)), ""]
    if verbose:
        parts += [_diagnostics(evaluation), ""]
    if verbose and evaluation.checks:
        parts += [_checks(evaluation), ""]
    return Group(*lines, "", _text(_size(evaluation)), _text(evaluation.resampling), "", *parts)


READ_AS = "How the log was read (? marks a guess)"
"""The heading of the table of roles, in every output."""


def understood_lines(evaluation: Evaluation) -> list[str]:
    """How the log was interpreted, without the lines shown as notes and warnings."""
    return replace(evaluation.understood, notes=(), warnings=()).lines()


def understood_items(evaluation: Evaluation) -> list[str]:
    """`understood_lines` for a page, in which multiple spaces collapse."""
    return [re.sub(r" {2,}", ": ", line, count=1).replace("  ", " ") for line in understood_lines(evaluation)]


def _grid(words: Sequence[str], numbers: Sequence[str], after: Sequence[str]) -> RichTable:
    """A table without lines: columns of words, of numbers, and of words."""
    from rich.table import Table

    table = Table(*words, box=None, pad_edge=False, show_header=any((*words, *numbers)), padding=(0, 2, 0, 0))
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    for name in after:
        table.add_column(name)
    return table


def _checks(evaluation: Evaluation) -> RichTable:
    table = _grid(("features", "kind"), ("columns", "value", "low", "high"), ("",))
    for row in evaluation.checks:
        numbers = map(shown, (row.value, row.low, row.high))
        table.add_row(_text(row.name), _text(row.kind), str(row.columns), *numbers, _text(remark(row)))
    return table


def remark(row: Check) -> str:
    """Whether a rung was chosen, and the faults of a fit."""
    return ", ".join(text for text in ("chosen" if row.chosen else "", row.fault) if text)


def _methods(evaluation: Evaluation) -> RichTable:
    table = _grid(("method",), ("value", "low", "high"), ("",))
    for row in evaluation.estimates:
        cells = map(shown, (row.value, row.low, row.high))
        table.add_row(_text(row.label), *cells, _text(row.remark), style="dim" if row.mark == "weak" else None)
    return table


def _diagnostics(evaluation: Evaluation) -> RichTable:
    table = _grid(("",), ("",), ())
    for text, number in explained(evaluation):
        table.add_row(_text(text), _text(number))
    return table


def in_notebook(evaluation: Evaluation) -> str:
    """The value, the verdict and the methods as a piece of HTML."""
    read = {"read_as": READ_AS, "understood": understood_items(evaluation)}
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
    shown_text = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in shown_text.rstrip().splitlines())


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

    pairs = _grid(("difference",), ("value", "low", "high"), ("verdict of both",))
    for row in comparison.differences:
        cells = map(shown, (row.value, row.low, row.high))
        verdict = _text(row.verdict, COLOUR[row.verdict]).append(
            f": {printable(row.reason)}" if row.reason else "", "none"
        )
        pairs.add_row(_text(f"{row.first} - {row.second}"), *cells, verdict)
    decision = f"decision ({comparison.level:.0%} simultaneously)"
    ranked = _grid(("target",), ("value", "probability of being best"), ("verdict", decision))
    decisions = {one.name: decided(one) for one in comparison.decisions}
    for place in comparison.ranking:
        verdict = _text(place.verdict, COLOUR[place.verdict])
        numbers = (f"{place.value:.5g}", chance(place.best))
        ranked.add_row(_text(place.name), *numbers, verdict, _text(decisions.get(place.name, "")))
    head = _text(f"paired differences on the same episodes, {comparison.level:.0%} intervals", "bold")
    return Group(head, pairs, "", ranked, "")


def extra_lines(evaluation: Evaluation) -> list[str]:
    """One sentence for each additional answer."""
    lines = []
    if (at_any_time := evaluation.anytime) is not None:
        lines.append(
            f"At every look: {evaluation.level:.0%} confidence sequence {at_any_time.low:.5g} to "
            f"{at_any_time.high:.5g}, {at_any_time.times:.2f} times as wide as for one look."
        )
    if (cause := evaluation.confounding) is not None:
        lines.append(
            f"Unrecorded cause: if it changes the odds of every {cause.each} by a factor of up to "
            f"{cause.strength:g}, the {evaluation.level:.0%} interval is {cause.low:.5g} to {cause.high:.5g}. "
            f"{cause.tips}"
        )
    if evaluation.groups:
        lines.append(
            f"Groups of starts, with intervals that are valid for all of them simultaneously at {evaluation.level:.0%}:"
        )
    for one in evaluation.groups:
        note = f" (the log is too small for this group: {one.fault})" if one.fault else ""
        lines.append(f"  {one.name}, {one.episodes} episodes: {one.value:.5g}, {one.low:.5g} to {one.high:.5g}{note}")
    return lines


HEADING = "Assumptions"


def assumption_lines(evaluation: Evaluation) -> list[str]:
    """One line per assumption: its status, how it was checked, and the effect if it fails."""
    return [_line(one) for one in evaluation.assumptions]


def _line(one: Assumption) -> str:
    fails = f" Otherwise: {one.if_it_fails}" if one.status in ("assumed", "failed") else ""
    return f"{one.assumption} {one.status.capitalize()}: {one.how}{fails}"


def shown(number: float | None) -> str:
    """A number, or a dash."""
    return "-" if number is None or number != number else f"{number:.5g}"


def chance(share: float) -> str:
    """A probability, never shown as certain.

    >>> chance(0.42), chance(1.0), chance(0.0), chance(float("nan"))
    ('42.0%', '>99.9%', '<0.1%', '-')
    """
    if share != share:
        return "-"
    return ">99.9%" if share > 0.999 else "<0.1%" if share < 0.001 else f"{share:.1%}"


def comparison_tables(comparison: Comparison) -> tuple[Table, Table]:
    """The differences and the ranking."""
    level = f"{comparison.level:.0%}"
    pairs = [
        (f"{row.first} - {row.second}", *map(shown, (row.value, row.low, row.high)), _verdict(row.verdict, row.reason))
        for row in comparison.differences
    ]
    ranked = [(place.name, shown(place.value), chance(place.best), place.verdict) for place in comparison.ranking]
    head = f"Paired differences on the same episodes, {level} intervals"
    return (
        Table(head, ("difference", "value", "low", "high", "verdict of both"), pairs, words=1),
        Table("", ("target", "value", "probability of being best", "verdict"), ranked, words=1),
    )


def _verdict(verdict: str, reason: str) -> str:
    return f"{verdict}: {reason}" if reason else verdict


def comparison_cell(comparison: Comparison) -> str:
    """Both tables of a comparison as HTML, for notebooks."""
    return "<div>" + "<p></p>".join(table.html() for table in comparison_tables(comparison)) + "</div>"


def evaluations_cell(evaluations: Mapping[str, Evaluation], comparison: Comparison | None) -> str:
    """One row per target with its verdict and the first reason, then the comparison."""
    rows = []
    for name, found in evaluations.items():
        gain = found.behaviour
        against = ("-", "-") if gain is None else (f"{gain.gain:.5g}", f"{gain.gain_low:.5g} to {gain.gain_high:.5g}")
        low, high = found.interval
        numbers = (shown(found.value), f"{shown(low)} to {shown(high)}", *against)
        rows.append((name, *numbers, _verdict(found.verdict, " ".join(found.reasons[:1]))))
    names = ("target", "value", "interval", "gain over the behaviour", "its interval", "verdict")
    warned = dict.fromkeys(warning for found in evaluations.values() for warning in found.warnings)
    notes = [f"warning: {warning}" for warning in warned]
    table = Table("", names, rows, words=1, notes=notes)
    return f"<div>{table.html()}{'' if comparison is None else comparison_cell(comparison)}</div>"
