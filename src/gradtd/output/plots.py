"""Draws plots from computed numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import picture_file, printable
from gradtd.core.files import replace_file

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, which colour-blind people can distinguish."""

OWN_COLOUR = {
    "Impression GTD": "#0072B2",
    "Impression GTD (auto)": "#332288",
    "TD": "#D55E00",
    "TDRC": "#009E73",
    "TDC": "#CC79A7",
    "GTD2": "#E69F00",
    "GTD": "#56B4E9",
    "HTD": "#8C6D31",
    "Vtrace": "#999999",
    "MiniBatchTD": "#7B3294",
    "Expected GTD": "#A50026",
    "Krylov GTD": "#117733",
    "GTD2-MP": "#B8860B",
    "STHTD-MP": "#5F4B8B",
    "LSTD": "#000000",
}
"""The colour of each algorithm in all figures of the reproduction."""
STYLE: dict[str, Any] = {
    "Krylov GTD": (0, (1, 1)),
    "Impression GTD (auto)": (0, (6, 1.5, 1, 1.5)),
    "HTD": (0, (4, 2)),
    "Vtrace": (0, (4, 2)),
    "MiniBatchTD": (0, (4, 2)),
    "Expected GTD": (0, (4, 2)),
    "GTD2-MP": (0, (2, 1)),
    "STHTD-MP": (0, (2, 1)),
}


LONGEST = 80
"""Maximum length of a name in a plot."""


@dataclass(frozen=True)
class Curve:
    """One line of a figure: values by run and step, and its style."""

    label: str
    values: Floats
    colour: str
    style: Any = "-"
    thin: bool = False


def mean_and_error(values: Floats) -> tuple[Floats, Floats]:
    """Mean over runs and its standard error (NaN for a single run)."""
    runs = values.shape[0]
    with np.errstate(over="ignore", invalid="ignore"):  # runs that diverged may overflow
        error = values.std(axis=0, ddof=1) / np.sqrt(runs) if runs > 1 else np.full(values.shape[1:], np.nan)
        return values.mean(axis=0), error


def styled(curves: Mapping[str, Floats]) -> list[Curve]:
    """Curves with their algorithms' colours. Several settings of Impression GTD get shades of its blue."""
    family = [label for label in curves if label.startswith("Impression GTD ") and "=" in label]
    shades = dict(zip(family, _shades(len(family)), strict=True))
    return [
        Curve(
            label, values, shades.get(label) or OWN_COLOUR.get(label, "#000000"), STYLE.get(label, "-"), label == "LSTD"
        )
        for label, values in curves.items()
    ]


