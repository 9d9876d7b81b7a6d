"""`improve`: what it answers, that no half judges itself, and what it returns."""

import json

import numpy as np
import pytest

import gradtd
from gradtd.improvement.experience import make_experience
from gradtd.improvement.improve import _halves, _learn_candidate
from improvement.test_policy_iteration import random_log

BANDIT = gradtd.LogFormat(one_step=True)


def bandit(seed, n=600, gain=0.3, actions=3, states=4):
    """One step per episode; action 1 earns more, if anything does."""
    rng = np.random.default_rng(seed)
    action = rng.integers(actions, size=n)
    reward = gain * (action == 1) + rng.normal(0, 0.5, n)
    return {
        "obs": rng.integers(states, size=n),
        "action": action,
        "action_prob": np.full(n, 1 / actions),
        "reward": reward,
    }


def test_a_better_policy_is_found_with_its_evidence():
    found = gradtd.improve(bandit(0), 1.0, log_format=BANDIT, progress=False)
    assert found.better
    assert found.verdict == "usable"
    assert found.difference.low < 0.2 < found.difference.high  # the truth: 0.3 less the mean of all actions, 0.1
    assert found.interval[0] < 0.3 < found.interval[1]
    assert found.sentence.startswith("Better by 0.")
    assert found.policy(np.arange(4)).argmax(axis=1).tolist() == [1, 1, 1, 1]
    assert {change.more for change in found.changes} == {1}
    told = json.loads(json.dumps(found.to_dict()))
    assert told["answer"] == "better"
    assert [(one["least"], one["iterations"]) for one in told["candidates"]] == [(n, 20) for n in (1, 2, 5, 20, 80)]


def test_no_step_is_judged_by_a_policy_that_its_half_taught():
    """Other rewards in one half change nothing of what that half judges."""
    columns, *_ = random_log(0, episodes=100)
    log = gradtd.read_log(columns)
    half = _halves(log.n_episodes, 0)[log.episode]
    other = columns | {"reward": np.where(half == 0, -columns["reward"], columns["reward"])}
    made = []
    for one in (columns, other):
        experience = make_experience(gradtd.read_log(one), 0.9, None, None, None)
        made.append(_learn_candidate(experience, half, 2, 20, 0.0).judged)
    assert (made[0][half == 0] == made[1][half == 0]).all()
    assert (made[0][half == 1] != made[1][half == 1]).any()


def test_the_policy_is_the_mean_of_what_both_halves_taught():
    columns, *_ = random_log(2, episodes=100)
    log = gradtd.read_log(columns)
    experience = make_experience(log, 0.9, None, None, None)
    half = _halves(log.n_episodes, 0)[log.episode]
    trial = _learn_candidate(experience, half, 5, 20, 2.0)
    both = [trial.judged[half == 1][experience.place[half == 1] == s][0] for s in range(6)]
    other = [trial.judged[half == 0][experience.place[half == 0] == s][0] for s in range(6)]
    np.testing.assert_allclose(trial.table, (np.array(both) + np.array(other)) / 2)
    found = gradtd.improve(log, 0.9, least=5, progress=False)
    np.testing.assert_allclose(found.policy(np.arange(6)), trial.table)


def test_candidates_share_one_error_rate():
    one = gradtd.improve(bandit(1), 1.0, least=5, log_format=BANDIT, progress=False)
    many = gradtd.improve(bandit(1), 1.0, least=[2, 5, 20, 60], log_format=BANDIT, progress=False)
    same = next(c.difference for c in many.candidates if c.least == 5) or many.candidates[0].difference
    assert same.value == pytest.approx(one.difference.value)
    assert same.low <= one.difference.low


def test_nothing_can_be_said_where_no_state_has_two_actions():
    log = bandit(0) | {"action": np.zeros(600, int), "action_prob": np.ones(600)}
    found = gradtd.improve(log, 1.0, log_format=BANDIT, progress=False)
    assert found.answer == "cannot tell"
    assert found.policy is None
    assert "no state has two actions" in found.sentence
    assert json.loads(json.dumps(found.to_dict()))["difference"] is None


