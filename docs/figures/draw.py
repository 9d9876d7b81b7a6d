"""The pictures of the landing page and of docs/concepts: every curve and number in them is computed by gradtd.

python docs/figures/draw.py               # draws all of them, a minute or two
python docs/figures/draw.py divergence    # draws one
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

import gradtd

HERE = Path(__file__).resolve().parent
PHONE = 4.9
"""Inches that a picture for a phone is wide: its text is then as large as the page's."""
BLUE, RED, GREEN, GOLD, INK, QUIET = "#0072b2", "#c43c00", "#00785a", "#b87700", "#222222", "#5f6b76"


def axes_of(width: float, height: float, *titles: str, tall: bool = False) -> tuple[Figure, list[Any]]:
    """A figure with one pair of axes for each title, side by side; tall for a narrow screen, one below the other."""
    size = (PHONE, height * len(titles)) if tall else (width, height)
    figure = Figure(figsize=size, facecolor="white", layout="constrained")
    made = []
    for k, title in enumerate(titles):
        axes = figure.add_subplot(*((len(titles), 1) if tall else (1, len(titles))), k + 1)
        axes.set_title(title, fontsize=11, color=INK, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=9, colors=QUIET)
        made.append(axes)
    return figure, made


def box(axes: Any, corner: tuple[float, float], size: tuple[float, float], edge: str, face: str = "white") -> None:
    axes.add_patch(
        FancyBboxPatch(corner, *size, boxstyle="round,pad=0,rounding_size=0.1", facecolor=face, edgecolor=edge)
    )


def arrow(axes: Any, start: tuple[float, float], end: tuple[float, float], colour: str = INK) -> None:
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=14, color=colour, linewidth=1.4))


def landing(tall: bool = False) -> Figure:
    """What it does: a log in; a value, an interval and a verdict out. Tall for a narrow screen."""
    log = gradtd.sample_log("random_walk_tabular", 300)
    found = gradtd.evaluate(log, gamma=1.0, progress=False)
    truth, _ = gradtd.true_value("random_walk_tabular")
    size = (5.7, 7.0) if tall else (10.0, 3.5)
    figure = Figure(figsize=size, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(4.3, 10) if tall else (0, 10), ylim=(0, size[1]))
    axes.set_axis_off()
    _log_card(axes, log, (5.6, 3.5) if tall else (0.2, 0))
    arrow(axes, *(((7.15, 3.7), (7.15, 3.3)) if tall else ((3.45, 1.75), (4.35, 1.75))), BLUE)
    axes.text(*((7.75, 3.43) if tall else (3.9, 1.92)), "evaluate", ha="center", size=11, color=BLUE, style="italic")
    _answer_card(axes, found, truth)
    return figure


def _log_card(axes: Any, log: Any, corner: tuple[float, float]) -> None:
    """The first rows of the log, as a table."""
    left, low = corner
    box(axes, (left, low + 0.3), (3.1, 2.9), "#c9d2da", "#f7f9fa")
    axes.text(left + 0.2, low + 2.88, "a log of the policy that ran", size=12, weight="bold", color=INK)
    columns = {"episode": 0.7, "state": 1.3, "reward": 2.05, "ratio": 2.8}
    for name, x in columns.items():
        axes.text(left + x, low + 2.53, name, size=9.5, color=QUIET, ha="right")
    for k in range(8):
        row = (log.episode[k], log.observations[log.row[k]], log.reward[k], log.rho[k])
        for x, value, form in zip(columns.values(), row, (".0f", ".0f", ".0f", ".2f"), strict=True):
            axes.text(left + x, low + 2.28 - 0.21 * k, format(float(value), form), **TABLE)
    episodes = len(np.unique(log.episode))
    axes.text(left + 0.2, low + 0.42, f"... {len(log)} steps, {episodes} episodes", size=9.5, color=QUIET)


