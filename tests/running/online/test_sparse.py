"""Learners keep sparse rows sparse: the weights of `gradtd.learn` on a sparse stream, saved, loaded, wide."""

import copy
import json

import numpy as np
import pytest
import scipy.sparse

import gradtd
from gradtd import Horde, InputError, Learner

D, N = 9, 240
RULES = {
    "td": {"alpha": 0.1, "average": "uniform"},
    "tdrc": {"alpha": 0.05},
    "nasa": {"alpha": 0.05},
    "tdc_transposed": {"alpha": 0.05},
    "gtd2_mp": {"alpha": 0.05},
    "true_online_td": {"alpha": 0.05, "lam": 0.7},
    "true_online_gtd": {"alpha": 0.05, "lam": 0.7},
    "impression_gtd": {"batch_size": 3, "capacity": 40},
}


def make_stream(width=D):
    rng = np.random.default_rng(4)
    table = np.zeros((N + 1, D))
    table[:] = rng.standard_normal((N + 1, D)) * (rng.random((N + 1, D)) < 0.3)
    features = scipy.sparse.csr_array(table)
    features = scipy.sparse.csr_array((features.data, features.indices, features.indptr), shape=(N + 1, width))
    return gradtd.Stream.from_arrays(
        features=features, row=np.arange(N), next_row=np.arange(1, N + 1), reward=rng.standard_normal(N),
        discount=np.where(np.arange(N) % 6 == 5, 0.0, 0.9), rho=rng.choice([0.5, 1.5], N), episode=np.arange(N) // 6,
    )  # fmt: skip


STREAM = make_stream()


def feed(learner, begin, end, stream=STREAM):
    for step in stream.steps[begin:end]:
        phi, phi_next = (stream.features[[int(step[end])]] for end in ("row", "next_row"))
        learner.update(phi, step.reward, phi_next, step.rho, step.discount)
    return learner


def new(rule):
    settings = {key: value for key, value in RULES[rule].items() if key != "capacity"}
    return Learner(D, rule, capacity=RULES[rule].get("capacity"), compile=False, seed=2, **settings)


@pytest.mark.parametrize("rule", RULES)
def test_a_learner_has_the_weights_of_learn_on_sparse_features(rule, tmp_path):
    expected = gradtd.learn(STREAM, rule, compile=False, seed=2, **RULES[rule]).thetas[-1]
    assert np.abs(expected).max() > 0.01
    assert feed(new(rule), 0, N).theta.tobytes() == expected.tobytes()
    learner = new(rule)
    for begin in (0, 100):
        learner.partial_fit(STREAM.with_steps(STREAM.steps[begin : begin + 100]))
    learner.save(tmp_path / "learner.npz")
    again = feed(Learner.load(tmp_path / "learner.npz", compile=False), 200, N)
    assert again.theta.tobytes() == expected.tobytes()
    assert again.predict(STREAM.features[:2]) == pytest.approx(STREAM.features[:2] @ expected)


def test_a_copy_goes_on_as_the_learner_does():
    learner = feed(new("impression_gtd"), 0, 200)
    other = copy.deepcopy(learner)
    assert feed(other, 200, N).theta.tobytes() == feed(learner, 200, N).theta.tobytes()


def test_memory_is_bounded_by_what_is_held():
    learner = Learner(D, "td", alpha=0.1, compile=False)
    for _ in range(30):
        learner.partial_fit(STREAM)
    rows = learner._queue.rows
    assert rows.size <= 30 * (N + 1)
    learner._queue.runs[0].window.recent = 1000
    for _ in range(30):
        learner.partial_fit(STREAM)
    assert rows.size < 8 * 1000
    assert len(rows._data) < 80_000


def test_a_horde_keeps_sparse_rows_once():
    horde = Horde(D, {"a": {"alpha": 0.1}, "b": {"alpha": 0.05}}, "td", compile=False)
    feed(horde, 0, N)
    for name, alpha in (("a", 0.1), ("b", 0.05)):
        expected = gradtd.learn(STREAM, "td", alpha=alpha, compile=False).thetas[-1]
        assert horde.theta[name].tobytes() == expected.tobytes()


def test_ten_million_features_are_no_limit():
    stream = make_stream(10**7)
    learner = Learner(10**7, "td", alpha=0.1, compile=False).partial_fit(stream.with_steps(stream.steps[:20]))
    expected = gradtd.learn(STREAM.with_steps(STREAM.steps[:20]), "td", alpha=0.1, compile=False).thetas[-1]
    np.testing.assert_array_equal(learner.theta[:D], expected)
    assert not learner.theta[D:].any()


