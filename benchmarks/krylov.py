"""The evidence for Krylov GTD: its error, divergence and cost against LSTD and all rivals of linear cost.

    python benchmarks/krylov.py [--runs 100]

runs everything (some minutes on two cores), rewrites the tables of docs/measurements/krylov.md between their
markers and the pictures in docs, and prints which criteria are met. Every number has the seeds below.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import numpy as np
from bench import krylov_cost, our_kernel, random_stream
from timing import least_times

import gradtd
from gradtd.output.plots import OWN_COLOUR
from gradtd.problems import boyan_chain, garnet, random_walk, star
from gradtd.problems.base import Problem

DOCS = Path(__file__).parent.parent / "docs"
STEPS, SEED = 10_000, 0
AT = sorted({*range(20, 200, 20), *range(200, STEPS + 1, 100)})
CHAINS = ("boyan_chain", "random_walk_tabular", "random_walk_inverted", "random_walk_dependent")
FIVE = (*CHAINS, "baird")
LSTD = {"solver": "recursive", "ridge": 1e-3}
ONE_STEP = ("td", "vtrace", "etd", "residual_gradient", "gtd", "gtd2", "tdc", "tdc_transposed",
            "tdc_transposed_corrected", "tdrc", "htd", "nasa", "direct_gtd")  # fmt: skip
BATCHES = ("impression_gtd", "minibatch_td", "minibatch_tdc", "minibatch_tdc_replay", "shrunken_r1_gtd",
           "shrunken_at_td", "svrg_gtd", "saga_gtd")  # fmt: skip
GRID = [2.0**k for k in range(-9, 8)]
ETAS = [4.0**k for k in range(-3, 4)]
SHOWN = {"impression_gtd": "Impression GTD", "minibatch_td": "MiniBatchTD", "tdrc": "TDRC", "svrg_gtd": "SVRG"}
COLOUR = OWN_COLOUR | {"Krylov GTD": "#E3120B", "SVRG": "#E69F00"}


def curves(problem: Problem | str, name: str, runs: int, metric: str = "rmsve", at: Any = AT, **hyper: Any) -> Any:
    """The metric of every run at every snapshot, and how many runs diverged."""
    result = gradtd.run(problem, name, runs=runs, steps=STEPS, seed=SEED, snapshots=at, **hyper)
    return gradtd.measure(result, metric), result.diverged


def areas(values: np.ndarray) -> np.ndarray:
    """The mean of each run's curve over the steps it was recorded at (trapezoids)."""
    return np.asarray(np.trapezoid(values, AT, axis=1) / (AT[-1] - AT[0]))


