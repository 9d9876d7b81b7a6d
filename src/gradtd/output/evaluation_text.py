"""An evaluation as people read it: on the terminal, in a notebook, as a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradtd.core.checks import InputError
from gradtd.output.pages import render

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from gradtd.evaluation.report.comparison import Comparison
    from gradtd.evaluation.report.result import Evaluation
    from gradtd.evaluation.trust.deciding import Check


_MEANING = (
    ("lam", "lambda of the traces", "{:g}"),
    ("trace", "ratio in the traces", "{}"),
    ("ess", "effective sample size, in steps", "{:.0f}"),
    ("ess_marginal", "effective sample of the marginal weights, in steps", "{:.0f}"),
    ("ess_marginal_episodes", "the same in episodes", "{:.1f}"),
    ("ess_episodes", "effective sample size of whole-episode weights, in episodes", "{:.1f}"),
    ("largest_ratio", "largest ratio of a step", "{:.3g}"),
    ("top_hundredth_carries", "part of the weight that the largest hundredth of the ratios carries", "{:.1%}"),
    ("mean_ratio", "mean ratio (1 for right probabilities)", "{:.4g}"),
    ("mean_ratio_off", "its distance from 1, in standard errors", "{:+.1f}"),
    ("unseen_mass", "target's probability of actions the log never took", "{:.2g}"),
    ("never_taken", "target's choices next that the log never took in that state", "{:.2%}"),
    ("never_taken_effect", "what leaving them out would move, in standard errors", "{:.2f}"),
    ("outside_range", "target's actions beyond the range of the log's", "{:.2%}"),
    ("terminated", "episodes that terminated", "{}"),
    ("truncated", "episodes that were cut off", "{}"),
    ("features", "features", "{}"),
    ("solved_by", "the log's equations were solved by", "{}"),
    ("undetermined_directions", "directions of feature space that the log does not determine", "{}"),
    ("condition_A", "condition number of A, in the features learned on", "{:.3g}"),
    ("condition_C", "condition number of C (features scaled)", "{:.3g}"),
    ("neu_start", "norm of the mean TD update, squared (NEU), at zero weights", "{:.3g}"),
    ("neu_end", "the same at the weights found", "{:.3g}"),
    ("updates", "updates made", "{}"),
    ("moved", "movement of the value in the second half of them, in standard errors", "{:.2f}"),
    ("from_lstd", "distance from LSTD, in standard errors", "{:.2f}"),
    ("error_ratio", "error by refits over the sandwich's", "{:.2f}"),
    ("from_dr", "distance from doubly robust, in standard errors of the difference", "{:.2f}"),
    ("resamples", "resamples of the episodes", "{}"),
    ("refits", "refits of the method on them", "{}"),
    ("refits_lost", "part of the refits that failed", "{:.1%}"),
    ("effective_pieces", "episodes that the value rests on, by their influence", "{:.1f}"),
    ("refit_bias", "bias with a tenth of the episodes left out, in standard errors", "{:.2f}"),
    ("lacking", "part of the target's choices that the log lacks", "{:.1%}"),
    ("lacking_moves", "how far these could move it, over half its interval", "{:.2f}"),
    ("surprises_met", "steps that carry the error, if surprises fell on any alike", "{:.1f}"),
    ("dependence", "variance over that of independent pieces", "{:.2f}"),
    ("richer_checks", "fits with richer features that say something", "{}"),
    ("memory_checks", "fits with memory that say something", "{}"),
    ("hull_times", "width of the interval over that of the features by themselves", "{:.2f}"),
)


_OF_RATIOS = (
    *("ess", "ess_episodes", "largest_ratio", "top_hundredth_carries", "mean_ratio", "mean_ratio_off", "lacking"),
)
"""Diagnostics that say something of ratios only."""


def explained(evaluation: Evaluation) -> list[tuple[str, str]]:
    """The diagnostics in words and numbers, those that are known."""
    numbers = dict(evaluation.numbers)
    if numbers.get("values") == "action":  # ratios are all one, and say nothing
        numbers = {name: number for name, number in numbers.items() if name not in _OF_RATIOS}
    return [(text, shown.format(numbers[key])) for key, text, shown in _MEANING if numbers.get(key) is not None]


def headline(evaluation: Evaluation) -> str:
    """The value with its interval, in one line."""
    low, high = evaluation.interval
    return f"value {evaluation.value:.5g}, {evaluation.level:.0%} interval {low:.5g} to {high:.5g}"


COLOUR = {"usable": "green", "unchecked": "yellow", "not usable": "red"}
"""Colours of the verdicts on the terminal."""


def on_terminal(evaluation: Evaluation, name: str = "", verbose: bool = False) -> Group:
    """Everything for the terminal: value and verdict first, the methods, the diagnostics, if asked for the checks."""
    from rich.console import Group
    from rich.text import Text

    colour = COLOUR.get(evaluation.verdict, "red")
    agreed = "" if evaluation.reasons else ": every check that matters was made, and none speaks against it"
    lines = [Text(f"{name}{headline(evaluation)}", "bold"), Text(evaluation.verdict, colour).append(agreed, "none")]
    lines += [Text(f"  - {sentence}") for sentence in evaluation.reasons]
    for title, sentences in (("to know", evaluation.warnings), ("done to the log", evaluation.notes)):
        lines += [Text(f"{title}: {sentence}") for sentence in sentences]
    size = f"{evaluation.steps} steps, {evaluation.episodes} episodes; {evaluation.features.describe()}"
    parts: list[Table | str] = [_methods(evaluation), "", _diagnostics(evaluation), ""]
    if verbose and evaluation.checks:
        parts += [_checks(evaluation), ""]
    return Group(*lines, "", Text(size), Text(evaluation.resampling), "", *parts)


def _checks(evaluation: Evaluation) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table("rungs and checkers", "kind", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("columns", "value", "low", "high"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for row in evaluation.checks:
        numbers = (f"{number:.5g}" for number in (row.value, row.low, row.high))
        table.add_row(Text(row.name), row.kind, str(row.columns), *numbers, Text(remark(row)))
    return table


def remark(row: Check) -> str:
    """Whether a rung was chosen, and why a fit is not sound."""
    return ", ".join(text for text in ("chosen" if row.chosen else "", row.fault) if text)


def _methods(evaluation: Evaluation) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table("method", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("value", "low", "high"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for row in evaluation.estimates:
        cells = ["-" if number is None else f"{number:.5g}" for number in (row.value, row.low, row.high)]
        table.add_row(Text(row.label), *cells, Text(row.remark), style="dim" if row.mark == "weak" else None)
    return table


def _diagnostics(evaluation: Evaluation) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(justify="right", no_wrap=True)
    for text, number in explained(evaluation):
        table.add_row(Text(text), number)
    return table


def in_notebook(evaluation: Evaluation) -> str:
    """The value, the verdict and the methods as a piece of HTML."""
    return render("evaluation_cell.html", e=evaluation, headline=headline(evaluation))


def as_frame(evaluation: Evaluation) -> Any:
    """The estimates as a pandas frame, one row per method."""
    try:
        import pandas
    except ImportError:
        raise InputError("to_frame needs pandas: pip install gradtd[frames].") from None
    return pandas.DataFrame([vars(row) for row in evaluation.estimates]).set_index("method")


def comparison_on_terminal(comparison: Comparison) -> Group:
    """The differences, then the ranking."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    pairs = Table("difference", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("value", "low", "high"):
        pairs.add_column(name, justify="right", no_wrap=True)
    pairs.add_column("verdict of both")
    for row in comparison.differences:
        cells = ["-" if number is None else f"{number:.5g}" for number in (row.value, row.low, row.high)]
        verdict = Text(row.verdict, COLOUR[row.verdict]).append(f": {row.reason}" if row.reason else "", "none")
        pairs.add_row(Text(f"{row.first} - {row.second}"), *cells, verdict)
    ranked = Table("target", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("value", "probability of being best"):
        ranked.add_column(name, justify="right")
    ranked.add_column("verdict")
    for place in comparison.ranking:
        best = "-" if place.best != place.best else f"{place.best:.1%}"
        ranked.add_row(Text(place.name), f"{place.value:.5g}", best, Text(place.verdict, COLOUR[place.verdict]))
    head = Text(f"paired differences on the same episodes, {comparison.level:.0%} intervals", "bold")
    return Group(head, pairs, "", ranked, "")
