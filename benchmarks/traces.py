"""What eligibility traces cost and buy: time per step, alpha="auto" with lam, and the error of every family over lam.

It writes docs/measurements/traces.md. ``python benchmarks/traces.py cost`` (or auto, families) makes one part.
The step-sizes of the tables are the best of a factor-2 grid in hindsight, chosen by the mean over the same runs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import gradtd
from gradtd import theory
from gradtd.compiled.plan import room_for
from gradtd.core.stream import Stream
from gradtd.problems.base import Problem
from gradtd.problems.metrics import rmspbe
from gradtd.running.session import Session

PAGE = Path(__file__).parent.parent / "docs" / "measurements" / "traces.md"
PAPER = ("boyan_chain", "random_walk_tabular", "random_walk_inverted", "random_walk_dependent", "baird")
LAMBDAS = (0.4, 0.8)
COST_GOAL = 1.3
SHORT = "of states, 1000 steps"
"""So few that the traces lie in the second cache."""


# Cost ------------------------------------------------------------------------------------------------------


def cost() -> list[str]:
    """Impression GTD with lam = .8 over lam = 0, with the pass that makes the traces."""
    lines = [
        "| features | d | step-size | lam 0, ns per step | lam .8 | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for (d, kind, label), best in in_processes():
        cells = [kind, str(d), label, f"{best[0]:.0f}", f"{best[1]:.0f}", f"{best[1] / best[0]:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return lines


def in_processes(processes: int = 3) -> list[tuple[tuple[int, str, str], np.ndarray]]:
    """`step_times` of several processes; of each case those of the process with the median ratio.

    Where compiled code comes to lie decides over some of the time, too, and does not change within a process.
    """
    told = [
        subprocess.run([sys.executable, __file__, "times"], capture_output=True, check=True).stdout
        for _ in range(processes)
    ]
    found = []
    for rows in zip(*(json.loads(one) for one in told), strict=True):
        case, best = sorted(rows, key=lambda row: row[1][1] / row[1][0])[processes // 2]
        found.append((tuple(case), np.array(best)))
    return found


def times() -> None:
    """The same of this process, for the one that asks."""
    print(json.dumps([(case, best.tolist()) for case, best in step_times()]))


def step_times(repeats: int = 50) -> Iterator[tuple[tuple[int, str, str], np.ndarray]]:
    """CPU nanoseconds per step without traces and with them, taken in turn, the least of repeats."""
    table = [(d, kind, label) for d in (5, 50) for kind in ("of states", "of a log") for label in ("a number", "auto")]
    for d, kind, label in [*table, (50, SHORT, "auto")]:
        hyper = {"alpha": 1e-6} if label == "a number" else {}
        best = np.full(2, np.inf)
        for _ in range(5):  # all arrays anew, the session's too
            stream = _stream(d, kind)
            plain, traced = (_run(stream, lam, **hyper) for lam in (0.0, 0.8))
            for _ in range(repeats * 2000 // len(stream)):
                best = np.minimum(best, [plain(), traced()])
        yield (d, kind, label), best


def _stream(d: int, kind: str) -> Stream:
    """The random walk's steps; each state has a row of features, or, as in a log, each step."""
    steps = 1000 if kind == SHORT else 10_000
    walk = gradtd.sample("random_walk_tabular", steps)
    rng, records = np.random.default_rng(0), walk.steps.copy()
    if kind != "of a log":
        return Stream(rng.normal(size=(walk.features.shape[0], d)), records)
    records["row"], records["next_row"] = np.arange(steps), np.arange(1, steps + 1)
    return Stream(rng.normal(size=(steps + 1, d)), records)


def _run(stream: Stream, lam: float, **hyper: Any) -> Callable[[], float]:
    session = Session("impression_gtd", {"lam": lam, "batch_size": 32, **hyper}, n_steps=len(stream))
    wanted, start = room_for(np.array([len(stream)]), stream.n_features), np.zeros(stream.n_features)

    chance = np.random.default_rng(0)

    def call() -> float:
        # Where arrays come to lie decides over up to a third of the time: elsewhere each time, the least counts.
        between = [np.empty(int(n)) for n in chance.integers(2**8, 2**16, 3)]
        anew = Stream(stream.features.copy(), stream.steps)
        between.pop(1)
        began = time.thread_time()
        session.over(anew, start, (0, 0), wanted)
        return (time.thread_time() - began) / len(stream) * 1e9

    call()
    return call


# alpha="auto" ----------------------------------------------------------------------------------------------


