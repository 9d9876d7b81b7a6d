"""The paper's 16 figures as data. A figure is an entry of `FIGURES`; its lines define the runs.

Settings come from the captions and the text; comments mark those that the paper leaves open.
Step-sizes of the baselines are those of the TDRC authors' code, which the paper adopts. For GTD none are published:
``TUNED`` stands for the best step-size of a sweep on seeds that no figure uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

STEPS = 10_000
EVERY = 25
TUNED = "tuned"

READINGS: dict[str, str] = {
    "A1": "Algorithm 1: gradient from buffer 1, TD error from buffer 2, ratios in both factors",
    "S2": "both directions at each step, each with the full step-size",
    "S-avg": "both directions at each step, each with half the step-size",
    "no-rho": "without importance ratios (Baird only; contradicts the text)",
    "v-mu": (
        "as A1, errors against the values of the behaviour (random walks only; contradicts the text; added after "
        "the first curves were seen, to explain D6)"
    ),
}
DIRECTIONS = {"A1": "one", "S2": "both", "S-avg": "averaged", "no-rho": "one", "v-mu": "one"}
WALKS = ("A1", "S2", "S-avg", "v-mu")
"""Readings of the random walks' figures in RMSVE. A reading that differs only in the metric needs no additional
runs."""


@dataclass(frozen=True)
class Line:
    """One curve: a label, an algorithm and its hyper-parameters.

    ``shown`` is False if only claims need it. ``has_readings``: the paper's text can be read in several ways here.
    """

    label: str
    algorithm: str
    hyper: Mapping[str, Any] = field(default_factory=dict)
    shown: bool = True
    has_readings: bool = False


@dataclass(frozen=True)
class Figure:
    """A figure: its label in the paper, problem, metric and lines."""

    label: str
    title: str
    problem: str
    metric: str
    lines: tuple[Line, ...]
    readings: tuple[str, ...] = ("A1", "S2", "S-avg")
    log: bool = False
    minus_bias: bool = False
    note: str = ""

    @property
    def name(self) -> str:
        """The label as a file name."""
        return self.label.removeprefix("fig:")


BASELINES = ("td", "tdrc", "tdc", "gtd2", "htd", "vtrace")
ALPHAS: dict[str, dict[str, float]] = {
    "random_walk_tabular": dict(zip(BASELINES, (1 / 32, 1 / 32, 1 / 16, 1 / 32, 1 / 32, 1 / 32), strict=True)),
    "random_walk_dependent": dict(zip(BASELINES, (1 / 32, 1 / 32, 1 / 16, 1 / 16, 1 / 32, 1 / 32), strict=True)),
    "random_walk_inverted": dict.fromkeys(BASELINES, 1 / 8),
    "boyan_chain": dict(zip(BASELINES, (1 / 16, 1 / 16, 1 / 2, 1 / 2, 1 / 16, 1 / 16), strict=True)),
    "baird": dict(zip(BASELINES, (1 / 256, 1 / 32, 1 / 256, 1 / 256, 1 / 256, 1 / 256), strict=True)),
}
"""Published step-sizes; eta = 1 and beta = 1. On Baird TDRC has the paper's own 1/32."""

LABELS = {
    "td": "TD",
    "tdrc": "TDRC",
    "tdc": "TDC",
    "gtd": "GTD",
    "gtd2": "GTD2",
    "htd": "HTD",
    "vtrace": "Vtrace",
    "etd": "ETD",
    "lstd": "LSTD",
    "minibatch_td": "MiniBatchTD",
    "impression_gtd": "Impression GTD",
    "expected_gtd": "Expected GTD",
    "at_td": "A'TD",
    "r1_gtd": "R1-GTD",
    "gtd2_mp": "GTD2-MP",
    "sthtd_mp": "STHTD-MP",
}
FLOOR = Line("LSTD", "lstd")
"""LSTD on the same data as a reference: a thin line in every figure."""
AUTO = Line("Impression GTD (auto)", "impression_gtd")
"""Impression GTD without tuning: batches of 32, alpha="auto". Not in the paper."""
KRYLOV = Line("Krylov GTD", "krylov_gtd")
"""Line searches along stored directions, without a step-size. Not in the paper."""
BESIDE = (AUTO, KRYLOV, FLOOR)
"""Lines added to those of the paper in every figure."""


def baselines(problem: str, *names: str, hidden: tuple[str, ...] = ()) -> tuple[Line, ...]:
    """Baselines with their published step-sizes; GTD's is tuned."""
    return tuple(
        Line(LABELS[n], n, {"alpha": TUNED if n == "gtd" else ALPHAS[problem][n]}, shown=n not in hidden) for n in names
    )


