"""The lab in a real browser. Where there is none these tests are skipped and say so; `make browser` installs one."""

import contextlib
import io
import json
import re
import shlex
import time

import pytest
from typer.testing import CliRunner

import gradtd
from browsing import complaints, serious, set_window, sideways, visit
from gradtd.cli.app import app
from paper.lab.both import settings

pytestmark = pytest.mark.slow

LINK = (
    "#problem=random_walk_inverted&metric=rmspbe&steps=2000&runs=7&seed=3&active=1"
    "&curve=td~alpha:0.1&curve=impression_gtd~alpha:0.8~lam:0.4~batch_size:12~split:coin"
)


def _open(browser, address, width=1400, scheme="light"):
    """Open an address afresh, in a window of this width, and wait until everything is drawn."""
    set_window(browser, width, scheme)
    visit(browser, address)
    _until(browser, "return window.gradtdLab && window.gradtdLab.settled")


def _until(browser, script, seconds=60):
    """Wait for a script to say yes; seconds only bound the wait of a test that fails."""
    end = time.monotonic() + seconds
    while not browser.execute_script(script):
        assert time.monotonic() < end, f"waited in vain: {script}"
        time.sleep(0.02)


def _curve(browser):
    return browser.execute_script("return document.querySelector('#chart .line.own').getAttribute('d')")


def test_it_opens_from_a_file_and_draws_without_a_complaint(browser, page):
    _open(browser, page)
    assert page.startswith("file:")
    assert browser.execute_script("return document.querySelectorAll('#chart .line').length") == 4
    assert "Impression GTD ends with" in browser.find_element("id", "story").text
    assert complaints(browser) == []


@pytest.mark.parametrize("slider", ["alpha", "lam", "batch_size", "runs"])
def test_a_slider_changes_the_curve(browser, page, slider):
    _open(browser, page)
    before, link = _curve(browser), browser.current_url
    browser.find_element("id", slider).send_keys(("\ue014" if slider == "lam" else "\ue012") * 4)
    _until(browser, "return window.gradtdLab.settled")
    after, moved = _curve(browser), browser.current_url
    assert after != before
    assert moved != link
    assert complaints(browser) == []
    _open(browser, moved)
    assert _curve(browser) == after


def test_a_link_restores_the_state(browser, page):
    _open(browser, page + LINK)
    state = browser.execute_script("return window.gradtdLab.state()")
    assert state["curves"][1] | {"split": "coin", "alpha": 0.8, "batch_size": 12, "lam": 0.4} == state["curves"][1]
    shown = {name: browser.find_element("id", name).get_property("value") for name in ("problem", "metric", "seed")}
    assert shown == {"problem": "random_walk_inverted", "metric": "rmspbe", "seed": "3"}
    for name, value in (("alpha", "0.8"), ("lam", "0.4")):
        assert browser.find_element("id", f"{name}-typed").get_property("value") == value
    assert browser.current_url == page + LINK
    drawn = _curve(browser)
    _open(browser, page)
    assert _curve(browser) != drawn
    browser.execute_script("location.hash = arguments[0]", LINK)
    _until(browser, "return window.gradtdLab.state().seed === 3 && window.gradtdLab.settled")
    assert _curve(browser) == drawn


def test_a_broken_link_falls_back(browser, page):
    _open(browser, page + "#problem=constructor&runs=-1&steps=x&curve=nothing~alpha:-2&metric=%E0%A4%A&active=9")
    state = browser.execute_script("return window.gradtdLab.state()")
    assert (state["problem"], state["runs"], state["steps"], state["active"]) == ("boyan_chain", 20, 5000, 0)
    assert complaints(browser) == []


@pytest.mark.parametrize("lam", [0.0, 0.4, 0.8])
def test_weights_in_the_browser_equal_pythons(browser, page, lam):
    _open(browser, page)
    shared = {"problem": "random_walk_dependent", "steps": 500, "runs": 2, "seed": 4}
    script = """
        const [shared, setting, done] = arguments;
        const hex = (thetas) => [...new Uint8Array(thetas.buffer)].map((b) => b.toString(16).padStart(2, "0")).join("");
        window.gradtdLab.weights(shared, setting).then((runs) => done(runs.map(hex)));
    """
    for setting, algorithm, hyper in settings(lam):
        result = gradtd.run(
            shared["problem"], algorithm, runs=2, steps=500, seed=4, snapshots=range(0, 501, 5), threads=1, **hyper
        )
        found = browser.execute_async_script(script, shared, setting)
        assert found == [run.tobytes().hex() for run in result.thetas], setting


