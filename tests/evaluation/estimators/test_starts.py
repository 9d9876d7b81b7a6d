"""Episodes that start in a row of their own: the value is that of these rows, in every place that asks for it."""

from dataclasses import replace

import numpy as np
import pytest

from gradtd import evaluate
from gradtd.evaluation.estimators.bootstrap import resampled
from gradtd.evaluation.estimators.least_squares import start_features
from naive.evaluation import lstd, random_stream, solved, walk


def elsewhere(stream):
    return replace(stream, starts=np.arange(stream.n_episodes) % 5)


def test_the_value_is_that_of_the_rows_given():
    stream = elsewhere(random_stream(3, episodes=40))
    _, _, theta = lstd(stream)
    assert solved(stream).value == pytest.approx(np.mean(stream.features[stream.starts] @ theta), rel=1e-9)
    same = replace(stream, starts=np.asarray(stream.steps["row"][stream.begins[:-1]]))
    assert solved(same).value == solved(replace(stream, starts=None)).value
    assert solved(same).error == solved(replace(stream, starts=None)).error


def test_a_resample_takes_the_start_of_every_copy():
    stream = elsewhere(random_stream(4, episodes=6))
    again, _ = resampled(stream, stream.begins, np.array([0, 2, 1, 0, 3, 0]))
    assert again.starts.tolist() == stream.starts[[1, 1, 2, 4, 4, 4]].tolist()
    assert len(start_features(again, again.begins).tolist()) == again.n_episodes


def test_the_checks_start_there_too():
    """With values of actions an episode starts in a state, before its first action is chosen."""
    how = {"gamma": 0.9, "values": "action", "target": "uniform", "algorithm": "lstd", "resamples": 0, "threads": 1}
    result = evaluate(walk(60), features="one-hot", **how)
    own = next(row for row in result.checks if row.kind == "rung" and row.name == "the features given")
    assert own.value == pytest.approx(result.value, rel=1e-6)
