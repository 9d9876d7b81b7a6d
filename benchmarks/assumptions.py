"""What docs/assumptions.md says of answers under assumptions, measured: one mode for each section.

python benchmarks/assumptions.py anytime
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from assumption_worlds import (
    World,
    as_policy,
    click_log,
    confounded_log,
    first_episodes,
    hidden_cause,
    large_log,
    learn_policy,
    plane_log,
    plane_truth,
    random_world,
    robust_truth,
)

import gradtd

GIVEN: dict[str, Any] = {"progress": False, "machine": gradtd.Machine(threads=1)}


def run(log: Any, world: World, **inference: Any) -> gradtd.Evaluation:
    return gradtd.evaluate(log, world.target, world.gamma, inference=gradtd.Inference(**inference), **GIVEN)


def holds(interval: Any, truth: float) -> bool:
    return bool(interval[0] <= truth <= interval[1])


def anytime(logs: int = 300, looks: int = 36) -> None:
    """Growing logs, looked at again and again: how often an interval is misses the true value at some look."""
    wrong, times, at = np.zeros((2, logs), bool), [], np.geomspace(40, 600, looks).astype(int)
    cost = np.zeros(2)
    for k in range(logs):
        world = random_world(7000 + k)
        log, truth = world.log(int(at[-1]), 8000 + k), world.truth()
        for n in at:
            part = gradtd.read_log(first_episodes(log, int(n)))
            made = run(part, world, anytime=True, resamples=0)
            assert made.anytime is not None
            wrong[:, k] |= [not holds(one, truth) for one in (made.interval, (made.anytime.low, made.anytime.high))]
            times.append((made.anytime.high - made.anytime.low) / (made.interval[1] - made.interval[0]))
        if k < 20:
            for way in (False, True):
                begin = time.process_time()
                run(part, world, anytime=way)
                cost[int(way)] += time.process_time() - begin
    print(
        f"{logs} logs, {looks} looks: misses the value at some look {wrong[0].mean():.1%} (interval for one look), "
        f"{wrong[1].mean():.1%} (for every look); width over that for one look {np.median(times):.2f}; "
        f"cost {cost[1] / cost[0]:.3f} of an evaluation without"
    )


def confounding(problems: int = 20, logs: int = 100) -> None:
    """Bounds against robust dynamic programming; coverage where the cause is as strong as stated; cost."""
    off, strengths = [], (1.5, 3.0)
    for k in range(problems):
        world = random_world(16000 + k)
        log = gradtd.read_log(world.log(8000, 16100 + k, noise=0.0))
        for strength in strengths:
            made = run(log, world, confounding=strength)
            assert made.confounding is not None
            for sign, bound in zip((1, -1), made.confounding.bounds, strict=True):
                exact = robust_truth(world, strength, sign)
                off.append(abs(bound - exact) / abs(exact))
    print(
        f"{problems} problems, factors {strengths}: bounds off by {np.median(off):.2%} (median), {max(off):.2%} (most)"
    )
    for strength in (1.5, 2.0):
        inside = np.zeros((2, logs), bool)
        used = 0
        for k in range(logs):
            world, cause = hidden_cause(random_world(16500 + k), strength, 1.0, 16600 + k)
            log = gradtd.read_log(confounded_log(world, cause, 500, 16700 + k))
            made = run(log, world, confounding=strength)
            assert made.confounding is not None
            truth, used = world.truth(), used + (made.verdict == "usable")
            inside[:, k] = [holds(one, truth) for one in (made.interval, (made.confounding.low, made.confounding.high))]
        print(
            f"cause of strength {strength:g}, {logs} logs ({used} usable): the plain interval holds the truth in "
            f"{inside[0].mean():.0%}, the interval for that strength in {inside[1].mean():.0%}"
        )
    for name, log in (
        ("states", gradtd.read_log(large_log(False))),
        ("real observations", gradtd.read_log(large_log(True))),
    ):
        cost = np.zeros(2)
        for k, way in enumerate((None, 1.5)):
            begin = time.process_time()
            asked = gradtd.Inference(confounding=way, against=-1.0 if way else None)
            gradtd.evaluate(log, "uniform", 0.95, inference=asked, **GIVEN)
            cost[k] = time.process_time() - begin
        print(f"cost with {len(log)} steps, {name}: {cost[1] / cost[0]:.2f} times an evaluation ({cost[0]:.2f} s)")


def behaviour(logs: int = 200, only: str = "") -> None:
    """Estimated behaviour: coverage with its error in the interval."""
    weights, mine = np.array([0.2, 0.8, -0.5]), np.array([0.4, 0.3, 0.2])
    value = plane_truth(mine, 0.9)

    def states(k: int) -> tuple[Any, Any, float, float]:
        world = random_world(221_000 + k, states=6, actions=3)
        log = world.log(250, 221_500 + k)
        return {n: v for n, v in log.items() if n != "action_prob"}, world.target, world.gamma, world.truth()

    def plane(k: int) -> tuple[Any, Any, float, float]:
        return plane_log(250, 222_000 + k, weights), as_policy(mine), 0.9, value

    def clicks(k: int) -> tuple[Any, Any, float, float]:
        log, target, truth = click_log(600, 223_000 + k)
        return log, target, 0.0, truth

    worlds = (("six states, three actions", states), ("plane", plane), ("one step", clicks))
    for name, make in (one for one in worlds if only in one[0]):
        inside, usable, paid = [], [], []
        for k in range(logs):
            log, target, gamma, truth = make(k)
            one = gradtd.LogFormat(one_step=True) if make is clicks else None
            made = gradtd.evaluate(log, target, gamma, behaviour="estimate", log_format=one, **GIVEN)
            inside.append(holds(made.interval, truth))
            usable.append(made.verdict == "usable")
            paid.append((made.estimates[0].error or np.nan) / made.diagnostics.sandwich_error)
        kept = np.array(inside)[np.array(usable)]
        print(
            f"{name}: {len(inside)} logs, {np.mean(usable):.0%} usable, the truth inside in {np.mean(inside):.1%} "
            f"({kept.mean() if len(kept) else np.nan:.1%} of the usable); error over that of known probabilities "
            f"{np.median(paid):.2f}"
        )


def trained(logs: int = 50, only: str = "", first: int = 0) -> None:
    """A policy judged on the episodes that it was learned from, and on others."""
    worlds = (("6 x 3", 6, 3, 0.15), ("12 x 4", 12, 4, 0.2), ("10 x 5, one step", 10, 5, 1.0))
    for name, states, actions, ends in (one for one in worlds if only in one[0]):
        off, inside = np.zeros((2, logs)), np.zeros((2, logs), bool)
        for k in range(logs):
            world = random_world(131_000 + first + k, states, actions, ends)
            world.behaviour = np.full((states, actions), 1 / actions)
            log = world.log(400, 131_500 + first + k, noise=1.5)
            log["action_prob"] = np.full(len(log["t"]), 1 / actions)
            half = first_episodes(log, 200)
            for way, (part, ids) in enumerate(((log, None), (half, range(200)))):
                world.target = learn_policy(part, world)
                made = run(log, world, trained_on=None if ids is None else list(ids))
                off[way, k] = (made.value - world.truth()) / (made.estimates[0].error or np.nan)
                inside[way, k] = holds(made.interval, world.truth())
        print(
            f"{name}: {logs} logs; {off[0].mean():.2f} standard errors too high on the episodes it was learned from, "
            f"the truth inside in {inside[0].mean():.0%}; on the others {off[1].mean():+.2f}, {inside[1].mean():.0%}"
        )


def clocks(logs: int = 200) -> None:
    """Steps that last random times, by state and action; gamma is per unit of time."""
    inside, wrong, usable = np.zeros(logs, bool), np.zeros(logs, bool), 0
    ratio = []
    for k in range(logs):
        world = random_world(141_000 + k, gamma=0.9)
        rng = np.random.default_rng(141_200 + k)
        mean = rng.uniform(0.2, 3.0, (world.states, 2))
        passed = 1 / (1 - mean * np.log(world.gamma))  # the mean of gamma^dt where dt is exponential
        P = np.einsum("sa,sa,sax->sx", world.target, passed, world.P)[:, :-1]
        r = np.einsum("sa,sax,sax->s", world.target, world.P, world.R)
        truth = float(world.start @ np.linalg.solve(np.eye(world.states) - P, r))
        log = world.log(300, 141_400 + k)
        lasts = rng.exponential(mean[log["obs"], log["action"]])
        since = np.cumsum(lasts) - lasts
        first = np.r_[0, np.flatnonzero(np.diff(log["episode"])) + 1]
        log["hours"] = since - since[first][log["episode"]]
        made = run(log, world, time_column="hours")
        even = run({n: v for n, v in log.items() if n != "hours"}, world)
        inside[k], wrong[k] = holds(made.interval, truth), holds(even.interval, truth)
        usable += made.verdict == "usable"
        ratio.append(even.value / truth)
    print(
        f"{logs} logs ({usable} usable): with times the truth is inside in {inside.mean():.1%}; evenly spaced in "
        f"{wrong.mean():.1%}, the value {np.median(ratio):.2f} times the truth"
    )


def groups(logs: int = 200) -> None:
    """Five groups of starts: all intervals at once, and each as if it were the only one."""
    together, widths = np.zeros((2, logs), bool), []
    for k in range(logs):
        world = random_world(151_000 + k)
        log, truth = world.log(400, 151_300 + k), world.values()
        first = np.r_[0, np.flatnonzero(np.diff(log["episode"])) + 1]
        log["start"] = log["obs"][first][log["episode"]]
        made = run(log, world, by="start")
        shrunk = [(g, 1.96 / 2.569) for g in made.groups]  # as if each were the only one: the largest of five is 2.57
        together[0, k] = all(holds((g.low, g.high), truth[int(g.name)]) for g in made.groups)
        together[1, k] = all(
            holds((g.value - c * (g.value - g.low), g.value + c * (g.high - g.value)), truth[int(g.name)])
            for g, c in shrunk
        )
        widths += [(g.high - g.low) / (made.interval[1] - made.interval[0]) for g in made.groups]
    print(
        f"{logs} logs: all five inside in {together[0].mean():.1%}; with intervals for one group alone in "
        f"{together[1].mean():.1%}; width over that of all starts {np.median(widths):.2f}"
    )


def watch(files: int = 6, kills: int = 4) -> None:
    """`gradtd watch` on a folder that grows while it runs, killed and started again, against one run to the end."""
    import os
    import subprocess
    import sys
    import tempfile
    from pathlib import Path

    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = random_world(1).log(60 * files, 2)
    rng = np.random.default_rng(3)
    with tempfile.TemporaryDirectory() as place:
        folder, out, whole = (Path(place) / name for name in ("log", "out", "whole"))
        folder.mkdir()

        def start(to: Path, *more: str) -> subprocess.Popen[bytes]:
            given = ["watch", str(folder), "--gamma", "0.9", "--target", "uniform", "--every", "0.2", "--out", str(to)]
            return subprocess.Popen([sys.executable, "-m", "gradtd", *given, *more], stdout=subprocess.DEVNULL)

        def looks() -> int:
            kept = out / "looks.json"
            return kept.read_text().count('"episodes"') if kept.exists() else 0

        running, killed = start(out), 0
        for k in range(files):
            part = {
                n: v[(columns["episode"] >= 60 * k) & (columns["episode"] < 60 * (k + 1))] for n, v in columns.items()
            }
            pq.write_table(pa.table(part), folder / f"day-{k}.tmp")
            os.rename(folder / f"day-{k}.tmp", folder / f"day-{k}.parquet")
            if killed < kills:  # while it starts, reads or writes
                time.sleep(float(rng.uniform(0.5, 6)))
                running.kill()
                running.wait()
                running, killed = start(out), killed + 1
        while looks() < files:
            time.sleep(0.5)
        running.kill()
        running.wait()
        for to in (out, whole):
            start(to, "--once").wait()
        same = [(out / name).read_bytes() == (whole / name).read_bytes() for name in ("looks.json", "looks.svg")]
    print(f"watch: {files} files, killed {killed} times while the folder grew; same bytes as in one go: {all(same)}")


MODES: dict[str, Callable[..., None]] = {
    "anytime": anytime,
    "confounding": confounding,
    "behaviour": behaviour,
    "trained": trained,
    "clocks": clocks,
    "groups": groups,
    "watch": watch,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=[*MODES, "all"])
    parser.add_argument("--only", help="of 'behaviour' and 'trained': the worlds whose names have this in them")
    parser.add_argument("--first", type=int, help="of 'trained': what is added to all seeds")
    parser.add_argument("--logs", type=int, help="how many logs, if not as many as the page has")
    given = vars(parser.parse_args())
    mode = given.pop("mode")
    for name in MODES if mode == "all" else [mode]:
        begin = time.process_time()
        MODES[name](**{option: value for option, value in given.items() if value is not None})
        print(f"({name}: {time.process_time() - begin:.0f} processor seconds)", flush=True)


if __name__ == "__main__":
    main()
