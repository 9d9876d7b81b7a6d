"""What a sweep came to: one tidy table, the best setting of every algorithm, and how they did on fresh seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.output.plots import mean_and_error
from gradtd.output.tables import Table
from gradtd.running.sweeps.grid import Setting
from gradtd.running.sweeps.units import Values

All = Mapping[Setting, Values]
"""What every setting came to, in the order of the table."""


@dataclass(frozen=True, eq=False)
class Swept:
    """What a sweep came to. Made by `gradtd.Sweep.run`.

    Parameters
    ----------
    results, winners : pyarrow.Table
        Tidy tables: problem, algorithm, hyper (JSON), metric, step, mean, se, runs, diverged. ``results`` has every
        setting, ``winners`` the best one of each algorithm on each problem, run again on fresh seeds.
    folder : Path
        Where it is kept; ``index.html`` is a page about it.
    notes : list of str
        What a reader of the tables should know.
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
            The winners on fresh seeds instead of every setting.
        """
        try:
            import pandas  # noqa: F401
        except ImportError:
            raise InputError("to_frame needs pandas, which is not installed: pip install pandas.") from None
        return (self.winners if winners else self.results).to_pandas()

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
        """The page about it."""
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
    # One run has no standard error: there is none, rather than one that is not a number.
    real = {name: pa.array(joined[name], mask=np.isnan(joined[name])) for name in ("mean", "se")}
    words = {name: pa.array(column, pa.string()) for name, column in columns.items()}
    return words | {name: (whole | real)[name] for name in numbers}


def score(values: Values, metric: str, best: str) -> float:
    """What the best setting has least of: the metric's mean over runs at the last step, or over all steps."""
    measured: Floats = values.metrics[metric]
    return float(measured[:, -1].mean() if best == "last" else measured.mean())


def sound(values: Values) -> bool:
    """Whether every run learned and none diverged."""
    return bool(values.learned.all() and (values.diverged_at < 0).all())


def winners_of(found: All, metric: str, best: str) -> list[Setting]:
    """For each problem and algorithm the best setting among those that never diverged; the first of equals."""
    chosen: dict[tuple[str, str], tuple[float, Setting]] = {}
    for setting, values in found.items():
        key = (setting.problem, setting.algorithm)
        if sound(values) and (key not in chosen or score(values, metric, best) < chosen[key][0]):
            chosen[key] = (score(values, metric, best), setting)
    return [setting for _, setting in chosen.values()]


def notes_of(found: All, winners: Sequence[Setting]) -> list[str]:
    """Which settings diverged or never learned, and which algorithms have no winner."""
    diverged = sum(bool((values.diverged_at >= 0).any()) for values in found.values())
    idle = sum(not values.learned.all() for values in found.values())
    notes = [f"{diverged} of {len(found)} settings diverged in at least one run."] if diverged else []
    if idle:
        notes.append(
            f"{idle} of {len(found)} settings have runs that never learned (their buffers did not fill): "
            "those keep their start weights."
        )
    won = {(setting.problem, setting.algorithm) for setting in winners}
    for problem, algorithm in dict.fromkeys((s.problem, s.algorithm) for s in found):
        if (problem, algorithm) not in won:
            notes.append(f"{algorithm} on {problem} has no winner: every setting diverged, or never learned.")
    return notes
