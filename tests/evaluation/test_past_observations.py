"""Observations with their past, the time, and the later part of a log."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradtd import Inference, InputError, LogFormat, Machine, evaluate, read_log
from gradtd.evaluation.decide import Decision
from gradtd.evaluation.markov import TIME
from gradtd.evaluation.past_observations import MOST_TRIED, remedies, with_past
from gradtd.evaluation.settings import Settings
from naive.evaluation import moving, walk


def looking_alike(episodes=256, chance=0.7, seed=0):
    """Two steps that look alike; the action of the first one decides the reward of the second: 1 or -1."""
    rng = np.random.default_rng(seed)
    first, second = (rng.random((2, episodes)) >= chance).astype(int)
    reward = np.where(first == 0, 1.0, -1.0) + 0.1 * rng.standard_normal(episodes)
    action = np.c_[first, second].ravel()
    return {
        "episode": np.repeat(np.arange(episodes), 2),
        "obs": np.zeros(2 * episodes, int),
        "action": action,
        "reward": np.c_[np.zeros(episodes), reward].ravel(),
        "terminated": np.tile([False, True], episodes),
        "rho": np.where(action == 0, (1 - chance) / chance, chance / (1 - chance)),
    }


def falling(episodes=200, steps=12, seed=0, real=False):
    """Rewards that fall with the time, which the observation does not tell."""
    rng = np.random.default_rng(seed)
    n, t = episodes * steps, np.tile(np.arange(steps), episodes)
    return {
        "episode": np.repeat(np.arange(episodes), steps),
        "obs": rng.normal(size=n) if real else rng.integers(0, 4, n),
        "reward": 1 - 0.9 * t / steps + 0.1 * rng.standard_normal(n),
        "terminated": t == steps - 1,
        "rho": rng.choice([0.5, 1.5], n),
    }


def naive(log, history, time):
    """Every step's history as a tuple, straight from the definition."""
    made = []
    for i in range(len(log)):
        told, j = [log.observations[log.row[i]].tolist()], i
        for _ in range(1, history):
            before = j - 1 if j > 0 and log.episode[j - 1] == log.episode[i] else None
            told.append(None if before is None else (log.observations[log.row[before]].tolist(), log.action[before]))
            j = before if before is not None else 0
            if before is None:
                told += [None] * (history - len(told))
                break
        first = np.flatnonzero(log.episode == log.episode[i])[0]
        made.append((*map(str, told), i - first if time else 0))
    return made


@pytest.mark.parametrize(("history", "time"), [(2, False), (3, False), (1, True), (2, True)])
def test_discrete_histories_are_told_apart_exactly(history, time):
    log = read_log(walk(12))
    made = with_past(log, Settings(gamma=0.9, history=history, with_time=time))
    told = naive(log, history, time)
    codes = made.observations[made.row]
    assert len(set(zip(codes.tolist(), told, strict=True))) == len(set(told)) == len(set(codes.tolist()))
    inside = np.flatnonzero(log.episode[1:] == log.episode[:-1])
    assert (made.next_row[inside] == made.row[inside + 1]).all()


def test_real_histories_are_columns():
    table = falling(episodes=5, real=True)
    log = read_log(table)
    made = with_past(log, Settings(gamma=0.9, history=2, with_time=True))
    assert made.observation_names[-1] == "time"
    seen = made.observations[made.row]
    obs, t = np.asarray(table["obs"]), np.tile(np.arange(12), 5)
    np.testing.assert_array_equal(seen[:, 0], obs)
    np.testing.assert_array_equal(seen[:, 1], np.where(t == 0, 0.0, np.r_[0.0, obs[:-1]]))
    np.testing.assert_array_equal(seen[:, 2], t == 0)
    np.testing.assert_array_equal(seen[:, 3], t)


def test_what_hides_the_action_before_is_cured_by_two_observations():
    found = evaluate(looking_alike(), gamma=1.0, features="one-hot", progress=False)
    assert found.verdict == "not usable"
    assert any("history=2" in reason for reason in found.reasons)
    cured = evaluate(looking_alike(), gamma=1.0, features="one-hot", inference=Inference(history=2), progress=False)
    assert cured.verdict == "usable"
    assert cured.interval[0] <= -0.4 <= cured.interval[1]


def value_of_moving(gamma=0.9):
    """The mean position of `moving` under a target that pushes up in 3 of 5 steps."""
    x = v = total = 0.0
    for t in range(500):
        total += gamma**t * x
        x, v = 0.9 * x + 0.5 * v, 0.9 * v + 0.3 * 0.2
    return total


