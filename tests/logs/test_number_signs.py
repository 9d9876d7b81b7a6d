"""Signs in the numbers of a log: each is a warning that names the cure, and a sound log has none of them."""

import numpy as np
import pandas as pd
import pytest

import gradtd
from gradtd.logs.calibration import with_doubt
from gradtd.logs.given_policies import read_beside
from gradtd.logs.ratios import ratios

LENGTH, EPISODES = 10, 150
N = LENGTH * EPISODES
PUSH = np.array([[0.8, 0], [0, 0.8], [-0.8, -0.8]])


def walk(seed=0, **changes):
    """Two columns that move slowly, three actions that depend on them, rewards of both with noise."""
    rng = np.random.default_rng(seed)
    x, law, action = np.zeros((EPISODES, LENGTH, 2)), np.zeros((EPISODES, LENGTH, 3)), np.zeros((EPISODES, LENGTH), int)
    now = rng.normal(size=(EPISODES, 2))
    for t in range(LENGTH):
        score = 0.3 + np.exp(np.c_[now, -now.sum(axis=1)])
        x[:, t], law[:, t] = now, score / score.sum(axis=1, keepdims=True)
        action[:, t] = (rng.random(EPISODES)[:, None] >= law[:, t].cumsum(axis=1)[:, :-1]).sum(axis=1)
        now = 0.6 * now + PUSH[action[:, t]] + rng.normal(0, 0.2, (EPISODES, 2))
    x, law, action = x.reshape(N, 2), law.reshape(N, 3), action.ravel()
    pi = 0.6 * law + 0.4 * law[:, [1, 2, 0]]
    made = {
        "episode": np.arange(N) // LENGTH,
        "t": np.arange(N) % LENGTH,
        "obs_0": x[:, 0],
        "obs_1": x[:, 1],
        "action": action,
        "reward": x[:, 0] + action + rng.normal(size=N) + 5,
        "terminated": np.arange(N) % LENGTH == LENGTH - 1,
        "behaviour_prob": law[np.arange(N), action],
        "target_prob": pi[np.arange(N), action],
    }
    return {name: values for name, values in (made | changes).items() if values is not None}


def said(table, target=None, **reading):
    """Everything that is said of a table, and of its probabilities."""
    log, policies = read_beside(table, {"target": target}, **reading)
    found = with_doubt(log, ratios(log, policies["target"]), by_row=True)
    return "\n".join([*log.understood.warnings, *found.notes, found.doubt or ""])


def rows(table, index):
    return {name: values[index] for name, values in table.items()}


def running(table):
    reward = table["reward"].reshape(EPISODES, LENGTH)
    return table | {"reward": reward.cumsum(axis=1).ravel()}


def whole(table):
    return table | {"reward": np.repeat(table["reward"].reshape(EPISODES, LENGTH).sum(axis=1), LENGTH)}


def ahead(table):
    last = table["terminated"]
    return table | {name: np.where(last, table[name], np.roll(table[name], -1)) for name in ("obs_0", "obs_1")}


def both(table, order):
    return table | {name: table[name][order] for name in ("behaviour_prob", "target_prob")}


MIXED = np.random.default_rng(7).permutation(N)
BROKEN = {
    "both probabilities shuffled": (lambda t: both(t, MIXED), "behaviour's probabilities do not fit the actions"),
    "both shifted": (lambda t: both(t, np.roll(np.arange(N), 1)), "behaviour's probabilities do not fit"),
    "the next observation": (ahead, "behaviour's probabilities do not fit the actions"),
    "the target shuffled": (
        lambda t: t | {"target_prob": t["target_prob"][MIXED]},
        "do not have mean 1, as correct ratios do",
    ),
    "the target shifted": (
        lambda t: t | {"target_prob": np.roll(t["target_prob"], 1)},
        "seem to be shifted by one row",
    ),
    "the reward among the observations": (lambda t: t | {"obs_2": t["reward"]}, "is the reward of the same row"),
    "the reward, scaled": (lambda t: t | {"obs_2": 3 - 2 * t["reward"]}, "is the reward of the same row"),
    "the action among the observations": (lambda t: t | {"obs_2": t["action"] / 2}, "is the action of the same row"),
    "rows of a join": (
        lambda t: rows({k: v for k, v in t.items() if k != "t"}, joined()),
        "If a join doubled them",
    ),
    "first rows missing": (lambda t: rows(t, t["t"] >= 3 * (t["episode"] % 2)), "begin at a t above 0"),
    "first rows missing everywhere": (lambda t: rows(t, t["t"] >= 3), "150 of 150 episodes begin at a t above 1"),
    "running totals": (running, "If it is a running total"),
    "totals of the episode": (whole, "it seems to be the episode's total"),
    "missing rewards as 0": (lambda t: t | {"reward": np.where(np.arange(N) % 9 == 4, 0, t["reward"] + 5)}, "is 0 in"),
}


def joined():
    """Row numbers of a join with two matches for some rows; the last row of an episode has one."""
    twice = (np.arange(N) % 3 == 0) & (np.arange(N) % LENGTH < LENGTH - 1)
    return np.repeat(np.arange(N), np.where(twice, 2, 1))


def test_a_sound_log_has_none_of_them():
    for seed in range(8):
        assert said(walk(seed)).strip() == ""


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_said(name):
    broken, words = BROKEN[name]
    assert words in said(broken(walk()))


