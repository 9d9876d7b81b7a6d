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


SIDE_BY_SIDE = [
    {"alpha": 0.05, "batch_size": 5, "m1": 3},
    {"batch_size": 4, "split": "coin"},
    {"alpha": 0.05, "batch_size": 3, "replacement": False, "split": "episode-index", "average": "polynomial"},
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rule", [pytest.param(r, marks=[pytest.mark.slow] * ("split" in r)) for r in SIDE_BY_SIDE])
@pytest.mark.parametrize("compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_demons_that_draw_the_same_batches_learn_side_by_side_to_the_same_bytes(
    rule, threads, compile, tmp_path, monkeypatch
):
    """Of 17 demons one diverges, and one has another seed; steps are moved to the front, saved, and given singly.

    Some rewards, ratios and discounts are the same for all demons, others differ.
    """
    monkeypatch.setattr("gradtd.running.online.window.LEAST", 40)
    monkeypatch.setattr("gradtd.running.online.groups.FEWEST_LANES", 4)
    rng = np.random.default_rng(0)
    steps = LONG.steps[:400]
    over = LONG.steps.episode[1:401] != steps.episode
    features = np.column_stack((LONG.features, LONG.features[:, 0] ** 2))
    given = {name: rng.random((400, 17)) * 2 for name in ("reward", "rho")}
    given["discount"] = np.where(steps.discount == 0, 0.0, rng.random((17, 400))).T
    for begin, table in enumerate(given.values()):
        table[begin::3] = table[begin::3, :1]
    alphas = [{} if "alpha" not in rule else {"alpha": 1e6 if i == 3 else 0.03 + i / 500} for i in range(17)]
    demons = {f"d{i}": own | ({"seed": 5} if i == 9 else {}) for i, own in enumerate(alphas)}
    horde = Horde(D + 1, demons, capacity=25, threads=threads, compile=compile, **rule)
    for begin, end in ((0, 150), (150, 230), (230, 400)):
        for t in range(begin, begin + 3):
            numbers = {name: table[t] for name, table in given.items()}
            rows = features[steps.row[t]], features[steps.next_row[t]]
            horde.update(rows[0], phi_next=rows[1], **numbers, truncated=bool(over[t]))
        rest = slice(begin + 3, end)
        columns = {name: dict(zip(demons, table[rest].T, strict=True)) for name, table in given.items()}
        horde.partial_fit(gradtd.Stream(features, steps[rest]), **columns)
        if over[end - 1]:
            horde.new_episode()
        assert sum(len(group.runs) for group in horde._queue.groups if group.lanes) >= 15
        if end == 230:
            horde.save(tmp_path / "horde.npz")
            horde = Horde.load(tmp_path / "horde.npz", threads=threads, compile=compile)
    for i, name in enumerate(demons):
        own = steps.copy()
        for column, table in given.items():
            own[column] = table[:, i]
        alone = Learner(D + 1, capacity=25, compile=compile, **rule | demons[name])
        alone.partial_fit(gradtd.Stream(features, own.view(np.recarray)))
        assert horde.theta[name].tobytes() == alone.theta.tobytes(), name
        assert (horde.updates[name], horde.diverged_at[name]) == (alone.updates, alone.diverged_at)
        for one, other in zip(horde._queue.runs[i].run.state, alone._queue.runs[0].run.state, strict=True):
            np.testing.assert_array_equal(one, other)
