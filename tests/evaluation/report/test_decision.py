"""Decisions among targets: who is excluded, who is tied with the best, and how often that is wrong."""

from statistics import NormalDist

import numpy as np
import pytest

import gradtd
from gradtd.evaluation.report.decision import decide_among, simultaneous_level
from naive.evaluation import walk


def decide(psi, values, level=0.95, verdicts=None):
    """Decisions for means of rows, whose influences are the deviations from them."""
    names = [f"p{k}" for k in range(len(values))]
    rows = dict(zip(names, psi, strict=True))
    value = dict(zip(names, values, strict=True))

    def interval(first, second, single):
        apart = rows[first] - rows[second]
        half = NormalDist().inv_cdf(0.5 + single / 2) * np.sqrt((apart**2).sum()) / len(apart)
        return value[first] - value[second] - half, value[first] - value[second] + half

    return decide_among(verdicts or dict.fromkeys(names, "usable"), rows, interval, level)


def drawn(rng, mean, E=200):
    """Episodes of targets whose values share half of their noise."""
    x = np.asarray(mean)[:, None] + rng.standard_normal(E) + rng.standard_normal((len(mean), E))
    values = x.mean(axis=1)
    return x - values[:, None], values


def test_equal_targets_are_told_apart_at_the_stated_rate():
    """Of 1000 logs with ten equal targets 5 % may exclude one: 33 to 69 are within 2.5 deviations of 50."""
    rng = np.random.default_rng(0)
    wrong = sum(any(one.decision == "excluded" for one in decide(*drawn(rng, np.zeros(10)))) for _ in range(1000))
    assert 33 <= wrong <= 69


def test_single_intervals_would_be_wrong_far_more_often():
    rng = np.random.default_rng(0)
    psi, _ = drawn(rng, np.zeros(10))
    pairs = np.array([psi[a] - psi[b] for a in range(10) for b in range(a)])
    assert simultaneous_level(pairs, 0.95) > 0.995


def test_the_best_is_kept_and_worse_ones_are_excluded_by_the_widest_margin():
    psi, values = drawn(np.random.default_rng(1), [0.0, 0.05, 2.0, 4.0])
    found = decide(psi, values)
    assert [one.decision for one in found] == ["excluded", "excluded", "excluded", "best"]
    assert {one.by for one in found[:3]} == {"p3"}
    assert found[0].low < 4 < found[0].high


def test_close_ones_are_tied_and_unusable_ones_are_not_judged():
    psi, values = drawn(np.random.default_rng(1), [0.0, 2.0, 2.01, 9.0])
    verdicts = {"p0": "usable", "p1": "usable", "p2": "usable", "p3": "unchecked"}
    found = decide(psi, values, verdicts=verdicts)
    assert [one.decision for one in found] == ["excluded", "tied with the best", "tied with the best", "not judged"]


def test_without_influences_the_level_is_bonferronis():
    asked = []
    empty = {name: np.zeros(0) for name in "abc"}
    decide_among(dict.fromkeys("abc", "usable"), empty, lambda *given: asked.append(given[2]) or (-1.0, 1.0), 0.94)
    assert asked == pytest.approx([0.98, 0.98, 0.98])


def test_a_comparison_ends_with_decisions():
    targets = {
        "left": lambda states: np.tile([0.6, 0.4], (len(states), 1)),
        "right": lambda states: np.tile([0.3, 0.7], (len(states), 1)),
        "old": "behaviour",
    }
    found = gradtd.evaluate(walk(300, seed=3), gamma=0.9, target=targets).compare()
    told = {one.name: one.decision for one in found.decisions}
    assert told == {"right": "best", "old": "excluded", "left": "excluded"}
    assert [row["decision"] for row in found.to_dict()["decisions"]] == ["best", "excluded", "excluded"]
