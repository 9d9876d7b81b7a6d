"""A log read in parts: what it would be in memory, whatever the order, the cuts, or who reads it."""

import pickle
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gradtd.evaluation.parts import blocks, evaluating, fitting, judging, preparing
from gradtd.evaluation.parts import job as jobs
from gradtd.evaluation.parts import room as rooms
from gradtd.evaluation.parts import sums as summing
from gradtd.evaluation.parts.evaluating import large_table
from gradtd.evaluation.parts.room import Room
from gradtd.evaluation.trust import enriching

import gradtd
from gradtd.logs import parts as cutting
from gradtd.logs.files import ParquetTable

GAMMA = 0.9
EPISODES = 200


def _table(ids=None, seed=0):
    """Episodes of 1 to 30 steps of AR(1) observations; some are cut off."""
    rng = np.random.default_rng(seed)
    ids = np.arange(EPISODES) * 7 if ids is None else ids
    columns = {name: [] for name in ("episode", "t", "reward", "terminated", "truncated", "rho", "obs_0", "obs_1")}
    for one in ids:
        n = int(rng.integers(1, 31))
        seen = np.cumsum(rng.standard_normal((n, 2)), axis=0) * 0.3
        last = np.arange(n) == n - 1
        cut = rng.random() < 0.2
        told = (np.full(n, one), np.arange(n), 1 + seen[:, 0] + rng.standard_normal(n), last & (not cut), last & cut)
        for name, values in zip(columns, (*told, rng.choice([0.5, 1.5], n), seen[:, 0], seen[:, 1]), strict=True):
            columns[name].append(values)
    return pa.table({name: np.concatenate(values) for name, values in columns.items()})


@pytest.fixture(scope="module")
def table():
    return _table()


@pytest.fixture(scope="module")
def path(table, tmp_path_factory):
    file = tmp_path_factory.mktemp("log") / "log.parquet"
    pq.write_table(table, file, row_group_size=1000)
    return file


