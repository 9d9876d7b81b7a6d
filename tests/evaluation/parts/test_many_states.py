"""Logs of many states in parts: sparse sums, read from a file of steps, say what they say in memory."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gradtd.evaluation.parts import cell_evaluating, evaluating, fitting, preparing, states, step_file
from gradtd.evaluation.parts import job as jobs

import gradtd
from gradtd.core.executors import ThreadExecutor
from gradtd.logs import parts as cutting
from gradtd.logs.column_names import resolve

EPISODES, STATES = 400, 600


def walks(seed, states=STATES, episodes=EPISODES):
    """Walks on a ring whose states have odd numbers, some states seen often; some episodes are cut off."""
    rng = np.random.default_rng(seed)
    length = rng.integers(2, 15, episodes)
    n, ends = int(length.sum()), np.cumsum(length) - 1
    first = np.r_[0, ends[:-1] + 1]
    right = rng.random(n) < 0.6
    move = np.where(right, 1, -2)
    move[first] = np.where(np.arange(episodes) < episodes // 2, rng.integers(0, 20, episodes), 0)
    move[first] += rng.integers(0, states, episodes) * (np.arange(episodes) >= episodes // 2)
    total = np.cumsum(move)
    at = (total - np.repeat(total[first] - move[first], length)) % states
    last = np.zeros(n, bool)
    last[ends] = True
    cut = last & np.repeat(rng.random(episodes) < 0.2, length)
    return pa.table(
        {
            "episode": np.repeat(7 * np.arange(episodes), length),
            "obs": 2 * at + 1,
            "reward": np.sin(at / 40) + rng.standard_normal(n),
            "terminated": last & ~cut,
            "truncated": cut,
            "rho": np.where(right, 0.65 / 0.6, 0.35 / 0.4),
        }
    )


@pytest.fixture(scope="module")
def table():
    return walks(0)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    """Several parts and chunks, and some blocks of steps in the file, though the log is small."""
    monkeypatch.setattr(cutting, "BATCH", 300)
    monkeypatch.setattr(cutting.Survey.parts, "__defaults__", (700,))
    monkeypatch.setattr(states, "DENSE_STATES", 400)
    monkeypatch.setattr(preparing, "DENSE_STATES", 400)
    monkeypatch.setattr(step_file, "KEPT", 1000)
    monkeypatch.setattr(step_file, "STEPS", 200)


def _evaluate(log, **more):
    return gradtd.evaluate(log, gamma=0.9, **({"in_parts": True, "progress": False, "threads": 1} | more))


@pytest.mark.parametrize("features", ["one-hot", "aggregation:bins=70"])
def test_with_a_group_for_each_episode_it_is_what_it_is_in_memory(path, monkeypatch, features):
    """Value, interval, all fits of the checks and the diagnostics; only the jackknife's tenths are other episodes."""
    monkeypatch.setattr(preparing, "MOST_GROUPS", EPISODES)
    seen = cutting.survey(evaluating.open_table(str(path)), "episode").hashes
    monkeypatch.setattr(jobs.Job, "group_of", lambda self, hashes: np.searchsorted(np.sort(seen), hashes))
    if features == "aggregation:bins=70":
        features = gradtd.make_features(features).fit(gradtd.read_log(str(path)).observations)
    ours, memory = (_evaluate(str(path), features=features, in_parts=given) for given in (True, False))
    assert ours.value == pytest.approx(memory.value, rel=1e-10)
    assert ours.interval == pytest.approx(memory.interval, rel=1e-8)
    assert (ours.verdict, ours.reasons) == (memory.verdict, memory.reasons)
    assert (ours.episodes, ours.steps, ours.features.n_features) == (
        memory.episodes,
        memory.steps,
        memory.features.n_features,
    )
    some = np.array([1, 5, 11, 601, 1199])
    np.testing.assert_allclose(ours(some), memory(some), rtol=1e-8, atol=1e-10)
    exact = ("ess_marginal", "ess_marginal_episodes", "sandwich_error", "lacking", "surprises_met", "hull_times")
    for name in (*exact, "undetermined_directions", "effective_pieces", "leading_elsewhere", "features_used"):
        assert ours.numbers[name] == pytest.approx(memory.numbers[name], rel=1e-7, abs=1e-12), name
    found, other = ({(check.kind, check.name): check for check in one.checks} for one in (ours, memory))
    assert set(found) == set(other)
    assert {kind for kind, _ in found} >= {"rung", "memory", "time", "doubly robust"}
    for key, check in found.items():
        told = (check.value, check.low, check.high, check.columns)
        assert told == pytest.approx((other[key].value, other[key].low, other[key].high, other[key].columns)), key


