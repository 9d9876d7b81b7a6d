"""Pictures of the pages that people see, at two widths, light and dark: `python tests/output/screenshots.py shots`.

The lab, the page of an evaluation, the landing page and the main pages of the site (where `make docs` has built one),
and the page of a reproduction (where `make reproduce` has left one). They are there to be looked at: nothing is
compared.
"""

from __future__ import annotations

import argparse
import base64
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from browsing import NoBrowser, set_window, start, visit  # noqa: E402
from naive.evaluation import walk  # noqa: E402

WIDTHS = (400, 1400)
SCHEMES = ("light", "dark")
TALLEST = 9000
"""Pixels of a page that a picture shows at most."""
SITE = ("index", "start/log", "tutorials/click-logs", "concepts/divergence", "concepts/verdict", "howto/propensities",
        "reference/index", "evaluate", "trust", "lab", "reproduction")  # fmt: skip


def pages(folder: Path, site: Path, reproduction: Path) -> dict[str, str]:
    """The address of every page that is there, by the name of its picture."""
    from gradtd import evaluate, sample_log
    from gradtd.output.evaluation_page import write_page
    from gradtd.paper.lab import write_lab

    one = evaluate(sample_log("random_walk_tabular", 300, seed=0), gamma=1.0)
    two = evaluate(walk(300), target={"the old policy": "behaviour", "a new one": "target"}, gamma=0.9)
    lab = write_lab(folder / "lab.html").as_uri()
    command = "gradtd evaluate log.parquet --gamma 1 --page evaluation.html"
    made = {
        "lab": lab,
        "lab-sweep": f"{lab}#sweep=1&curve=impression_gtd~lam:0.4&curve=td&curve=tdrc&curve=gtd2",
        "evaluation": write_page({one.target: one}, folder / "evaluation.html", command).as_uri(),
        "comparison": write_page(two, folder / "comparison.html", command, two.compare()).as_uri(),
    }
    there = {f"site-{name.replace('/', '-')}": site / f"{name}.html" for name in SITE}
    there["reproduction"] = reproduction / "index.html"
    return made | {name: path.as_uri() for name, path in there.items() if path.exists()}


def picture(browser, address: str, width: int, scheme: str, path: Path) -> None:
    """The whole page, as far as it is not too long to be looked at."""
    set_window(browser, width, scheme)
    visit(browser, address)
    _settle(browser)
    height = browser.execute_script("return document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": width, "height": min(height, TALLEST), "scale": 1}
    shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    path.write_bytes(base64.b64decode(shot["data"]))


def _settle(browser, seconds: float = 30) -> None:
    """Wait for the lab to have drawn everything, its sweep included."""
    end = time.monotonic() + seconds
    ready = """
        const lab = window.gradtdLab;
        if (!lab) return true;
        return lab.settled && (!lab.state().sweep || document.querySelectorAll("#sweep-chart circle").length === 21);
    """
    while not browser.execute_script(ready) and time.monotonic() < end:
        time.sleep(0.05)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("out", type=Path, help="the folder of the pictures")
    words.add_argument("--site", type=Path, default=ROOT / "build" / "site")
    words.add_argument("--reproduction", type=Path, default=ROOT / "reproduction")
    words.add_argument("--only", default="", help="pages whose name holds this")
    given = words.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    try:
        browser = start()
    except NoBrowser as missing:
        sys.exit(f"No pictures: {missing}.")
    try:
        found = pages(given.out.resolve(), given.site.resolve(), given.reproduction.resolve())
        shots = [
            (name, width, scheme) for name in found if given.only in name for width in WIDTHS for scheme in SCHEMES
        ]
        for name, width, scheme in shots:
            path = given.out / f"{name}-{width}-{scheme}.png"
            picture(browser, found[name], width, scheme, path)
            print(path)
    finally:
        browser.quit()


if __name__ == "__main__":
    main()
