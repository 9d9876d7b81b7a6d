"""gradtd beside what people use today: the same logs, the same truth.

    python benchmarks/peers.py install                   # peers go into an environment of their own, build/peers
    python benchmarks/peers.py run --rows peers.jsonl    # 20 logs per cell; goes on where it was stopped
    python benchmarks/peers.py run --rows peers.jsonl --fqe 5000 --logs 5 --only FrozenLake 'CartPole, 300 episodes'
    python benchmarks/peers.py run --rows others.jsonl --estimators others     # once; gradtd's rows for every version
    python benchmarks/peers.py run --rows gradtd.jsonl --estimators gradtd
    python benchmarks/peers.py table --rows others.jsonl gradtd.jsonl
    python benchmarks/peers.py table --rows peers.jsonl --plot peers.png

Worlds: the COBS grid (arXiv 1911.06854, written anew), FrozenLake, Taxi, CliffWalking, CartPole, MountainCar,
ICU-Sepsis, contextual bandits, and the worlds that come with SCOPE-RL (basicgym, recgym) and obp (Open Bandit).
Estimators: gradtd with its defaults, LSTD and LSTD-Q as a user would write them, those of the COBS study
(`peer_cases/classic.py`), d3rlpy's FQE, SCOPE-RL, obp, vw-estimators (`peer_cases/their_side.py`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from peer_cases import ours, worlds
from peer_cases.task import Task
from peer_cases.worlds import PEERS
from trust_cases import gym_logs

PACKAGES = ("torch==2.13.0", "d3rlpy==2.8.1", "pandas", "matplotlib", "seaborn", "scikit-learn", "hydra-core")
WITHOUT_REQUIREMENTS = ("scope-rl==0.2.1", "obp==0.4.1", "vw-estimators==0.2.2", "pytorch-revgrad==0.2.0")
"""Their pinned requirements do not install beside a current NumPy; what they import is in the list above."""
SEED = 20_261_119
Row = dict[str, Any]


def install() -> None:
    venv.create(PEERS, with_pip=True)
    pip = [str(PEERS / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    for packages in (PACKAGES[:1], PACKAGES[1:], ("--no-deps", *WITHOUT_REQUIREMENTS)):
        if subprocess.run([*pip, *packages], check=False).returncode:
            print(f"could not install {' '.join(packages)}: their rows will be missing")


@cache
def their_process(updates: int) -> subprocess.Popen[str]:
    """One process for all logs: the peers take seconds to import."""
    script = Path(__file__).parent / "peer_cases" / "their_side.py"
    command = [str(PEERS / "bin" / "python"), str(script), "--fqe", str(updates)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def theirs(task: Task, updates: int) -> list[Row]:
    """The peers' estimates of a log; nothing where their environment is not installed."""
    if not PEERS.exists():
        return []
    seen, after = task.observation, task.next_observation
    if task.states:
        seen, after = (np.eye(task.states)[x.astype(int).ravel()] for x in (seen, after))
    names = ("action", "reward", "terminated", "episode", "behaviour", "target", "next_target", "gamma")
    process = their_process(updates)
    assert process.stdin is not None
    assert process.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.npz"
        np.savez(path, observation=seen, next_observation=after, **{name: getattr(task, name) for name in names})
        print(path, file=process.stdin, flush=True)
        rows = []
        for line in process.stdout:
            if line == "end\n":
                return rows
            if line.startswith("{"):
                rows.append(json.loads(line))
    raise RuntimeError("the process of the peers has ended")


def run(given: argparse.Namespace) -> None:
    """Log by log: one whose rows are in the file is not run again."""
    path: Path = given.rows
    kept = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(row["world"], row["cell"], row["updates"], row["log"]) for row in kept}
    if not PEERS.exists():
        print(f"{PEERS} is missing: no peers and no worlds of theirs. Run `peers.py install` first.", file=sys.stderr)
    for cell in worlds.all_cells():
        if given.only and not {cell.world, f"{cell.world}, {cell.name}"} & set(given.only):
            continue
        key = sum(map(ord, cell.world + cell.name))
        logs = [k for k in range(min(given.logs, cell.most)) if (cell.world, cell.name, given.fqe, k) not in done]
        for k in logs:
            task = cell.make(np.random.default_rng([SEED, k, key]))
            about = {"world": cell.world, "cell": cell.name, "log": k, "updates": given.fqe, "tells": task.tells}
            about |= {"truth": task.truth, "error": task.error}
            rows = [] if given.fqe or given.estimators == "others" else ours.rows(task)
            if given.estimators != "gradtd":
                rows += ([] if given.fqe else ours.other_rows(task)) + theirs(task, given.fqe)
            with path.open("a") as file:
                file.write("".join(json.dumps({**about, **row}) + "\n" for row in rows))
        print(f"{cell.world}, {cell.name}, logs {logs}", file=sys.stderr, flush=True)


