"""Logs whose observations hide the time: the fits with the time beside the features, and what they refuse."""

from dataclasses import replace

import numpy as np
import pytest

import gradtd.evaluation.trust.moments as moments
from gradtd import evaluate, read_log, write_log
from gradtd.evaluation.planning import make_plan
from gradtd.evaluation.trust.checking import all_fits, clock_for
from gradtd.evaluation.trust.clock import clock_of, since_start
from gradtd.evaluation.trust.records import Traced, record_of
from naive.evaluation import real_walk, walk

LENGTH, EPISODES, GAMMA = 20, 300, 0.9
TRUTH = (1 - GAMMA**LENGTH) / (1 - GAMMA)


def of_fixed_length(kind, seed=0, ended=True, told=False):
    """A reward of one per step, with noise, for 20 steps; observations that have nothing to do with it."""
    rng = np.random.default_rng(seed)
    n = LENGTH * EPISODES
    last = np.tile(np.arange(LENGTH) == LENGTH - 1, EPISODES)
    log = {
        "episode": np.repeat(np.arange(EPISODES), LENGTH),
        "reward": rng.normal(1, 1, n),
        "terminated": last & ended,
        "truncated": last & (not ended),
        "rho": rng.choice([0.5, 1.5], n),
    }
    if kind == "states":
        return log | {"obs": rng.integers(0, 8, n)}
    time = np.tile(np.arange(LENGTH), EPISODES) / LENGTH
    return log | {"obs_0": rng.normal(size=n), "obs_1": time if told else rng.normal(size=n)}


def naive(record, table, clock, columns):
    """Value and influences of LSTD on features and columns of the time, a row for each step and for what follows it."""
    since = np.concatenate([np.arange(n) for n in np.diff(record.begins)])
    x = np.c_[table[record.row][:, columns], clock[since]]
    after = np.c_[table[record.next_row][:, columns], clock[(since + 1).clip(max=len(clock) - 1)]]
    start = np.c_[table[record.start_rows][:, columns], np.tile(clock[0], (record.n_pieces, 1))]
    z, y = record.rho[:, None] * x, record.discount[:, None] * after - x
    A, b = z.T @ y, z.T @ record.reward
    theta = np.linalg.lstsq(A, -b, rcond=1e-10)[0]
    left = np.linalg.lstsq(A.T, start.mean(axis=0), rcond=1e-10)[0]
    pull = np.add.reduceat((z @ left) * (record.reward + y @ theta), record.begins[:-1])
    value = float((start @ theta).mean())
    return value, start @ theta - value - record.n_pieces * pull


@pytest.mark.parametrize("made", [walk(60, 3, cut=6), real_walk(60, 3)])
@pytest.mark.parametrize("sparse", [False, True])
def test_fits_with_the_time_are_those_of_a_table_with_it(made, sparse, monkeypatch):
    if sparse:
        monkeypatch.setattr("gradtd.features.cells._DENSE_LIMIT", 3)
    log = read_log(made)
    plan = make_plan(log, "one-hot" if log.discrete_observations else "polynomial", None, True, checked=True)
    assert plan.wide.sparse == (sparse and log.discrete_observations)
    record = record_of(plan.log, log.episode, made["target"] / made["action_prob"], 0.9, plan.wide, False)
    table = plan.wide.rows(np.arange(plan.wide.n_rows))
    found, (name,) = all_fits(record, plan.wide), plan.wide.headlines
    value, psi = naive(record, table, clock_of(record.begins), plan.wide.rungs[name])
    assert found.timed[name].value == pytest.approx(value, rel=1e-5)
    assert np.allclose(found.timed[name].psi, psi, atol=1e-4 * psi.std())


