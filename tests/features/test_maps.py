"""Feature maps: every kind through one table, and each against a twin written straight from its definition."""

import io
import json
import math
import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gradtd import InputError, features
from gradtd.features import FEATURES, cells, from_dict, make_features, table
from naive import features as naive

REAL = np.random.default_rng(0).normal(size=(300, 2)) * [3.0, 0.1] + [5.0, -1000.0]
GRID = np.random.default_rng(1).integers(0, 5, size=(300, 2))
LABELS = np.random.default_rng(2).integers(-3, 90, size=300)

# What to make, on which observations, and how many features there must be.
KINDS = [
    ("identity", REAL, 3),
    ("identity:bias=false", REAL, 2),
    ("identity:scale=false", GRID, 3),
    ("polynomial", REAL, 6),
    ("polynomial:order=4", GRID, 15),
    ("polynomial:order=3,cross=false", REAL, 7),
    ("fourier", REAL, 16),
    ("fourier:order=7", LABELS, 8),
    ("rbf", REAL, 101),
    ("cosines", REAL, 16),
    ("cosines:n=5", LABELS, 5),
    ("rbf:n=7,width=median,seed=3", GRID, 8),
    ("tiles", REAL, 8 * 81),
    ("tiles:tilings=3,tiles=2,bias=true", LABELS, 10),
    ("tiles:hashing=64", REAL, 64),
    ("tiles:hashing=5,bias=true", REAL, 6),
    ("aggregation", REAL, 100),
    ("aggregation:bins=4,by=width", GRID, 16),
    ("one-hot", LABELS, 89),
    ("one-hot", GRID, 25),
    ("one-hot:most=30", GRID / 4, 25),
    ("grouped:n=7", LABELS, 8),
    ("grouped", GRID, 26),
]


def dense(rows):
    return rows.toarray() if scipy.sparse.issparse(rows) else rows


def parts(rows):
    return [rows.data, rows.indices, rows.indptr] if scipy.sparse.issparse(rows) else [rows]


def through_files(stored):
    """What is left of a dictionary after its arrays went to npz and the rest to JSON."""
    arrays = {key: value for key, value in stored.items() if isinstance(value, np.ndarray)}
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    file.seek(0)
    with np.load(file, allow_pickle=False) as loaded:
        back = {key: loaded[key] for key in arrays}
    return json.loads(json.dumps({k: v for k, v in stored.items() if k not in arrays})) | back


def test_the_table_has_every_kind():
    assert {spec.partition(":")[0] for spec, _, _ in KINDS} == set(FEATURES)


@pytest.mark.parametrize(("spec", "observations", "size"), KINDS)
def test_every_kind_keeps_the_contract(spec, observations, size):
    made = make_features(spec)
    before = repr(made)
    fitted = made.fit(observations)
    assert not made.fitted
    assert repr(made) == before
    rows = fitted.transform(observations)
    assert rows.shape == (300, size) == (300, fitted.n_features)
    assert rows.dtype == np.float64
    if scipy.sparse.issparse(rows):
        assert isinstance(rows, scipy.sparse.csr_array)
        looked_at_again = scipy.sparse.csr_array((rows.data, rows.indices, rows.indptr), shape=rows.shape)
        assert looked_at_again.has_canonical_format
        assert rows.indices.dtype == rows.indptr.dtype == np.int32
    else:
        assert rows.flags.c_contiguous
    assert len(fitted.names()) == len(set(fitted.names())) == size
    assert str(size) in fitted.describe()
    assert ",," not in made.describe()
    assert made.describe().endswith(", not fitted yet")
    with pytest.raises(InputError, match="not fitted"):
        made.transform(observations)


@pytest.mark.parametrize(("spec", "observations", "size"), KINDS)
def test_what_was_stored_transforms_to_the_same_bytes(spec, observations, size):
    fitted = make_features(spec).fit(observations)
    again = from_dict(through_files(fitted.to_dict()))
    assert again.describe() == fitted.describe()
    assert again.names() == fitted.names()
    new = observations[::-1] + (3 if observations.dtype.kind == "i" else 0.3)
    for mine, theirs in zip(parts(again.transform(new)), parts(fitted.transform(new)), strict=True):
        assert mine.dtype == theirs.dtype
        assert mine.tobytes() == theirs.tobytes()
    assert from_dict(make_features(spec).to_dict()) != fitted
    assert repr(from_dict(make_features(spec).to_dict())) == repr(make_features(spec))


