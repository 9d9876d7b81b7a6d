"""Paired differences of targets on one log: their errors, their verdicts, the ranking."""

from dataclasses import replace

import numpy as np
import pytest

import gradtd
from gradtd.core.checks import InputError
from gradtd.evaluation.report.comparison import Evaluations
from naive.evaluation import walk, walk_truth

LEFT, RIGHT = np.array([0.6, 0.4]), np.array([0.3, 0.7])


def policy(chances):
    return lambda states: np.tile(chances, (len(states), 1))


@pytest.fixture(scope="module")
def found():
    targets = {"left": policy(LEFT), "right": policy(RIGHT), "old": "behaviour"}
    return gradtd.evaluate(walk(300, seed=3), gamma=0.9, target=targets)


def test_the_error_of_a_difference_is_that_of_the_differences_of_influences(found):
    for row in found.compare().differences:
        a, b = found[row.first], found[row.second]
        E = len(a.influences)
        assert a.episodes == E
        apart = [x - y for x, y in zip(a.influences, b.influences, strict=True)]
        wanted = np.sqrt(sum(x * x for x in apart) / (E * (E - 1)))
        assert row.error == pytest.approx(wanted, rel=1e-12)
        assert row.value == a.value - b.value
        assert row.low < row.value < row.high


def test_values_that_err_together_have_a_narrow_difference(found):
    """Both targets are worth more on the same lucky episodes, so most of the error is shared."""
    right = found.compare("old").differences[1]
    assert (right.first, right.second) == ("right", "old")
    assert right.error < 0.8 * right.unpaired_error
    truth = walk_truth(RIGHT) - walk_truth(np.array([0.5, 0.5]))
    assert right.low < truth < right.high


def test_influences_alone_give_the_error_of_the_value(found):
    for one in found.values():
        E = len(one.influences)
        assert np.sqrt((one.influences**2).sum() / (E * (E - 1))) == pytest.approx(
            one.diagnostics.sandwich_error, rel=1e-3
        )


def test_a_difference_is_usable_only_if_both_values_are():
    targets = {"near": policy(RIGHT), "far": policy([0.3, 0.3, 0.4]), "old": "behaviour"}
    few = gradtd.evaluate(walk(60, seed=3), gamma=0.9, target=targets)
    assert few["far"].verdict != "usable"
    for row in few.compare().differences:
        words = {few[row.first].verdict, few[row.second].verdict}
        assert (row.verdict == "usable") == (words == {"usable"})
        assert ("far is" in row.reason) == ("far" in (row.first, row.second))


def test_the_ranking_has_the_largest_value_first_and_probabilities_that_sum_to_one(found):
    ranking = found.compare().ranking
    assert [place.name for place in ranking] == ["right", "old", "left"]
    assert sum(place.best for place in ranking) == pytest.approx(1)
    assert ranking[0].best > 0.99


def test_equal_targets_are_equally_probable_and_their_difference_has_no_width():
    twins = {"a": policy(RIGHT), "b": policy(RIGHT + np.array([1e-7, -1e-7]))}
    rows = gradtd.evaluate(walk(100, seed=3), gamma=0.9, target=twins).compare()
    assert abs(rows.differences[0].value) < 1e-5
    assert rows.differences[0].error < 1e-5


def test_importance_sampling_is_compared_on_its_resamples():
    targets = {"left": policy(LEFT), "old": "behaviour"}
    drawn = gradtd.evaluate(
        walk(300, seed=3), gamma=0.9, target=targets, algorithm="pdis", inference=gradtd.Inference(resamples=200)
    )
    (row,) = drawn.compare().differences
    assert len(drawn["left"].influences) == 0
    apart = drawn["left"].resampled - drawn["old"].resampled
    assert row.error == pytest.approx(apart.std(ddof=1))
    assert sum(place.best for place in drawn.compare().ranking) == pytest.approx(1)
    without = gradtd.evaluate(
        walk(300, seed=3), gamma=0.9, target=targets, algorithm="pdis", inference=gradtd.Inference(resamples=0)
    )
    (row,) = without.compare().differences
    assert (row.low, row.verdict) == (None, "not usable")


def test_blocks_that_depend_on_each_other_widen_the_difference():
    rng = np.random.default_rng(5)
    n = 4000
    level = np.sin(np.arange(n) / 60)
    log = {"episode": np.zeros(n, int), "obs": (level > 0) * 1, "action": rng.integers(0, 2, n)}
    log |= {"reward": level + rng.normal(size=n), "terminated": np.zeros(n, bool), "action_prob": np.full(n, 0.5)}
    targets = {"a": policy([0.4, 0.6]), "b": policy([0.6, 0.4])}
    found = gradtd.evaluate(log, gamma=0.5, target=targets, inference=gradtd.Inference(block_length=10))
    assert found["a"].diagnostics.dependence > 1
    (row,) = found.compare().differences
    apart = found["a"].influences - found["b"].influences
    assert row.error >= np.sqrt((apart**2).sum() / (len(apart) * (len(apart) - 1)))


def test_what_it_is_handed_on_as(found, tmp_path):
    compared = found.compare()
    told = compared.to_dict()
    assert [row["first"] for row in told["differences"]] == ["left", "left", "right"]
    assert told["level"] == 0.95
    assert compared.plot(tmp_path / "it.svg").get_xlabel().startswith("difference")
    assert (tmp_path / "it.svg").stat().st_size > 1000
    assert len(compared.to_frame()) == 3
    two = Evaluations({name: found[name] for name in ("left", "right")})
    page = two.page(tmp_path / "it.html").read_text()
    assert "Paired differences" in page
    assert "left - right" in page
    kept = gradtd.load_evaluation(found["left"].save(tmp_path / "left.npz"))
    assert np.array_equal(kept.influences, found["left"].influences)


def test_refusals(found):
    with pytest.raises(InputError, match="at least two targets, got 1"):
        Evaluations({"left": found["left"]}).compare()
    with pytest.raises(InputError, match="did you mean 'left'"):
        found.compare("lft")
    with pytest.raises(InputError, match="by name: 'A' is 1"):
        Evaluations({"A": 1})
    for setting in ("gamma", "level"):
        other = replace(found["right"], **{setting: 0.5})
        with pytest.raises(InputError, match=f"evaluations with the same {setting}, got .*'right': 0.5"):
            Evaluations({"left": found["left"], "right": other}).compare()
