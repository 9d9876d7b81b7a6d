"""LSTD on a log, its sandwich error and its refits, against loops and against leaving episodes out."""

import numpy as np
import pytest
import scipy.sparse

from gradtd.core.stream import Stream
from gradtd.evaluation.estimators.bootstrap import Resamples, draw_resamples
from gradtd.evaluation.estimators.least_squares import can_refit, refit_least_squares, start_features, sums
from gradtd.evaluation.estimators.products import chunk_rows, values_of
from gradtd.evaluation.estimators.solvers import DENSE
from naive.evaluation import dense, episodes_of, join, lstd, lstd_value, random_stream, solved


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_solution_is_that_of_the_loops(seed, sparse):
    stream = random_stream(seed, episodes=20, sparse=sparse)
    found = solved(stream)
    A, b, theta = lstd(stream)
    assert pytest.approx(A) == found.sums.A
    assert found.sums.b == pytest.approx(b)
    assert found.theta == pytest.approx(theta)
    assert found.value == pytest.approx(lstd_value(stream))
    assert A @ found.theta + b == pytest.approx(np.zeros(3), abs=1e-12)
    x = dense(stream)[stream.steps["row"]]
    assert pytest.approx(x.T @ x / len(stream)) == found.sums.C
    y = stream.steps["discount"][:, None] * dense(stream)[stream.steps["next_row"]] - x
    terms = [rho**2 * (u @ u) * (v @ v) for rho, u, v in zip(stream.steps["rho"], x, y, strict=True)]
    assert found.sums.square == pytest.approx(np.mean(terms))
    assert values_of(stream.features, theta) == pytest.approx(dense(stream) @ theta)


def tamed(seed, episodes, **how):
    """A stream whose A is far from singular, so that expansions hold."""
    return random_stream(seed, episodes=episodes, n_features=2, zeros=False, **how)


def without(stream, e):
    """The stream without one of its episodes."""
    steps = stream.steps[stream.steps["episode"] != e].copy()
    steps["episode"] -= steps["episode"] > e
    return Stream(stream.features, steps)


def test_the_sandwich_is_the_jackknife_over_episodes():
    """Var = (E - 1) / E sum (v_-e - mean)^2; the two agree to O(1 / E), 4 % here with E = 300."""
    stream = tamed(4, 300)
    n = 300
    left_out = [solved(without(stream, e)).value for e in range(n)]
    jackknife = np.sqrt((n - 1) / n * ((left_out - np.mean(left_out)) ** 2).sum())
    assert solved(stream).error == pytest.approx(jackknife, rel=0.04)