def test_the_verdict_follows_the_probabilities():
    """Both columns shuffled alike: wrong ratios whose mean is 1."""
    sound = gradtd.evaluate(walk(), gamma=0.9)
    broken = gradtd.evaluate(both(walk(), MIXED), gamma=0.9)
    assert "do not fit the actions" not in str(sound.reasons)
    assert broken.verdict == "not usable"
    assert "do not fit the actions" in str(broken.reasons)
    assert next(one for one in broken.assumptions if "probabilities" in one.assumption).status == "failed"


def test_a_target_of_other_rows_whose_ratios_have_the_mean_1():
    """A uniform behaviour hides them from bets: they have nothing to do with their rows."""
    rng = np.random.default_rng(5)
    x, action = rng.normal(size=N), rng.integers(0, 2, N)
    table = {"obs": x, "action": action, "reward": rng.normal(size=N), "behaviour_prob": np.full(N, 0.5)}
    taken = np.where((x > 0) == action, 0.8, 0.2)
    assert "may be in another order" not in said(table | {"target_prob": taken}, one_step=True)
    assert "may be in another order" in said(table | {"target_prob": taken[MIXED]}, one_step=True)
    assert "seem to be shifted by one row" in said(table | {"target_prob": np.roll(taken, 1)}, one_step=True)


def test_rows_of_devices_that_are_mixed():
    table = walk(t=None, episode=None)
    table["device"] = np.array([f"d{k}" for k in np.arange(N) // LENGTH])
    order = np.lexsort((np.arange(N) // LENGTH, np.arange(N) % LENGTH))
    assert "rows of several 'device' are mixed" in said(rows(table, order))
    assert "are mixed in them" not in said(table)
    assert "are mixed in them" not in said(rows(table, order), columns={"user": "device"})


def test_categories_that_nobody_ordered_are_a_guess():
    words = np.array(["none", "low", "high"])
    table = pd.DataFrame(walk(action=words[walk()["action"]], target_prob=None))
    uniform = np.full((N, 3), 1 / 3)
    assert "guessed for the probabilities: high, low, none" in said(table.astype({"action": "category"}), uniform)
    chosen = table.assign(action=pd.Categorical(table["action"], words))
    assert "a guess" not in said(chosen, uniform)
    sorted_and_said = table.assign(action=pd.Categorical(table["action"], sorted(words), ordered=True))
    assert "a guess" not in said(sorted_and_said, uniform)


def test_an_array_beside_a_frame_whose_rows_were_moved():
    frame = pd.DataFrame(walk(target_prob=None))
    moved = frame.sample(frac=1, random_state=1)
    assert "its rows were reordered" in said(moved, walk()["target_prob"])
    assert "its rows were reordered" not in said(moved, pd.Series(walk()["target_prob"]))
    assert "its rows were reordered" not in said(frame, walk()["target_prob"])


@pytest.mark.parametrize("form", ["columns", "lists"])
def test_one_hot_actions_are_discrete(form):
    table = walk(target_prob=None)
    action = table.pop("action")
    marks = np.eye(3)[action]
    columns = {"action": marks} if form == "lists" else {f"action_{k}": marks[:, k] for k in range(3)}
    log = gradtd.read_log(table | columns)
    assert (log.action == action).all()
    assert log.n_actions == 3
    said_too = gradtd.read_log(table | columns, actions=["a", "b", "c"])
    assert said_too.action_labels == ("a", "b", "c")
    with pytest.raises(gradtd.InputError, match="the action has 3 columns"):
        gradtd.read_log(table | columns, actions=["a", "b"])
    real = {"action": marks + 0.5 * (np.arange(N) == 3)[:, None]}
    assert not gradtd.read_log(table | real).discrete_actions


def test_misaligned_probabilities_are_not_taken_for_those_of_action_1():
    rng = np.random.default_rng(3)
    x = rng.normal(size=N)
    p = np.where(x > 0, 0.9, 0.2)
    action = (rng.random(N) < p).astype(int)
    taken = np.where(action == 1, p, 1 - p)
    table = {"obs": x, "action": action, "reward": rng.normal(size=N), "done": np.ones(N, bool)}
    with pytest.raises(gradtd.InputError, match="'propensity' seems to hold the probability of action 1"):
        gradtd.evaluate(table | {"propensity": p}, "uniform", 0.0)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(N)
        found = gradtd.evaluate(table | {"propensity": taken[order]}, "uniform", 0.0)
        assert "do not fit the actions" in str(found.reasons)


@pytest.mark.parametrize("episodes", [60, 300])
def test_ratios_without_actions_are_not_compared_with_other_rows(episodes):
    """The next observation tells the action that was taken, and so the ratio: nothing is shifted."""
    found = gradtd.evaluate(gradtd.sample_log("random_walk_tabular", episodes), gamma=1.0, progress=False)
    assert not found.warnings


def test_numbers_near_the_largest_give_no_warning_of_numpy():
    from gradtd.logs.number_signs import _linear, _step_sizes

    large = np.array([1.7e308, 1.7e308, -1.7e308, 1.7e308])
    with np.errstate(all="raise"):
        assert not _linear(large, large)
        _step_sizes(large[:, None])
