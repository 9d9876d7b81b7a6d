"""What `evaluate` says of real observations in parts: what it says of them in memory, whoever reads them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gradtd
from gradtd.evaluation import part_sums
from gradtd.logs import parts
from gradtd.logs.row_episodes import hash_of

pytestmark = pytest.mark.usefixtures("small_parts")
EPISODES = 90  # from 100 on a log in memory tries the time and the past by itself, one in parts does not
MEASURED = (
    *("terminated", "truncated", "ess", "ess_episodes", "mean_ratio", "mean_ratio_off", "largest_ratio", "beyond_cuts"),
    *("reward_sample", "largest_reward", "ess_marginal", "ess_marginal_episodes", "sandwich_error", "effective_pieces"),
    *("refit_bias", "lacking", "lacking_moves", "surprises_met", "hull_times", "undetermined_directions"),
)


def rows_of(ids, seed=0):
    """Episodes of 2 to 20 steps of AR(1) observations; some are cut off."""
    rng = np.random.default_rng(seed)
    length = rng.integers(2, 21, len(ids))
    n, ends = int(length.sum()), np.cumsum(length) - 1
    last = np.isin(np.arange(n), ends)
    cut = last & np.repeat(rng.random(len(ids)) < 0.2, length)
    seen = rng.standard_normal((n, 2))
    for t in range(1, n):
        seen[t] += 0.0 if last[t - 1] else 0.8 * seen[t - 1]
    columns = {
        "episode": np.repeat(ids, length),
        "t": np.arange(n) - np.repeat(ends - length + 1, length),
        "reward": 1 + seen[:, 0] + rng.standard_normal(n),
        **{"terminated": last & ~cut, "truncated": cut, "rho": rng.choice([0.5, 1.5], n)},
        **{"obs_0": seen[:, 0], "obs_1": seen[:, 1]},
    }
    return pa.table(columns)


@pytest.fixture(scope="module")
def table(ids_apart):
    return rows_of(ids_apart(EPISODES))


@pytest.fixture(scope="module")
def path(table, tmp_path_factory):
    file = tmp_path_factory.mktemp("log") / "log.parquet"
    pq.write_table(table, file, row_group_size=400)
    return file


def _evaluate(log, **more):
    return gradtd.evaluate(str(log), gamma=0.9, **({"in_parts": True, "progress": False, "threads": 1} | more))


def _same(a, b, rel=1e-9):
    assert a.value == pytest.approx(b.value, rel=rel)
    assert a.interval == pytest.approx(b.interval, rel=rel)
    assert (a.verdict, a.reasons, a.episodes, a.steps) == (b.verdict, b.reasons, b.episodes, b.steps)


def _same_checks(ours, memory, rel=1e-6):
    found, other = ({(check.kind, check.name): check for check in one.checks} for one in (ours, memory))
    assert set(found) == set(other)
    for key, check in found.items():
        told = [(one.value, one.low, one.high, one.columns) for one in (check, other[key])]
        assert told[0] == pytest.approx(told[1], rel=rel), key
        assert (check.fault, check.chosen) == (other[key].fault, other[key].chosen), key
    return {kind for kind, _ in found}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"features": "polynomial:order=2"},
        {"lam": 0.5},
        {"lam": 0.3, "features": "identity", "trace": "clipped"},
        {"whiten": False, "features": "identity"},
        {"clip": 1.2, "features": "identity"},
    ],
)
def test_with_a_group_for_each_episode_it_is_what_it_is_in_memory(path, evaluate_both, same_behaviour, more):
    """Features, value, interval, all checks and the diagnostics: groups in their order have the tenths of memory."""
    ours, memory = evaluate_both(path, **more)
    _same(ours, memory, 1e-7)
    assert ours.behaviour is not None
    same_behaviour(ours, memory)
    assert _same_checks(ours, memory) >= {"rung", "checker", "memory"}
    np.testing.assert_allclose(ours.influences, memory.influences, rtol=1e-5, atol=1e-7)
    for name in MEASURED:
        assert ours.numbers[name] == pytest.approx(memory.numbers[name], rel=1e-6), name
    assert ours.numbers["top_hundredth_carries"] == pytest.approx(memory.numbers["top_hundredth_carries"], rel=0.05)
    some = np.array([[0.3, -0.1], [-1.0, 2.0]])
    np.testing.assert_allclose(ours(some), memory(some), rtol=1e-7)
    assert [note for note in ours.notes if note.endswith(": 19.")] == [note for note in memory.notes if ": 19." in note]


def test_a_group_has_the_influence_of_its_episodes(path, table, evaluate_both, monkeypatch):
    """With 23 groups the value stays, and the error is that of so many sums."""
    monkeypatch.setattr(part_sums, "FEWEST_GROUPS", 23)
    monkeypatch.setattr(part_sums, "MOST_GROUPS", 23)
    ours, memory = evaluate_both(path, features="identity")
    assert ours.value == pytest.approx(memory.value, rel=1e-9)
    ids = np.unique(table["episode"].to_numpy())
    sums = np.bincount((hash_of(ids) % np.uint64(23)).astype(int), memory.influences)
    np.testing.assert_allclose(ours.influences * (EPISODES / 23), sums, rtol=1e-6, atol=1e-8)
    assert ours.diagnostics.sandwich_error == pytest.approx(np.sqrt((ours.influences**2).sum() / (23 * 22)))
    assert any("the interval comes from 23 groups of episodes" in note for note in ours.notes)


def test_the_behaviours_own_value_is_that_of_the_behaviour_as_a_target(path):
    """With groups of several episodes, too; the behaviour beside itself has none."""
    found = _evaluate(path, target={"new": None, "old": "behaviour"}, features="identity")
    own, (row,) = found["new"].behaviour, found.compare().differences
    assert own.value == pytest.approx(found["old"].value, rel=1e-9)
    assert own.gain == pytest.approx(row.value, rel=1e-9)
    assert found["old"].behaviour is None


def test_neither_order_nor_cuts_nor_threads_matter(table, path, tmp_path):
    """Episodes in another order, in files that are cut anywhere, on two threads: the same but for rounding."""
    ids = table["episode"].to_numpy()
    order = np.random.default_rng(1).permutation(np.unique(ids))
    other = pa.concat_tables([table.filter(pa.array(ids == one)) for one in order])
    ends = other["terminated"].to_numpy() | other["truncated"].to_numpy()
    inside = int(np.flatnonzero(~ends[600:])[0]) + 601
    for k, (low, high) in enumerate([(0, 234), (234, 235), (235, inside), (inside, len(table))]):
        pq.write_table(other.slice(low, high - low), tmp_path / f"part-{k}.parquet", row_group_size=133)
    whole, cut = _evaluate(path), _evaluate(tmp_path)
    _same(cut, whole)
    assert any("continued in the next file" in note for note in cut.notes)
    two = _evaluate(str(tmp_path / "part-*.parquet"), threads=2)
    assert two.theta.tobytes() == cut.theta.tobytes()
    assert two.resampled.tobytes() == cut.resampled.tobytes()
    assert two.to_dict() | {"log": ""} == cut.to_dict() | {"log": ""}


def test_scattered_rows_are_brought_together(table, path, tmp_path):
    mixed = table.take(np.random.default_rng(2).permutation(len(table)))
    pq.write_table(mixed, tmp_path / "mixed.parquet", row_group_size=500)
    heard = []
    found = _evaluate(tmp_path / "mixed.parquet", features="identity", progress=lambda *told: heard.append(told[0]))
    _same(found, _evaluate(path, features="identity"))
    assert any("were not consecutive" in note for note in found.notes)
    assert {"looking for episodes", "bringing episodes together", "reading"} <= set(heard)


@pytest.mark.parametrize("states", [False, True])
def test_a_chunk_in_which_nothing_leads_anywhere_is_left_out(table, tmp_path, states, monkeypatch, evaluate_both):
    """Its episodes have one row and did not end. In memory they disappear, too."""
    monkeypatch.setattr(parts, "BATCH", 500)
    monkeypatch.setattr(parts, "FEWEST_ROWS", 500)
    monkeypatch.setattr(parts, "ROWS_OF_A_PART", 10**6)
    lost = table.slice(0, 1).set_column(0, "episode", pa.array([10**6]))
    for name in ("terminated", "truncated"):
        lost = lost.set_column(lost.schema.get_field_index(name), name, pa.array([False]))
    rows = pa.concat_tables([table, lost])
    if states:
        rows = rows.drop(["obs_0", "obs_1"]).append_column("obs", pa.array(np.arange(len(rows)) % 4))
    pq.write_table(rows, tmp_path / "log.parquet", row_group_size=len(table))
    features = "one-hot" if states else "identity"
    ours, memory = evaluate_both(tmp_path / "log.parquet", features=features)
    assert ours.value == pytest.approx(memory.value, rel=1e-9)
    assert (ours.episodes, ours.steps) == (memory.episodes, memory.steps)
    assert any("Episodes dropped" in note and note.endswith(": 1.") for note in ours.notes)
    log = str(tmp_path / "log.parquet")
    assert len(gradtd.store_stream(log, tmp_path / "stored", gamma=0.9, features=features).steps) == ours.steps


def test_names_of_episodes_may_be_words(path, tmp_path):
    pq.write_table(rows_of([f"patient {k}" for k in range(EPISODES)]), tmp_path / "words.parquet", row_group_size=900)
    found, plain = (_evaluate(log, features="identity") for log in (tmp_path / "words.parquet", path))
    assert found.value == pytest.approx(plain.value, rel=1e-9)
    assert found.interval != plain.interval  # the hashes of other names make other groups


def test_ratios_that_are_all_zero_leave_no_sample(table, tmp_path, evaluate_both):
    zero = table.set_column(table.column_names.index("rho"), "rho", pa.array(np.zeros(len(table))))
    pq.write_table(zero, tmp_path / "log.parquet")
    for found in evaluate_both(tmp_path / "log.parquet", features="identity"):
        assert (found.verdict, found.numbers["ess"], found.numbers["ess_episodes"]) == ("not usable", 0.0, 0.0)


def test_what_is_said_of_ratios_is_a_warning_in_both_ways(table, tmp_path, evaluate_both):
    pi = np.where(np.arange(len(table)) % 200 == 0, 0.3, 0.5)
    more = table.drop_columns("rho").append_column("behaviour", pa.array(np.full(len(table), 0.5)))
    pq.write_table(more.append_column("pi", pa.array(pi)), tmp_path / "log.parquet")
    ours, memory = evaluate_both(tmp_path / "log.parquet", features="identity", target="pi", clip=0.9)
    assert ours.warnings == memory.warnings
    assert any("clip" in one for one in ours.warnings), ours.warnings


def test_rows_that_are_episodes_of_one_step_are_evaluated_in_parts(tmp_path):
    rng = np.random.default_rng(0)
    columns = {"obs_0": rng.normal(size=400), "action": rng.integers(0, 2, 400), "reward": rng.normal(1, 1, 400)}
    pq.write_table(pa.table(columns | {"action_prob": np.full(400, 0.5)}), tmp_path / "log.parquet")
    asked = {"gamma": 0, "one_step": True, "target": "uniform", "features": "identity", "progress": False}
    memory, parts = (
        gradtd.evaluate(str(tmp_path / "log.parquet"), machine=gradtd.Machine(in_parts=p), **asked)
        for p in (False, True)
    )
    assert parts.value == pytest.approx(memory.value, rel=1e-8)
    assert (parts.episodes, parts.verdict) == (memory.episodes, memory.verdict) == (400, "usable")
