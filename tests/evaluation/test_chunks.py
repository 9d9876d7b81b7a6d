"""Which rows are an episode: files that number their episodes anew, single episodes, and no column of episodes."""

import itertools
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gradtd
from gradtd.cli.messages import typed
from gradtd.evaluation.chunks import episodes_of_sample
from gradtd.logs import parts as cutting
from gradtd.logs.files import ParquetTable

STEPS = 6
ANEW = (
    r"some episode ids occur in several files of 'log' \(9 of them\), and {}: the files seem to reuse .* numbers\. Give"
)


def rows(seed, *, first=0, episodes=9, clock=0, without=()):
    """Episodes of six steps."""
    rng, n = np.random.default_rng(seed), episodes * STEPS
    t = np.tile(np.arange(STEPS), episodes)
    columns = {
        **{"episode": first + np.repeat(np.arange(episodes), STEPS), "t": t + clock, "reward": rng.normal(size=n)},
        **{"terminated": t == STEPS - 1, "rho": rng.choice([0.5, 1.5], n)},
        **{"obs_0": rng.normal(size=n), "obs_1": rng.normal(size=n)},
    }
    return pa.table({name: values for name, values in columns.items() if name not in without})


def written(folder, *tables):
    """A folder with a file for each table."""
    (folder / "log").mkdir()
    for k, table in enumerate(tables):
        pq.write_table(table, folder / "log" / f"{k}.parquet", row_group_size=20)
    return str(folder / "log")


def evaluate(log, **more):
    machine = gradtd.Machine(in_parts=True, threads=1)
    return gradtd.evaluate(
        log, **({"gamma": 0.9, "features": "identity", "progress": False, "machine": machine} | more)
    )


@pytest.mark.parametrize(
    ("later", "more", "message"),
    [
        ({}, {}, ANEW.format("rows of episode . have the same t")),
        ({}, {"duplicates": "drop"}, ANEW.format("rows of episode . have the same t")),
        ({"clock": 100}, {}, ANEW.format("episode . continues after its end")),
        ({}, {"in_parts": False}, "have the same episode and t .* If several files reuse episode numbers, give every"),
    ],
)
def test_files_that_number_their_episodes_anew_are_told_so(tmp_path, later, more, message):
    log = written(tmp_path, rows(0), rows(1, **later), rows(2, first=30))
    with pytest.raises(gradtd.InputError, match=message) as refused:
        evaluate(log, **more)
    assert ('duplicates="drop"' in str(refused.value)) == ("duplicates" not in more)


def test_a_stream_of_such_files_is_refused_alike(tmp_path):
    log = written(tmp_path, rows(0), rows(1))
    with pytest.raises(gradtd.InputError, match="the files seem to reuse episode numbers"):
        gradtd.store_stream(log, tmp_path / "stream", gamma=0.9, features="identity")


def test_without_t_the_sentence_says_which_of_two_it_may_be(tmp_path):
    log = written(tmp_path, rows(0, without=["t"]), rows(1, without=["t"]))
    with pytest.raises(gradtd.InputError, match=r"several files \(9 of them\)\. If files .* add a column t"):
        evaluate(log)
    with pytest.raises(gradtd.InputError, match=r"columns=\{'t': \.\.\.\}; if two episodes share"):
        evaluate(log, machine=gradtd.Machine(in_parts=False))
    scattered = pq.read_table(log).take(np.arange(2 * 9 * STEPS)[::-1] % 7)
    pq.write_table(scattered, tmp_path / "one.parquet")
    with pytest.raises(gradtd.InputError, match="some episodes continue later: add a column t"):
        evaluate(str(tmp_path / "one.parquet"))


def test_ids_in_several_files_that_were_taken_as_one_episode_are_noted(tmp_path):
    """Nothing contradicts it: no row is an end, and t goes on."""
    log = written(tmp_path, *(rows(k, clock=STEPS * k, without=["terminated"]) for k in range(2)))
    assert any("Some episode ids occur in several files (9 of them)" in note for note in evaluate(log).notes)


def test_rows_that_clash_within_a_file_are_told_as_before(tmp_path):
    log = written(tmp_path, pa.concat_tables([rows(0), rows(1)]), rows(2, first=30))
    with pytest.raises(gradtd.InputError, match=r"have the same episode and t .* this row belongs to episode"):
        evaluate(log)


@pytest.mark.parametrize(("files", "message"), [(1, r"\(6 rows\)\. The"), (2, r"\(12 rows\) in 2 files: if each")])
def test_a_single_episode_may_be_several_of_one_number(tmp_path, files, message):
    log = written(tmp_path, *(rows(k, episodes=1, clock=STEPS * k) for k in range(files)))
    with pytest.raises(gradtd.InputError, match=message) as refused:
        evaluate(log)
    assert "use --in-memory and --block-length T0" in typed(str(refused.value))


def test_ids_that_several_files_share_are_counted_once(tmp_path):
    written(tmp_path, rows(0), rows(1, first=4), rows(2, first=7), rows(3, first=99))
    table = ParquetTable("log", sorted((tmp_path / "log").iterdir()))
    assert cutting.survey(table, "episode").shared() == 9  # 4 to 12