def test_rare_states_share_a_feature_as_in_memory(tmp_path):
    """A log of too few steps for its states: the headline is a rung of fewer, and its weights are those of memory."""
    pq.write_table(walks(1, states=990, episodes=350), tmp_path / "log.parquet")
    ours, memory = (_evaluate(str(tmp_path / "log.parquet"), in_parts=given) for given in (True, False))
    assert ours.value == pytest.approx(memory.value, rel=1e-10)
    assert ours.features.n_features == memory.features.n_features < 100
    some = np.array([1, 3, 9, 15, 999, 1899])
    np.testing.assert_allclose(ours(some), memory(some), rtol=1e-8)
    assert any("seen most have a feature each" in note for note in ours.notes)
    assert any("seen most have a feature each" in note for note in memory.notes)


def test_beyond_a_thousand_states_neighbours_share_a_feature_as_in_memory(tmp_path):
    pq.write_table(walks(1, states=4000, episodes=700), tmp_path / "log.parquet")
    ours, memory = (_evaluate(str(tmp_path / "log.parquet"), in_parts=given) for given in (True, False))
    assert ours.features.describe() == memory.features.describe()
    assert ours.value == pytest.approx(memory.value, abs=memory.diagnostics.sandwich_error / 2)
    assert ours.diagnostics.sandwich_error == pytest.approx(memory.diagnostics.sandwich_error, rel=0.2)
    assert ours.verdict == memory.verdict


def test_neither_order_nor_cuts_nor_threads_nor_the_file_matter(table, path, tmp_path, monkeypatch):
    ids = table["episode"].to_numpy()
    order = np.random.default_rng(1).permutation(np.unique(ids))
    other = pa.concat_tables([table.filter(pa.array(ids == one)) for one in order])
    for k, (low, high) in enumerate([(0, 134), (134, 135), (135, len(table))]):
        pq.write_table(other.slice(low, high - low), tmp_path / f"part-{k}.parquet", row_group_size=101)
    whole, cut = (_evaluate(str(log), features="one-hot") for log in (path, tmp_path))
    assert cut.value == pytest.approx(whole.value, rel=1e-10)
    assert cut.interval == pytest.approx(whole.interval, rel=1e-8)
    assert (cut.verdict, cut.reasons, cut.steps) == (whole.verdict, whole.reasons, whole.steps)
    monkeypatch.setattr(step_file, "KEPT", 10**9)
    assert cut.to_dict() == _evaluate(str(tmp_path), features="one-hot", threads=2).to_dict()


def test_lstd_says_which_interval_it_has(path):
    found = _evaluate(str(path), algorithm="lstd", resamples=50)
    assert "sandwich interval of" in found.estimates[0].note
    assert "no refits with so many states" in found.estimates[0].note
    assert len(found.resampled) == 50
    assert found.resampled.std() == pytest.approx(found.diagnostics.sandwich_error, rel=0.4)
    assert any("groups of episodes" in note for note in found.notes)
    assert any("496 states: its steps were kept in a temporary file" in note for note in found.notes)


def test_features_that_are_no_cells_are_refused(path):
    with pytest.raises(gradtd.InputError, match=r"a log of 496 states .* one-hot and aggregation .* in_parts=False"):
        _evaluate(str(path), features="polynomial:order=2")


def test_what_workers_are_sent_and_send_can_be_sent(path):
    """Steps of a part come back as arrays; a block in the file is what it was."""
    table = evaluating.open_table(str(path))
    roles = resolve(table.kinds, None, ())
    asked = preparing.Asked(None, None, None, None, "refuse", "refuse")
    seen = cutting.survey(table, "episode")
    reading = preparing.reading_of(None, asked, (), roles)
    sample = fitting.sampled(table, seen, reading)
    job, looked = preparing.prepared(table, seen, reading, 0.9, asked, ThreadExecutor(1), sample)
    assert looked is None
    sent, part = pickle.loads(pickle.dumps((cell_evaluating._Work(job, np.array([0, 500])), seen.parts()[0])))
    sums, blocks = pickle.loads(pickle.dumps(sent(part)))
    assert sum(block.steps for _, block in blocks) == sums["steps"] <= len(part)


def test_a_block_in_the_file_is_what_it_was(tmp_path, monkeypatch):
    rng = np.random.default_rng(2)
    monkeypatch.setattr(step_file, "KEPT", 0)
    kept = step_file.StepFile(tmp_path, 2)
    given = []
    for k in range(3):
        steps = [rng.integers(0, 9, 5), rng.integers(0, 9, 5), *rng.standard_normal((3, 5))]
        given.append(step_file.Block(*steps, np.array([0, 2, 5]), np.array([1, 2]), np.array([k, k])))
        kept.add(k % 2, given[-1])
    kept.finish()
    found = list(kept.blocks())
    assert [tenth for tenth, _ in found] == [0, 1]
    for a, b in zip(found[0][1], step_file.joined([given[0], given[2]]), strict=True):
        np.testing.assert_array_equal(a, b)
    assert [block.steps for _, block in kept.blocks([1])] == [5]
    lost = step_file.StepFile(tmp_path / "none", 1)
    lost.add(0, given[0])
    with pytest.raises(gradtd.InputError, match=r"cannot write to .*none'.* TMPDIR says"):
        lost.finish()