TABLE: dict[str, Any] = {"size": 9.5, "color": INK, "ha": "right", "family": "monospace"}


def _answer_card(axes: Any, found: Any, truth: float) -> None:
    """The value and its interval on a line, the truth, and the verdict."""
    box(axes, (4.5, 0.3), (5.3, 2.9), "#c9d2da", "#f7f9fa")
    axes.text(4.7, 2.88, "what another policy is worth", size=12, weight="bold", color=INK)
    box(axes, (8.05, 2.68), (1.55, 0.4), GREEN, "#e3f3ec")
    axes.text(8.825, 2.87, found.verdict, size=12, weight="bold", color=GREEN, ha="center", va="center")
    low, high = found.interval
    axes.text(4.7, 2.3, f"{found.value:.2f}", size=26, weight="bold", color=BLUE, va="center")
    axes.text(5.75, 2.25, f"95 % interval {low:.2f} to {high:.2f}", size=11, color=INK, va="center")

    def place(value: float) -> float:
        return 5.0 + 4.3 * (value - 0.3) / 0.45

    axes.plot([place(0.3), place(0.75)], [1.15, 1.15], color="#c9d2da", linewidth=1)
    for tick in (0.3, 0.4, 0.5, 0.6, 0.7):
        axes.plot([place(tick)] * 2, [1.1, 1.2], color="#9aa5af", linewidth=1)
        axes.text(place(tick), 0.9, f"{tick:.1f}", size=9.5, color=QUIET, ha="center", va="center")
    axes.plot([place(low), place(high)], [1.45, 1.45], color=BLUE, linewidth=7, solid_capstyle="butt")
    axes.plot([place(found.value)], [1.45], "o", color="white", markeredgecolor=BLUE, markersize=9, markeredgewidth=2)
    axes.plot([place(truth)] * 2, [1.1, 1.72], color=RED, linewidth=1.6)
    axes.text(place(truth), 1.82, f"the truth, {truth:.3f}", size=9.5, color=RED, ha="center")
    axes.text(4.7, 0.48, "Known here: this log comes from a problem with an exact solution.", size=9, color=QUIET)


def divergence(tall: bool = False) -> Figure:
    """TD's mean update points away from the solution; that of Impression GTD points to it."""
    figure, (left, right) = axes_of(
        9.5, 3.6, "Two states: the mean update of theta", "Baird: error of 5 runs", tall=tall
    )
    exact = gradtd.exact("two_state")
    slope = float(exact.A[0, 0])
    theta = np.linspace(-1, 1, 3)
    left.axhline(0, color="#c9d2da", linewidth=1)
    left.axvline(0, color="#c9d2da", linewidth=1)
    for rate, colour, name in ((slope, RED, "TD"), (-slope * slope, BLUE, "Impression GTD")):
        rate /= abs(rate)
        left.plot(theta, rate * theta, color=colour, linewidth=2)
        left.text(0.98, rate * 0.98 + 0.07 * np.sign(rate), name, color=colour, ha="right", size=10)
        for at in (-0.6, 0.6):
            push = 0.25 * np.sign(rate * at)
            left.annotate(
                "", (at + push, rate * at), (at, rate * at), arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 2}
            )
    left.set(xlabel="theta (the solution is 0)", ylabel="mean update (scaled)", xlim=(-1.05, 1.05), ylim=(-1.2, 1.2))
    for name, alpha, colour in (("td", 0.1, RED), ("impression_gtd", "auto", BLUE)):
        result = gradtd.run("baird", name, alpha=alpha, runs=5, steps=3000, snapshots=range(0, 3001, 50), threads=1)
        error = gradtd.measure(result, "rmsve")
        for run in error:
            right.plot(result.steps, np.where(run < 1e5, run, np.nan), color=colour, linewidth=1.1, alpha=0.8)
    right.text(1400, 2e4, "TD, alpha = 0.1", color=RED, size=10)
    right.text(1500, 9, "Impression GTD", color=BLUE, size=10)
    right.set(yscale="log", ylim=(1, 1e5), xlabel="steps", ylabel="RMSVE")
    return figure


