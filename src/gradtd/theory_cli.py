"""``gradtd theory``: the three layers as a table, as JSON, and as a picture with measured curves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from gradtd import checks
from gradtd.plots import COLOURS, save
from gradtd.types import Floats, Integers


def theory(
    problem: Annotated[str, typer.Argument(help="Name of a problem (gradtd list).")],
    batch_size: Annotated[int, typer.Option(help="Steps in each of the two batches.")] = 32,
    alpha: Annotated[float | None, typer.Option(help="Step-size (default: the paper's for this batch size).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw exact, bounds and measured curves to this file.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps in the picture (default: until the error settles).")] = None,
    runs: Annotated[int, typer.Option(help="Runs of each measured curve in the picture.")] = 100,
) -> None:
    """Will Impression GTD converge on a problem, how fast and to what floor: as printed, corrected, exact."""
    from gradtd.theory.summary import summary

    if plot is not None:
        checks.picture_file("--plot", plot)
    checks.whole_number("--batch-size", batch_size, 1)
    if alpha is not None:
        checks.number_above("--alpha", alpha, 0.0)
    found = summary(problem, batch_size, alpha)
    if plot is not None:
        picture(problem, found, [plot], steps, checks.whole_number("--runs", runs, 2))
    if as_json:
        print(json.dumps(found))
        return
    _print_table(found)
    if plot is not None:
        print(f"picture: {plot}")


def _print_table(found: dict[str, Any]) -> None:
    m, alpha = found["batch_size"], found["alpha"]
    print(f"{found['problem']}: {found['features']} features, batches of {m}, alpha {alpha:.4g}\n")
    constants = {"|A|": "norm_A", "mu": "mu", "S": "S", "L": "L", "lambda": "lambda", "L_max": "L_max"}
    print("  ".join(f"{label} {found[key]:.4g}" for label, key in constants.items()) + "\n")
    print(f"{'':32}{'as printed':>12}{'corrected':>12}{'exact':>12}")
    for label, *keys in (
        ("largest step-size", "alpha_paper", "alpha_corrected", "alpha_star"),
        ("factor of E|error|^2 per step", "q_paper", "q_corrected", "rho"),
        ("E|error|^2 in the long run", "bias_paper", "floor_bound", "floor"),
    ):
        print(f"{label:32}" + "".join(f"{_shown(found[key]):>12}" for key in keys))
    print(f"{'batch size that is enough':32}{found['m_paper']:>12}{found['m_paper']:>12}{'any':>12}")
    print(f"\nfastest: alpha {found['alpha_fastest']:.4g}, factor {found['rho_fastest']:.6g} per step")
    print(f"\nTable 1 after 1000 steps\n{'':16}{'L1':>10}{'L2':>10}{'lambda':>10}{'bias':>10}{'alpha':>10}{'q':>11}")
    for row in found["table_1"]:
        cells = [f"{row[key]:>10.3g}" for key in ("L1", "L2", "lam", "bias", "alpha")]
        print(f"{row['algorithm']:16}" + "".join(cells) + f"{row['q']:>11.6g}")
    print()
    for note in found["notes"]:
        print(f"- {note}")


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def picture(problem: str, found: dict[str, Any], paths: Sequence[Path], steps: int | None, runs: int) -> None:
    """Exact curve, bounds, and means of runs with independent draws and on trajectories."""
    from gradtd.runner import run
    from gradtd.theory import corrected, error_curve, law, printed, simulate

    m, alpha = found["batch_size"], found["alpha"]
    last = _horizon(found) if steps is None else checks.whole_number("--steps", steps, 10)
    at = np.unique(np.r_[0, np.geomspace(1, last, 60).astype(np.int64)])
    one = law(problem)
    exact = error_curve(one, alpha, m, steps=at)
    lines: list[tuple[str, Floats, dict[str, Any]]] = [("exact", exact.error, {"color": COLOURS[6], "linewidth": 2})]
    if found["q_paper"] is not None and found["q_paper"] < 1 and found["bias_paper"] is not None:
        paper = printed(one, m)
        bound = paper.q(alpha) ** at * exact.error[0] + paper.bias(alpha)
        lines.append(("Theorem 2 as printed", bound, {"color": COLOURS[1], "linestyle": "--"}))
    if found["q_corrected"] is not None:
        right = corrected(one, m)
        powers = [s for s in (0.0, 0.5, 1.0) if alpha < right.alpha_limit(s)]
        bound = np.array([min(right.error_bound(alpha, int(t), s=s) for s in powers) for t in at])
        lines.append(("Theorem C, corrected", bound, {"color": COLOURS[2], "linestyle": "--"}))
    if found["floor_bound"]:
        flat = np.full(len(at), found["floor_bound"])
        lines.append(("Theorem E, long run", flat, {"color": COLOURS[3], "linestyle": ":"}))
    fresh = simulate(one, alpha, m, steps=at, runs=runs)
    result = run(
        problem,
        "impression_gtd",
        alpha=alpha,
        batch_size=m,
        average="none",
        runs=runs,
        steps=last,
        snapshots=at.tolist(),
    )
    seen = one.singular_values[1]
    walked = (((result.thetas - one.theta_star) @ seen.T) ** 2).sum(axis=-1)
    measured = [("independent draws", fresh, COLOURS[0]), ("trajectories", walked, COLOURS[4])]
    share = alpha / found["alpha_star"]
    _draw(paths, at, lines, measured, f"{found['problem']}: batches of {m}, alpha {alpha:.3g} = {share:.2g} alpha*")


def _horizon(found: dict[str, Any]) -> int:
    """Steps until the error has settled, within reason."""
    slow = 1.0 - found["rho"]
    return int(np.clip(20.0 / slow if slow > 0 else 0, 2000, 5000))


def _draw(
    paths: Sequence[Path],
    at: Integers,
    lines: list[tuple[str, Floats, dict[str, Any]]],
    measured: list[tuple[str, Floats, str]],
    title: str,
) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    x = np.maximum(at, 0.5)
    for label, values, colour in measured:
        mean = values.mean(axis=0)
        error = 1.96 * values.std(axis=0, ddof=1) / np.sqrt(len(values))
        axes.plot(x, mean, color=colour, linewidth=3, alpha=0.6, label=f"{label},\nmean of {len(values)} runs")
        axes.fill_between(x, np.maximum(mean - error, 1e-300), mean + error, color=colour, alpha=0.2, linewidth=0)
    for label, values, style in lines:
        axes.plot(x, values, label=label, **style)
    axes.set_xscale("log")
    axes.set_yscale("log")
    shown = np.concatenate([values.mean(axis=0) for _, values, _ in measured] + [values for _, values, _ in lines])
    positive = shown[(shown > 0) & np.isfinite(shown)]
    top = min(float(positive.max()), 1e4 * float(measured[0][1][:, 0].mean()))
    axes.set_ylim(float(positive.min()) / 2, 2 * top)
    axes.set_xlim(x[1], x[-1])
    axes.set_xlabel("updates (trajectories: steps seen)")
    axes.set_ylabel("E|theta - theta*|^2")
    axes.set_title(title, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, loc="outside right upper", fontsize=9)
    for path in paths:
        save(figure, path)