@pytest.mark.parametrize(("spec", "observations", "size"), KINDS)
def test_the_size_of_chunks_does_not_matter(spec, observations, size, monkeypatch):
    whole = dense(make_features(spec).fit(observations).transform(observations))
    monkeypatch.setattr(table, "CHUNK_ROWS", 7)
    chunked = dense(make_features(spec).fit(observations).transform(observations))
    np.testing.assert_allclose(chunked, whole, rtol=0, atol=1e-10)


@pytest.mark.parametrize("spec", sorted(set(FEATURES) - {"rbf"}))  # whose products BLAS rounds as it likes
def test_a_row_does_not_depend_on_its_neighbours(spec):
    fitted = make_features(spec).fit(GRID)
    whole = dense(fitted.transform(GRID))
    for row in range(0, 300, 50):
        assert dense(fitted.transform(GRID[row : row + 1])).tobytes() == whole[row].tobytes()


@pytest.mark.parametrize(("spec", "observations", "size"), KINDS)
def test_other_kinds_of_numbers_are_converted(spec, observations, size):
    small = observations.astype(np.int16 if observations.dtype.kind == "i" else np.float32)
    wide = observations.astype(np.int64) if observations.dtype.kind == "i" else small.astype(np.float64)
    fitted = make_features(spec).fit(wide)
    expected = dense(fitted.transform(wide))
    for other in (small, wide.tolist(), np.asfortranarray(wide), np.repeat(wide, 2, axis=0)[::2]):
        np.testing.assert_array_equal(dense(make_features(spec).fit(other).transform(other)), expected)


@pytest.mark.parametrize(
    "spec", ["identity", "polynomial", "fourier:order=1", "rbf:n=9", "tiles", "aggregation:bins=3"]
)
def test_nothing_of_the_size_of_the_log_is_copied(spec, monkeypatch):
    monkeypatch.setattr(table, "CHUNK_ENTRIES", 2**13)
    monkeypatch.setattr(cells, "_QUANTILE_ROWS", 2**11)
    log = np.random.default_rng(0).normal(size=(60_000, 5)).astype(np.float32)
    a_copy = log.size * 8  # 2.4 MB
    make_features(spec).fit(log[:50]).transform(log[:50])  # imports and compiles
    tracemalloc.start()
    try:
        fitted = make_features(spec).fit(log)
        assert tracemalloc.get_traced_memory()[1] < a_copy / 3
        tracemalloc.reset_peak()
        rows = fitted.transform(log)
        kept = sum(part.nbytes for part in parts(rows))
        assert tracemalloc.get_traced_memory()[1] < kept + a_copy / 3
    finally:
        tracemalloc.stop()


# Each map and its naive twin.


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 4))
def test_real_features_are_those_of_their_naive_twins(seed, columns, order):
    rng = np.random.default_rng(seed)
    log, new = rng.normal(size=(20, columns)), rng.normal(size=(5, columns)) * 2
    found = {
        spec: make_features(spec).fit(log).transform(new)
        for spec in ("identity", f"polynomial:order={order}", f"fourier:order={order}")
    }
    identity, polynomial, fourier = found.values()
    for row, x in enumerate(new):
        np.testing.assert_allclose(identity[row], naive.identity(log, x), atol=1e-12)
        np.testing.assert_allclose(sorted(polynomial[row]), naive.polynomial(log, x, order), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(fourier[row], naive.fourier(log, x, order), atol=1e-12)


def test_products_stand_where_their_names_say():
    fitted = make_features("polynomial:order=3").fit(np.array([[-1.0, -1.0, -1.0], [1.0, 1.0, 1.0]]))
    x = np.array([[0.5, 0.3, -0.7]])
    values = dict(zip(fitted.names(), fitted.transform(x)[0], strict=True))
    assert values["bias"] == 1
    assert values["x0^2 x2"] == pytest.approx(0.5**2 * -0.7)
    assert values["x0 x1 x2"] == pytest.approx(0.5 * 0.3 * -0.7)
    waves = make_features("fourier:order=2").fit(np.array([[0.0, 0.0], [1.0, 1.0]]))
    values = dict(zip(waves.names(), waves.transform(np.array([[0.3, 0.4]]))[0], strict=True))
    assert values["cos(pi (x0 + 2 x1))"] == pytest.approx(np.cos(np.pi * (0.3 + 0.8)))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 9), st.integers(1, 6), st.sampled_from([None, 3, 1000]))
