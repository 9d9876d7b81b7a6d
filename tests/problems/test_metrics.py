"""Metrics against slow formulas written out with loops, and NEU estimated from data against the exact one."""

import numpy as np
import pytest
import scipy.sparse

import gradtd
from gradtd import METRICS, FiniteMDP, InputError, Problem, Stream, empirical_neu, measure
from gradtd.problems import baird, collision, garnet
from gradtd.problems.metrics import distance, msbe, mspbe, neu, rmspbe, rmsve

PROBLEMS = {name: make() for name, make in gradtd.PROBLEMS.items()} | {
    "garnet_binary": garnet(states=8, features="binary", n_features=4, seed=1),
    "collision_2": collision(seed=2),
}


@pytest.fixture(scope="module", params=PROBLEMS)
def case(request):
    exact = gradtd.exact(PROBLEMS[request.param])
    theta = np.random.default_rng(1).standard_normal(exact.problem.n_features)
    return exact, theta


def value(exact, s, theta):
    return 0.0 if exact.problem.mdp.terminal[s] else sum(exact.problem.features[s] * theta)


def bellman_error(exact, s, theta):
    """E_pi[r + gamma v(s') - v(s)], by loops over actions and next states."""
    problem, mdp = exact.problem, exact.problem.mdp
    error = -value(exact, s, theta)
    for a in range(mdp.n_actions):
        for after in range(mdp.n_states):
            p = problem.target[s, a] * mdp.transition[s, a, after]
            error += p * (mdp.reward[s, a, after] + problem.gamma * value(exact, after, theta))
    return error


def test_rmsve_is_the_root_of_the_mean_squared_value_error(case):
    exact, theta = case
    alive = np.flatnonzero(~exact.problem.mdp.terminal)
    squares = [(value(exact, s, theta) - exact.v_pi[s]) ** 2 for s in alive]
    assert rmsve(exact, theta) == pytest.approx(np.sqrt(sum(squares) / len(alive)), rel=1e-12)
    weighted = sum(exact.d_mu[s] * e for s, e in zip(alive, squares, strict=True))
    assert rmsve(exact, theta, weights="d_mu") == pytest.approx(np.sqrt(weighted), rel=1e-12)


def test_msbe_is_the_mean_squared_bellman_error(case):
    exact, theta = case
    alive = np.flatnonzero(~exact.problem.mdp.terminal)
    expected = sum(exact.d_mu[s] * bellman_error(exact, s, theta) ** 2 for s in alive)
    assert msbe(exact, theta) == pytest.approx(expected, rel=1e-12)


def test_neu_is_the_squared_norm_of_the_expected_update(case):
    exact, theta = case
    update = np.zeros(exact.problem.n_features)
    for s in np.flatnonzero(~exact.problem.mdp.terminal):
        update += exact.d_mu[s] * bellman_error(exact, s, theta) * exact.problem.features[s]
    assert neu(exact, theta) == pytest.approx(sum(update**2), rel=1e-11)


def test_mspbe_is_the_squared_bellman_error_after_projection(case):
    exact, theta = case
    alive = np.flatnonzero(~exact.problem.mdp.terminal)
    error = np.array([bellman_error(exact, s, theta) for s in alive])
    # The projection in the norm of d_mu onto the span of the features: weighted least squares.
    root = np.sqrt(exact.d_mu[alive])[:, None]
    fit = np.linalg.lstsq(root * exact.problem.features[alive], root[:, 0] * error, rcond=1e-10)[0]
    projected = exact.problem.features[alive] @ fit
    expected = sum(exact.d_mu[alive] * projected**2)
    assert mspbe(exact, theta) == pytest.approx(expected, rel=1e-9)
    assert rmspbe(exact, theta) == pytest.approx(np.sqrt(expected), rel=1e-9)
    assert mspbe(exact, theta) <= msbe(exact, theta) * (1 + 1e-12), "a projection never lengthens"


