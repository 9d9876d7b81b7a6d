"""``alpha="auto"`` of TD and mini-batch TD: equal to the naive twin, on-policy only, near the best constant."""

import dataclasses
import itertools

import numpy as np
import pytest
import scipy.sparse

import gradtd
from algorithms.test_algorithms import D, assert_same, log_of
from naive.auto import impression_gtd_auto, td_auto

T = 700
START = np.array([0.7, -1.1, 0.4, 0.9])


def on_policy_stream(sparse=False):
    """Episodes of twelve steps of a chain that forgets quickly, every fourth cut off; all ratios one."""
    rng = np.random.default_rng(23)
    table = rng.normal(size=(T + 1, D)) * (rng.random((T + 1, D)) < 0.6)
    episode = np.arange(T) // 12
    last = np.append(np.diff(episode) > 0, True)
    return gradtd.Stream.from_arrays(
        features=scipy.sparse.csr_array(table) if sparse else table,
        row=np.arange(T),
        next_row=np.arange(1, T + 1),
        reward=rng.normal(size=T),
        discount=np.where(last & (episode % 4 > 0), 0.0, 0.9 * rng.random(T)),
        rho=np.ones(T),
        episode=episode,
    )


STREAM, SPARSE = on_policy_stream(), on_policy_stream(sparse=True)
SIZES = {"td": {}, "minibatch_td": {"batch_size": 4}}


def weights(name, averaged, stream=STREAM, **more):
    """The iterates after every step; an average that begins at the end leaves them as they are."""
    average = {"average": "uniform", "average_from": T} if averaged else {"average": "none"}
    result = gradtd.learn(
        stream, name, alpha="auto", theta0=START, seed=3, snapshots=1, **average, **SIZES[name], **more
    )
    return result.thetas


@pytest.mark.parametrize("lam", [0.0, 0.7])
@pytest.mark.parametrize("averaged", [True, False])
@pytest.mark.parametrize("name", SIZES)
def test_td_equals_its_naive_twin_after_every_step(name, averaged, lam):
    log = log_of(name, SIZES[name], stream=STREAM, lam=lam)
    twin = list(td_auto(log, START, itertools.repeat(1.0), name == "minibatch_td", averaged))
    assert np.abs(np.diff(twin[-50:], axis=0)).max() > 1e-6, "the twin does not learn"
    assert_same(weights(name, averaged, lam=lam, compile=False), np.array(twin))


@pytest.mark.parametrize("name", ["td", pytest.param("minibatch_td", marks=pytest.mark.slow)])
def test_compiled_and_sparse_td_are_the_same(name):
    expected = weights(name, False, lam=0.7, compile=False)
    assert_same(weights(name, False, lam=0.7, compile=True), expected)
    assert_same(weights(name, False, stream=SPARSE, lam=0.7, compile=False), expected)


def test_standard_errors_fade_where_an_average_is_reported():
    """Some 200 of the updates of Impression GTD come after the first 500 pairs of batches."""
    sizes = {"batch_size": 3}
    result = gradtd.learn(
        STREAM, "impression_gtd", theta0=START, seed=3, snapshots=1, compile=False, average="uniform", average_from=T,
        **sizes,
    )  # fmt: skip
    log = log_of("impression_gtd", sizes, stream=STREAM)
    twin, last = (
        np.array(list(impression_gtd_auto(log, START, itertools.repeat(1.0), "one", "correlation", 1.0, averaged)))
        for averaged in (True, False)
    )
    assert_same(result.thetas, twin)
    assert np.abs(twin[-1] - last[-1]).max() > 1e-3


@pytest.mark.parametrize("name", ["td", "minibatch_td"])
def test_td_refuses_auto_off_policy(name):
    with pytest.raises(gradtd.InputError, match=f"auto' of {name} needs a stream whose ratios are all one, but"):
        gradtd.run("random_walk_tabular", name, alpha="auto")
    with pytest.raises(gradtd.InputError, match="which a learner cannot know in advance"):
        gradtd.Learner(3, name, alpha="auto")


def on_policy(problem):
    return dataclasses.replace(problem, target=problem.behaviour)


@pytest.mark.parametrize(("name", "m"), [("td", 1), pytest.param("minibatch_td", 8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("average", ["polynomial", "none"])
def test_td_chooses_its_step_size_on_policy(name, m, average):
    """Within 3 times the error of the best of eight constants, and free of the scale of features."""
    problem = on_policy(gradtd.PROBLEMS["garnet"](states=40, n_features=6, seed=4))
    size = {} if name == "td" else {"batch_size": m}
    common = {"runs": 8, "steps": 6000, "snapshots": [6000], **size}
    constants = gradtd.sweep(problem, name, {"alpha": [2.0**-k for k in range(8)]}, **common)
    best = min(gradtd.measure(r, "rmspbe").mean() for r in constants if r.diverged == 0)
    result = gradtd.run(problem, name, alpha="auto", average=average, **common)
    assert result.diverged == 0
    assert gradtd.measure(result, "rmspbe").mean() < 3 * best
    large = dataclasses.replace(problem, features=problem.features * 2.0**8)
    scaled = gradtd.run(large, name, alpha="auto", average=average, **common)
    np.testing.assert_array_equal(scaled.thetas * 2.0**8, result.thetas)


def test_the_probe_of_td_finds_the_exact_threshold():
    """On i.i.d. steps: the least eigenvalue of what A + A' leaves after alpha E[A_t'A_t] is zero there."""
    problem = on_policy(gradtd.PROBLEMS["garnet"](states=20, n_features=4, seed=3))
    stream = gradtd.sample(problem, 40_000, seed=1)
    x, y = (
        problem.features[stream.steps["row"]],
        stream.steps["discount"][:, None] * problem.features[stream.steps["next_row"]],
    )
    y = y - x
    A, second = x.T @ y / len(x), (y * (x**2).sum(axis=1)[:, None]).T @ y / len(x)
    # In the direction that becomes unstable first, which the recursion turns z to, not the worst in a single step.
    single_step = 1 / np.abs(np.linalg.eigvals(np.linalg.solve(-(A + A.T), second))).max()
    rule = gradtd.ALGORITHMS["td"].choose({"alpha": "auto"})
    kept = rule.init(4, {})
    gradtd.learn(stream, dataclasses.replace(rule, init=lambda d, hyper: kept), alpha="auto")
    assert 0.9 * single_step < kept["threshold"][0] < 3 * single_step
