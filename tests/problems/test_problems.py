"""Problems: known values, and the simulator against the matrices that claim to describe it."""

import itertools

import numpy as np
import pytest
from scipy import stats

import gradtd
from gradtd import InputError
from gradtd.problems import (
    as_problem,
    baird,
    boyan_chain,
    boyan_chain_tdrc,
    collision,
    garnet,
    random_walk,
    random_walk_dependent,
    random_walk_inverted,
    random_walk_tabular,
    star,
    two_state,
)

VARIANTS = {name: make() for name, make in gradtd.PROBLEMS.items()} | {
    "boyan_chain_21": boyan_chain(21),
    "boyan_chain_tdrc_9": boyan_chain_tdrc(9),
    "random_walk_7": random_walk_tabular(7),
    "random_walk_inverted_7": random_walk_inverted(7),
    "random_walk_dependent_19": random_walk_dependent(19),
    "baird_99": baird(0.99),
    "two_state_50": two_state(0.5),
    "garnet_dense_1": garnet(seed=1),
    "garnet_binary_2": garnet(features="binary", seed=2),
    "garnet_small_3": garnet(states=5, actions=2, branching=5, n_features=3, off_policy=1, seed=3),
    "garnet_positive_5": garnet(features="positive", seed=5),
    "star_1": star(n=3, n_features=6, gamma=0.95, seed=1),
    "garnet_on_policy": garnet(states=10, branching=1, off_policy=0, seed=4),
    "collision_1": collision(seed=1),
}
STEPS, BLOCK = 200_000, 1000

# Error rates. A comparison in standard errors uses 200 blocks of 1000 steps (steps of a block are
# correlated, blocks hardly are): |t| > 4.5 has probability 1.2e-5 at 199 degrees of freedom. All problems
# together make about 2300 such comparisons, so a fresh seed would fail somewhere with probability 3 %.
# Chi-square tests fail below p = 1e-6. The seed is fixed.
LIMIT = 4.5
RARE = 1e-6


@pytest.fixture(scope="module", params=VARIANTS)
def sampled(request):
    problem = VARIANTS[request.param]
    return problem, gradtd.exact(problem), gradtd.sample(problem, STEPS, seed=11)


def in_standard_errors(block_means, expected):
    """(mean - expected) / standard error, 0 where both agree exactly and nothing varies."""
    mean = block_means.mean(axis=0)
    error = block_means.std(axis=0, ddof=1) / np.sqrt(len(block_means))
    certain = error < 1e-14
    np.testing.assert_allclose(mean[certain], np.asarray(expected)[certain], atol=1e-12)
    return (mean - expected) / np.where(certain, np.inf, error)


