"""The lab's kernel against the compiled one, and how soon a slider is answered; prints a table.

    python benchmarks/lab.py

Needs Node.js, and for the second part Chromium with Selenium (`make browser`). The two kernels take turns on the same
run, a short one, so that the least of many times is free of what else the machine does.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import our_kernel
from timing import least_times

import gradtd
from gradtd.paper.lab import ASSETS, problem_tables, write_lab

STEPS = 2000
REPEATS = 150
M = 32
CASES: dict[str, tuple[str, dict[str, Any], float | None]] = {
    "Impression GTD, random walk": ("random_walk_tabular", {"alpha": 0.5, "batch_size": M}, 3.0),
    "Impression GTD, Boyan's chain": ("boyan_chain", {"alpha": 5.0, "batch_size": M}, 3.0),
    "lambda .4, random walk": ("random_walk_tabular", {"alpha": 0.1, "batch_size": M, "lam": 0.4}, 3.0),
    "automatic, random walk": ("random_walk_tabular", {"alpha": "auto", "batch_size": M}, None),
    "TD, random walk": ("random_walk_tabular", {"alpha": 1 / 32}, None),
}
"""What is run, and how many times the compiled kernel's time JavaScript may take."""

SCRIPT = """
import { createInterface } from "node:readline";
const assets = process.argv[1];
const { prepared, sample } = await import(assets + "/stream.mjs");
const { runOnce } = await import(assets + "/loop.mjs");
let table, stream, setting;
for await (const line of createInterface({ input: process.stdin })) {
  if (line !== "go") {
    const job = JSON.parse(line);
    table = prepared(job.table);
    stream = sample(table, job.steps, 0, 0);
    setting = job.setting;
  }
  const began = performance.now();
  const { thetas } = runOnce(table, stream, setting, 0, 0, [job_steps()]);
  console.log((performance.now() - began) / 1000, Buffer.from(thetas.buffer).toString("hex"));
}
function job_steps() { return stream.kind.length; }
"""

GOALS = {
    "td~alpha:0.0625": 200.0,
    "td~alpha:0.0625~lam:0.8": 200.0,
    f"impression_gtd~alpha:5~batch_size:{M}": 1000.0,
    f"impression_gtd~alpha:1~lam:0.8~batch_size:{M}": 1000.0,
}
"""A slider is answered within these milliseconds, for 20 runs of 5000 steps."""


def kernels() -> bool:
    """Time the two kernels in turn; whether every goal is met."""
    met = True
    print(f"{'one run of ' + str(STEPS) + ' steps':32s} {'compiled':>10s} {'JavaScript':>11s} {'ratio':>6s}")
    for label, (problem, hyper, goal) in CASES.items():
        name = "td" if "TD, " in label and "GTD" not in label else "impression_gtd"
        auto = hyper["alpha"] == "auto"
        setting = {"algorithm": name + "_auto" * auto, "split": "odd-even", "eta": 1.0, **hyper}
        script = [shutil.which("node") or "node", "--input-type=module", "-e", SCRIPT, str(ASSETS)]
        with subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as node:
            assert node.stdin is not None
            assert node.stdout is not None
            best, weights = float("inf"), ""
            compiled = our_kernel(gradtd.sample(problem, STEPS), name, **hyper)
            ours = float("inf")
            line = json.dumps({"table": problem_tables(problem), "steps": STEPS, "setting": setting})
            for _ in range(REPEATS):
                node.stdin.write(line + "\n")
                node.stdin.flush()
                line = "go"
                seconds, weights = node.stdout.readline().split()
                best = min(best, float(seconds))
                ours = min(ours, least_times({"": compiled}, 1)[""])
            node.stdin.close()
        assert weights == compiled().tobytes().hex()
        ratio = best / ours
        met = met and (goal is None or ratio <= goal)
        wanted = f"   goal {goal:g}" if goal else ""
        print(f"{label:32s} {1e3 * ours:7.2f} ms {1e3 * best:8.2f} ms {ratio:6.2f}{wanted}")
    return met


def sliders() -> bool:
    """Move the step-size slider in Chromium, stop by stop; whether the median answer with all runs meets its goal."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = os.environ.get("GRADTD_CHROMIUM") or shutil.which("chromium") or ""
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    met = True
    print(f"\n{'slider, 20 runs of 5000 steps':40s} {'first':>8s} {'all runs':>9s} {'slowest':>8s}")
    with tempfile.TemporaryDirectory() as folder:
        page = write_lab(Path(folder) / "lab.html").as_uri()
        for curve, goal in GOALS.items():
            browser.get("about:blank")
            browser.get(f"{page}#problem=boyan_chain&steps=5000&runs=20&curve={curve}")
            first, complete = zip(*[_move(browser) for _ in range(12)], strict=True)
            middle = sorted(first)[6], sorted(complete)[6]
            print(f"{curve:40s} {middle[0]:5.0f} ms {middle[1]:6.0f} ms {max(complete):5.0f} ms   goal {goal:g}")
            met = met and middle[1] <= goal
    browser.quit()
    return met


def _move(browser: Any) -> tuple[float, float]:
    """One stop to the left, and the milliseconds until the curve showed first and in full."""
    _wait(browser, "return window.gradtdLab && window.gradtdLab.settled")
    browser.find_element("id", "alpha").send_keys("\ue012")
    _wait(browser, "return window.gradtdLab.complete !== null")
    return tuple(browser.execute_script("return [window.gradtdLab.first, window.gradtdLab.complete]"))


def _wait(browser: Any, script: str) -> None:
    while not browser.execute_script(script):
        time.sleep(0.01)


if __name__ == "__main__":
    fine = kernels()
    fine = sliders() and fine
    print("\nall goals met" if fine else "\na goal is missed")
    sys.exit(not fine)
