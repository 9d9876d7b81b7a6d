"""Which rows are marked as weak, and why; and that everyone who reads the table sees it."""

import json
from dataclasses import replace

import numpy as np
import pytest

from gradtd import evaluate, load_evaluation
from gradtd.evaluation.estimators.bootstrap import draw_resamples
from gradtd.evaluation.estimators.importance_sampling import (
    DR,
    IS,
    MONTE_CARLO,
    PDIS,
    WHOLE,
    _influences,
    carrying,
    importance_estimates,
    mark_rows,
)
from gradtd.evaluation.report.estimate import Estimate
from gradtd.output.evaluation_page import WEAK, estimates_figure, write_page
from naive.evaluation import random_stream, walk


def rows(log, **how):
    made = evaluate(log, **{"gamma": 0.9, "algorithm": "lstd", "resamples": 10, "threads": 1} | how)
    return made, {row.method: row for row in made.estimates}


def heavy(episodes=100):
    """Products of ratios worth a few episodes."""
    return walk(episodes, n=9, behaviour=np.array([0.7, 0.3]), target=np.array([0.3, 0.7]))


def rare(episodes=200, successes=5):
    """Short episodes of the behaviour's own, of which few end well."""
    log = {"episode": np.repeat(np.arange(episodes), 2), "obs": np.tile([0, 1], episodes), "rho": np.ones(2 * episodes)}
    reward = np.zeros(2 * episodes)
    reward[1 : 2 * successes : 2] = 1.0
    return log | {"reward": reward, "terminated": np.tile([0, 1], episodes)}


def test_contributions_average_to_the_estimators():
    stream = random_stream(3, episodes=9)
    theta, begins = np.random.default_rng(3).normal(size=3), stream.begins
    found = importance_estimates(stream, theta, begins, draw_resamples(9, 0, 0))
    assert found.contributions.mean(axis=0)[:4] == pytest.approx(found.values[[MONTE_CARLO, IS, PDIS, DR]])


@pytest.mark.parametrize(
    ("psi", "worth"),
    [(np.r_[np.ones(50), -np.ones(50)], 100), (np.r_[np.ones(5), np.zeros(995)], 5), (np.ones(30), 30)],
)
def test_carrying(psi, worth):
    assert carrying(psi) == pytest.approx(worth, rel=0.02)
    assert carrying(1e200 * psi) == pytest.approx(carrying(psi))
    assert carrying(np.r_[psi, np.inf]) == 1.0


def test_weighted_estimators_count_episodes_by_what_is_left_beside_their_value():
    """Where every return is the value, no episode moves wis, however uneven the products of ratios are."""
    products = np.r_[np.full(40, 0.9), 5.0]
    contributions = np.zeros((41, 6))
    contributions[:, WHOLE] = 2.0 * products
    row = Estimate("wis", 2.0, 1.9, 2.1, 0.1)
    assert _influences("wis", row, contributions, products) == pytest.approx(np.zeros(41))


def test_on_a_good_log_nothing_is_weak():
    _, found = rows(walk(100))
    assert {row.mark for row in found.values()} == {"ok"}
    assert {row.reason for row in found.values()} == {""}


@pytest.mark.parametrize(
    ("log", "weak", "reason"),
    [
        (heavy, ["is", "wis", "pdis", "wpdis", "dr", "wdr", "drl"], "products of ratios leave"),
        (lambda: walk(100, cut=2), ["is", "wis", "pdis", "wpdis"], "its sums end at truncations"),
        (rare, ["monte_carlo", "dr", "drl"], "of 200 episodes"),
        (
            lambda: walk(400) | {"action_prob": np.full(len(walk(400)["t"]), 0.45)},
            ["is", "wis", "pdis", "wpdis", "dr", "wdr"],
            "the mean product of ratios is",
        ),
    ],
)
def test_weak_rows(log, weak, reason):
    _, found = rows(log())
    assert [name for name, row in found.items() if row.mark == "weak"] == weak
    for name in weak[:6]:
        assert reason in found[name].reason


def test_a_cross_fit_that_is_far_less_certain_than_least_squares_is_weak():
    stream = random_stream(3, episodes=9)
    row = Estimate("drl", 1.0, 0.0, 2.0, 0.5)
    for sandwich, mark in ((0.2, "weak"), (0.4, "ok"), (0.0, "ok")):
        made = mark_rows({"drl": row}, stream, np.zeros((9, 6)), stream.begins, sandwich)["drl"]
        assert made.mark == mark
    assert mark_rows({"drl": row}, stream, np.zeros((9, 6)), stream.begins, 0.2)["drl"].remark == (
        "weak: its error is 2.5 times that of least squares: the folds are too small for the features"
    )


def test_a_weak_headline_is_not_usable():
    made, _ = rows(rare(successes=6), algorithm="dr")
    assert any("The interval of dr cannot be trusted: its error depends on" in reason for reason in made.reasons)


def test_marks_are_in_the_json_the_file_the_frame_and_the_page(tmp_path):
    made, found = rows(heavy())
    told = {row["method"]: row for row in json.loads(json.dumps(made.to_dict()))["estimates"]}
    assert told["wis"]["mark"] == "weak"
    assert told["wis"]["reason"] == found["wis"].reason
    again = load_evaluation(made.save(tmp_path / "it.npz"))
    assert again.estimates == made.estimates
    page = write_page({"target": made}, tmp_path / "it.html").read_text()
    assert page.count('<tr class="weak">') == 7
    assert f"weak: {found['dr'].reason}" in page
    assert f"weak: {found['dr'].reason}" in made._repr_html_()
    assert made.to_frame().loc["wis", "mark"] == "weak"


def test_weak_rows_are_grey_and_hollow_and_what_is_off_the_scale_is_an_arrow():
    made, found = rows(heavy())
    lines = estimates_figure(made).axes[0].get_lines()
    points = [line for line in lines if line.get_marker() == "o"]
    hollow = [line for line in points if line.get_markerfacecolor() == "white"]
    assert len(hollow) == 7
    assert {line.get_color() for line in hollow} == {WEAK}
    for away, arrow in ((1e4, ">"), (-1e4, "<")):
        far = replace(found["dr"], value=away, low=away - 1, high=away + 1)
        axes = estimates_figure(replace(made, estimates=(made.estimates[0], far))).axes[0]
        assert [line.get_marker() for line in axes.get_lines()][-1] == arrow
        assert axes.texts[0].get_text() == f"{away:.3g}"
        assert np.abs(axes.get_xlim()).max() < 1000
