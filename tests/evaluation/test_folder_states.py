"""What `evaluate` says of discrete observations in parts: what it says of them in memory, of few states or many."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gradtd
from gradtd.evaluation import step_blocks
from gradtd.evaluation.designs import states

pytestmark = pytest.mark.usefixtures("small_parts")
EPISODES = 250
MEASURED = (
    *("ess", "ess_marginal", "ess_marginal_episodes", "sandwich_error", "lacking", "surprises_met", "hull_times"),
    *("undetermined_directions", "effective_pieces", "leading_elsewhere", "features_used", "strangers", "refit_bias"),
)


def walks(seed, n_states, ids):
    """Walks on a ring whose states have odd numbers, half of them from a few states; some episodes are cut off."""
    rng, episodes = np.random.default_rng(seed), len(ids)
    length = rng.integers(2, 15, episodes)
    n, ends = int(length.sum()), np.cumsum(length) - 1
    first = np.r_[0, ends[:-1] + 1]
    right = rng.random(n) < 0.6
    move = np.where(right, 1, -2)
    few = np.arange(episodes) % 2 == 0
    move[first] = np.where(few, rng.integers(0, min(20, n_states), episodes), rng.integers(0, n_states, episodes))
    total = np.cumsum(move)
    at = (total - np.repeat(total[first] - move[first], length)) % n_states
    last = np.isin(np.arange(n), ends)
    cut = last & np.repeat(rng.random(episodes) < 0.2, length)
    columns = {"episode": np.repeat(ids, length), "obs": 2 * at + 1, "reward": np.sin(at / 40) + rng.standard_normal(n)}
    columns |= {"terminated": last & ~cut, "truncated": cut, "rho": np.where(right, 0.65 / 0.6, 0.35 / 0.4)}
    return pa.table(columns)


@pytest.fixture(scope="module")
def paths(ids_apart, tmp_path_factory):
    """Logs of a few states, and of so many that some are rare."""
    found, folder = {}, tmp_path_factory.mktemp("states")
    for n in (6, 300):
        found[n] = folder / f"{n}.parquet"
        pq.write_table(walks(0, n, ids_apart(EPISODES)), found[n], row_group_size=500)
    return found


def _evaluate(log, **more):
    return gradtd.evaluate(str(log), gamma=0.9, **({"in_parts": True, "progress": False, "threads": 1} | more))


@pytest.mark.parametrize(
    ("n", "features", "more"),
    [
        (6, "auto", {}),
        (6, "aggregation:bins=3", {}),
        (6, "polynomial:order=2", {}),
        (6, "polynomial:order=2", {"lam": 0.5}),
        (300, "auto", {}),
        (300, "one-hot", {"lam": 0.5}),
        (300, "aggregation:bins=30", {}),
    ],
)
def test_with_a_group_for_each_episode_it_is_what_it_is_in_memory(
    paths, evaluate_both, same_behaviour, monkeypatch, n, features, more
):
    """Value, interval, all fits of the checks and the diagnostics; steps are in a file, or in memory."""
    monkeypatch.setattr(step_blocks, "BLOCK", 30)
    monkeypatch.setattr(step_blocks, "IN_MEMORY", 500)
    ours, memory = evaluate_both(paths[n], features=features, **more)
    assert ours.value == pytest.approx(memory.value, rel=1e-8)
    assert ours.interval == pytest.approx(memory.interval, rel=1e-6)
    assert ours.behaviour is not None
    same_behaviour(ours, memory)
    assert (ours.verdict, ours.reasons) == (memory.verdict, memory.reasons)
    assert (ours.episodes, ours.steps) == (memory.episodes, memory.steps)
    assert ours.features.n_features == memory.features.n_features
    some = np.array([1, 5, 11])
    np.testing.assert_allclose(ours(some), memory(some), rtol=1e-7, atol=1e-10)
    for name in MEASURED:
        assert ours.numbers[name] == pytest.approx(memory.numbers[name], rel=1e-6, abs=1e-6), name
    found, other = ({(check.kind, check.name): check for check in one.checks} for one in (ours, memory))
    assert set(found) == set(other)
    assert {kind for kind, _ in found} >= {"rung", "memory"}
    for key, check in found.items():
        told = [(one.value, one.low, one.high, one.columns) for one in (check, other[key])]
        assert told[0] == pytest.approx(told[1], rel=1e-6), key


def test_rare_states_share_a_feature_as_in_memory(ids_apart, tmp_path, evaluate_both):
    """A log of too few steps for its states: the headline is a rung of fewer, and its weights are those of memory."""
    pq.write_table(walks(1, 990, ids_apart(350)), tmp_path / "log.parquet")
    ours, memory = evaluate_both(tmp_path / "log.parquet")
    assert ours.value == pytest.approx(memory.value, rel=1e-9)
    assert ours.interval == pytest.approx(memory.interval, rel=1e-6)
    assert ours.features.n_features == memory.features.n_features < 100
    some = np.array([1, 3, 9, 15, 999, 1899])
    np.testing.assert_allclose(ours(some), memory(some), rtol=1e-8)
    for found in (ours, memory):
        assert any("most frequent have one feature each" in note for note in found.notes)


def test_beyond_a_thousand_states_neighbours_share_a_feature_as_in_memory(ids_apart, tmp_path, evaluate_both):
    pq.write_table(walks(1, 4000, ids_apart(500)), tmp_path / "log.parquet")
    ours, memory = evaluate_both(tmp_path / "log.parquet")
    assert ours.features.describe() == memory.features.describe()
    assert ours.value == pytest.approx(memory.value, abs=memory.diagnostics.sandwich_error / 2)
    assert ours.diagnostics.sandwich_error == pytest.approx(memory.diagnostics.sandwich_error, rel=0.2)
    assert ours.verdict == memory.verdict


def test_neither_order_nor_cuts_nor_threads_nor_the_file_matter(paths, tmp_path, monkeypatch):
    table = pq.read_table(paths[300])
    ids = table["episode"].to_numpy()
    order = np.random.default_rng(1).permutation(np.unique(ids))
    other = pa.concat_tables([table.filter(pa.array(ids == one)) for one in order])
    for k, (low, high) in enumerate([(0, 134), (134, 135), (135, len(table))]):
        pq.write_table(other.slice(low, high - low), tmp_path / f"part-{k}.parquet", row_group_size=101)
    whole, cut = (_evaluate(log, features="one-hot") for log in (paths[300], tmp_path))
    assert cut.value == pytest.approx(whole.value, rel=1e-10)
    assert cut.interval == pytest.approx(whole.interval, rel=1e-8)
    assert (cut.verdict, cut.reasons, cut.steps) == (whole.verdict, whole.reasons, whole.steps)
    monkeypatch.setattr(step_blocks, "IN_MEMORY", 500)
    assert cut.to_dict() == _evaluate(tmp_path, features="one-hot", threads=2).to_dict()


def test_lstd_says_which_interval_it_has(paths):
    found = _evaluate(paths[300], features="one-hot", algorithm="lstd", resamples=50)
    assert "sandwich interval [" in found.estimates[0].note
    assert "no refits of states" in found.estimates[0].note
    assert len(found.resampled) == 50
    assert found.resampled.std() == pytest.approx(found.diagnostics.sandwich_error, rel=0.4)
    assert any(f"{EPISODES} groups of episodes" in note for note in found.notes)
    n = len(np.unique(pq.read_table(paths[300])["obs"].to_numpy()))
    assert any(f"{n} states; its steps were written to a temporary file" in note for note in found.notes)


def test_too_many_states_are_refused(paths, monkeypatch):
    monkeypatch.setattr(states, "MOST_STATES", 5)
    with pytest.raises(gradtd.InputError, match=r"at most 5 states, .* This one has 6 and .*, or more\. Merge states"):
        _evaluate(paths[6])
