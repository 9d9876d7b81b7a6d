"""Features given as float32 are stored as float32, and every sum is that of the same numbers in float64."""

import pickle

import numpy as np
import pytest
import scipy.sparse

import gradtd
from gradtd import theory
from gradtd.core.stream import STEP
from gradtd.core.stream_folder import Writer

D, N = 6, 100
SETTINGS = {"krylov_gtd": {}, "impression_gtd": {"batch_size": 3}, "svrg_gtd": {"alpha": 0.02, "M": 2}}
STORES = {"dense": np.asarray, "sparse": scipy.sparse.csr_array}


def stream_of(kind, store=np.asarray, n=N):
    """The same numbers in float32 or in float64: those of float32, so that widening them is exact."""
    rng = np.random.default_rng(7)
    table = (rng.standard_normal((n, D)) * (rng.random((n, D)) < 0.6)).astype(np.float32).astype(kind)
    row = np.arange(n)
    return gradtd.Stream.from_arrays(
        features=store(table), row=row, next_row=(row + 1) % n, reward=rng.standard_normal(n),
        discount=0.9 * (rng.random(n) < 0.9), rho=rng.choice([0.5, 1.5], n), episode=row // 4, target=0.5,
    )  # fmt: skip


def n_bytes(table):
    return table.nbytes if isinstance(table, np.ndarray) else table.data.nbytes


@pytest.mark.parametrize("store", STORES.values(), ids=STORES)
def test_what_is_given_as_float32_takes_half_the_memory(store):
    narrow, wide = stream_of(np.float32, store), stream_of(np.float64, store)
    assert n_bytes(narrow.features) * 2 == n_bytes(wide.features)
    compiled = narrow.view.features if store is np.asarray else narrow.view.features.data
    for stream in (narrow, narrow.with_steps(narrow.steps[:9]), pickle.loads(pickle.dumps(narrow)), *narrow.parts(20)):
        assert stream.features.dtype == np.float32
    assert compiled.dtype == np.float32
    assert repr(narrow).endswith(" float32)")
    for other in (np.float16, np.int64, bool):
        table = np.eye(4).astype(other)
        steps = {"row": [0], "next_row": [1], "reward": [1], "discount": 0.9, "episode": [0]}
        if store is np.asarray or other is not np.float16:  # SciPy has no such matrices
            assert gradtd.Stream.from_arrays(features=store(table), **steps).features.dtype == np.float64


def test_a_dense_table_is_not_copied():
    table = np.eye(4, dtype=np.float32)
    stream = gradtd.Stream.from_arrays(features=table, row=[0], next_row=[1], reward=[1], discount=0.9, episode=[0])
    assert np.shares_memory(stream.features, table)


def settings_of(name, lam):
    hyper = SETTINGS.get(name, {"alpha": 0.02} if gradtd.ALGORITHMS[name].step_size else {})
    if gradtd.ALGORITHMS[name].draws not in ("nothing", "two buffers"):
        hyper = {"batch_size": 3} | hyper
    return hyper | ({"lam": 0.5} if lam else {})


def weights(stream, name, compile=False, **hyper):
    return gradtd.learn(stream, name, seed=3, snapshots=4, compile=compile, **hyper).thetas


@pytest.mark.parametrize("name", gradtd.ALGORITHMS)
def test_every_rule_learns_as_from_the_same_numbers_in_float64(name):
    """No product and no sum is narrow: the weights are the same to the last bit."""
    traced = gradtd.ALGORITHMS[name].traces is True
    for store, lam in ((np.asarray, False), (scipy.sparse.csr_array, traced)):
        hyper = settings_of(name, lam)
        found, expected = (weights(stream_of(k, store), name, **hyper) for k in (np.float32, np.float64))
        assert found.dtype == np.float64
        assert np.abs(expected).max() > 0
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("name", "store"), [("td", "sparse"), pytest.param("impression_gtd", "dense", marks=pytest.mark.slow)]
)
def test_compiled_code_widens_what_it_reads(name, store):
    hyper = settings_of(name, False)
    expected = weights(stream_of(np.float64, STORES[store]), name, **hyper)
    found = weights(stream_of(np.float32, STORES[store]), name, compile=True, **hyper)
    np.testing.assert_array_equal(found, expected)


