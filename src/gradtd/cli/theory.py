"""``gradtd theory``: the three layers of the theory as a table, as JSON, and as a plot with measured curves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from gradtd.cli.options import JSON, METHOD, OUTPUT, PROBLEM, SIZE, numeric
from gradtd.core import checks


def theory(
    problem: Annotated[str, PROBLEM],
    batch_size: Annotated[
        int, typer.Option(help="Number of steps in each of the two batches.", rich_help_panel=METHOD)
    ] = 32,
    alpha: Annotated[
        float | None, numeric("Step-size, for example 0.1 or 1/16; by default the paper's for this batch size.", METHOD)
    ] = None,
    lam: Annotated[
        float, numeric("Decay of eligibility traces, 0 (none) to 1. Only the exact theory covers it.", METHOD)
    ] = 0.0,
    trace: Annotated[
        str, typer.Option(help="The ratio in a trace: rho, clipped (at 1), or tree.", rich_help_panel=METHOD)
    ] = "rho",
    as_json: Annotated[bool, JSON] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw the exact error, its bounds and measured errors to this file (.png, .svg or .pdf).",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            help="Number of steps in the picture; by default until the error has converged.", rich_help_panel=SIZE
        ),
    ] = None,
    runs: Annotated[
        int, typer.Option(help="Number of runs of each measured curve in the picture.", rich_help_panel=SIZE)
    ] = 100,
) -> None:
    """Show whether Impression GTD converges on a problem, how fast, and to what error."""
    from gradtd.theory.curves import theory_curves
    from gradtd.theory.picture import theory_picture
    from gradtd.theory.summary import summary

    if plot is not None:
        checks.picture_file("--plot", plot)
    checks.whole_number("--batch-size", batch_size, 1)
    if alpha is not None:
        checks.number_above("--alpha", alpha, 0.0)
    found = summary(problem, batch_size, alpha, lam=lam, trace=trace)
    if plot is not None:
        curves = theory_curves(problem, found, steps, checks.whole_number("--runs", runs, 2))
        theory_picture(found, curves, [plot])
    if as_json:
        print(json.dumps(found))
        return
    _print_table(found)
    if plot is not None:
        print(f"picture: {plot}")


def _print_table(found: dict[str, Any]) -> None:
    m, alpha = found["batch_size"], found["alpha"]
    traces = f", lam {found['lam']:g} ({found['trace']})" if found["lam"] > 0 else ""
    print(f"{found['problem']}: {found['features']} features, batches of {m}, alpha {alpha:.4g}{traces}\n")
    constants = {"|A|": "norm_A", "mu": "mu", "S": "S", "L": "L", "lambda": "lambda", "L_max": "L_max"}
    print("  ".join(f"{label} {found[key]:.4g}" for label, key in constants.items() if found[key] is not None) + "\n")
    print(f"{'':32}{'as printed':>12}{'corrected':>12}{'exact':>12}")
    for label, *keys in (
        ("largest step-size", "alpha_paper", "alpha_corrected", "alpha_star"),
        ("factor of E|error|^2 per step", "q_paper", "q_corrected", "rho"),
        ("E|error|^2 in the long run", "bias_paper", "floor_bound", "floor"),
    ):
        print(f"{label:32}" + "".join(f"{_shown(found[key]):>12}" for key in keys))
    enough = _shown(found["m_paper"])
    print(f"{'sufficient batch size':32}{enough:>12}{enough:>12}{'any':>12}")
    print(f"\nfastest: alpha {found['alpha_fastest']:.4g}, factor {found['rho_fastest']:.6g} per step")
    if found["table_1"]:
        _print_table_1(found["table_1"])
    print()
    for note in found["notes"]:
        print(f"- {note}")


def _print_table_1(rows: list[dict[str, Any]]) -> None:
    print(f"\nTable 1 after 1000 steps\n{'':16}{'L1':>10}{'L2':>10}{'lambda':>10}{'bias':>10}{'alpha':>10}{'q':>11}")
    for row in rows:
        cells = [f"{row[key]:>10.3g}" for key in ("L1", "L2", "lam", "bias", "alpha")]
        print(f"{row['algorithm']:16}" + "".join(cells) + f"{row['q']:>11.6g}")


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"