def test_sums_from_few_rows_are_those_of_all_steps(monkeypatch):
    """A stored table whose rows come again is counted first; the fit with the time is the same."""
    made = walk(60, 3, cut=6)
    log = read_log(made)
    plan = make_plan(log, "one-hot", None, True, checked=True)
    record = record_of(plan.log, log.episode, made["target"] / made["action_prob"], 0.9, plan.wide, False)
    values = []
    for few in (1e-9, 1e9):
        monkeypatch.setattr(moments, "FEW_ROWS", few)
        values.append(all_fits(record, plan.wide).timed["the features given"])
    assert values[0].value == pytest.approx(values[1].value, rel=1e-9)
    assert values[0].bias == pytest.approx(values[1].bias, rel=1e-6)


@pytest.mark.parametrize("kind", ["states", "numbers"])
def test_a_hidden_time_is_refused(kind):
    """The truth is 8.78. LSTD's own interval is [6.8, 7.3], and was usable before the time was looked at."""
    found = evaluate(of_fixed_length(kind), gamma=GAMMA, threads=1)
    assert found.verdict == "not usable"
    assert found.interval[1] < TRUTH
    assert any("do not tell it" in reason and "truncated" in reason for reason in found.reasons), found.reasons
    timed = [check for check in found.checks if check.kind == "time" and check.low <= TRUTH <= check.high]
    assert timed


@pytest.mark.parametrize("kind", ["states", "numbers"])
def test_a_time_that_does_not_matter_is_not(kind):
    """Cut off at the same length the value is 10 at any time."""
    found = evaluate(of_fixed_length(kind, ended=False), gamma=GAMMA, threads=1)
    assert (found.verdict, found.reasons) == ("usable", ())
    assert found.interval[0] < 1 / (1 - GAMMA) < found.interval[1]


def test_a_time_that_is_told_is_not():
    found = evaluate(of_fixed_length("numbers", told=True), gamma=GAMMA, threads=1)
    assert (found.verdict, found.reasons) == ("usable", ())
    assert found.interval[0] < TRUTH < found.interval[1]


def test_a_hidden_time_is_refused_in_parts_and_for_values_of_actions(tmp_path):
    made = of_fixed_length("numbers", 1)
    path = write_log(read_log(made), tmp_path / "log.parquet")
    found = evaluate(str(path), gamma=GAMMA, features="identity", in_parts=True, threads=1)
    whole = evaluate(str(path), gamma=GAMMA, features="identity", threads=1)
    for one in (found, whole):
        assert one.verdict == "not usable"
        assert any("do not tell it" in reason for reason in one.reasons)
    both = [next(check for check in one.checks if check.kind == "time") for one in (found, whole)]
    assert both[0].value == pytest.approx(both[1].value, rel=1e-6)
    rng, states = np.random.default_rng(2), of_fixed_length("states", 2)
    del states["rho"]
    actions = evaluate(
        states | {"action": rng.integers(0, 2, len(states["obs"]))},
        target=np.tile([0.3, 0.7], (8, 1)),
        values="action",
        gamma=GAMMA,
        threads=1,
    )
    assert actions.verdict == "not usable"  # without ratios the fit with memory finds it too
    assert "the time" in actions.reasons[0]
    assert any(check.kind == "time" and check.low <= TRUTH <= check.high for check in actions.checks)


def test_where_there_is_no_clock():
    """Blocks begin anywhere in an episode; with one step there is no time; traces that are asked for have none yet."""
    made = walk(60, 3)
    log = read_log(made)
    plan = make_plan(log, "one-hot", None, True, checked=True)
    record = record_of(plan.log, log.episode, np.ones(len(log)), 0.9, plan.wide, False)
    assert clock_for(record).shape[1] == 4
    assert clock_for(replace(record, blocks=True)) is None
    assert clock_for(replace(record, traced=Traced(0.5, np.zeros(len(log))))) is None
    assert clock_for(replace(record, begins=np.arange(len(log) + 1))) is None
    assert clock_of(np.array([0, 2, 4])).shape == (2, 1)


def test_steps_since_the_start():
    begins = np.array([0, 4, 5, 9])
    whole = np.r_[0:4, 0, 0:4]
    for start in range(9):
        for stop in range(start + 1, 10):
            assert (since_start(begins, start, stop) == whole[start:stop]).all()
