"""Sparse equations have the solution of dense ones, whichever way they are solved."""

import numpy as np
import pytest
import scipy.sparse

from gradtd.core.stream import Stream
from gradtd.evaluation.estimators.bootstrap import draw_resamples
from gradtd.evaluation.estimators.importance_sampling import double_rl
from gradtd.evaluation.estimators.least_squares import can_refit, refit_least_squares, start_features
from gradtd.evaluation.estimators.solvers import Solver, SparseSolver, band, krylov, solved_each, solver_of
from naive.evaluation import solved


def cells_stream(seed, states=30, episodes=60, gamma=0.97, longest=12):
    """One-hot states, sparse; some ratios 0, some episodes cut off, some states never left, one never met."""
    rng = np.random.default_rng(seed)
    length = rng.integers(1, longest, episodes)
    n = int(length.sum())
    row, next_row = rng.integers(0, states - 2, n), rng.integers(0, states - 1, n)
    ends = np.cumsum(length) - 1
    inside = np.setdiff1d(np.arange(n - 1), ends)
    next_row[inside] = row[inside + 1]
    rho = rng.choice([0.0, 0.5, 1.0, 2.5], n)
    rho[row == 3] = 0.0  # an equation that is empty
    discount = np.full(n, gamma)
    discount[ends[rng.random(episodes) < 0.7]] = 0.0
    return Stream.from_arrays(
        features=scipy.sparse.csr_array(np.eye(states)),
        row=row,
        next_row=next_row,
        reward=rng.normal(size=n) + row / states,
        discount=discount,
        rho=rho,
        episode=np.repeat(np.arange(episodes), length),
    )


def as_dense(stream):
    return Stream(stream.features.toarray(), stream.steps)


@pytest.mark.parametrize("seed", range(4))
def test_cells_have_the_value_error_and_refits_of_dense_features(seed):
    stream = cells_stream(seed)
    sparse, dense = solved(stream), solved(as_dense(stream))
    assert not isinstance(sparse.sums.A, np.ndarray)
    assert "BiCGSTAB" in sparse.how
    assert dense.how == "a dense factorisation"
    assert sparse.value == pytest.approx(dense.value, rel=1e-9)
    assert sparse.error == pytest.approx(dense.error, rel=1e-9)
    assert sparse.theta == pytest.approx(dense.theta, rel=1e-9, abs=1e-9)
    assert sparse.left == pytest.approx(dense.left, rel=1e-9, abs=1e-9)
    assert sparse.singular == dense.singular > 0
    assert sparse.theta[3] == 0
    begins = stream.begins
    drawn = draw_resamples(len(begins) - 1, 20, 1)
    assert can_refit(stream, sparse, 20)
    found = refit_least_squares(stream, start_features(stream, begins), begins, drawn, sparse)
    wanted = refit_least_squares(as_dense(stream), start_features(as_dense(stream), begins), begins, drawn, dense)
    assert found == pytest.approx(wanted, rel=1e-9)
    assert np.ptp(wanted) > 0.01  # resamples differ, so that equal refits mean something
    ours = double_rl(stream, start_features(stream, begins), begins, sparse)
    theirs = double_rl(as_dense(stream), start_features(as_dense(stream), begins), begins, dense)
    assert (ours.value, ours.error) == pytest.approx((theirs.value, theirs.error), rel=1e-9)


def hard_matrix(n, wide):
    """A cycle, which no Krylov method finds its way through; with a second one across it, no band holds it."""
    rng = np.random.default_rng(0)
    cycle = scipy.sparse.csr_array((np.ones(n), (np.arange(n), np.roll(np.arange(n), 1))), shape=(n, n))
    across = scipy.sparse.csr_array((np.full(n, 0.3), (np.arange(n), rng.permutation(n))), shape=(n, n))
    return (cycle + across).tocsr() if wide else cycle


@pytest.mark.parametrize(
    ("n", "wide", "how"),
    [(500, True, "a dense factorisation"), (2000, False, "a sparse LU factorisation"), (20_000, True, "LSMR")],
)
def test_every_other_way_has_the_same_solution(n, wide, how):
    """Where the Krylov method does not arrive: factored densely, sparsely, or by LSMR."""
    A, wanted = hard_matrix(n, wide), np.random.default_rng(1).normal(size=n)
    solver = SparseSolver(A, scipy.sparse.identity(n, format="csr"))
    assert solver.solve(A @ wanted) == pytest.approx(wanted, rel=1e-6, abs=1e-6)
    assert solver.solve(A.T @ wanted, transposed=True) == pytest.approx(wanted, rel=1e-6, abs=1e-6)
    assert how in solver.how