def test_the_sandwich_is_the_delta_method():
    """The derivative of the value in the weight of each episode, taken numerically; exact but for rounding."""
    stream = tamed(5, 12)
    phi = dense(stream)
    episodes = episodes_of(stream)

    def value(weights):
        A, b, start = np.zeros((2, 2)), np.zeros(2), np.zeros(2)
        for weight, episode in zip(weights, episodes, strict=True):
            start += weight * phi[episode[0]["row"]]
            for s in episode:
                x = phi[s["row"]]
                A += weight * s["rho"] * np.outer(x, s["discount"] * phi[s["next_row"]] - x)
                b += weight * s["rho"] * s["reward"] * x
        return start @ np.linalg.solve(A, -b) / weights.sum()

    n, h = len(episodes), 1e-5
    slopes = np.array([(value(1 + h * e) - value(1 - h * e)) / (2 * h) for e in np.eye(n)])
    assert solved(stream).error == pytest.approx(np.sqrt((slopes**2).sum() * n / (n - 1)), rel=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
def test_refits_are_solutions_of_the_resampled_logs(sparse):
    stream = tamed(6, 40, sparse=sparse)
    begins = stream.begins
    resamples = draw_resamples(40, 10, 1)
    found = refit_least_squares(stream, start_features(stream, begins), begins, resamples, solved(stream))
    episodes = episodes_of(stream)
    for r in range(10):
        taken = [episodes[e] for e, count in enumerate(resamples.counts[r]) for _ in range(count)]
        assert found[r] == pytest.approx(lstd_value(join(stream, taken)), rel=1e-8)


def test_refits_of_groups_of_episodes():
    """Groups of 1, 2 and 3 episodes: as if each episode had been taken by itself."""
    stream = tamed(7, 30)
    begins = stream.begins
    edges = np.array([0, 1, 3, 6, 7, 9, 12, 15, 18, 21, 24, 27, 30])
    counts = np.random.default_rng(0).multinomial(12, np.full(12, 1 / 12), 4).astype(np.int32)
    found = refit_least_squares(
        stream, start_features(stream, begins), begins, Resamples(counts, edges), solved(stream)
    )
    episodes = episodes_of(stream)
    for r in range(4):
        taken = [episodes[e] for g in range(12) for _ in range(counts[r, g]) for e in range(edges[g], edges[g + 1])]
        assert found[r] == pytest.approx(lstd_value(join(stream, taken)), rel=1e-8)


def test_many_sparse_features_give_the_same_as_few():
    """Beyond DENSE features matrices stay sparse; the solution, its error and its refits stay, too."""
    stream = tamed(8, 60, sparse=True)
    begins, drawn = stream.begins, draw_resamples(60, 10, 1)
    few = solved(stream)
    wanted = refit_least_squares(stream, start_features(stream, begins), begins, drawn, few)
    padded = Stream(scipy.sparse.csr_array(np.pad(dense(stream), ((0, 0), (0, DENSE)))), stream.steps)
    many = solved(padded)
    assert not isinstance(many.sums.A, np.ndarray)
    assert many.condition is None
    assert many.theta[:2] == pytest.approx(few.theta, rel=1e-9)
    assert many.error == pytest.approx(few.error, rel=1e-9)
    assert can_refit(padded, many, 10)
    found = refit_least_squares(padded, start_features(padded, begins), begins, drawn, many)
    assert found == pytest.approx(wanted, rel=1e-9)
    assert not can_refit(Stream(dense(padded), stream.steps), many, 10)


def test_redundant_features_leave_the_value_and_are_counted():
    stream = tamed(9, 60)
    phi = dense(stream)
    twice = Stream(np.c_[phi, phi[:, :1] - 2 * phi[:, 1:], np.zeros(len(phi))], stream.steps)
    found, plain = solved(twice), solved(stream)
    assert (found.singular, plain.singular) == (1, 0)
    assert found.value == pytest.approx(plain.value)
    assert found.error == pytest.approx(plain.error)
    assert found.theta[3] == 0
    assert solved(Stream(phi * [1e6, 1e-6], stream.steps)).condition == pytest.approx(plain.condition)


def test_one_episode_has_no_error():
    assert np.isnan(solved(tamed(1, 1)).error)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("traced", [False, True])
def test_sums_of_many_chunks_by_fold(traced, sparse):
    """Folds of steps that do not follow each other, and with traces as the left factor, too."""
    stream = random_stream(7, episodes=100_000, sparse=sparse)
    n, steps, phi = len(stream), stream.steps, dense(stream)
    assert n > chunk_rows(stream.features)
    fold = np.arange(n) % 3
    x = phi[steps["row"]]
    y = steps["discount"][:, None] * phi[steps["next_row"]] - x
    e = x + 1.0 if traced else x
    traces = (scipy.sparse.csr_array(e) if sparse else e) if traced else None
    heard = []
    found = sums(stream, lambda done, total: heard.append((done, total)), traces, fold=fold)
    for k, part in enumerate(found.folds):
        left = e[fold == k] * steps["rho"][fold == k][:, None]
        A = part.A.toarray() if sparse else part.A
        assert pytest.approx(left.T @ y[fold == k], rel=1e-9) == A
        assert part.b == pytest.approx(left.T @ steps["reward"][fold == k], rel=1e-9, abs=1e-6)
    assert pytest.approx((e * steps["rho"][:, None]).T @ y / n) == found.A
    assert pytest.approx(x.T @ x / n) == found.C
    assert len(heard) > 1
    assert heard[-1] == (n, n)
