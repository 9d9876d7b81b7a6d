"""Records: every bad input is refused in one sentence that names it; good input is kept as given."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

import gradtd
from gradtd import Algorithm, FiniteMDP, InputError, Parameter, Problem, Stream

GOOD = {
    "features": np.eye(3),
    "row": [0, 1, 0],
    "next_row": [1, 2, 1],
    "reward": [0.0, 1.0, 0.0],
    "discount": [0.9, 0.0, 0.9],
    "rho": [1.0, 1.0, 0.5],
    "episode": [7, 7, 8],
}


def make(**changes):
    return Stream.from_arrays(**(GOOD | changes))


def with_entry(at, value):
    features = np.eye(3)
    features[at] = value
    return features


def sparse_with(value):
    features = scipy.sparse.csr_array(np.eye(3))
    features.data[1] = value
    return features


def test_a_good_stream_keeps_what_it_was_given():
    stream = make()
    assert repr(stream) == "Stream(stream: 3 steps, 2 episodes, 3 features, dense)"
    assert (len(stream), stream.n_episodes, stream.n_features) == (3, 2, 3)
    for name in ("row", "next_row", "reward", "discount", "rho"):
        np.testing.assert_array_equal(stream.steps[name], GOOD[name])
    assert stream.features.flags.c_contiguous
    assert stream.features.dtype == np.float64


def test_episodes_are_renumbered_in_order_of_appearance():
    stream = make(row=[0] * 6, next_row=[1] * 6, reward=[0.0] * 6, discount=0.9, rho=1.0, episode=[40, 40, -3, 7, 7, 5])
    np.testing.assert_array_equal(stream.steps.episode, [0, 0, 1, 2, 2, 3])
    assert stream.n_episodes == 4


def test_one_number_stands_for_every_step():
    stream = make(discount=0.5, rho=2, reward=-1)
    np.testing.assert_array_equal(stream.steps.discount, [0.5] * 3)
    np.testing.assert_array_equal(stream.steps.rho, [2.0] * 3)
    np.testing.assert_array_equal(stream.steps.reward, [-1.0] * 3)
    without = {name: value for name, value in GOOD.items() if name != "rho"}
    np.testing.assert_array_equal(Stream.from_arrays(**without).steps.rho, [1.0] * 3)


@pytest.mark.parametrize("form", ["csr_array", "csr_matrix", "coo_array", "csc_array"])
def test_sparse_features_are_kept_sparse_with_duplicates_summed(form):
    dense = np.array([[1.0, 0, 2], [0, 0, 0], [0, 3, 0]])
    stream = make(features=getattr(scipy.sparse, form)(dense))
    assert "sparse" in repr(stream)
    np.testing.assert_array_equal(stream.features.toarray(), dense)
    doubled = scipy.sparse.coo_array(([1.0, 1.0, 4.0], ([0, 0, 2], [1, 1, 0])), shape=(3, 3))
    view = make(features=doubled).view.features
    np.testing.assert_array_equal(view.data, [2.0, 4.0])
    np.testing.assert_array_equal(view.indices, [1, 0])
    np.testing.assert_array_equal(view.begin, [0, 1, 1, 2])
    assert view.n_columns == 3


def test_making_a_stream_leaves_the_callers_sparse_matrix_alone():
    data, indices, begin = np.array([1.0, 2.0, 3.0]), np.array([2, 0, 0]), np.array([0, 3, 3, 3])
    features = scipy.sparse.csr_array((data, indices, begin), shape=(3, 3))
    stream = make(features=features)
    np.testing.assert_array_equal(stream.features.toarray()[0], [5, 0, 1])
    np.testing.assert_array_equal(features.data, [1, 2, 3])
    np.testing.assert_array_equal(features.indices, [2, 0, 0])


def test_whole_numbers_may_come_as_floats_and_lists_as_anything_iterable():
    stream = make(row=[0.0, 1.0, 0.0], episode=np.array([1, 1, 2], np.uint8), features=[[1, 2], [3, 4], [5, 6]])
    np.testing.assert_array_equal(stream.steps.row, [0, 1, 0])
    np.testing.assert_array_equal(stream.features, [[1.0, 2], [3, 4], [5, 6]])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"features": np.ones(3)}, ["features", "2 dimensions", "(3,)"]),
        ({"features": np.ones((3, 1, 1))}, ["features", "2 dimensions", "(3, 1, 1)"]),
        ({"features": np.ones((0, 3))}, ["features", "at least one row", "(0, 3)"]),
        ({"features": np.ones((3, 0))}, ["features", "one column", "(3, 0)"]),
        ({"features": scipy.sparse.csr_array((3, 0))}, ["features", "one column", "(3, 0)"]),
        ({"features": scipy.sparse.coo_array(np.ones(3))}, ["features", "2 dimensions", "(3,)"]),
        ({"features": [["a", "b"]]}, ["features", "numbers"]),
        ({"features": [[1.0], [1.0, 2.0]]}, ["features", "numbers"]),
        ({"features": np.eye(3) * 1j}, ["features", "numbers"]),
        ({"features": with_entry((1, 2), np.nan)}, ["finite", "features[1, 2] is nan"]),
        ({"features": with_entry((2, 0), -np.inf)}, ["finite", "features[2, 0] is -inf"]),
        ({"features": sparse_with(np.nan)}, ["features", "finite", "nan"]),
        ({"features": sparse_with(np.inf)}, ["features", "finite", "inf"]),
        ({"row": [], "next_row": [], "reward": [], "discount": [], "rho": [], "episode": []}, ["at least one step"]),
        ({"row": [[0, 1, 0]]}, ["row", "1 dimension", "(1, 3)"]),
        ({"row": 1}, ["row", "1 dimension", "()"]),
        ({"row": [0, 3, 0]}, ["row", "0 to 2", "row[1] is 3"]),
        ({"row": [0, -1, 0]}, ["row", "0 to 2", "row[1] is -1"]),
        ({"row": [0, 0.5, 0]}, ["row", "whole numbers", "0.5"]),
        ({"row": [0, np.nan, 0]}, ["row", "whole numbers", "nan"]),
        ({"row": [0, np.inf, 0]}, ["row", "inf"]),
        ({"row": ["a", "b", "c"]}, ["row", "whole numbers"]),
        ({"row": [[0], [0, 1], [1]]}, ["row"]),
        ({"next_row": [1, 2, 3]}, ["next_row", "0 to 2", "next_row[2] is 3"]),
        ({"next_row": [1, 2]}, ["row has 3", "next_row has 2"]),
        ({"next_row": [-1, -1, 0]}, ["next_row[0] is -1 (and 1 more)"]),
        ({"reward": [0.0, 1.0]}, ["row has 3", "reward has 2"]),
        ({"reward": [[0.0, 1.0, 2.0]]}, ["reward", "1 dimension", "(1, 3)"]),
        ({"reward": [0.0, np.nan, 2.0]}, ["reward", "finite", "reward[1] is nan"]),
        ({"reward": ["a", "b", "c"]}, ["reward", "numbers"]),
        ({"discount": [0.9, 1.1, 0.9]}, ["discount", "[0, 1]", "discount[1] is 1.1"]),
        ({"discount": [0.9, 0.0, -0.1]}, ["discount", "[0, 1]", "discount[2] is -0.1"]),
        ({"discount": [np.nan, 0.0, 0.1]}, ["discount", "finite", "discount[0] is nan"]),
        ({"discount": 1.5}, ["discount", "[0, 1]", "1.5"]),
        ({"discount": [0.9] * 4}, ["row has 3", "discount has 4"]),
        ({"rho": [1.0, -0.5, 1.0]}, ["rho", "negative", "rho[1] is -0.5"]),
        ({"rho": [1.0, np.inf, 1.0]}, ["rho", "finite", "rho[1] is inf"]),
        ({"rho": np.nan}, ["rho", "finite", "nan"]),
        ({"rho": [1.0]}, ["row has 3", "rho has 1"]),
        ({"episode": [7, 8, 7]}, ["contiguous", "episode 7 occurs again at step 2", "sort"]),
        ({"episode": [7, 7]}, ["row has 3", "episode has 2"]),
        ({"episode": [0.5, 0.5, 1]}, ["episode", "whole numbers", "0.5"]),
        ({"episode": [1.0, 1.0, np.inf]}, ["episode", "inf"]),
        ({"episode": 0}, ["episode", "1 dimension", "()"]),
    ],
)
def test_bad_input_is_refused_in_one_sentence_that_names_it(change, words):
    with pytest.raises(InputError) as caught:
        make(**change)
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    for word in words:
        assert word in message


def test_a_truncated_step_bootstraps_and_a_terminated_one_does_not():
    # One step earns 1 and leads to a state worth 10; only the discount says whether that counts.
    shared = {"features": np.eye(2), "row": [0], "next_row": [1], "reward": [1.0], "episode": [0]}
    cut_off = Stream.from_arrays(**shared, discount=[0.9])
    ended = Stream.from_arrays(**shared, discount=[0.0])
    theta0 = [0.0, 10.0]
    for compile in (False, True):
        options = {"alpha": 0.5, "theta0": theta0, "snapshots": [1], "compile": compile}
        np.testing.assert_allclose(gradtd.learn(cut_off, "td", **options).theta, [0.5 * (1 + 9), 10])
        np.testing.assert_allclose(gradtd.learn(ended, "td", **options).theta, [0.5 * 1, 10])


def test_lstd_sees_the_difference_between_truncation_and_termination():
    # A single state that earns 1 a step, logged in episodes of four steps that were cut off, or that ended.
    n = 40
    last = np.arange(n) % 4 == 3
    shared = {"features": np.ones((1, 1)), "row": [0] * n, "next_row": [0] * n, "reward": 1.0}
    shared["episode"] = np.arange(n) // 4
    truncated = Stream.from_arrays(**shared, discount=0.9)
    terminated = Stream.from_arrays(**shared, discount=np.where(last, 0.0, 0.9))
    lstd = {"algorithm": "lstd", "solver": "batch", "ridge": 0, "snapshots": [n], "compile": False}
    np.testing.assert_allclose(gradtd.learn(truncated, **lstd).theta, [1 / (1 - 0.9)])
    np.testing.assert_allclose(gradtd.learn(terminated, **lstd).theta, [1 / (1 - 0.9 * 3 / 4)])


def test_a_stream_is_frozen():
    with pytest.raises(AttributeError):
        make().name = "other"


def mdp_arrays():
    transition = np.zeros((3, 2, 3))
    transition[:, 0, 1] = transition[:, 1, 2] = 1.0
    return {
        "transition": transition,
        "reward": np.zeros((3, 2, 3)),
        "terminal": np.array([False, False, True]),
        "start": np.array([1.0, 0, 0]),
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"transition": np.full((3, 2, 3), 0.3)}, ["transition", "sum to 1", "0.8999"]),
        ({"transition": np.full((3, 2, 3), -1.0)}, ["transition", "[0, 1]", "transition[0, 0, 0] is -1.0"]),
        ({"transition": np.ones((3, 1))}, ["transition", "3 dimensions", "(3, 1)"]),
        ({"transition": np.full((3, 2, 2), 0.5)}, ["(states, actions, states)", "(3, 2, 2)"]),
        ({"reward": np.zeros((3, 1, 3))}, ["(states, actions, states)", "(3, 1, 3)"]),
        ({"reward": np.full((3, 2, 3), np.nan)}, ["reward", "finite", "nan"]),
        ({"start": np.array([0.5, 0.5])}, ["start", "3"]),
        ({"start": np.array([0.5, 0.0, 0.5])}, ["start", "not terminal"]),
        ({"start": np.array([0.5, 0.2, 0.0])}, ["start", "sum to 1", "0.7"]),
        ({"terminal": np.ones(3, bool)}, ["not terminal"]),
        ({"terminal": np.zeros(2, bool)}, ["terminal", "3"]),
    ],
)
def test_an_impossible_mdp_is_refused(change, words):
    with pytest.raises(InputError) as caught:
        FiniteMDP(**(mdp_arrays() | change))
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"behaviour": np.full((3, 3), 1 / 3)}, ["behaviour", "(3, 2)", "(3, 3)"]),
        ({"target": np.full((2, 2), 0.5)}, ["target", "(3, 2)", "(2, 2)"]),
        ({"target": np.full((3, 2), 0.4)}, ["target", "sum to 1", "0.8"]),
        ({"features": np.eye(2)}, ["features", "one row per state (3)", "(2, 2)"]),
        ({"features": np.ones(3)}, ["features", "2 dimensions"]),
        ({"theta0": np.zeros(2)}, ["theta0", "3 entries", "2"]),
        ({"theta0": np.full(3, np.inf)}, ["theta0", "finite", "inf"]),
        ({"gamma": 1.01}, ["gamma", "[0, 1]", "1.01"]),
        ({"gamma": float("nan")}, ["gamma", "[0, 1]", "nan"]),
        ({"gamma": "0.9"}, ["gamma", "0.9"]),
    ],
)
def test_an_impossible_problem_is_refused(change, words):
    half = np.full((3, 2), 0.5)
    good = {
        "name": "by_hand", "mdp": FiniteMDP(**mdp_arrays()), "behaviour": half, "target": half,
        "features": np.eye(3), "gamma": 0.9, "theta0": np.zeros(3), "source": "a test",
    }  # fmt: skip
    Problem(**good)
    with pytest.raises(InputError) as caught:
        Problem(**(good | change))
    for word in words:
        assert word in str(caught.value)


def test_terminal_states_marked_by_0_and_1_mean_the_same_as_by_truth_values():
    # With integers ~terminal is -1 and -2, and every value would change its sign.
    walk = gradtd.PROBLEMS["random_walk"]()
    arrays = {name: getattr(walk.mdp, name) for name in ("transition", "reward", "start")}
    marked = FiniteMDP(**arrays, terminal=walk.mdp.terminal.astype(int))
    expected, found = gradtd.exact(walk), gradtd.exact(replace(walk, mdp=marked))
    np.testing.assert_array_equal(found.v_pi, expected.v_pi)
    np.testing.assert_array_equal(found.A, expected.A)


@pytest.mark.parametrize("compile", [False, True])
def test_start_weights_that_are_whole_numbers_are_not_rounded_for_ever(compile):
    walk = gradtd.PROBLEMS["random_walk"]()
    options = {"alpha": 0.1, "runs": 1, "steps": 200, "snapshots": [200], "compile": compile}
    whole = gradtd.run(replace(walk, theta0=np.zeros(5, int)), "td", **options)
    np.testing.assert_array_equal(whole.theta, gradtd.run(walk, "td", **options).theta)


def test_a_problem_may_be_written_with_lists():
    walk = gradtd.PROBLEMS["random_walk"]()
    names = ("transition", "reward", "terminal", "start")
    mdp = FiniteMDP(**{name: getattr(walk.mdp, name).tolist() for name in names})
    tables = {name: getattr(walk, name).tolist() for name in ("behaviour", "target", "features", "theta0")}
    written = replace(walk, mdp=mdp, **tables)
    np.testing.assert_array_equal(gradtd.exact(written).A, gradtd.exact(walk).A)


def nothing(state, stream, now, hyper):
    """Do nothing.

    Not even here.
    """


def test_an_algorithm_wraps_plain_defaults_and_tells_its_summary():
    rule = Algorithm("mine", nothing, parameters={"beta": 0.5, "eta": Parameter(2.0, "help")})
    assert rule.parameters["beta"].default == 0.5
    assert rule.parameters["eta"].help == "help"
    assert rule.summary == "Do nothing."
    assert rule.init(3, {}) == {}


def test_an_algorithm_that_asks_for_unknown_draws_is_refused():
    with pytest.raises(InputError, match=r"draws must be one of nothing, new batch.*got 'three batches'"):
        Algorithm("mine", nothing, draws="three batches")


def test_a_result_tells_its_last_weights_and_how_many_runs_diverged():
    result = gradtd.run("baird", "td", alpha=0.5, runs=3, steps=2000, snapshots=[0, 2000], limit=1e3, compile=False)
    assert result.thetas.shape == (3, 2, 8)
    np.testing.assert_array_equal(result.theta, result.thetas[:, -1])
    assert result.diverged == 3
    assert "3 diverged" in repr(result)
    assert "alpha=0.5" in repr(result)