@pytest.mark.parametrize("log", [moving(np.random.default_rng(0), seen=False), falling(), falling(real=True)])
def test_chosen_features_try_it_by_themselves(log):
    gamma = 0.9 if "action" in log else 1.0
    found = evaluate(log, gamma=gamma, progress=False)
    assert found.verdict == "usable"
    assert any("are not Markov states" in note for note in found.notes)
    truth = value_of_moving() if "action" in log else sum(1 - 0.9 * t / 12 for t in range(12))
    assert found.interval[0] <= truth <= found.interval[1]


def test_a_value_that_the_check_contradicts_is_not_reported(monkeypatch):
    """Neither with two nor with three observations; `refutes` is tested with the decision."""
    asked = []

    def refutes(decision, repaired, kind, limits):
        asked.append((kind, set(decision.added), repaired.word))
        return True

    monkeypatch.setattr(Decision, "refutes", refutes)
    found = evaluate(moving(np.random.default_rng(0), seen=False), gamma=0.9, progress=False)
    assert found.verdict == "not usable"
    assert not any("are not Markov states" in note for note in found.notes)
    assert ("past", {"past", "time"}, "usable") in asked


def test_the_past_does_not_conceal_rewards_that_may_be_late():
    """The action before decides the reward, so the past is added; but no row says whether the rewards are just late."""
    found = evaluate(looking_alike(), gamma=1.0, progress=False)
    assert found.interval[0] <= -0.4 <= found.interval[1]
    assert found.verdict == "unchecked"
    assert any("one row too late" in reason for reason in found.reasons)
    assert any("are not Markov states" in note for note in found.notes)


@pytest.mark.parametrize("log", [moving(np.random.default_rng(0), seen=False), falling()])
def test_a_log_in_parts_that_hides_something_is_read_as_in_memory(log, tmp_path):
    """The same value, interval and word: the past is tried for it, too."""
    table = {name: np.asarray(values).reshape(len(log["episode"]), -1)[:, 0] for name, values in log.items()}
    pq.write_table(pa.table(table), tmp_path / "log.parquet")
    how = {"gamma": 0.9 if "action" in log else 1.0, "progress": False}
    parts = evaluate(tmp_path, machine=Machine(threads=1, in_parts=True), **how)
    memory = evaluate(log, machine=Machine(threads=1), **how)
    assert (parts.verdict, parts.value) == ("usable", pytest.approx(memory.value, rel=1e-9))
    assert parts.interval == pytest.approx(memory.interval, rel=1e-6)
    assert any("are not Markov states" in note for note in parts.notes)


def test_a_long_log_is_left_as_it_is():
    """Neither in memory nor in parts: the word is the same, and the reason says what to type."""
    told = SimpleNamespace(
        episodes=500,
        steps=100,
        hidden_time=5.0,
        hidden_state=None,
        predicted_by=None,
        hull_of_limit=0.5,
    )
    settings = Settings(gamma=1.0)
    assert [one.with_time for one in remedies(settings, told, False)] == [True]
    assert list(remedies(settings, told, True)) == []  # features were named
    told.hidden_time, told.predicted_by = None, "earlier steps"
    tried = [(one.with_time, one.history) for one in remedies(settings, told, False)]
    assert tried == [(False, 2), (False, 3), (True, 1)]
    told.predicted_by = TIME
    tried = [(one.with_time, one.history) for one in remedies(settings, told, False)]
    assert tried == [(True, 1), (False, 2), (False, 3)]
    told.steps = MOST_TRIED + 1
    assert list(remedies(settings, told, False)) == []


def test_the_later_part_of_a_log():
    log = falling(100)
    cut = {name: values[600:] for name, values in log.items()}
    found = evaluate(log, gamma=1.0, features="one-hot", inference=Inference(since=0.5), progress=False)
    assert found.episodes == 50
    alone = evaluate(cut, gamma=1.0, features="one-hot", progress=False)
    assert found.value == pytest.approx(alone.value, rel=1e-12)
    assert evaluate(log, gamma=1.0, inference=Inference(since=90), progress=False).episodes == 10
    with pytest.raises(InputError, match="leaves 1 of 100 episodes"):
        evaluate(log, gamma=1.0, inference=Inference(since=99), progress=False)


def test_what_cannot_have_a_past_is_refused():
    one = {"obs": [0, 1] * 30, "reward": [1.0, 0.0] * 30, "rho": [1.0] * 60}
    with pytest.raises(InputError, match="therefore no past"):
        evaluate(one, gamma=0.0, log_format=LogFormat(one_step=True), inference=Inference(history=2), progress=False)
    with pytest.raises(InputError, match="since must be"):
        Inference(since=-1)