def test_distance_is_the_length_of_the_difference():
    for name in ("boyan_chain", "garnet", "random_walk_inverted"):
        exact = gradtd.exact(PROBLEMS[name])
        theta = np.random.default_rng(2).standard_normal(exact.problem.n_features)
        expected = np.sqrt(sum((theta - exact.theta_star) ** 2))
        assert distance(exact, theta) == pytest.approx(expected, rel=1e-12)


def test_distance_on_a_singular_problem_is_to_the_nearest_solution():
    exact = gradtd.exact(baird())
    null = np.linalg.svd(exact.A)[2][-1]
    np.testing.assert_allclose(exact.A @ null, 0, atol=1e-14)
    assert distance(exact, 5 * null) == pytest.approx(0, abs=1e-12)
    theta = np.random.default_rng(3).standard_normal(8)
    nearest = min(np.linalg.norm(theta - c * null) for c in np.linspace(-5, 5, 200_001))
    assert distance(exact, theta) == pytest.approx(nearest, rel=1e-8)
    assert distance(exact, theta) == pytest.approx(distance(exact, theta + 3 * null), rel=1e-12)


def test_the_td_solution_has_no_projected_error_and_no_update(case):
    exact, theta = case
    scale = max(1.0, np.abs(exact.b).max())
    assert neu(exact, exact.theta_star) < 1e-22 * scale
    assert mspbe(exact, exact.theta_star) < 1e-20 * scale
    assert distance(exact, exact.theta_star) == 0
    assert neu(exact, theta) > 1e-6
    assert mspbe(exact, theta) > 1e-6


def test_where_values_are_linear_every_metric_vanishes_at_the_solution():
    for name in ("boyan_chain", "random_walk_tabular", "random_walk_inverted", "baird"):
        exact = gradtd.exact(PROBLEMS[name])
        for metric in METRICS.values():
            assert abs(metric(exact, exact.theta_star)) < 1e-9, (name, metric.__name__)


def test_where_values_are_not_linear_the_td_solution_keeps_a_value_error():
    exact = gradtd.exact(PROBLEMS["random_walk_dependent"])
    assert rmsve(exact, exact.theta_star) > 1e-3
    assert msbe(exact, exact.theta_star) > 1e-3


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("problem", ["baird", "random_walk_dependent"])
def test_metrics_keep_the_leading_shape(name, problem):
    exact, metric = gradtd.exact(PROBLEMS[problem]), METRICS[name]
    thetas = np.random.default_rng(4).standard_normal((3, 5, exact.problem.n_features))
    values = metric(exact, thetas)
    assert values.shape == (3, 5)
    assert metric(exact, thetas[0]).shape == (5,)
    assert metric(exact, thetas[0, 0]).shape == ()
    for run in range(3):
        for snapshot in range(5):
            assert metric(exact, thetas[run, snapshot]) == pytest.approx(values[run, snapshot], rel=1e-12)


def test_measure_takes_a_name_a_function_and_options():
    result = gradtd.run("boyan_chain", "td", alpha=0.1, runs=3, steps=40, snapshots=[0, 20, 40], compile=False)
    exact = gradtd.exact(PROBLEMS["boyan_chain"])
    np.testing.assert_allclose(measure(result), rmsve(exact, result.thetas))
    np.testing.assert_allclose(measure(result, neu), neu(exact, result.thetas))
    by_visits = measure(result, "rmsve", weights="d_mu")
    np.testing.assert_allclose(by_visits, rmsve(exact, result.thetas, "d_mu"))
    assert by_visits.shape == (3, 3)
    at_zero = np.sqrt(np.mean((2 * np.arange(1, 13)) ** 2))
    np.testing.assert_allclose(measure(result)[:, 0], at_zero)


def test_measure_refuses_what_it_cannot_know():
    result = gradtd.run("boyan_chain", "td", alpha=0.1, runs=1, steps=10, compile=False)
    with pytest.raises(InputError, match=r"'rmsev': did you mean 'rmsve'"):
        measure(result, "rmsev")
    with pytest.raises(InputError, match=r"weights must be one of uniform, d_mu; got 'equal'"):
        measure(result, "rmsve", weights="equal")
    logged = gradtd.learn(gradtd.sample("boyan_chain", 10), "td", alpha=0.1, compile=False)
    with pytest.raises(InputError, match="empirical_neu"):
        measure(logged)


