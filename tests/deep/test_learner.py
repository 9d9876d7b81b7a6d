"""`EpisodeReplay` and `DeepLearner`: independent batches, terminated apart from truncated, and files."""

import copy
import pickle
import subprocess
import sys
import tracemalloc

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from gradtd import InputError
from gradtd.core.files import read_arrays, write_arrays
from gradtd.deep import DeepLearner, EpisodeReplay

WALK = {"gamma": 0.9}


def fill(replay, episodes=6, length=5):
    for episode in range(episodes):
        for t in range(length):
            ends = {"terminated": t == length - 1 and episode % 3 == 0, "truncated": t == length - 1}
            replay.add([float(episode), float(t)], 1.0, [float(episode), t + 1.0], rho=0.5, **WALK, **ends)


@pytest.mark.parametrize("split", ["odd_even", "coin", "episode"])
def test_the_two_batches_share_no_episode(split):
    replay = EpisodeReplay(100, split, seed=4)
    fill(replay)
    for _ in range(20):
        first, second = replay.pair(8, 16)
        assert first.x.shape == (8, 2)
        assert second.x.shape == (16, 2)
        assert not set(first.x[:, 0]) & set(second.x[:, 0])


def test_a_terminated_step_has_discount_0_and_a_truncated_one_keeps_gamma():
    replay = EpisodeReplay(100)
    fill(replay)
    steps = replay.steps
    last = steps["x"][:30, 1] == 4
    ended = last & (steps["x"][:30, 0] % 3 == 0)
    np.testing.assert_array_equal(steps["discount"][:30], np.where(ended, 0.0, 0.9))


def test_the_oldest_steps_leave_first():
    replay = EpisodeReplay(12)
    fill(replay)
    assert len(replay) == 12
    assert set(replay.steps["x"][:, 0]) == {3.0, 4.0, 5.0}


def test_without_a_second_episode_there_is_no_pair():
    replay = EpisodeReplay(10)
    replay.add([0.0], 0.0, [1.0], gamma=0.9)
    with pytest.raises(InputError, match="two episodes"):
        replay.pair()


def learner(**more):
    return DeepLearner(2, hidden=(4,), batch=(4, 4), capacity=40, seed=3, ridge=1.0, **more)


def steps(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n + 1, 2))
    return {"x": x[:-1], "reward": x[1:, 0], "next_x": x[1:], "gamma": 0.9, "terminated": np.arange(n) % 5 == 4}


@pytest.mark.slow
def test_what_is_loaded_goes_on_to_the_same_bytes(tmp_path):
    straight = learner().partial_fit(**steps(30, 0)).partial_fit(**steps(30, 1))
    stopped = learner().partial_fit(**steps(30, 0))
    stopped.save(tmp_path / "learner.npz")
    again = DeepLearner.load(tmp_path / "learner.npz").partial_fit(**steps(30, 1))
    assert again.updates == straight.updates > 0
    for one, other in zip(jax.tree.leaves(straight.params), jax.tree.leaves(again.params), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    assert np.abs(np.asarray(ravel_pytree(again.params)[0]) - ravel_pytree(learner().params)[0]).max() > 1e-3


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_goes_on_to_the_same_bytes_and_leaves_the_original_alone(copied):
    first = learner().partial_fit(**steps(12, 0))
    before = np.asarray(ravel_pytree(first.params)[0])
    again = copied(first).partial_fit(**steps(12, 1))
    assert np.asarray(ravel_pytree(first.params)[0]).tobytes() == before.tobytes()
    assert len(first.replay) == 12
    first.partial_fit(**steps(12, 1))
    assert again.updates == first.updates > 0
    for one, other in zip(jax.tree.leaves(first.params), jax.tree.leaves(again.params), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "learner.npz"
    saved = learner()
    saved.save(path)
    assert DeepLearner.load(path).updates == 0
    content = bytearray(path.read_bytes())
    weights = np.asarray(ravel_pytree(saved.params)[0]).tobytes()
    content[content.index(weights) + len(weights) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError):
        DeepLearner.load(path)


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match="option"):
        learner(rigde=1.0)
    with pytest.raises(InputError, match="shape"):
        learner().update([1.0], 0.0, [1.0, 2.0], gamma=0.9)


@pytest.mark.slow
def test_without_the_extra_a_sentence_says_what_to_install():
    hidden = "import sys; sys.modules['jax'] = None; import importlib.util as u; f = u.find_spec\n"
    hidden += "u.find_spec = lambda n, *a: None if n == 'jax' else f(n, *a)\nimport gradtd.deep"
    made = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False)
    assert "gradtd.deep needs JAX and optax: pip install 'gradtd[deep]'." in made.stderr


def _with(path, change):
    """The file with a changed header and a right checksum."""
    header, arrays = read_arrays(path)
    change(header, arrays)
    write_arrays(path, arrays, header)


@pytest.mark.parametrize(
    "change",
    [
        lambda header, arrays: header["settings"].update(hidden=[200_000, 200_000]),
        lambda header, arrays: header.update(n_inputs=10**9),
        lambda header, arrays: header["settings"].update(batch=[10**11, 10**11]),
        lambda header, arrays: header["replay"].update(seen=10**9),
        lambda header, arrays: arrays.update({"steps.x": arrays["steps.x"][:3]}),
        lambda header, arrays: header.update(settings=7),
        lambda header, arrays: arrays.update({"steps.rho": arrays["steps.rho"] - 2}),
        lambda header, arrays: arrays.update({"steps.discount": arrays["steps.discount"] + 1}),
    ],
    ids=["widths", "inputs", "batches", "steps seen", "steps cut", "settings", "negative ratios", "discounts"],
)
def test_nothing_larger_than_the_file_is_made(tmp_path, change):
    path = tmp_path / "learner.npz"
    learner = DeepLearner(2, hidden=(8,), capacity=10**12).partial_fit(**steps(4, 0))
    learner.save(path)
    assert DeepLearner.load(path).replay.capacity == 10**12  # room for as many steps as there are
    _with(path, change)
    tracemalloc.start()
    with pytest.raises(InputError):
        DeepLearner.load(path)
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()


def test_numbers_beyond_single_precision_are_refused():
    """They are infinite in the network, and every weight became NaN."""
    learner = DeepLearner(2, hidden=(3,), batch=(2, 2), capacity=20)
    for wrong in ({"reward": 1e39}, {"rho": 1e39}, {"reward": -1e300}):
        step = {"reward": 1.0, "rho": 1.0} | wrong
        with pytest.raises(InputError, match=r"at most 3\.4e38"):
            learner.update(np.ones(2), step.pop("reward"), np.ones(2), gamma=0.9, **step)
    with pytest.raises(InputError, match="next_x must be finite"):
        learner.update(np.ones(2), 1.0, np.full(2, 1e39), gamma=0.9)
    with pytest.raises(InputError, match="step_size must be at most"):
        DeepLearner(2, step_size=2**130)


def test_any_seed_is_taken():
    assert DeepLearner(2, hidden=(3,), seed=2**70).predict(np.zeros(2)) == 0
