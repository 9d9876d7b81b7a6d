"""The exact mean-square theory against enumeration, simulation and its own invariants."""

import math

import numpy as np
import pytest

import gradtd
from gradtd import InputError, theory
from gradtd.problems import garnet
from gradtd.theory.exact import moments
from naive.theory import batches, estimate, gradients, law_of, mean_square_gradient, simulate, small_law

GARNET = garnet(states=12, actions=3, branching=3, n_features=5, off_policy=0.6, seed=4)
LAWS = {
    "boyan": theory.law("boyan_chain"),
    "walk": theory.law("random_walk_dependent"),
    "baird": theory.law("baird"),
    "garnet": theory.law(GARNET),
}
BIG = theory.law(garnet(states=40, n_features=20, seed=2))
OPTIONS = [
    {},
    {"symmetric": True},
    {"replacement": False},
    {"symmetric": True, "replacement": False},
    {"second": small_law(11)},
]


@pytest.fixture(params=LAWS)
def law(request):
    return LAWS[request.param]


# The recursion -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(("m1", "m2"), [(1, 1), (2, 1), (1, 3), (2, 2)])
def test_second_moment_of_the_update_is_the_enumerated_one(options, m1, m2):
    law, rng = small_law(5), np.random.default_rng(1)
    found = moments(law, m1, m2, **options)
    theta = rng.normal(size=2)
    delta = found.basis.T @ (theta - found.theta_star)
    values = list(gradients(law, theta, m1, m2, **options))
    expected = sum(p * np.outer(g, g) for p, g in values)
    computed = found.basis @ found.second_moment(np.outer(delta, delta), delta) @ found.basis.T
    np.testing.assert_allclose(computed, expected, rtol=1e-10, atol=1e-12)
    mean = sum(p * g for p, g in values)
    np.testing.assert_allclose(found.basis @ found.drift @ delta, mean, rtol=1e-10, atol=1e-12)
    spread = rng.normal(size=(3, 2))
    linear = found.second_moment(spread.T @ spread, np.zeros(2)) - found.noise
    np.testing.assert_allclose(found.quadratic(spread.T @ spread), linear, rtol=1e-9, atol=1e-12)


