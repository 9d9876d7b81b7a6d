"""Vectors that cost what is read of them: an update on sparse rows touches the entries of its rows and no others."""

import numpy as np
import pytest
import scipy.sparse

import gradtd
from gradtd.compiled import sparse_state, vectors
from gradtd.compiled.plan import room_for
from gradtd.core.algorithm import Storage
from gradtd.running.session import Session

D, WIDE, N = 12, 40, 160
RULES = {
    "impression_gtd": {"alpha": 0.1, "batch_size": 3},
    "impression_gtd both": {"alpha": 0.1, "batch_size": 3, "directions": "both"},
    "impression_gtd auto": {"batch_size": 3},
    "impression_gtd auto averaged": {"batch_size": 3, "directions": "averaged"},
    "impression_gtd auto lam": {"batch_size": 3, "lam": 0.6},
    "minibatch_td": {"alpha": 0.1, "batch_size": 3},
    "minibatch_td auto": {"alpha": "auto", "batch_size": 3},
    "td": {"alpha": 0.1, "average": "uniform"},
    "td auto": {"alpha": "auto"},
    "vtrace": {"alpha": 0.1},
    "etd": {"alpha": 0.01},
    "residual_gradient": {"alpha": 0.1},
    "shrunken_r1_gtd": {"alpha": 0.1, "batch_size": 3},
    "shrunken_at_td": {"alpha": 0.1, "batch_size": 3},
    "direct_gtd": {"alpha": 0.1},
    "gtd": {"alpha": 0.1},
    "gtd2": {"alpha": 0.1},
    "tdc": {"alpha": 0.1, "average": "polynomial"},
    "tdc_transposed_corrected": {"alpha": 0.1},
    "tdrc": {"alpha": 0.1},
    "htd": {"alpha": 0.1},
    "gtd2_mp": {"alpha": 0.1},
    "gtd2_mp lam": {"alpha": 0.1, "lam": 0.6},
    "sthtd_mp": {"alpha": 0.1},
    "minibatch_tdc": {"alpha": 0.1, "batch_size": 3},
    "minibatch_tdc_replay": {"alpha": 0.1, "batch_size": 3},
}


def stream_of(sparse, width=D, on_policy=False):
    """Rows of two entries or three among the first D columns; the others are empty."""
    rng = np.random.default_rng(5)
    table = np.zeros((30, width))
    table[:, :D] = rng.standard_normal((30, D)) * (rng.random((30, D)) < 0.2)
    row = rng.integers(0, 30, N)
    return gradtd.Stream.from_arrays(
        features=scipy.sparse.csr_array(table) if sparse else table, row=row, next_row=(row + 1) % 30,
        reward=rng.standard_normal(N), discount=0.9 * (rng.random(N) < 0.9),
        rho=1.0 if on_policy else rng.choice([0.5, 1.5], N), episode=np.arange(N) // 4,
    )  # fmt: skip


def weights(stream, rule, compile=False, **hyper):
    hyper = {"theta0": np.linspace(-1, 1, stream.n_features), "seed": 3, "snapshots": 7} | hyper
    result = gradtd.learn(stream, rule.split()[0], compile=compile, **hyper)
    assert result.diverged == 0
    return result.thetas


@pytest.mark.parametrize("rule", RULES)
def test_an_update_reads_and_writes_the_entries_of_its_rows_only(rule):
    """What no row has an entry for is NaN: it would spread into whatever is summed over all features."""
    stream = stream_of(True, WIDE, on_policy="auto" in rule and "td" in rule.split()[0])
    found = []
    for poison in (0.0, np.nan):
        session = Session(rule.split()[0], RULES[rule], n_steps=N, compile=False)
        run = session.begin(np.zeros(WIDE), (3, 0), N, sparse=True)
        assert run.table is not None
        probe = run.state.z.values[D:].copy() if "auto" in rule else None
        run.table[D:] = poison
        if probe is not None:  # its squares are all added up once in a while, after many touched entries
            run.state.z.values[D:] = probe
        wanted = room_for(np.array([N]), WIDE)
        assert session.drive(run, session.view(stream), session.buffers(stream, (3, 0)), wanted, 0, N) == -1
        if run.touched.size[0]:
            assert run.touched.columns[: run.touched.size[0]].max() < D
        found.append(wanted.thetas[0, :D])
    assert np.abs(found[0]).max() > 0
    np.testing.assert_array_equal(found[0], found[1])


