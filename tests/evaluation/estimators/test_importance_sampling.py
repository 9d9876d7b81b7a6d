"""Importance-sampling estimators against loops over episodes and times."""

import numpy as np
import pytest

from gradtd.evaluation.estimators.bootstrap import draw_resamples
from gradtd.evaluation.estimators.importance_sampling import episode_weights, importance_estimates
from gradtd.evaluation.report.estimate import ESTIMATORS
from gradtd.evaluation.report.step_sums import effective_size
from naive.evaluation import altered, episodes_of, importance, join, random_stream


def both(stream, theta, resamples=0):
    begins = stream.begins
    drawn = draw_resamples(len(begins) - 1, resamples, 3)
    return importance_estimates(stream, theta, begins, drawn), drawn


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_every_estimator_is_that_of_the_loops(seed, sparse):
    """Random ratios, some zero; random discounts and lengths; terminated and cut-off ends."""
    stream = random_stream(seed, episodes=9, sparse=sparse)
    ends = [episode[-1]["discount"] for episode in episodes_of(stream)]
    assert 0 in ends
    assert any(end > 0 for end in ends)
    theta = np.random.default_rng(seed).normal(size=3)
    found, drawn = both(stream, theta, resamples=5)
    wanted = importance(stream, theta)
    assert list(wanted) == list(ESTIMATORS)
    assert found.values == pytest.approx(list(wanted.values()))
    episodes = episodes_of(stream)
    for r in range(5):
        taken = [episodes[e] for e, count in enumerate(drawn.counts[r]) for _ in range(count)]
        assert found.resampled[r] == pytest.approx(list(importance(join(stream, taken), theta).values()))


def test_where_all_ratios_are_one_there_is_one_estimate():
    """Without cut-off ends dr is Monte Carlo too, whatever V is, where discounts are constant in time."""
    stream = altered(random_stream(0, episodes=9), rho=1.0)
    found, _ = both(stream, np.zeros(3))
    assert found.values == pytest.approx(np.full(7, found.values[0]))


def test_ratios_that_are_all_zero_have_no_weighted_estimate():
    stream = altered(random_stream(1), rho=0.0)
    found, _ = both(stream, np.ones(3))
    values = dict(zip(ESTIMATORS, found.values, strict=True))
    assert np.isnan(values["wis"])
    assert values["is"] == values["pdis"] == values["wpdis"] == 0.0


def test_weights_of_episodes():
    stream = random_stream(2)
    products = [np.prod([step["rho"] for step in episode]) for episode in episodes_of(stream)]
    assert episode_weights(stream, stream.begins) == pytest.approx(products)
    stream = altered(stream, rho=1e200)
    weights = episode_weights(stream, stream.begins)
    assert np.isinf(weights).any()
    assert effective_size(weights) == 1.0


@pytest.mark.parametrize(
    ("weights", "size"),
    [([1, 1, 1, 1], 4), ([1, 1, 0, 0], 2), ([5, 0, 0], 1), ([0, 0], 0), ([1e200, 1e200, 0], 2), ([1, 2, 3], 36 / 14)],
)
def test_effective_size(weights, size):
    assert effective_size(np.array(weights, float)) == pytest.approx(size)