def test_compiled_traces_are_float64_beside_features_in_float32():
    """A learner's, too: two tables of two kinds in one rule."""
    expected = weights(stream_of(np.float64), "td", alpha=0.02, lam=0.5)
    found = weights(stream_of(np.float32), "td", compile=True, alpha=0.02, lam=0.5)
    np.testing.assert_array_equal(found, expected)
    online = gradtd.Learner(D, "td", alpha=0.02, lam=0.5).partial_fit(stream_of(np.float32))
    np.testing.assert_array_equal(online.theta, expected[-1])


def test_a_stored_stream_keeps_its_kind(tmp_path):
    sizes = {}
    for kind in (np.float32, np.float64):
        stream_of(kind).save(tmp_path / kind.__name__)
        opened = gradtd.Stream.open(tmp_path / kind.__name__)
        assert opened.features.dtype == kind
        np.testing.assert_array_equal(opened.features, stream_of(kind).features)
        sizes[kind] = (tmp_path / kind.__name__ / "features.bin").stat().st_size
    assert sizes[np.float32] * 2 == sizes[np.float64]


def test_a_log_in_float32_features(tmp_path):
    """`log_stream` and `store_stream` keep what a function returns; ``transform`` widens."""
    log = gradtd.sample_log("random_walk_tabular", 40)

    def one_hot(kind):
        return lambda seen: np.eye(7, dtype=kind)[seen]

    for made in (
        gradtd.log_stream(log, gamma=1, features=one_hot(np.float32)),
        gradtd.store_stream(log, tmp_path / "stream", gamma=1, features=one_hot(np.float32)),
    ):
        assert made.features.dtype == np.float32
    features = gradtd.make_features(one_hot(np.float32)).fit(log.observations)
    assert features.transform(log.observations).dtype == np.float64


def test_a_learner_and_the_theory_read_the_same_numbers():
    narrow, wide = stream_of(np.float32), stream_of(np.float64)
    learned = [gradtd.Learner(D, "td", alpha=0.05, compile=False).partial_fit(s).theta for s in (narrow, wide)]
    np.testing.assert_array_equal(*learned)
    laws = [theory.law(s) for s in (narrow, wide)]
    assert laws[0].features.dtype == np.float64
    np.testing.assert_array_equal(laws[0].A, laws[1].A)
    halves, thetas = (range(50), range(50, N)), np.ones(D)
    found, expected = (gradtd.empirical_neu(s, *halves, thetas) for s in (narrow, wide))
    assert found == expected


def test_rounding_features_to_float32_moves_weights_by_its_precision():
    """Against features that float32 does not hold: relative error 2^-24 of an entry, times the condition of A."""
    rng = np.random.default_rng(1)
    n = 2000
    table, row = rng.standard_normal((n, D)), np.arange(n)
    steps = {"row": row, "next_row": (row + 1) % n, "reward": rng.standard_normal(n), "discount": 0.9, "episode": row}
    found, expected = (
        gradtd.learn(gradtd.Stream.from_arrays(features=table.astype(kind), **steps), "lstd", compile=False).theta
        for kind in (np.float32, np.float64)
    )
    error = np.linalg.norm(found - expected) / np.linalg.norm(expected)
    assert 0 < error < 2.0**-24 * 20


def test_parts_of_a_stored_stream_are_of_one_kind(tmp_path):
    """Numbers that are wider than those before would be rounded; narrower ones are widened."""
    nothing = np.zeros(0, STEP)
    with Writer(tmp_path / "a", "a") as out:
        out.add(np.ones((2, D), np.float32), nothing)
        with pytest.raises(gradtd.InputError, match="float64, earlier parts of float32"):
            out.add(np.ones((2, D)), nothing)
    with Writer(tmp_path / "b", "b") as out:
        out.add(np.ones((2, D)), nothing)
        out.add(np.ones((2, D), np.float32), nothing)
    assert (tmp_path / "b" / "features.bin").stat().st_size == 4 * D * 8
