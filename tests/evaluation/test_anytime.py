"""Intervals that hold at every look."""

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

import gradtd
from gradtd.cli.app import app
from gradtd.core.quantiles import NARROWEST, boundary


def _of_the_paper(t, s, rho, alpha):
    """Theorem 2.2 of arXiv 2103.06476 as printed."""
    grown = t * s**2 * rho**2 + 1
    return math.sqrt(2 * grown / (t**2 * rho**2) * math.log(math.sqrt(grown) / alpha))


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_the_boundary_is_that_of_the_paper_and_narrowest_where_it_says(level):
    best = np.linspace(0.03, 0.3, 100_001)
    widths = [_of_the_paper(NARROWEST, 2.0, r / 2.0, 1 - level) for r in best]
    rho = best[int(np.argmin(widths))] / 2.0
    for t in (20, 500, 40_000):
        expected = _of_the_paper(t, 2.0, rho, 1 - level) / (2.0 / math.sqrt(t))
        assert boundary(t, level) == pytest.approx(expected, rel=1e-4)


def test_a_random_walk_stays_inside_the_boundary():
    """400 walks of 2000 steps, looked at from step 20 on: the boundary is crossed by 5 % at most, 1.96 by far more."""
    rng = np.random.default_rng(0)
    steps = np.cumsum(rng.standard_normal((400, 2000)), axis=1)[:, 19:] / np.sqrt(np.arange(20, 2001))
    edge = np.array([boundary(t, 0.95) for t in range(20, 2001)])
    assert (np.abs(steps) > edge).any(axis=1).mean() <= 0.05
    assert (np.abs(steps) > 1.96).any(axis=1).mean() > 0.3


def test_it_contains_the_interval_for_one_look_and_survives_saving(tmp_path):
    log = gradtd.sample_log("random_walk_tabular", 300)
    made = gradtd.evaluate(
        log, gamma=1, progress=False, inference=gradtd.Inference(anytime=True), machine=gradtd.Machine(threads=1)
    )
    assert made.anytime.low < made.interval[0] < made.interval[1] < made.anytime.high
    assert made.to_dict()["anytime"]["low"] == made.anytime.low
    assert gradtd.load_evaluation(made.save(tmp_path / "e.npz")).anytime == made.anytime
    plain = gradtd.evaluate(log, gamma=1, progress=False, machine=gradtd.Machine(threads=1))
    assert plain.anytime is None
    assert "anytime" not in plain.to_dict()
    assert plain.interval == made.interval


def test_in_parts_episodes_count_and_not_groups(tmp_path, monkeypatch):
    from gradtd.evaluation import part_sums

    monkeypatch.setattr(part_sums, "MOST_GROUPS", 60)
    path = gradtd.write_log(gradtd.sample_log("random_walk_tabular", 300), tmp_path / "log.parquet")
    both = [
        gradtd.evaluate(
            str(path),
            gamma=1,
            progress=False,
            inference=gradtd.Inference(anytime=True),
            machine=gradtd.Machine(in_parts=way, threads=1),
        )
        for way in (True, False)
    ]
    assert both[0].anytime.times == both[1].anytime.times == pytest.approx(boundary(300, 0.95) / 1.959964, rel=1e-6)


def test_importance_sampling_is_refused():
    log = gradtd.sample_log("random_walk_tabular", 30)
    with pytest.raises(gradtd.InputError, match="anytime needs the influences"):
        gradtd.evaluate(log, gamma=1, algorithm="wis", inference=gradtd.Inference(anytime=True))


def test_the_command_line_says_it(tmp_path):
    path = gradtd.write_log(gradtd.sample_log("random_walk_tabular", 100), tmp_path / "log.parquet")
    given = ["evaluate", str(path), "--gamma", "1", "--anytime", "--threads", "1"]
    page = tmp_path / "page.html"
    outcome = CliRunner().invoke(app, [*given, "--page", str(page)])
    assert "At every look: 95% confidence sequence" in outcome.output
    assert "At every look" in page.read_text()
    told = json.loads(CliRunner().invoke(app, [*given, "--json"]).output)
    assert told["anytime"]["times"] > 1