def impression(alpha: float, m: int, label: str = "Impression GTD", **more: Any) -> Line:
    return Line(label, "impression_gtd", {"alpha": alpha, "batch_size": m, **more}, has_readings=True)


def batch_sizes(alpha: float, *sizes: int) -> tuple[Line, ...]:
    return tuple(impression(alpha, m, f"Impression GTD m={m}") for m in sizes)


def step_sizes(m: int, *alphas: float, **more: Any) -> tuple[Line, ...]:
    return tuple(impression(alpha, m, f"Impression GTD alpha={alpha:g}", **more) for alpha in alphas)


def minibatch_td(alpha: float, m: int) -> Line:
    return Line("MiniBatchTD", "minibatch_td", {"alpha": alpha, "batch_size": m})


_ALL = ("td", "tdrc", "tdc", "gtd2", "gtd", "htd", "vtrace")
_BOYAN, _TAB, _INV, _DEP = "boyan_chain", "random_walk_tabular", "random_walk_inverted", "random_walk_dependent"
_BOYAN_SIZES = batch_sizes(5.0, 4, 8, 16, 32, 64, 128)

FIGURES: tuple[Figure, ...] = (
    Figure(
        "fig:boyan_rmse",
        "Boyan chain: algorithm comparisons",
        _BOYAN,
        "rmsve",
        (*baselines(_BOYAN, *_ALL, hidden=("htd", "vtrace")), impression(10.0, 10), minibatch_td(0.05, 10)),
        log=True,
        note="HTD and Vtrace equal TD here, because the chain is on-policy; they are not drawn.",
    ),
    Figure(
        "fig:boyan_rmse_imGTD_bsz",
        "Boyan chain: batch size effect for Impression GTD",
        _BOYAN,
        "rmsve",
        (*_BOYAN_SIZES, *baselines(_BOYAN, "td", "tdrc")),
        log=True,
    ),
    Figure(
        "fig:boyan_rmse_imGTD_stepsize",
        "Boyan chain: step-size effect for Impression GTD",
        _BOYAN,
        "rmsve",
        (*step_sizes(16, 0.1, 1.0, 5.0, 10.0), *baselines(_BOYAN, "td")),
        log=True,
    ),
    Figure(
        "fig:rmsve_boyan_batchsize_linear_rate",
        "Boyan chain: batch sizes, with a bias subtracted",
        _BOYAN,
        "rmsve",
        (
            *(line for line in _BOYAN_SIZES if line.hyper["batch_size"] in (4, 16, 32, 128)),
            Line("Expected GTD", "expected_gtd", {"alpha": 5.0}),
            *baselines(_BOYAN, "td"),
        ),
        log=True,
        minus_bias=True,
        note="From each curve .8 of its mean over the last 100 steps is subtracted, as the paper does.",
    ),
    Figure(
        "fig:rwtab",
        "Random walk, tabular: algorithm comparisons",
        _TAB,
        "rmsve",
        (*baselines(_TAB, *_ALL), impression(1.0, 32), minibatch_td(0.05, 32)),
        readings=WALKS,
        log=True,
    ),
    Figure(
        "fig:rwtab_batch",
        "Random walk, tabular: batch size effect for Impression GTD",
        _TAB,
        "rmsve",
        (*batch_sizes(0.5, 4, 8, 16, 32, 64), *baselines(_TAB, "td")),
        readings=WALKS,
        log=True,
        note="The paper does not state the batch sizes; gradtd chose these.",
    ),
    Figure(
        "fig:rwtab_alpha",
        "Random walk, tabular: step-size effect for Impression GTD",
        _TAB,
        "rmsve",
        (*step_sizes(8, 0.25, 0.5, 1.0), *baselines(_TAB, "td"), minibatch_td(1 / 32, 8)),
        readings=WALKS,
        log=True,
    ),
    Figure(
        "fig:rwinvpbe",
        "Random walk, inverted: baselines in RMSPBE",
        _INV,
        "rmspbe",
        baselines(_INV, *_ALL),
        log=True,
    ),
    Figure(
        "fig:rwinvrmsve",
        "Random walk, inverted: algorithm comparisons",
        _INV,
        "rmsve",
        (*baselines(_INV, *_ALL), impression(1.0, 32)),
        readings=WALKS,
        log=True,
    ),
    Figure(
        "fig:rwinv_batchsize",
        "Random walk, inverted: batch size effect for Impression GTD",
        _INV,
        "rmsve",
        (*batch_sizes(1.0, 8, 16, 32, 64), *baselines(_INV, "gtd2")),
        readings=WALKS,
        log=True,
    ),
    Figure(
        "fig:rwinv_alpha",
        "Random walk, inverted: step-size effect for Impression GTD",
        _INV,
        "rmsve",
        step_sizes(32, 0.25, 0.5, 1.0, 2.0),
        readings=WALKS,
        log=True,
        note="The paper does not state the step-sizes; gradtd chose these.",
    ),
    Figure(
        "fig:rwdep_pbe",
        "Random walk, dependent: algorithm comparisons in RMSPBE",
        _DEP,
        "rmspbe",
        (*baselines(_DEP, *_ALL), impression(0.05, 32)),
        log=True,
    ),
    Figure(
        "fig:rwdep_rmsve",
        "Random walk, dependent: algorithm comparisons in RMSVE",
        _DEP,
        "rmsve",
        (*baselines(_DEP, *_ALL), impression(0.05, 32)),
        readings=WALKS,
        log=True,
    ),
    Figure(
        "fig:rwdep_batchsize",
        "Random walk, dependent: batch size effect for Impression GTD",
        _DEP,
        "rmsve",
        (*batch_sizes(0.05, 8, 16, 32, 64), *baselines(_DEP, "gtd2")),
        readings=WALKS,
        log=True,
    ),
    Figure(
        "fig:rwdep_stepsize",
        "Random walk, dependent: step-size effect for Impression GTD",
        _DEP,
        "rmsve",
        step_sizes(32, 0.5, 0.1, 0.05, 0.025),
        readings=WALKS,
        log=True,
    ),
    Figure(
        "fig:baird_results",
        "Baird's counterexample",
        "baird",
        "rmsve",
        (
            *step_sizes(10, 0.001, 0.01, 0.05, start=100),
            *baselines("baird", *_ALL, hidden=("td", "gtd2", "htd", "vtrace")),
            Line("TDRC alpha=.04", "tdrc", {"alpha": 0.04}, shown=False),
            Line("TDRC alpha=.05", "tdrc", {"alpha": 0.05}, shown=False),
        ),
        readings=("A1", "S2", "S-avg", "no-rho"),
        log=True,
        note="The paper states one step-size of Impression GTD, .001, and draws more; gradtd chose .01 and .05.",
    ),
)