def two_samples(tall: bool = False) -> Figure:
    """What is minimised: the square of a mean, or the mean of squares."""
    figure, (axes,) = axes_of(7.5, 3.8, "The loss along one direction of theta", tall=tall)
    stream = gradtd.sample("random_walk_dependent", 60_000, seed=1)
    exact = gradtd.exact("random_walk_dependent")
    steps = stream.steps
    now = stream.features[steps["row"]]
    later = stream.features[steps["next_row"]] * steps["discount"][:, None]
    way = np.linalg.svd(exact.A)[2][-1]
    reach = np.linspace(-1.2, 1.2, 49)
    plain, noise = [], []
    for s in reach:
        theta = exact.theta_star + s * way
        delta = steps["rho"] * (steps["reward"] + later @ theta - now @ theta)
        updates = now * delta[:, None]
        plain.append(float((updates.mean(axis=0) ** 2).sum()))
        noise.append(float(updates.var(axis=0).sum()))
    for m, colour in ((1, RED), (4, GOLD)):
        loss = np.array(plain) + np.array(noise) / m
        _loss(axes, reach, loss, colour, f"one batch used twice, m = {m}")
    _loss(axes, reach, np.array(plain), BLUE, "two independent batches: NEU")
    axes.axvline(0, color="#9aa5af", linewidth=1, linestyle=":")
    axes.set(xlabel="distance from the TD solution", ylabel="loss less its least value", ylim=(-0.004, None))
    axes.legend(frameon=False, fontsize=9)
    return figure


def _loss(axes: Any, at: np.ndarray, loss: np.ndarray, colour: str, name: str) -> None:
    best = int(np.argmin(loss))
    axes.plot(at, loss - loss[best], color=colour, linewidth=2, label=name)
    axes.plot([at[best]], [0], "o", color=colour, markersize=8)


def independence(tall: bool = False) -> Figure:
    """Odd and even episodes fill two buffers, and what happens without that."""
    figure, (left, right) = axes_of(
        9.5, 3.7, "Independence sampling", "Single pairs from 40 stored steps: mean error", tall=tall
    )
    left.set(xlim=(0, 10), ylim=(0, 6.2))
    left.set_axis_off()
    lengths = (3, 2, 4, 2, 3)
    y = 5.4
    for k, length in enumerate(lengths):
        colour = BLUE if k % 2 == 0 else GOLD
        left.text(0.1, y + 0.2, f"episode {k + 1}", size=9, color=QUIET, va="center")
        for j in range(length):
            left.add_patch(Rectangle((2.1 + 0.52 * j, y), 0.42, 0.42, facecolor=colour, alpha=0.85))
        arrow(left, (2.25 + 0.52 * length, y + 0.2), (5.1, 4.35 if k % 2 == 0 else 1.6), colour)
        y -= 1.1
    for middle, colour, name, use in (
        (4.3, BLUE, "buffer 1", "batch 1: A1'"),
        (1.6, GOLD, "buffer 2", "batch 2: A2 theta + b2"),
    ):
        box(left, (5.2, middle - 0.6), (1.9, 1.2), colour)
        left.text(6.15, middle, name, size=10, ha="center", va="center", color=INK)
        left.text(7.35, middle, use, size=9, va="center", color=colour)
    left.text(7.35, 2.95, "their product\nis unbiased", size=9.5, va="center", color=INK)
    settings = {"batch_size": 1, "alpha": 0.02, "average": "tail", "runs": 100, "steps": 10_000, "threads": 1}
    for split, capacity, colour, name in (
        ("none", 40, RED, "both from everything"),
        ("odd-even", 20, BLUE, "from different episodes"),
    ):
        result = gradtd.run(
            *("random_walk_dependent", "impression_gtd"),
            split=split,
            capacity=capacity,
            snapshots=range(0, 10_001, 200),
            **settings,
        )
        right.plot(result.steps, gradtd.measure(result, "rmspbe").mean(axis=0), color=colour, linewidth=2, label=name)
    right.set(xlabel="steps", ylabel="RMSPBE", ylim=(0, None))
    right.legend(frameon=False, fontsize=9)
    return figure


