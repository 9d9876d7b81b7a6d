"""Whatever points into features is checked before compiled code may follow it, and stays as it was checked."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

import gradtd
from gradtd import InputError, Log, Stream
from gradtd.core.stream import STEP, StreamView

GOOD = gradtd.sample("random_walk_tabular", 60, seed=1)
TABLE = np.array([[1.0, 0, 2], [0, 0, 0], [0, 3, 0]])


def steps_with(**columns):
    steps = GOOD.steps.copy()
    for name, value in columns.items():
        steps[name][2] = value
    return steps


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"row": 4_000_000_000}, r"row must be a row of features, 0 to 6: row\[2\] is 4000000000"),
        ({"next_row": 7}, r"next_row must be a row of features, 0 to 6: next_row\[2\] is 7"),
        ({"reward": np.nan}, r"reward must be finite: reward\[2\] is nan"),
        ({"discount": 1.5}, r"discount must lie in \[0, 1\]: discount\[2\] is 1.5"),
        ({"discount": np.nan}, r"discount must lie in \[0, 1\]"),
        ({"rho": -1.0}, "rho must not be negative"),
        ({"rho": np.inf}, "rho must be finite"),
        ({"episode": 1000}, "the steps of an episode must be contiguous"),
    ],
)
@pytest.mark.parametrize("make", [lambda steps: Stream(GOOD.features, steps), GOOD.with_steps])
def test_a_stream_made_directly_is_checked(make, columns, sentence):
    with pytest.raises(InputError, match=sentence):
        make(steps_with(**columns))


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        (GOOD.steps[:0], "a stream needs at least one step"),
        (np.arange(3), "got an array of int64 with shape"),
        (np.zeros(3, [("row", np.int64)]), r"got an array of records \(row\) with shape \(3,\)"),
        (np.zeros((2, 2), STEP), r"with shape \(2, 2\): make a stream with Stream.from_arrays"),
    ],
)
def test_steps_of_another_form_are_refused(steps, sentence):
    with pytest.raises(InputError, match=sentence):
        Stream(GOOD.features, steps)


def test_probabilities_beside_the_steps_are_checked():
    with pytest.raises(InputError, match=r"target needs one entry per step \(60\), got 2"):
        Stream(GOOD.features, GOOD.steps, target=[0.5, 0.5])
    with pytest.raises(InputError, match=r"target must lie in \[0, 1\]"):
        Stream(GOOD.features, GOOD.steps, target=np.full(60, 2.0))


def test_steps_cannot_be_changed_once_they_were_checked():
    mine = GOOD.steps.copy()
    stream = Stream(GOOD.features, mine)
    mine["row"][:] = 10**6  # the stream has its own
    assert stream.steps["row"].max() < 7
    with pytest.raises(ValueError, match="read-only"):
        stream.steps["row"][0] = 10**6
    features = GOOD.features.copy()
    stream = Stream(features, GOOD.steps)
    features.shape = (1, features.size)
    assert stream.view.features.shape == GOOD.features.shape


def test_what_compiled_code_reads_is_made_once():
    stream = Stream(scipy.sparse.csr_array(GOOD.features), GOOD.steps)
    assert isinstance(stream.view, StreamView)
    assert stream.view is stream.view
    assert stream.with_steps(stream.steps[:5]).view.features is stream.view.features
    with pytest.raises(ValueError, match="read-only"):
        stream.features.indices[0] = 10**6


def test_a_stream_survives_a_pickle_and_is_checked_again():
    again = pickle.loads(pickle.dumps(GOOD))
    assert again.steps.tobytes() == GOOD.steps.tobytes()
    kept = list(GOOD.__reduce__()[1])
    kept[1] = steps_with(row=10**6)
    with pytest.raises(InputError, match="row must be a row of features"):
        Stream(*kept)


def _broken(kind, label, place, value):
    features = getattr(scipy.sparse, kind)(TABLE)
    getattr(features, label)[place] = value
    return features


@pytest.mark.parametrize(
    ("features", "sentence"),
    [
        (_broken("csr_array", "indices", 0, 10**6), r"features.indices must lie in 0 to 2: features.indices\[0\]"),
        (_broken("csr_array", "indices", 0, -1), "features.indices must lie in 0 to 2"),
        (_broken("csr_array", "indptr", 1, 10**6), "features.indptr must begin with 0, must not decrease"),
        (_broken("csr_array", "indptr", 0, -4), "features.indptr must begin with 0"),
        (_broken("csr_array", "indptr", 3, 4), "must end at the number of entries, 3"),
        (_broken("csc_array", "indices", 0, 3), "features.indices must lie in 0 to 2"),
        (_broken("coo_array", "row", 0, 10**6), r"features.row must lie in 0 to 2: features.row\[0\] is 1000000"),
        (_broken("coo_array", "col", 1, -7), "features.col must lie in 0 to 2"),
        (_broken("bsr_array", "indices", 0, 9), "features.indices must lie in 0 to"),
    ],
)
def test_indices_of_sparse_features_are_checked(features, sentence):
    given = {"row": [0], "next_row": [1], "reward": [0.0], "discount": 0.5, "episode": [0]}
    with pytest.raises(InputError, match=sentence):
        Stream.from_arrays(features=features, **given)
    steps = np.zeros(1, STEP)
    with pytest.raises(InputError, match=sentence):
        Stream(features, steps)


def test_a_matrix_that_lost_its_row_pointers_is_refused():
    features = scipy.sparse.csr_array(TABLE)
    features.indptr = features.indptr[:2]
    with pytest.raises(InputError, match=r"features.indptr needs 4 entries, one more than there are rows; got 2"):
        Stream(features, np.zeros(1, STEP))


LOG = gradtd.sample_log("random_walk_tabular", 20)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"row": np.where(np.arange(len(LOG)) == 3, 4_000_000_000, LOG.row)},
            r"row must be row numbers of observations, 0 to",
        ),
        ({"next_row": LOG.next_row.astype(int) - 10}, "next_row must be row numbers of observations"),
        ({"next_row": LOG.next_row[1:]}, "every column of a log needs one entry per step"),
        ({"row": LOG.row.astype(float)}, "row must contain whole numbers"),
        ({"reward": LOG.reward * np.nan}, "reward must be finite"),
        ({"reward": LOG.reward[:0]}, "a log needs at least one step"),
        ({"episode": LOG.episode[::-1]}, "the episodes of a log must be numbered 0, 1, ... in the order of its steps"),
        ({"episode": LOG.episode * 2**60}, "the episodes of a log must be numbered 0, 1"),
        ({"observations": np.zeros(0)}, "row must be row numbers of observations"),
        ({"extra": {"other": np.zeros(2)}}, "needs one entry per step .*: other has 2"),
    ],
)
def test_a_log_made_directly_is_checked(change, sentence):
    assert isinstance(replace(LOG), Log)
    with pytest.raises(InputError, match=sentence):
        replace(LOG, **change)


def test_a_batch_of_the_latest_steps_is_no_longer_than_the_stream():
    """In a second pass the batch began before the first step."""
    short = GOOD.with_steps(GOOD.steps[:10])
    with pytest.raises(InputError, match="has 10 steps, too few for a batch of 25"):
        gradtd.learn(short, "minibatch_tdc", alpha=0.1, eta=1.0, batch_size=25, passes=5)
