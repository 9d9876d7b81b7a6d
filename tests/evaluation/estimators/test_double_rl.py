"""Marginal weights and double reinforcement learning against loops, and against a problem whose value is known."""

import numpy as np
import pytest

from gradtd import Inference, Machine, evaluate
from gradtd.evaluation.estimators.importance_sampling import double_rl, marginal_weights
from gradtd.evaluation.estimators.least_squares import start_features
from naive import evaluation as naive
from naive.evaluation import altered, random_stream, solved, walk, walk_truth


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_weights_are_those_of_the_loops_and_carry_the_value(seed, sparse):
    stream = random_stream(seed, episodes=12, sparse=sparse)
    square = solved(stream)
    weights = marginal_weights(stream, square.left)
    assert weights == pytest.approx(np.array(naive.marginal(stream)))
    assert weights @ stream.steps["reward"] == pytest.approx(square.value)


def test_weights_of_a_constant_feature_count_the_discounted_time():
    """On-policy with one constant feature and no end, the weights sum to 1 / (1 - discount), each the same."""
    stream = random_stream(0, episodes=12, n_features=1)
    stream.features[:] = 1.0
    stream = altered(stream, rho=1.0, discount=0.8)
    weights = marginal_weights(stream, solved(stream).left)
    assert weights == pytest.approx(np.full(len(stream), 5 / len(stream)))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("folds", [2, 5])
def test_double_rl_is_that_of_the_loops(folds, sparse):
    stream = random_stream(7, episodes=23, sparse=sparse)
    begins = stream.begins
    found = double_rl(stream, start_features(stream, begins), begins, solved(stream), folds)
    value, error = naive.double_rl(stream, folds)
    assert found.value == pytest.approx(value)
    assert found.error == pytest.approx(error)
    assert len(found.episodes) == 23


def test_double_rl_as_a_row_and_as_the_method():
    """The same numbers either way; Student's interval, from as many pieces as there are episodes."""
    beside = evaluate(
        walk(60), gamma=0.9, algorithm="lstd", inference=Inference(resamples=5), machine=Machine(threads=1)
    )
    row = beside.estimates[-1]
    assert row.method == "drl"
    asked = evaluate(walk(60), gamma=0.9, algorithm="drl", inference=Inference(resamples=5), machine=Machine(threads=1))
    assert asked.estimates[0] == row
    assert asked.interval == (row.low, row.high)
    assert row.high - row.value == pytest.approx(2.001 * row.error, rel=1e-3)  # t, 59 degrees of freedom
    assert abs(row.value - beside.value) < beside.numbers["sandwich_error"]


def test_the_effective_sample_of_the_weights():
    log = walk(60)
    found = evaluate(log, gamma=0.9, algorithm="lstd", inference=Inference(resamples=5), machine=Machine(threads=1))
    own = evaluate(
        log,
        gamma=0.9,
        algorithm="lstd",
        target="behaviour",
        inference=Inference(resamples=5),
        machine=Machine(threads=1),
    )
    steps, episodes = (found.numbers[name] for name in ("ess_marginal", "ess_marginal_episodes"))
    assert 0 < episodes <= 60
    assert 0 < steps <= len(log["t"])
    assert own.numbers["ess_marginal"] > steps


@pytest.mark.slow
def test_intervals_of_double_rl_hold_the_truth():
    """100 logs of 60 episodes at 95 %: fewer than 88 hits have a chance of 0.4 % if the level is right."""
    truth, hits = walk_truth(), 0
    for seed in range(100):
        made = evaluate(
            walk(60, 1000 + seed),
            gamma=0.9,
            algorithm="drl",
            inference=Inference(resamples=0),
            machine=Machine(threads=1),
        )
        hits += made.interval[0] <= truth <= made.interval[1]
    assert hits >= 88
