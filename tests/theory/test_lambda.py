"""The theory with traces: exact matrices and moments by enumeration of all paths, and against long streams."""

import itertools

import numpy as np
import pytest
from scipy.stats import chi2

import gradtd
from gradtd import InputError, theory
from gradtd.problems.base import FiniteMDP, Problem
from gradtd.problems.exact import TraceLaw
from gradtd.theory.exact import moments


def layered(seed=4):
    """Episodes of three steps through three layers of two states, then the end: every path can be listed."""
    rng = np.random.default_rng(seed)
    n = 7
    transition, reward = np.zeros((n, 2, n)), rng.normal(size=(n, 2, n))
    for s in range(6):
        after = [6] if s >= 4 else [2 * (s // 2) + 2, 2 * (s // 2) + 3]
        for a in range(2):
            transition[s, a, after] = rng.dirichlet(np.ones(len(after)))
    start = np.zeros(n)
    start[:2] = 0.4, 0.6
    behaviour, target = rng.dirichlet(np.ones(2), (2, n))
    features = rng.normal(size=(n, 3))
    features[6] = 0
    return Problem("layered", FiniteMDP(transition, reward, np.arange(n) == 6, start), behaviour, target, features, 0.9)


def listed(problem, lam, trace):
    """(probability, e, d, c) of all steps in all paths; an episode has three steps, so each counts a third."""
    mdp, found = problem.mdp, []
    ratio = {
        "rho": lambda s, a: problem.target[s, a] / problem.behaviour[s, a],
        "clipped": lambda s, a: min(1.0, problem.target[s, a] / problem.behaviour[s, a]),
        "tree": lambda s, a: problem.target[s, a],
    }[trace]
    for first, *moves in itertools.product((0, 1), *[list(itertools.product((0, 1), range(7)))] * 3):
        p, s, e, carried = mdp.start[first], first, np.zeros(3), 0.0
        path = []
        for a, after in moves:
            p *= problem.behaviour[s, a] * mdp.transition[s, a, after]
            if p == 0:
                break
            e = carried * e + problem.features[s]
            gamma = 0.9 * (after != 6)
            rho = problem.target[s, a] / problem.behaviour[s, a]
            d = rho * (gamma * problem.features[after] - problem.features[s])
            path.append((e, d, rho * mdp.reward[s, a, after]))
            carried = gamma * lam * ratio(s, a)
            s = after
        else:
            found += [(p / 3, *step) for step in path]
    return [np.array(column) for column in zip(*found, strict=True)]


PROBLEM = layered()
KINDS = [(0.0, "rho"), (0.7, "rho"), (1.0, "clipped"), (0.9, "tree")]


@pytest.mark.parametrize(("lam", "trace"), KINDS)
def test_law_has_the_moments_of_all_paths(lam, trace):
    p, e, d, c = listed(PROBLEM, lam, trace)
    assert p.sum() == pytest.approx(1.0, abs=1e-13)
    one, known = theory.law(PROBLEM, lam, trace), gradtd.exact(PROBLEM, lam, trace)
    A, b = np.einsum("k,ki,kj->ij", p, e, d), np.einsum("k,ki,k->i", p, e, c)
    for found in (one, known):
        np.testing.assert_allclose(found.A, A, atol=1e-13)
        np.testing.assert_allclose(found.b, b, atol=1e-13)
        np.testing.assert_allclose(found.theta_star, np.linalg.solve(A, -b), atol=1e-10)
    np.testing.assert_allclose(one.C, gradtd.exact(PROBLEM).C, atol=1e-13)
    error = d @ one.theta_star + c
    np.testing.assert_allclose(one.Gamma, np.einsum("k,ki,kj->ij", p * error**2, e, e), atol=1e-12)
    D = e[:, :, None] * d[:, None, :] - A
    np.testing.assert_allclose(one.V_A, np.einsum("k,kij,klj->il", p, D, D), atol=1e-12)
    np.testing.assert_allclose(one.W_A, np.einsum("k,kji,kjl->il", p, D, D), atol=1e-12)
    np.testing.assert_allclose(one.Sigma_A**2, np.einsum("k,kij->ij", p, D**2), atol=1e-12)
    np.testing.assert_allclose(one.Sigma_b**2, p @ (e * c[:, None] - b) ** 2, atol=1e-12)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(("lam", "trace"), KINDS)
def test_second_moment_of_the_update_is_that_of_all_pairs_of_paths(lam, trace, symmetric):
    p, e, d, c = listed(PROBLEM, lam, trace)
    found = moments(theory.law(PROBLEM, lam, trace), 1, symmetric=symmetric)
    rng = np.random.default_rng(3)
    points = rng.normal(size=(2, 3))
    v, M = points.mean(axis=0), points.T @ points / 2
    wanted = np.zeros((3, 3))
    along = e @ e.T
    for delta in points:
        h = d @ (delta + found.theta_star) + c
        g = np.einsum("ia,ij,j->ija", d, along, h)
        if symmetric:
            g = (g + np.einsum("ja,ij,i->ija", d, along, h)) / 2
        wanted += np.einsum("i,j,ija,ijb->ab", p, p, g, g) / 2
    Q = found.basis
    got = found.second_moment(Q.T @ M @ Q, Q.T @ v)
    np.testing.assert_allclose(Q @ got @ Q.T, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("problem", "lam"), [("boyan_chain", 0.8), ("random_walk_dependent", 0.4)])
def test_threshold_rate_and_floor_belong_together(problem, lam):
    one = theory.law(problem, lam)
    alpha = theory.stability_threshold(one, 8, 3)
    assert theory.rate(one, alpha, 8, 3) == pytest.approx(1.0, abs=1e-8)
    assert theory.stability_threshold(one, 3, 8) == pytest.approx(alpha)
    assert theory.floor(one, alpha / 3, 8, 3) > 0
    assert alpha < theory.stability_threshold(problem, 8, 3)


@pytest.mark.parametrize("lam", [0.5, 1.0])
@pytest.mark.parametrize("trace", ["rho", "clipped", "tree"])
@pytest.mark.parametrize(
    "name", ["boyan_chain", "random_walk_tabular", "random_walk_dependent", "random_walk_inverted"]
)
def test_exact_matrices_are_those_of_long_streams(name, trace, lam):
    """Every entry of A and b within 4 standard errors, and all entries of A theta* + b together by chi^2 at 1e-4.

    There are 525 entries: with a new seed one of them would be beyond 4 by chance at most 3.3 % of the time, and one of
    the 24 sums beyond its limit 0.24 % of the time. With seed 8 the largest is 2.3 errors away.
    """
    stream = gradtd.sample(name, 60_000, seed=8)
    one, known = theory.law(stream, lam, trace), gradtd.exact(name, lam, trace)
    steps = stream.steps
    terms = one.phi[:, :, None] * np.hstack([one.d, one.c[:, None]])[:, None, :]
    wanted = np.concatenate([known.A, known.b[:, None]], axis=1)
    sums = np.zeros((stream.n_episodes, *wanted.shape))
    np.add.at(sums, steps["episode"], terms - wanted)
    whole = sums[:-1]
    error = np.sqrt((whole**2).sum(axis=0))
    assert (np.abs(whole.sum(axis=0)) <= 4 * error + 1e-9).all()
    together = whole[:, :, :-1] @ known.theta_star + whole[:, :, -1]
    sizes, directions = np.linalg.eigh(together.T @ together)
    seen = sizes > 1e-9 * sizes[-1]
    apart = (directions[:, seen].T @ together.sum(axis=0)) ** 2 / sizes[seen]
    assert apart.sum() < chi2.isf(1e-4, seen.sum())


def test_empirical_law_of_a_stream_with_traces_is_simulated_as_it_says():
    stream = gradtd.sample("random_walk_dependent", 400, seed=2)
    one = theory.law(stream, 0.8)
    alpha = theory.stability_threshold(one, 8) / 3
    at, runs = [5, 40], 600
    errors = theory.simulate(one, alpha, 8, steps=at, runs=runs, seed=1)
    exact = theory.error_curve(one, alpha, 8, steps=at).error
    assert (np.abs(errors.mean(axis=0) - exact) < 4 * errors.std(axis=0) / np.sqrt(runs)).all()


def test_infinite_variance_is_said_and_refused():
    for name, bound in (("baird", 0.42), ("two_state", 0.744)):
        limit = gradtd.exact(name).traces.finite_below
        assert limit == pytest.approx(bound, abs=1e-3)
        assert gradtd.exact(name, limit - 1e-3).notes == gradtd.exact(name).notes
        assert "infinite variance" in gradtd.exact(name, limit + 1e-3).notes[-1]
        with pytest.raises(InputError, match="infinite variance"):
            theory.law(name, limit + 1e-3)
        assert gradtd.exact(name, 0.9, "tree").traces.finite
        *_, last = theory.lambdas(name, 8, [0, 0.9])
        assert not last.finite_variance
        assert last.alpha_star is last.floor is None
    for name in ("boyan_chain", "random_walk_tabular", "random_walk_inverted", "random_walk_dependent"):
        assert gradtd.exact(name, 1.0).traces.finite


def test_a_trace_that_never_ends_is_refused():
    chain = FiniteMDP(np.ones((1, 1, 1)), np.zeros((1, 1, 1)), np.zeros(1, bool), np.ones(1))
    endless = Problem("endless", chain, np.ones((1, 1)), np.ones((1, 1)), np.ones((1, 1)), 1.0)
    with pytest.raises(InputError, match="grow without bound"):
        TraceLaw(endless, np.ones(1), 1.0).mean  # noqa: B018


def test_bias_falls_with_lambda_where_features_do_not_suffice():
    """The value is that of the TD solution at lam = 0, .4, .8, .95 on random_walk_dependent."""
    found = [row.bias for row in theory.lambdas("random_walk_dependent", 16, [0, 0.4, 0.8, 0.95])]
    np.testing.assert_allclose(found, [0.108, 0.092, 0.083, 0.081], atol=5e-4)
    for row in theory.lambdas("random_walk_tabular", 16, [0, 0.8]):
        assert row.bias < 1e-12


def test_what_holds_without_traces_only_is_refused_with_them():
    one = theory.law("boyan_chain", 0.5)
    for ask in (lambda: theory.printed(one, 8), lambda: theory.ode("td", one)):
        with pytest.raises(InputError, match="lam=0"):
            ask()
    with pytest.raises(InputError, match="law of a long stream"):
        theory.simulate(one, 0.1, 8, steps=3)
    with pytest.raises(InputError, match="has its lam already"):
        theory.law(one, 0.4)
    assert theory.corrected(one, 8).alpha_limit(0.5) <= theory.stability_threshold(one, 8)


def test_measures_belong_to_the_lambda_of_the_run():
    result = gradtd.run("random_walk_dependent", "lstd", runs=2, steps=3000, lam=0.8, threads=1)
    own, other = gradtd.measure(result, "neu"), gradtd.measure(result, "neu", lam=0)
    known = gradtd.exact("random_walk_dependent", 0.8)
    np.testing.assert_allclose(own, ((result.thetas @ known.A.T + known.b) ** 2).sum(axis=-1))
    plain = gradtd.exact("random_walk_dependent")
    np.testing.assert_allclose(other, ((result.thetas @ plain.A.T + plain.b) ** 2).sum(axis=-1))
    np.testing.assert_array_equal(gradtd.measure(result, "rmsve"), gradtd.measure(result, "rmsve", lam=0))
