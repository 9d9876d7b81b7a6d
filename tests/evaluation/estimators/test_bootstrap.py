"""Which episodes a resample takes, and the intervals that resamples give."""

import numpy as np
import pytest

from gradtd.compiled.buffers import SPLITS
from gradtd.evaluation.estimators.bootstrap import (
    MOST_GROUPS,
    Resamples,
    draw_resamples,
    interval_from,
    poisson_weights,
    resampled,
    student_interval,
)
from naive.evaluation import episodes_of, join, random_stream


@pytest.mark.parametrize("seed", range(5))
def test_a_resample_is_the_list_of_its_episodes(seed):
    stream = random_stream(seed)
    begins = stream.begins
    episodes = episodes_of(stream)
    assert begins.tolist() == np.cumsum([0, *map(len, episodes)]).tolist()
    counts = draw_resamples(len(episodes), 1, seed).of_episodes(0)
    before = stream.steps.tobytes()
    again, unit = resampled(stream, begins, counts)
    taken = [e for e, count in enumerate(counts) for _ in range(count)]
    wanted = join(stream, [episodes[e] for e in taken])
    assert again.steps.tobytes() == wanted.steps.tobytes()
    assert again.features is stream.features
    assert unit.tolist() == [e for e in taken for _ in episodes[e]]
    assert stream.steps.tobytes() == before


@pytest.mark.parametrize("split", ["odd-even", "coin"])
def test_copies_of_an_episode_stay_in_one_buffer(split):
    stream = random_stream(3, episodes=8)
    again, unit = resampled(stream, stream.begins, np.array([3, 0, 2, 1, 0, 2, 4, 1]))
    side = SPLITS[split].buffers(again, (0, 1), unit=unit).side
    for e in np.unique(unit):
        assert len(np.unique(side[unit == e])) == 1
    alone = SPLITS[split].buffers(again, (0, 1)).side  # by the numbers of the copies they would be parted
    assert any(len(np.unique(alone[unit == e])) > 1 for e in np.unique(unit))


def test_every_resample_takes_as_many_episodes_and_all_are_alike():
    """Counts are multinomial: mean 1, variance 1 - 1 / n (5 standard errors; one failure in a million seeds)."""
    n, resamples = 30, 4000
    counts = draw_resamples(n, resamples, 5).counts
    assert (counts.sum(axis=1) == n).all()
    assert abs(counts.mean(axis=0) - 1).max() < 5 * np.sqrt((1 - 1 / n) / resamples)
    assert counts.var() == pytest.approx(1 - 1 / n, rel=0.05)
    assert counts.tobytes() == draw_resamples(n, resamples, 5).counts.tobytes()
    assert counts.tobytes() != draw_resamples(n, resamples, 6).counts.tobytes()


def test_many_episodes_are_resampled_in_groups_of_neighbours():
    n = 2 * MOST_GROUPS + 500
    drawn = draw_resamples(n, 3, 0)
    assert (len(drawn), drawn.counts.shape) == (3, (3, MOST_GROUPS))
    assert drawn.begins[0] == 0
    assert drawn.begins[-1] == n
    assert set(np.diff(drawn.begins)) == {2, 3}
    counts = drawn.of_episodes(1)
    for g in range(0, MOST_GROUPS, 97):
        assert (counts[drawn.begins[g] : drawn.begins[g + 1]] == drawn.counts[1, g]).all()
    assert Resamples(np.array([[2, 0]], np.int32), np.array([0, 1, 3])).of_episodes(0).tolist() == [2, 0, 0]


def test_intervals():
    """Student's quantiles from a printed table: 2.262 for 9 degrees of freedom, 1.833 at 90 %."""
    low, high = student_interval(5.0, 2.0, 0.95, 9)
    assert (low, high) == pytest.approx((5 - 2 * 2.262157, 5 + 2 * 2.262157), rel=1e-6)
    assert student_interval(0.0, 1.0, 0.90, 9)[1] == pytest.approx(1.833113, rel=1e-6)
    values = np.array([1.0, 2.0, 4.0, 7.0, 8.0, 9.5, 3.0, 2.5, 6.0, 5.0])
    deviation = np.sqrt(((values - values.mean()) ** 2).sum() / 9)
    low, high = interval_from(5.0, values, 0.95, 1000)
    assert (low, high) == pytest.approx((5 - 2.262157 * deviation, 5 + 2.262157 * deviation), rel=1e-6)
    few = interval_from(5.0, values, 0.95, 4)  # 4 episodes leave 3 degrees of freedom
    assert few[1] - 5 == pytest.approx(3.182446 * deviation, rel=1e-6)
    spread = np.arange(101.0)
    assert interval_from(0.0, spread, 0.9, 1000, "percentile") == pytest.approx((5.0, 95.0))


def test_no_resample_is_empty():
    weights = poisson_weights(np.array([1.0, 0.0, 2.0]), 500, 0)
    assert (weights @ [1.0, 0.0, 2.0] > 0).all()
    share = np.exp(-2) / (1 - np.exp(-2))  # of one and none among those with any; three standard errors
    found = ((weights[:, 0] == 1) & (weights[:, 2] == 0)).mean()
    assert abs(found - share) < 3 * (share * (1 - share) / 500) ** 0.5
