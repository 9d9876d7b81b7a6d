"""The printed and the corrected layer: closed forms against enumeration, bounds against the exact theory."""

import math

import numpy as np
import pytest

import gradtd
from gradtd import InputError, theory
from gradtd.problems import garnet
from naive.theory import COUNTEREXAMPLE, gradients, law_of, mean_square_gradient, small_law

NAMES = ["boyan_chain", "random_walk_tabular", "random_walk_inverted", "random_walk_dependent", "baird", "collision"]
LAWS = {name: theory.law(name) for name in NAMES}
LAWS["garnet"] = theory.law(garnet(states=12, actions=3, branching=3, n_features=5, off_policy=0.6, seed=4))
SIZES = [(1, 1), (1, 20), (20, 1), (32, 32)]


@pytest.fixture(params=LAWS)
def law(request):
    return LAWS[request.param]


# As printed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m1", "m2"), [(1, 1), (2, 1), (1, 3)])
def test_constants_are_the_formulas(m1, m2):
    law = small_law(5)
    found = theory.printed(law, m1, m2)
    each = law.phi[:, :, None] * law.d[:, None, :]
    var_A = np.einsum("k,kij->ij", law.p, (each - law.A) ** 2)
    var_b = law.p @ (law.phi * law.c[:, None] - law.b) ** 2
    S, a = var_A.sum(), np.linalg.norm(law.A, 2) ** 2
    mu = np.linalg.svd(law.A, compute_uv=False)[-1] ** 2
    solution = np.linalg.solve(law.A, -law.b)
    expected = {
        "S": S,
        "norm_A": math.sqrt(a),
        "mu": mu,
        "L1": 4 * (S / m1 + a),
        "L2": S / m2,
        "L": 4 * (S / m1 + a) + S / m2,
        "lam": 2 * S**2 / (m1 * m2),
        "sigma2": 16 * (S / m1 + a) * (S / m2 * solution @ solution + var_b.sum() / m2),
        "m_paper": math.ceil(S / (math.sqrt(2 * mu) * math.sqrt(a))),
        "m_text": math.ceil(S / (math.sqrt(2 * mu) * a)),
    }
    for name, value in expected.items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-10), name


def test_l_max_is_the_largest_over_all_pairs(law):
    phi, d = law.phi, law.d
    lengths = np.linalg.norm(d, axis=1)
    pairs = lengths[:, None] * np.abs(phi @ phi.T) * lengths[None, :]
    assert theory.printed(law, 1).L_max == pytest.approx(pairs.max(), rel=1e-12)


@pytest.mark.parametrize(("m1", "m2"), [(1, 1), (2, 1), (1, 3)])
def test_least_variance_is_the_enumerated_minimum(m1, m2):
    from scipy.optimize import minimize

    law = small_law(5)

    def variance(theta):
        values = list(gradients(law, theta, m1, m2))
        mean = sum(p * g for p, g in values)
        return sum(p * np.sum((g - mean) ** 2) for p, g in values)

    found = theory.printed(law, m1, m2)
    least = minimize(variance, law.theta_star, tol=1e-12)
    assert found.sigma_v2_batch == pytest.approx(least.fun, rel=1e-6)
    assert found.sigma_v2_batch < variance(law.theta_star) * 0.999, "attained at theta* after all"
    assert found.sigma_v2 == theory.printed(law, 1).sigma_v2_batch


def test_variance_of_the_update_splits_into_three_parts():
    """Var g = z10/m1 + z01/m2 + z11/(m1 m2): the m1 m2 pairs are not independent; at theta* z10 vanishes."""
    law = small_law(5)
    phi, d, p = law.phi, law.d, law.p
    for theta in (np.array([0.3, -0.8]), law.theta_star):
        u_each = phi * (d @ theta + law.c)[:, None]
        u = p @ u_each
        g0 = law.A.T @ u
        z10 = p @ ((d**2).sum(axis=1) * (phi @ u) ** 2) - g0 @ g0
        z01 = p @ ((u_each @ law.A) ** 2).sum(axis=1) - g0 @ g0
        pair = np.einsum("i,j,i,ij->", p, p, (d**2).sum(axis=1), (phi @ u_each.T) ** 2)
        z11 = pair - g0 @ g0 - z10 - z01
        for m1, m2 in ((1, 1), (2, 1), (1, 2), (2, 3)):
            enumerated = mean_square_gradient(law, theta, m1, m2) - g0 @ g0
            assert enumerated == pytest.approx(z10 / m1 + z01 / m2 + z11 / (m1 * m2), rel=1e-9)
    assert z10 == pytest.approx(0, abs=1e-12)
    assert z01 > 1e-3