def _shades(n: int) -> list[str]:
    """Blues from light to dark."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colormaps["GnBu"](x)) for x in np.linspace(0.45, 1.0, max(n, 1))][:n]


def learning_curves(
    curves: Mapping[str, tuple[Integers, Floats]], *, title: str, metric: str, log: bool = False
) -> Any:
    """A figure of the curves ``{label: (steps, values[run, step])}`` as means with 95 % intervals; save it with
    `save`."""
    figure, axes = canvas(title)
    for colour, (label, (steps, values)) in zip(COLOURS, curves.items(), strict=False):
        _draw(axes, steps, Curve(label, values, colour), log)
    runs = {values.shape[0] for _, values in curves.values()}
    _finish(axes, f"mean of {'/'.join(map(str, sorted(runs)))} runs, 95 % interval", metric, log)
    return figure


def paper_figure(
    steps: Integers,
    curves: Sequence[Curve],
    paths: Sequence[Path],
    *,
    title: str,
    metric: str,
    log: bool,
    shift: Mapping[str, float] | None = None,
    ceiling: float | None = None,
    cut: float = 0.0,
) -> Any:
    """Draw a figure of the reproduction to files. ``shift`` is first subtracted from each curve. Returns the axes.

    Values above ``ceiling`` or below ``cut`` are not shown.
    """
    figure, axes = canvas(title)
    for curve in curves:
        _draw(axes, steps, curve, log, (shift or {}).get(curve.label, 0.0))
    runs = curves[0].values.shape[0]
    name = f"{metric}, minus a bias" if shift else metric
    _finish(axes, f"mean of {runs} runs" + ("" if shift else ",\n95 % interval"), name, log, beside=True)
    if ceiling is not None:
        lows = [np.nanmin(np.where(line.get_ydata() > 0, line.get_ydata(), np.nan)) for line in axes.get_lines()]
        floor = max(0.5 * min(lows), 1e-3 * ceiling / 10 if shift else cut) if log else 0.0
        axes.set_ylim(floor, min(axes.get_ylim()[1], ceiling))
    for path in paths:
        save(figure, path)
    return axes


def sensitivity_figure(
    sweeps: Mapping[str, Mapping[str, Any]], paths: Sequence[Path], *, title: str, metric: str
) -> Any:
    """Draw the final error against the step-size, one line per algorithm. Divergence is marked at the ceiling."""
    figure, axes = canvas(title)
    for label, sweep in sweeps.items():
        colour = OWN_COLOUR.get(label, "#000000")
        alpha, error, diverged = sweep["alpha"], sweep["error"], sweep["diverged"] > 0
        axes.plot(alpha, error, color=colour, linestyle=STYLE.get(label, "-"), marker="o", markersize=3, label=label)
        axes.plot(alpha[diverged], error[diverged], color=colour, linestyle="", marker="x", markersize=7)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("step-size alpha (x: at least one run diverged)")
    axes.set_ylabel(f"{metric.upper()} over the last tenth of the steps")
    axes.set_yscale("log")
    _legend(axes, "algorithm", beside=True)
    for path in paths:
        save(figure, path)
    return axes


def plain(name: str, longest: int = LONGEST) -> str:
    """A name for a plot: without formulas or characters that XML forbids, and short enough.

    >>> plain("5 $")
    '5 \\\\$'
    """
    shown = printable(name)
    shown = shown if len(shown) <= longest else shown[: longest - 3] + "..."
    shown = shown.replace("$", r"\$")
    return " " + shown if shown.startswith("_") else shown  # Matplotlib hides names that begin with an underscore


def canvas(title: str) -> tuple[Any, Any]:
    """A figure with one pair of axes, in gradtd's style."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_title(plain(title), loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _draw(axes: Any, steps: Integers, curve: Curve, log: bool, shift: float = 0.0) -> None:
    """Draw a mean with its interval, symmetric on the linear or log axis; a shifted mean on a log axis has no
    interval."""
    mean, error = mean_and_error(curve.values)
    shifted = mean - shift
    if log:
        shifted = np.where(shifted > 0, shifted, np.nan)
    width = 0.8 if curve.thin else 1.6
    axes.plot(steps, shifted, color=curve.colour, linestyle=curve.style, linewidth=width, label=plain(curve.label))
    if log and shift:
        return
    with np.errstate(invalid="ignore", over="ignore"):
        half = np.exp(1.96 * error / mean) if log else 1.96 * error
        low, high = (mean / half, mean * half) if log else (mean - half, mean + half)
    axes.fill_between(steps, low, high, color=curve.colour, alpha=0.18, linewidth=0)


def _finish(axes: Any, legend: str, metric: str, log: bool, beside: bool = False) -> None:
    axes.set_xlabel("steps seen")
    words = metric.split(",")
    axes.set_ylabel(",".join([words[0].upper(), *words[1:]]))
    axes.set_yscale("log" if log else "linear")
    if not log:
        axes.set_ylim(bottom=0)
    _legend(axes, legend, beside)


def _legend(axes: Any, title: str, beside: bool) -> None:
    place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)} if beside else {}
    axes.legend(frameon=False, title=title, fontsize=8.5, title_fontsize=8.5, alignment="left", **place)


def show_figure(figure: Any, path: str | Path | None = None) -> Any:
    """Write a figure if a path is given, show it in a notebook, and return its axes."""
    from gradtd.core.progress import in_notebook

    if path is not None:
        save(figure, picture_file("a picture", Path(path)))
    if in_notebook():
        import io

        from IPython.display import Image, display

        drawn = io.BytesIO()
        figure.savefig(drawn, format="png", dpi=100)
        display(Image(drawn.getvalue()))
    return figure.axes[0]