AVERAGES = [
    {"average": "uniform"},
    {"average": "tail"},
    {"average": "polynomial", "average_power": 2.5, "average_from": 20},
    {"average": "polynomial", "average_power": 90.0},  # the sum of its weights passes 1e100
]


@pytest.mark.parametrize("settings", AVERAGES, ids=str)
def test_a_lazy_average_is_the_average(settings):
    for rule in ("td", "gtd"):
        expected = weights(stream_of(False), rule, alpha=0.1, **settings)
        found = weights(stream_of(True), rule, alpha=0.1, **settings)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rule", ["tdrc", pytest.param("impression_gtd auto", marks=pytest.mark.slow)])
def test_compiled_and_averaged_they_are_their_dense_twins(rule):
    settings = RULES[rule] | {"average": "polynomial"}
    expected = weights(stream_of(False), rule, **settings)
    for compile in (False, True):
        found = weights(stream_of(True), rule, compile=compile, **settings)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_divergence_is_found_at_the_step_of_dense_features():
    found = [gradtd.learn(stream_of(sparse), "td", alpha=9.0, limit=1e4, compile=False) for sparse in (True, False)]
    assert found[0].diverged_at[0] == found[1].diverged_at[0] > 0
    np.testing.assert_allclose(found[0].thetas, found[1].thetas, rtol=1e-12)


def test_a_factor_that_leaves_the_range_of_numbers_is_multiplied_into_the_entries():
    values = np.array([1.0, -2.0, 0.0])
    scaled = vectors.Scaled(values.copy(), np.array([1.0, 5.0, 5.0]))
    for factor in (1e-60, 1e-60, 1e90):
        vectors.scale_by(scaled, factor)
    vectors.add_at(scaled, 2, 3.0 * 1e-30)
    assert scaled.numbers[vectors.SCALE] == 1e90
    np.testing.assert_allclose([vectors.value_at(scaled, k) for k in range(3)], [1e-30, -2e-30, 3e-30], rtol=1e-14)
    assert vectors.dot(scaled, scaled) == pytest.approx(14e-60)


def test_the_square_of_a_vector_that_shrinks_stays_its_square():
    """Entry by entry it loses many orders of magnitude, the factor makes up for it, and no rounding stays behind."""
    rng = np.random.default_rng(1)
    state = {"theta": np.zeros(D), "z": rng.standard_normal(D), "q": np.zeros(D)}
    made = sparse_state.sparse_state(state, {"z": Storage.SCALED, "q": Storage.CLEARED}, False, 1e12).fields
    z, q = made["z"], made["q"]
    for _ in range(2000):
        vectors.fill(q, 0.0)
        k = rng.integers(D)
        vectors.add_at(q, k, -0.5 * vectors.value_at(z, k))
        vectors.add_scaled(z, 1.0, q)
        size = np.sqrt(vectors.dot(z, z))
        vectors.scale_by(z, 1.0 / size)
        assert sum(vectors.value_at(z, k) ** 2 for k in range(D)) == pytest.approx(1.0, abs=1e-13)
    assert z.numbers[vectors.SCALE] > 1e20


def test_a_rule_that_names_no_vectors_gets_arrays():
    def own(state, stream, now, hyper):
        for k in range(state.theta.shape[0]):
            state.theta[k] += now.alpha

    rule = gradtd.Algorithm("own", own)
    result = gradtd.learn(stream_of(True), rule, alpha=0.5, average="uniform", compile=False)
    np.testing.assert_allclose(result.thetas[-1], 0.5 * (N + 1) / 2)
