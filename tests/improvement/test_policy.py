"""The improved policy: saved, loaded, refused, and evaluated as a target."""

from dataclasses import replace

import numpy as np
import pytest

import gradtd
from gradtd.core.files import read_arrays, write_arrays
from improvement.test_policy_iteration import random_log


@pytest.fixture(scope="module")
def table():
    columns, *_ = random_log(3, episodes=150)
    return columns, gradtd.improve(columns, 0.9, least=5, progress=False)


@pytest.fixture(scope="module")
def linear():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (800, 2))
    action = rng.integers(2, size=800)
    reward = np.where(action == (x[:, 0] > 0), 1.0, 0.0) + rng.normal(0, 0.3, 800)
    log = {"obs": x, "action": action, "action_prob": np.full(800, 0.5), "reward": reward}
    how = {"log_format": gradtd.LogFormat(one_step=True), "features": "fourier:order=2", "progress": False}
    return x, gradtd.improve(log, 1.0, least=5, **how)


def test_a_table_comes_back_as_it_was(table, tmp_path):
    policy = table[1].policy
    again = gradtd.load_policy(policy.save(tmp_path / "policy.npz"))
    assert again.actions == policy.actions
    assert (again(np.arange(9)) == policy(np.arange(9))).all()
    given = np.tile([0.2, 0.3, 0.5], (9, 1))
    assert (again(np.arange(9), given) == policy(np.arange(9), given)).all()


def test_a_function_comes_back_as_it_was(linear, tmp_path):
    x, found = linear
    again = gradtd.load_policy(found.policy.save(tmp_path / "policy.npz"))
    assert (again(x) == found.policy(x)).all()


def test_states_that_the_log_lacks_get_the_shares_of_its_actions(table):
    columns, found = table
    share = np.bincount(columns["action"]) / len(columns["action"])
    np.testing.assert_allclose(found.policy([77])[0], share)
    assert found.policy.knows([0, 77]).tolist() == [True, False]
    given = found.policy([0, 77], behaviour=np.tile([0.1, 0.2, 0.7], (2, 1)))
    assert given[1].tolist() == [0.1, 0.2, 0.7]


def test_it_is_a_change_of_the_behaviour(table, linear):
    """Recorded probabilities are the behaviour's own here, so both ways to ask agree."""
    columns, found = table
    recorded = np.zeros((6, 3))
    recorded[columns["obs"], columns["action"]] = columns["action_prob"]
    np.testing.assert_allclose(found.policy(np.arange(6), recorded), found.policy(np.arange(6)), atol=1e-12)
    x, real = linear
    np.testing.assert_allclose(real.policy(x, real.policy.model(real.policy.features.transform(x))), real.policy(x))


def test_actions_are_drawn_with_their_probabilities(table):
    policy = table[1].policy
    drawn = policy.act(np.zeros(4000, int), np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(drawn, minlength=3) / 4000, policy([0])[0], atol=0.04)


def test_it_is_a_target_like_its_table(table):
    columns, found = table
    by_policy = gradtd.evaluate(columns, found.policy, 0.9, progress=False)
    by_table = gradtd.evaluate(columns, found.policy(np.arange(6)), 0.9, progress=False)
    assert by_policy.value == by_table.value


def test_actions_with_names_are_matched_by_name():
    """The other log lists its actions in another order."""
    columns, *_ = random_log(3, episodes=150, labels=("low", "mid", "high"))
    found = gradtd.improve(columns, 0.9, least=5, progress=False)
    assert found.policy.actions == ("high", "low", "mid")
    other = gradtd.read_log(columns, actions=["low", "mid", "high"])
    first = gradtd.evaluate(columns, found.policy, 0.9, progress=False).value
    assert gradtd.evaluate(other, found.policy, 0.9, progress=False).value == pytest.approx(first)
    with pytest.raises(gradtd.InputError, match="actions that are not in the log: mid"):
        found.policy.for_log(replace(other, action_labels=("low", "high")))


