"""The reproduction: the same bytes however often it is interrupted, right curves, clear refusals, a whole page."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import gradtd
from gradtd.algorithms import auto_step
from gradtd.compiled import engine
from gradtd.compiled.splits import Split
from gradtd.output.plots import paper_figure, sensitivity_figure, styled
from gradtd.paper import reproduce as module
from gradtd.paper.figures import BESIDE, FIGURES
from gradtd.paper.report import write_report
from gradtd.paper.reproduce import Job, best_alpha, chosen_figures, reproduce
from gradtd.paper.store import Store
from gradtd.running.session import Session

FIGURE = "rwdep_stepsize"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One figure, reproduced with three runs without interruption, and its page."""
    found, store = reproduce([FIGURE], tmp_path_factory.mktemp("done"), runs=3, threads=2)
    write_report(found, store, "gradtd reproduce")
    return found, store


def _tables(folder):
    return {path.name: path.read_bytes() for path in sorted((Path(folder) / "curves").glob("*.parquet"))}


def _command(out):
    return [sys.executable, "-m", "gradtd", "reproduce", FIGURE, "--runs", "3", "--out", str(out), "--threads", "1"]


def test_killed_three_times_and_resumed_it_leaves_the_same_bytes(finished, tmp_path):
    out, chance = tmp_path / "killed", random.Random(4)
    for _ in range(3):
        process = subprocess.Popen(_command(out), stdout=subprocess.DEVNULL)
        time.sleep(chance.uniform(1.2, 2.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
    kept = len(list((out / ".kept").glob("*.npz"))) if out.exists() else 0
    subprocess.run(_command(out), check=True, stdout=subprocess.DEVNULL)
    assert len(list((out / ".kept").glob("*.npz"))) >= kept
    assert _tables(out) == _tables(finished[1].folder)
    assert (out / "index.html").exists()


def test_a_finished_figure_is_not_run_again(finished, monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("it ran again")

    monkeypatch.setattr(module, "run", refuse)
    monkeypatch.setattr(module, "sweep", refuse)
    again, _ = reproduce([FIGURE], finished[1].folder, runs=3, threads=1)
    assert [c["verdict"] for c in again.claims] == [c["verdict"] for c in finished[0].claims]


def test_what_a_curve_depends_on_is_in_its_key(finished, monkeypatch):
    worker = module._Worker(finished[1], 3, 1, None)
    job = Job("boyan_chain", "td", {"alpha": 0.1})
    problem = module.problem_of(job)
    keys = [
        worker._key(job, problem, runs=3, seed=0),
        worker._key(replace(job, hyper={"alpha": 0.2}), problem, runs=3, seed=0),
        worker._key(job, problem, runs=4, seed=0),
        worker._key(job, problem, runs=3, seed=1),
        worker._key(job, replace(problem, gamma=0.9), runs=3, seed=0),
        worker._key(replace(job, algorithm="vtrace"), problem, runs=3, seed=0),
    ]

    def edited(state, stream, now, hyper):
        """TD, edited."""
        state.theta[0] += 0.0

    monkeypatch.setitem(gradtd.ALGORITHMS, "td", gradtd.Algorithm("td", edited))
    keys.append(worker._key(job, problem, runs=3, seed=0))
    monkeypatch.setattr(module, "code_around", lambda: "a simulator, edited")
    keys.append(worker._key(job, problem, runs=3, seed=0))
    auto, fixed = (Job("boyan_chain", "impression_gtd", h) for h in ({}, {"alpha": 1.0}))
    keys += [worker._key(j, problem, runs=3, seed=0) for j in (auto, fixed)]
    assert keys[-1]["code"] != keys[-2]["code"]
    assert len({json.dumps(key, sort_keys=True) for key in keys}) == len(keys)


def test_tables_are_tidy_and_hold_every_reading(finished):
    found, store = finished
    table = pq.read_table(store.folder / "curves" / f"{FIGURE}.parquet").to_pydict()
    assert set(table) == {"line", "reading", "run", "step", "value"}
    assert set(table["reading"]) == {"A1", "S2", "S-avg", "v-mu"}
    wanted = ("Impression GTD alpha=0.5", "S2", 1)
    rows = zip(table["line"], table["reading"], table["run"], table["value"], strict=True)
    curve = [value for *which, value in rows if tuple(which) == wanted]
    np.testing.assert_array_equal(curve, found.curves[f"fig:{FIGURE}", "S2"].values["Impression GTD alpha=0.5"][1])
    lines = found.curves[f"fig:{FIGURE}", "A1"].values
    direct = gradtd.run("random_walk_dependent", "impression_gtd", alpha=0.5, batch_size=32, runs=3,
                        snapshots=range(0, 10_001, 25))  # fmt: skip
    np.testing.assert_array_equal(lines["Impression GTD alpha=0.5"], gradtd.measure(direct, "rmsve"))


def test_the_page_is_whole_and_needs_nothing_from_outside(finished):
    found, store = finished
    page = (store.folder / "index.html").read_text()
    assert f"fig:{FIGURE}" in page
    for claim in found.claims:
        assert claim["id"] in page
        assert claim["verdict"] in page
    assert not re.findall(r"(?:src|href)=\"(?!data:)", page)
    for ending in ("png", "svg"):
        assert (store.folder / "figures" / f"{FIGURE}.{ending}").stat().st_size > 5000
    claims = json.loads((store.folder / "claims.json").read_text())
    assert {c["id"] for c in claims} == {"D7a", "D7b", "D7c"}
    assert all(set(c["readings"]) <= {"A1", "S2", "S-avg", "v-mu"} for c in claims)


def test_a_figure_shows_its_lines_labels_and_data(tmp_path):
    steps = np.arange(0, 1001, 25)
    values = {name: np.full((4, len(steps)), k + 1.0) for k, name in enumerate(("Impression GTD", "TD", "LSTD"))}
    axes = paper_figure(
        steps, styled(values), [tmp_path / "x.png"], title="A title", metric="rmsve", log=True, ceiling=50.0
    )
    assert axes.get_title(loc="left") == "A title"
    assert axes.get_xlabel() == "steps seen"
    assert axes.get_ylabel() == "RMSVE"
    assert axes.get_yscale() == "log"
    assert [line.get_label() for line in axes.get_lines()] == list(values)
    np.testing.assert_array_equal(axes.get_lines()[1].get_ydata(), np.full(len(steps), 2.0))
    np.testing.assert_array_equal(axes.get_lines()[1].get_xdata(), steps)
    assert axes.get_lines()[2].get_linewidth() < axes.get_lines()[0].get_linewidth()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(values)
    assert len(axes.collections) == 3


def test_an_algorithm_has_the_same_colour_in_every_figure():
    colours = {}
    for figure in FIGURES:
        values = {line.label: np.ones((2, 3)) for line in (*figure.lines, *BESIDE)}
        for curve in styled(values):
            if "=" not in curve.label:
                assert colours.setdefault(curve.label, curve.colour) == curve.colour
    assert len(set(colours.values())) == len(colours)


def test_a_sensitivity_figure_marks_divergence(tmp_path):
    sweep = {"alpha": np.array([0.5, 1.0, 2.0]), "error": np.array([0.1, 0.2, 9.0]), "diverged": np.array([0, 0, 3])}
    axes = sensitivity_figure({"TD": sweep}, [tmp_path / "x.svg"], title="t", metric="rmsve")
    marked = [line for line in axes.get_lines() if line.get_marker() == "x"]
    np.testing.assert_array_equal(marked[0].get_xdata(), [2.0])


def test_the_best_step_size_is_one_that_never_diverged():
    sweep = {"alpha": np.array([1.0, 2.0, 4.0]), "area": np.array([3.0, 2.0, 1.0]), "diverged": np.array([0, 0, 1])}
    assert best_alpha(sweep) == 2.0


def test_figures_are_chosen_by_label():
    assert [f.name for f in chosen_figures(["fig:rwtab", "baird_results"])] == ["rwtab", "baird_results"]
    assert len(chosen_figures([])) == 16


def test_unknown_figures_and_folders_that_are_not_ours_are_refused(tmp_path):
    def refused(message, *arguments):
        done = subprocess.run(
            [sys.executable, "-m", "gradtd", "reproduce", *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert message in done.stderr
        assert "Traceback" not in done.stderr

    refused("unknown figure 'rwtap': did you mean 'rwtab'?", "rwtap", "--out", str(tmp_path / "a"))
    refused("--runs must be at least 2, got 1", FIGURE, "--runs", "1", "--out", str(tmp_path / "a"))
    (tmp_path / "file").write_text("mine")
    refused("cannot write results to", FIGURE, "--out", str(tmp_path / "file"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("mine")
    refused("is not empty and was not written by gradtd", FIGURE, "--out", str(tmp_path / "full"))
    assert os.listdir(tmp_path / "full") == ["thesis.tex"]
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "manifest.json").write_text('{"format": 0}')
    refused("was written in format 0, this version writes", FIGURE, "--out", str(tmp_path / "old"))
    assert (tmp_path / "old" / "manifest.json").read_text() == '{"format": 0}'


def test_a_half_written_file_is_never_taken_for_a_finished_one(tmp_path):
    store = Store(tmp_path / "x")

    def fail():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.fetch({"a": 1}, fail)
    store.fetch({"a": 1}, lambda: {"v": np.arange(3)})
    np.testing.assert_array_equal(store.fetch({"a": 1}, fail)["v"], np.arange(3))
    kept = next(store.kept.glob("*.npz"))
    kept.write_bytes(kept.read_bytes()[:100])
    np.testing.assert_array_equal(store.fetch({"a": 1}, lambda: {"v": np.arange(3)})["v"], np.arange(3))


def test_keys_cover_the_simulator_the_exact_solution_and_a_rules_constants(monkeypatch):
    """What an edit must not slip past: code far from the rule, and a number that a rule reads from its module."""
    around = (module.walk, module.outcome_tables, Split.buffers, Session.over, module.exact, module.rmsve)
    names = {function.__name__ for function in engine._reachable(around)}
    assert {"pick", "next_word", "_alias_table", "units", "stationary_law", "solve_td", "seeded"} <= names
    session = Session("impression_gtd", {}, n_steps=1000)
    before = session.code
    monkeypatch.setattr(auto_step, "WATCHES", 700)
    assert session.code != before