class Compared(NamedTuple):
    """Errors of one case, (mean and median over runs, step): of auto, of the constant of the least mean, and of that
    of the least median, with its part of alpha* at every step."""

    name: str
    own: np.ndarray
    best: np.ndarray
    least: np.ndarray
    part: np.ndarray


def auto(runs: int = 40, at: tuple[int, int] = (1000, 5000)) -> list[str]:
    """auto against the best constant in hindsight, where the trace's variance is finite: means and medians over runs.

    The best constant is that of the least mean, and its median stands beside it. A few runs may decide over a mean.
    """
    steps = " | ".join(f"auto at {t} | best | ratio" for t in at)
    lines = [f"| case | lam | m | {steps} | runs of auto that diverged |", "|---|---|---|" + "---|" * 7]
    compared, diverged, left_out = [], 0, []
    for label, problem, m in _cases():
        for lam in LAMBDAS:
            exact = gradtd.exact(problem, lam)
            if not exact.traces.finite:
                left_out.append(f"{label} at {lam:g} (finite below {exact.traces.finite_below:.2f})")
                continue
            parts = 2.0 ** -np.arange(-2, 8)
            grid = (theory.stability_threshold(theory.law(problem, lam), m) * parts).tolist()
            common = {"runs": runs, "steps": at[1], "snapshots": list(at), "batch_size": m, "lam": lam, "threads": 1}
            tried = gradtd.sweep(problem, "impression_gtd", {"alpha": grid}, **common)
            constants = np.array([_errors(exact, r) for r in tried])
            best, least = (_taken(constants, constants[:, k].argmin(axis=0)) for k in (0, 1))
            found = gradtd.run(problem, "impression_gtd", **common)
            own = _errors(exact, found)
            part = parts[constants[:, 1].argmin(axis=0)]
            compared.append(Compared(f"{label}, lam {lam:g}, m {m}", own, best, least, part))
            diverged += found.diverged
            cells = [label, f"{lam:g}", str(m)]
            for k in range(2):
                cells += [", ".join(f"{x:.3g}" for x in errors[:, k]) for errors in (own, best)]
                cells.append(", ".join(f"{x:.2f}" for x in (own / best)[:, k]))
            lines.append("| " + " | ".join([*cells, str(found.diverged)]) + " |")
            print(lines[-1], flush=True)
    told = [f"{len(compared)} cases with {runs} runs each, {diverged} of {runs * len(compared)} runs of auto diverged."]
    others = ", ".join(dict.fromkeys(left_out))
    told += ["", f"Left out, as the trace has an infinite variance: {others}.", "", *_summary(compared, at), ""]
    print("\n".join(told))
    return told + lines