def test_files_of_strangers_are_refused(table, tmp_path):
    found = table[1]
    path = tmp_path / "policy.npz"
    found.evaluations["behaviour"].save(path)
    with pytest.raises(gradtd.InputError, match="is not a policy that gradtd saved"):
        gradtd.load_policy(path)
    np.savez(path, states=np.arange(2), table=np.eye(2))
    with pytest.raises(gradtd.InputError, match="is not a policy that gradtd saved"):
        gradtd.load_policy(path)
    path.write_bytes(b"\x80\x04\x95 pickled")
    with pytest.raises(gradtd.InputError, match="damaged"):
        gradtd.load_policy(path)
    with pytest.raises(gradtd.InputError, match="there is no file"):
        gradtd.load_policy(tmp_path / "nothing.npz")


def test_changed_files_are_refused(table, tmp_path):
    path = table[1].policy.save(tmp_path / "policy.npz")
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    with pytest.raises(gradtd.InputError, match="damaged"):
        gradtd.load_policy(path)


@pytest.mark.parametrize("name", ["table", "elsewhere", "states", "known", "best"])
def test_numbers_that_are_no_policy_are_refused(table, tmp_path, name):
    path = table[1].policy.save(tmp_path / "policy.npz")
    header, arrays = read_arrays(path)
    wrong = {"states": arrays["states"][::-1].copy(), "known": arrays["known"][:1], "best": arrays["best"] + 3}
    write_arrays(path, arrays | {name: wrong.get(name, arrays[name] * 2)}, header)
    with pytest.raises(gradtd.InputError, match="damaged"):
        gradtd.load_policy(path)


@pytest.mark.parametrize("name", ["weights", "inverse", "spread", "behaviour"])
def test_arrays_of_another_size_are_refused(linear, tmp_path, name):
    path = linear[1].policy.save(tmp_path / "policy.npz")
    header, arrays = read_arrays(path)
    write_arrays(path, arrays | {name: arrays[name][..., :-1]}, header)
    with pytest.raises(gradtd.InputError, match="damaged"):
        gradtd.load_policy(path)


def test_a_log_with_other_observations_is_refused(tmp_path):
    """The same two columns in another order give the policy other observations."""
    rng = np.random.default_rng(0)
    x, v = rng.uniform(-1, 1, (2, 800))
    action = rng.integers(2, size=800)
    reward = np.where(action == (x > 0), 1.0, 0.0)
    table = {"x": x, "v": v, "action": action, "action_prob": np.full(800, 0.5), "reward": reward}
    one, swapped = (
        gradtd.LogFormat(one_step=True, columns={"observation": list(names)}) for names in (("x", "v"), ("v", "x"))
    )
    found = gradtd.improve(table, 1.0, least=5, features="fourier:order=2", progress=False, log_format=one)
    policy = gradtd.load_policy(found.policy.save(tmp_path / "policy.npz"))
    assert gradtd.evaluate(table, policy, 1.0, log_format=one, progress=False).value > 0.8
    with pytest.raises(gradtd.InputError, match="learned from observations of x, v, but those of this log are v, x"):
        gradtd.evaluate(table, policy, 1.0, log_format=swapped, progress=False)


def test_states_that_are_no_numbers_are_refused(table, tmp_path):
    path = table[1].policy.save(tmp_path / "policy.npz")
    header, arrays = read_arrays(path)
    states = arrays["states"].astype(float)
    states[1] = np.nan
    write_arrays(path, arrays | {"states": states}, header)
    with pytest.raises(gradtd.InputError, match="damaged"):
        gradtd.load_policy(path)


@pytest.mark.parametrize("actions", [[0, [[]]], [0, None], [0, 0, 1], [{}, 1]])
def test_actions_that_are_none_are_refused(table, tmp_path, actions):
    path = table[1].policy.save(tmp_path / "policy.npz")
    header, arrays = read_arrays(path)
    write_arrays(path, arrays, header | {"actions": actions})
    with pytest.raises(gradtd.InputError, match="damaged"):
        gradtd.load_policy(path)