def test_no_evidence_says_how_many_episodes_would_show_it():
    found = gradtd.improve(bandit(5, n=200, gain=0.05), 1.0, log_format=BANDIT, progress=False)
    assert not found.better
    needed = [gradtd.improve(bandit(seed, 200, 0.1), 1.0, log_format=BANDIT, progress=False) for seed in range(6)]
    told = [one for one in needed if one.episodes_needed]
    assert told
    for one in told:
        assert one.episodes_needed > one.episodes
        assert f"About {one.episodes_needed:,} episodes" in one.sentence


@pytest.mark.slow
def test_false_discoveries_and_coverage_on_many_logs():
    """Where no action is better, "better" has a chance of at most 2.5 %: 8 or more of 100 logs has one of 0.4 %."""
    found = [gradtd.improve(bandit(s, gain=0.0), 1.0, log_format=BANDIT, progress=False, threads=1) for s in range(100)]
    assert sum(one.better for one in found) < 8
    holds = []
    for seed in range(60):
        one = gradtd.improve(bandit(seed, 300, 0.15), 1.0, log_format=BANDIT, progress=False, threads=1)
        if one.difference is not None and one.difference.low is not None:
            truth = 0.15 * (np.mean(one.policy(np.arange(4))[:, 1]) - 1 / 3)
            holds.append(one.difference.low <= truth <= one.difference.high)
    assert np.mean(holds) > 0.87  # of 60 intervals of 95 %, fewer have a chance of 1 %


def test_real_observations_have_a_policy_that_is_a_function():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (1500, 2))
    action = rng.integers(2, size=1500)
    reward = np.where(action == (x[:, 0] > 0), 1.0, 0.0) + rng.normal(0, 0.3, 1500)
    log = {"obs": x, "action": action, "action_prob": np.full(1500, 0.5), "reward": reward}
    found = gradtd.improve(log, 1.0, log_format=BANDIT, features="fourier:order=2", progress=False)
    assert found.better
    assert found.difference.low < 0.5
    assert found.difference.high > 0.4
    grid = np.array([[-0.7, 0.2], [0.7, -0.3]])
    assert found.policy(grid).argmax(axis=1).tolist() == [0, 1]
    np.testing.assert_allclose(found.policy(grid).sum(axis=1), 1)
    assert {change.where.split()[0] for change in found.changes} == {"mean"}


def test_estimated_behaviour_and_blocks_are_passed_on():
    log = bandit(0)
    del log["action_prob"]
    found = gradtd.improve(log, 1.0, behaviour="estimate", log_format=BANDIT, progress=False)
    assert found.better
    with pytest.raises(gradtd.InputError, match="behaviour='estimate'"):
        gradtd.improve(log, 1.0, log_format=BANDIT, progress=False)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"least": []}, "least needs at least one number"),
        ({"least": 0.5}, "least"),
        ({"iterations": 0}, "iterations must be at least 1"),
        ({"iterations": []}, "iterations needs at least one number"),
        ({"bins": 3}, "bins are for continuous actions"),
        ({"caution": -1}, "caution"),
        ({"behaviour": "nobody"}, "nobody"),
        ({"block_length": 0}, "block_length"),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises(gradtd.InputError, match=message):
        gradtd.improve(bandit(0), 1.0, log_format=BANDIT, progress=False, **given)


def test_without_actions_there_is_nothing_to_improve():
    log = {name: column for name, column in bandit(0).items() if name != "action"}
    with pytest.raises(gradtd.InputError, match="improve needs actions, and arrays has no action column"):
        gradtd.improve(log, 1.0, behaviour="estimate", log_format=BANDIT, progress=False)


def test_features_have_candidates_of_one_step_and_of_many():
    """One iteration is greedy on the behaviour's values; it is learned as such and named so."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (600, 2))
    action = rng.integers(2, size=600)
    log = {"obs": x, "action": action, "action_prob": np.full(600, 0.5), "reward": action * x[:, 0]}
    found = gradtd.improve(log, 1.0, log_format=BANDIT, features="fourier:order=1", progress=False)
    named = [(one.least, one.iterations) for one in found.candidates]
    assert named == [(n, k) for n in (5, 20, 80, 320) for k in (1, 20)]
    one = gradtd.improve(log, 1.0, log_format=BANDIT, features="fourier:order=1", least=5, iterations=1, progress=False)
    assert [(c.least, c.iterations) for c in one.candidates] == [(5, 1)]
