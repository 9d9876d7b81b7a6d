"""The reproduction: the same bytes however often it is interrupted, right curves, clear refusals, a whole page."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import commands
import gradtd
from gradtd.algorithms import auto_step
from gradtd.cli.app import app
from gradtd.compiled import engine
from gradtd.output.plots import paper_figure, sensitivity_figure, styled
from gradtd.paper import jobs
from gradtd.paper.figures import BESIDE, FIGURES
from gradtd.paper.jobs import Kept, LineJob, Store, SweepJob, TheoryJob
from gradtd.paper.report import write_report
from gradtd.paper.reproduce import Plan, best_alpha, chosen_figures, reproduce
from gradtd.running.session import Session
from gradtd.theory import curves as theory
from gradtd.theory import exact as exact_theory

FIGURE = "rwdep_stepsize"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One figure, reproduced by the command with three runs without interruption, and its page."""
    folder = tmp_path_factory.mktemp("done")
    done = CliRunner().invoke(app, ["reproduce", FIGURE, "--runs", "3", "--out", str(folder), "--threads", "2"])
    assert done.exit_code == 0, done.output
    return reproduce([FIGURE], folder, runs=3, threads=1)


def _tables(folder):
    return {path.name: path.read_bytes() for path in sorted((Path(folder) / "curves").glob("*.parquet"))}


def _command(out):
    return [sys.executable, "-m", "gradtd", "reproduce", FIGURE, "--runs", "3", "--out", str(out), "--threads", "1"]


