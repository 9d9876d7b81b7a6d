"""The page's section on lambda: a table and a picture per problem, and in words what lambda buys and costs there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.output.plots import OWN_COLOUR, STYLE, canvas, save
from gradtd.output.svg import picture
from gradtd.paper.lambdas import FAMILIES, LAMBDAS, OWN, RECORDED
from gradtd.paper.record import Reproduction
from gradtd.paper.store import Kept, Store

Found = Mapping[tuple[str, float], Kept]
TAIL = 0.9 * RECORDED[-1] < RECORDED


def lambda_sections(found: Reproduction, titles: Mapping[str, str], store: Store) -> list[dict[str, Any]]:
    """What the template shows for every problem."""
    return [_section(problem, titles[problem], by_lambda, store) for problem, by_lambda in found.lambdas.items()]


def _section(problem: str, title: str, by_lambda: Found, store: Store) -> dict[str, Any]:
    rows = [{"label": label, "cells": [_cell(by_lambda[label, lam]) for lam in LAMBDAS]} for label in FAMILIES]
    solution = [by_lambda["LSTD", lam].told for lam in LAMBDAS]
    return {
        "title": title,
        "image": _draw(problem, title, by_lambda, store),
        "rows": rows,
        "bias": [told["bias"] for told in solution],
        "infinite": [lam for lam, told in zip(LAMBDAS, solution, strict=True) if not told["finite"]],
        "words": [_words(label, by_lambda) for label in (OWN.label, "Impression GTD (auto)", "TD", "LSTD")],
    }


def _cell(kept: Kept) -> dict[str, Any]:
    values = kept.arrays["rmsve"]
    return {"area": float(values.mean()), "end": float(values[:, TAIL].mean()), "alpha": kept.told.get("alpha")}


def _ends(label: str, by_lambda: Found) -> Floats:
    """The error over the last tenth of the steps, by lambda and run."""
    return np.array([by_lambda[label, lam].arrays["rmsve"][:, TAIL].mean(axis=1) for lam in LAMBDAS])


def _words(label: str, by_lambda: Found) -> str:
    """Where the error in the end is least, and whether the runs are enough to say so; runs are paired by their data."""
    ends = _ends(label, by_lambda)
    best, last = int(ends.mean(axis=1).argmin()), len(LAMBDAS) - 1
    cost = f"lambda {LAMBDAS[last]:g} makes its error {ends[last].mean() / ends[0].mean():.2f} times that of lambda 0"
    if best == 0:
        return f"{label} is best without traces; {cost}."
    apart = ends[best] - ends[0]
    clear = abs(float(apart.mean())) > 2 * float(apart.std(ddof=1)) / np.sqrt(len(apart))
    share = ends[best].mean() / ends[0].mean()
    unsure = "" if clear else " (within two standard errors of nothing)"
    return f"{label} is best with lambda {LAMBDAS[best]:g}: {share:.2f} times the error of lambda 0{unsure}; {cost}."


def _draw(problem: str, title: str, by_lambda: Found, store: Store) -> str:
    figure, axes = canvas(f"{title}: error against lambda")
    for label in (label for label in FAMILIES if label in OWN_COLOUR):  # the table has all
        ends = _ends(label, by_lambda).mean(axis=1)
        axes.plot(
            LAMBDAS,
            ends,
            color=OWN_COLOUR[label],
            linestyle=STYLE.get(label, "-"),
            marker="o",
            markersize=3,
            linewidth=1 if label == "LSTD" else 1.6,
            label=label,
        )
    biases = [by_lambda["LSTD", lam].told["bias"] for lam in LAMBDAS]
    if max(biases) > 1e-3 * max(float(_ends("LSTD", by_lambda).max()), 1e-300):
        axes.plot(LAMBDAS, biases, color="#777777", linestyle=":", label="the solution itself")
    axes.set_yscale("log")
    axes.set_xlabel("lambda")
    axes.set_ylabel("RMSVE over the last tenth of the steps")
    figure.legend(frameon=False, fontsize=8, loc="outside right upper")
    for ending in ("png", "svg"):
        save(figure, store.path(f"figures/lambda_{problem}.{ending}"))
    return picture(figure, phone=False)


def lambda_table(found: Reproduction) -> dict[str, Any]:
    """One row per problem, family and lambda, for ``curves/lambda.parquet``."""
    problems, labels = list(found.lambdas), list(FAMILIES)
    keys = [(p, label, lam) for p in problems for label in labels for lam in LAMBDAS]
    cells = [_cell(found.lambdas[p][label, lam]) for p, label, lam in keys]
    return {
        "problem": (problems, np.array([problems.index(p) for p, _, _ in keys])),
        "line": (labels, np.array([labels.index(label) for _, label, _ in keys])),
        "lambda": np.array([lam for _, _, lam in keys]),
        "alpha": np.array([np.nan if cell["alpha"] is None else cell["alpha"] for cell in cells]),
        "area": np.array([cell["area"] for cell in cells]),
        "end": np.array([cell["end"] for cell in cells]),
    }