def summaries(rows: list[Row]) -> dict[tuple[str, str], dict[str, Row]]:
    """For each cell and estimator: relative error, coverage, width, cost, and what holds of the usable logs."""
    cells: dict[tuple[str, str], dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if "value" in row:
            cells[row["world"], row["cell"]][row["name"]].append(row)
    return {cell: {name: summary(found) for name, found in names.items()} for cell, names in cells.items()}


def summary(rows: list[Row]) -> Row:
    truth = np.array([row["truth"] for row in rows])
    value = np.array([np.nan if row["value"] is None else row["value"] for row in rows], float)
    scale = max(abs(truth[0]), 1e-12)
    ends = [(row.get("low"), row.get("high")) for row in rows]
    inside = [a <= t <= b for (a, b), t in zip(ends, truth, strict=True) if a is not None and b is not None]
    usable = [k for k, row in enumerate(rows) if row.get("verdict") == "usable"]
    taken = [row["megabytes"] for row in rows if row.get("megabytes") is not None]

    def error(of: Any) -> float:
        return float(np.sqrt(np.mean((value[of] - truth[of]) ** 2)) / scale)

    return {
        "logs": len(rows),
        "tells": rows[0]["tells"],
        "error": error(slice(None)),
        "error_usable": error(usable) if usable else None,
        "coverage": float(np.mean(inside)) if inside else None,
        "width": float(np.median([(b - a) / scale for a, b in ends if a is not None and b is not None]))
        if inside
        else None,
        "seconds": float(np.median([row["seconds"] for row in rows])),
        "megabytes": float(np.median(taken)) if taken else None,
        "usable": len(usable) if "verdict" in rows[0] else None,
        "held": sum(ends[k][0] <= truth[k] <= ends[k][1] for k in usable) if "verdict" in rows[0] else None,
    }


def _short(number: float | None, digits: int = 3) -> str:
    return "-" if number is None else f"{number:.{digits}f}"


def table(given: argparse.Namespace) -> None:
    every = [json.loads(line) for path in given.rows for line in path.read_text().splitlines()]
    rows, fitted = ([row for row in every if bool(row["updates"]) == with_fqe] for with_fqe in (False, True))
    cells = summaries(rows)
    print("| world | cell | gradtd | action values | best other | its error | usable | held ", end="")
    print("| error, usable | width | s | MB |\n" + "|---" * 12 + "|")
    near = either = total = 0
    for (world, cell), names in sorted(cells.items()):
        if "gradtd" not in names:
            continue
        mine = names["gradtd"]
        others = {name: s["error"] for name, s in names.items() if not name.startswith("gradtd")}
        best = min(others, key=lambda name: (not np.isfinite(others[name]), others[name]))
        action = names.get("gradtd, action values", {}).get("error", np.nan)
        if mine["tells"] and mine["logs"] > 1:  # the error of a single log says nothing of the next
            total += 1
            near += mine["error"] <= 1.1 * others[best]
            either += np.fmin(mine["error"], action) <= 1.1 * others[best]
        print(
            f"| {world} | {cell} | {mine['error']:.3f} | {action:.3f} | {best} | {others[best]:.3f} "
            f"| {mine['usable']} of {mine['logs']} | {mine['held']} | {_short(mine['error_usable'])} "
            f"| {_short(mine['width'])} | {mine['seconds']:.2f} | {_short(mine['megabytes'], 0)} |"
        )
    print(
        f"\nWhere the observation tells the state gradtd is best or within 10 % of the best in {near} of {total} cells "
        f"and the better of its two value functions in {either}."
    )
    with_interval: dict[str, list[Row]] = defaultdict(list)
    for names in cells.values():
        for name, found in names.items():
            if found["coverage"] is not None:
                with_interval[name].append(found)
    print("\n| estimator with an interval | cells | mean coverage, % | least, % | usable | held, % | width | s | MB |")
    print("|---" * 9 + "|")
    for name, each in sorted(with_interval.items()):
        shares = [found["coverage"] for found in each]
        width, seconds, taken = (
            np.median([found[column] for found in each if found[column] is not None] or [np.nan])
            for column in ("width", "seconds", "megabytes")
        )
        logs, usable, held = (sum(found[column] or 0 for found in each) for column in ("logs", "usable", "held"))
        trusted = f"{usable} of {logs} | {100 * held / usable:.0f}" if usable else "- | -"
        cost = f"{width:.3f} | {seconds:.2f} | {taken:.0f}"
        print(f"| {name} | {len(each)} | {100 * np.mean(shares):.0f} | {100 * min(shares):.0f} | {trusted} | {cost} |")
    if fitted:
        beside_fqe(rows, fitted)
    if given.plot:
        draw(cells, given.plot)


BESIDE = {"gradtd": "gradtd", "gradtd, action values": "action values", "LSTD-Q, second order": "LSTD-Q"}


def beside_fqe(rows: list[Row], fitted: list[Row]) -> None:
    """d3rlpy's FQE, and the others on the very logs that it was run on; SCOPE-RL makes its interval from FQE's Q."""
    print(
        f"\n| world | cell | logs | FQE | {' | '.join(BESIDE.values())} | usable | held | DM held | FQE s | gradtd s |"
    )
    print("|---" * (9 + len(BESIDE)) + "|")
    for (world, cell), names in sorted(summaries(fitted).items()):
        fqe = next(found for name, found in names.items() if name.startswith("d3rlpy"))
        logs = {row["log"] for row in fitted if (row["world"], row["cell"]) == (world, cell)}
        same = [row for row in rows if (row["world"], row["cell"]) == (world, cell) and row["log"] in logs]
        other = summaries(same).get((world, cell), {})
        if not other:
            continue
        mine = other["gradtd"]
        errors = [f"{other[name]['error']:.3f}" if name in other else "-" for name in BESIDE]
        counts = [mine["usable"], mine["held"], round(names["SCOPE-RL dm"]["coverage"] * fqe["logs"])]
        seconds = [f"{found['seconds']:.1f}" for found in (fqe, mine)]
        cells = [world, cell, fqe["logs"], f"{fqe['error']:.3f}", *errors, *counts, *seconds]
        print("| " + " | ".join(map(str, cells)) + " |")


def draw(cells: dict[tuple[str, str], dict[str, Row]], path: Path) -> None:
    """For each estimator, its error over the best one's of the cell: medians and single cells."""
    from matplotlib.figure import Figure

    ratios: dict[str, list[float]] = defaultdict(list)
    for names in cells.values():
        errors = {name: s["error"] for name, s in names.items() if np.isfinite(s["error"])}
        least = max(min(errors.values()), 1e-12)
        for name, error in errors.items():
            ratios[name].append(min(max(error / least, 1.0), 1e4))
    names = sorted((n for n in ratios if len(ratios[n]) >= 3), key=lambda n: -np.median(ratios[n]))
    figure = Figure((7, 0.28 * len(names) + 1.2), layout="constrained")
    axes = figure.add_subplot()
    for y, name in enumerate(names):
        colour = "#1b6ca8" if name.startswith("gradtd") else "#888888"
        axes.plot(ratios[name], np.full(len(ratios[name]), y), "o", ms=4, alpha=0.35, color=colour, mew=0)
        axes.plot(np.median(ratios[name]), y, "|", ms=14, mew=2.5, color=colour)
    axes.set_xscale("log")
    axes.set_yticks(range(len(names)), [f"{name} ({len(ratios[name])})" for name in names])
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.set_xlabel("error over the least of the cell (bar: median; in brackets: cells)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("install")
    running, showing = commands.add_parser("run"), commands.add_parser("table")
    running.add_argument("--rows", type=Path, required=True)
    showing.add_argument("--rows", type=Path, nargs="+", required=True)
    running.add_argument("--logs", type=int, default=20)
    running.add_argument("--fqe", type=int, default=0, help="updates of d3rlpy's FQE; then only peers run")
    running.add_argument("--estimators", choices=("all", "gradtd", "others"), default="all")
    running.add_argument("--only", nargs="*", help="worlds, or cells as in 'CartPole, 300 episodes'")
    running.add_argument("--cache", type=Path, default=Path("trust-cache"), help="where truths of Gymnasium are kept")
    showing.add_argument("--plot", type=Path)
    given = parser.parse_args()
    if given.command == "install":
        install()
    elif given.command == "run":
        gym_logs.CACHE = given.cache
        gym_logs.CACHE.mkdir(exist_ok=True)
        run(given)
    else:
        table(given)


if __name__ == "__main__":
    main()