def by_blocks(values):
    return values.reshape(STEPS // BLOCK, BLOCK, *values.shape[1:])


def outcome_law(problem, s):
    """Probability of every (next state, reward, ratio) after state s, by loops over the arrays."""
    law = {}
    mdp = problem.mdp
    for a, after in itertools.product(range(mdp.n_actions), range(mdp.n_states)):
        p = problem.behaviour[s, a] * mdp.transition[s, a, after]
        if p > 0:
            key = (after, mdp.reward[s, a, after], problem.target[s, a] / problem.behaviour[s, a])
            law[key] = law.get(key, 0.0) + p
    return law


def chi_square(observed, expected):
    """Statistic and degrees of freedom, cells expected fewer than 5 times put together."""
    observed, expected = np.asarray(observed, float), np.asarray(expected, float)
    small = expected < 5
    if small.any():
        observed = np.r_[observed[~small], observed[small].sum()]
        expected = np.r_[expected[~small], expected[small].sum()]
        if expected[-1] < 5 and len(expected) > 1:
            observed = np.r_[observed[:-2], observed[-2:].sum()]
            expected = np.r_[expected[:-2], expected[-2:].sum()]
    return ((observed - expected) ** 2 / expected).sum(), len(observed) - 1


@pytest.mark.parametrize("name", VARIANTS)
def test_transitions_policies_and_start_are_probability_laws(name):
    problem = VARIANTS[name]
    for law in (problem.mdp.transition, problem.behaviour, problem.target, problem.mdp.start):
        assert (law >= 0).all()
        np.testing.assert_allclose(law.sum(axis=-1), 1.0, atol=1e-14)
    assert not problem.features[problem.mdp.terminal].any(), "a terminal state is worth nothing"
    assert problem.continuing == (problem.block is not None)


def test_sampled_state_frequencies_are_d_mu(sampled):
    problem, exact, stream = sampled
    visits = by_blocks(stream.steps.row[:, None] == np.arange(problem.mdp.n_states)).mean(axis=1)
    assert np.abs(in_standard_errors(visits, exact.d_mu)).max() < LIMIT


def outcomes(steps):
    """How often (next row, reward, ratio) came after every row: counted by the places of the numbers, which is fast."""
    code = np.zeros(len(steps), np.int64)
    for column in (steps.row, steps.next_row, steps.reward, steps.rho):
        values, place = np.unique(column, return_inverse=True)
        code = code * len(values) + place
    _, first, counts = np.unique(code, return_index=True, return_counts=True)
    seen = {}
    for step, count in zip(steps[first], counts, strict=True):
        seen.setdefault(int(step.row), {})[float(step.next_row), float(step.reward), float(step.rho)] = int(count)
    return seen


def test_sampled_outcomes_follow_the_mdp_arrays(sampled):
    problem, _, stream = sampled
    total, freedom = 0.0, 0
    for s, seen in outcomes(stream.steps).items():
        law = outcome_law(problem, s)
        assert set(seen) <= set(law), "an outcome that the arrays do not know"
        assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)
        value, df = chi_square([seen.get(key, 0) for key in law], [sum(seen.values()) * p for p in law.values()])
        total, freedom = total + value, freedom + df
    assert freedom == 0 or stats.chi2.sf(total, freedom) > RARE


def test_ratios_average_to_one_in_every_state(sampled):
    problem, _, stream = sampled
    rows, rho = stream.steps.row, stream.steps.rho
    for s in np.unique(rows):
        taken = problem.behaviour[s] > 0
        variance = (problem.target[s, taken] ** 2 / problem.behaviour[s, taken]).sum() - 1
        mine = rho[rows == s]
        if variance < 1e-12:
            np.testing.assert_allclose(mine, 1.0, atol=1e-12)
        else:
            assert abs(mine.mean() - 1) < LIMIT * np.sqrt(variance / len(mine))


def test_sampled_A_b_and_C_agree_with_the_exact_ones(sampled):
    problem, exact, stream = sampled
    steps = stream.steps
    x = problem.features[steps.row]
    y = steps.discount[:, None] * problem.features[steps.next_row] - x
    x_blocks, rho_x = by_blocks(x).swapaxes(1, 2), by_blocks(steps.rho[:, None] * x).swapaxes(1, 2)
    for estimate, expected in (
        (rho_x @ by_blocks(y) / BLOCK, exact.A),
        (rho_x @ by_blocks(steps.reward)[:, :, None] / BLOCK, exact.b[:, None]),
        (x_blocks @ by_blocks(x) / BLOCK, exact.C),
    ):
        assert np.abs(in_standard_errors(estimate, expected)).max() < LIMIT