def test_tiles_are_those_of_their_naive_twin(seed, columns, tilings, tiles, hashing):
    rng = np.random.default_rng(seed)
    log = rng.integers(-4, 5, size=(12, columns)) / 4  # edges of tiles are met exactly
    log[0], log[1] = -1.0, 1.0
    new = np.vstack([log, rng.normal(size=(8, columns)) * 2])
    rows = features.Tiles(tilings, tiles, hashing).fit(log).transform(new)
    for row, x in enumerate(new):
        entries = slice(rows.indptr[row], rows.indptr[row + 1])
        expected = naive.tiles(log, x, tilings, tiles, hashing)
        assert rows.indices[entries].tolist() == sorted(expected)
        assert rows.data[entries].tolist() == [expected[column] for column in sorted(expected)]


def test_column_numbers_are_as_wide_as_they_need_to_be(monkeypatch):
    monkeypatch.setattr("gradtd.features.tiles.refuse_beyond_memory", lambda *_: None)  # no weights are made here
    fitted = make_features("tiles", hashing=2**31 - 1, bias=True).fit(REAL)
    rows = fitted.transform(REAL[:50])
    assert rows.shape[1] == 2**31
    assert rows.indices.dtype == np.int64
    for row, x in enumerate(REAL[:50]):
        expected = [0, *(column + 1 for column in sorted(naive.tiles(REAL, x, 8, 8, 2**31 - 1)))]
        assert rows.indices[rows.indptr[row] : rows.indptr[row + 1]].tolist() == expected


def test_a_map_that_is_fitted_again_forgets_what_it_knew():
    for spec in FEATURES:
        fitted = make_features(spec).fit(GRID)
        fitted.transform(GRID)
        other = np.column_stack([GRID, GRID[::-1, 0]]) % 4
        again, fresh = fitted.fit(other), make_features(spec).fit(other)
        np.testing.assert_array_equal(dense(again.transform(other)), dense(fresh.transform(other)))
        assert fitted.n_columns == 2


@pytest.mark.parametrize("spec", ["fourier", "tiles", "tiles:hashing=5,bias=true", "tiles:hashing=1000"])
def test_features_interpreted_are_features_compiled(spec, monkeypatch):
    fitted = make_features(spec).fit(REAL)
    compiled = fitted.transform(REAL[:40])
    monkeypatch.setenv("GRADTD_INTERPRET", "1")
    for mine, theirs in zip(parts(fitted.transform(REAL[:40])), parts(compiled), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-14)


def test_the_hash_spreads_tiles_evenly():
    """200 x 200 cells into 1000 columns: the chi-square of an even spread, 999 +- 45, at five deviations."""
    axis = (np.arange(200) + 0.5) / 200
    middles = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    rows = features.Tiles(tilings=1, tiles=200, hashing=1000).fit([[0.0, 0.0], [1.0, 1.0]]).transform(middles)
    counts = np.bincount(rows.indices, minlength=1000)
    assert abs(((counts - 40) ** 2 / 40).sum() - 999) < 5 * math.sqrt(2 * 999)


def test_every_tiling_is_moved_in_every_column():
    for tilings in range(2, 13):
        for column, step in enumerate(features.tiles.displacement(tilings, 6)):
            moved = sorted(t * int(step) % tilings for t in range(tilings))
            assert moved == list(range(tilings)), (tilings, column)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5), st.floats(0.3, 3.0))
def test_rbf_features_are_their_formula(seed, columns, width):
    rng = np.random.default_rng(seed)
    log = rng.normal(size=(30, columns)) * 7 + 2
    fitted = features.Rbf(n=6, width=width, seed=seed).fit(log)
    rows = fitted.transform(log)
    w, b = fitted.learned["frequencies"], fitted.learned["phases"]
    for row, x in enumerate(log):
        s = naive.standardised(log, x)
        waves = [math.sqrt(2 / 6) * math.cos(float(np.dot(w[:, i], s)) + b[i]) for i in range(6)]
        np.testing.assert_allclose(rows[row], [1.0, *waves], atol=1e-12)


@pytest.mark.parametrize("width", [0.8, "median"])
def test_rbf_features_approach_the_gaussian_kernel(width):
    """Inner products of 20 000 waves: each has deviation below 1 / sqrt(20 000), so none is 6 of them away."""
    log = np.random.default_rng(5).normal(size=(12, 3)) * [1.0, 20.0, 0.1]
    rows = features.Rbf(n=20_000, width=width).fit(log).transform(log)[:, 1:]
    s = (log - log.mean(axis=0)) / log.std(axis=0)
    distance = np.linalg.norm(s[:, None] - s[None], axis=-1)
    if width == "median":
        width = np.median(distance[np.triu_indices(12, 1)])
    kernel = np.exp(-(distance**2) / (2 * width**2))
    assert np.abs(rows @ rows.T - kernel).max() < 6 / math.sqrt(20_000)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3))
