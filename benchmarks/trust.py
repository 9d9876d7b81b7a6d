"""How often is the truth inside the interval when `gradtd.evaluate` says usable?

    python benchmarks/trust.py                      # every family that can be had, some 20 minutes
    python benchmarks/trust.py --family finite --logs 400 --seeds reporting
    python benchmarks/trust.py --family held-out    # the families that nothing was tuned on
    python benchmarks/trust.py --methods            # the same logs by every method, in parts, with traces

Families: finite (random problems, features good and bad), hidden (observations that hide the state), limited (episodes
of a fixed length, observations without the time), estimated (the behaviour is not known), determined (both policies
give every action; a step may be determined by observation and action), cells (rare rewards, heavy
ratios, blocks), real (random systems with real observations), gym (gymnasium), icu and icu-one-hot (ICU-Sepsis, package
icu-sepsis), bandit (the Open Bandit logs of obp 0.4.1). Hiding is a dial in looks, delayed, clocked, types, columns and
clocked-real; graph, graph-pomdp, model-win, model-fail, toy-mc and gridworld are the worlds of COBS. Of other kinds are
stock, queue, point, wear, choice, tank, clinic and courier, which were held out once. Held out now are tracker, network
and season.
Thresholds were chosen on the seeds "tuning"; "reporting" are others. With --rows what was found is kept,
and a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import gradtd

sys.path.insert(0, str(Path(__file__).parent))

from trust_cases import bandit, cells, cobs, finite, fresh, gym_logs, hiding, icu, limited, methods, systems
from trust_cases.case import Case

SEEDS = {"tuning": 1_000, "reporting": 14_000_000}
FAMILIES: dict[str, tuple[Callable[[int, int], Iterator[Case]], int]] = {
    "finite": (finite.finite_cases, 400),
    "hidden": (finite.hidden_cases, 150),
    "limited": (limited.limited_cases, 30),
    "estimated": (finite.estimated_cases, 100),
    "determined": (finite.determined_cases, 300),
    "cells": (cells.cell_cases, 12),
    "real": (systems.system_cases, 90),
    "gym": (gym_logs.gym_cases, 3),
    "icu": (icu.icu_cases, 20),
    "icu-one-hot": (lambda seed, count: icu.icu_cases(seed, count, one_hot=True), 7),
    "bandit": (bandit.bandit_cases, 12),
    "looks": (hiding.looks_cases, 60),
    "delayed": (hiding.delayed_cases, 60),
    "clocked": (hiding.clocked_cases, 60),
    "model-fail": (cobs.model_fail_cases, 60),
    "graph": (cobs.graph_cases, 60),
    "types": (hiding.types_cases, 60),
    "columns": (hiding.columns_cases, 45),
    "clocked-real": (hiding.clocked_real_cases, 45),
    "graph-pomdp": (cobs.graph_pomdp_cases, 60),
    "model-win": (cobs.model_win_cases, 60),
    "toy-mc": (cobs.toy_mc_cases, 60),
    "gridworld": (cobs.gridworld_cases, 60),
    "stock": (fresh.stock_cases, 60),
    "queue": (fresh.queue_cases, 60),
    "point": (fresh.point_cases, 45),
    "wear": (fresh.wear_cases, 60),
    "choice": (fresh.choice_cases, 60),
    "tank": (fresh.tank_cases, 36),
    "clinic": (fresh.clinic_cases, 36),
    "courier": (fresh.courier_cases, 36),
    "tracker": (fresh.tracker_cases, 36),
    "network": (fresh.network_cases, 36),
    "season": (fresh.season_cases, 36),
}
"""Cases by a seed and a count, and how many are made by default: logs in all, or logs of every cell."""
HELD_OUT = ("tracker", "network", "season")
"""Families that no rule and no limit was chosen on."""
Row = dict[str, Any]


def row_of(case: Case, levels: bool = False, value_function: str = "auto") -> Row:
    """What the library says of a case, with its default algorithm."""
    begun = time.thread_time()
    policies = {} if case.target is None else {"target": case.target, "behaviour": case.behaviour}
    how: dict[str, Any] = policies | {
        "gamma": case.gamma,
        "features": case.features,
        "value_function": value_function,
        "progress": False,
        "inference": gradtd.Inference(block_length=case.block),
        "machine": gradtd.Machine(threads=1),
    }
    found = gradtd.evaluate(case.log, **how)
    at80 = gradtd.evaluate(case.log, level=0.8, **how).interval if levels else None
    taken, slack = time.thread_time() - begun, 1.96 * case.error
    plain = next(row for row in found.estimates if row.method == "lstd")
    low, high = found.interval
    own_low, own_high = (np.nan if x is None else x for x in (plain.low, plain.high))
    return {
        "cell": case.cell,
        "kind": {True: "adequate", False: "poor", None: ""}[case.adequate],
        "large": case.size >= 100,
        "word": found.verdict,
        "why": found.reasons[0] if found.reasons else "",
        "size": case.size,
        "value": found.value,
        "truth": case.truth,
        "covers": bool(low - slack <= case.truth <= high + slack),
        "covers80": None if at80 is None else bool(at80[0] - slack <= case.truth <= at80[1] + slack),
        "own": bool(own_low - slack <= case.truth <= own_high + slack),
        "wide": (high - low) / max(own_high - own_low, 1e-300),
        "seconds": taken,
    }


def line_of(name: str, rows: list[Row]) -> str:
    usable = [row for row in rows if row["word"] == "usable"]
    words = Counter(row["word"] for row in rows)
    shares = " ".join(f"{100 * words[word] / len(rows):8.0f}" for word in ("usable", "unchecked", "not usable"))
    inside = f"{100 * np.mean([r['covers'] for r in usable]):9.1f}" if usable else "        -"
    plain = f"{100 * np.mean([r['own'] for r in usable]):8.1f}" if usable else "       -"
    width = f"{np.median([r['wide'] for r in usable]):6.2f}" if usable else "     -"
    seconds = np.mean([row["seconds"] for row in rows])
    return f"{name:28s} {len(rows):5d} {shares} {inside} ({len(usable):3d}) {plain} {width} {seconds:8.2f}"


def kept_rows(kept: Path | None, family: str) -> list[Row]:
    """What a run before this one found of the family, in the order of its logs."""
    if kept is None or not kept.exists():
        return []
    rows = [json.loads(line) for line in kept.read_text().splitlines()]
    return [row for row in rows if row["family"] == family]


def table(rows: list[Row], by: Callable[[Row], str]) -> list[str]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[by(row)].append(row)
    return [line_of(name, groups[name]) for name in groups]


def run(
    family: str, seed: int, count: int, cells_too: bool, kept: Path | None, levels: bool = False, values: str = "auto"
) -> list[Row]:
    rows: list[Row] = []
    begun = time.monotonic()
    known = kept_rows(kept, family)
    for number, case in enumerate(FAMILIES[family][0](seed, count)):
        row = known[number] if number < len(known) else row_of(case, levels, values)
        if kept is not None and number >= len(known):
            with kept.open("a") as file:
                print(json.dumps({"family": family, **row}), file=file)
        rows.append(row)
        if sys.stderr.isatty() or len(rows) % 50 == 0:
            print(f"\r{family}: {len(rows)} logs, {time.monotonic() - begun:.0f} s", end="", file=sys.stderr)
    print(file=sys.stderr)
    print(line_of(family, rows), flush=True)
    if family == "finite":
        print(*table(rows, lambda r: f"  {r['kind']}, {'100 or more' if r['large'] else '30 to 99'}"), sep="\n")
    if cells_too:
        print(*table(rows, lambda r: "  " + r["cell"]), sep="\n")
        for why, times in Counter(row["why"] for row in rows if row["why"]).most_common(8):
            print(f"    {times:4d} x {why[:110]}")
    return rows


def summed_up(rows: list[Row]) -> str:
    """What the promises are about."""
    sound = [row for row in rows if row["kind"] == "adequate" and row["large"]]
    usable = [row for row in rows if row["word"] == "usable"]
    unchecked = np.mean([row["word"] == "unchecked" for row in rows])
    at80 = [row["covers80"] for row in usable if row["covers80"] is not None]
    good = [row for row in usable if row["kind"] == "adequate"]
    lines = [
        f"all: {len(rows)} logs, {len(usable)} usable, {100 * np.mean([r['covers'] for r in usable]):.1f} % of these "
        f"inside; unchecked {100 * unchecked:.1f} %",
        f"hide nothing, 100 or more episodes: {len(sound)} logs, usable "
        f"{100 * np.mean([r['word'] == 'usable' for r in sound]):.1f} %",
        f"hide nothing, usable: inside {100 * np.mean([r['covers'] for r in good]):.1f} %, LSTD's own interval "
        f"{100 * np.mean([r['own'] for r in good]):.1f} %, width over that {np.median([r['wide'] for r in good]):.2f}",
    ]
    lines += [f"at level .8: inside {100 * np.mean(at80):.1f} % of {len(at80)} usable"] if at80 else []
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", nargs="*", choices=(*FAMILIES, "held-out"), default=list(FAMILIES))
    parser.add_argument("--logs", type=int, help="logs in all (finite, hidden, real), or of every cell")
    parser.add_argument("--seeds", choices=SEEDS, default="reporting")
    parser.add_argument("--value-function", choices=("auto", "state"), default="auto")
    parser.add_argument("--cells", action="store_true", help="one line for every cell, and the reasons")
    parser.add_argument("--rows", type=Path, help="a file of what is found, one line a log")
    parser.add_argument("--methods", nargs="*", choices=methods.METHODS, help="instead: one row for each method")
    parser.add_argument("--levels", action="store_true", help="count intervals at level .8, too")
    parser.add_argument("--cache", type=Path, help="where logs of gymnasium and their truths are kept")
    given = parser.parse_args()
    if given.cache is not None:
        gym_logs.CACHE = given.cache
    if given.methods is not None:
        print(f"{'':16s}  logs   usable unchecked   inside (usable)")
        for line in methods.rows(SEEDS[given.seeds], given.logs or 100, given.methods or list(methods.METHODS)):
            print(line, flush=True)
        return
    print(f"{'':28s}  logs   usable unchecked  refused   inside (usable)  plain  width  seconds")
    rows: list[Row] = []
    for family in HELD_OUT if given.family == ["held-out"] else given.family:
        count = given.logs or FAMILIES[family][1]
        seed, values = SEEDS[given.seeds], given.value_function
        rows += run(family, seed, count, given.cells, given.rows, given.levels, values)
    print(summed_up(rows))


if __name__ == "__main__":
    main()
