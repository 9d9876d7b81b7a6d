"""Writes one self-contained page and the figures as files, from a finished reproduction, without computing."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.output.pages import render
from gradtd.output.plots import paper_figure, sensitivity_figure, styled
from gradtd.output.svg import picture
from gradtd.paper.criteria import minus_bias
from gradtd.paper.figures import BESIDE, COMPARISONS, LABELS, READINGS, Figure
from gradtd.paper.jobs import SEED, TUNING_SEED, Reproduction, Store
from gradtd.paper.lambda_runs import LAMBDAS, lambda_sections
from gradtd.paper.lambda_runs import STEPS as LAMBDA_STEPS
from gradtd.theory.picture import theory_picture

PROBLEM_TITLES = {
    "boyan_chain": "Boyan's chain",
    "random_walk_tabular": "Random walk, tabular features",
    "random_walk_inverted": "Random walk, inverted features",
    "random_walk_dependent": "Random walk, dependent features",
    "baird": "Baird's counterexample",
}
BESIDE_LABELS = tuple(line.label for line in BESIDE)
VERDICTS = ("reproduces", "reproduces under another reading", "undecided", "does not reproduce")


def write_report(found: Reproduction, store: Store, command: str) -> Path:
    """Draw every figure and write ``index.html``; returns its path."""
    sections = [_section(problem, found, store) for problem in found.sweeps]
    across = [c for c in found.claims if len(c["figures"]) != 1 or c["figures"][0].startswith("extra:")]
    page = render(
        "report.html",
        summary=_summary(found),
        claims=found.claims,
        sections=sections,
        places={f.label: "figure-" + f.name for f in found.figures},
        across=across,
        lambdas=lambda_sections(found, PROBLEM_TITLES, store),
        lambda_values=LAMBDAS,
        lambda_steps=int(LAMBDA_STEPS),
        changed=_changed(found),
        labels=LABELS,
        ratios_at=RATIOS_AT,
        readings=READINGS,
        command=command,
        runs=found.runs,
        steps=int(found.steps[-1]),
        seed=SEED,
        tuning_seed=TUNING_SEED,
        versions={name: version(name) for name in ("gradtd", "numpy", "scipy", "numba", "matplotlib", "pyarrow")},
        python=platform.python_version(),
        seconds=found.seconds,
        run_steps=found.run_steps,
        threads=found.threads,
    )
    return store.write_text("index.html", page)


def kind(verdict: str) -> str:
    """The verdict in a claim's wording, one of four."""
    return VERDICTS[1] if verdict.startswith("reproduces under") else verdict


def _changed(found: Reproduction) -> list[dict[str, Any]]:
    """The criteria that were changed after the curves were computed: the old wording and the new one."""
    rows: dict[str, dict[str, Any]] = {}
    for claim in found.claims:
        if claim["before"] is not None:
            row = rows.setdefault(claim["before"]["id"], {"before": claim["before"], "now": []})
            row["now"].append(claim)
    return list(rows.values())


