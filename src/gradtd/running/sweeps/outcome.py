"""The outcome of a sweep: one tidy table, the best settings on fresh seeds, and a page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats, make_frame
from gradtd.core.files import write_text
from gradtd.output.pages import render
from gradtd.output.plots import Line, mean_and_error, sensitivity_curves, winner_curves
from gradtd.output.svg import picture
from gradtd.output.tables import Table
from gradtd.running.sweeps.grid import Setting
from gradtd.running.sweeps.units import Values

All = Mapping[Setting, Values]
"""The outcomes of all settings, in the order of the table."""


@dataclass(frozen=True, eq=False)
class Swept:
    """The outcome of a sweep. Made by `gradtd.Sweep.run`.

    Parameters
    ----------
    results, winners : pyarrow.Table
        Tidy tables: problem, algorithm, hyper (JSON), metric, step, mean, se, runs, diverged. ``results`` holds every
        setting, ``winners`` the best setting of each algorithm on each problem, run again on fresh seeds.
    folder : Path
        The folder of the sweep, with the page ``index.html``.
    notes : list of str
        Remarks on the tables.
    """

    results: Any
    winners: Any
    folder: Path
    notes: Sequence[str] = ()

    def to_frame(self, winners: bool = False) -> Any:
        """The table as a pandas frame.

        Parameters
        ----------
        winners : bool
            Whether to return the winners on fresh seeds instead of all settings.
        """
        return make_frame((self.winners if winners else self.results).to_pydict())

    def table(self) -> Table:
        """The winners on fresh seeds, at the last step, one row for each algorithm on each problem and metric."""
        last = max(self.winners["step"].to_pylist(), default=0)
        rows = [row for row in self.winners.to_pylist() if row["step"] == last]
        columns = ("problem", "algorithm", "hyper", "metric", "mean", "se", "diverged")
        return Table(
            f"best settings, run again on fresh seeds, after {last} steps",
            columns,
            [[_shown(row[name]) for name in columns] for row in rows],
            words=4,
            notes=self.notes,
        )

    @property
    def page(self) -> Path:
        """The HTML page of the sweep."""
        return self.folder / "index.html"

    def __repr__(self) -> str:
        return f"Swept({self.results.num_rows} rows, {self.winners.num_rows} of winners, in {str(self.folder)!r})"

    def __rich__(self) -> Any:
        return self.table().rich()

    def _repr_html_(self) -> str:
        return self.table().html()


def _shown(cell: Any) -> str:
    if cell is None:
        return "-"
    return f"{cell:.5g}" if isinstance(cell, float) else str(cell)


def tidy(found: All, at: Sequence[int]) -> dict[str, Any]:
    """The columns of the tidy table, sorted by setting, metric and step."""
    import pyarrow as pa

    columns: dict[str, list[Any]] = {name: [] for name in ("problem", "algorithm", "hyper", "metric")}
    numbers: dict[str, list[Any]] = {name: [] for name in ("step", "mean", "se", "runs", "diverged")}
    steps = np.array(at, np.int64)
    for setting, values in found.items():
        diverged = [int(((values.diverged_at >= 0) & (values.diverged_at <= k)).sum()) for k in at]
        for metric in sorted(values.metrics):
            mean, error = mean_and_error(values.metrics[metric])
            for name, word in zip(columns, (*setting, metric), strict=True):
                columns[name] += [word] * len(at)
            told = (steps, mean, error, np.full(len(at), len(values.diverged_at)), np.array(diverged))
            for name, column in zip(numbers, told, strict=True):
                numbers[name].append(column)
    joined = {name: np.concatenate(parts) if parts else np.zeros(0) for name, parts in numbers.items()}
    whole = {name: pa.array(joined[name].astype(np.int64)) for name in ("step", "runs", "diverged")}
    # One run has no standard error: null, not NaN.
    real = {name: pa.array(joined[name], mask=np.isnan(joined[name])) for name in ("mean", "se")}
    words = {name: pa.array(column, pa.string()) for name, column in columns.items()}
    return words | {name: (whole | real)[name] for name in numbers}


def score(values: Values, metric: str, best: str) -> float:
    """The score to minimise: the metric's mean over runs at the last step, or over all steps."""
    measured: Floats = values.metrics[metric]
    return float(measured[:, -1].mean() if best == "last" else measured.mean())


def sound(values: Values) -> bool:
    """Whether every run learned and none diverged."""
    return bool(values.learned.all() and (values.diverged_at < 0).all())


def winners_of(found: All, metric: str, best: str) -> list[Setting]:
    """For each problem and algorithm, the best setting that never diverged; the first one if several are equal."""
    chosen: dict[tuple[str, str], tuple[float, Setting]] = {}
    for setting, values in found.items():
        key = (setting.problem, setting.algorithm)
        if sound(values) and (key not in chosen or score(values, metric, best) < chosen[key][0]):
            chosen[key] = (score(values, metric, best), setting)
    return [setting for _, setting in chosen.values()]