@pytest.mark.slow
def test_killed_three_times_and_resumed_it_leaves_the_same_bytes(finished, tmp_path):
    out, chance = tmp_path / "killed", random.Random(4)
    for _ in range(3):
        process = subprocess.Popen(_command(out), stdout=subprocess.DEVNULL)
        time.sleep(chance.uniform(1.2, 2.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
    kept = len(list((out / ".kept").glob("*.npz"))) if out.exists() else 0
    reproduce([FIGURE], out, runs=3, threads=1)
    assert len(list((out / ".kept").glob("*.npz"))) >= kept
    assert _tables(out) == _tables(finished[1].folder)


def _refuse(*arguments, **options):
    raise AssertionError("it ran again")


def _nothing_runs(monkeypatch):
    """From here on the compiled loop, the simulation of the theory and its exact moments raise."""
    monkeypatch.setattr(Session, "drive", _refuse)
    monkeypatch.setattr(theory, "simulate", _refuse)
    monkeypatch.setattr(exact_theory, "moments", _refuse)
    for name in ("run", "sweep", "summary", "theory_curves"):
        monkeypatch.setattr(jobs, name, _refuse)


@pytest.mark.slow
def test_what_is_finished_is_not_run_again_theory_included(finished, monkeypatch, tmp_path):
    folder = shutil.copytree(finished[1].folder, tmp_path / "again")
    before = {path.name: path.stat().st_mtime_ns for path in (folder / ".kept").iterdir()}
    _nothing_runs(monkeypatch)
    again, store = reproduce([FIGURE], folder, runs=3, threads=1)
    assert again.claims == finished[0].claims
    assert {path.name: path.stat().st_mtime_ns for path in store.kept.iterdir()} == before


@pytest.mark.slow
def test_a_report_runs_nothing(finished, monkeypatch, tmp_path):
    """Page and pictures of a finished folder come out the same where everything that computes is broken."""
    folder = shutil.copytree(finished[1].folder, tmp_path / "drawn")
    (folder / "index.html").unlink()
    shutil.rmtree(folder / "figures")
    _nothing_runs(monkeypatch)
    again, store = reproduce([FIGURE], folder, runs=3, threads=1)
    page = write_report(again, store, f"gradtd reproduce {FIGURE} --runs 3")
    assert page.read_text() == (finished[1].folder / "index.html").read_text()
    drawn = sorted((finished[1].folder / "figures").glob("*.png"))
    assert "theory_random_walk_dependent.png" in [path.name for path in drawn]
    for path in drawn:
        assert (folder / "figures" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_theory_is_resumed_like_everything_else(finished, monkeypatch, tmp_path):
    """Interrupted while the theory is simulated, it is the theory alone that runs when started again."""
    folder = shutil.copytree(finished[1].folder, tmp_path / "stopped")
    job = TheoryJob("random_walk_dependent", 3)
    Store(folder).file_of(job.key()).unlink()

    def stop(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(theory, "simulate", stop)
        with pytest.raises(KeyboardInterrupt):
            reproduce([FIGURE], folder, runs=3, threads=1)
    assert not Store(folder).file_of(job.key()).exists()
    monkeypatch.setattr(LineJob, "compute", _refuse)
    monkeypatch.setattr(SweepJob, "compute", _refuse)
    again, _ = reproduce([FIGURE], folder, runs=3, threads=1)
    ours, theirs = again.theory[job.problem], finished[0].theory[job.problem]
    assert {name: a.tobytes() for name, a in ours.arrays.items()} == {n: a.tobytes() for n, a in theirs.arrays.items()}
    took = ("seconds", "threads")
    assert {k: v for k, v in ours.told.items() if k not in took} == {
        k: v for k, v in theirs.told.items() if k not in took
    }


@pytest.mark.slow
def test_progress_counts_every_job_once_and_ends_at_the_total(finished, tmp_path):
    folder = shutil.copytree(finished[1].folder, tmp_path / "counted")
    seen = []
    reproduce([FIGURE], folder, runs=3, threads=1, progress=lambda *told: seen.append(told))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert seen[-1][1] == pytest.approx(seen[-1][2])
    assert "theory of random_walk_dependent" in [label for label, *_ in seen]
    assert len(list((folder / ".kept").glob("*.npz"))) == len(
        set(Plan(chosen_figures([FIGURE]), 3).jobs(finished[0].tuned))
    )


@dataclass(frozen=True)
class DiscountedJob(LineJob):
    """A line on a problem with another discount."""

    @property
    def task(self):
        return replace(super().task, gamma=0.9)


def test_what_a_curve_depends_on_is_in_its_key(monkeypatch):
    job = LineJob("boyan_chain", 3, "td", {"alpha": 0.1})
    keys = [
        job.key(),
        replace(job, hyper={"alpha": 0.2}).key(),
        replace(job, runs=4).key(),
        replace(job, algorithm="vtrace").key(),
        LineJob("baird", 3, "td", {"alpha": 0.1}).key(),
        LineJob("baird", 3, "td", {"alpha": 0.1}, ratios=False).key(),
        SweepJob("boyan_chain", 3, "td").key(),
    ]
    assert DiscountedJob("boyan_chain", 3, "td", {"alpha": 0.1}).key()["problem"] != keys[0]["problem"]
    monkeypatch.setattr(jobs, "SEED", 1)
    keys.append(job.key())

    def edited(state, stream, now, hyper):
        """TD, edited."""
        state.theta[0] += 0.0

    monkeypatch.setitem(gradtd.ALGORITHMS, "td", gradtd.Algorithm("td", edited))
    keys.append(job.key())
    monkeypatch.setattr(jobs, "code_around", lambda: "a simulator, edited")
    keys.append(job.key())
    auto, fixed = (LineJob("boyan_chain", 3, "impression_gtd", h) for h in ({}, {"alpha": 1.0}))
    keys += [auto.key(), fixed.key()]
    assert keys[-1]["code"] != keys[-2]["code"]
    assert len({json.dumps(key, sort_keys=True) for key in keys}) == len(keys)


def test_what_the_theory_depends_on_is_in_its_key(monkeypatch):
    job = TheoryJob("boyan_chain", 3)
    keys = [job.key(), replace(job, runs=4).key(), replace(job, problem="baird").key()]
    with monkeypatch.context() as patched:
        patched.setitem(jobs.PUBLISHED, "boyan_chain", (1.0, 10))
        keys.append(job.key())
    with monkeypatch.context() as patched:
        patched.setattr(jobs, "theory_code", lambda: "the theory, edited")
        keys.append(job.key())
    monkeypatch.setattr(jobs, "code_around", lambda: "a simulator, edited")
    keys.append(job.key())
    assert len({json.dumps(key, sort_keys=True) for key in keys}) == len(keys)


def test_an_edit_of_the_theory_changes_the_digest_of_its_code(monkeypatch, tmp_path):
    copy = shutil.copytree(Path(gradtd.theory.__file__).parent, tmp_path / "theory")
    monkeypatch.setattr(gradtd.theory, "__file__", str(copy / "__init__.py"))
    before = jobs.theory_code.__wrapped__()
    (copy / "picture.py").write_text("# drawn otherwise")
    assert jobs.theory_code.__wrapped__() == before
    (copy / "moments.py").write_text((copy / "moments.py").read_text() + "# edited")
    assert jobs.theory_code.__wrapped__() != before


def test_the_work_of_a_job_follows_its_batches_and_directions():
    td, small, large = (
        LineJob("boyan_chain", 2, name, hyper).work
        for name, hyper in (
            ("td", {"alpha": 0.1}),
            ("impression_gtd", {"alpha": 0.1, "batch_size": 8}),
            ("impression_gtd", {"alpha": 0.1, "batch_size": 32}),
        )
    )
    both = LineJob("boyan_chain", 2, "impression_gtd", {"alpha": 0.1, "directions": "both"}).work
    assert td < small < large < both


@pytest.mark.slow
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
    settings = {"alpha": 0.5, "batch_size": 32, "runs": 3, "snapshots": range(0, 10_001, 25)}
    direct = gradtd.run("random_walk_dependent", "impression_gtd", **settings)
    np.testing.assert_array_equal(lines["Impression GTD alpha=0.5"], gradtd.measure(direct, "rmsve"))


@pytest.mark.slow
def test_the_page_is_whole_and_needs_nothing_from_outside(finished):
    found, store = finished
    page = (store.folder / "index.html").read_text()
    assert f"fig:{FIGURE}" in page
    for claim in found.claims:
        assert claim["id"] in page
        assert claim["verdict"] in page
    assert not re.findall(r"(?:src|href)=\"(?!data:|#)", page)
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


def test_unknown_figures_and_folders_that_are_not_ours_are_refused(tmp_path, monkeypatch, capsys):
    def told(message, *arguments):
        assert message in commands.refused(monkeypatch, capsys, "reproduce", *arguments)

    told("unknown figure 'rwtap': did you mean 'rwtab'?", "rwtap", "--out", str(tmp_path / "a"))
    told("--runs must be at least 2, got 1", FIGURE, "--runs", "1", "--out", str(tmp_path / "a"))
    (tmp_path / "file").write_text("mine")
    told("cannot write results to", FIGURE, "--out", str(tmp_path / "file"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("mine")
    told("is not empty and was not written by gradtd", FIGURE, "--out", str(tmp_path / "full"))
    assert os.listdir(tmp_path / "full") == ["thesis.tex"]
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "manifest.json").write_text('{"format": 0}')
    told("was written in format 0, this version writes", FIGURE, "--out", str(tmp_path / "old"))
    assert (tmp_path / "old" / "manifest.json").read_text() == '{"format": 0}'


def test_a_half_written_file_is_never_taken_for_a_finished_one(tmp_path):
    store = Store(tmp_path / "x")

    def fail():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.fetch({"a": 1}, fail)
    made = Kept({"v": np.arange(3)}, {"said": [1.5, None]})
    store.fetch({"a": 1}, lambda: made)
    np.testing.assert_array_equal(store.fetch({"a": 1}, fail).arrays["v"], np.arange(3))
    assert store.fetch({"a": 1}, fail).told == {"said": [1.5, None]}
    kept = next(store.kept.glob("*.npz"))
    whole = kept.read_bytes()
    middle = whole.index(np.arange(3).tobytes()) + 8
    flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    for damaged in (b"", whole[:100], whole[:-1], bytes(len(whole)), flipped, b"random" * 50):
        kept.write_bytes(damaged)
        assert store.look({"a": 1}) is None
        np.testing.assert_array_equal(store.fetch({"a": 1}, lambda: made).arrays["v"], np.arange(3))
        assert kept.read_bytes() == whole


def test_keys_cover_the_simulator_the_exact_solution_and_a_rules_constants(monkeypatch):
    """What an edit must not slip past: code far from the rule, and a number that a rule reads from its module."""
    names = {function.__name__ for function in engine._reachable(jobs.AROUND)}
    assert {"pick", "next_word", "_alias_table", "units", "stationary_law", "solve_td", "seeded"} <= names
    session = Session("impression_gtd", {}, n_steps=1000)
    before = session.code
    monkeypatch.setattr(auto_step, "WATCHES", 700)
    assert session.code != before
