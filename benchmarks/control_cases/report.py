"""Tables, a picture and a page of the runs of `benchmarks/control.py`."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from control_cases.scores import difference, interval, iqm, resampled
from gradtd.output.pages import render
from gradtd.output.svg import picture
from gradtd.output.tables import Table

Curves = dict[tuple[str, str, float], Any]
"""By world, agent and step-size: (seeds, bins)."""
STEPS = 50_000


class Runs(NamedTuple):
    """What was run: curves, and the names in the order of tables."""

    curves: Curves
    worlds: Sequence[str]
    agents: Sequence[str]
    step_sizes: Sequence[float]

    def scores(self, worlds: Sequence[str], agent: str, step: float) -> Any:
        """(worlds, seeds) where all of it is there."""
        if any((world, agent, step) not in self.curves for world in worlds):
            return None
        scores = [self.curves[world, agent, step].mean(axis=1) for world in worlds]
        fewest = min(map(len, scores))
        return np.array([one[:fewest] for one in scores])

    def whole(self) -> list[str]:
        """The worlds that have runs."""
        return [world for world in self.worlds if any(key[0] == world for key in self.curves)]


def middle_tables(runs: Runs) -> list[Table]:
    """Interquartile means of the score: all worlds together, and each."""
    made = []
    for name, worlds in _groups(runs):
        rows = []
        for agent in runs.agents:
            cells = [_iqm_of(runs.scores(worlds, agent, step)) for step in runs.step_sizes]
            if any(cells):
                rows.append((agent, *(cell or "-" for cell in cells)))
        made.append(_table(f"{name}: interquartile mean of the score", "agent", rows, runs))
    return made


def difference_tables(runs: Runs) -> list[Table]:
    """The first agent's interquartile mean minus the others'."""
    made = []
    for name, worlds in _groups(runs):
        rows = []
        for agent in runs.agents[1:]:
            pairs = [[runs.scores(worlds, one, step) for one in (runs.agents[0], agent)] for step in runs.step_sizes]
            cells = [_told(*pair) for pair in pairs]
            if any(cells):
                rows.append((agent, *(cell or "-" for cell in cells)))
        made.append(_table(f"{name}: {runs.agents[0]} minus the other", "other", rows, runs))
    return made


def _groups(runs: Runs) -> list[tuple[str, Sequence[str]]]:
    worlds = runs.whole()
    return [("All worlds", worlds), *((world, (world,)) for world in worlds)]


def _table(title: str, first: str, rows: list[tuple[str, ...]], runs: Runs) -> Table:
    return Table(title, [first, *(f"{step:g}" for step in runs.step_sizes)], rows, words=1)


def _told(one: Any, other: Any) -> str:
    """The difference with its interval; nothing where a cell is missing."""
    if one is None or other is None:
        return ""
    return "{:+.3f} [{:+.3f}, {:+.3f}]".format(*difference(one, other))


def _iqm_of(scores: Any) -> str:
    if scores is None:
        return ""
    low, high = interval(resampled(scores, np.random.default_rng(0)))
    return f"{iqm(scores):.3f} [{low:.3f}, {high:.3f}]"


def markdown(table: Table) -> str:
    """The table for a Markdown page."""
    lines = [table.columns, ["---"] * len(table.columns), *table.rows]
    return "\n".join([f"{table.title}\n", *("| " + " | ".join(row) + " |" for row in lines), ""])


def draw_worlds(runs: Runs, path: Path) -> None:
    """All worlds side by side, as one image."""
    plt = _pyplot()
    worlds = runs.whole()
    figure, axes = plt.subplots(2, len(worlds), figsize=(4 * len(worlds), 6), squeeze=False)
    for column, world in enumerate(worlds):
        _draw_curves(axes[0, column], runs, world)
        _draw_areas(axes[1, column], runs, world)
        axes[0, column].set_title(world)
    axes[1, 0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=90)


def write_page(runs: Runs, path: Path, settings: str) -> None:
    """A page with learning curves, the score against the step-size, and the tables."""
    plt = _pyplot()
    middles, differences = middle_tables(runs), difference_tables(runs)
    about = "Learning curves, the score against the step-size, and interquartile means with 95 % bootstrap intervals."
    parts = [f"<h1>Control with networks</h1><p>{about}</p>"]
    for number, name in enumerate(["All worlds", *runs.whole()]):
        parts.append(f"<h2>{escape(name)}</h2>")
        if number:
            wide, narrow = (_draw_world(plt, runs, name, shape) for shape in ((1, 2), (2, 1)))
            alt = f"Learning curves on {name}, and the score against the step-size"
            for kind, drawn in (("wide only", wide), ("tall", narrow)):
                parts.append(f'<figure><img class="{kind}" alt="{escape(alt)}" src="{drawn}"></figure>')
        parts += [f'<div class="scroll" tabindex="0">{one[number].html()}</div>' for one in (middles, differences)]
    paragraphs = settings.strip().split("\n\n")
    parts += ["<h2>Settings</h2>", *(f"<p>{escape(one)}</p>" for one in paragraphs if not one.startswith("    "))]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head += "<title>Control with networks</title>" + render("style.html")
    inside = "\n".join(parts)
    path.write_text(
        f'<!doctype html>\n<html lang="en"><head>{head}</head><body><main>\n{inside}\n</main></body></html>\n',
        encoding="utf-8",
    )


def _draw_world(plt: Any, runs: Runs, world: str, shape: tuple[int, int]) -> str:
    """Curves and areas of one world, side by side or one above the other."""
    size = (9.0, 3.8) if shape == (1, 2) else (4.2, 8.0)
    figure, axes = plt.subplots(*shape, figsize=size, layout="constrained")
    _draw_curves(axes[0], runs, world)
    _draw_areas(axes[1], runs, world)
    lines, names = axes[1].get_legend_handles_labels()
    figure.legend(
        lines, names, loc="outside lower center", ncols=6 if shape == (1, 2) else 2, fontsize=8, frameon=False
    )
    made = picture(figure, phone=False)
    plt.close(figure)
    return made


def _draw_curves(axis: Any, runs: Runs, world: str) -> None:
    """Single runs and their mean at the middle step-size."""
    middle = sorted(runs.step_sizes)[len(runs.step_sizes) // 2]
    for number, agent in enumerate(runs.agents):
        seen = runs.curves.get((world, agent, middle))
        if seen is not None:
            at = (np.arange(seen.shape[1]) + 0.5) * STEPS / seen.shape[1]
            axis.plot(at, seen.T, color=f"C{number}", alpha=0.08, linewidth=0.6)
            axis.plot(at, seen.mean(axis=0), color=f"C{number}")
    axis.set(xlabel=f"steps, at step-size {middle:g}", ylabel="return of the last episode (0 to 1)", ylim=(0, 1))


def _draw_areas(axis: Any, runs: Runs, world: str) -> None:
    """The score against the step-size."""
    steps = sorted(runs.step_sizes)
    for number, agent in enumerate(runs.agents):
        rows = [(step, runs.scores((world,), agent, step)) for step in steps if (world, agent, step) in runs.curves]
        if not rows:
            continue
        middles = [float(iqm(scores)) for _, scores in rows]
        ends = [interval(resampled(scores, np.random.default_rng(0))) for _, scores in rows]
        at = [step * 1.04 ** (number - 2) for step, _ in rows]
        error = np.abs(np.array(ends).T - middles)
        axis.errorbar(at, middles, error, color=f"C{number}", marker="o", markersize=4, label=agent)
    axis.set(xscale="log", xlabel="step-size", ylabel="score, interquartile mean", ylim=(0, 1))
    axis.minorticks_off()
    axis.set_xticks(steps, [f"{one:g}" for one in steps])


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt
