"""Krylov GTD: equal to its twin at first, sound for fixed data, and safe where features or problems are bad."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse

import gradtd
from algorithms.test_algorithms import STREAM
from gradtd import ALGORITHMS
from gradtd.algorithms import krylov_gtd as rule
from gradtd.algorithms import krylov_sums
from gradtd.compiled import sums as sums_of_steps
from gradtd.compiled.plan import record
from gradtd.core.algorithm import Now
from gradtd.problems import as_problem, baird, random_walk, random_walk_inverted, star, two_state
from naive import rules as naive

NOBODY = np.zeros(0, np.uint32)
DEFAULTS = {"M": 64, "K": 5, "eps": 4e-4, "every": 0, "window": 0}
STARS = [star(seed=31), star(10, 4, seed=32), star(20, 8, seed=33)]


def log_of(stream):
    return naive.Log(naive.samples_of(stream), np.ones(len(stream), bool), None, None, naive.table_of(stream))


def without_sums(n_features, hyper):
    """What the rule keeps where A is too large to be kept."""
    return ALGORITHMS["krylov_gtd"].init(n_features, hyper) | {"sums": np.zeros((0, 0))}


STREAMING = dataclasses.replace(ALGORITHMS["krylov_gtd"], init=without_sums)


def state_after(stream, theta0=None, init=without_sums, **hyper):
    """The rule's arrays after all steps of a stream, interpreted."""
    hyper = DEFAULTS | hyper
    d = stream.n_features
    theta = np.zeros(d) if theta0 is None else np.array(theta0, float)
    state = record(theta=theta, **init(d, hyper))
    for t in range(len(stream)):
        now = Now(np.uint64(t), 0, t + 1, np.nan, NOBODY, NOBODY)
        rule.krylov_gtd(state, stream.view, now, SimpleNamespace(**hyper))
    return state


def sums(stream, begin=0):
    samples = naive.samples_of(stream)[begin:]
    return sum(k.A for k in samples), sum(k.b for k in samples)


# The twin -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", gradtd.PROBLEMS)
def test_equals_its_twin_for_fifty_steps_on_every_problem(name):
    """Later the two may part: conjugate directions amplify rounding, as those of every Krylov method do.

    Where the first steps can be solved exactly, a direction may come from a residual of few good digits; on stars that
    parts the two at step 30 for some seeds.
    """
    problem = as_problem(name)
    stream = gradtd.sample(problem, 50, seed=0)
    thetas = gradtd.learn(stream, "krylov_gtd", theta0=problem.theta0, snapshots=1).thetas
    expected = np.array(list(naive.krylov_gtd(log_of(stream), problem.theta0, None)))
    assert np.abs(thetas - expected).max() < 1e-9 * max(1.0, np.abs(expected).max())


def test_agrees_with_its_twin_statistically_where_rounding_has_parted_them():
    exact, ours, twins, apart = gradtd.exact(star()), [], [], []
    for run in range(8):
        stream = gradtd.sample(star(), 300, seed=6, run=run)
        theta = gradtd.learn(stream, "krylov_gtd").theta
        twin = list(naive.krylov_gtd(log_of(stream), np.zeros(5), None))[-1]
        apart.append(np.abs(theta - twin).max())
        ours.append(gradtd.METRICS["rmspbe"](exact, theta))
        twins.append(gradtd.METRICS["rmspbe"](exact, twin))
    assert max(apart) > 1e-6, "nothing to agree on statistically"
    assert np.mean(ours) == pytest.approx(np.mean(twins), rel=0.05)


# Soundness for fixed data -----------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [0, 70])
def test_residual_and_images_are_exact(window):
    state = state_after(STREAM, [0.7, -1.1, 0.4, 0.9], M=16, window=window)
    A, b = sums(STREAM, len(STREAM) - window if window else 0)
    np.testing.assert_allclose(state.u, A @ state.theta + b, atol=1e-11)
    assert state.counters[rule.KEPT] > 1
    kept = state.counters[rule.KEPT]
    for p, q in zip(state.p[:kept], state.q[:kept], strict=True):
        np.testing.assert_allclose(q, A @ p, atol=1e-11 * np.abs(q).max())


@pytest.mark.parametrize("problem", [random_walk_inverted(), baird(), *STARS], ids=lambda p: p.name)
@pytest.mark.parametrize(("eps", "times"), [(0.0, 1), (4e-4, 1), (4e-4, 50)])
def test_every_search_lowers_the_empirical_neu_and_leads_to_lstd(problem, eps, times):
    """100 steps, then nothing new arrives: only reading and searching go on. With damping it takes longer."""
    n = 100
    stream = gradtd.sample(problem, n, seed=2)
    state = state_after(stream, problem.theta0, eps=eps)
    if eps == 0.0:
        state.least[:] = 0.0  # which damps, too
    A, b = sums(stream)
    w = n * state.inverse

    def neu():
        return float((A @ state.theta + b) ** 2 @ w)

    first = values = [neu()]
    for _ in range(100 if eps else 300):
        if state.counters[rule.STAGE] == rule.IDLE:
            rule.begin_direction(state, 0, float(n))
        if state.counters[rule.STAGE] != rule.IDLE:
            rule.read_steps(state, stream.view, 64, 0, n)
        for i in range(state.counters[rule.KEPT]):
            rule.search_line(state, state.p[i], state.q[i], float(n), eps * problem.n_features**2, times)
            values = [*values[-1:], neu()]
            assert values[-1] <= values[0] * (1 + 1e-9) + 1e-15 * max(1.0, b**2 @ w), "a search raised NEU"
    best = np.linalg.lstsq(A, -b, rcond=1e-10)[0]
    reachable = float((A @ best + b) ** 2 @ w)
    assert values[-1] <= first[0]
    if eps == 0.0:
        assert values[-1] <= reachable + 1e-6 * max(first[0], b**2 @ w) + 1e-15


def test_a_search_without_damping_is_exact():
    state = state_after(STREAM, M=16, eps=0.0)
    state.least[:] = 0.0
    state.u[:] = np.random.default_rng(0).normal(size=4)
    p, q = state.p[0], state.q[0]
    rule.search_line(state, p, q, 200.0, 0.0, 1)
    assert abs(q @ (state.inverse * state.u)) < 1e-12 * np.sqrt(q @ (state.inverse * q))


def test_kept_images_are_orthogonal_while_no_data_arrive():
    stream = gradtd.sample(random_walk_inverted(), 60, seed=1)
    state = state_after(stream, K=3)
    cosines = []
    for _ in range(30):
        if state.counters[rule.STAGE] == rule.IDLE:
            rule.begin_direction(state, 0, 60.0)
        rule.read_steps(state, stream.view, 64, 0, 60)
        for i in range(state.counters[rule.KEPT]):
            rule.search_line(state, state.p[i], state.q[i], 60.0, 4e-4 * 25, 1)
        images = state.q[: state.counters[rule.KEPT]] * np.sqrt(state.inverse)
        images /= np.linalg.norm(images, axis=1, keepdims=True)
        cosines.append(np.abs(images @ images.T - np.eye(len(images))).max())
    assert state.counters[rule.KEPT] == 3
    assert max(cosines[6:]) < 1e-8


# Where TD diverges --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", [baird(), baird(0.99), two_state(), *STARS], ids=lambda p: p.name)
def test_converges_where_td_diverges(problem):
    common = {"runs": 10, "steps": 6000, "snapshots": [6000]}
    td = gradtd.run(problem, "td", alpha=0.1, limit=1e6, **common)
    assert td.diverged > 0, "not a problem on which TD diverges"
    result, lstd = gradtd.run(problem, "krylov_gtd", **common), gradtd.run(problem, "lstd", **common)
    assert result.diverged == 0
    error, floor = (gradtd.measure(r, "rmspbe").mean() for r in (result, lstd))
    assert error < max(1.5 * floor, 1e-3)


# Bad features -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["krylov_gtd", STREAMING], ids=["with sums", "streaming"])
def test_scale_of_features_does_not_matter(kind):
    """Multiplied by powers of two up to 2^20 and down to 2^-20, so that only the order of rounding may change."""
    stream = gradtd.sample("random_walk_inverted", 3000, seed=3)
    scale = 2.0 ** np.array([20, -20, 0, 13, -7])
    scaled = with_features(stream, stream.features * scale)
    theta = gradtd.learn(stream, kind, snapshots=100).thetas
    np.testing.assert_allclose(gradtd.learn(scaled, kind, snapshots=100).thetas * scale, theta, rtol=1e-12)


@pytest.mark.parametrize("size", [1e-6, 1e-3, 1e3, 1e6])
def test_all_features_small_or_large(size):
    stream = gradtd.sample("boyan_chain", 3000, seed=3)
    scaled = with_features(stream, stream.features * size)
    values = gradtd.learn(scaled, "krylov_gtd").theta * size
    np.testing.assert_allclose(values, [-24, -16, -8, 0], atol=1.0)


@pytest.mark.parametrize("make", ["duplicated", "zero", "sums"])
def test_dependent_and_empty_features_keep_the_values(make):
    stream = gradtd.sample("random_walk_tabular", 4000, seed=5)
    x = stream.features
    table = {
        "duplicated": np.hstack([x, x, 3 * x[:, :2]]),
        "zero": np.hstack([x, np.zeros((len(x), 3))]),
        "sums": np.hstack([x, x.sum(axis=1, keepdims=True)]),
    }[make]
    theta = gradtd.learn(with_features(stream, table), "krylov_gtd").theta
    assert np.isfinite(theta).all()
    lstd = gradtd.learn(stream, "lstd").theta
    np.testing.assert_allclose(table @ theta, x @ lstd, atol=0.02)


@pytest.mark.parametrize("K", [5, 8, 20])
@pytest.mark.parametrize("name", ["random_walk_tabular", "baird", "boyan_chain", "two_state"])
def test_as_many_directions_as_features_or_more_are_safe(name, K):
    """The bound on the rounding error of an image is what keeps this from going wrong."""
    common = {"runs": 20, "steps": 3000, "snapshots": [1000, 3000]}
    result, lstd = gradtd.run(name, STREAMING, K=K, **common), gradtd.run(name, "lstd", **common)
    assert result.diverged == 0
    error, floor = (gradtd.measure(r, "rmsve").mean(axis=0) for r in (result, lstd))
    assert (error < np.maximum(1.3 * floor, 0.05)).all()


def test_no_reward_and_no_ratio_leave_the_weights_alone():
    steps = {"row": [0, 1, 0], "next_row": [1, 0, 1], "discount": 0.5, "episode": [0, 0, 0]}
    still = gradtd.Stream.from_arrays(features=np.eye(2), reward=0.0, rho=1.0, **steps)
    np.testing.assert_array_equal(gradtd.learn(still, "krylov_gtd").theta, 0.0)
    never = gradtd.Stream.from_arrays(features=np.eye(2), reward=1.0, rho=0.0, **steps)
    np.testing.assert_array_equal(gradtd.learn(never, "krylov_gtd", theta0=[1, 2]).theta, [1.0, 2.0])


def test_memory_is_linear_in_the_features():
    small, large = (sum(a.size for a in ALGORITHMS["krylov_gtd"].init(d, DEFAULTS).values()) for d in (1000, 2000))
    assert large - small == (2 * 5 + 9) * 1000


# Steps that wait ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["boyan_chain", "random_walk_inverted", "random_walk_tabular", "baird"])
def test_steps_taken_many_at_a_time_cost_no_accuracy(name):
    """Turns come at the latest when a pass can end, and one search stands for those of the steps that waited."""
    common = {"runs": 20, "steps": 3000, "snapshots": 100}
    for kind in ("krylov_gtd", STREAMING):
        one, many = (gradtd.measure(gradtd.run(name, kind, every=n, **common)).mean() for n in (1, 1000))
        assert many < 1.05 * one


@pytest.mark.parametrize("every", [3, 1000])
def test_searches_wait_for_their_turn(every):
    """A turn comes after ``every`` steps, or when 64 reads for each that waited make a whole pass."""
    stream = gradtd.sample("random_walk_tabular", 400, seed=1)
    thetas = gradtd.learn(stream, STREAMING, every=every, snapshots=1).thetas
    moved = 2 + np.flatnonzero((np.diff(thetas, axis=0) != 0).any(axis=1))
    turns, read = [0], 0
    for n in range(1, 401):
        waited = n - turns[-1]
        if waited == every or 64 * waited >= n - read:
            turns.append(n)
            read = read + 64 * waited if read + 64 * waited < n else 0
    assert moved[moved > 20].tolist() == [n for n in turns if n > 20]


# Sparse features ----------------------------------------------------------------------------------------------


def sparse_stream(d=40, n_steps=120, rows=60):
    """Rows with two entries each, that also overlap with those that follow them."""
    rng = np.random.default_rng(8)
    table = np.zeros((rows, d))
    for row in table:
        row[rng.choice(d, 2, replace=False)] = rng.normal(size=2)
    row = rng.integers(0, rows, n_steps)
    return gradtd.Stream.from_arrays(
        features=scipy.sparse.csr_array(table), row=row, next_row=(row + (rng.random(n_steps) < 0.8)) % rows,
        reward=rng.normal(size=n_steps), discount=0.9, rho=rng.random(n_steps) * 2, episode=np.zeros(n_steps, int),
    )  # fmt: skip


@pytest.mark.parametrize("settings", [{}, {"M": 4}, {"M": 4, "every": 3}, {"M": 4, "every": 1, "window": 50}])
def test_sparse_features_are_those_of_the_twin(settings):
    """Interpreted: to compile this rule takes long. It is compiled with dense features; slow tests use sparse ones."""
    stream = sparse_stream()
    found = gradtd.learn(stream, "krylov_gtd", snapshots=1, compile=False, **settings).thetas
    expected = np.array(list(naive.krylov_gtd(log_of(stream), np.zeros(40), None, entries=2, **settings)))
    assert np.abs(expected[-1]).max() > 0.1
    np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("settings", [{}, {"M": 4, "every": 1, "window": 50}])
def test_sparse_traces_are_those_of_the_twin(settings):
    """The number of entries that matters is that of the traces, which have more than features.

    Interpreted, too: `test_traces` compiles it, in a slow test.
    """
    stream = sparse_stream()
    steps = stream.steps.copy()
    steps["episode"] = np.arange(len(stream)) // 4
    stream = gradtd.Stream(stream.features, steps)
    samples = naive.samples_of(stream, 0.6)
    entries = np.mean([np.count_nonzero(sample.e) for sample in samples])
    assert 2 < entries < 10
    log = naive.Log(samples, np.ones(len(stream), bool), None, None, naive.table_of(stream))
    expected = np.array(list(naive.krylov_gtd(log, np.zeros(40), None, entries=entries, **settings)))
    found = gradtd.learn(stream, "krylov_gtd", snapshots=1, lam=0.6, compile=False, **settings).thetas
    assert np.abs(expected[-1]).max() > 0.1
    np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.slow  # two more kernels of the rule that takes longest to compile
@pytest.mark.parametrize("kind", ["krylov_gtd", STREAMING], ids=["with sums", "streaming"])
def test_traces_lead_to_the_weights_of_lstd_with_traces(kind):
    stream = gradtd.sample("random_walk_dependent", 5000, seed=3)
    sparse = with_features(stream, scipy.sparse.csr_array(stream.features))
    for lam in (0.4, 0.9):
        wanted, plain = (gradtd.learn(stream, "lstd", lam=x).theta for x in (lam, 0.0))
        apart = np.abs(gradtd.learn(sparse, kind, lam=lam).theta - wanted).max()
        assert apart < 0.1 * np.abs(wanted - plain).max(), lam


def test_an_arriving_sparse_step_touches_its_entries_only():
    """All other entries are poisoned: one that is read, or written to, shows."""
    stream = sparse_stream()
    state = state_after(stream, every=10_000, M=64)
    step = stream.steps[7]
    touched = np.unique(np.r_[stream.features[[step.row]].indices, stream.features[[step.next_row]].indices])
    others = np.setdiff1d(np.arange(40), touched)
    vectors = [state.theta, state.u, state.s, state.inverse, *state.p, *state.q]
    for vector in vectors:
        vector[others] = np.nan
    noise, terms = state.noise[0], state.terms[0]
    rule.add_step(state, stream.view, Now(np.uint64(7), 0, 121, np.nan, NOBODY, NOBODY))
    assert state.counters[rule.KEPT] > 1
    assert noise < state.noise[0] < np.inf
    assert terms < state.terms[0] < np.inf
    for vector in vectors:
        np.testing.assert_array_equal(np.isnan(vector), np.isin(np.arange(40), others))


def test_rows_without_entries_are_harmless():
    empty = scipy.sparse.csr_array((3, 5))
    stream = gradtd.Stream.from_arrays(
        features=empty, row=[0, 1], next_row=[1, 2], reward=1.0, discount=0.9, episode=[0, 0]
    )
    np.testing.assert_array_equal(gradtd.learn(stream, "krylov_gtd", compile=False).theta, 0.0)


# Where A is kept ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [0, 120])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_sums_are_exact_and_their_solution_is_reached(window, sparse):
    stream = with_features(STREAM, scipy.sparse.csr_array(STREAM.features)) if sparse else STREAM
    state = state_after(stream, [0.7, -1.1, 0.4, 0.9], init=ALGORITHMS["krylov_gtd"].init, window=window)
    A, b = sums(STREAM, len(STREAM) - window if window else 0)
    assert state.counters[krylov_sums.SOLVES] == 1
    for _ in range(12):
        krylov_sums.solve(state, stream.view, len(STREAM) - window if window else 0, len(STREAM))
    np.testing.assert_allclose(state.sums.T, A, atol=1e-12)
    np.testing.assert_allclose(state.u, A @ state.theta + b, atol=1e-11)
    ridge = 1e-3 * np.diag(state.least)
    expected = np.linalg.solve(A - ridge, -b - ridge @ state.anchor)
    np.testing.assert_allclose(state.theta, expected, atol=1e-9)


def test_factors_solve_their_system():
    rng = np.random.default_rng(0)
    for d in (1, 2, 5, 30):
        matrix, v = rng.normal(size=(d, d)), rng.normal(size=d)
        factors, order, found = matrix.copy(), np.zeros(d, np.int64), np.zeros(d)
        sums_of_steps.factorise(factors, order)
        sums_of_steps.solve_transposed(factors, order, v.copy(), found)
        np.testing.assert_allclose(matrix.T @ found, v, atol=1e-9)


def test_a_search_with_old_factors_lowers_neu_with_its_ridge():
    """The factors are those of other data: the line search keeps what they propose from doing harm."""
    state = state_after(STREAM, init=ALGORITHMS["krylov_gtd"].init)
    A, b = sums(STREAM)
    ridge, w, rng = 1e-3 * np.diag(state.least), state.inverse, np.random.default_rng(1)
    state.factors[:] = rng.normal(size=(4, 4))
    sums_of_steps.factorise(state.factors, state.order)
    state.theta[:] = rng.normal(size=4)
    state.u[:] = A @ state.theta + b
    state.counters[krylov_sums.CHANGED] = state.counters[krylov_sums.STALE] = 0

    def neu():
        return float((A @ state.theta + b - ridge @ (state.theta - state.anchor)) ** 2 @ w)

    before = neu()
    krylov_sums.solve(state, STREAM.view, 0, len(STREAM))
    assert neu() < before
    assert state.counters[krylov_sums.STALE] == (neu() > 0.25 * before)


def test_long_walks_are_solved_as_lstd_solves_them():
    """In RMSVE the streaming half alone is at 8 times LSTD's error here."""
    common = {"runs": 4, "steps": 5000, "snapshots": [5000]}
    walk = random_walk("tabular", 41)
    errors = [gradtd.measure(gradtd.run(walk, kind, **common)).mean() for kind in ("krylov_gtd", STREAMING, "lstd")]
    assert errors[0] < 1.05 * errors[2]
    assert errors[1] > 3 * errors[2], "not a hard problem"


def test_few_steps_that_count_are_not_solved():
    """Large stars: LSTD has too few steps with rho > 0 and is far worse than damped searches."""
    common = {"runs": 10, "steps": 5000, "snapshots": [5000]}
    ours, lstd = (
        gradtd.measure(gradtd.run(star(60, 20, seed=9), k, **common), "rmspbe") for k in ("krylov_gtd", "lstd")
    )
    assert ours.mean() < 0.8 * lstd.mean()


@pytest.mark.parametrize("kind", ["krylov_gtd", STREAMING], ids=["with sums", "streaming"])
@pytest.mark.parametrize("width", [0.02, 0.05, 0.3])
def test_weights_of_features_that_were_only_met_where_they_are_tiny_do_not_explode(kind, width):
    """Radial basis functions: a tail of 1e-136 is no feature. Narrow ones leave rows that are tiny as a whole."""
    rng = np.random.default_rng(4)
    places, centres = rng.random((80, 1, 2)), rng.random((30, 2))
    table = np.exp(-0.5 * ((places - centres) ** 2).sum(axis=2) / width**2)
    row = rng.integers(0, 80, 2000)
    stream = gradtd.Stream.from_arrays(
        features=table, row=row[:-1], next_row=row[1:], reward=rng.normal(size=1999), discount=0.9,
        episode=np.zeros(1999, int),
    )  # fmt: skip
    thetas = gradtd.learn(stream, kind, snapshots=10).thetas
    largest = table.max(axis=0)
    assert np.abs(table @ thetas.T).max() < 50
    assert np.abs(thetas * largest).max() < 1e5


# Forgetting ---------------------------------------------------------------------------------------------------


def test_a_window_follows_a_change_of_the_rewards():
    stream = gradtd.sample("boyan_chain", 8000, seed=9)
    steps = stream.steps.copy()
    steps["reward"][4000:] *= -1
    stream = stream.with_steps(steps)
    everything, window = (gradtd.learn(stream, "krylov_gtd", window=n).theta for n in (0, 2000))
    np.testing.assert_allclose(window, [24, 16, 8, 0], atol=1.0)
    assert np.abs(everything - [24, 16, 8, 0]).max() > 10


def with_features(stream, table):
    steps = stream.steps
    return gradtd.Stream.from_arrays(features=table, **{name: steps[name] for name in steps.dtype.names})
