"""The value against lambda: each value is LSTD(lam), its error clusters by episodes, and a slope is found."""

import numpy as np
import pytest

import gradtd
from gradtd import InputError
from gradtd.evaluation import value_against_lambda
from naive import rules as naive
from naive.evaluation import random_stream, solved, walk


def naive_fit(stream, lam, trace):
    """The value of LSTD(lam) and its error: every episode's influence, one step after the other."""
    samples = naive.samples_of(stream, lam, trace)
    A, b = naive.mean_A(samples), naive.mean_b(samples)
    theta = np.linalg.solve(A, -b)
    episodes = sorted({k.episode for k in samples})
    first = {e: next(k.x for k in samples if k.episode == e) for e in episodes}
    mean = np.mean(list(first.values()), axis=0)
    along = np.linalg.solve(A.T, mean)
    share = len(episodes) / len(samples)
    psi = [
        first[e] @ theta - mean @ theta - share * sum((k.A @ theta + k.b) @ along for k in samples if k.episode == e)
        for e in episodes
    ]
    return mean @ theta, np.array(psi)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("trace", ["rho", "clipped"])
def test_values_and_errors_are_those_of_the_naive_twin(trace, sparse):
    stream = random_stream(3, episodes=30, sparse=sparse)
    lams = [0.0, 0.5, 1.0]
    found = value_against_lambda(stream, lams, trace=trace)
    fits = [naive_fit(stream, lam, trace) for lam in lams]
    n = 30
    np.testing.assert_allclose(found.values, [value for value, _ in fits], rtol=1e-9)
    for k, (_, psi) in enumerate(fits):
        assert found.errors[k] == pytest.approx(np.sqrt((psi**2).sum() / (n * (n - 1))), rel=1e-9)
        apart = psi - fits[0][1]
        assert found.shift_errors[k] == pytest.approx(np.sqrt((apart**2).sum() / (n * (n - 1))), rel=1e-8, abs=1e-12)
    assert (found.intervals[:, 0] < found.values).all()
    plain = solved(stream)
    assert found.values[0] == pytest.approx(plain.value, rel=1e-9)
    assert found.errors[0] == pytest.approx(plain.error, rel=1e-9)


def test_flat_where_features_suffice_and_a_slope_where_not():
    """At seeds 0 to 9 the largest shift is at most 2.0 errors (tabular) and at least 8.1 (dependent features)."""
    assert value_against_lambda(gradtd.sample("random_walk_tabular", 30_000, seed=1)).flat
    found = value_against_lambda(gradtd.sample("random_walk_dependent", 30_000, seed=1))
    assert not found.flat
    exact = [gradtd.exact("random_walk_dependent", lam) for lam in found.lams]
    start = exact[0].problem.mdp.start @ exact[0].problem.features
    wanted = [start @ e.theta_star for e in exact]
    assert (np.abs(found.values - wanted) < 4 * found.errors).all()


def test_a_log_has_the_targets_probabilities_where_they_are_known():
    log = walk(40)
    stream = gradtd.log_stream(log, gamma=0.9, features="one-hot")
    assert stream.target == pytest.approx(log["target"])
    assert len(value_against_lambda(stream, [0, 0.5], trace="tree").values) == 2
    ratios = gradtd.log_stream(gradtd.sample_log("random_walk_tabular", 5), gamma=1.0, features="one-hot")
    assert ratios.target is None


def test_picture_and_refusals(tmp_path):
    stream = random_stream(3, episodes=30)
    value_against_lambda(stream, [0, 1]).plot(tmp_path / "it.svg")
    assert (tmp_path / "it.svg").read_text().count("<svg") == 1
    with pytest.raises(InputError, match="increasing"):
        value_against_lambda(stream, [0.5, 0.5])
    with pytest.raises(InputError, match=r"lam must be a list of numbers in \[0, 1\] here, got 0.5"):
        value_against_lambda(stream, 0.5)
    with pytest.raises(InputError, match="two episodes"):
        value_against_lambda(gradtd.sample("baird", 200))
    with pytest.raises(InputError, match="target's probability"):
        value_against_lambda(stream, [0.5], trace="tree")