def notes_of(found: All, winners: Sequence[Setting]) -> list[str]:
    """Notes about settings that diverged or never learned, and about algorithms without a winner."""
    diverged = sum(bool((values.diverged_at >= 0).any()) for values in found.values())
    idle = sum(not values.learned.all() for values in found.values())
    notes = [f"{diverged} of {len(found)} settings diverged in at least one run."] if diverged else []
    if idle:
        notes.append(
            f"{idle} of {len(found)} settings have runs that never learned (their buffers did not fill): "
            "these runs keep their initial weights."
        )
    won = {(setting.problem, setting.algorithm) for setting in winners}
    for problem, algorithm in dict.fromkeys((s.problem, s.algorithm) for s in found):
        if (problem, algorithm) not in won:
            notes.append(f"{algorithm} on {problem} has no winner: every setting diverged, or never learned.")
    return notes


Row = Mapping[str, Any]


def write_page(swept: Swept, metric: str, best: str) -> Path:
    """Write the page and its pictures into the folder of a sweep."""
    rows, winners = (
        [row for row in table.to_pylist() if row["metric"] == metric] for table in (swept.results, swept.winners)
    )
    sections = [_section(problem, rows, winners, metric, best) for problem in dict.fromkeys(r["problem"] for r in rows)]
    found = swept.table()
    text = render(
        "sweep.html",
        title="A sweep",
        about=found.title,
        winners=Table("", found.columns, found.rows, words=4, notes=found.notes).html(),
        sections=sections,
    )
    return write_text(swept.page, text)


def _section(problem: str, rows: list[Row], winners: list[Row], metric: str, best: str) -> dict[str, Any]:
    own = [row for row in rows if row["problem"] == problem]
    scores = _scores(own, best)
    when = "at the last step" if best == "last" else "over all steps measured"
    pictures = [
        (f"{metric} {when} against {name}", picture(sensitivity_curves(lines, name, metric, title=problem)))
        for name in _varied(scores)
        if (lines := _lines(scores, name))
    ]
    curves = {
        f"{algorithm} {hyper}": [row for row in winners if (row["problem"], row["algorithm"]) == (problem, algorithm)]
        for algorithm, hyper in dict.fromkeys((r["algorithm"], r["hyper"]) for r in winners if r["problem"] == problem)
    }
    if curves and len(next(iter(curves.values()))) > 1:
        pictures.append(
            (
                f"{metric} of the winners on fresh seeds, with 95 % intervals",
                picture(_winner_picture(curves, problem, metric)),
            )
        )
    table = Table(
        "",
        ("algorithm", "hyper", metric, "diverged"),
        [(algorithm, hyper, f"{value:.5g}", str(diverged)) for (algorithm, hyper), (value, diverged) in scores.items()],
        words=2,
    )
    return {"problem": problem, "pictures": pictures, "numbers": table.html(), "when": when, "metric": metric}


def _scores(rows: list[Row], best: str) -> dict[tuple[str, str], tuple[float, int]]:
    """The score of each setting and its number of diverged runs."""
    grouped: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        grouped.setdefault((row["algorithm"], row["hyper"]), []).append(row)
    return {
        key: (
            float(found[-1]["mean"] if best == "last" else np.mean([row["mean"] for row in found])),
            int(found[-1]["diverged"]),
        )
        for key, found in grouped.items()
    }


def _varied(scores: Mapping[tuple[str, str], Any]) -> list[str]:
    """Hyper-parameters that take several numbers in at least one algorithm."""
    taken: dict[tuple[str, str], set[float]] = {}
    for algorithm, hyper in scores:
        for name, value in json.loads(hyper).items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                taken.setdefault((name, algorithm), set()).add(value)
    return sorted({name for (name, _), values in taken.items() if len(values) > 1})


def _lines(scores: Mapping[tuple[str, str], tuple[float, int]], name: str) -> list[Line]:
    """For every algorithm, the best score at each value of a hyper-parameter over all values of the others."""
    best: dict[str, dict[Any, tuple[float, int]]] = {}
    for (algorithm, hyper), (value, diverged) in scores.items():
        at = json.loads(hyper).get(name)
        if at is None:
            continue
        places = best.setdefault(algorithm, {})
        if at not in places or (diverged > 0, value) < (places[at][1] > 0, places[at][0]):
            places[at] = (value, diverged)
    return [Line(algorithm, places) for algorithm, places in best.items()]


def _winner_picture(curves: Mapping[str, list[Row]], problem: str, metric: str) -> Any:
    lines = {
        label: (
            np.array([row["step"] for row in rows]),
            np.array([row["mean"] for row in rows]),
            np.array([np.nan if row["se"] is None else row["se"] for row in rows]),
        )
        for label, rows in curves.items()
    }
    return winner_curves(lines, metric, title=problem)
