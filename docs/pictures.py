"""The pictures of README.md and docs/architecture.md, and the printed example of README.md.

python docs/pictures.py                 # draws docs/architecture.svg
python docs/pictures.py --first-page    # also runs README's first commands: their output and their picture are put in

Run the second where `gradtd` on the path is that of this tree, for example with ``PATH=$PWD/.venv/bin:$PATH``.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

DOCS = Path(__file__).resolve().parent
README = DOCS.parent / "README.md"
BLUE, INK, QUIET = "#0072b2", "#222222", "#5f6b76"


class Box(NamedTuple):
    """A room, or a thing that rooms hand on: its middle, its size, its name, and what it does."""

    x: float
    y: float
    width: float
    height: float
    name: str
    lines: tuple[str, ...] = ()
    thing: bool = False


BOXES = {
    "problems": Box(1.5, 5.15, 2.6, 1.1, "problems", ("dynamics written once:", "simulator, exact A, b, C")),
    "logs": Box(1.5, 3.4, 2.6, 1.1, "logs", ("a table of steps, checked;", "ratios of probabilities")),
    "features": Box(1.5, 1.65, 2.6, 1.1, "features", ("observations in,", "rows of features out")),
    "stream": Box(4.65, 4.2, 1.6, 1.1, "Stream", ("steps, rows", "of features"), thing=True),
    "running": Box(8.7, 4.2, 5.3, 2.5, "running: one Session drives every rule"),
    "buffers": Box(7.05, 4.2, 1.55, 1.1, "buffers", ("a Split keeps", "them apart")),
    "batches": Box(8.8, 4.2, 1.35, 1.1, "batches", ("Draws", "takes them")),
    "rule": Box(10.4, 4.2, 1.35, 1.1, "the rule", ("changes", "theta")),
    "weights": Box(12.9, 4.2, 1.6, 1.1, "weights", ("at steps", "asked for"), thing=True),
    "metrics": Box(15.75, 5.15, 2.7, 1.1, "problems.metrics", ("error against", "the exact solution")),
    "evaluation": Box(15.75, 3.4, 2.7, 1.1, "evaluation", ("refits on resampled", "episodes, verdict")),
    "output": Box(15.75, 1.65, 2.7, 1.1, "output", ("tables, pictures,", "one HTML page")),
    "algorithms": Box(7.2, 1.65, 2.6, 1.1, "algorithms", ("one file per algorithm", "written with estimates")),
    "compiled": Box(10.2, 1.65, 2.6, 1.1, "compiled", ("the one loop, and the", "engine that compiles it")),
}
ARROWS = [
    ((2.8, 5.15), (3.85, 4.45), "sample", (3.38, 4.98)),
    ((2.8, 3.4), (3.85, 4.05), "rewards, ratios", (2.92, 3.28)),
    ((1.5, 2.85), (1.5, 2.2), "observations", (1.62, 2.53)),
    ((2.8, 1.65), (4.65, 3.65), "rows", (3.95, 2.62)),
    ((5.45, 4.2), (6.05, 4.2), "", (0, 0)),
    ((7.825, 4.2), (8.125, 4.2), "", (0, 0)),
    ((9.475, 4.2), (9.725, 4.2), "", (0, 0)),
    ((11.35, 4.2), (12.1, 4.2), "", (0, 0)),
    ((13.7, 4.4), (14.4, 5.0), "", (0, 0)),
    ((13.7, 4.0), (14.4, 3.55), "", (0, 0)),
    ((15.75, 2.85), (15.75, 2.2), "", (0, 0)),
    ((7.2, 2.2), (7.2, 2.95), "", (0, 0)),
    ((10.2, 2.2), (10.2, 2.95), "", (0, 0)),
]
"""From where, to where, what moves, and where that is written."""

OVER = {
    "theory: computes what a run would show": 2.9,
    "paper: figures and claims as data": 7.7,
    "lab: the kernel in a browser": 11.9,
    "cli: the commands": 15.3,
}
INSIDE = "for every step: insert, draw, update, snapshot"
UNDER = {"core: checks, Stream, Algorithm, files. All rooms stand on it.": 8.7}


def architecture() -> Any:
    """The way data take through the rooms, from left to right."""
    figure = Figure(figsize=(13.4, 5.1), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 17.3), ylim=(0.3, 6.9))
    axes.set_axis_off()
    for name, box in BOXES.items():
        _draw_box(axes, box, outer=name == "running")
    axes.text(
        8.7, 3.3, "for every step: insert, draw, update, snapshot", ha="center", va="center", color=QUIET, size=9.5
    )
    for start, end, label, place in ARROWS:
        axes.add_patch(
            FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=13, color=INK, shrinkA=0, shrinkB=0)
        )
        axes.text(*place, label, ha="left", va="center", color=QUIET, size=9.2, style="italic")
    for y, texts in ((6.45, OVER), (0.7, UNDER)):
        patch = FancyBboxPatch((0.2, y - 0.22), 16.9, 0.44, boxstyle="round,pad=0,rounding_size=0.12")
        patch.set(facecolor="#f0f2f4", edgecolor="none")
        axes.add_patch(patch)
        for text, x in texts.items():
            axes.text(x, y, text, ha="center", va="center", color=INK, size=10.5)
    return figure


def _draw_box(axes: Any, box: Box, outer: bool) -> None:
    corner = (box.x - box.width / 2, box.y - box.height / 2)
    patch = FancyBboxPatch(corner, box.width, box.height, boxstyle="round,pad=0,rounding_size=0.12")
    face = "#eaf2f9" if outer else "#fff6e0" if box.thing else "white"
    patch.set(facecolor=face, edgecolor="#c98a00" if box.thing else BLUE, linewidth=1.2)
    axes.add_patch(patch)
    top = box.y + box.height / 2 - 0.26
    middle = top if box.lines or outer else box.y
    axes.text(box.x, middle, box.name, ha="center", va="center", color=INK, size=11.5, weight="bold")
    for k, line in enumerate(box.lines):
        axes.text(box.x, top - 0.31 - 0.26 * k, line, ha="center", va="center", color=QUIET, size=9.2)


def first_page() -> None:
    """Run the commands of README's first block, put in what they print, and keep the picture they draw."""
    text = README.read_text(encoding="utf-8")
    block = re.search(r"<!-- commands.*?-->\s*```sh\n(.*?)```", text, re.DOTALL)
    if block is None:
        raise SystemExit("README.md has no block of commands to run.")
    with tempfile.TemporaryDirectory() as folder:
        for line in block[1].splitlines():
            words = line.partition("#")[0].split()
            if words[:1] == ["gradtd"]:
                told = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stdout
        for picture in Path(folder).glob("*.png"):
            shutil.copy(picture, DOCS / picture.name)
    printed = f"<!-- printed -->\n```text\n{shortened(told)}\n```\n<!-- end of printed -->"
    README.write_text(re.sub(r"<!-- printed -->.*?<!-- end of printed -->", lambda _: printed, text, flags=re.DOTALL))


def shortened(told: str) -> str:
    """What `gradtd evaluate` prints before its tables: the picture shows the methods, docs/evaluate.md the rest."""
    blocks = re.split(r"\n\s*\n", told.strip("\n"))
    shown = next((k for k, block in enumerate(blocks) if block.startswith("method")), len(blocks))
    lines = "\n\n".join(blocks[:shown]).splitlines()
    return "\n".join([*(line.rstrip() for line in lines), "..."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first-page", action="store_true", help="run README's first commands and put their output in")
    options = parser.parse_args()
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "gradtd", "font.family": "sans-serif"})
    architecture().savefig(DOCS / "architecture.svg", metadata={"Date": None, "Creator": None})
    if options.first_page:
        first_page()


if __name__ == "__main__":
    main()