def test_episodes_begin_end_and_go_on_as_the_problem_says(sampled):
    problem, _, stream = sampled
    steps = stream.steps
    ends = problem.mdp.terminal[steps.next_row]
    np.testing.assert_array_equal(steps.discount, np.where(ends, 0.0, problem.gamma))
    np.testing.assert_array_equal(steps.row[1:][~ends[:-1]], steps.next_row[:-1][~ends[:-1]])
    np.testing.assert_array_equal(np.diff(steps.episode), ends[:-1])
    assert steps.episode[0] == 0
    begins = np.r_[True, ends[:-1]]
    counts = np.bincount(steps.row[begins], minlength=problem.mdp.n_states)
    assert not counts[problem.mdp.start == 0].any()
    if begins.sum() > 1:
        started = problem.mdp.start > 0
        value, df = chi_square(counts[started], begins.sum() * problem.mdp.start[started])
        assert df == 0 or stats.chi2.sf(value, df) > RARE


@pytest.mark.parametrize("n", [5, 13, 21])
def test_boyan_values_are_minus_two_i_and_linear_in_the_features(n):
    exact = gradtd.exact(boyan_chain(n))
    np.testing.assert_allclose(exact.v_pi, -2.0 * np.arange(n), atol=1e-12)
    np.testing.assert_allclose(exact.theta_star, -2.0 * np.arange(n - 1, -1, -4), atol=1e-11)
    assert exact.notes == ()


def test_boyan_solution_of_thirteen_states():
    np.testing.assert_allclose(gradtd.exact(boyan_chain()).theta_star, [-24, -16, -8, 0], atol=1e-11)


def test_boyan_features_are_those_of_the_paper():
    features = boyan_chain().features
    assert features.shape == (13, 4)
    np.testing.assert_allclose(features[12], [1, 0, 0, 0])
    np.testing.assert_allclose(features[11], [0.75, 0.25, 0, 0])
    np.testing.assert_allclose(features[6], [0, 0.5, 0.5, 0])
    np.testing.assert_allclose(features[1], [0, 0, 0.25, 0.75])
    np.testing.assert_allclose(features[1:].sum(axis=1), 1.0)


def test_tdrc_boyan_differs_from_boyan_only_at_state_2():
    plain, variant = boyan_chain(), boyan_chain_tdrc()
    others = np.arange(13) != 2
    np.testing.assert_array_equal(plain.mdp.transition[others], variant.mdp.transition[others])
    np.testing.assert_array_equal(plain.features, variant.features)
    np.testing.assert_array_equal(plain.mdp.start, variant.mdp.start)
    reachable = variant.mdp.transition > 0
    np.testing.assert_array_equal(plain.mdp.reward[reachable], variant.mdp.reward[reachable])
    assert plain.mdp.transition[2, 0, 0] == plain.mdp.transition[2, 0, 1] == 0.5
    assert variant.mdp.transition[2, 0, 1] == 1.0
    values = [0.0, -2.0, -5.0]
    for _ in range(3, 13):
        values.append(-3 + (values[-1] + values[-2]) / 2)
    np.testing.assert_allclose(gradtd.exact(variant).v_pi, values, atol=1e-12)