def _counts(claims: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    words = [kind(claim["verdict"]) for claim in claims]
    return {word: words.count(word) for word in VERDICTS}


def _summary(found: Reproduction) -> dict[str, Any]:
    first = {(c["before"] or c)["id"]: c["before"] or c for c in found.claims}
    by_reading = {
        reading: [c["id"] for c in found.claims if c["readings"].get(reading, {}).get("holds")] for reading in READINGS
    }
    return {
        "counts": _counts(found.claims),
        "total": len(found.claims),
        "by_reading": by_reading,
        "first_counts": _counts(first.values()),
        "first_total": len(first),
    }


def _section(problem: str, found: Reproduction, store: Store) -> dict[str, Any]:
    figures = []
    for figure in found.figures:
        if figure.problem == problem:
            claims = [c for c in found.claims if c["figures"] == [figure.label]]
            figures.append({"figure": figure, "image": draw(figure, found, store), "claims": claims})
    return {
        "title": PROBLEM_TITLES[problem],
        "problem": problem,
        "figures": figures,
        "tuned_image": _draw_tuned(problem, found, store),
        "sensitivity_image": _draw_sensitivity(problem, found, store),
        "tuned": _tuned_rows(problem, found),
        "ratios": _ratio_rows(problem, found),
        "theory": _theory(problem, found, store),
    }


def draw(figure: Figure, found: Reproduction, store: Store) -> str:
    """Draw one of the paper's figures under the first reading; returns the picture for the page."""
    curves = found.curves[figure.label, "A1"]
    shown = {line.label: curves.values[line.label] for line in (*figure.lines, *BESIDE) if line.shown}
    shift = None
    if figure.minus_bias:
        shift = {
            label: float((v.mean(axis=0) - minus_bias(found.steps, v.mean(axis=0)))[0]) for label, v in shown.items()
        }
    axes = paper_figure(
        found.steps,
        styled(shown),
        _paths(store, figure.name),
        title=figure.title,
        metric=figure.metric,
        log=figure.log,
        shift=shift,
        ceiling=_ceiling(shown),
        cut=_cut(shown),
    )
    return picture(axes.figure, phone=figure is found.figures[0])  # only the figure on the first screen


def _cut(curves: Mapping[str, Floats]) -> float:
    """A thousandth of the lowest error among the paper's lines: lower values would flatten them."""
    lowest = [float(v.mean(axis=0).min()) for label, v in curves.items() if label not in BESIDE_LABELS]
    return 1e-3 * min(lowest)


def _ceiling(curves: Mapping[str, Floats]) -> float:
    """Ten times the initial error: a diverging line leaves the plot instead of flattening the others."""
    return 10 * max(float(values[:, 0].mean()) for values in curves.values())


def _draw_tuned(problem: str, found: Reproduction, store: Store) -> str:
    tuned = found.tuned_curves[problem]
    title = f"{PROBLEM_TITLES[problem]}: every algorithm with its best step-size"
    axes = paper_figure(
        found.steps,
        styled(tuned),
        _paths(store, f"tuned_{problem}"),
        title=title,
        metric="rmsve",
        log=True,
        ceiling=_ceiling(tuned),
        cut=_cut(tuned),
    )
    return picture(axes.figure, phone=False)


def _draw_sensitivity(problem: str, found: Reproduction, store: Store) -> str:
    paths = _paths(store, f"sensitivity_{problem}")
    sweeps = {LABELS[a]: sweep for a, sweep in found.sweeps[problem].items()}
    title = f"{PROBLEM_TITLES[problem]}: step-size sensitivity"
    return picture(sensitivity_figure(sweeps, paths, title=title, metric="rmsve").figure, phone=False)


def _tuned_rows(problem: str, found: Reproduction) -> list[dict[str, Any]]:
    """For each algorithm: its best step-size, its final error, and its mean error over all steps, compared with
    LSTD."""
    tail = found.steps > 0.9 * found.steps[-1]
    floor = found.tuned_curves[problem]["LSTD"]
    rows = []
    for label, values in found.tuned_curves[problem].items():
        name = next((n for n, known in LABELS.items() if known == label), "")
        rows.append(
            {
                "label": label,
                "alpha": found.tuned[problem].get(name),
                "end": float(values[:, tail].mean()),
                "area": float(values.mean()),
                "over_lstd": float(values[:, tail].mean() / floor[:, tail].mean()),
                "far": int((values[:, -1] > 10 * values[:, 0]).sum()),
            }
        )
    return sorted(rows, key=lambda row: row["area"])


RATIOS_AT = (500, 1500, 3000, 5000, 10_000)


def _ratio_rows(problem: str, found: Reproduction) -> list[dict[str, Any]]:
    """Mean errors divided by LSTD's on the same data, at chosen steps, as published and with the best step-size."""
    chosen = np.searchsorted(found.steps, RATIOS_AT)
    floor = found.tuned_curves[problem]["LSTD"].mean(axis=0)[chosen]
    published = {}
    for figure in found.figures:
        if figure.label == COMPARISONS[problem]:
            values = found.curves[figure.label, "A1"].values
            published = {line.label: values[line.label] for line in figure.lines}
    rows = [("published", label, values) for label, values in published.items()]
    rows += [("best step-size", k, v) for k, v in found.tuned_curves[problem].items() if k not in BESIDE_LABELS]
    rows += [("no step-size", k, found.tuned_curves[problem][k]) for k in BESIDE_LABELS if k != "LSTD"]
    made = [
        {"setting": kind, "label": label, "ratios": (values.mean(axis=0)[chosen] / floor).tolist()}
        for kind, label, values in rows
    ]
    return sorted(made, key=lambda row: float(row["ratios"][-1]))


def _paths(store: Store, name: str) -> list[Path]:
    return [store.path(f"figures/{name}.{ending}") for ending in ("png", "svg")]


def _theory(problem: str, found: Reproduction, store: Store) -> dict[str, Any]:
    """The theory for the published setting of Impression GTD: constants, Table 1, and exact against measured errors."""
    curves, told = found.theory[problem]
    drawn = theory_picture(told, curves, _paths(store, f"theory_{problem}"))
    return {**told, "image": picture(drawn, phone=False)}
