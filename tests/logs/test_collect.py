"""Logs from environments, held against small environments whose every step is known."""

import sys

import numpy as np
import pytest

from gradtd import Inference, Machine
from gradtd.core.checks import InputError
from gradtd.logs import collect, ratios, read_log, rollout_value, write_log
from logs.test_read import assert_same_log

gymnasium = pytest.importorskip("gymnasium")


class Corridor(gymnasium.Env):
    """States 0 to 4; action 1 goes right, 0 stays; the end is state 4; truncated after 6 steps; reward is the state."""

    observation_space = gymnasium.spaces.Discrete(5)
    action_space = gymnasium.spaces.Discrete(2, start=3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.t = int(self.np_random.integers(0, 3)), 0
        return self.state, {}

    def step(self, action):
        assert action in (3, 4)
        self.state, self.t = self.state + action - 3, self.t + 1
        return self.state, float(self.state), self.state == 4, self.t == 6, {}


class Grid(Corridor):
    """The same, observed as a 2 x 2 picture."""

    observation_space = gymnasium.spaces.Box(-10, 10, (2, 2), np.float32)

    def picture(self, state):
        return np.array([[state, 1], [2, 3]], np.float32)

    def reset(self, *, seed=None, options=None):
        return self.picture(super().reset(seed=seed)[0]), {}

    def step(self, action):
        state, *rest = super().step(action)
        return (self.picture(state), *rest)


class Written(Corridor):
    """Observed as text."""

    observation_space = gymnasium.spaces.Text(3)


TABLE = np.array([[0.5, 0.5], [0.2, 0.8], [0.6, 0.4], [0.9, 0.1], [1.0, 0.0]])


def check_steps(log, states):
    """Every step obeys the corridor's rules."""
    now, after = states[log.row], states[log.next_row]
    assert np.array_equal(after, now + log.action)
    assert np.array_equal(log.reward, after)
    assert np.array_equal(log.terminated, after == 4)
    starts = log.starts
    assert (now[starts] < 3).all()
    goes_on = np.setdiff1d(np.arange(len(log)), np.r_[starts[1:] - 1, len(log) - 1])
    assert np.array_equal(log.next_row[goes_on], goes_on + 1)
    ends = np.r_[starts[1:], len(log)] - 1
    assert (log.terminated | log.truncated)[ends].all()
    assert not (log.terminated & log.truncated).any()
    length = ends - starts + 1
    assert np.array_equal(log.truncated[ends], (length == 6) & ~log.terminated[ends])


def test_every_step_is_recorded():
    log = collect(Corridor(), TABLE, 200, target="uniform", seed=3)
    assert log.n_episodes == 200
    check_steps(log, log.observations)
    assert np.array_equal(log.behaviour, TABLE[log.observations[log.row], log.action])
    assert (log.target == 0.5).all()
    np.testing.assert_allclose(ratios(log).rho, 0.5 / log.behaviour)
    assert log.terminated.any()
    assert log.truncated.any()


def test_actions_follow_the_policy():
    """Frequencies within 4.5 standard errors in each of 4 states: fails 1 time in 30 000 for a right sampler."""
    log = collect(Corridor(), TABLE, 800, seed=0)
    for state in range(4):
        taken = log.action[log.observations[log.row] == state]
        error = np.sqrt(TABLE[state, 0] * TABLE[state, 1] / len(taken))
        assert len(taken) > 300
        assert abs(taken.mean() - TABLE[state, 1]) < 4.5 * error


def test_pictures_are_flattened_and_policies_get_batches():
    shapes = set()

    def policy(observations):
        shapes.add(observations.shape[1:])
        return TABLE[observations[:, 0].astype(int)]

    log = collect(Grid(), policy, 50, target=policy, seed=3)
    assert shapes == {(4,)}
    assert log.observations.shape[1] == 4
    check_steps(log, log.observations[:, 0])
    assert np.array_equal(log.behaviour, log.target)
    flat = collect(Corridor(), TABLE, 50, seed=3)  # the same dice
    assert np.array_equal(flat.action, log.action)


def test_the_same_seed_gives_the_same_log():
    one, two, other = (collect(Corridor(), TABLE, 30, seed=s) for s in (1, 1, 2))
    assert_same_log(one, two)
    assert not np.array_equal(one.reward, other.reward)


def test_max_steps_truncates():
    log = collect(Corridor(), TABLE, 40, max_steps=2, seed=1)
    assert np.bincount(log.episode).max() == 2
    assert log.truncated.sum() > 10
    assert np.array_equal(log.observations[log.next_row], log.observations[log.row] + log.action)


def test_a_collected_log_is_written_and_read_back(tmp_path):
    for env, policy in ((Corridor(), TABLE), (Grid(), "uniform")):
        log = collect(env, policy, 30, target="uniform", seed=5)
        for ending in ("parquet", "csv"):
            assert_same_log(log, read_log(write_log(log, tmp_path / f"log.{ending}")))


def test_rollout_value_is_the_exact_value():
    """Within 4.5 standard errors of the value by dynamic programming: fails 1 time in 150 000."""
    gamma, value = 0.9, np.zeros((7, 5))
    for left in range(1, 7):
        for s in range(4):
            worth = [s + k + gamma * (0 if s + k == 4 else value[left - 1, s + k]) for k in (0, 1)]
            value[left, s] = TABLE[s] @ worth
    mean, error = rollout_value(Corridor(), TABLE, 2000, gamma, seed=4)
    assert 0 < error < 0.1
    assert abs(mean - value[6, :3].mean()) < 4.5 * error
    short = rollout_value(Corridor(), TABLE, 50, gamma, seed=4, max_steps=1)
    assert short[0] < mean


def test_environments_by_name_and_progress():
    heard = []
    log = collect("CartPole-v1", "uniform", 3, seed=0, progress=lambda done, total: heard.append((done, total)))
    assert heard == [(1, 3), (2, 3), (3, 3)]
    assert log.observations.shape == (len(log) + 3, 4)
    assert (log.behaviour == 0.5).all()
    assert log.name == "CartPole-v1"


@pytest.mark.parametrize(
    ("env", "policy", "options", "sentence"),
    [
        ("Pendulum-v1", "uniform", {}, "actions must be Discrete"),
        (Written(), "uniform", {}, "FlattenObservation"),
        ("NoSuchThing-v1", "uniform", {}, "Gymnasium cannot make the environment 'NoSuchThing-v1'"),
        (7, "uniform", {}, "env must be a Gymnasium environment"),
        (Corridor(), "random", {}, "'uniform' or one of the log's actions, 0, 1; got 'random'"),
        (Corridor(), TABLE[:, :1] + [[0.5]], {}, "one row per state and one column per action"),
        (Corridor(), TABLE * 0.5, {}, "must sum to 1"),
        (Grid(), TABLE, {}, "a table for behaviour needs discrete observations"),
        (Corridor(), TABLE, {"max_steps": 0}, "max_steps must be at least 1"),
        (Corridor(), TABLE, {"seed": -1}, "seed must be at least 0"),
        (Corridor(), np.c_[TABLE * 0.5, np.full(5, 0.5)], {}, "2 actions"),
    ],
)
def test_bad_input_is_one_sentence(env, policy, options, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        collect(env, policy, 2, **options)
    assert str(caught.value).endswith(".")


def test_missing_gymnasium_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(InputError, match=r"pip install gradtd\[gymnasium\]"):
        collect("CartPole-v1", "uniform", 1)


def hit_below(observations):
    """Mostly stand on 18 or more, mostly hit below."""
    return np.where(observations[:, :1] >= 18, [[0.9, 0.1]], [[0.2, 0.8]])


def test_blackjack_with_defaults():
    """Observations are a tuple of three numbers, the last of them 0 or 1; the value is -.179 by 200 000 roll-outs."""
    from gradtd import evaluate

    log = collect("Blackjack-v1", "uniform", 300, target=hit_below, seed=3)
    assert log.observations.shape[1] == 3
    assert set(log.observations[:, 2]) == {0.0, 1.0}
    assert log.observation_names == ("0", "1", "2")
    made = evaluate(log, gamma=1.0, inference=Inference(resamples=20), machine=Machine(threads=1))
    assert np.isfinite(made.value)
    assert made.interval[0] < -0.179 < made.interval[1]


def test_observations_in_tuples_and_dictionaries_stand_one_after_the_other():
    spaces = gymnasium.spaces

    class Nested(Corridor):
        observation_space = spaces.Dict(
            {"a": spaces.Tuple((spaces.Discrete(9), spaces.Box(-9, 9, (2,)))), "b": spaces.MultiBinary(2)}
        )

        def nest(self, state):
            return {"a": (state, np.array([state + 0.5, 1.0], np.float32)), "b": np.array([1, 0], np.int8)}

        def reset(self, *, seed=None, options=None):
            return self.nest(super().reset(seed=seed)[0]), {}

        def step(self, action):
            state, *rest = super().step(action)
            return (self.nest(state), *rest)

    log = collect(Nested(), "uniform", 20, seed=1)
    check_steps(log, log.observations[:, 0])
    assert (log.observations[:, 1] == log.observations[:, 0] + 0.5).all()
    assert (log.observations[:, 2:] == [1, 1, 0]).all()