@pytest.fixture(scope="module", autouse=True)
def _small_parts():
    """Several parts and chunks, though the log is small; a narrow ladder, where the checks' time is."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cutting, "BATCH", 400)
        patched.setattr(cutting.Survey.parts, "__defaults__", (1000,))
        patched.setattr(enriching, "MOST_COLUMNS", 30)
        patched.setattr(jobs, "MOST_GROUPS", 150)
        yield


@pytest.fixture(scope="module")
def whole(path):
    """The log in parts, with features that are chosen."""
    return _evaluate(str(path))


@pytest.fixture(scope="module")
def plain(path):
    """The same with its columns as features."""
    return _evaluate(str(path), features="identity")


def _evaluate(log, **more):
    return gradtd.evaluate(log, gamma=GAMMA, **({"in_parts": True, "progress": False, "threads": 1} | more))


def _same(a, b, rel=1e-9):
    assert a.value == pytest.approx(b.value, rel=rel)
    assert a.interval == pytest.approx(b.interval, rel=rel)
    assert (a.verdict, a.reasons, a.episodes, a.steps) == (b.verdict, b.reasons, b.episodes, b.steps)


def test_with_a_group_for_each_episode_it_is_what_it_is_in_memory(path, monkeypatch):
    """Value, error and diagnostics agree to rounding where nothing is grouped and the features are the same."""
    monkeypatch.setattr(preparing, "groups_for", lambda wide: EPISODES)
    monkeypatch.setattr(jobs.Job, "group_of", lambda self, hashes: np.argsort(np.argsort(hashes)))
    monkeypatch.setattr(cutting.Survey.parts, "__defaults__", (10**6,))
    monkeypatch.setattr(cutting, "BATCH", 10**6)
    known = gradtd.make_features("polynomial:order=2").fit(gradtd.read_log(str(path)).observations)
    ours, memory = _evaluate(str(path), features=known), _evaluate(str(path), features=known, in_parts=False)
    assert ours.value == pytest.approx(memory.value, rel=1e-9)
    assert ours.diagnostics.sandwich_error == pytest.approx(memory.diagnostics.sandwich_error, rel=1e-6)
    assert (ours.episodes, ours.steps) == (memory.episodes, memory.steps)
    np.testing.assert_allclose(ours(np.array([[0.3, -0.1]])), memory(np.array([[0.3, -0.1]])), rtol=1e-9)
    own, others = ours.numbers, memory.numbers
    exact = ("terminated", "truncated", "ess", "ess_episodes", "mean_ratio", "mean_ratio_off", "beyond_cuts")
    for name in (*exact, "reward_sample", "largest_reward", "ess_marginal", "ess_marginal_episodes", "largest_ratio"):
        assert own[name] == pytest.approx(others[name], rel=1e-6), name
    assert own["top_hundredth_carries"] == pytest.approx(others["top_hundredth_carries"], rel=0.05)


def test_the_interval_is_about_as_wide_as_in_memory(path, whole):
    """Widths by 200 episodes and by 110 or so groups of them: each is known to 7 %, so 30 % is far beyond chance."""
    before = _evaluate(str(path), in_parts=False)
    assert whole.estimates[0].error == pytest.approx(before.estimates[0].error, rel=0.3)
    assert whole.verdict == before.verdict
    assert whole.value == pytest.approx(before.value, abs=before.estimates[0].error / 2)
    assert {check.kind for check in whole.checks} >= {"rung", "checker", "memory"}
    assert "groups of episodes" in " ".join(whole.notes)


def test_neither_order_nor_cuts_matter(table, whole, tmp_path):
    """Episodes in another order, in files that are cut anywhere: the same but for rounding."""
    ids = table["episode"].to_numpy()
    order = np.random.default_rng(1).permutation(np.unique(ids))
    other = pa.concat_tables([table.filter(pa.array(ids == one)) for one in order])
    for k, (low, high) in enumerate([(0, 634), (634, 635), (635, 2000), (2000, len(table))]):
        pq.write_table(other.slice(low, high - low), tmp_path / f"part-{k}.parquet", row_group_size=333)
    cut = _evaluate(str(tmp_path))
    _same(cut, whole)
    assert any("went on in the next file" in note for note in cut.notes)
    matching = large_table(str(tmp_path / "part-*.parquet"), True)
    assert [file.name for file in matching.paths] == [f"part-{k}.parquet" for k in range(4)]


def test_neither_do_blocks(path, whole, monkeypatch):
    """Blocks shorter than episodes, whose traces go on in the next one, and episodes that are not sorted by group."""
    for name, rows in {"BLOCK": 7, "ENOUGH": 3, "PIECE_ROWS": 50}.items():
        monkeypatch.setattr(blocks, name, rows)
    monkeypatch.setattr(summing, "FEW", 10**9)
    _same(_evaluate(str(path)), whole)


def test_a_sample_keeps_its_own_rows_alone(path):
    """A slice would keep the whole batch that it was read with."""
    rows, begins = cutting.survey(ParquetTable("log", [path]), "episode").sample(5, ["episode", "t", "obs_0"])
    assert len(rows) == begins[-1]
    assert rows.get_total_buffer_size() == rows.nbytes


def test_the_bytes_do_not_depend_on_threads(path, whole):
    one, two = whole, _evaluate(str(path), threads=2)
    assert one.theta.tobytes() == two.theta.tobytes()
    assert one.resampled.tobytes() == two.resampled.tobytes()
    assert one.to_dict() == two.to_dict()


def test_scattered_rows_are_brought_together(table, whole, tmp_path):
    mixed = table.take(np.random.default_rng(2).permutation(len(table)))
    pq.write_table(mixed, tmp_path / "mixed.parquet", row_group_size=500)
    heard = []
    found = _evaluate(str(tmp_path / "mixed.parquet"), progress=lambda *told: heard.append(told[0]))
    _same(found, whole)
    assert any("did not stand together" in note for note in found.notes)
    assert {"looking for episodes", "bringing episodes together", "reading"} <= set(heard)


@pytest.mark.parametrize("states", [False, True])
def test_a_chunk_in_which_nothing_leads_anywhere_is_left_out(table, tmp_path, states, monkeypatch):
    """Its episodes have one row and did not end. In memory they disappear, too."""
    monkeypatch.setattr(cutting, "BATCH", 500)
    monkeypatch.setattr(cutting, "FEWEST_ROWS", 500)
    lost = table.slice(0, 1).set_column(0, "episode", pa.array([10**6]))
    for name in ("terminated", "truncated"):
        lost = lost.set_column(lost.schema.get_field_index(name), name, pa.array([False]))
    rows = pa.concat_tables([table, lost])
    if states:
        rows = rows.drop(["obs_0", "obs_1"]).append_column("obs", pa.array(np.arange(len(rows)) % 4))
    pq.write_table(rows, tmp_path / "log.parquet", row_group_size=len(table))
    path = str(tmp_path / "log.parquet")
    features = "one-hot" if states else "identity"
    ours, memory = _evaluate(path, features=features), _evaluate(path, features=features, in_parts=False)
    assert ours.value == pytest.approx(memory.value, rel=1e-9)
    assert (ours.episodes, ours.steps) == (memory.episodes, memory.steps)
    assert any("episode" in note and "disappeared" in note for note in ours.notes)
    stored = gradtd.store_stream(path, tmp_path / "stored", gamma=GAMMA, features=features)
    assert len(stored.steps) == ours.steps


def test_names_of_episodes_may_be_words(plain, tmp_path):
    ids = [f"patient {k}" for k in range(EPISODES)]
    pq.write_table(_table(ids), tmp_path / "words.parquet", row_group_size=900)
    found = _evaluate(str(tmp_path / "words.parquet"), features="identity")
    assert found.value == pytest.approx(plain.value, rel=1e-9)
    assert found.interval != plain.interval  # the hashes of other names make other groups


def test_parts_hold_every_episode_once(path, table):
    seen = cutting.survey(ParquetTable("log", [path]), "episode")
    assert (seen.episodes, seen.rows, seen.grouped) == (EPISODES, len(table), True)
    parts = seen.parts(700)
    assert len(parts) > 3
    assert np.concatenate([part.hashes for part in parts]).tolist() == seen.hashes.tolist()
    rows = []
    for part in parts:
        for chunk, begins, hashes in part.chunks(["episode", "t"]):
            assert len(begins) == len(hashes) + 1
            assert begins[-1] == len(chunk)
            assert (chunk["t"].to_numpy()[begins[:-1]] == 0).all()
            rows.append(chunk)
    assert pa.concat_tables(rows).equals(table.select(["episode", "t"]))


@pytest.mark.parametrize(
    ("together", "wanted"), [(2, "(((01)(23))((45)6))"), (3, "((((01)2)((34)5))6)"), (8, "((((((01)2)3)4)5)6)")]
)
def test_a_reduction_has_one_order(together, wanted, monkeypatch):
    monkeypatch.setattr(summing, "TOGETHER", together)

    class Name:
        def __init__(self, text):
            self.text = text

        def add(self, other):
            return Name(f"({self.text}{other.text})")

    totals = set()
    for seed in range(5):
        spare = []
        reduction = summing.Reduction(spare)
        for k in np.random.default_rng(seed).permutation(7):
            reduction.put(int(k), Name(str(k)))
        totals.add(reduction.total().text)
        assert len(spare) == 6  # all but the first were added to another
    assert totals == {wanted}


def test_memory_of_sums_that_were_added_is_used_again(path, monkeypatch):
    """Eight parts or so in the memory of at most three, and the same sums as in new memory."""
    monkeypatch.setattr(cutting.Survey.parts, "__defaults__", (1 + len(pq.read_table(path)) // 8,))
    made, nothing = [], summing.nothing
    monkeypatch.setattr(summing, "nothing", lambda job: made.append(1) or nothing(job))
    monkeypatch.setattr(evaluating, "ROOM", Room())
    found = _evaluate(str(path), features="identity")
    assert 1 < len(made) <= 3
    made.clear()
    again = _evaluate(str(path), features="identity")
    assert not made
    monkeypatch.setattr(evaluating, "ROOM", Room())
    monkeypatch.setattr(evaluating, "Reduction", lambda spare: summing.Reduction())
    plain = _evaluate(str(path), features="identity")
    assert len(made) >= 7
    for one in (found, again):
        assert (one.value, one.interval) == (plain.value, plain.interval)


def test_an_answer_has_nothing_of_the_memory_that_the_next_one_uses(path, table, tmp_path, monkeypatch):
    monkeypatch.setattr(evaluating, "ROOM", Room())
    found = _evaluate(str(path), features="identity")
    before = pickle.dumps(found)
    assert found.resampled.size
    other = table.set_column(table.schema.get_field_index("reward"), "reward", pa.array(np.ones(len(table))))
    pq.write_table(other, tmp_path / "other.parquet")
    assert _evaluate(str(tmp_path / "other.parquet"), features="identity").value != found.value
    assert pickle.dumps(found) == before


def test_observations_that_are_asked_for_later_are_the_same(path, monkeypatch):
    found, asked, steps = _evaluate(str(path)), [], jobs.Reading.steps

    def at_once(self, *given, lazily=False):
        asked.append(lazily)
        return steps(self, *given)

    monkeypatch.setattr(jobs.Reading, "steps", at_once)
    plain = _evaluate(str(path))
    assert asked
    assert all(asked)  # else both were read at once
    assert (found.value, found.interval) == (plain.value, plain.interval)


def test_room_is_bounded_and_of_one_shape(monkeypatch):
    class Job:
        def __init__(self, n):
            self.n = n

    monkeypatch.setattr(rooms, "shapes_of", lambda job: {"products": (job.n,)})
    some = [summing.Sums({"products": np.zeros(n)}, np.zeros((2, 0)), {}) for n in (1000, 1000, 2000, 1000)]
    monkeypatch.setattr(rooms, "KEPT", 2.5 * some[0].arrays["products"].nbytes)
    room = Room()
    room.give(some)
    assert room.take(Job(1000)) == some[:2]  # more would be too much
    assert room.take(Job(1000)) == []  # whoever takes them has them alone
    room.give(some[2:3])
    assert room.take(Job(1000)) == []
    assert room.take(Job(2000)) == []  # what did not fit was let go


def test_a_target_may_be_a_column_and_several_are_evaluated(table, plain, tmp_path):
    half = np.full(len(table), 0.5)
    more = table.drop_columns("rho").append_column("behaviour", pa.array(half))
    more = more.append_column("pi_new", pa.array(half * table["rho"].to_numpy()))
    pq.write_table(more, tmp_path / "two.parquet", row_group_size=800)
    targets = {"new": "pi_new", "old": "behaviour"}
    found = _evaluate(str(tmp_path / "two.parquet"), target=targets, features="identity")
    assert found["new"].value == pytest.approx(plain.value, rel=1e-9)  # the same ratios as those in the log
    assert found["new"].interval == pytest.approx(plain.interval, rel=1e-9)
    memory = _evaluate(str(tmp_path / "two.parquet"), target="behaviour", features="identity", in_parts=False)
    assert found["old"].value == pytest.approx(memory.value, rel=1e-9)
    assert found["old"].diagnostics.on_policy is True


def test_lstd_takes_its_interval_from_refits(path):
    found = _evaluate(str(path), features="identity", algorithm="lstd", resamples=60)
    assert found.method == "lstd"
    assert len(found.resampled) == 60
    assert found.estimates[0].error == pytest.approx(found.diagnostics.sandwich_error, rel=0.35)


def test_what_a_sample_does_not_tell_is_unchecked(path, plain, monkeypatch):
    """Missing choices and rare surprises are looked for in a sample: what passes by its size alone does not pass."""
    assert plain.verdict == "usable"
    monkeypatch.setattr(fitting, "SAMPLE_ROWS", 300)
    monkeypatch.setattr(fitting, "FEWEST_SAMPLED", 20)
    found = _evaluate(str(path), features="identity")
    assert (found.verdict, found.diagnostics.undecided) == ("usable", None)
    with monkeypatch.context() as patched:  # between what the sample has and what the log would have
        patched.setattr(judging, "MET", 0.5 * found.diagnostics.surprises_met)
        rare = _evaluate(str(path), features="identity")
    assert rare.verdict == "unchecked"
    assert "rests on steps that were not looked at" in rare.reasons[0]
    monkeypatch.setattr(judging, "LACK", found.diagnostics.lacking + 1e-4)
    real = evaluating.decided

    def moving(*given):  # what is lacking could move the value
        decision = real(*given)
        return replace(decision, fit=replace(decision.fit, missed=1e9))

    monkeypatch.setattr(evaluating, "decided", moving)
    lacking = _evaluate(str(path), features="identity")
    assert lacking.verdict == "unchecked"
    assert "it may lack 1% or" in lacking.reasons[0]


def test_it_is_saved_shown_and_drawn(plain, tmp_path):
    again = gradtd.load_evaluation(plain.save(tmp_path / "x.npz"))
    assert again.to_dict() == plain.to_dict()
    assert plain.page(tmp_path / "x.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"algorithm": "td", "alpha": 0.1}, "is solved directly, got algorithm='td'"),
        ({"block": 5}, "block, lam, one_step and whiten=False are for logs"),
        ({"in_parts": False, "scheduler": "local:2"}, "a scheduler is for logs that are read in parts"),
        ({"behaviour": "estimate"}, "a behaviour is not estimated"),
        ({"target": np.ones(5)}, "must be the name of a column or a function"),
        ({"features": "tiles:tilings=8,tiles=40"}, "at most 1000 features"),
    ],
)
def test_what_needs_the_log_in_memory_is_refused(path, more, message):
    with pytest.raises(gradtd.InputError, match=message):
        _evaluate(str(path), **more)


def test_logs_that_cannot_be_read_in_parts_are_refused(table, tmp_path):
    with pytest.raises(gradtd.InputError, match="need a Parquet file"):
        _evaluate({"obs": [1.0]})
    pq.write_table(table.drop_columns(["episode", "terminated", "truncated"]), tmp_path / "none.parquet")
    with pytest.raises(gradtd.InputError, match="has no column of episodes"):
        _evaluate(str(tmp_path / "none.parquet"))
    with pytest.raises(gradtd.InputError, match="no file matches"):
        _evaluate(str(tmp_path / "*.pq"))