def best_rival(problem: str, name: str, runs: int) -> tuple[str, np.ndarray]:
    """The step-sizes of least area on their grids (from a tenth of the runs), in words, and their curves."""
    grid: dict[str, list[float]] = {"alpha": GRID}
    if "eta" in gradtd.ALGORITHMS[name].parameters:
        grid["eta"] = ETAS
    few = max(5, runs // 10)
    results = gradtd.sweep(problem, name, grid, runs=few, steps=STEPS, seed=SEED, snapshots=AT)
    found = [areas(gradtd.measure(r, "rmsve")).mean() if r.diverged == 0 else np.inf for r in results]
    if not np.isfinite(min(found)):
        return "always diverged", np.full((runs, len(AT)), np.inf)
    hyper = {key: results[int(np.argmin(found))].hyper[key] for key in grid}
    for key, value in hyper.items():
        if value in (grid[key][0], grid[key][-1]):
            print(f"{problem}: best {key} of {name}, {value:g}, is at the end of its grid", flush=True)
    values, diverged = curves(problem, name, runs, **hyper)
    words = ", ".join(f"{key} {value:g}" for key, value in hyper.items())
    return words, np.full_like(values, np.inf) if diverged else values


def five_problems(runs: int) -> dict[str, Any]:
    """RMSVE on the paper's problems: ours, LSTD's, and every rival's with its best step-size."""
    found: dict[str, Any] = {}
    for problem in FIVE:
        ours, diverged = curves(problem, "krylov_gtd", runs)
        entry = {"Krylov GTD": ours, "diverged": diverged, "LSTD": curves(problem, "lstd", runs, **LSTD)[0]}
        rivals = {name: best_rival(problem, name, runs) for name in (*ONE_STEP, *BATCHES)}
        found[problem] = entry | {"rivals": rivals}
        print(problem, flush=True)
    return found


def table_of_five(found: dict[str, Any]) -> tuple[str, list[str]]:
    late = np.array(AT) >= 1000
    lines = ["| problem | worst ratio to LSTD, steps 1000 to 10 000 | ratio at 10 000 | area | best rival, its area "
             "| second | runs diverged |", "|---|---|---|---|---|---|---|"]  # fmt: skip
    goals = []
    for problem, entry in found.items():
        mean, floor = (entry[name].mean(axis=0) for name in ("Krylov GTD", "LSTD"))
        ratio = mean / floor
        mine = areas(entry["Krylov GTD"])
        rivals = sorted((areas(v).mean(), name, words, areas(v)) for name, (words, v) in entry["rivals"].items())
        named = [f"{name} ({words}), {value:.3g}" for value, name, words, _ in rivals[:2]]
        shown = "| " + problem + (" | - | -" if problem == "baird" else f" | {ratio[late].max():.3f} | {ratio[-1]:.3f}")
        lines.append(f"{shown} | {mine.mean():.3g} | {named[0]} | {named[1]} | {entry['diverged']} |")
        less = rivals[0][3] - mine
        error = less.std(ddof=1) / np.sqrt(len(less))
        words = f"{mine.mean():.4g} against {rivals[0][0]:.4g} (less by {less.mean():.2g} +- {error:.1g})"
        goals.append(goal(f"{problem}: least area", mine.mean() < rivals[0][0], words))
        if problem != "baird":
            worst = ratio[late].max()
            goals.append(goal(f"{problem}: at most 1.10 times LSTD from step 1000 on", worst <= 1.10, f"{worst:.3f}"))
        else:
            for level, by in ((0.1, 700), (1e-3, 1600)):
                below = np.array(AT)[np.flatnonzero(mean >= level)[-1] + 1]
                goals.append(goal(f"baird: mean below {level:g} for good within {by} steps", below <= by, str(below)))
        goals.append(goal(f"{problem}: no run diverges", entry["diverged"] == 0, str(entry["diverged"])))
    return "\n".join(lines), goals


def held_out(shift: int = 0) -> list[Problem]:
    """Thirty other problems; fresh_problems.py shifts the seeds of the drawn ones."""
    dense = [
        garnet(n, 4, 3, d, "dense", 0.5, seed=shift + 1100 + d)
        for n, d in ((40, 10), (100, 30), (300, 100), (900, 300))
    ]
    sizes = ((40, 12), (100, 40), (300, 100), (600, 200))
    binary = [garnet(n, 4, 3, d, "binary", 0.7, seed=shift + 1200 + d) for n, d in sizes]
    positive = [garnet(n, 4, 3, d, "positive", 0.5, seed=shift + 1300 + d) for n, d in ((40, 8), (100, 20), (300, 60))]
    strong = [garnet(60, 4, 3, 15, kind, 1.0, 0.95, seed=shift + 1400) for kind in ("dense", "binary", "positive")]
    stars = [
        star(n, d, seed=shift + 1500 + i)
        for i, (n, d) in enumerate([(6, 4), (8, 4), (12, 6), (16, 8), (30, 10), (60, 20)])
    ]
    stars += [star(10, 5, gamma=0.95, seed=shift + 1600), star(200, 50, seed=shift + 1601)]
    chains = [random_walk(kind, n) for kind, n in (("tabular", 9), ("tabular", 15), ("tabular", 19), ("inverted", 11),
              ("inverted", 21), ("dependent", 15), ("dependent", 19))]  # fmt: skip
    return [*dense, *binary, *positive, *strong, *stars, *chains, boyan_chain(21)]


def thirty_problems(runs: int) -> tuple[str, list[str]]:
    """RMSPBE and RMSVE over LSTD's; ten times the runs where they are cheap: else single runs of stars decide."""
    rows, total = [], 0
    for problem in held_out():
        few = runs if problem.n_features > 20 else 10 * runs
        common: dict[str, Any] = {"runs": few, "steps": STEPS, "seed": SEED, "snapshots": [STEPS]}
        ours, lstd = gradtd.run(problem, "krylov_gtd", **common), gradtd.run(problem, "lstd", **common, **LSTD)
        floors = {name: float(gradtd.measure(lstd, name).mean()) for name in ("rmspbe", "rmsve")}
        ratios = {name: float(gradtd.measure(ours, name).mean() / floor) for name, floor in floors.items()}
        total += ours.diverged
        rows.append((ratios["rmspbe"], ratios["rmsve"], problem, np.linalg.cond(gradtd.exact(problem).A), floors, few))
        print(problem.name, f"{rows[-1][0]:.3f} {rows[-1][1]:.3f}", flush=True)
    rows.sort(key=lambda row: -row[0])
    heads = ["problem", "features", "runs", "condition of A", "LSTD's RMSPBE", "ratio", "LSTD's RMSVE", "ratio"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for ratio, of_values, problem, condition, floors, few in rows:
        cells = [problem.name, str(problem.n_features), str(few), f"{condition:.0f}"]
        cells += [f"{floors['rmspbe']:.3g}", f"{ratio:.3f}", f"{floors['rmsve']:.3g}", f"{of_values:.3f}"]
        lines.append("| " + " | ".join(cells) + " |")
    median = np.median([row[0] for row in rows])
    met = bool(len(rows) == 30 and median <= 1.25)
    goals = [
        goal("30 problems: median ratio at most 1.25", met, f"{median:.3f} of {len(rows)}"),
        goal("30 problems: no run diverges", total == 0, str(total)),
    ]
    return "\n".join(lines), goals


def cost() -> tuple[str, list[str]]:
    lines = ["| d | Krylov GTD | Impression GTD, m = 32 | ratio | LSTD |", "|---|---|---|---|---|"]
    goals = []
    for d, row in krylov_cost().items():
        ours, theirs, lstd = (row[name] / 1e3 for name in ("krylov_gtd", "impression_gtd", "lstd"))
        lines.append(f"| {d} | {ours:.2f} us | {theirs:.2f} us | {ours / theirs:.2f} | {lstd:.2f} us |")
        what = f"cost at d = {d}: at most 1.2 times Impression GTD"
        goals.append(goal(what, ours <= 1.2 * theirs, f"{ours / theirs:.2f}"))
    return "\n".join(lines), goals


def draw_five(found: dict[str, Any]) -> None:
    """Error against steps on the five problems, with LSTD's floor."""
    figure, panels = canvas(2, 3)
    for axes, (problem, entry) in zip(panels, found.items(), strict=False):
        for name, label in SHOWN.items():
            values = entry["rivals"][name][1]
            if np.isfinite(values).all():
                axes.plot(AT, values.mean(axis=0), color=COLOUR[label], linewidth=1.2)
        axes.plot(AT, entry["LSTD"].mean(axis=0), color=COLOUR["LSTD"], linewidth=1.0, linestyle=(0, (4, 2)))
        axes.plot(AT, entry["Krylov GTD"].mean(axis=0), color=COLOUR["Krylov GTD"], linewidth=2.0, zorder=5)
        style(axes, problem.replace("_", " "), "steps", "RMSVE")
        axes.set_xscale("log")
        if problem == "baird":
            axes.set_ylim(1e-8, 30)
    panels[5].axis("off")
    legend(panels[5], ["Krylov GTD", *SHOWN.values()])
    save(figure, "krylov-steps")


def draw_work(runs: int) -> None:
    """Error against steps and against time on a Garnet of 200 features, four times as long."""
    problem = garnet(600, 4, 3, 200, "dense", 0.5, seed=7)
    stream = random_stream(problem.n_features)
    long = 4 * STEPS
    at = np.unique(np.geomspace(20, long, 60).astype(int)).tolist()
    common: dict[str, Any] = {"steps": long, "seed": SEED, "snapshots": at}
    figure, panels = canvas(1, 2)
    labels = {"krylov_gtd": "Krylov GTD", "lstd": "LSTD"} | SHOWN
    for name, label in labels.items():
        hyper: dict[str, Any] = dict(LSTD) if name == "lstd" else {}
        if name in SHOWN:
            results = gradtd.sweep(problem, name, {"alpha": [2.0**k for k in range(-5, 7)]}, runs=1, **common)
            ends = [gradtd.measure(r, "rmspbe").mean() if r.diverged == 0 else np.inf for r in results]
            hyper = {"alpha": results[int(np.argmin(ends))].hyper["alpha"]}
        mean = gradtd.measure(gradtd.run(problem, name, runs=runs, **common, **hyper), "rmspbe").mean(axis=0)
        seconds = least_times({"": our_kernel(stream, name, **hyper)}, 2)[""] / STEPS
        drawn = {"color": COLOUR[label], "linewidth": 2.0 if name == "krylov_gtd" else 1.2}
        if name == "lstd":
            drawn |= {"linestyle": (0, (4, 2))}
        panels[0].plot(at, mean, **drawn)
        panels[1].plot(np.array(at) * seconds, mean, **drawn)
    style(panels[0], "Garnet, 200 features", "steps", "RMSPBE")
    style(panels[1], "the same against time", "seconds of one core", "RMSPBE")
    for axes in panels[:2]:
        axes.set_xscale("log")
        axes.set_ylim(0.06, 3)
    legend(panels[1], ["Krylov GTD", *SHOWN.values()], place="upper left", size=8)
    save(figure, "krylov-work")


def canvas(rows: int, columns: int) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.4 * columns, 2.7 * rows) if rows > 1 else (4.4 * columns, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, np.ravel(figure.subplots(rows, columns))


def style(axes: Any, title: str, x: str, y: str) -> None:
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_yscale("log")
    axes.set_xlabel(x, fontsize=9)
    axes.set_ylabel(y, fontsize=9)
    axes.tick_params(which="both", labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def legend(axes: Any, labels: list[str], place: str = "center left", size: int = 9) -> None:
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], color=COLOUR[n], linewidth=2.0 if n == "Krylov GTD" else 1.2, label=n) for n in labels]
    lines.append(Line2D([], [], color=COLOUR["LSTD"], linewidth=1.0, linestyle=(0, (4, 2)), label="LSTD, O(d^2)"))
    axes.legend(handles=lines, loc=place, frameon=False, fontsize=size)


