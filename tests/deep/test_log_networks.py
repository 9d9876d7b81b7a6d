"""Features that a network learns from a log: cross-fitted by episodes, checked and stored like any other."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gradtd
from gradtd.deep import Mlp, log_networks
from gradtd.features.network import NetworkFeatures
from gradtd.logs import read_log


def walk_log(episodes=60, length=8, seed=0):
    """A continuous walk whose reward is its first column; some episodes are cut off."""
    rng = np.random.default_rng(seed)
    n = episodes * length
    x = rng.normal(size=(n, 2)).reshape(episodes, length, 2).cumsum(axis=1) / 3
    ends = np.tile(np.arange(length) == length - 1, episodes)
    cut = np.repeat(np.arange(episodes) % 4 == 0, length)
    columns = {"episode": np.repeat(np.arange(episodes), length), "reward": x[..., 0].ravel() + 1}
    columns |= {"obs_0": x[..., 0].ravel(), "obs_1": x[..., 1].ravel(), "rho": rng.choice([0.5, 1.5], n)}
    return columns | {"terminated": ends & ~cut, "truncated": ends & cut}


@pytest.fixture(scope="module")
def log():
    return read_log(walk_log())


@pytest.fixture(scope="module")
def learned(log):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_networks, "UPDATES", 100)
        return log_networks.learn_features(log, log.rho, 0.9)


def test_numpy_columns_are_the_last_layer_of_the_network():
    net = Mlp(3, hidden=(5, 4), activation="tanh")
    params = net.init(jax.random.key(0))
    x = np.random.default_rng(0).normal(size=(6, 3))
    learned = {"center": np.zeros(3), "sd": np.ones(3), "widths": np.array([5, 4])}
    learned["weights"] = np.tile(log_networks._flat(params), 2)
    features = NetworkFeatures.of_log(x, np.array([0, 1, 0, 1, 1, 1]), learned)
    wanted = np.asarray(net.apply(params, jnp.asarray(x, jnp.float32))[1])
    own, new = features.rows(x), features.transform(x)
    np.testing.assert_allclose(new, np.c_[wanted, wanted] / 2, atol=1e-6)  # both networks are one here
    served = np.array([0, 1, 0, 1, 1, 1])[:, None]
    np.testing.assert_allclose(own, np.c_[wanted * (served == 0), wanted * (served == 1)], atol=1e-6)


@pytest.mark.slow
def test_an_episode_is_served_by_the_network_that_has_not_seen_it(log, learned):
    """Other rewards in one half of the episodes change the columns of the other half, and not their own."""
    half = np.random.default_rng(0).permutation(log.n_episodes) % 2
    table = learned.maps[0].rows(log.observations)
    size = table.shape[1] // 2
    in_first = half[log.episode] == 1  # served by network 0, which learned on half 0
    assert (table[log.row[in_first], size:] == 0).all()
    assert (table[log.row[~in_first], :size] == 0).all()
    other = replace(log, reward=np.where(in_first, log.reward * 5 - 3, log.reward))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_networks, "UPDATES", 100)
        patch.setattr(log_networks, "_scale", lambda *_: 1.0)
        made, again = (log_networks.learn_features(one, log.rho, 0.9).maps[0] for one in (log, other))
    one, two = made.rows(log.observations), again.rows(other.observations)
    np.testing.assert_array_equal(one[log.row[in_first]], two[log.row[in_first]])
    assert np.abs(one[log.row[~in_first]] - two[log.row[~in_first]]).max() > 1e-4


@pytest.mark.slow
def test_evaluate_with_a_network_has_its_rows_and_checks_and_is_stored(tmp_path, monkeypatch):
    monkeypatch.setattr(log_networks, "UPDATES", 100)
    made = gradtd.evaluate(
        walk_log(),
        gamma=0.9,
        features="network",
        inference=gradtd.Inference(resamples=0),
        machine=gradtd.Machine(threads=1),
    )
    again = gradtd.evaluate(
        walk_log(),
        gamma=0.9,
        features="network",
        inference=gradtd.Inference(resamples=0),
        machine=gradtd.Machine(threads=1),
    )
    assert made.value == again.value
    own = next(row for row in made.estimates if row.method == "network")
    assert own.low is None
    assert "training seeds" in own.note
    assert any(check.name == "training seed 1" for check in made.checks)
    made.save(tmp_path / "made.npz")
    seen = np.random.default_rng(1).normal(size=(5, 2))
    np.testing.assert_array_equal(gradtd.load_evaluation(tmp_path / "made.npz")(seen), made(seen))


def test_what_a_network_cannot_do_is_refused():
    with pytest.raises(gradtd.InputError, match="learns state values"):
        gradtd.evaluate(walk_log(), gamma=0.9, features="network", value_function="action")
    with pytest.raises(gradtd.InputError, match="episodes"):
        gradtd.evaluate(walk_log(6), gamma=0.9, features="network")