def save(figure: Any, path: Path) -> None:
    """Write a figure to a file. The same figure gives the same bytes."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "gradtd"}):
        kind = path.suffix.lower().removeprefix(".")
        metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
        replace_file(path, lambda file: figure.savefig(file, format=kind, dpi=150, metadata=metadata))


MOST_DRAWN = 1e200
"""Matplotlib overflows for larger values, so they are drawn as missing."""
RAISED = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
"""Superscript digits of an exponent."""


class Line(NamedTuple):
    """The line of an algorithm: its error and number of diverged runs at each value of a hyper-parameter.

    A word as a value, such as "auto", is drawn as a horizontal line.
    """

    label: str
    places: Mapping[Any, tuple[float, int]]


def sensitivity_curves(lines: Sequence[Line], name: str, metric: str, *, title: str) -> Any:
    """Draw the error against a hyper-parameter, one line per algorithm. A cross marks runs that diverged."""
    figure, axes = canvas(title)
    colours = [COLOURS[k % len(COLOURS)] for k in range(len(lines))]
    for colour, line in zip(colours, lines, strict=True):
        numbers = sorted(value for value in line.places if not isinstance(value, str))
        error = _drawn([line.places[value][0] for value in numbers])
        diverged = np.array([line.places[value][1] > 0 for value in numbers], np.bool_)
        if numbers:
            axes.plot(numbers, error, color=colour, marker="o", markersize=3, label=plain(line.label))
            axes.plot(
                np.array(numbers)[diverged], error[diverged], color=colour, linestyle="", marker="x", markersize=7
            )
        for word in (value for value in line.places if isinstance(value, str)):
            axes.axhline(
                _drawn(line.places[word][0]), color=colour, linestyle=":", label=plain(f"{line.label}, {name}={word}")
            )
    taken = [value for line in lines for value in line.places if not isinstance(value, str)]
    if taken and min(taken) > 0:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: _power_of_two(value))
    axes.set_xlabel(f"{plain(name)} (x: at least one run diverged)")
    _finish_sweep(axes, metric, [error for line in lines for error, _ in line.places.values()])
    return figure


def _power_of_two(value: float) -> str:
    """A label in plain text, because rendering formulas takes two thirds of Matplotlib's time."""
    return "2" + str(round(np.log2(value))).translate(RAISED)


def winner_curves(curves: Mapping[str, tuple[Integers, Floats, Floats]], metric: str, *, title: str) -> Any:
    """Means with 95 % intervals at the steps that were measured: ``{label: (steps, mean, error)}``."""
    figure, axes = canvas(title)
    for place, (label, (steps, mean, error)) in enumerate(curves.items()):
        colour = COLOURS[place % len(COLOURS)]
        mean, error = _drawn(mean), _drawn(error)
        axes.plot(steps, mean, color=colour, marker="o", markersize=3, label=plain(label))
        axes.fill_between(steps, mean - 1.96 * error, mean + 1.96 * error, color=colour, alpha=0.18, linewidth=0)
    axes.set_xlabel("steps seen")
    _finish_sweep(axes, metric, [value for _, mean, _ in curves.values() for value in mean])
    return figure


def _drawn(values: Any) -> Floats:
    return np.where(np.abs(values) < MOST_DRAWN, values, np.nan)


def _finish_sweep(axes: Any, metric: str, drawn: Sequence[float]) -> None:
    """Label the axis, and make it logarithmic if errors span more than one order of magnitude."""
    positive = [value for value in drawn if 0 < value < MOST_DRAWN]
    if positive and max(positive) > 10 * min(positive):
        axes.set_yscale("log")
    axes.set_ylabel(metric.upper())
    axes.legend(frameon=False, fontsize=8.5, loc="upper left", bbox_to_anchor=(1.0, 1.0))
