"""Every rule of the library and every estimator through `evaluate`."""

import json

import numpy as np
import pytest

from gradtd import ALGORITHMS, Inference, InputError, Machine, evaluate
from gradtd.algorithms import as_algorithm
from gradtd.core.algorithm import REQUIRED
from gradtd.evaluation.estimators.methods import histogram
from gradtd.evaluation.report.estimate import ESTIMATORS
from gradtd.running.settings import parameters
from naive.evaluation import importance, walk, walk_truth

LOG = walk(40, 11, cut=5)
OTHER_SOLUTIONS = ("vtrace", "etd", "residual_gradient", "newton_td", "direct_gtd", "nasa", "minibatch_tdc")
"""Rules that converge elsewhere on purpose, or whose default settings do not suit so short a log."""
QUICK = ("impression_gtd", "td", "lstd")
"""Rules that are always tried; compiling all of them takes minutes."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in QUICK)) for n in sorted(ALGORITHMS)]
)
def test_every_algorithm_gives_a_result_or_a_sentence(name):
    """A usable one is near least squares; what is not near is not called usable."""
    needed = parameters(as_algorithm(name))
    alpha = {"alpha": 0.03} if needed.get("alpha") and needed["alpha"].default is REQUIRED else {}
    result = evaluate(
        LOG, gamma=0.9, algorithm=name, inference=Inference(resamples=6), machine=Machine(threads=1), **alpha
    )
    assert result.method == name
    assert [row.method for row in result.estimates][:2] == ([name, "lstd"] if name != "lstd" else ["lstd", "is"])
    assert len(result.resampled) == 6
    assert result.theta.shape == (5,)
    json.dumps(result.to_dict(), allow_nan=False)
    row = next(row for row in result.estimates if row.method == "lstd")
    if result.verdict == "usable":
        assert abs(result.value - row.value) <= result.numbers["sandwich_error"]
        assert result.interval[0] < result.value < result.interval[1]
    else:
        assert result.reasons
    if name not in OTHER_SOLUTIONS and not name.startswith(("svrg", "saga", "shrunken", "tdc_transposed")):
        assert abs(result.value - row.value) < 2 * result.numbers["sandwich_error"]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_off_policy(name):
    result = evaluate(LOG, gamma=0.9, algorithm=name, inference=Inference(resamples=6), machine=Machine(threads=1))
    if name == "monte_carlo":
        assert np.isnan(result.value)
        assert result.verdict == "not usable"
        assert "monte_carlo returned no value: the log comes from another policy" in result.reasons[0]
        assert result.estimates[0].value is None
        return
    assert "monte_carlo" not in [row.method for row in result.estimates]
    row = result.estimates[0]
    assert (row.method, row.value, (row.low, row.high)) == (name, result.value, result.interval)
    assert row.low < row.value < row.high
    assert result.verdict == ("unchecked" if name in ("dr", "wdr") else "not usable")  # the log was cut


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_on_the_log_of_the_target(name):
    """Where all ratios are 1 they are Monte Carlo, and dr and wdr are one; none of them is missing."""
    result = evaluate(
        LOG, gamma=0.9, target="behaviour", algorithm=name, inference=Inference(resamples=6), machine=Machine(threads=1)
    )
    returns = {}
    for e, t, reward in zip(LOG["episode"], LOG["t"], LOG["reward"], strict=True):
        returns[e] = returns.get(e, 0.0) + 0.9**t * reward
    if name not in ("dr", "wdr"):
        assert result.value == pytest.approx(np.mean(list(returns.values())))
    else:
        robust = next(row for row in result.estimates if row.method == "dr")
        assert result.value == pytest.approx(robust.value)
    assert result.verdict == ("usable" if name in ("dr", "wdr") else "not usable")  # the log was cut
    assert result.interval[0] < result.value < result.interval[1]
    assert [row.method for row in result.estimates].count(name) == 1


def test_the_estimators_are_those_of_the_equations():
    """Through everything: reading, features, least squares as V, ratios."""
    from gradtd.core.stream import Stream
    from naive.evaluation import solved

    result = evaluate(
        LOG, gamma=0.9, algorithm="wdr", inference=Inference(resamples=2, whiten=False), machine=Machine(threads=1)
    )
    stream = Stream.from_arrays(
        features=np.eye(5), row=LOG["obs"], next_row=LOG["next_obs"], reward=LOG["reward"],
        discount=np.where(LOG["terminated"], 0.0, 0.9), rho=LOG["target"] / LOG["action_prob"], episode=LOG["episode"],
    )  # fmt: skip
    found = solved(stream)
    wanted = importance(stream, found.theta) | {"lstd": found.value}
    assert "drl" in [row.method for row in result.estimates]  # its twin is in test_double_rl.py
    for row in (row for row in result.estimates if row.method != "drl"):
        assert row.value == pytest.approx(wanted[row.method]), row.method


def test_without_resamples():
    """A rule takes the sandwich of least squares; an estimator has no interval, and says so."""
    for resamples in (0, 1):
        for name in ("lstd", "impression_gtd"):
            result = evaluate(
                LOG, gamma=0.9, algorithm=name, inference=Inference(resamples=resamples), machine=Machine(threads=1)
            )
            half = np.diff(result.interval)[0] / 2
            assert half == pytest.approx(2.0227 * result.numbers["sandwich_error"], rel=1e-4)  # t, 39 of freedom
            assert "sandwich" in result.estimates[0].note
            assert result.verdict == "unchecked"  # the word is about the interval shown, which no check widened
        result = evaluate(
            LOG, gamma=0.9, algorithm="dr", inference=Inference(resamples=resamples), machine=Machine(threads=1)
        )
        assert np.isnan(result.interval).all()
        assert "dr returned no interval: " in result.reasons[0]
        json.dumps(result.to_dict(), allow_nan=False)


def test_two_kinds_of_interval_and_levels():
    wide, narrow = (
        evaluate(
            LOG, gamma=0.9, algorithm="lstd", level=level, inference=Inference(resamples=40), machine=Machine(threads=1)
        )
        for level in (0.99, 0.8)
    )
    assert wide.interval[0] < narrow.interval[0] < narrow.interval[1] < wide.interval[1]
    kept = evaluate(
        LOG,
        gamma=0.9,
        algorithm="lstd",
        level=0.8,
        machine=Machine(threads=1),
        inference=Inference(interval_method="percentile"),
    )
    assert kept.interval == pytest.approx(tuple(np.quantile(kept.resampled, [0.1, 0.9])))
    assert len(kept.resampled) == 200
    same = evaluate(LOG, gamma=0.9, algorithm="lstd", inference=Inference(resamples=200), machine=Machine(threads=1))
    assert kept.resampled.tobytes() == same.resampled.tobytes()


def test_blocks_of_one_long_episode():
    """With block=T0 pieces are resampled, and the value is that of the states at which they begin."""
    one = {**LOG, "episode": np.zeros(len(LOG["t"]), int), "t": np.arange(len(LOG["t"]))}
    one["terminated"] = np.zeros(len(LOG["t"]), bool)
    one["truncated"] = np.r_[one["terminated"][1:], True]
    with pytest.raises(InputError, match=r"has a single episode .* give block_length=T0"):
        evaluate(one, gamma=0.9, algorithm="lstd", machine=Machine(threads=1))
    result = evaluate(
        one, gamma=0.9, algorithm="lstd", inference=Inference(block_length=4, resamples=10), machine=Machine(threads=1)
    )
    n = len(LOG["t"])
    assert result.episodes == -(-n // 4)
    assert result.value == pytest.approx(result(one["obs"][::4]).mean())
    assert any("Every 4 steps of an episode count as one" in note for note in result.notes)


def test_the_walk_has_the_value_of_its_problem():
    """The truth that these tests use against that of the library: the walk with .4 to the left and gamma 1."""
    import gradtd

    assert walk_truth(np.array([0.4, 0.6]), gamma=1.0) == pytest.approx(gradtd.true_value("random_walk_tabular")[0])


@pytest.mark.parametrize("centre", [0.0, 1.0, -3e8, 1e45])
def test_histograms_of_values_that_are_equal_but_for_rounding(centre):
    counts, edges = histogram(np.array([centre, np.nextafter(centre, np.inf), centre]))
    assert counts.max() == counts.sum() == 3
    assert (np.diff(edges) > 0).all()
    values = centre + max(1.0, abs(centre)) * np.linspace(0, 1, 81)
    counts, edges = histogram(values)
    assert counts.tolist() == np.histogram(values, bins=40)[0].tolist()
    assert (edges[0], edges[-1]) == (values[0], values[-1])
