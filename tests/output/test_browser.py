"""The pages that people share, in a real browser: no sideways scroll, no complaint, no barrier, in light and dark."""

from pathlib import Path

import numpy as np
import pytest

from browsing import complaints, serious, set_window, sideways, visit
from gradtd import evaluate, run
from gradtd.output.evaluation_page import write_page
from gradtd.output.pages import render
from gradtd.output.plots import canvas
from gradtd.output.svg import picture
from gradtd.paper.claims import CLAIMS
from gradtd.paper.figures import FIGURES, READINGS
from naive.evaluation import walk

pytestmark = pytest.mark.slow

SITE = Path(__file__).resolve().parents[2] / "build" / "site"


def _evaluation(folder):
    how = {"gamma": 0.9, "algorithm": "lstd", "resamples": 20, "threads": 1}
    both = evaluate(walk(40), target={"the old policy": "behaviour", "a new one": "target"}, **how)
    command = "gradtd evaluate a_log_with_a_long_name.parquet --gamma 0.9 " * 3
    return write_page(both, folder / "evaluation.html", command, both.compare())


def _report(folder):
    """The template of the reproduction with its own claims and figures, and made-up numbers."""
    figure, axes = canvas("A figure")
    axes.plot(np.arange(10), np.arange(10) ** 2)
    words = ("reproduces", "reproduces under reading S2", "undecided", "does not reproduce")
    claims = [
        {
            "id": claim.id,
            "statement": claim.statement,
            "figures": list(claim.figures) or [FIGURES[0].label],
            "readings": {name: {"holds": True, "measured": "a ratio of 1.23 [1.1, 1.4]"} for name in READINGS},
            "explanation": "",
            "verdict": words[k % 4],
            "before": None,
        }
        for k, claim in enumerate(CLAIMS)
    ]
    claims[0]["before"] = {**claims[0], "verdict": words[3], "why": "The criterion saw the transient, not the floor."}
    drawn = picture(figure)
    own = {f.label: [c for c in claims if c["figures"] == [f.label]] for f in FIGURES}
    shown = [{"figure": f, "image": drawn, "claims": own[f.label]} for f in FIGURES]
    theory = dict.fromkeys(("alpha", "alpha_star", "rho", "floor", "alpha_paper", "norm_A", "S", "mu"), 0.123)
    section = {
        "title": "A problem", "figures": shown, "tuned_image": drawn, "sensitivity_image": drawn,
        "tuned": [], "ratios": [], "theory": theory | {"batch_size": 9, "m_paper": 9, "image": drawn, "table_1": []},
    }  # fmt: skip
    counts = {"reproduces": 13, "reproduces under another reading": 13, "undecided": 12, "does not reproduce": 12}
    across = [c for c in claims if c["figures"][0] not in own or len(c["figures"]) > 1]
    text = render(
        "report.html",
        summary={"counts": counts, "total": 50, "by_reading": {name: [] for name in READINGS},
                 "first_counts": counts, "first_total": 50},
        changed=[{"before": claims[0]["before"], "now": claims[:1]}],
        claims=claims, sections=[section], across=across, lambdas=[],
        places={f.label: f"figure-{f.name}" for f in FIGURES}, labels={}, ratios_at=(500, 10_000), readings=READINGS,
        command="gradtd reproduce", runs=3, steps=10_000, seed=0, tuning_seed=1, versions={"gradtd": "0"}, python="3",
        seconds=1.0, run_steps=10**6, threads=(1,),
    )  # fmt: skip
    path = folder / "report.html"
    path.write_text(text, encoding="utf-8")
    return path


def _run(folder):
    return run("boyan_chain", "td", alpha=0.0625, runs=2, steps=200, threads=1).page(folder / "run.html")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    return {make.__name__: make(folder).as_uri() for make in (_evaluation, _report, _run)}


def _inspected(browser, address, width, scheme):
    set_window(browser, width, scheme)
    visit(browser, address)
    assert sideways(browser, width) == 0
    assert complaints(browser) == []
    assert serious(browser) == []


@pytest.mark.parametrize("page", ["_evaluation", "_report", "_run"])
@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1400, "light")])
def test_pages_fit_their_reader(browser, pages, page, width, scheme):
    _inspected(browser, pages[page], width, scheme)


@pytest.mark.parametrize("page", ["_evaluation", "_report"])
def test_a_phone_shows_whole_pictures_and_whole_words(browser, pages, page):
    set_window(browser, 400)
    visit(browser, pages[page])
    wide, tall = ("img.only", "img.tall")
    shown = "return [...document.querySelectorAll(arguments[0])].filter((i) => i.getBoundingClientRect().width > 0)"
    assert browser.execute_script(shown, wide) == []
    widths = browser.execute_script(shown + ".map((i) => i.getBoundingClientRect().width)", tall)
    assert widths
    assert max(widths) <= 400
    narrow = "return [...document.querySelectorAll('.scroll td:not(.n)')].filter((c) => c.clientWidth < 40).length"
    assert browser.execute_script(narrow) == 0
    set_window(browser, 1400)
    assert browser.execute_script(shown, tall) == []


def test_claims_lead_to_figures_and_back(browser, pages):
    visit(browser, pages["_report"])
    broken = browser.execute_script(
        "return [...document.querySelectorAll('a[href^=\"#\"]')].map((a) => a.getAttribute('href').slice(1))"
        ".filter((id) => !document.getElementById(id))"
    )
    assert broken == []
    linked = set(browser.execute_script("return [...document.querySelectorAll('a')].map((a) => a.hash)"))
    assert {f"#claim-{claim.id}" for claim in CLAIMS} <= linked
    assert "#figure-rwtab" in linked


@pytest.mark.parametrize("page", ["index.html", "concepts/divergence.html", "reference/generated/gradtd.evaluate.html"])
@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1400, "dark")])
def test_the_site_fits_its_reader(browser, page, width, scheme):
    if not (SITE / page).exists():
        pytest.skip("no site here: make docs builds it")
    _inspected(browser, (SITE / page).as_uri(), width, scheme)


@pytest.mark.parametrize("width", [400, 1400])
def test_the_landing_page_tells_its_story_on_one_screen(browser, width):
    if not (SITE / "index.html").exists():
        pytest.skip("no site here: make docs builds it")
    set_window(browser, width)
    visit(browser, (SITE / "index.html").as_uri())
    ends = browser.execute_script(
        "return [...document.querySelectorAll('article img, article .highlight')]"
        ".map((e) => e.getBoundingClientRect()).filter((r) => r.width > 0).map((r) => r.bottom).slice(0, 2)"
    )
    assert len(ends) == 2
    assert max(ends) <= 900  # the picture, and below it what to type