def _taken(constants: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Mean and median of the constant chosen at every step."""
    return np.stack([constants[i, :, k] for k, i in enumerate(chosen)], axis=1)


def _summary(compared: list[Compared], at: tuple[int, int]) -> list[str]:
    """Ratios over all cases, and what stands behind the worst one to the least median."""
    lines = ["| auto over | step | geometric mean | least | worst | which |", "|---|---|---|---|---|---|"]
    kinds = {
        "best, means": [c.own[0] / c.best[0] for c in compared],
        "best, medians": [c.own[1] / c.best[1] for c in compared],
        "smallest median of any constant": [c.own[1] / c.least[1] for c in compared],
    }
    for kind, ratios in kinds.items():
        for k, t in enumerate(at):
            one = np.array(ratios)[:, k]
            cells = [f"{x:.2f}" for x in (np.exp(np.log(one).mean()), one.min(), one.max())]
            lines.append(f"| {kind} | {t} | " + " | ".join([*cells, compared[int(one.argmax())].name]) + " |")
    worst = compared[int(one.argmax())]
    return [
        *lines,
        "",
        "The cells below give the mean over runs and, after the comma, the median. Best is the constant with the "
        f"smallest mean in hindsight, with its own median. The smallest median in the last row is that of "
        f"{worst.part[-1]:g} alpha*, "
        f"whose mean is {worst.least[0, -1]:.3g} and whose median is {worst.least[1, -1]:.2g}.",
    ]


def _cases() -> list[tuple[str, Problem, int]]:
    """The paper's problems with two batch sizes, and Garnets that no setting was tuned on."""
    found = [(name, gradtd.PROBLEMS[name](), m) for name in PAPER for m in (4, 32)]
    for seed in range(8):
        d, m = (4, 5, 7, 10, 12, 15, 20, 30)[seed], (64, 4, 8, 32, 16, 4, 48, 8)[seed]
        problem = gradtd.PROBLEMS["garnet"](
            states=40 + 2 * d, n_features=d, off_policy=(0.3, 0.6)[seed % 2], gamma=(0.85, 0.9)[seed // 4],
            seed=300 + seed,
        )  # fmt: skip
        scaled = replace(problem, features=problem.features * (1e-2, 1e2)[seed % 2])
        found.append((f"garnet {seed} (d {d})", scaled, m))
    return found


def _errors(exact: Any, result: Any) -> np.ndarray:
    """Mean and median over runs of the distance to the solution, (2, snapshots); infinite where a constant diverged.

    As in auto_step.py it is that of values, on Garnets RMSPBE.
    """
    if result.diverged and "alpha" in result.given:
        return np.full((2, len(result.steps)), np.inf)
    if exact.problem.name.startswith("garnet"):
        errors = np.asarray(rmspbe(exact, result.thetas))
    else:
        values = (result.thetas - exact.theta_star) @ exact.problem.features[exact.states].T
        errors = np.sqrt((values**2).mean(axis=-1))
    return np.array([errors.mean(axis=0), np.median(errors, axis=0)])


# Families --------------------------------------------------------------------------------------------------

FAMILIES: dict[str, dict[str, Any]] = {
    "td": {},
    "tdrc": {},
    "gtd2": {},
    "gtd2_mp": {},
    "sthtd_mp": {},
    "true_online_td": {},
    "true_online_gtd": {},
    "impression_gtd": {"batch_size": 16},
    "impression_gtd auto": {"batch_size": 16},
    "lstd": {},
}
SHOWN = (0.0, 0.4, 0.8, 0.95)


def families(runs: int = 20, steps: int = 5000) -> list[str]:
    """Area and final RMSVE of every family on the paper's problems, best step-size, over lam."""
    lines = []
    for name in ("random_walk_tabular", "random_walk_inverted", "random_walk_dependent", "boyan_chain"):
        problem = gradtd.PROBLEMS[name]()
        bias = ", ".join(f"{row.bias:.3f}" for row in theory.lambdas(problem, 16, SHOWN))
        lines += ["", f"**{name}**; RMSVE of the solution itself at these lambdas: {bias}.", ""]
        lines += ["| rule | " + " | ".join(f"lam {lam:g}: area, final" for lam in SHOWN) + " |", "|---|" + "---|" * 4]
        for label, hyper in FAMILIES.items():
            cells = [_best(problem, label, {"lam": lam, **hyper}, runs, steps) for lam in SHOWN]
            lines.append(f"| {label} | " + " | ".join(f"{area:.3f}, {final:.3f}" for area, final in cells) + " |")
            print(name, lines[-1], flush=True)
    return lines[1:]


def _best(problem: Problem, label: str, hyper: dict[str, Any], runs: int, steps: int) -> tuple[float, float]:
    """Mean RMSVE over the run and at its end, with the step-size of the least area."""
    rule = label.split()[0]
    common = {"runs": runs, "steps": steps, "snapshots": steps // 50, "threads": 1, **hyper}
    if label.endswith("auto") or rule == "lstd":
        results = [gradtd.run(problem, rule, **common)]
    else:
        grid = 2.0 ** np.arange(-7, 6) if rule == "impression_gtd" else 2.0 ** np.arange(-9, 1)
        results = gradtd.sweep(problem, rule, {"alpha": grid.tolist()}, **common)
    curves = [gradtd.measure(r).mean(axis=0) for r in results if not r.diverged]
    areas = [float(curve.mean()) for curve in curves]
    best = int(np.argmin(areas))
    return areas[best], float(curves[best][-1])


PARTS = {"cost": cost, "auto": auto, "families": families}
TITLES = {
    "cost": "Cost of a step",
    "auto": 'alpha="auto" with traces',
    "families": "What lambda buys: RMSVE with the best step-size in hindsight, 5000 steps, 20 runs",
}


def main() -> None:
    asked = sys.argv[1:] or list(PARTS)
    if asked == ["times"]:
        times()
        return
    page = PAGE.read_text() if PAGE.exists() else "# Eligibility traces: measurements\n\nBy `benchmarks/traces.py`.\n"
    for part in asked:
        lines = PARTS[part]()
        begin, end = f"<!-- {part}: begin -->", f"<!-- {part}: end -->"
        text = "\n".join([begin, "", f"## {TITLES[part]}", "", *lines, "", end])
        if begin in page:
            page = page[: page.index(begin)] + text + page[page.index(end) + len(end) :]
        else:
            page += "\n" + text + "\n"
        PAGE.write_text(page)
    print(f"written: {PAGE}")


if __name__ == "__main__":
    main()
