"""The tutorial's examples on logs that it does not show, and its command line as typed."""

import importlib.util
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gradtd
from gradtd.cli.app import app

pytestmark = pytest.mark.slow

pytest.importorskip("gymnasium")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("gymnasium_examples", ROOT / "benchmarks/gymnasium_examples.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("name", "seed", "rollouts"), [("lake", 4, 3000), ("cart", 3, 1000)])
def test_the_interval_contains_the_truth(script, name, seed, rollouts):
    """Two 95 % intervals on the same log: with another seed a right method fails about 1 time in 15.

    The error is compared with that of per-decision importance sampling, which is nearer by luck on 1 log of 40 of the
    lake and on 9 of 40 of the cart: the seed is fixed, and the script takes many logs. The lake's log of seed 3 has the
    truth inside and is refused: fits with memory and with the time are 2.6 times as wide together, 2.5 is allowed.
    """
    example = script.EXAMPLES[name]
    found = gradtd.evaluate(
        example.log(seed),
        gamma=example.gamma,
        features=example.features,
        inference=gradtd.Inference(resamples=0),
        machine=gradtd.Machine(threads=1),
    )
    again = gradtd.evaluate(example.log(seed), gamma=example.gamma, features=example.features, algorithm="pdis")
    truth, error = example.truth(rollouts)
    ours, lstd = found.estimates[0], next(row for row in found.estimates if row.method == "lstd")
    assert (ours.method, found.verdict) == ("auto", "usable")
    assert script.covers(ours, truth, error)
    assert script.covers(lstd, truth, error)
    assert max(abs(ours.value - truth), abs(lstd.value - truth)) < abs(again.value - truth)


def test_intervals_that_miss_are_seen(script):
    """The check of the test above can fail: features that cannot represent CartPole's values."""
    example = script.EXAMPLES["cart"]
    found = gradtd.evaluate(example.log(3), gamma=example.gamma, features="identity", algorithm="lstd")
    assert not script.covers(found.estimates[0], *example.truth(300))
    assert found.verdict == "not usable"
    assert "These features cannot represent the value" in found.reasons[0]


def test_poor_features_are_seen_without_refits_too(script):
    """The checks need no refits: on a small log without them the features above are not usable either."""
    log = script.EXAMPLES["cart"]._replace(episodes=100).log(3)
    found = gradtd.evaluate(
        log, gamma=0.95, algorithm="lstd", features="identity", inference=gradtd.Inference(resamples=0)
    )
    assert found.verdict == "not usable"


def test_the_command_of_the_tutorial_runs(script, tmp_path, monkeypatch):
    text = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    command = next(line for line in text.splitlines() if line.startswith("gradtd evaluate"))
    monkeypatch.chdir(tmp_path)
    log = script.EXAMPLES["cart"].log(1)
    gradtd.write_log(log, "cart.parquet")
    told = CliRunner().invoke(app, [*shlex.split(command)[1:], "--resamples", "0"], catch_exceptions=False)
    here = gradtd.evaluate(log, gamma=0.95, features="rbf:n=50,width=1", inference=gradtd.Inference(resamples=0))
    assert told.stdout.startswith(f"value {here.value:.5g}, 95% interval {here.interval[0]:.5g} to ")
    assert "page: cart.html" in told.stdout
    assert "Impression GTD" in Path("cart.html").read_text(encoding="utf-8")