@pytest.mark.parametrize("features", ["tabular", "inverted", "dependent"])
@pytest.mark.parametrize("n", [3, 5, 7, 19])
def test_random_walk_values_are_those_of_the_gamblers_ruin(features, n):
    problem = random_walk(features, n)
    k, odds = np.arange(1, n + 1), 0.4 / 0.6
    win = (1 - odds**k) / (1 - odds ** (n + 1))
    exact = gradtd.exact(problem)
    np.testing.assert_allclose(exact.v_pi[:n], 2 * win - 1, atol=1e-12)
    np.testing.assert_array_equal(exact.v_pi[n:], 0.0)
    # The behaviour is symmetric: it visits k as often as a fair game from the middle does.
    visits = np.minimum(k, n + 1 - k)
    np.testing.assert_allclose(exact.d_mu[:n], visits / visits.sum(), atol=1e-13)
    np.testing.assert_allclose(np.linalg.norm(problem.features[:n], axis=1), 1.0, atol=1e-14)
    assert problem.features.shape == (n + 2, (n + 1) // 2 if features == "dependent" else n)


def test_random_walk_features_of_five_states():
    np.testing.assert_array_equal(random_walk_tabular().features[:5], np.eye(5))
    np.testing.assert_allclose(random_walk_inverted().features[:5], (1 - np.eye(5)) / 2)
    r2, r3 = np.sqrt(1 / 2), np.sqrt(1 / 3)
    dependent = [[1, 0, 0], [r2, r2, 0], [r3, r3, r3], [0, r2, r2], [0, 0, 1]]
    np.testing.assert_allclose(random_walk_dependent().features[:5], dependent)


@pytest.mark.parametrize("gamma", [0.9, 0.99])
def test_baird_is_singular_worth_nothing_and_unstable_for_td(gamma):
    problem = baird(gamma)
    exact = gradtd.exact(problem)
    np.testing.assert_array_equal(exact.v_pi, 0.0)
    np.testing.assert_array_equal(exact.theta_star, 0.0)
    np.testing.assert_allclose(exact.d_mu, 1 / 7, atol=1e-15)
    values = np.linalg.svd(exact.A, compute_uv=False)
    assert values[6] > 1e-3
    assert values[7] < 1e-14
    assert np.linalg.eigvals(exact.A).real.max() > 0.01, "TD must diverge"
    assert len(exact.notes) == 2
    assert "A is singular (rank 7 of 8)" in exact.notes[0]
    assert "C is singular (rank 7 of 8)" in exact.notes[1]
    # Sutton and Barto, figure 11.1: 2 w_i + w_8 in the upper states, w_7 + 2 w_8 in the seventh.
    w = np.arange(1.0, 9.0)
    np.testing.assert_array_equal(problem.features @ w, [*(2 * w[:6] + w[7]), w[6] + 2 * w[7]])
    np.testing.assert_array_equal(problem.theta0, [1, 1, 1, 1, 1, 1, 10, 1])


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.8, 0.85, 0.95])
def test_two_state_A_changes_sign_at_five_sixths(gamma):
    # Each state half of the time, and the target always moves on to feature 2:
    # A = (1 (2 gamma - 1) + 2 (2 gamma - 2)) / 2 = (6 gamma - 5) / 2.
    exact = gradtd.exact(two_state(gamma))
    np.testing.assert_allclose(exact.A, [[(6 * gamma - 5) / 2]], atol=1e-15)
    assert (exact.A[0, 0] > 0) == (gamma > 5 / 6)
    np.testing.assert_allclose(exact.C, [[2.5]])


def test_two_state_at_five_sixths_is_called_singular():
    # A = (6 gamma - 5) / 2 vanishes there, and rounding (1e-16) must not hide it.
    assert any("A is singular" in note for note in gradtd.exact(two_state(5 / 6)).notes)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("n", "d"), [(2, 1), (6, 5), (20, 10)])
def test_td_diverges_on_every_star(n, d, seed):
    problem = star(n, d, seed=seed)
    exact = gradtd.exact(problem)
    assert problem.features.shape == (n + 1, d)
    np.testing.assert_allclose(exact.d_mu, 1 / (n + 1), atol=1e-14)
    assert np.linalg.eigvals(exact.A).real.max() > 0.1 * np.linalg.eigvalsh(exact.C)[-1]
    np.testing.assert_array_equal(problem.features, star(n, d, seed=seed).features)
    assert (problem.features != star(n, d, seed=seed + 1).features).any()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_collision_values_are_powers_of_the_discount(seed):
    problem = collision(seed)
    np.testing.assert_allclose(gradtd.exact(problem).v_pi[:8], 0.9 ** np.arange(7, -1, -1), atol=1e-14)
    rows = problem.features[:8]
    assert set(rows.ravel()) == {0.0, 1.0}
    np.testing.assert_array_equal(rows.sum(axis=1), 3)
    assert len(np.unique(rows, axis=0)) == 8