def test_printed_lemma_fails_on_the_counterexample_and_the_corrected_one_holds():
    found = theory.printed(COUNTEREXAMPLE, 1000)
    check = found.smoothness()
    assert not check.holds
    assert check.worst_ratio == pytest.approx(7.68, abs=0.01)
    np.testing.assert_allclose(np.abs(check.at), [0, 1], atol=1e-9)
    assert theory.corrected(COUNTEREXAMPLE, 1000).smoothness().holds
    # The same by hand, along e2: E|g|^2 is at least E|A' D2 e2|^2.
    law, e2 = COUNTEREXAMPLE, np.array([0.0, 1.0])
    along = law.A @ e2
    steps = zip(law.p, law.phi, law.d, strict=True)
    noise = sum(p * np.sum((law.A.T @ (np.outer(x, y) - law.A) @ e2) ** 2) for p, x, y in steps)
    assert noise / 1000 > 2 * found.L * along @ along + found.lam


def test_the_spectral_norm_of_the_deviations_is_not_enough():
    """E|A_1 - A|^2 exceeds the square of the spectral norm of Sigma_A, so the norm must be Frobenius'."""
    law = law_of(np.eye(3), np.eye(3))
    centred = law.phi[:, :, None] * law.d[:, None, :] - law.A
    mean = np.mean([np.linalg.norm(D, 2) ** 2 for D in centred])
    assert mean > np.linalg.norm(law.Sigma_A, 2) ** 2
    assert mean <= law.S


def test_smoothness_is_checked_exactly():
    """On a grid of theta the verdict and the worst ratio are those of the enumerated second moment."""
    law, m1, m2 = small_law(5), 2, 1
    for found, factor in ((theory.printed(law, m1, m2), 2.0), (theory.corrected(law, m1, m2), 1.0)):
        ratios = []
        for x in np.linspace(0, np.pi, 181):
            delta = 1e5 * np.array([np.cos(x), np.sin(x)])
            left = mean_square_gradient(law, law.theta_star + delta, m1, m2)
            neu = np.sum((law.A @ delta) ** 2)
            ratios.append(left / (factor * found.L * neu + found.lam * delta @ delta + found.sigma2))
        assert found.smoothness().worst_ratio == pytest.approx(max(ratios), rel=1e-3)
        assert found.smoothness().holds


@pytest.mark.parametrize(("m1", "m2"), SIZES)
def test_on_the_papers_problems_the_loose_constants_of_the_printed_lemma_hold(law, m1, m2):
    found = theory.printed(law, m1, m2)
    assert found.smoothness().holds
    assert found.smoothness(half=True).holds


def test_theorem_1_is_not_stable_with_single_steps_and_reaches_zero():
    found = theory.printed("boyan_chain", 1)
    assert found.alpha_theorem_1 > theory.stability_threshold("boyan_chain", 1)
    late = [found.theorem_1(1.0, t) for t in (1, 10, 10**6, 10**12)]
    assert late[0] > late[1] > late[2]
    assert late[3] == 0.0
    noisy = theory.error_curve("boyan_chain", 1.0, 1, steps=100_000)
    assert noisy.neu.min() > 0
    with pytest.raises(InputError, match="Theorem 1 needs alpha <= 2 / L_max = 4"):
        found.theorem_1(5.0, 10)


def test_theorem_1_is_its_formula():
    found = theory.printed("boyan_chain", 4, 2)
    f0 = np.sum(found.law.b**2)
    expected = 2 * f0 / (50 * 1.5 * (2 - 1.5 * found.L_max) * found.mu) - found.sigma_v2 / (8 * found.mu)
    assert found.theorem_1(1.5, 50) == pytest.approx(expected)


def test_theorem_2_and_its_conditions():
    found = theory.printed("boyan_chain", 32)
    alpha = found.alpha_paper
    assert alpha == pytest.approx(1 / (5 * found.S / 32 + 4 * found.norm_A**2))
    assert found.linear
    assert found.q(alpha) == pytest.approx(1 - (found.mu - found.lam / found.L) * alpha)
    assert theory.rate("boyan_chain", alpha, 32) < found.q(alpha) < 1
    assert theory.floor("boyan_chain", alpha, 32) < found.bias(alpha) < math.inf
    small = theory.printed("boyan_chain", 1)
    assert not small.linear
    assert small.bias(small.alpha_paper) == math.inf
    with pytest.raises(InputError, match="Theorem 2 needs alpha <= 1/L"):
        found.q(2 * alpha)


def test_theorem_2_with_the_variance_of_one_pair_would_have_a_negative_bias():
    found = theory.printed("random_walk_dependent", 32)
    assert found.sigma2 < found.sigma_v2
    assert found.bias(found.alpha_paper) > 0


