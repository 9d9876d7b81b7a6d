"""One page about a sweep: the winners, how sensitive every algorithm is, and every number."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.output.pages import render, write_text
from gradtd.output.sensitivity import Line, sensitivity_curves, winner_curves
from gradtd.output.svg import picture
from gradtd.output.tables import Table
from gradtd.running.sweeps.outcome import Swept

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
    """For each setting what the winner is chosen by, and how many runs diverged."""
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
    """Hyper-parameters that take several numbers in some algorithm."""
    taken: dict[tuple[str, str], set[float]] = {}
    for algorithm, hyper in scores:
        for name, value in json.loads(hyper).items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                taken.setdefault((name, algorithm), set()).add(value)
    return sorted({name for (name, _), values in taken.items() if len(values) > 1})


def _lines(scores: Mapping[tuple[str, str], tuple[float, int]], name: str) -> list[Line]:
    """For every algorithm the best score at each value of a hyper-parameter, the others as is best there."""
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