@pytest.mark.parametrize("kind", ["dense", "binary"])
def test_garnet_features_and_seeds(kind):
    problem = garnet(features=kind, n_features=12, seed=5)
    assert problem.features.shape == (30, 12)
    np.testing.assert_allclose(np.linalg.norm(problem.features, axis=1), 1.0, atol=1e-14)
    assert (problem.features[:, 0] > 0).all()
    same, other = garnet(features=kind, n_features=12, seed=5), garnet(features=kind, n_features=12, seed=6)
    np.testing.assert_array_equal(problem.mdp.transition, same.mdp.transition)
    np.testing.assert_array_equal(problem.features, same.features)
    assert (problem.mdp.transition != other.mdp.transition).any()
    likely = problem.mdp.transition > 0.001 / 30 * 1.0001
    assert (likely.sum(axis=2) == 3).all(), "three successors, and one in a thousand anywhere"


def test_binary_garnet_has_a_quarter_of_its_features_on():
    on = garnet(features="binary", n_features=12, seed=5).features[:, 1:] > 0
    assert set(on.sum(axis=1)) <= {2, 3}, "three are dealt, one of them may be the first, which is always on"


def test_garnet_off_policy_mixes_the_target():
    np.testing.assert_array_equal(garnet(off_policy=0).target, garnet(off_policy=0).behaviour)
    low, high = garnet(off_policy=0.25), garnet(off_policy=1)
    np.testing.assert_array_equal(low.behaviour, high.behaviour)
    np.testing.assert_allclose(low.target, 0.75 * low.behaviour + 0.25 * high.target, atol=1e-15)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: boyan_chain(12), ["4 k + 1", "12"]),
        (lambda: boyan_chain(1), ["between 5 and", "1"]),
        (lambda: boyan_chain(13.5), ["whole number", "13.5"]),
        (lambda: boyan_chain_tdrc(14), ["4 k + 1", "14"]),
        (lambda: random_walk(n=6), ["odd", "6"]),
        (lambda: random_walk(n=1), ["between 3 and", "1"]),
        (lambda: random_walk("one-hot"), ["tabular, inverted, dependent", "one-hot"]),
        (lambda: garnet(states=4, branching=5), ["branching", "between 1 and 4", "5"]),
        (lambda: garnet(states=1), ["states", "between 2 and", "1"]),
        (lambda: garnet(actions=0), ["actions", "between 1 and", "0"]),
        (lambda: garnet(n_features=0), ["n_features", "0"]),
        (lambda: garnet(features="sparse"), ["dense, binary", "sparse"]),
        (lambda: garnet(off_policy=1.5), ["off_policy", "[0, 1]", "1.5"]),
        (lambda: garnet(off_policy="half"), ["off_policy", "number", "half"]),
        (lambda: garnet(seed=-1), ["seed", "-1"]),
        (lambda: garnet(gamma=-0.1), ["gamma", "[0, 1]", "-0.1"]),
        (lambda: star(gamma=0.1), ["diverge", "gamma=0.1", "larger"]),
        (lambda: star(n=1), ["n", "between 2 and", "1"]),
        (lambda: baird(1.1), ["gamma", "[0, 1]", "1.1"]),
        (lambda: baird(float("nan")), ["gamma", "[0, 1]", "nan"]),
        (lambda: two_state(gamma="high"), ["gamma", "high"]),
        (lambda: collision(seed=0.5), ["seed", "0.5"]),
        (lambda: as_problem("boyan_chian"), ["boyan_chian", "did you mean 'boyan_chain'"]),
        (lambda: as_problem(3), ["Problem or a name", "int"]),
    ],
)
def test_a_bad_parameter_is_named_with_what_is_allowed(make, words):
    with pytest.raises(InputError) as caught:
        make()
    for word in words:
        assert word in str(caught.value)


def test_repr_tells_size_and_source():
    assert repr(boyan_chain()) == "Problem(boyan_chain: 13 states, 4 features, gamma 1, episodic; Boyan (2002))"
    assert "continuing" in repr(baird())
