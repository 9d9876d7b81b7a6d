"""A Parquet log as a stream in a folder: the steps and features of the log in memory, read part by part."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gradtd

pytestmark = pytest.mark.usefixtures("small_parts")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rng = np.random.default_rng(0)
    n = 3000
    ends = rng.random(n) < 0.05
    ends[-1] = True
    cut = ends & (rng.random(n) < 0.3)
    log = {
        "episode": np.cumsum(np.r_[0, ends[:-1]]),
        "obs_0": rng.normal(size=n),
        "obs_1": rng.normal(size=n),
        "reward": rng.normal(1, 1, n),
        "terminated": ends & ~cut,
        "truncated": cut,
        "behaviour": np.full(n, 0.5),
        "pi_new": rng.choice([0.25, 0.75], n),
    }
    file = tmp_path_factory.mktemp("log") / "log.parquet"
    pq.write_table(pa.table(log), file, row_group_size=700)
    return file


def test_a_log_read_in_parts_is_the_stream_in_memory(path, tmp_path):
    fitted = gradtd.make_features("polynomial:order=2").fit(gradtd.read_log(str(path), keep=["pi_new"]).observations)
    heard = []
    told = {"gamma": 0.9, "features": fitted, "target": "pi_new"}
    ours = gradtd.store_stream(str(path), tmp_path / "s", progress=lambda *what: heard.append(what), **told)
    memory = gradtd.log_stream(str(path), **told)
    for name in ("reward", "discount", "rho", "episode"):
        assert ours.steps[name].tobytes() == memory.steps[name].tobytes()
    for name in ("row", "next_row"):
        np.testing.assert_array_equal(ours.features[ours.steps[name]], memory.features[memory.steps[name]])
    np.testing.assert_array_equal(ours.target, memory.target)
    both = [gradtd.learn(one, "impression_gtd", alpha=0.1, batch_size=8, seed=1) for one in (ours, memory)]
    assert both[0].thetas.tobytes() == both[1].thetas.tobytes()
    assert ("storing", 3000, 3000) in heard


def test_states_are_those_of_all_parts(path, tmp_path):
    rows = pq.read_table(path).drop_columns(["obs_0", "obs_1"])
    pq.write_table(rows.append_column("obs", pa.array(2 * (np.arange(len(rows)) // 400) + 1)), tmp_path / "log.parquet")
    told = {"gamma": 0.9, "features": "one-hot", "target": "pi_new"}
    ours = gradtd.store_stream(str(tmp_path / "log.parquet"), tmp_path / "s", **told)
    memory = gradtd.log_stream(str(tmp_path / "log.parquet"), **told)
    assert ours.n_features == memory.n_features == 8
    for name in ("row", "next_row"):
        np.testing.assert_array_equal(ours.features[ours.steps[name]], memory.features[memory.steps[name]])


def test_features_may_be_fitted_to_a_sample(path, tmp_path):
    made = gradtd.store_stream(str(path), tmp_path / "s", gamma=0.9, features="identity", target="pi_new")
    assert made.n_episodes == gradtd.read_log(str(path)).episode[-1] + 1
    assert not (tmp_path / ".s.part").exists()


def test_sparse_maps_stay_sparse(path, tmp_path):
    """More features than dense rows would have room for; the same entries as in memory."""
    fitted = gradtd.make_features("tiles:tilings=4,tiles=30").fit(gradtd.read_log(str(path)).observations)
    told = {"gamma": 0.9, "features": fitted, "target": "pi_new"}
    ours, memory = gradtd.store_stream(str(path), tmp_path / "s", **told), gradtd.log_stream(str(path), **told)
    assert ours.n_features > 1000
    for name in ("row", "next_row"):
        assert (ours.features[ours.steps[name]] != memory.features[memory.steps[name]]).nnz == 0


def test_a_folder_that_is_there_is_refused(path, tmp_path):
    with pytest.raises(gradtd.InputError, match="already exists"):
        gradtd.store_stream(str(path), tmp_path, gamma=0.9, features="identity", target="pi_new")
    assert list(tmp_path.iterdir()) == []
