"""Discrete observations in parts: states are found in a pass of their own, and nothing else changes."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gradtd.evaluation.parts import evaluating, preparing, state_table, states
from gradtd.evaluation.parts import job as jobs

import gradtd
from gradtd.logs import parts as cutting
from gradtd.logs.column_names import resolve

EPISODES = 200


@pytest.fixture(scope="module")
def table():
    """A walk on six states with odd numbers, to the right with 0.6, the target with 0.65; some are cut off."""
    rng = np.random.default_rng(0)
    columns = {name: [] for name in ("episode", "t", "obs", "reward", "terminated", "truncated", "rho")}
    for one in range(EPISODES):
        at, n = int(rng.integers(3)), int(rng.integers(2, 25))
        for t in range(n):
            right = rng.random() < 0.6
            after = max(at + (1 if right else -1), 0)
            ends, rho = after == 6, (0.65 / 0.6) if right else (0.35 / 0.4)
            told = (7 * one, t, 2 * at + 1, at + rng.standard_normal(), ends, not ends and t == n - 1, rho)
            for name, value in zip(columns, told, strict=True):
                columns[name].append(value)
            if ends:
                break
            at = after
    return pa.table(columns)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(cutting, "BATCH", 300)
    monkeypatch.setattr(cutting.Survey.parts, "__defaults__", (700,))


def _evaluate(log, **more):
    return gradtd.evaluate(log, gamma=0.9, **({"in_parts": True, "progress": False, "threads": 1} | more))


@pytest.mark.parametrize("features", ["auto", "aggregation:bins=3"])
def test_with_a_group_for_each_episode_it_is_what_it_is_in_memory(path, monkeypatch, features):
    """Value, error, and what the checks found: also with memory, with the time, with pairs, and doubly robust."""
    monkeypatch.setattr(preparing, "groups_for", lambda wide: EPISODES)
    monkeypatch.setattr(jobs.Job, "group_of", lambda self, hashes: np.argsort(np.argsort(hashes)))
    monkeypatch.setattr(cutting.Survey.parts, "__defaults__", (10**6,))
    monkeypatch.setattr(cutting, "BATCH", 10**6)
    if features != "auto":
        features = gradtd.make_features(features).fit(gradtd.read_log(str(path)).observations)
    ours, memory = (_evaluate(str(path), features=features, in_parts=given) for given in (True, False))
    assert ours.value == pytest.approx(memory.value, rel=1e-9)
    assert ours.diagnostics.sandwich_error == pytest.approx(memory.diagnostics.sandwich_error, rel=1e-6)
    assert ours.features.n_features == memory.features.n_features
    np.testing.assert_allclose(ours(np.array([1, 5, 11])), memory(np.array([1, 5, 11])), rtol=1e-9)
    for name in ("ess_marginal", "ess_marginal_episodes", "strangers", "leading_elsewhere", "beyond_cuts"):
        assert ours.numbers[name] == pytest.approx(memory.numbers[name], rel=1e-6, abs=1e-12), name
    found, other = ({(check.kind, check.name): check for check in one.checks} for one in (ours, memory))
    assert set(found) == set(other)
    assert {kind for kind, _ in found} >= {"checker", "memory", "time", "doubly robust"}
    for key, check in found.items():
        assert check.value == pytest.approx(other[key].value, rel=1e-6), key


def test_neither_order_nor_cuts_matter(table, path, tmp_path):
    ids = table["episode"].to_numpy()
    order = np.random.default_rng(1).permutation(np.unique(ids))
    other = pa.concat_tables([table.filter(pa.array(ids == one)) for one in order])
    for k, (low, high) in enumerate([(0, 134), (134, 135), (135, len(table))]):
        pq.write_table(other.slice(low, high - low), tmp_path / f"part-{k}.parquet", row_group_size=101)
    whole, cut = _evaluate(str(path)), _evaluate(str(tmp_path))
    assert cut.value == pytest.approx(whole.value, rel=1e-9)
    assert cut.interval == pytest.approx(whole.interval, rel=1e-9)
    assert (cut.verdict, cut.reasons, cut.steps) == (whole.verdict, whole.reasons, whole.steps)
    assert cut.to_dict() == _evaluate(str(tmp_path), threads=2).to_dict()


def test_a_chunk_does_not_know_all_states(path):
    """Numbers of states are those of the whole log, though chunks have few of them."""
    seen = cutting.survey(evaluating.open_table(str(path)), "episode")
    log = gradtd.read_log(str(path))
    parts = [states._of_chunk(log)]
    assert parts[0].values.tolist() == [1, 3, 5, 7, 9, 11]
    one = state_table.States(np.array([3, 7]), np.array([4, 1]), np.array([[2, 0, 3], [0, 1, 1], [0, 0, 1]]))
    both = states._together([one, state_table.States(np.array([5]), np.array([2]), np.array([[1, 0, 2]]))])
    assert both.values.tolist() == [3, 5, 7]
    assert both.visits.tolist() == [4, 2, 1]
    assert both.pairs.tolist() == [[0, 0, 1], [0, 2, 1], [3, 0, 3], [3, 1, 2]]
    assert seen.episodes == EPISODES


def test_a_stream_in_a_folder_takes_one_hot_states(path, tmp_path):
    made = gradtd.store_stream(str(path), tmp_path / "s", gamma=0.9, features="one-hot")
    memory = gradtd.log_stream(str(path), gamma=0.9, features="one-hot")
    np.testing.assert_array_equal(made.features[made.steps["row"]], memory.features[memory.steps["row"]])


def test_too_many_states_are_refused(path, monkeypatch):
    monkeypatch.setattr(states, "MOST_STATES", 5)
    with pytest.raises(
        gradtd.InputError, match=r"has at most 5 states, .* this one has 6 and .*, or more; put states together"
    ):
        _evaluate(str(path))


def test_what_workers_are_sent_can_be_sent(path):
    """Finding states, and the table of states, go to other processes."""
    table = evaluating.open_table(str(path))
    roles = resolve(table.kinds, None, ())
    asked = preparing.Asked(None, None, None, None, "refuse", "refuse")
    look = states._Look(preparing.reading_of(None, asked, (), roles), table.name)
    part = cutting.survey(table, "episode").parts()[0]
    sent, part = pickle.loads(pickle.dumps((look, part)))
    found = sent(part)
    wide = pickle.loads(pickle.dumps(state_table.state_wide(found, np.eye(len(found.values)), EPISODES)))
    assert isinstance(wide, state_table.StateWide)
    assert found.values.tolist() == [1, 3, 5, 7, 9, 11]
