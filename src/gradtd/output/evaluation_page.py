"""Plots of evaluations, comparisons and looks at a growing log, and their HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtd.core import checks
from gradtd.core.files import write_text
from gradtd.output.evaluation_text import (
    READ_AS,
    decided,
    evidence_rows,
    explained,
    extra_lines,
    remark,
    understood_items,
)
from gradtd.output.pages import render
from gradtd.output.plots import COLOURS, canvas, plain, save
from gradtd.output.svg import picture

if TYPE_CHECKING:
    from gradtd.evaluation.report.comparison import Comparison
    from gradtd.evaluation.report.estimate import Estimate
    from gradtd.evaluation.report.result import Evaluation
    from gradtd.evaluation.watch import Look

MARK = {"usable": "yes", "unchecked": "maybe", "not usable": "no"}
"""CSS classes of the verdicts on the page."""
MEANING = {
    "usable": "All required checks ran and passed.",
    "unchecked": "A required check could not run, so the interval may be right or wrong.",
    "not usable": "A check failed. Do not act on the value.",
}
WIDE = 6.0
"""Intervals wider than this multiple of the reported interval are cut in the plot."""
LAMBDA_CAPTION = (
    "Least squares with eligibility traces, in these features. At 0 it relies most on the features, at 1 only on "
    "returns. A flat line means that the features suffice; a slope is a sign of bias."
)
CONFOUNDING_CAPTION = (
    "How far an unrecorded cause could move the value, if the cause is drawn independently at every step. A cause "
    "that is constant during an episode could move it further."
)
SHADES = {"usable": COLOURS[0], "unchecked": COLOURS[4], "not usable": "#a8a8a8"}
"""Colours of the verdicts in the picture."""
WEAK = "#a8a8a8"
"""Colour of rows whose interval cannot be trusted."""


OVER_LOG_CAPTION = (
    "Mean returns of neighbouring episodes with two standard errors, and the value that each part implies. If the "
    "value rises or falls over the log, the environment changed; if only the returns do, the behaviour policy changed."
)


def estimates_figure(evaluation: Evaluation) -> Any:
    """Every method's value and interval, the requested one on top.

    Wide intervals are cut; values off the scale are arrows at the edge. Weak rows are grey and hollow.
    """
    rows = [row for row in evaluation.estimates if row.value is not None and row.low is not None]
    figure, axes = canvas(f"Value of the target policy, {evaluation.level:.0%} intervals")
    low, high = evaluation.interval
    reach = WIDE * max(high - low, 1e-12)
    for y, row in enumerate(rows):
        colour = COLOURS[0] if y == 0 else "#555555" if row.mark == "ok" else WEAK
        _interval_line(axes, -y, row, (low - reach, high + reach), colour, 3 if y == 0 else 1.6)
    axes.axvspan(low, high, color=COLOURS[0], alpha=0.08, linewidth=0)
    axes.set_yticks([-y for y in range(len(rows))], [plain(row.label) for row in rows], fontsize=9)
    axes.set_ylim(-len(rows) + 0.4, 0.6)
    axes.set_xlabel("value from the start states")
    return figure


def _interval_line(axes: Any, y: float, row: Estimate, limits: tuple[float, float], colour: str, width: float) -> None:
    assert row.value is not None
    assert row.low is not None
    assert row.high is not None
    left, right = max(row.low, limits[0]), min(row.high, limits[1])
    inside = "white" if row.mark == "weak" else colour
    if left > right:  # the whole interval is off the scale
        at, arrow = (limits[1], ">") if row.low > limits[1] else (limits[0], "<")
        axes.plot([at], [y], arrow, color=colour, markerfacecolor=inside, markersize=9)
        side = "right" if arrow == ">" else "left"
        axes.annotate(
            f"{row.value:.3g}", (at, y), (0, 6), textcoords="offset points", ha=side, fontsize=8, color=colour
        )
        return
    axes.plot([left, right], [y, y], color=colour, linewidth=width, solid_capstyle="butt")
    if limits[0] <= row.value <= limits[1]:
        axes.plot([row.value], [y], "o", color=colour, markerfacecolor=inside, markersize=5)
    for cut, at, mark in ((row.low < left, left, "<"), (row.high > right, right, ">")):
        if cut:
            axes.plot([at], [y], mark, color=colour, markersize=6)


MARKS = {
    "rung": ("o", "features, few to many"),
    "checker": ("s", "richer features, as a check"),
    "memory": ("^", "richer features, over several steps"),
    "doubly robust": ("D", "doubly robust"),
    "time": ("v", "with the time since the start"),
}


def checks_figure(evaluation: Evaluation) -> Any:
    """The value of every fit against the number of its features."""
    figure, axes = canvas("Value against number of features")
    low, high = evaluation.interval
    axes.axhspan(low, high, color=COLOURS[0], alpha=0.12, linewidth=0, label=f"{evaluation.level:.0%} interval")
    reach = 3 * max(high - low, 1e-12)
    for place, (kind, (mark, said)) in enumerate(MARKS.items()):
        sound = [row for row in evaluation.checks if row.kind == kind and not row.fault]
        sound = [row for row in sound if row.low >= low - reach and row.high <= high + reach]
        rungs = {row.name: row.columns for row in evaluation.checks if row.kind == "rung"}
        x = [(row.columns or rungs.get(row.name, 1)) * (1 + 0.02 * place) for row in sound]
        if kind == "memory" and evaluation.checked_without_traces:
            said = "richer features, without traces"
        if sound:
            y, errors = (
                [row.value for row in sound],
                [[r.value - r.low for r in sound], [r.high - r.value for r in sound]],
            )
            axes.errorbar(x, y, errors, fmt=mark, color=COLOURS[place], markersize=5, linewidth=1.2, label=said)
    axes.set_xscale("log")
    for ticks in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
        ticks(lambda x, _: f"{x:g}")
    axes.set_xlabel("number of features")
    axes.set_ylabel("value from the start states")
    figure.legend(frameon=False, fontsize=9, loc="outside lower center", ncols=2)
    return figure


def resamples_figure(evaluation: Evaluation) -> Any:
    """The value on bootstrap samples of the episodes, with the interval."""
    values = evaluation.resampled[np.isfinite(evaluation.resampled)]
    what = "refits on bootstrap samples" if evaluation.diagnostics.refits else "bootstrap samples, to first order"
    figure, axes = canvas(f"{len(values)} {what}")
    axes.hist(values, bins=min(40, max(8, len(values) // 6)), color="#9bbfd9")
    axes.axvspan(
        *evaluation.interval, color=COLOURS[0], alpha=0.12, linewidth=0, label=f"{evaluation.level:.0%} interval"
    )
    axes.axvline(evaluation.value, color=COLOURS[0], linewidth=2, label="value")
    axes.set_xlabel("value from the start states")
    axes.set_ylabel("bootstrap samples")
    axes.legend(frameon=False, fontsize=9)
    return figure


def histogram_figure(evaluation: Evaluation, what: str, title: str, name: str, unit: str, log: bool) -> Any:
    """The figure of a histogram that is saved with the evaluation."""
    counts, edges = evaluation.pictured[what], evaluation.pictured[f"{what}_edges"]
    figure, axes = canvas(title)
    axes.stairs(counts, edges, fill=True, color="#9bbfd9")
    if log:
        axes.set_yscale("log")
        axes.set_ylim(bottom=0.7)
    axes.set_xlabel(name)
    axes.set_ylabel(unit)
    return figure


def over_log_figure(evaluation: Evaluation) -> Any:
    """Mean returns of consecutive parts of the log, and the value from the influences of each part."""
    last, mean, error, value = evaluation.pictured["over_log"]
    figure, axes = canvas("Over the log")
    middle = (np.r_[0.0, last[:-1]] + last) / 2
    axes.axhspan(*evaluation.interval, color=COLOURS[0], alpha=0.12, linewidth=0)
    axes.errorbar(
        middle, mean, 2 * error, fmt="s-", color=COLOURS[1], markersize=4, linewidth=1, label="returns logged"
    )
    if np.isfinite(value).all():
        axes.plot(middle, value, "o-", color=COLOURS[0], markersize=4, linewidth=1.6, label="value by part")
    axes.set_xlabel("episode, in the order of the log")
    axes.set_ylabel("discounted return")
    figure.legend(frameon=False, fontsize=9, loc="outside lower center", ncols=2)
    return figure


def confounding_figure(evaluation: Evaluation) -> Any:
    """The interval against the strength of an unrecorded cause, and the reference value."""
    cause = evaluation.confounding
    assert cause is not None
    figure, axes = canvas("Value with an unrecorded cause of action and outcome")
    strength, low, high = (list(column) for column in zip(*cause.curve, strict=True))
    axes.fill_between(strength, low, high, color=COLOURS[0], alpha=0.2, linewidth=0, label="interval")
    axes.plot([strength[0], strength[-1]], [evaluation.value] * 2, color=COLOURS[0], linewidth=1.6, label="value")
    told = f"{cause.against_name}, {cause.against:.4g}"
    axes.axhline(cause.against, color="#555555", linestyle=(0, (4, 2)), linewidth=1.2, label=told)
    if 1 < cause.tipping <= strength[-1]:
        axes.plot([cause.tipping], [cause.against], "o", color=COLOURS[1], label=f"tipping point {cause.tipping:.2f}")
    axes.set_xscale("log")
    # On a phone the labels of 1.1 and 1.25 would overlap.
    axes.set_xticks(strength, ["" if one in (1.1, 1.25) else f"{one:g}" for one in strength])
    axes.minorticks_off()
    axes.set_xlabel("strength of the unrecorded cause (factor of the odds)")
    axes.set_ylabel("value from the start states")
    figure.legend(frameon=False, fontsize=9, loc="outside lower center", ncols=4)
    return figure


def figures(evaluation: Evaluation) -> dict[str, tuple[Any, str]]:
    """Every plot that applies to this evaluation, with a caption."""
    made = {
        "estimates": (
            estimates_figure(evaluation),
            "Methods on the same data and the same bootstrap samples. An arrow means that the interval continues "
            "beyond "
            "the plot, or lies there entirely. Grey and hollow means that it cannot be trusted; the table has the "
            "reason.",
        )
    }
    if any(not row.fault for row in evaluation.checks):
        caption = (
            "Fits with fewer and more features and with memory. The interval includes those that are precise enough."
        )
        made["checks"] = checks_figure(evaluation), caption
    if evaluation.confounding is not None:
        made["confounding"] = confounding_figure(evaluation), CONFOUNDING_CAPTION
    against_lambda = evaluation.lambda_values
    if against_lambda is not None:
        made["lambda"] = against_lambda.figure(), LAMBDA_CAPTION
    if np.isfinite(evaluation.resampled).sum() > 1:
        caption = "How the value varies with the logged episodes. A long tail or two peaks are a warning."
        made["resamples"] = resamples_figure(evaluation), caption
    if "over_log" in evaluation.pictured:
        made["over_log"] = over_log_figure(evaluation), OVER_LOG_CAPTION
    if not evaluation.diagnostics.on_policy:
        drawn = histogram_figure(
            evaluation,
            "rho",
            "Importance ratios of the steps",
            "target probability / behaviour probability",
            "steps",
            True,
        )
        made["ratios"] = drawn, "Where the two policies differ a lot, the estimate depends on a few large ratios."
    edges = evaluation.pictured["starts_edges"]
    if (evaluation.pictured["starts"] > 0).sum() > 1:
        drawn = histogram_figure(evaluation, "starts", "Values of the start states", "value", "episodes", False)
        made["starts"] = drawn, f"From {edges[0]:.4g} to {edges[-1]:.4g}; their mean is the value of the policy."
    return made


MOST_OF_A_PAIR = 24
"""Characters of each of two names beside a plot: longer ones leave no room for the plot."""


def differences_figure(comparison: Comparison) -> Any:
    """Draw every difference with its interval, if it has one. Unusable differences are grey and hollow."""
    rows = [row for row in comparison.differences if row.low is not None]
    figure, axes = canvas(f"Paired differences, {comparison.level:.0%} intervals")
    figure.set_size_inches(7.6, min(4.2, 1.6 + 0.4 * len(rows)))
    axes.axvline(0, color="#333333", linewidth=1)
    for y, row in enumerate(rows):
        colour = SHADES[row.verdict]
        axes.plot([row.low, row.high], [-y, -y], color=colour, linewidth=2.5, solid_capstyle="butt")
        inside = colour if row.verdict == "usable" else "white"
        axes.plot([row.value], [-y], "o", color=colour, markerfacecolor=inside, markersize=6)
    names = [f"{plain(row.first, MOST_OF_A_PAIR)} - {plain(row.second, MOST_OF_A_PAIR)}" for row in rows]
    axes.set_yticks([-y for y in range(len(rows))], names, fontsize=9)
    axes.set_ylim(-len(rows) + 0.4, 0.6)
    axes.set_xlabel("difference of the values from the start states")
    return figure


def write_page(
    evaluations: Mapping[str, Evaluation], path: str | Path, command: str = "", compared: Comparison | None = None
) -> Path:
    """Write one self-contained page: values, intervals, verdicts, plots, diagnostics."""
    target = checks.file_to_write("a page", Path(path), ".html")
    sections = []
    for name, evaluation in evaluations.items():
        pictures = [
            {"alt": f"{key}: {caption}", "caption": caption, "image": picture(figure)}
            for key, (figure, caption) in figures(evaluation).items()
        ]
        told = {"numbers": explained(evaluation), "understood": understood_items(evaluation)}
        told |= {"lines": extra_lines(evaluation), "evidence": evidence_rows(evaluation)}
        sections.append({"name": name, "e": evaluation, "pictures": pictures} | told)
    drawn = picture(differences_figure(compared)) if compared else None
    told = {"sections": sections, "command": command, "compared": compared, "differences": drawn}
    text = render(
        "evaluation.html", read_as=READ_AS, remark=remark, decided=decided, mark=MARK, meaning=MEANING, **told
    )
    return write_text(target, text)


LOOK_MARKS = {"usable": "o", "unchecked": "s", "not usable": "x"}
FAR = 4.0
"""Early looks are cut if they are further from the last value than this multiple of the last interval."""


def draw_looks(looks: Sequence[Look], level: float, path: Path) -> Path:
    """Draw the looks: the line is the value, the wide band is valid at every look, the narrow band at a single look."""
    figure, axes = canvas(f"Value after every file, {level:.0%} intervals")
    x = [one.episodes for one in looks]
    axes.fill_between(
        x,
        [one.anytime_low for one in looks],
        [one.anytime_high for one in looks],
        color=COLOURS[0],
        alpha=0.15,
        linewidth=0,
        label="is valid at every look",
    )
    axes.fill_between(
        x,
        [one.low for one in looks],
        [one.high for one in looks],
        color=COLOURS[0],
        alpha=0.3,
        linewidth=0,
        label="is valid at one look",
    )
    axes.plot(x, [one.value for one in looks], color=COLOURS[0], linewidth=1.4)
    for verdict, mark in LOOK_MARKS.items():
        some = [one for one in looks if one.verdict == verdict]
        if some:
            where = ([one.episodes for one in some], [one.value for one in some])
            axes.plot(*where, mark, color=COLOURS[0], markersize=4, label=verdict)
    last = looks[-1]
    reach = FAR * (last.anytime_high - last.anytime_low)
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, last.anytime_low - reach), min(high, last.anytime_high + reach))
    axes.set_xlabel("episodes")
    axes.set_ylabel("value from the start states")
    figure.legend(frameon=False, fontsize=9, loc="outside lower center", ncols=4)
    save(figure, path)
    return path
