"""Command lines: known words with strange values; each ends with a known code and without a traceback."""

import contextlib
import io

import numpy as np
from typer.testing import CliRunner

import gradtd

COMMANDS = ("evaluate", "run", "list", "theory", "sample-log", "sweep", "reproduce", "demo", "compare", "nothing")
WORDS = (
    *("boyan_chain", "random_walk_tabular:n=5", "garnet:states=3", "td", "impression_gtd", "lstd", "log.parquet"),
    *("--alpha", "--runs", "--steps", "--seed", "--gamma", "--set", "--at", "--metric", "--features", "--json"),
    *("--batch-size", "--out", "--plot", "--episodes", "--target", "--behaviour", "--resamples", "--threads"),
    *(
        "0",
        "1",
        "2",
        "-1",
        "1/0",
        "1/16",
        "nan",
        "inf",
        "1e400",
        "9" * 400,
        "",
        "=",
        "alpha=",
        "alpha=1",
        "lam=2",
        "\udcff",
    ),
    *(
        "x.png",
        "x.html",
        "/nowhere/x.png",
        "tiles:tilings=0",
        "one-hot",
        "--help",
        "--version",
        "--verbose",
        "\x00",
        "a b",
    ),
)
SMALL = {"run": ["--runs", "1", "--steps", "20"], "demo": ["--runs", "1", "--steps", "20"]}


def prepare(folder):
    gradtd.write_log(gradtd.sample_log("random_walk_tabular", 30), folder / "log.parquet")


def attempt(seed, number, folder):
    from gradtd.cli.app import app

    rng = np.random.default_rng([seed, number])
    command = COMMANDS[int(rng.integers(len(COMMANDS)))]
    words = [WORDS[int(k)] for k in rng.integers(len(WORDS), size=int(rng.integers(0, 7)))]
    if command in ("reproduce", "demo"):
        words = [*words, "nothing"]  # refused: these run for minutes
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        done = CliRunner().invoke(app, [command, *words, *SMALL.get(command, [])])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code in (0, 1, 2), f"{command} {words}: exit code {done.exit_code}"