FRAMEWORK: dict[str, tuple[Line, ...]] = {
    problem: tuple(Line(LABELS[n], n, {"alpha": alpha}) for n in ("expected_gtd", "at_td", "r1_gtd"))
    for problem, alpha in ((_BOYAN, 1.0), (_TAB, 0.5), (_INV, 0.5), (_DEP, 0.05))
}
"""The other algorithms of the framework at one step-size per problem, for the claims about them."""

CARELESS = (
    impression(0.02, 1, "independent", capacity=20, average="tail"),
    impression(0.02, 1, "careless", split="none", capacity=40, average="tail"),
)
"""Single pairs from small buffers, with and without separate episodes, for the claim about independence sampling."""

EXTRA: tuple[Figure, ...] = (
    *(
        Figure(f"extra:framework_{problem}", "the framework", problem, "rmsve", lines, readings=("A1",))
        for problem, lines in FRAMEWORK.items()
    ),
    Figure("extra:careless", "buffers of 40 steps", _DEP, "rmspbe", CARELESS, readings=("A1",)),
)
"""Runs that are needed only for claims."""

PUBLISHED: dict[str, tuple[float, int]] = {
    _BOYAN: (10.0, 10),
    _TAB: (1.0, 32),
    _INV: (1.0, 32),
    _DEP: (0.05, 32),
    "baird": (0.05, 10),
}
"""Step-size and batch size of Impression GTD in each problem's comparison (on Baird ours: see the figure's note)."""

COMPARISONS: dict[str, str] = {
    _BOYAN: "fig:boyan_rmse",
    _TAB: "fig:rwtab",
    _INV: "fig:rwinvrmsve",
    _DEP: "fig:rwdep_rmsve",
    "baird": "fig:baird_results",
}
"""The figure of each problem that compares algorithms in RMSVE."""

GRID = tuple(2.0**k for k in range(-14, 6))
SWEPT: dict[str, dict[str, Any]] = {
    "td": {},
    "tdrc": {},
    "tdc": {},
    "gtd": {},
    "gtd2": {},
    "htd": {},
    "vtrace": {},
    "minibatch_td": {"batch_size": 32},
    "impression_gtd": {"batch_size": 32},
    "expected_gtd": {"fill": 100},
    "gtd2_mp": {},
    "sthtd_mp": {},
}
"""The algorithms in the step-size sweeps, on every problem, over `GRID`."""
RIVALS = ("gtd2_mp", "sthtd_mp")
"""Rules of later papers with one step-size, shown with their best step-size; no claim refers to them."""
PAPER_PROBLEMS = (_BOYAN, _TAB, _INV, _DEP, "baird")