def _unnumbered(folder, some_episodes, without=(), unmarked=None, at=None):
    """A log without a column of episodes, in three files; its last episode does not end.

    The first file ends inside of an episode, or ``at`` the end of one, and so does the second. The end of an episode
    may be ``unmarked``. Returns the folder and the last rows of episodes.
    """
    table = some_episodes(0, 60)
    lengths = np.unique(table["episode"].to_numpy(), return_counts=True)[1]
    last = np.cumsum(lengths) - 1
    long = np.flatnonzero(lengths > 5)
    cuts = [0, int(last[long[5]]) - 2 if at is None else int(last[at]) + 1, int(last[long[20]]) - 2, len(table) - 1]
    table = table.drop_columns("episode").append_column("t", pa.array(np.concatenate([np.arange(n) for n in lengths])))
    for name in ("terminated", "truncated"):
        marked = table[name].to_numpy() & (np.arange(len(table)) != (-1 if unmarked is None else last[unmarked]))
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(marked))
    table = table.drop_columns(list(without))
    return written(folder, *(table.slice(a, b - a) for a, b in itertools.pairwise(cuts))), last


@pytest.mark.parametrize("features", ["identity", "one-hot"])
def test_without_a_column_episodes_are_cut_after_their_ends_as_in_memory(
    tmp_path, some_episodes, monkeypatch, features
):
    monkeypatch.setattr(cutting, "BATCH", 50)
    monkeypatch.setattr(cutting, "FEWEST_ROWS", 50)
    monkeypatch.setattr(cutting, "ROWS_OF_A_PART", 200)
    log, _ = _unnumbered(tmp_path, some_episodes)
    if features == "one-hot":
        for file in (tmp_path / "log").iterdir():
            rows = pq.read_table(file)
            state = pa.array((rows["obs_0"].to_numpy() > 0).astype(int))
            pq.write_table(rows.drop_columns(["obs_0", "obs_1"]).append_column("obs", state), file)
    ours, memory = (
        evaluate(log, features=features, machine=gradtd.Machine(in_parts=how, threads=1)) for how in (True, False)
    )
    assert ours.value == pytest.approx(memory.value, rel=1e-9)
    assert (ours.episodes, ours.steps) == (memory.episodes, memory.steps)
    assert ours.diagnostics.truncated == memory.diagnostics.truncated > 0
    assert any("there is no episode column: episodes were split after rows" in note for note in ours.notes)
    assert any("so the interval depends on that order" in note for note in ours.notes)
    assert any("2 episodes continued in the next file" in note for note in ours.notes)
    assert any(note.startswith("Episodes without an end in the log") and note.endswith(": 1.") for note in memory.notes)
    stored = gradtd.store_stream(log, tmp_path / "stream", gamma=0.9, features=features)
    whole = gradtd.log_stream(log, gamma=0.9, features=features)
    assert stored.steps["episode"].tolist() == whole.steps["episode"].tolist()
    assert stored.steps["reward"].tolist() == whole.steps["reward"].tolist()


def test_ids_may_be_left_out_where_files_number_episodes_anew(tmp_path):
    log = written(tmp_path, rows(0), rows(1), rows(2))
    assert evaluate(log, log_format=gradtd.LogFormat(columns={"episode": None})).episodes == 27


@pytest.mark.parametrize("at", [None, 12])
def test_an_end_that_is_not_marked_is_seen_where_t_falls(tmp_path, some_episodes, at):
    """Within a file, and from one to the next."""
    log, last = _unnumbered(tmp_path, some_episodes, unmarked=12, at=at)
    for how in (True, False):
        with pytest.raises(gradtd.InputError, match=f"0 at row {last[12] + 1}, but row {last[12]} is neither termin"):
            evaluate(log, machine=gradtd.Machine(in_parts=how, threads=1))


def test_what_does_not_tell_where_episodes_end_is_refused(tmp_path, some_episodes):
    log, _ = _unnumbered(tmp_path, some_episodes, without=["terminated", "truncated"])
    with pytest.raises(gradtd.InputError, match="neither an episode column nor a terminated or truncated column"):
        evaluate(log)
    (tmp_path / "two").mkdir()
    log, last = _unnumbered(tmp_path / "two", some_episodes, at=12)
    with pytest.raises(gradtd.InputError, match="a checkpoint needs an episode column"):
        evaluate(log, machine=gradtd.Machine(checkpoint=tmp_path / "sums"))
    file = tmp_path / "two" / "log" / "1.parquet"
    table = pq.read_table(file)
    flags = pa.array([None, *table["truncated"].to_pylist()[1:]])
    pq.write_table(table.set_column(table.schema.get_field_index("truncated"), "truncated", flags), file)
    with pytest.raises(
        gradtd.InputError, match=rf"'truncated' has no .* row 0.*Row 0 there is row {last[12] + 1} of the log"
    ):
        evaluate(log)


@pytest.mark.parametrize(("rows", "episodes", "wanted"), [(10**6, 10**5, 409), (10**6, 100, 32), (10**6, 10**6, 4096)])
def test_a_sample_has_some_thousand_rows_and_never_few_episodes(rows, episodes, wanted):
    assert episodes_of_sample(SimpleNamespace(rows=rows, episodes=episodes)) == wanted