def _ending(browser):
    return browser.find_element("css selector", "#curves .active .end").text


def _copied(browser, button):
    browser.find_element("id", button).click()
    _until(browser, "return !document.getElementById('copied').hidden")
    return browser.find_element("id", "copied-text").get_property("textContent")


@pytest.mark.parametrize(
    "curve", ["td~alpha:0.1", "impression_gtd~alpha:0.8~split:coin", "impression_gtd_auto~lam:0.6", "lstd~lam:0.3"]
)
def test_what_is_copied_gives_the_same_number_outside(browser, page, curve):
    _open(browser, f"{page}#problem=random_walk_tabular&steps=1000&runs=5&seed=2&curve={curve}")
    shown = float(_ending(browser).split()[0])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(_copied(browser, "copy-python"), {})
    assert float(f"{float(printed.getvalue()):.3g}") == shown
    words = shlex.split(_copied(browser, "copy-command"))
    assert words.pop(0) == "gradtd"
    answer = json.loads(CliRunner().invoke(app, [*words, "--json"]).output)
    assert float(f"{answer['mean'][-1]:.3g}") == shown


def test_the_threshold_is_one_click_away(browser, page):
    _open(browser, page)
    threshold = gradtd.theory.stability_threshold("boyan_chain", 10)
    browser.find_element("id", "sweep").click()
    _until(browser, "return document.querySelectorAll('#sweep-chart circle').length === 21")
    labels = browser.execute_script("return document.querySelector('#sweep-chart').textContent")
    assert f"alpha* = {threshold:.3g}" in labels
    browser.find_element("id", "to-edge").click()
    assert browser.execute_script("return window.gradtdLab.state().curves[0].alpha") == float(f"{threshold:.3g}")


@pytest.mark.parametrize(
    ("curve", "problem", "said"),
    [
        ("impression_gtd~lam:0.6~batch_size:10", "boyan_chain", "Dashed: the exact root mean square"),
        ("tdc~lam:0.4", "boyan_chain", "no dashed curve and no alpha* for TDC with traces"),
        ("impression_gtd~lam:0.8", "baird", "from lambda = 0.42 on the traces have an infinite variance"),
    ],
)
def test_with_traces_it_shows_the_threshold_or_says_why_not(browser, page, curve, problem, said):
    _open(browser, f"{page}#problem={problem}&steps=1000&runs=2&curve={curve}")
    assert said in browser.find_element("id", "theory-says").text
    if said.startswith("Dashed"):
        threshold = gradtd.theory.stability_threshold(gradtd.theory.law(problem, lam=0.6), 10)
        assert browser.find_element("id", "to-edge").text == f"go to alpha* = {threshold:.3g}"
    else:
        assert not browser.find_element("id", "to-edge").is_displayed()


def test_a_figure_of_the_paper_is_one_choice_away(browser, page):
    _open(browser, page)
    browser.execute_script(
        "const s = document.getElementById('figure'); s.value = 'rwdep_pbe'; s.dispatchEvent(new Event('change'))"
    )
    state = browser.execute_script("return window.gradtdLab.state()")
    assert (state["problem"], state["metric"], state["steps"]) == ("random_walk_dependent", "rmspbe", 10000)
    assert [c["alpha"] for c in state["curves"] if c["algorithm"] == "impression_gtd"] == [0.05]
    assert "GTD" in browser.find_element("id", "figure-note").text


@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_scrolls_sideways(browser, page, width):
    _open(browser, page + "#sweep=1", width)
    browser.execute_script("document.querySelector('details').open = true")
    _copied(browser, "copy-command")
    assert sideways(browser, width) == 0
    assert complaints(browser) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_axe_finds_no_serious_problem(browser, page, width, scheme):
    _open(browser, page + "#sweep=1&curve=impression_gtd&curve=td&curve=tdrc", width, scheme)
    browser.execute_script("document.querySelector('details').open = true")
    _copied(browser, "copy-python")
    assert serious(browser) == []


def test_links_hold_only_plain_characters(browser, page):
    _open(browser, page + LINK)
    assert re.fullmatch(r"#[\w=&~:.\-]+", browser.execute_script("return location.hash"))
