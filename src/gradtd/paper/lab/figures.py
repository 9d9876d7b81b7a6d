"""The paper's settings for the page: each figure's lines, and the published step-sizes of every problem."""

from __future__ import annotations

from typing import Any

from gradtd.paper.figures import ALPHAS, BESIDE, FIGURES, FRAMEWORK, PUBLISHED, STEPS, Figure, Line

PROBLEMS = {
    "boyan_chain": (
        "Boyan's chain",
        "13 states in a row, always down by one or two. On-policy: the data come from the policy that is judged.",
    ),
    "random_walk_tabular": (
        "Random walk, tabular",
        "5 states, one feature each. The data step left and right alike; the policy judged prefers the right.",
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
        "7 states, 8 features, no rewards. Every TD step is reasonable, and TD still diverges with every step-size.",
    ),
    "garnet": (
        "A Garnet",
        "A random problem: 30 states, 4 actions, 8 dense features, half-way between the two policies.",
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
    """The step-size of each algorithm on a problem before anything is moved: the published one, where there is one."""
    if problem not in ALPHAS:
        return _GARNET
    alpha, m = PUBLISHED[problem]
    found: dict[str, dict[str, Any]] = {name: {"alpha": ALPHAS[problem][name]} for name in ALPHAS[problem]}
    found |= {"impression_gtd": {"alpha": alpha, "batch_size": m}, "impression_gtd_auto": {"batch_size": 32}}
    found |= {"minibatch_td": {"alpha": 0.05 if problem != "baird" else 1 / 256, "batch_size": m}}
    expected = [line.hyper["alpha"] for line in FRAMEWORK.get(problem, ()) if line.algorithm == "expected_gtd"]
    return found | {"expected_gtd": {"alpha": expected[0] if expected else 0.05}}


def figures() -> list[dict[str, Any]]:
    """The paper's figures as curves of the page, with the names of the lines that it does not offer."""
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