def random_log(sparse=False):
    rng = np.random.default_rng(6)
    features = rng.standard_normal((12, 3)) * (rng.random((12, 3)) < 0.7)
    n = 40
    return Stream.from_arrays(
        features=scipy.sparse.csr_array(features) if sparse else features,
        row=rng.integers(0, 12, n), next_row=rng.integers(0, 12, n), reward=rng.standard_normal(n),
        discount=np.where(rng.random(n) < 0.2, 0.0, rng.random(n)), rho=rng.exponential(size=n),
        episode=np.arange(n) // 8,
    )  # fmt: skip


def neu_by_pairs(stream, first, second, theta, similarity):
    features = stream.features if isinstance(stream.features, np.ndarray) else stream.features.toarray()

    def error(t):
        s = stream.steps[t]
        return s.rho * (s.reward + s.discount * features[s.next_row] @ theta - features[s.row] @ theta)

    total = 0.0
    for i in first:
        for j in second:
            x_i, x_j = features[stream.steps[i].row], features[stream.steps[j].row]
            total += similarity(x_i, x_j) * error(i) * error(j)
    return total / (len(first) * len(second))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "kernel", [None, lambda a, b: np.exp(-((a - b) ** 2).sum()), lambda a, b: (a * b).sum()], ids=["none", "rbf", "dot"]
)
def test_empirical_neu_is_the_mean_over_pairs(sparse, kernel):
    stream = random_log(sparse)
    thetas = np.random.default_rng(7).standard_normal((2, 4, 3))
    first, second = [0, 3, 3, 7, 11], [20, 25, 39]
    values = empirical_neu(stream, first, second, thetas, kernel)
    assert values.shape == (2, 4)
    for i in range(2):
        for j in range(4):
            expected = neu_by_pairs(stream, first, second, thetas[i, j], kernel or np.dot)
            assert values[i, j] == pytest.approx(expected, rel=1e-11)
    assert empirical_neu(stream, first, second, thetas[0, 0], kernel).shape == ()


def test_empirical_neu_refuses_an_empty_set():
    with pytest.raises(InputError, match="at least one step"):
        empirical_neu(random_log(), [], [1], np.zeros(3))


def two_step_episodes():
    """Episodes of exactly two steps, so that a mean over episodes is a mean under d_mu; random ratios."""
    rng = np.random.default_rng(12)
    transition = np.zeros((5, 2, 5))
    transition[:2, :, 2:4] = rng.dirichlet(np.ones(2), size=(2, 2))
    transition[2:, :, 4] = 1.0
    features = rng.standard_normal((5, 2))
    features[4] = 0.0
    return Problem(
        name="two_step_episodes",
        mdp=FiniteMDP(transition, rng.standard_normal((5, 2, 5)), np.arange(5) == 4, np.array([0.5, 0.5, 0, 0, 0])),
        behaviour=np.full((5, 2), 0.5), target=np.tile([0.8, 0.2], (5, 1)),
        features=features, gamma=0.9, theta0=np.zeros(2), source="a test",
    )  # fmt: skip


def test_empirical_neu_of_different_episodes_is_unbiased_and_of_one_episode_is_not():
    # 3000 pairs of episodes, all independent. A fresh seed exceeds 4 standard errors with probability 6e-5.
    problem, n = two_step_episodes(), 3000
    stream = gradtd.sample(problem, 4 * n, seed=8)
    theta = np.array([0.5, -1.0])
    expected = neu(gradtd.exact(problem), theta)
    starts = 4 * np.arange(n)
    apart = np.array([empirical_neu(stream, [t, t + 1], [t + 2, t + 3], theta) for t in starts])
    same = np.array([empirical_neu(stream, [t, t + 1], [t, t + 1], theta) for t in starts])
    assert abs(apart.mean() - expected) < 4 * apart.std(ddof=1) / np.sqrt(n)
    assert same.mean() - expected > 10 * same.std(ddof=1) / np.sqrt(n)