def test_the_first_step_says_how_rows_are_stored():
    sparse, dense = feed(new("td"), 0, 1), new("td").partial_fit(gradtd.Stream(STREAM.features.toarray(), STREAM.steps))
    phi, phi_next = STREAM.features[[1]], STREAM.features[[2]]
    expected = feed(new("td"), 0, 1)
    expected.update(phi, 1.0, phi_next, discount=0.9)
    sparse.update(phi.toarray()[0], 1.0, phi_next.toarray()[0], discount=0.9)
    assert sparse.theta.tobytes() == expected.theta.tobytes()
    dense.update(phi, 1.0, phi_next, discount=0.9)
    assert dense.seen == N + 1
    assert np.isfinite(dense.theta).all()


def test_rows_that_do_not_fit_are_refused():
    learner = Learner(D, "td", alpha=0.1, compile=False)
    row = scipy.sparse.csr_array((1, D))
    bad = scipy.sparse.csr_array(np.full((1, D), np.nan))
    for phi, sentence in (
        (scipy.sparse.csr_array((1, 4)), r"phi needs shape \(1, 9\), one row of 9 features; got \(1, 4\)"),
        (scipy.sparse.csr_array((2, D)), r"phi needs shape \(1, 9\)"),
        (bad, "features.data must be finite"),
    ):
        with pytest.raises(InputError, match=sentence):
            learner.update(phi, 0.0, row, discount=0.9)
    assert learner.seen == 0
    with pytest.raises(InputError, match="phi needs 9 features in its last axis"):
        learner.predict(scipy.sparse.csr_array((1, 4)))
    wide, kernel = make_stream(5000), {"alpha": 0.1, "similarity": lambda x, y: x @ y}
    with pytest.raises(InputError, match=r"sparse with 5000 features, .* or a rule reads only dense rows"):
        Learner(5000, "impression_gtd", **kernel, compile=False).partial_fit(wide)


def _column_outside(arrays, header):
    arrays["features.indices"][-1] = D


def _falling(arrays, header):
    arrays["features.begin"][1] = 10**6


def _not_finite(arrays, header):
    arrays["features.data"][0] = np.inf


def _columns_fall(arrays, header):
    at = int(np.argmax(np.diff(arrays["features.begin"]) > 1))
    begin = int(arrays["features.begin"][at])
    arrays["features.indices"][begin : begin + 2] = arrays["features.indices"][begin : begin + 2][::-1]


def _row_outside(arrays, header):
    arrays["0.steps"]["row"][0] = 10**6


def _called_dense(arrays, header):
    header["sparse"] = False


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_column_outside, "features.indices must be a column of features, 0 to 8"),
        (_falling, "features.begin must increase from 0"),
        (_not_finite, "features.data must be finite"),
        (_columns_fall, "features.indices must increase along a row"),
        (_row_outside, "row must be a row of features"),
        (_called_dense, "is not a file that Learner.save wrote, or it is damaged"),
    ],
)
def test_a_file_whose_indices_are_none_is_refused(change, sentence, tmp_path):
    path = tmp_path / "learner.npz"
    feed(new("impression_gtd"), 0, 60).save(path)
    Learner.load(path, compile=False)
    with np.load(path) as found:
        arrays = {name: found[name] for name in found.files}
    header = json.loads(arrays["header"].tobytes())
    header.pop("sha256")  # whoever means harm would write the right one
    change(arrays, header)
    np.savez(path, **arrays | {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)})
    with pytest.raises(InputError, match=sentence):
        Learner.load(path, compile=False)


def test_traces_of_a_rule_are_saved_copied_and_loaded(tmp_path):
    learner = feed(new("true_online_gtd"), 0, 10)
    assert learner.theta.any()  # it has taken its steps
    copied = copy.deepcopy(learner)
    learner.save(tmp_path / "learner.npz")
    loaded = Learner.load(tmp_path / "learner.npz", compile=False)
    expected = feed(learner, 10, 60).theta.tobytes()
    assert feed(copied, 10, 60).theta.tobytes() == expected
    assert feed(loaded, 10, 60).theta.tobytes() == expected


def test_a_file_with_lists_of_columns_is_refused(tmp_path):
    """An earlier version listed the entries of such traces; their numbers would be taken for those of an array."""
    path = tmp_path / "learner.npz"
    feed(new("true_online_gtd"), 0, 100).save(path)
    with np.load(path) as found:
        arrays = {name: found[name] for name in found.files}
    header = json.loads(arrays["header"].tobytes())
    header.pop("sha256")
    arrays["0.state.e.columns"] = np.zeros(D, np.uint32)
    np.savez(path, **arrays | {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)})
    with pytest.raises(InputError, match="written by a version of the algorithm with a different state"):
        Learner.load(path, compile=False)
