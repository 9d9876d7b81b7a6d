"""Builds the lab: tables of problems and published settings, template, styles and scripts, joined into one HTML file.

The tables are the library's own arrays, so no dynamics are implemented twice. Python and JavaScript read the same
decimal digits as the same float64, so no precision is lost.
"""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.algorithms.auto_step import auto_fields
from gradtd.core.arrays import Floats
from gradtd.core.files import write_text, writing
from gradtd.paper.figures import ALPHAS, BESIDE, FIGURES, FRAMEWORK, PUBLISHED, STEPS, Figure, Line
from gradtd.problems import as_problem
from gradtd.problems.base import Problem
from gradtd.problems.exact import SINGULAR, Exact, exact, largest_value, rank
from gradtd.problems.simulate import outcome_tables

PROBLEMS = {
    "boyan_chain": (
        "Boyan's chain",
        "13 states in a row; each step goes down by one or two. On-policy: the data come from the evaluated policy.",
    ),
    "random_walk_tabular": (
        "Random walk, tabular",
        "5 states, one feature each. The behaviour steps left and right equally often; the target prefers right.",
    ),
    "random_walk_inverted": (
        "Random walk, inverted",
        "The same walk with every feature on but the state's own: features overlap, which makes learning harder.",
    ),
    "random_walk_dependent": (
        "Random walk, dependent",
        "The same walk with 3 features for 5 states: the true values can only be approximated.",
    ),
    "baird": (
        "Baird's counterexample",
        "7 states, 8 features, no rewards. Every TD step is reasonable, but TD diverges with every step-size.",
    ),
    "garnet": (
        "A Garnet",
        "A random problem: 30 states, 4 actions, 8 dense features. The target is half-way between the behaviour and a "
        "random policy.",
    ),
}
"""The problems of the page: the paper's five and a Garnet, each with a title and a sentence."""

OFFERED = (
    *("td", "tdrc", "gtd2", "tdc", "htd", "minibatch_td", "impression_gtd", "impression_gtd_auto", "expected_gtd"),
    "lstd",
)
"""The algorithms of the page; ``impression_gtd_auto`` is impression_gtd with alpha="auto"."""

_GARNET: dict[str, dict[str, Any]] = {
    **{name: {"alpha": 1 / 16} for name in ("td", "tdrc", "gtd2", "tdc", "htd", "minibatch_td")},
    "impression_gtd": {"alpha": 2.0, "batch_size": 32},
    "expected_gtd": {"alpha": 4.0},
}


def defaults(problem: str) -> dict[str, dict[str, Any]]:
    """The initial step-size of each algorithm on a problem: the published one, if there is one."""
    if problem not in ALPHAS:
        return _GARNET
    alpha, m = PUBLISHED[problem]
    found: dict[str, dict[str, Any]] = {name: {"alpha": ALPHAS[problem][name]} for name in ALPHAS[problem]}
    found |= {"impression_gtd": {"alpha": alpha, "batch_size": m}, "impression_gtd_auto": {"batch_size": 32}}
    found |= {"minibatch_td": {"alpha": 0.05 if problem != "baird" else 1 / 256, "batch_size": m}}
    expected = [line.hyper["alpha"] for line in FRAMEWORK.get(problem, ()) if line.algorithm == "expected_gtd"]
    return found | {"expected_gtd": {"alpha": expected[0] if expected else 0.05}}


def figures() -> list[dict[str, Any]]:
    """The paper's figures as curves of the page, and the names of lines that the page does not offer."""
    return [_figure(figure) for figure in FIGURES]


def _figure(figure: Figure) -> dict[str, Any]:
    lines = [line for line in figure.lines if line.shown and line not in BESIDE]
    offered = [line for line in lines if _offered(line)]
    return {
        "name": figure.name,
        "title": figure.title,
        "problem": figure.problem,
        "metric": figure.metric,
        "steps": STEPS,
        "curves": [{"algorithm": line.algorithm, **line.hyper} for line in offered][:8],
        "left_out": [line.label for line in lines if line not in offered[:8]],
        "note": figure.note,
    }


def _offered(line: Line) -> bool:
    known = {"alpha", "batch_size", "split", "start", "eta"}
    return line.algorithm in OFFERED and not isinstance(line.hyper.get("alpha"), str) and set(line.hyper) <= known


ASSETS = Path(__file__).parent / "assets"
KERNEL = ("random", "stream", "traces", "indices", "buffers", "estimates", "rules", "loop")
THEORY = ("dense", "tracelaw", "theory", "summary")
WORKER = ("settings", *KERNEL, *THEORY, "worker")
PAGE = ("settings", "outside", "chart", "story", "curves", "pictures", "app")
"""The modules of the Web Worker and of the page, each after those it imports."""

