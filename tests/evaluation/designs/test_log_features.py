"""From a log to a stream: discounts, pieces, features that say nothing."""

import numpy as np
import pytest

from gradtd import Inference, InputError, Machine, evaluate, load_evaluation, log_stream, make_features, read_log
from gradtd.evaluation.designs.log_features import cut_into_blocks, make_log_features
from naive.evaluation import real_walk, walk


@pytest.mark.parametrize("block", [1, 2, 3, 7, 100])
def test_blocks_do_not_reach_over_the_end_of_an_episode(block):
    rng = np.random.default_rng(block)
    episode = np.repeat(np.arange(12), rng.integers(1, 9, 12))
    pieces, piece, since = [], -1, 0
    for k, e in enumerate(episode):
        since = 0 if k == 0 or e != episode[k - 1] else since + 1
        piece += since % block == 0
        pieces.append(piece)
    assert cut_into_blocks(episode, block).tolist() == pieces


def test_the_stream_of_a_log():
    table = walk(30, 2, cut=4)
    log = read_log(table)
    ready = make_log_features(log, None, None, whitened=False)
    rho = np.random.default_rng(0).random(len(log))
    stream = ready.stream(rho, 0.7)
    assert stream.steps["discount"].tolist() == [0.0 if over else 0.7 for over in table["terminated"]]
    assert stream.steps["rho"].tobytes() == rho.tobytes()
    assert stream.steps["reward"].tolist() == table["reward"].tolist()
    assert stream.steps["episode"].tolist() == table["episode"].tolist()
    eye = np.eye(5)
    table_of = stream.features.toarray() if not isinstance(stream.features, np.ndarray) else stream.features
    assert (table_of[stream.steps["row"]] == eye[table["obs"]]).all()
    inside = ~table["terminated"]
    assert (table_of[stream.steps["next_row"]][inside] == eye[table["next_obs"]][inside]).all()


def test_features_that_are_fitted_are_taken_as_they_are():
    log = read_log(real_walk(20))
    fitted = make_features("fourier:order=2").fit([[-10.0, -10.0], [10.0, 10.0]])
    assert make_log_features(log, fitted, None).features is fitted
    assert make_log_features(log, make_features("fourier:order=2"), None).features.fitted


@pytest.mark.parametrize("features", ["identity", "polynomial", "fourier", "rbf", "tiles", "aggregation", "one-hot"])
def test_constant_observations_are_refused(features):
    """Whatever the features, nothing can be told apart."""
    table = {**real_walk(20), "obs_0": 1.0, "obs_1": 2.0, "next_obs_0": 1.0, "next_obs_1": 2.0}
    n = len(table["t"])
    table = {k: np.full(n, v) if np.ndim(v) == 0 else v for k, v in table.items()}
    with pytest.raises(InputError, match="observation column 0 is 1 in every row"):
        make_log_features(read_log(table), features, None)


def test_one_constant_feature_is_welcome():
    log = read_log(walk(20))
    make_log_features(log, lambda s: np.c_[np.ones(len(s)), s], None)
    make_log_features(log, lambda s: np.c_[np.zeros(len(s)), np.ones(len(s)), s], None)
    with pytest.raises(InputError, match=r"2 features are constant \(feature 0, feature 2\): leave out all but one"):
        make_log_features(log, lambda s: np.c_[np.ones(len(s)), s, np.full(len(s), 3.0)], None)


def test_a_column_that_never_changes_is_left_out_with_a_note(tmp_path):
    """The value is that of the log without the column; the map still takes all columns, also when it was stored."""
    table = real_walk(40)
    n = len(table["t"])
    more = table | {"obs_2": np.full(n, 7.0), "next_obs_2": np.full(n, 7.0)}
    how = {"gamma": 0.9, "algorithm": "lstd", "features": "polynomial", "resamples": 5, "threads": 1}
    plain, made = evaluate(table, **how), evaluate(more, **how)
    assert made.value == plain.value
    assert any("observation column 2 is the same in every row" in note for note in made.notes)
    seen = np.c_[table["obs_0"], table["obs_1"], np.full(n, 7.0)][:5]
    assert (made(seen) == plain(seen[:, :2])).all()
    again = load_evaluation(made.save(tmp_path / "it.npz"))
    assert (again(seen) == made(seen)).all()
    assert again.features.describe() == made.features.describe()
    assert made.features.describe().endswith("which are columns 0, 1")


def test_waves_of_a_column_of_zeros_and_ones_lose_their_constants():
    """cos(2 pi x) is 1 on both: kept once."""
    table = real_walk(60)
    flags = {f"{prefix}obs_1": (table[f"{prefix}obs_1"] > 0).astype(float) for prefix in ("", "next_")}
    made = evaluate(
        table | flags,
        gamma=0.9,
        algorithm="lstd",
        features="fourier",
        inference=Inference(resamples=5),
        machine=Machine(threads=1),
    )
    assert any(note == "Left out 1 redundant constant feature." for note in made.notes)
    assert len(made.theta) == 16


@pytest.mark.parametrize("size", [1e-60, 1e60])
@pytest.mark.parametrize("what", ["reward", "ratio", "feature"])
def test_numbers_whose_squares_are_none_are_refused(what, size):
    """Without a warning from NumPy, which would be an error here; what is just inside is computed."""
    for factor, refused in ((size, True), (size ** (0.9 * 50 / 60), False)):
        log = walk(30)
        rho = log["target"] / log["action_prob"] * (factor if what == "ratio" else 1.0)
        table = {k: v for k, v in log.items() if k not in ("target", "action_prob")} | {"rho": rho}
        table["reward"] = log["reward"] * (factor if what == "reward" else 1.0)
        scale = factor if what == "feature" else 1.0
        how = {"gamma": 0.9, "resamples": 5, "threads": 1, "features": lambda s, scale=scale: scale * np.eye(5)[s]}
        for method in ("lstd", "wdr"):
            if refused:
                with pytest.raises(
                    InputError, match=rf"the largest {what} is .* in size, and gradtd can compute with 1e-50 to 1e\+50"
                ):
                    evaluate(table, algorithm=method, **how)
            else:
                rows = evaluate(table, algorithm=method, **how).estimates
                assert next(np.isfinite(row.value) for row in rows if row.method == "lstd")


def test_a_stream_of_a_log_takes_a_target_in_logarithms():
    log = walk(30)
    plain = {k: v for k, v in log.items() if k != "target"} | {"mine": log["target"]}
    logs = plain | {"mine": np.log(log["target"])}
    wanted = log_stream(plain, gamma=0.9, features="one-hot", target="mine")
    stream = log_stream(logs, gamma=0.9, features="one-hot", target="mine", log_probabilities="convert")
    np.testing.assert_allclose(stream.steps["rho"], wanted.steps["rho"], rtol=1e-14)
    with pytest.raises(InputError, match='or read with log_probabilities="convert"'):
        log_stream(logs, gamma=0.9, features="one-hot", target="mine")
