"""A horde is as many learners, fed from one stream."""

import numpy as np
import pytest

import gradtd
from gradtd import Horde, Learner
from running.online.test_learner import THETA0, D, make_stream, part

DEMONS = {
    "one": {"batch_size": 2},
    "two": {"batch_size": 3, "split": "coin", "seed": 8, "theta0": THETA0},
    "three": {"algorithm": "etd", "alpha": 0.03},
    "four": {"algorithm": "lstd", "solver": "batch"},
}
LONG = make_stream(steps=1500)
REWARD = {"one": np.random.default_rng(1).normal(size=1500), "three": 1.0}
RHO = {"two": np.random.default_rng(2).random(1500)}
DISCOUNT = {"three": np.where(LONG.steps.discount == 0, 0.0, 0.5)}


def _alone(name):
    """A demon's weights, learned by a learner of its own."""
    steps = LONG.steps.copy()
    for column, given_ in (("reward", REWARD), ("rho", RHO), ("discount", DISCOUNT)):
        steps[column] = given_.get(name, steps[column])
    own = {"algorithm": "impression_gtd"} | DEMONS[name]
    return (
        Learner(D, capacity=100, compile=False, **own)
        .partial_fit(gradtd.Stream(LONG.features, steps.view(np.recarray)))
        .theta
    )


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_every_demon_of_a_horde_is_a_learner(threads, tmp_path):
    horde = Horde(D, DEMONS, capacity=100, threads=threads, compile=False)
    horde.partial_fit(LONG, reward=REWARD, rho=RHO, discount=DISCOUNT)
    assert (horde._queue._pool is not None) == (threads > 1)
    horde.save(tmp_path / "horde.npz")
    again = Horde.load(tmp_path / "horde.npz", compile=False)
    assert repr(again) == repr(horde) == "Horde(one, two, three, four; 4 features: 1500 steps seen)"
    for name in DEMONS:
        wanted = _alone(name)
        assert horde.theta[name].tobytes() == again.theta[name].tobytes() == wanted.tobytes()
        assert horde.predict(THETA0)[name] == THETA0 @ wanted
        np.testing.assert_array_equal(horde.predict(LONG.features)[name], LONG.features @ wanted)


def test_a_horde_takes_single_steps_with_numbers_mappings_and_arrays():
    horde = Horde(D, DEMONS, capacity=100, compile=False)
    for t, step in enumerate(LONG.steps):
        numbers = {
            column: [np.broadcast_to(given_.get(name, step[column]), 1500)[t] for name in DEMONS]
            for column, given_ in (("reward", REWARD), ("rho", RHO), ("discount", DISCOUNT))
        }
        numbers["reward"] = dict(zip(DEMONS, numbers["reward"], strict=True))
        phi, phi_next = LONG.features[step.row], LONG.features[step.next_row]
        horde.update(phi, phi_next=phi_next, episode=int(step.episode), **numbers)
    for name in DEMONS:
        assert horde.theta[name].tobytes() == _alone(name).tobytes()


def test_a_demon_that_diverges_is_frozen_and_does_not_disturb_the_others(tmp_path):
    horde = Horde(D, {"wild": {"alpha": 50.0}, "calm": {"alpha": 0.01}}, "td")
    wild, calm = (gradtd.learn(LONG, "td", alpha=alpha) for alpha in (50.0, 0.01))
    horde.partial_fit(part(0, 1000, LONG)).save(tmp_path / "horde.npz")
    with np.load(tmp_path / "horde.npz", allow_pickle=False) as found:
        assert (len(found["0.steps"]), len(found["1.steps"])) == (0, 1)
    for going_on in (horde, Horde.load(tmp_path / "horde.npz")):
        going_on.partial_fit(part(1000, 1500, LONG))
        assert going_on.diverged_at == {"wild": wild.diverged_at[0], "calm": -1}
        assert going_on.theta["wild"].tobytes() == wild.theta.tobytes()
        assert going_on.theta["calm"].tobytes() == calm.theta.tobytes()