def save(figure: Any, name: str) -> None:
    figure.savefig(DOCS / f"{name}.png", dpi=130, metadata={"Software": None})


def goal(what: str, met: bool, measured: str) -> str:
    return f"{'met   ' if met else 'MISSED'} {what}: {measured}"


def put(name: str, text: str) -> None:
    """Replace what stands between the markers of a table in docs/measurements/krylov.md."""
    page = DOCS / "measurements" / "krylov.md"
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    old = page.read_text()
    if begin not in old or end not in old:
        raise SystemExit(f"docs/measurements/krylov.md has no markers {begin} and {end}")
    page.write_text(re.sub(f"{begin}.*?{end}", lambda _: f"{begin}\n\n{text}\n\n{end}", old, flags=re.DOTALL))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    runs = parser.parse_args().runs
    goals: list[str] = []
    costs = cost()
    found = five_problems(runs)
    for name, (table, some) in {
        "five": table_of_five(found),
        "thirty": thirty_problems(max(3, runs // 10)),
        "cost": costs,
    }.items():
        put(name, table)
        goals += some
    draw_five(found)
    draw_work(max(3, runs // 20))
    put("criteria", "```\n" + "\n".join(goals) + "\n```")
    print("\n".join(goals))


if __name__ == "__main__":
    main()