def test_equations_without_a_solution_are_counted_in():
    """Two features of which d sees one only: theta moves along it, A theta* + b stays away from zero."""
    law = law_of([[1, 0.5], [0.3, 1], [1, -1]], [[-1, 0], [-0.7, 0], [-0.2, 0]], c=[1.0, -2.0, 0.5])
    assert np.abs(law.left_over).max() > 0.1
    found, theta = moments(law, 2, 1), np.array([0.4, 0.0])
    delta = found.basis.T @ (theta - law.theta_star)
    expected = sum(p * np.outer(g, g) for p, g in gradients(law, theta, 2, 1))
    computed = found.basis @ found.second_moment(np.outer(delta, delta), delta) @ found.basis.T
    np.testing.assert_allclose(computed, expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_two_steps_of_the_curve_are_the_enumerated_ones(options):
    law, alpha, m1, m2 = small_law(5), 0.2, 2, 1
    found = moments(law, m1, m2, **options)
    start = np.array([0.7, -1.1])
    after_one = [(p, start - alpha * g) for p, g in gradients(law, start, m1, m2, **options)]
    expected = [
        np.sum((start - found.theta_star) ** 2),
        sum(p * np.sum((x - found.theta_star) ** 2) for p, x in after_one),
        sum(
            p * q * np.sum((x - alpha * g - found.theta_star) ** 2)
            for p, x in after_one
            for q, g in gradients(law, x, m1, m2, **options)
        ),
    ]
    curve = theory.error_curve(law, alpha, m1, m2, steps=2, theta0=start, **options)
    np.testing.assert_allclose(curve.error, expected, rtol=1e-10)
    mean = sum(p * x for p, x in after_one) - found.theta_star
    assert curve.mean_error[1] == pytest.approx(mean @ mean, rel=1e-10)


def test_expected_neu_of_the_curve_is_the_enumerated_one():
    law, start = small_law(5), np.array([0.7, -1.1])
    expected = sum(p * np.sum((law.A @ (start - 0.2 * g) + law.b) ** 2) for p, g in gradients(law, start, 2, 1))
    assert theory.error_curve(law, 0.2, 2, 1, steps=1, theta0=start).neu[1] == pytest.approx(expected, rel=1e-10)


def test_a_whole_buffer_without_replacement_has_no_noise():
    law = small_law(5)
    n = law.n_steps
    assert theory.floor(law, 0.1, n, n, replacement=False) == pytest.approx(0.0, abs=1e-14)
    alpha_star = theory.stability_threshold(law, n, n, replacement=False)
    assert alpha_star == pytest.approx(2 / law.norm_A**2, rel=1e-9)


def test_small_and_large_problems_take_different_roads_to_the_same_numbers(monkeypatch):
    law = LAWS["garnet"]
    alpha = 0.3 * theory.stability_threshold(law, 4, 2)
    for options in ({}, {"symmetric": True}):

        def numbers(options=options):
            found = moments(law, 4, 2, **options)
            curve = theory.error_curve(law, alpha, 4, 2, steps=[3, 60, 400], theta0=np.ones(5), **options)
            return [found.threshold, found.rate(alpha), np.trace(found.stationary(alpha)), *curve.error, *curve.neu]

        direct = numbers()
        with monkeypatch.context() as patch:
            patch.setattr("gradtd.theory.meansquare.DENSE_SPECTRUM", 0)
            patch.setattr("gradtd.theory.meansquare.DENSE_CURVE", 0)
            np.testing.assert_allclose(numbers(), direct, rtol=1e-7)


def test_rows_kept_sparse_give_the_same_numbers(monkeypatch):
    law = LAWS["garnet"]
    alpha_star = theory.stability_threshold(law, 4)
    monkeypatch.setattr("gradtd.theory.support.DENSE_ROWS", 0)
    again = theory.law(GARNET)
    assert theory.stability_threshold(again, 4) == pytest.approx(alpha_star, rel=1e-10)


# Threshold and rate --------------------------------------------------------------------------------------


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(("m1", "m2"), [(1, 1), (3, 20), (32, 32)])
def test_rate_is_one_at_the_threshold(law, m1, m2, symmetric):
    alpha_star = theory.stability_threshold(law, m1, m2, symmetric=symmetric)
    assert theory.rate(law, alpha_star, m1, m2, symmetric=symmetric) == pytest.approx(1.0, abs=1e-9)
    assert theory.rate(law, 0.99 * alpha_star, m1, m2, symmetric=symmetric) < 1
    assert theory.rate(law, 1.01 * alpha_star, m1, m2, symmetric=symmetric) > 1


def test_rate_is_one_at_the_threshold_with_many_features():
    for sizes in ((8, 8), (2, 16)):
        alpha_star = theory.stability_threshold(BIG, *sizes)
        assert theory.rate(BIG, alpha_star, *sizes) == pytest.approx(1.0, abs=1e-7)
        assert theory.rate(BIG, 0.999 * alpha_star, *sizes) < 1 < theory.rate(BIG, 1.001 * alpha_star, *sizes)


def test_threshold_and_rate_are_symmetric_in_the_batch_sizes_and_grow_with_them(law):
    sizes = [1, 3, 10, 40]
    table = np.array([[theory.stability_threshold(law, m1, m2) for m2 in sizes] for m1 in sizes])
    np.testing.assert_allclose(table, table.T, rtol=1e-9)
    assert (np.diff(table, axis=0) > 0).all()
    assert (table < 2 / law.norm_A**2).all()
    alpha = 0.5 * table[0, 2]
    assert theory.rate(law, alpha, 1, 10) == pytest.approx(theory.rate(law, alpha, 10, 1), abs=1e-11)


def test_threshold_tends_to_that_of_the_mean(law):
    assert theory.stability_threshold(law, 10**9) == pytest.approx(2 / law.norm_A**2, rel=1e-5)


def test_floor_is_not_symmetric_and_the_second_batch_matters_most():
    for name in ("boyan", "walk", "garnet"):
        law = LAWS[name]
        alpha = 0.1 * theory.stability_threshold(law, 1, 100)
        assert theory.floor(law, alpha, 1, 100) < 0.3 * theory.floor(law, alpha, 100, 1)


def test_known_value_for_boyans_chain():
    assert 10 / theory.stability_threshold("boyan_chain", 10) == pytest.approx(0.126, abs=5e-4)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_scaled_features_scale_the_answers(scale):
    """phi -> s phi: A -> s^2 A, so alpha* -> alpha* / s^4, and the rate stays."""
    law = LAWS["garnet"]
    phi, d = law.phi, law.d
    steps = np.arange(len(phi))
    table, ones = scale * np.vstack([phi, phi + d]), np.ones(len(phi))
    scaled = theory.Law("scaled", table, steps, len(phi) + steps, law.p, ones, ones, law.c, law.theta0)
    alpha_star = theory.stability_threshold(law, 4)
    assert theory.stability_threshold(scaled, 4) * scale**4 == pytest.approx(alpha_star, rel=1e-8)
    found = theory.rate(scaled, 0.3 * alpha_star / scale**4, 4)
    assert found == pytest.approx(theory.rate(law, 0.3 * alpha_star, 4), rel=1e-10)


def test_rates_below_the_threshold_are_convex_where_batches_are_alike(law):
    alphas = np.linspace(0.02, 1, 25) * theory.stability_threshold(law, 4)
    rates = [theory.rate(law, a, 4) for a in alphas]
    assert (np.diff(rates, 2) > -1e-12).all()


# Monte Carlo ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("name", LAWS)
def test_simulated_error_is_the_exact_one(name, symmetric):
    """Within 4 standard errors at three times: for 8 cases a false alarm once in 650 seeds, and the seed is fixed."""
    law, (m1, m2), at = LAWS[name], (4, 2), [5, 40, 150]
    alpha = 0.1 * theory.stability_threshold(law, m1, m2)
    start = law.theta0 + np.linspace(-1, 1, law.n_features)
    curve = theory.error_curve(law, alpha, m1, m2, steps=at, theta0=start, symmetric=symmetric)
    errors = simulate(law, alpha, m1, m2, theta0=start, steps=at, runs=4000, seed=3, symmetric=symmetric)
    standard_error = errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
    assert (np.abs(errors.mean(axis=0) - curve.error) < 4 * standard_error).all()
    assert (standard_error < 0.1 * curve.error).all()


@pytest.mark.slow
def test_simulated_floor_is_the_exact_one():
    """Random walk, long after the start: within 4 standard errors, once in 16 000 seeds wrong."""
    law = LAWS["walk"]
    alpha = 0.2 * theory.stability_threshold(law, 4)
    errors = simulate(law, alpha, 4, 4, theta0=law.theta_star, steps=[1500], runs=1500, seed=8)[:, 0]
    standard_error = errors.std(ddof=1) / np.sqrt(len(errors))
    assert abs(errors.mean() - theory.floor(law, alpha, 4)) < 4 * standard_error


# Floor, curve and best step-sizes ------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"symmetric": True}], ids=str)
def test_curve_ends_at_the_floor_at_the_rate(options):
    for law in (LAWS["boyan"], LAWS["walk"]):
        alpha = 0.3 * theory.stability_threshold(law, 8, **options)
        low = theory.floor(law, alpha, 8, **options)
        curve = theory.error_curve(law, alpha, 8, steps=[0, 10_000, 1_000_000], **options)
        assert curve.error[-1] == pytest.approx(low, rel=1e-8)
        assert np.trace(theory.stationary(law, alpha, 8, **options)) == pytest.approx(low, rel=1e-12)


def test_without_noise_the_error_shrinks_at_the_rate():
    """Baird has no noise at the solution: no floor, and the error's last factor is rho."""
    law = LAWS["baird"]
    alpha = 0.5 * theory.stability_threshold(law, 16)
    error = theory.error_curve(law, alpha, 16, steps=[200_000, 200_001]).error
    assert theory.floor(law, alpha, 16) == 0
    assert error[1] / error[0] == pytest.approx(theory.rate(law, alpha, 16), rel=1e-8)


def test_beyond_the_threshold_there_is_no_floor():
    alpha_star = theory.stability_threshold("boyan_chain", 4)
    assert theory.floor("boyan_chain", alpha_star, 4) == math.inf
    assert theory.error_curve("boyan_chain", 1.1 * alpha_star, 4, steps=[100_000]).error[0] > 1e12


def test_best_alpha_is_best():
    for law in (LAWS["boyan"], LAWS["garnet"]):
        alpha_star = theory.stability_threshold(law, 8)
        grid = np.geomspace(1e-4, 1, 60) * alpha_star
        fastest = theory.best_alpha(law, 8)
        assert theory.rate(law, fastest, 8) <= min(theory.rate(law, a, 8) for a in grid) + 1e-9
        for horizon in (30, 1000):
            best = theory.best_alpha(law, 8, horizon=horizon)
            errors = [theory.error_curve(law, a, 8, steps=[horizon]).error[0] for a in [best, *grid]]
            assert errors[0] <= min(errors) * (1 + 1e-4)


def test_two_buffers_lead_to_the_solution_of_the_second():
    stream = gradtd.sample("random_walk_dependent", 600, seed=5)
    one, other = (_part(stream, half) for half in (slice(0, 300), slice(300, None)))
    found = moments(one, 8, 8, second=other)
    np.testing.assert_allclose(found.theta_star, np.linalg.solve(other.A, -other.b), rtol=1e-9)
    np.testing.assert_allclose(found.basis @ found.drift @ found.basis.T, one.A.T @ other.A, atol=1e-12)
    alpha_star = theory.stability_threshold(one, 8, second=other)
    assert theory.rate(one, alpha_star, 8, second=other) == pytest.approx(1, abs=1e-9)
    end = theory.error_curve(one, 0.2 * alpha_star, 8, steps=[500_000], second=other)
    assert end.error[0] == pytest.approx(theory.floor(one, 0.2 * alpha_star, 8, second=other), rel=1e-7)
    assert end.mean_error[0] < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(("size", "low", "high"), [(25, 0.1, 0.35), (100, 0.0, 0.0)])
def test_two_small_buffers_may_be_unstable_for_every_step_size(size, low, high):
    """Garnet, 100 pairs of buffers of independent steps: with 25 each A1'A2 has a bad eigenvalue in a fifth of them."""
    law, rng, unstable = theory.law("garnet"), np.random.default_rng(0), 0
    for _ in range(100):
        one, other = (rng.choice(len(law.p), size, p=law.p) for _ in range(2))
        one, other = (law_of(law.phi[k], law.d[k], law.c[k]) for k in (one, other))
        alpha_star = theory.stability_threshold(one, 4, second=other)
        assert (alpha_star == 0) == (np.linalg.eigvals(one.A.T @ other.A).real.min() <= 0)
        unstable += alpha_star == 0
    assert low <= unstable / 100 <= high


def test_no_step_size_for_buffers_that_disagree():
    one, other = law_of([[1.0], [1.0]], [[-1.0], [-0.5]]), law_of([[1.0], [1.0]], [[1.0], [0.5]])
    assert theory.stability_threshold(one, 2, second=other) == 0
    assert theory.floor(one, 0.1, 2, second=other) == math.inf
    with pytest.raises(InputError, match="no step-size is stable: A1'A2 has an eigenvalue"):
        theory.best_alpha(one, 2, second=other)


def _part(stream, chosen):
    return theory.law(gradtd.Stream(stream.features, stream.steps[chosen], "part"))


def test_empirical_law_tends_to_the_exact_one():
    exact, empirical = LAWS["walk"], theory.law(gradtd.sample("random_walk_dependent", 200_000, seed=2))
    assert empirical.n_steps == 200_000
    np.testing.assert_allclose(empirical.A, exact.A, atol=5e-3)
    assert abs(empirical.S / exact.S - 1) < 0.02
    ratio = theory.stability_threshold(empirical, 8) / theory.stability_threshold(exact, 8)
    assert ratio == pytest.approx(1, abs=0.03)


def test_sparse_and_dense_streams_have_the_same_law():
    import scipy.sparse

    stream = gradtd.sample("boyan_chain", 500)
    sparse = gradtd.Stream(scipy.sparse.csr_array(stream.features), stream.steps)
    assert theory.stability_threshold(sparse, 4) == theory.stability_threshold(stream, 4)


# The law's moments ---------------------------------------------------------------------------------------


def test_moments_of_the_law_are_the_enumerated_ones(law):
    phi, d, c, p, e = law.phi, law.d, law.c, law.p, law.e
    np.testing.assert_allclose(d, law.rho[:, None] * (law.discount[:, None] * law.phi_next - phi), atol=1e-14)
    each = phi[:, :, None] * d[:, None, :]
    centred = each - law.A
    expected = {
        "A": np.einsum("k,kij->ij", p, each),
        "b": np.einsum("k,ki,k->i", p, phi, c),
        "Gamma": np.einsum("k,ki,kj,k->ij", p, phi, phi, e**2),
        "V_A": np.einsum("k,kij,klj->il", p, centred, centred),
        "W_A": np.einsum("k,kij,kil->jl", p, centred, centred),
        "Sigma_A": np.sqrt(np.einsum("k,kij->ij", p, centred**2)),
        "Sigma_b": np.sqrt(np.einsum("k,ki->i", p, (phi * c[:, None] - law.b) ** 2)),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(law, name), value, rtol=1e-9, atol=1e-10, err_msg=name)
    assert law.S == pytest.approx(np.trace(law.V_A)) == pytest.approx(np.trace(law.W_A))


def test_the_law_of_a_problem_has_its_exact_matrices():
    for name in ("boyan_chain", "baird", "collision"):
        exact, law = gradtd.exact(name), theory.law(name)
        np.testing.assert_allclose(law.A, exact.A, atol=1e-14)
        np.testing.assert_allclose(law.b, exact.b, atol=1e-14)
        np.testing.assert_allclose(law.theta_star, exact.theta_star, atol=1e-9)


def test_batches_of_the_twin_are_probabilities():
    law = small_law(5)
    assert sum(p for p, _ in batches(law, 2)) == pytest.approx(1)
    assert sum(p for p, _ in batches(law, 2, replacement=False)) == pytest.approx(1)
    np.testing.assert_allclose(sum(p * estimate(law, k)[0] for p, k in batches(law, 3)), law.A)
    assert mean_square_gradient(law, np.zeros(2), 1, 1) > 0


# Bad input -----------------------------------------------------------------------------------------------


def test_bad_input_gets_a_sentence():
    law = LAWS["boyan"]
    short = gradtd.Stream.from_arrays(
        features=np.eye(2), row=[0], next_row=[1], reward=[1], discount=[0.9], episode=[0]
    )
    nothing = gradtd.Stream.from_arrays(
        features=np.zeros((2, 2)), row=[0, 1], next_row=[1, 0], reward=[1, 1], discount=0.9, episode=[0, 0]
    )
    for call, message in [
        (lambda: theory.law("boyan_chian"), "did you mean 'boyan_chain'"),
        (lambda: theory.law(3), "must be a Problem or a name"),
        (lambda: theory.law(short), "at least 2 steps (no fewer than features), and stream has 1"),
        (lambda: theory.law(nothing), "nothing to learn"),
        (lambda: theory.stability_threshold(law, 0), "m1 must be at least 1, got 0"),
        (lambda: theory.stability_threshold(law, 1, 1.5), "m2 must be a whole number"),
        (lambda: theory.floor(law, 0, 1), "alpha must be greater than 0, got 0"),
        (lambda: theory.rate(law, -1, 1), "alpha must be greater than 0, got -1"),
        (lambda: theory.rate(law, 1, 1, replacement=False), "needs the law of a stream"),
        (
            lambda: theory.rate(small_law(1), 1, 9, replacement=False),
            "m1 (without replacement) must be between 1 and 4",
        ),
        (lambda: theory.error_curve(law, 1, 1, steps=[3, 2]), "increasing numbers"),
        (lambda: theory.error_curve(law, 1, 1, steps=3, theta0=[1]), "theta0 needs 4 entries, got 1"),
        (lambda: theory.rate(law, 1, 1, symmetric=True, second=law), "cannot be combined"),
        (lambda: theory.rate(law, 1, 1, second="baird"), "same features, got 4 and 8"),
    ]:
        with pytest.raises(InputError) as caught:
            call()
        assert message in str(caught.value)
        assert str(caught.value).endswith(".")


def test_features_that_depend_on_each_other_are_named():
    """phi has one direction, d two: theta drifts where A does not see it."""
    law = law_of([[1, 0], [1, 0], [1, 0]], [[-1, 0.3], [-0.5, -0.2], [-1, 0.1]])
    assert law.blind
    assert "rank 1 of 2" in law.notes[0]
    with pytest.raises(InputError, match="theta moves in 2 directions, but A has rank 1"):
        theory.stability_threshold(law, 4)


def test_baird_is_restricted_to_the_directions_it_moves_in():
    law = LAWS["baird"]
    assert (law.rank, law.dimension, law.blind) == (7, 7, False)
    assert "A has rank 7 of 8" in law.notes[0]
    assert law.mu == pytest.approx(0.0011, abs=1e-4)


# Curves from Krylov spaces -------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.5, 1.02])
@pytest.mark.parametrize("dimensions", [(30, 45, 70, 100, 150, 220), (10, 20, 30)], ids=str)
def test_curves_in_pieces_are_those_of_plain_iteration(monkeypatch, share, dimensions):
    """With few dimensions the curve needs several pieces, or is left to plain iteration; the numbers are the same."""
    alpha, at = share * theory.stability_threshold(BIG, 4), [0, 7, 150, 1999, 3000]
    monkeypatch.setattr("gradtd.theory.meansquare.DENSE_CURVE", 0)
    monkeypatch.setattr("gradtd.theory.meansquare.DIMENSIONS", dimensions)
    quick = theory.error_curve(BIG, alpha, 4, steps=at, theta0=np.ones(20))
    monkeypatch.setattr("gradtd.theory.meansquare.power_curves", lambda *arguments: None)
    plain = theory.error_curve(BIG, alpha, 4, steps=at, theta0=np.ones(20))
    np.testing.assert_allclose(quick.error, plain.error, rtol=1e-7)
    np.testing.assert_allclose(quick.neu, plain.neu, rtol=1e-7)


def test_powers_of_a_matrix_without_forming_them():
    from gradtd.theory.meansquare import power_curves

    rng = np.random.default_rng(0)
    turned = np.linalg.qr(rng.normal(size=(400, 400)))[0]
    values = np.r_[np.linspace(-0.3, 0.999, 399), 1.0]
    T, start, rows = (turned * values) @ turned.T, rng.normal(size=400), rng.normal(size=(2, 400))
    steps, calls = [0, 3, 500, 20_000], []

    def apply(z):
        calls.append(1)
        return T @ z

    expected = [rows @ (turned * values**t) @ (turned.T @ start) for t in steps]
    np.testing.assert_allclose(power_curves(apply, start, rows, steps), np.array(expected).T, rtol=1e-6)
    assert len(calls) < 1500
    assert power_curves(lambda z: z * np.nan, start, rows, steps) is None
