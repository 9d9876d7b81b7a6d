"""What a learner and a horde refuse, each with one sentence that says what to do."""

import json

import numpy as np
import pytest
import scipy.sparse

import gradtd
from gradtd import Horde, InputError, Learner
from running.online.test_learner import STREAM, THETA0, D, feed

STEP = {"phi": THETA0, "reward": 1.0, "phi_next": THETA0, "discount": 0.5}


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ({"phi": [1.0]}, "phi needs 4 entries, one per feature; got 1"),
        ({"phi_next": np.ones((1, D))}, "phi_next must have 1 dimension, got shape"),
        ({"phi": [1, 2, np.nan, 4]}, r"phi must be finite: phi\[2\] is nan"),
        ({"phi": ["a"] * D}, "phi must be an array of real numbers"),
        ({"reward": np.inf}, "reward must be finite"),
        ({"reward": "1"}, "reward must be a number"),
        ({"rho": -0.1}, "rho must be at least 0, got -0.1"),
        ({"rho": np.nan}, "rho must be finite"),
        ({"discount": 1.01}, r"discount must be a number in \[0, 1\], got 1.01"),
        ({"discount": np.nan}, r"discount must be a number in \[0, 1\]"),
        ({"discount": None}, "discount must be given: gamma, or 0 if the episode terminated"),
        ({"episode": 1.5}, "episode must be a whole number"),
    ],
)
@pytest.mark.parametrize("make", [lambda: Learner(D, compile=False), lambda: Horde(D, ["a", "b"], compile=False)])
def test_a_bad_step_is_refused(make, bad, sentence):
    learner = make()
    with pytest.raises(InputError, match=sentence):
        learner.update(**STEP | bad)
    assert learner.seen == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("krylov_gtd", {}), "krylov_gtd rereads all steps by number.* give it to gradtd.learn"),
        (("svrg_gtd", {"alpha": 0.1}), "svrg_gtd rereads all steps by number"),
        (("direct_gtd", {"alpha": 0.1}), "direct_gtd rereads all steps by number"),
        (("impression_gtd", {"average": "tail"}), "average='tail' begins at half of the steps"),
        (("impression_gtd", {"capacity": 10}), "capacity must be greater than 32"),
        (("impression_gtd", {"capacity": 0}), "capacity must be at least 1"),
        (("td", {"alpha": 0.1, "batch_size": 3}), "unknown hyper-parameter of td 'batch_size'"),
        (("td", {}), "td needs alpha"),
        (("td", {"alpha": 0.1, "theta0": [1.0]}), "theta0 needs 4 entries"),
        (("td", {"alpha": 0.1, "seed": -1}), "seed must be between 0 and"),
        (("tde", {}), "unknown algorithm 'tde'"),
    ],
)
def test_bad_settings_are_refused(arguments, sentence):
    name, hyper = arguments
    with pytest.raises(InputError, match=sentence):
        Learner(D, name, **hyper)


@pytest.mark.parametrize(
    ("demons", "sentence"),
    [
        ("walker", "demons must be a list of names"),
        ([], "names of demons must be text"),
        (["a", "a"], "names of demons must be text, without duplicates"),
        ([1, 2], "names of demons must be text"),
        ({"a": 0.1}, "the settings of demon 'a' must be a mapping"),
        ({"a": {"algorithm": "td"}}, "td needs alpha"),
    ],
)
def test_bad_demons_are_refused(demons, sentence):
    with pytest.raises(InputError, match=sentence):
        Horde(D, demons, batch_size=8)


def test_numbers_for_demons_that_do_not_fit_are_refused():
    horde = Horde(D, ["a", "b"], compile=False)
    for bad, sentence in (
        ({"reward": {"a": 1.0}}, r"reward needs one number for every demon \(a, b\), got a"),
        ({"rho": [1.0, 1.0, 1.0]}, "rho needs one number for all demons or one for each of 2, got 3"),
        ({"rho": [1.0, -1.0]}, r"rho\[1\] must be at least 0"),
        ({"discount": {"a": 0.5, "b": 2}}, r"discount\['b'\] must be a number in \[0, 1\]"),
    ):
        with pytest.raises(InputError, match=sentence):
            horde.update(**STEP | bad)
    for bad, sentence in (
        ({"reward": 1.0}, "reward must map demons to one entry per step"),
        ({"reward": {"c": 1.0}}, "unknown demon 'c'"),
        ({"rho": {"a": [1.0]}}, r"rho\['a'\] needs one entry per step \(240\), got 1"),
        ({"rho": {"a": -1.0}}, r"rho\['a'\] must not be negative"),
        ({"discount": {"a": 1.5}}, r"discount\['a'\] must lie in \[0, 1\]"),
    ):
        with pytest.raises(InputError, match=sentence):
            horde.partial_fit(STREAM, **bad)
    assert horde.seen == 0