def ring_stream(states=300, rounds=60):
    """A ring of states that is walked around, each episode a little further, with hardly any discount."""
    length = np.random.default_rng(0).integers(states // 2, 2 * states, rounds)
    at = np.concatenate([(np.arange(n) + 7 * e) % states for e, n in enumerate(length)])
    rng, n = np.random.default_rng(1), len(at)
    return Stream.from_arrays(
        features=scipy.sparse.csr_array(np.eye(states)),
        row=at,
        next_row=(at + 1) % states,
        reward=rng.normal(size=n),
        discount=np.full(n, 0.99999),
        rho=rng.choice([0.5, 1.5], n),
        episode=np.repeat(np.arange(rounds), length),
    )


def test_refits_take_what_solved_the_log_as_preconditioner():
    """On a long ring BiCGSTAB does not arrive, and refits start from the factors of the whole log's matrix."""
    stream = ring_stream()
    begins, drawn = stream.begins, draw_resamples(60, 5, 1)
    factored, exact = solved(stream), solved(as_dense(stream))
    assert "BiCGSTAB" not in factored.how
    assert factored.solver.like is not None
    found = refit_least_squares(stream, start_features(stream, begins), begins, drawn, factored)
    wanted = refit_least_squares(as_dense(stream), start_features(as_dense(stream), begins), begins, drawn, exact)
    assert found == pytest.approx(wanted, rel=1e-6)


def test_singular_equations_are_solved_by_minimum_norm():
    """Two states that lead to each other without discount: only their difference is determined."""
    A = scipy.sparse.csr_array([[-1.0, 1.0, 0.0], [1.0, -1.0, 0.0], [0.0, 0.0, -1.0]])
    C = scipy.sparse.csr_array(np.eye(3))
    c = np.array([1.0, -1.0, 2.0])
    found = solver_of(A, C)
    assert found.solve(c) == pytest.approx(Solver(A.toarray(), np.eye(3)).solve(c))
    assert found.solve(c) == pytest.approx([-0.5, 0.5, -2.0])


def test_krylov_says_when_it_does_not_arrive():
    matrix = scipy.sparse.csr_array([[0.0, 1.0], [0.0, 0.0]])
    assert krylov(matrix, np.array([0.0, 1.0]), lambda v: v) is None
    assert krylov(matrix, np.zeros(2), lambda v: v) == pytest.approx([0, 0])


def test_a_chain_has_a_narrow_band_in_any_order():
    order = np.random.default_rng(0).permutation(50)
    chain = scipy.sparse.diags_array([np.ones(49), np.ones(50)], offsets=[1, 0]).tocsr()
    assert band(chain[order][:, order].tocsr()) <= 3
    assert band(scipy.sparse.csr_array(np.ones((50, 50)))) == 50


def test_memory_is_that_of_the_entries_not_of_their_square():
    """20 000 states that are all met: d x d numbers would be 3.2 GB; value, error and five refits take below 150 MB."""
    import tracemalloc

    rng = np.random.default_rng(0)
    states, n = 20_000, 60_000
    row = rng.permutation(np.arange(n) % states)
    stream = Stream.from_arrays(
        features=scipy.sparse.identity(states, format="csr"),
        row=row,
        next_row=np.r_[row[1:], 0],
        reward=rng.normal(size=n),
        discount=np.where(np.arange(n) % 100 == 99, 0.0, 0.9),
        rho=rng.choice([0.5, 1.5], n),
        episode=np.arange(n) // 100,
    )
    starts, drawn = start_features(stream, stream.begins), draw_resamples(600, 5, 0)
    tracemalloc.start()
    fit = solved(stream)
    refits = refit_least_squares(stream, starts, stream.begins, drawn, fit)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.isfinite(refits).all()
    residual = fit.sums.A @ fit.theta + fit.sums.b
    assert np.abs(residual).max() < 1e-12 * np.abs(fit.sums.b).max()
    assert peak < 150e6


@pytest.mark.parametrize("kind", ["regular", "near singular", "singular", "a feature without an equation", "nothing"])
def test_the_dense_inverse_is_that_of_minimum_norm(kind):
    """By elimination where that is safe, by singular values elsewhere; the condition number is theirs either way."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(6, 6)) - 5 * np.eye(6)
    if kind == "near singular":
        A[5] = A[4] + 1e-9 * rng.normal(size=6)
    elif kind == "singular":
        A[5] = A[4]
    elif kind == "a feature without an equation":
        A[2] = 0.0
    elif kind == "nothing":
        A[:] = 0.0
    wanted = A.copy()
    wanted[:, ~A.any(axis=1)] = 0.0
    s = np.linalg.svd(wanted, compute_uv=False)
    kept = s[s > 1e-11 * max(s[0], 1e-300)]
    found = Solver(A, np.eye(6))
    c = rng.normal(size=6)
    inverse = np.linalg.pinv(wanted, rcond=1e-11)
    assert found.solve(c) == pytest.approx(inverse @ c, rel=1e-6)
    assert found.solve(c, transposed=True) == pytest.approx(inverse.T @ c, rel=1e-6)
    assert found.singular == 6 - len(kept)
    assert found.condition == (pytest.approx(kept[0] / kept[-1]) if len(kept) else np.inf)


@pytest.mark.parametrize("singular", [False, True])
def test_several_equations_are_solved_as_one_by_one(singular):
    """By elimination, or by minimum norm where one of them has no inverse, or nearly none."""
    rng = np.random.default_rng(3)
    matrices, right = rng.standard_normal((6, 5, 5)), rng.standard_normal((6, 5))
    if singular:
        matrices[2, :, 4], matrices[2, 4] = 0.0, 0.0
        matrices[4, 3] = matrices[4, 2] * (1 + 1e-14)
    wanted = [np.linalg.lstsq(A, c, rcond=1e-11)[0] for A, c in zip(matrices, right, strict=True)]
    np.testing.assert_allclose(solved_each(matrices, right), wanted, rtol=1e-10, atol=1e-10)


def test_equations_of_no_features_have_the_solution_zero():
    nothing = scipy.sparse.csr_array((4, 4))
    np.testing.assert_array_equal(SparseSolver(nothing, nothing).solve(np.ones(4), guess=np.ones(4)), 0.0)