def _coarse(states: np.ndarray) -> np.ndarray:
    """Two features for five states: the last one, and all others."""
    last = np.asarray(states).ravel() == 5
    return np.stack([last, ~last], axis=1).astype(float)


def interval(tall: bool = False) -> Figure:
    """Forty logs, forty intervals: with features that can represent the value, and with one that cannot."""
    figure, both = axes_of(9.5, 4.4, "One feature per state", "Two features for five states", tall=tall)
    truth, _ = gradtd.true_value("random_walk_tabular")
    for axes, features in zip(both, ("one-hot", _coarse), strict=True):
        held = 0
        for seed in range(40):
            log = gradtd.sample_log("random_walk_tabular", 100, seed=seed)
            settings = {"algorithm": "lstd", "resamples": 0, "progress": False, "threads": 1}
            found = gradtd.evaluate(log, gamma=1.0, features=features, **settings)
            row = found.estimates[0]
            inside = row.low < truth < row.high
            held += inside
            colour = BLUE if inside else RED
            axes.plot([row.low, row.high], [seed, seed], color=colour, linewidth=2, solid_capstyle="butt")
            axes.plot([row.value], [seed], ".", color=colour, markersize=5)
        axes.axvline(truth, color=INK, linewidth=1)
        axes.set(xlabel=f"value: {held} of 40 intervals hold the truth", yticks=[], xlim=(-0.1, 1.1))
        axes.spines["left"].set_visible(False)
    both[0].set_ylabel("40 logs of 100 episodes", color=QUIET, fontsize=9)
    return figure


def verdict(tall: bool = False) -> Figure:
    """What other fits say of two evaluations of one log: one is usable, the other is not."""
    log = gradtd.sample_log("random_walk_tabular", 1000, seed=1)
    truth, _ = gradtd.true_value("random_walk_tabular")
    tries = {"auto": "auto", "two features": _coarse}
    answers = {name: gradtd.evaluate(log, gamma=1.0, features=f, progress=False) for name, f in tries.items()}
    figure, both = axes_of(9.5, 3.4, *(f"{name}: {found.verdict}" for name, found in answers.items()), tall=tall)
    for axes, found in zip(both, answers.values(), strict=True):
        shown = [check for check in found.checks if check.low is not None]
        for y, check in enumerate(shown):
            colour = BLUE if check.chosen else QUIET
            axes.plot([check.low, check.high], [-y, -y], color=colour, linewidth=4, solid_capstyle="butt")
            axes.plot([check.value], [-y], "o", color="white", markeredgecolor=colour)
        names = [f"{check.name} ({'headline' if check.chosen else check.kind})" for check in shown]
        axes.set_yticks([-y for y in range(len(shown))], names, fontsize=9)
        axes.axvline(truth, color=RED, linewidth=1.2)
        axes.set(ylim=(-len(shown) + 0.4, 0.6), xlabel="value (red: the truth)")
    return figure


DRAWN = (landing, divergence, two_samples, independence, interval, verdict)
FIGURES: dict[str, Callable[[], Figure]] = {
    make.__name__.replace("_", "-") + "-tall" * tall: partial(make, tall) for make in DRAWN for tall in (False, True)
}
"""Every picture, and the same for a narrow screen."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"which ones: {', '.join(FIGURES)}; by default all")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "gradtd", "font.family": "sans-serif"})
    for name in parser.parse_args().names or FIGURES:
        FIGURES[name]().savefig(HERE / f"{name}.svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    main()