def test_streams_that_do_not_fit_are_refused_and_narrow_sparse_ones_stored_densely():
    with pytest.raises(InputError, match="partial_fit takes a Stream"):
        Learner(D).partial_fit(STREAM.features)
    with pytest.raises(InputError, match="stream has 4 features, this learner 3"):
        Learner(3).partial_fit(STREAM)
    wide = gradtd.Stream(scipy.sparse.csr_array((2, 5000)), STREAM.steps[:1])
    settings = {"alpha": 0.1, "batch_size": 2, "similarity": lambda x, y: x @ y, "compile": False}  # reads dense rows
    with pytest.raises(InputError, match=r"sparse with 5000 features, .* limited to 4096 features"):
        Learner(5000, **settings).partial_fit(wide)
    sparse = gradtd.Stream(scipy.sparse.csr_array(STREAM.features), STREAM.steps)
    found, wanted = (Learner(D, **settings).partial_fit(s).theta for s in (sparse, STREAM))
    assert wanted.any()
    assert found.tobytes() == wanted.tobytes()


def test_predict_refuses_what_has_another_shape():
    for phi, sentence in (
        (np.ones(3), "phi needs 4 features in its last axis"),
        (np.ones((2, 3)), "phi needs 4 features in its last axis"),
        (np.ones((1, 2, D)), "phi must have 1 dimension"),
        ([[1.0], [1.0, 2.0]], "phi must be an array of numbers, got rows of different lengths"),
    ):
        with pytest.raises(InputError, match=sentence):
            Learner(D).predict(phi)


@pytest.fixture
def file(tmp_path):
    learner = Learner(D, capacity=20, batch_size=2, compile=False)
    feed(learner, end=120).save(tmp_path / "it.npz")
    return tmp_path / "it.npz"


def test_code_is_not_saved(tmp_path):
    own = gradtd.Algorithm("mine", lambda state, stream, now, hyper: None)
    with pytest.raises(InputError, match="mine is a custom rule, and gradtd does not save code"):
        Learner(D, own, alpha=0.1).save(tmp_path / "it.npz")
    with pytest.raises(InputError, match="similarity is a function, and gradtd does not save code"):
        Learner(D, alpha=0.1, similarity=np.dot).save(tmp_path / "it.npz")
    with pytest.raises(InputError, match="save: there is no folder"):
        Learner(D).save(tmp_path / "nowhere" / "it.npz")
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_not_ours_are_refused(tmp_path, file):
    with pytest.raises(InputError, match=r"there is no file .*nothing.npz'"):
        Learner.load(tmp_path / "nothing.npz")
    for content in (b"", b"hello", file.read_bytes()[:500], b"\x80\x04N."):
        (tmp_path / "other.npz").write_bytes(content)
        with pytest.raises(InputError, match=r"is not a file that Learner.save wrote, or it is damaged"):
            Learner.load(tmp_path / "other.npz")
    np.savez(tmp_path / "other.npz", theta=THETA0)
    with pytest.raises(InputError, match=r"is not a file that Learner.save wrote, or it is damaged"):
        Learner.load(tmp_path / "other.npz")
    np.savez(tmp_path / "other.npz", header=np.array([{}], dtype=object))
    with pytest.raises(InputError, match=r"is not a file that Learner.save wrote, or it is damaged"):
        Learner.load(tmp_path / "other.npz")
    with pytest.raises(InputError, match=r"contains a Learner: load it with Learner.load"):
        Horde.load(file)


def _rewritten(file, change):
    with np.load(file) as found:
        arrays = {name: found[name] for name in found.files}
    header = json.loads(arrays["header"].tobytes())
    header.pop("sha256")  # whoever means harm would write the right one
    change(arrays, header)
    np.savez(file, **arrays | {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)})


def _row_outside(arrays, header):
    arrays["0.steps"]["next_row"][3] = 10**6


def _third_side(arrays, header):
    arrays["0.side"][0] = 2


def _short_side(arrays, header):
    arrays["0.side"] = arrays["0.side"][1:]


def _other_state(arrays, header):
    arrays["0.state.theta"] = np.zeros(D + 1)


def _other_type(arrays, header):
    arrays["0.state.theta"] = np.zeros(D, np.float32)


def _no_state(arrays, header):
    del arrays["0.state.z"]


def _format(arrays, header):
    header["format"] = 99


def _stranger(arrays, header):
    header["made_by"] = "somebody"


def _unknown_rule(arrays, header):
    header["runs"][0]["algorithm"] = "no_such_rule"


def _negative_clock(arrays, header):
    arrays["0.clock"]["seen"] = -5


def _steps_never_given(arrays, header):
    arrays["0.clock"]["seen"] = 124


def _more_updates_than_steps(arrays, header):
    arrays["0.clock"]["updates"] = 121


def _diverged_and_learning(arrays, header):
    header["runs"][0]["diverged_at"] = 3


def _huge_n_features(arrays, header):
    header["n_features"] = 10**11
    arrays["features"] = np.zeros((0, 10**11))