_IMPORT = re.compile(r"^import\s[^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)


def lab_page() -> str:
    """The lab as the text of one HTML file: it needs no other file and no network."""
    template = (ASSETS / "lab.html").read_text()
    parts = {
        "STYLE": (ASSETS / "lab.css").read_text(),
        "DATA": json.dumps(page_data(), separators=(",", ":")),
        "WORKER": bundle(WORKER),
        "PAGE": bundle(PAGE),
    }
    return re.sub(r"\{\{ (\w+) \}\}", lambda found: _inline(parts[found[1]]), template)


def write_lab(path: Path | str) -> Path:
    """Write the lab to an HTML file and return its path; missing folders are created."""
    path = Path(path)
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        return write_text(path, lab_page())


def page_data() -> dict[str, Any]:
    """The data of the page: problems, published step-sizes, the paper's figures."""
    return {
        "version": version("gradtd"),
        "problems": [problem_tables(name) | {"title": title, "says": says} for name, (title, says) in PROBLEMS.items()],
        "defaults": {name: defaults(name) for name in PROBLEMS},
        "figures": figures(),
    }


def bundle(names: tuple[str, ...]) -> str:
    """Modules joined into one script: in this order every name is defined before its use, so imports are removed."""
    parts = []
    for name in names:
        text = (ASSETS / f"{name}.mjs").read_text()
        parts.append(_EXPORT.sub("", _IMPORT.sub("", text)))
    return "\n".join(parts)


def _inline(text: str) -> str:
    """Escape text so that it cannot close the surrounding element."""
    return text.replace("</", "<\\/")


METRICS = ("rmsve", "rmspbe", "distance")
"""The metrics that the page shows: each is the norm of F theta + f."""


def problem_tables(name: str) -> dict[str, Any]:
    """Everything the page needs about a problem, ready for JSON."""
    problem = as_problem(name)
    found = exact(problem)
    return {
        "name": name,
        "gamma": problem.gamma,
        "block": problem.block,
        "theta0": problem.theta0.tolist(),
        "features": problem.features.tolist(),
        "outcomes": _outcomes(problem),
        "p": _probabilities(problem, found).tolist(),
        "theta_star": found.theta_star.tolist(),
        "span": _span(problem, found).tolist(),
        "metrics": {metric: _as_map(found, metric) for metric in METRICS},
        "root": _root(found).tolist(),
        "finite_below": found.traces.finite_below if np.isfinite(found.traces.finite_below) else None,
        "probe": auto_fields(problem.n_features, {})["z"].tolist(),
        "off_policy": not np.array_equal(problem.behaviour, problem.target),
        "states": len(found.states),
        "source": problem.source,
    }


def _outcomes(problem: Problem) -> dict[str, Any]:
    """The alias tables of the sampler."""
    tables = outcome_tables(problem)
    names = ("begin", "keep", "alias", "next_state", "reward", "rho")
    return {name: getattr(tables, name).tolist() for name in names} | {"ends": tables.ends.astype(int).tolist()}


def _probabilities(problem: Problem, found: Exact) -> Floats:
    """The long-run probability of every outcome, in the order of the tables."""
    joint = problem.behaviour[:, :, None] * problem.mdp.transition
    return np.concatenate([found.d_mu[s] * joint[s][np.nonzero(joint[s])] for s in range(problem.mdp.n_states)])


def _span(problem: Problem, found: Exact) -> Floats:
    """Orthonormal rows that span the features of the states visited: the directions in which weights move."""
    visited = problem.features[found.d_mu > 0]
    values, directions = np.linalg.svd(visited)[1:]
    kept = int((values > SINGULAR * values[0]).sum())
    return np.eye(problem.n_features) if kept == problem.n_features else np.asarray(directions[:kept])


def _as_map(found: Exact, metric: str) -> dict[str, Any]:
    """F and f such that the metric is the norm of F theta + f."""
    if metric == "rmsve":
        scale = 1 / np.sqrt(len(found.states))
        F, f = scale * found.problem.features[found.states], -scale * found.v_pi[found.states]
    elif metric == "rmspbe":
        root = _root(found)
        F, f = root @ found.A, root @ found.b
    else:
        seen = np.linalg.svd(found.A)[2][: rank(found.A, largest_value(found.C))]
        F, f = seen, -seen @ found.theta_star
    return {"F": F.tolist(), "f": f.tolist()}


def _root(found: Exact) -> Floats:
    """R with R'R = C^{-1} if C is regular: the projected error is the norm of R (A theta + b), with any lambda."""
    values, vectors = np.linalg.eigh(found.C)
    kept = values > SINGULAR * values[-1]
    return np.asarray((vectors[:, kept] / np.sqrt(values[kept])).T)