def test_table_1_has_the_printed_entries():
    found, t = theory.printed("random_walk_dependent", 32), 1000
    S, a = found.S, found.norm_A**2
    rows = {row.algorithm: row for row in found.table_1(t)}
    assert list(rows) == ["impression_gtd", "expected_gtd", "at_td", "r1_gtd"]
    expected = {
        "impression_gtd": (4 * S / 32, S / 32, 2 * S**2 / 32**2, 1 / 32),
        "expected_gtd": (8 * S / t, 2 * S / t, 8 * S**2 / t**2, 4 / t**2),
        "at_td": (4 * S / t, S, 2 * S**2 / t, 1 / t),
        "r1_gtd": (4 * S, S / t, 2 * S**2 / t, 1 / t),
    }
    for name, (L1, L2, lam, share) in expected.items():
        row = rows[name]
        got = (row.L1 - 4 * a, row.L2, row.lam, row.bias / (row.alpha**2 * found.sigma_v2))
        np.testing.assert_allclose(got, (L1, L2, lam, share), rtol=1e-9)
        assert row.alpha <= row.alpha_limit
        assert row.q < 1
    assert all(row.alpha == 1e-3 for row in found.table_1(t, 1e-3))


def test_r1_gtd_is_not_faster_than_at_td():
    """Printed: A'TD is slower than R1-GTD. In the paper's model their rates are equal, and R1's floor is lower."""
    t = 200
    rows = {row.algorithm: row for row in theory.printed("boyan_chain", 32).table_1(t)}
    assert rows["at_td"].q != rows["r1_gtd"].q
    alpha = 0.3 * theory.stability_threshold("boyan_chain", t, 1)
    at, r1 = theory.rate("boyan_chain", alpha, t, 1), theory.rate("boyan_chain", alpha, 1, t)
    assert at == pytest.approx(r1, abs=1e-12)
    assert theory.floor("boyan_chain", alpha, 1, t) < 0.2 * theory.floor("boyan_chain", alpha, t, 1)


def test_notes_say_what_is_false():
    notes = " ".join(theory.printed("baird", 10).notes)
    for word in (
        "Theorem 1: not proven",
        "|Hx| = |H'x|",
        "alpha too many",
        "R1-GTD is not faster",
        "rank 7 of 8",
    ):
        assert word in notes


# Corrected -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m1", "m2"), SIZES)
def test_lemma_a_holds_and_its_factor_is_above_the_true_one(law, m1, m2):
    found = theory.corrected(law, m1, m2)
    assert found.smoothness().holds
    alpha = 0.5 * found.alpha_lemma_a
    assert found.alpha_lemma_a <= theory.stability_threshold(law, m1, m2)
    assert theory.rate(law, alpha, m1, m2) <= found.q_lemma_a(alpha) + 1e-12 <= 1 + 1e-12


@pytest.mark.parametrize("s", [0.0, 0.25, 0.5, 1.0])
@pytest.mark.parametrize(("m1", "m2"), SIZES)
def test_theorem_c_is_below_the_threshold_and_above_the_rate(law, m1, m2, s):
    found = theory.corrected(law, m1, m2)
    assert found.alpha_limit(s) <= theory.stability_threshold(law, m1, m2) * (1 + 1e-9)
    assert found.kappa(s) <= found.kappa_bound(s) * (1 + 1e-9)
    alpha = 0.6 * found.alpha_limit(s)
    assert theory.rate(law, alpha, m1, m2) <= found.q(alpha, s) + 1e-12


def test_kappa_is_the_enumerated_one():
    law, m1, m2 = small_law(5), 2, 1
    from naive.theory import batches, estimate

    B, found = law.B, theory.corrected(law, m1, m2)
    values, vectors = np.linalg.eigh(B)
    for s in (0.0, 0.5, 1.0):
        P = (vectors * values**-s) @ vectors.T
        lifted = sum(
            p * q * estimate(law, j)[0].T @ estimate(law, i)[0] @ P @ estimate(law, i)[0].T @ estimate(law, j)[0]
            for p, i in batches(law, m1)
            for q, j in batches(law, m2)
        )
        root = (vectors * values ** (-(1 - s) / 2)) @ vectors.T
        assert found.kappa(s) == pytest.approx(np.linalg.eigvalsh(root @ lifted @ root)[-1], rel=1e-9)
    noise = sum(p * estimate(law, i)[0].T @ law.Gamma @ estimate(law, i)[0] for p, i in batches(law, m1)) / m2
    basis = found.moments.basis
    np.testing.assert_allclose(basis @ found.N @ basis.T, noise, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("m1", "m2"), SIZES)