def _huge_batch(arrays, header):
    header["runs"][0]["hyper"]["batch_size"] = 10**12


def _wide_state(arrays, header):
    """A rule that keeps a square of its features, and a file without it."""
    header["n_features"], header["runs"][0]["algorithm"] = 40_000, "newton_td"
    header["runs"][0]["hyper"] = {"alpha": 0.1}
    arrays["features"], arrays["0.state.theta"] = np.zeros((0, 40_000)), np.zeros(40_000)


def _endless_number(arrays, header):
    header["runs"][0]["hyper"]["limit"] = 10**400


def _start_beyond_compiled_code(arrays, header):
    header["runs"][0]["hyper"]["start"] = 10**30


def _reward_nan(arrays, header):
    arrays["0.steps"]["reward"][0] = np.nan


def _features_nan(arrays, header):
    arrays["features"][0, 0] = np.nan


def _two_of_one_name(arrays, header):
    header["runs"] *= 2


def _no_episodes(arrays, header):
    header["episodes"]["number"] = "many"


def _no_runs(arrays, header):
    header["runs"] = []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_row_outside, "next_row must be a row of features"),
        (_third_side, "side must be 0 or 1"),
        (_short_side, r"0.side has type uint8 and shape"),
        (
            _other_state,
            r"0.state.theta has type float64 and shape \(5,\), expected float64 and \(4,\): it was written by",
        ),
        (_other_type, "0.state.theta has type float32"),
        (_no_state, "is not a file that Learner.save wrote, or it is damaged"),
        (_format, "has format 99, this version of gradtd reads 2"),
        (_stranger, "is not a file that Learner.save wrote"),
        (_unknown_rule, "unknown algorithm 'no_such_rule'"),
        (_negative_clock, r"seen must be 120, the number of steps: seen\[0\] is -5"),
        (_steps_never_given, r"seen must be 120, the number of steps: seen\[0\] is 124"),
        (_more_updates_than_steps, r"updates must lie in 0 to 120, the number of steps"),
        (_diverged_and_learning, r"the file's run has diverged and holds 40 steps"),
        (_huge_n_features, r"0.state.theta has type float64 and shape \(4,\), expected float64 and \(100000000000,\)"),
        (_huge_batch, "batch_size must be at most 67108864, got 1000000000000"),
        (_wide_state, "is not a file that Learner.save wrote, or it is damaged"),
        (_endless_number, "limit must be at most 1.8e308 in size, got a larger number"),
        (_start_beyond_compiled_code, r"start must be at most 1e\+12, got 1000"),
        (_reward_nan, "reward must be finite"),
        (_features_nan, "features must be finite"),
        (_two_of_one_name, "is not a file that Learner.save wrote, or it is damaged"),
        (_no_episodes, "the number of the latest episode must be a whole number"),
        (_no_runs, "is not a file that Learner.save wrote, or it is damaged"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(file, change, sentence):
    Learner.load(file)
    _rewritten(file, change)
    with pytest.raises(InputError, match=sentence):
        Learner.load(file)


def test_counts_that_were_moved_do_not_let_a_batch_begin_before_the_first_step(tmp_path):
    """The latest steps as a batch: with 3 of 10^6 steps held, the batch would have been read from elsewhere."""
    file = tmp_path / "it.npz"
    feed(Learner(D, "minibatch_tdc", alpha=0.1, eta=1.0, batch_size=8, compile=False), end=3).save(file)

    def moved(arrays, header):
        header["runs"][0]["hyper"]["batch_size"] = 10**6
        header["seen"] = header["runs"][0]["given"] = arrays["0.clock"]["seen"][0] = 10**6 - 1

    _rewritten(file, moved)
    with pytest.raises(InputError, match="the file's run holds 3 of its latest 999999 steps"):
        Learner.load(file)


def test_a_write_that_fails_leaves_the_old_file(file, monkeypatch):
    before = file.read_bytes()

    def full(*arguments, **arrays):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(InputError, match=r"cannot write .*it.npz': No space left on device"):
        Learner(D).save(file)
    assert file.read_bytes() == before
    assert [found.name for found in file.parent.iterdir()] == ["it.npz"]


def test_an_encrypted_file_is_refused(tmp_path):
    path = tmp_path / "learner.npz"
    Learner(2, "td", alpha=0.1).save(path)
    data = bytearray(path.read_bytes())
    data[data.find(b"PK\x01\x02") + 8] |= 1  # the flag of an encrypted member, in the list at the end of the file
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"is not a file that Learner.save wrote, or it is damaged"):
        Learner.load(path)


def test_a_file_of_the_first_release_is_told_apart_from_damage(tmp_path):
    path = tmp_path / "learner.npz"
    np.savez(path, header=np.array(json.dumps({"made_by": "gradtd learner", "format": 1, "kind": "Learner"})))
    with pytest.raises(InputError, match="has format 1, this version of gradtd reads 2"):
        Learner.load(path)
