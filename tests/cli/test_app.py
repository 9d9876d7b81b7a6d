"""The command line, as typed."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import gradtd
from commands import refused
from gradtd.cli.app import app

MAIN = ["run", "boyan_chain", "impression_gtd", "--set", "alpha=5", "--set", "batch_size=16", "--runs", "5"]


def _run(*arguments):
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def _shell(*arguments):
    return subprocess.run([sys.executable, "-m", "gradtd", *arguments], capture_output=True, text=True, check=False)


def test_json_has_the_promised_keys_and_numbers():
    output = json.loads(_run(*MAIN, "--steps", "800", "--at", "500,800", "--metric", "rmsve", "--json").stdout)
    assert {"problem", "algorithm", "hyper", "metric", "runs", "steps", "mean", "se", "diverged"} <= set(output)
    assert output["hyper"]["alpha"] == 5
    assert output["hyper"]["batch_size"] == 16
    assert output["at"] == [500, 800]
    assert len(output["mean"]) == len(output["se"]) == 2
    assert 0 < output["mean"][1] < output["mean"][0] < 14
    assert output["diverged"] == 0


def test_a_table_for_people_and_a_picture(tmp_path):
    picture = tmp_path / "curve.png"
    output = _run(*MAIN, "--steps", "600", "--plot", str(picture)).stdout
    assert "impression_gtd(alpha=5.0, batch_size=16) on boyan_chain, 5 runs" in output
    assert "rmsve" in output
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("settings", [[], ["--set", "alpha=auto"]])
def test_impression_gtd_needs_no_settings(settings):
    arguments = ["run", "boyan_chain", "impression_gtd", *settings, "--runs", "3", "--steps", "500", "--at", "50,500"]
    output = json.loads(_run(*arguments, "--json").stdout)
    assert output["hyper"]["alpha"] == "auto"
    assert output["hyper"]["average"] == "polynomial"
    assert output["alpha"][0] is None
    assert output["alpha"][1] > 1
    assert output["mean"][1] < 1
    assert "alpha" in _run(*arguments).stdout.splitlines()[1]


def test_numbers_may_be_fractions_and_problems_have_parameters():
    arguments = ["run", "random_walk_tabular:n=19", "td", "--runs", "2", "--steps", "50", "--json"]
    short = json.loads(_run(*arguments, "--alpha", "1/16").stdout)
    assert short == json.loads(_run(*arguments, "--set", "alpha=0.0625").stdout)
    assert (short["problem"], short["hyper"]["alpha"]) == ("random_walk_tabular_19", 0.0625)
    told = [_run("theory", "random_walk_tabular:n=7", "--alpha", alpha, "--json").stdout for alpha in ("1/4", "0.25")]
    assert told[0] == told[1]
    assert json.loads(told[0])["features"] == 7


def test_the_log_that_the_help_begins_with(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = _run("sample-log", "random_walk_tabular", "--episodes", "300", "--out", "log.parquet").stdout
    truth, _ = gradtd.true_value("random_walk_tabular")
    assert f"The true value of its target policy is {truth:.5g}." in told
    assert "gradtd evaluate log.parquet --gamma 1" in told
    log, made = gradtd.read_log("log.parquet"), gradtd.sample_log("random_walk_tabular", 300)
    np.testing.assert_array_equal(log.reward, made.reward)
    np.testing.assert_array_equal(log.rho, made.rho)
    assert f"{len(made)} steps" in told


def test_a_page_of_a_run(tmp_path):
    page = tmp_path / "run.html"
    assert f"page: {page}" in _run(*MAIN, "--steps", "200", "--page", str(page)).stdout
    assert "impression_gtd on boyan_chain" in page.read_text()


def test_the_version():
    assert _run("--version").stdout == f"gradtd {gradtd.__version__}\n"


def test_help_shows_every_option_in_its_panel(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    output = _run("run", "--help").stdout
    for word in ("Method", "Amount of data", "Output", "Machine", "--alpha", "--set", "NAME=VALUE", "1/16"):
        assert word in output
    assert "gradtd[cluster]" in _run("sweep", "--help").stdout  # brackets are no markup
    commands = _run("--help").stdout
    for word in ("sample-log", "evaluate", "--install-completion", "--log-level"):
        assert word in commands


@pytest.mark.slow
def test_the_program_tells_what_it_does_where_asked(capfd):
    arguments = [*MAIN, "--steps", "200", "--threads", "1"]
    said = _shell("--log-level", "info", *arguments).stderr
    assert "gradtd.running.runs: impression_gtd on boyan_chain: settings 1, runs of each 5, steps 200" in said
    assert "kernel" not in said
    assert "gradtd.compiled.engine: kernel" in _shell("--log-level", "debug", *arguments).stderr


@pytest.mark.slow
def test_the_shell_is_told_what_can_follow():
    words = "gradtd run boyan_chain impression"
    asked = {"_GRADTD_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "3"}
    done = subprocess.run(
        [sys.executable, "-m", "gradtd"], capture_output=True, text=True, check=True, env=os.environ | asked
    )
    assert "impression_gtd" in done.stdout.split()
    assert "tdrc" not in done.stdout.split()


def test_ctrl_c_ends_with_one_line(monkeypatch):
    def interrupted(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("gradtd.running.runs.run", interrupted)
    done = _run("run", "boyan_chain", "td", "--alpha", "1")
    assert done.exit_code == 130
    assert done.stderr == "\ngradtd: stopped by Ctrl-C. Nothing was saved; run the command again.\n"
    assert done.stdout == ""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "who", "code"), [("SIGINT", "Ctrl-C", 130), ("SIGTERM", "SIGTERM", 143)])
def test_a_signal_says_what_was_kept_and_how_to_go_on(tmp_path, name, who, code):
    out = tmp_path / "results"
    words = ["reproduce", "rwtab", "--runs", "200", "--threads", "1", "--out", str(out)]
    running = subprocess.Popen(
        [sys.executable, "-m", "gradtd", *words],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a job of a script may ignore it
    )
    while running.poll() is None and not list(out.glob(".kept/*.npz")):
        time.sleep(0.05)
    running.send_signal(getattr(signal, name))
    said = running.communicate(timeout=120)[1]
    kept = len(list(out.glob(".kept/*.npz")))
    assert running.returncode == code
    jobs = f"{kept} finished job{'s' * (kept != 1)} are saved in {str(out)!r}."
    assert said.endswith(f"\ngradtd: stopped by {who}. {jobs} Run the same command to continue.\n")
    assert "Traceback" not in said
    assert not list(out.rglob("*.part"))


def test_too_little_memory_is_one_sentence(monkeypatch, capsys):
    def greedy(*arguments, **settings):
        raise MemoryError

    monkeypatch.setattr("gradtd.running.runs.run", greedy)
    said = refused(monkeypatch, capsys, "run", "boyan_chain", "td", "--alpha", "1")
    assert said.startswith("gradtd: out of memory: use less data")


def test_one_run_has_no_standard_error():
    output = json.loads(_run("run", "boyan_chain", "td", "--set", "alpha=1/16", "--runs", "1", "--json").stdout)
    assert output["hyper"]["alpha"] == 0.0625
    assert output["se"] == [None, None, None]


def test_divergence_is_counted():
    arguments = ["run", "two_state", "td", "--set", "alpha=0.5", "--runs", "3", "--steps", "1000"]
    assert json.loads(_run(*arguments, "--json").stdout)["diverged"] == 3
    assert "3 of 3 runs diverged" in _run(*arguments).stdout


def test_lambda_has_options_of_its_own():
    common = ["--runs", "2", "--steps", "100", "--json"]
    one = json.loads(_run("run", "boyan_chain", "lstd", "--lam", "4/5", "--trace", "tree", *common).stdout)
    assert (one["hyper"]["lam"], one["hyper"]["trace"]) == (0.8, "tree")
    other = _run("run", "boyan_chain", "lstd", "--set", "lam=4/5", "--set", "trace=tree", *common)
    assert json.loads(other.stdout)["mean"] == one["mean"]


def test_list_shows_everything_there_is():
    output = _run("list").stdout
    for word in ("boyan_chain", "impression_gtd", "tdc_transposed", "rmspbe"):
        assert word in output
    assert "(required)" in _run("list", "tdrc").stdout
    assert "does not support eligibility traces (lam): the gradient of" in _run("list", "residual_gradient").stdout
    assert "gradtd run boyan_chain lstd --set lam=4/5" in _run("list", "lstd").stdout
    assert "branching" in _run("list", "garnet").stdout
    walk = _run("list", "random_walk_tabular").stdout
    assert "Number of states, odd." in walk
    assert "gradtd run random_walk_tabular:n=5 impression_gtd" in walk
    assert "weights" in _run("list", "rmsve").stdout


def test_demo_draws_a_picture(tmp_path):
    output = _run("demo", "--runs", "3", "--steps", "500", "--plot", str(tmp_path / "demo.svg"))
    assert "Impression GTD" in output.stdout
    assert "LSTD" in (tmp_path / "demo.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "boyan_chian", "td"], "unknown problem 'boyan_chian': did you mean 'boyan_chain'?"),
        (["run", "boyan_chain", "tdd"], "unknown algorithm 'tdd': did you mean 'td'?"),
        (["run", "boyan_chain", "td"], "td needs alpha"),
        (["run", "boyan_chain", "td", "--set", "alpha"], "--set takes name=value, got 'alpha'"),
        (
            ["run", "random_walk_tabular", "td", "--set", "alpha=auto"],
            "alpha='auto' of td needs a stream whose ratios are all one",
        ),
        (["run", "boyan_chain", "impression_gtd", "--set", "alpha=fast"], "a number above 0 or 'auto', got 'fast'"),
        (["run", "boyan_chain", "td", "--set", "alpha=-1"], "alpha must be greater than 0, got -1"),
        (["run", "boyan_chain", "td", "--set", "alpha=1", "--at", "1,x"], "--at takes step numbers"),
        (["run", "boyan_chain", "td", "--set", "alpha=1", "--at", "99999"], "--at must be between 0 and 10000"),
        (["run", "boyan_chain", "td", "--set", "alpha=1", "--steps", "0"], "--steps must be at least 1, got 0"),
        (["run", "boyan_chain", "td", "--set", "alpha=1", "--metric", "rmse"], "did you mean 'rmsve'?"),
        (["run", "boyan_chain", "td", "--set", "alpha=1", "--plot", "x.gif"], ".png, .svg or .pdf, got 'x.gif'"),
        (["run", "boyan_chain", "td", "--set", "alpha=1", "--plot", "no/x.png"], "there is no folder"),
        (["run", "boyan_chain", "td", "--set", "alpha=1", "--runs", "many"], "--runs"),
        (["run", "boyan_chain", "td", "--alpha", "fast"], "'fast' is not a number"),
        (["run", "boyan_chain", "td", "--alpha", "1", "--set", "alpha=2"], "--set alpha is given together"),
        (["run", "boyan_chain", "lstd", "--alpha", "1"], "unknown hyper-parameter of lstd 'alpha'"),
        (["run", "boyan_chain", "lstd", "--lam", "1.5"], "lam must be a number in [0, 1], got 1.5"),
        (["run", "boyan_chain", "lstd", "--lam", ".5", "--set", "lam=.4"], "--set lam is given together with --lam"),
        (["run", "boyan_chain", "lstd", "--lam", ".5", "--trace", "all"], "trace must be one of rho, clipped, tree"),
        (["run", "boyan_chain", "residual_gradient", "--alpha", "1", "--set", "lam=.5"], "takes --lam 0 only"),
        (["run", "boyan_chain", "td", "--alpha", "1", "--page", "x.htm"], "--page takes a file that ends in .html"),
        (["run", "boyan_chain:m=9", "td", "--alpha", "1"], "unknown parameter of boyan_chain 'm': Known: n."),
        (["run", "boyan_chain:n", "td", "--alpha", "1"], "problem 'boyan_chain:n' must read name:parameter=value"),
        (["theory", "boyan_chain:n=8"], "n must be 4 k + 1"),
        (["sample-log", "boyan_chain", "--out", "x.txt"], "--out takes a file that ends in .parquet or .csv"),
        (["list", "tdrcc"], "did you mean 'tdrc'?"),
        (["run", "boyan_chain", "td", "--set", "runs=3"], "unknown hyper-parameter of td 'runs'"),
        (["run", "boyan_chain", "td", "--set", "alpha=1", "--set", "alpha=2"], "--set alpha is given twice"),
        (["run", "boyan_chain", "TDRCC", "--set", "alpha=1"], "did you mean 'tdrc'?"),
        (["run", "boyan_chain", "td", "--set", "alpha=.1", "--runs", "2", "--plot", "/proc/x.png"], "gradtd: "),
    ],
)
def test_bad_input_gets_one_sentence_and_no_traceback(arguments, message, monkeypatch, capsys):
    assert message in refused(monkeypatch, capsys, *arguments)


def test_bad_input_ends_a_process_with_one_sentence():
    done = _shell("run", "boyan_chian", "td")
    assert done.returncode == 2
    assert done.stderr.startswith("gradtd: unknown problem 'boyan_chian': did you mean 'boyan_chain'?")
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_no_progress_bar_where_nobody_watches():
    done = subprocess.run(
        [sys.executable, "-m", "gradtd", *MAIN, "--steps", "500"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"COLUMNS": "100"},
    )
    assert done.stderr == ""