@example(0, 1)
def test_one_hot_features_are_those_of_their_naive_twin(seed, columns):
    rng = np.random.default_rng(seed)
    log, new = rng.integers(0, 4, size=(15, columns)), rng.integers(-1, 5, size=(40, columns))
    log[0], log[1] = 0, 3
    distinct = sorted({tuple(row) for row in log.tolist()})
    expected = np.array([[float(tuple(x) == value) for value in distinct] for x in new.tolist()])
    np.testing.assert_array_equal(dense(make_features("one-hot").fit(log).transform(new)), expected)
    np.testing.assert_array_equal(dense(make_features("one-hot").fit(log / 8).transform(new / 8)), expected)
    np.testing.assert_array_equal(dense(make_features("one-hot").fit(log).transform(new.astype(float))), expected)


def test_one_hot_is_dense_where_that_is_faster_and_exact_for_large_numbers():
    assert isinstance(make_features("one-hot").fit(np.arange(64)).transform([3]), np.ndarray)
    assert scipy.sparse.issparse(make_features("one-hot").fit(np.arange(65)).transform([3]))
    large = np.array([2**62, 2**62 + 1])
    assert make_features("one-hot").fit(large).transform(large).tolist() == [[1, 0], [0, 1]]
    assert make_features("one-hot").fit(large).names() == [f"observation {2**62}", f"observation {2**62 + 1}"]
    assert make_features("one-hot").fit([7, 7]).transform([7]).tolist() == [[1]]


def test_aggregation_cuts_as_it_says():
    log = np.arange(1000.0)[:, None] ** 2
    assert np.bincount(make_features("aggregation").fit(log).transform(log).indices).tolist() == [100] * 10
    width = make_features("aggregation:by=width").fit(log).transform(log)
    expected = np.minimum(np.floor(log[:, 0] / log.max() * 10), 9)
    np.testing.assert_array_equal(width.indices, expected)
    ends = make_features("aggregation").fit(log).transform([[-5.0], [1e9]])
    assert ends.indices.tolist() == [0, 9]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=2, max_size=60), st.integers(2, 8))
def test_no_bin_of_quantiles_is_empty(values, bins):
    log = np.array([*values, 0, 6], float)[:, None]
    rows = features.Aggregation(bins=bins).fit(log).transform(log)
    assert (np.bincount(rows.indices, minlength=rows.shape[1]) > 0).all()
    assert 2 <= rows.shape[1] <= bins


def test_statistics_survive_a_large_offset(monkeypatch):
    monkeypatch.setattr(table, "CHUNK_ROWS", 11)
    log = np.random.default_rng(0).normal(size=(500, 3)) + np.array([0.0, 1e6, -1e9])
    found = table.statistics(table.Table(log))
    np.testing.assert_allclose(found.mean, log.mean(axis=0), rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(found.sd, log.std(axis=0), rtol=1e-6)
    np.testing.assert_array_equal([found.low, found.high], [log.min(axis=0), log.max(axis=0)])


# Transformers and functions.


class Doubling:
    """The least that counts as a transformer; counts how often it was fitted."""

    fits = 0

    def fit(self, x):
        self.fits += 1
        return self

    def transform(self, x):
        assert self.fits
        return np.hstack([x, 2 * x])


def test_transformers_are_fitted_as_copies():
    mine = Doubling()
    fitted = make_features(mine).fit(LABELS)
    assert mine.fits == 0
    np.testing.assert_array_equal(fitted.transform(LABELS), np.c_[np.ones(len(LABELS)), LABELS, 2 * LABELS])
    assert fitted.describe() == "A constant and features of the transformer Doubling of 1 observation, 3 in all"


def test_scikit_learn_transformers_work():
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    scaled = make_features(preprocessing.StandardScaler()).fit(REAL).transform(REAL)
    np.testing.assert_allclose(scaled, make_features("identity").fit(REAL).transform(REAL), atol=1e-9)
    rows = make_features(preprocessing.OneHotEncoder(handle_unknown="ignore")).fit(GRID).transform(GRID)
    assert isinstance(rows, scipy.sparse.csr_array)
    np.testing.assert_array_equal(rows.toarray().sum(axis=1), 2.0)
    with pytest.raises(InputError, match=r"write StandardScaler\(\)"):
        make_features(preprocessing.StandardScaler)


def test_functions_get_what_was_given():
    tabular = make_features(lambda s: np.eye(100)[s % 100]).fit(LABELS)
    np.testing.assert_array_equal(tabular.transform(LABELS), np.eye(100)[LABELS % 100])
    sparse = make_features(lambda x: scipy.sparse.csr_matrix(x > 5)).fit(REAL).transform(REAL)
    np.testing.assert_array_equal(sparse.toarray(), REAL > 5)
