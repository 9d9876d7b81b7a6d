"""A learner that is given float32 stores float32, and learns what `learn` learns from the same stream."""

import numpy as np
import pytest
import scipy.sparse

import gradtd

D, N = 5, 300
STORES = {"dense": np.asarray, "sparse": scipy.sparse.csr_array}
RULES = {"td": {"alpha": 0.05}, "impression_gtd": {"alpha": 0.1, "batch_size": 3}}


def stream_of(kind, store=np.asarray):
    rng = np.random.default_rng(7)
    table = (rng.standard_normal((N + 1, D)) * (rng.random((N + 1, D)) < 0.6)).astype(np.float32).astype(kind)
    row = np.arange(N)
    return gradtd.Stream.from_arrays(
        features=store(table), row=row, next_row=row + 1, reward=rng.standard_normal(N),
        discount=0.9 * (rng.random(N) < 0.9), rho=rng.choice([0.5, 1.5], N), episode=row // 4,
    )  # fmt: skip


def learner(name, **more):
    return gradtd.Learner(D, name, seed=3, compile=False, capacity=None, **RULES[name], **more)


def stored(one):
    """The numbers that a learner keeps of its rows."""
    one.updates  # noqa: B018 (the steps that wait are learned from)
    table = one._queue.rows.table
    return table if isinstance(table, np.ndarray) else table.data


def fed(one, stream, steps):
    """Step by step."""
    for i in steps:
        step = stream.steps[i]
        one.update(
            stream.features[[step.row]] if scipy.sparse.issparse(stream.features) else stream.features[step.row],
            step.reward,
            stream.features[[step.next_row]]
            if scipy.sparse.issparse(stream.features)
            else stream.features[step.next_row],
            step.rho,
            step.discount,
            episode=int(step.episode),
        )
    return one


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", RULES)
def test_it_is_what_learn_makes_of_a_float32_stream_to_the_byte(name, store):
    narrow, wide = (stream_of(kind, STORES[store]) for kind in (np.float32, np.float64))
    expected = gradtd.learn(narrow, name, seed=3, compile=False, **RULES[name]).theta
    found, other = learner(name).partial_fit(narrow), learner(name).partial_fit(wide)
    single = fed(learner(name), narrow, range(N))
    for one in (found, single):
        assert one.theta.tobytes() == expected.tobytes() == other.theta.tobytes()
        assert stored(one).dtype == np.float32
    assert stored(other).dtype == np.float64
    assert stored(found).nbytes * 2 == stored(other).nbytes


@pytest.mark.parametrize("store", STORES)
def test_a_file_keeps_float32(store, tmp_path):
    stream = stream_of(np.float32, STORES[store])
    whole = fed(learner("td"), stream, range(N))
    half = fed(learner("td"), stream, range(N // 2))
    half.save(tmp_path / "half.npz")
    again = gradtd.Learner.load(tmp_path / "half.npz", compile=False)
    assert stored(again).dtype == np.float32
    assert fed(again, stream, range(N // 2, N)).theta.tobytes() == whole.theta.tobytes()


@pytest.mark.parametrize("store", STORES)
def test_the_first_row_in_float64_widens_all(store):
    narrow, wide = (stream_of(kind, STORES[store]) for kind in (np.float32, np.float64))
    expected = fed(learner("impression_gtd"), wide, range(N))
    mixed = fed(fed(learner("impression_gtd"), narrow, range(100)), wide, range(100, N))
    assert stored(mixed).dtype == np.float64
    assert mixed.theta.tobytes() == expected.theta.tobytes()
    first_wide = fed(fed(learner("impression_gtd"), wide, range(100)), narrow, range(100, N))
    assert stored(first_wide).dtype == np.float64
    assert first_wide.theta.tobytes() == expected.theta.tobytes()


def test_a_horde_stores_float32_once():
    stream = stream_of(np.float32)
    horde = gradtd.Horde(D, ["a", "b"], "td", alpha=0.05, compile=False, threads=1).partial_fit(stream)
    assert horde._queue.rows.table.dtype == np.float32
    expected = gradtd.learn(stream, "td", alpha=0.05, compile=False).theta
    assert horde.theta["a"].tobytes() == horde.theta["b"].tobytes() == expected.tobytes()


def test_other_numbers_are_stored_as_float64():
    one = gradtd.Learner(2, "td", alpha=0.1, compile=False)
    one.update(np.array([1, 0], np.float16), 1.0, [0, 1], discount=0.9)
    assert stored(one).dtype == np.float64