def test_theorem_c_bounds_the_exact_curve(law, m1, m2):
    found = theory.corrected(law, m1, m2)
    at = [0, 1, 10, 300, 20_000]
    alpha = 0.4 * found.alpha_limit(0.0)
    exact = theory.error_curve(law, alpha, m1, m2, steps=at, theta0=law.theta0 + 1)
    for k, t in enumerate(at):
        assert exact.error[k] <= found.rate_bound(alpha, t, law.theta0 + 1, s=0.0) * (1 + 1e-9)
    alpha = 0.4 * found.alpha_limit(0.5)
    exact = theory.error_curve(law, alpha, m1, m2, steps=at, theta0=law.theta0 + 1)
    for k, t in enumerate(at):
        assert exact.error[k] <= found.error_bound(alpha, t, law.theta0 + 1) * (1 + 1e-9)


def test_corollary_d_on_every_problem_and_on_garnets(law):
    """From the printed batch size on, the printed step-size contracts."""
    for one in (law, *(theory.law(garnet(states=15, n_features=4, off_policy=1.0, seed=k)) for k in range(3))):
        m = theory.corrected(one, 1).m_sufficient
        assert m == theory.printed(one, 1).m_paper
        for size in (m, 2 * m):
            found, print_ = theory.corrected(one, size), theory.printed(one, size)
            assert found.corollary_d
            assert found.kappa(0.5) <= 5.83 * one.norm_A**2
            assert print_.alpha_paper < found.alpha_limit(0.5)
            assert theory.rate(one, print_.alpha_paper, size) < 1


@pytest.mark.parametrize(("m1", "m2"), SIZES)
def test_theorem_e_is_above_the_exact_floor(law, m1, m2):
    found = theory.corrected(law, m1, m2)
    for share in (0.01, 0.3, 0.9):
        alpha = share * found.alpha_limit(1.0)
        exact = theory.floor(law, alpha, m1, m2)
        assert exact <= found.floor_bound(alpha) * (1 + 1e-9) + 1e-300
    small = 1e-5 * found.alpha_limit(1.0)
    assert found.floor_bound(small) == pytest.approx(theory.floor(law, small, m1, m2), rel=1e-3)


@pytest.mark.parametrize(("m1", "m2"), SIZES)
def test_theorem_f_is_above_the_mean_neu(law, m1, m2):
    found = theory.corrected(law, m1, m2)
    alpha = 0.4 / found.kappa(0.0)
    neu = theory.error_curve(law, alpha, m1, m2, steps=2000).neu
    for t in (1, 20, 2000):
        assert neu[:t].mean() <= found.neu_bound(alpha, t) * (1 + 1e-9)


def test_bounds_refuse_step_sizes_they_do_not_cover():
    found = theory.corrected("boyan_chain", 4)
    for call, message in [
        (lambda: found.q(1e3), "alpha < 2 / kappa_s"),
        (lambda: found.floor_bound(1e3), "alpha < 2 / kappa_1"),
        (lambda: found.neu_bound(1e3, 5), "alpha < 1 / kappa_0"),
        (lambda: found.kappa(2.0), r"s must be a number in \[0, 1\]"),
        (lambda: theory.corrected("boyan_chain", 0), "m1 must be at least 1, got 0"),
        (lambda: theory.printed("boyan_chain", 1, 0), "m2 must be at least 1, got 0"),
    ]:
        with pytest.raises(InputError, match=message):
            call()
    unsolvable = law_of([[1, 0.5], [0.3, 1], [1, -1]], [[-1, 0], [-0.7, 0], [-0.2, 0]], c=[1.0, -2.0, 0.5])
    with pytest.raises(InputError, match="need TD equations with a solution"):
        theory.corrected(unsolvable, 4)


def test_expected_gtd_with_two_halves_follows_the_law_of_lstd():
    """Not O(1/t^2): the error of -A2^{-1} b2 with n steps each is tr(A^{-1} Gamma A^{-T}) / n, 2/t of it in all.

    600 samples of n = 4000 steps: 4 standard errors and 3 % for the terms beyond 1/n; once in 16 000 seeds wrong.
    """
    law, rng, n = theory.law("random_walk_dependent"), np.random.default_rng(6), 4000
    inverse = np.linalg.inv(law.A)
    expected = np.trace(inverse @ law.Gamma @ inverse.T) / n
    errors = []
    for _ in range(600):
        count = rng.multinomial(n, law.p / law.p.sum()) / n
        A = np.einsum("k,ki,kj->ij", count, law.phi, law.d)
        b = np.einsum("k,ki,k->i", count, law.phi, law.c)
        errors.append(np.sum((np.linalg.solve(A, -b) - law.theta_star) ** 2))
    standard_error = np.std(errors, ddof=1) / math.sqrt(len(errors))
    assert abs(np.mean(errors) - expected) < 4 * standard_error + 0.03 * expected


def test_theory_is_part_of_the_package():
    assert gradtd.theory is theory
