"""The tables that a reproduction leaves: tidy Parquet for the curves and the sweeps, JSON for the verdicts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.files import Arrays
from gradtd.paper.figures import BESIDE, GRID, Figure
from gradtd.paper.lambda_section import lambda_table
from gradtd.paper.record import Reproduction
from gradtd.paper.store import Store


def write_tables(store: Store, found: Reproduction) -> None:
    """Write ``curves/*.parquet`` and ``claims.json``."""
    for figure in found.figures:
        store.write_table(f"curves/{figure.name}.parquet", tidy(_lines(figure, found), found.steps))
    for problem, sweeps in found.sweeps.items():
        store.write_table(f"curves/sensitivity_{problem}.parquet", _sweep_table(sweeps))
        tuned = {("A1", label): values for label, values in found.tuned_curves[problem].items()}
        store.write_table(f"curves/tuned_{problem}.parquet", tidy(tuned, found.steps))
    if found.lambdas:
        store.write_table("curves/lambda.parquet", lambda_table(found))
    store.write_text("claims.json", json.dumps(found.claims, indent=1))


def _lines(figure: Figure, found: Reproduction) -> dict[tuple[str, str], Floats]:
    """The curves of a figure by reading and label; a line is left out where a reading does not change it."""
    lines = {line.label: line for line in (*figure.lines, *BESIDE)}
    return {
        (reading, label): values
        for reading in figure.readings
        for label, values in found.curves[figure.label, reading].values.items()
        if reading in ("A1", "v-mu") or lines[label].has_readings
    }


def _sweep_table(sweeps: Mapping[str, Arrays]) -> dict[str, Any]:
    """One row per algorithm and step-size."""
    names = list(sweeps)
    columns = {name: np.concatenate([sweeps[a][name] for a in names]) for name in ("error", "area", "diverged")}
    algorithm = (names, np.repeat(np.arange(len(names)), len(GRID)))
    return {"algorithm": algorithm, "alpha": np.tile(np.array(GRID), len(names)), **columns}


def tidy(rows: Mapping[tuple[str, str], Floats], steps: Integers) -> dict[str, Any]:
    """One row per line, reading, run and recorded step; ``rows`` has the curves by reading and label."""
    readings, labels = list(dict.fromkeys(r for r, _ in rows)), list(dict.fromkeys(label for _, label in rows))
    runs, n = next(iter(rows.values())).shape
    size = runs * n
    return {
        "line": (labels, np.repeat([labels.index(label) for _, label in rows], size)),
        "reading": (readings, np.repeat([readings.index(r) for r, _ in rows], size)),
        "run": np.tile(np.repeat(np.arange(runs, dtype=np.int32), n), len(rows)),
        "step": np.tile(steps.astype(np.int32), runs * len(rows)),
        "value": np.concatenate([values.ravel() for values in rows.values()]),
    }
