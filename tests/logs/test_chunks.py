"""A log read at once and in chunks of whole episodes is the same log: every field of every step, and the notes."""

import itertools
import pickle
from dataclasses import replace
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest

from gradtd.core.checks import RowError
from gradtd.logs import ratios, read_log
from gradtd.logs.files import ParquetTable
from gradtd.logs.log import merge_notes
from gradtd.logs.parts import survey
from gradtd.logs.read import EPISODE, LogReader
from gradtd.logs.sanity_checks import ends_marked
from gradtd.logs.steps import NothingFollows

INTEGERS = ("int8", "int16", "uint8", "int32", "int64")
REALS = ("float", "double")
TEXTS = ("string", "large_string", pa.dictionary(pa.int8(), pa.string()))
TIMES = {
    "count": (lambda episode, t: t, INTEGERS),
    "stride": (lambda episode, t: 4 * t, INTEGERS),
    "floats": (lambda episode, t: t * 1.0, REALS),
    "clock": (lambda episode, t: t * 0.5, REALS),
    "moments": (
        lambda episode, t: np.datetime64("2024-03-01", "ms") + 100_000 * episode + 1000 * t,
        ("timestamp[ms]", "timestamp[us]", pa.timestamp("ns", "UTC")),
    ),
}
ACTIONS = {
    "numbers": (lambda rng, n: rng.integers(0, 4, n), (*INTEGERS, "double")),
    "negative": (lambda rng, n: rng.integers(-2, 3, n), ("int8", "int64", "double")),
    "real": (lambda rng, n: np.where(rng.random(n) < 0.9, rng.integers(0, 3, n), 0.5), REALS),
    "text": (lambda rng, n: rng.choice(["left", "right", "up", "down"], n, p=[0.5, 0.3, 0.15, 0.05]), TEXTS),
    "truth": (lambda rng, n: rng.random(n) < 0.5, ("bool",)),
}
ENDS = (("terminated", "truncated"), ("terminated",), ("truncated",), ("done",), ("done", "truncated"), ())


def random_log(rng, copies=True):
    """Arrow columns of a small log with what real ones have, and the types that files may have for each of them.

    Gaps, cuts, copies, missing next observations, single rows, rows out of order inside their episode.
    """
    lengths = rng.integers(1, 7, rng.integers(1, 9))
    episode = np.repeat(np.cumsum(rng.integers(1, 4, len(lengths))), lengths)
    t = np.concatenate([np.arange(n) for n in lengths])
    n, last = len(t), np.append(episode[1:] != episode[:-1], True)
    cut = np.isin(episode, rng.choice(episode, 2))
    time, time_types = TIMES[rng.choice([*TIMES])]
    act, action_types = ACTIONS[rng.choice([*ACTIONS])]
    columns = {"episode": (episode, INTEGERS), "t": (time(episode, t), time_types)}
    columns["reward"] = (rng.integers(-3, 4, n) / 4, (*REALS, pa.decimal128(20, 12)))
    columns["action"] = (act(rng, n), action_types)
    columns["action_prob"] = (rng.integers(1, 5, n) / 4, REALS)
    seen = (
        {"obs": rng.integers(0, 5, n)}
        if rng.random() < 0.5
        else {"obs_0": rng.random(n), "obs_1": rng.integers(0, 2, n)}
    )
    columns |= {name: (values, INTEGERS if values.dtype.kind == "i" else ("double",)) for name, values in seen.items()}
    marks = {"terminated": last & ~cut, "truncated": last & cut, "done": last}
    columns |= {name: (marks[name], ("bool",)) for name in ENDS[rng.integers(len(ENDS))]}
    mine = (
        rng.choice([-2.0, -0.5, 0.0], n) if rng.random() < 0.5 else rng.choice([-0.5, 0.0, 0.25], n, p=[0.1, 0.8, 0.1])
    )
    columns["mine"] = (mine, REALS)
    arrays = {name: (pa.array(values), types) for name, (values, types) in columns.items()}
    if rng.random() < 0.5:
        missing = last & (rng.random(n) < 0.5)
        for name, values in seen.items():
            after = np.where(rng.random(n) < 0.1, values, np.roll(values, -1))
            arrays[f"next_{name}"] = (pa.array(after, mask=missing), columns[name][1])
    rows = np.flatnonzero(rng.random(n) < 0.8) if rng.random() < 0.5 else np.arange(n)
    rows = rows if len(rows) else np.arange(n)
    if copies and rng.random() < 0.3:
        rows = np.sort(np.r_[rows, rng.choice(rows, 2)])  # written twice
    if rng.random() < 0.5:
        rows = rows[np.lexsort((rng.random(len(rows)), episode[rows]))]
    return {name: (array.take(rows), types) for name, (array, types) in arrays.items()}


def write_files(rng, columns, folder):
    """The log in one to three files, with types and an order of columns of their own."""
    folder.mkdir(exist_ok=True)
    n = len(columns["t"][0])
    edges = np.unique(np.r_[0, rng.integers(0, n + 1, rng.integers(0, 3)), n])
    for a, b in itertools.pairwise(edges.tolist()):
        table = {}
        for name in rng.permutation([*columns]).tolist():
            array, types = columns[name]
            table[name] = array.slice(a, b - a).cast(types[rng.integers(len(types))])
        pq.write_table(pa.table(table), folder / f"{a:04d}.parquet", row_group_size=int(rng.integers(1, 20)))
    return ParquetTable(folder.name, sorted(folder.iterdir()))


def read_chunks(table, reader, rows, told="episode"):
    """Logs of the chunks of a table, the ids of the episodes of their steps, and all notes."""
    reader, seen = reader.for_chunks(table.kinds), survey(table, told)
    parts = seen.parts(3 * rows)
    found = [reader.scan(*chunk[:2]) for part in parts for chunk in part.chunks(reader.scanned(), rows)]
    facts = reduce(lambda one, other: one.merge(other), found)
    reader = pickle.loads(pickle.dumps(replace(reader, facts=facts)))  # workers get it pickled
    pieces, notes, columns = [], [], [*reader.needed(table.kinds), "episode"]
    for part in parts:
        for chunk, begins, _ in part.chunks(columns, rows):
            try:
                log = reader.read_chunk(chunk, begins, table.name)
            except NothingFollows as nothing:
                notes.extend(nothing.notes)
                continue
            pieces.append((log, chunk["episode"].to_numpy()[begins[:-1]][log.extra[EPISODE].astype(np.int64)]))
            notes.extend(log.notes)
    return pieces, merge_notes(notes), reader


def assert_same(whole, ids, pieces):
    """Step by step: rows, next rows, rewards, ends, episodes, actions and what else a log has."""
    logs = [log for log, _ in pieces]
    np.testing.assert_array_equal(np.concatenate([of for _, of in pieces]), ids)
    pairs = {name: (getattr(whole, name), [getattr(log, name) for log in logs]) for name in FIELDS}
    pairs["mine"] = whole.extra["mine"], [log.extra["mine"] for log in logs]
    for rows in ("row", "next_row"):
        pairs[rows] = whole.observations[getattr(whole, rows)], [log.observations[getattr(log, rows)] for log in logs]
    for name, (mine, theirs) in pairs.items():
        together = np.concatenate(theirs)
        assert mine.dtype == together.dtype, name
        np.testing.assert_array_equal(mine, together, err_msg=name)
    for log in logs:
        for name in ("action_labels", "observation_names", "discrete_actions", "of_every_action"):
            assert getattr(log, name) == getattr(whole, name), name
    if whole.discrete_actions:
        every = np.concatenate([ratios(log, "uniform").rho for log in logs])
        np.testing.assert_array_equal(ratios(whole, "uniform").rho, every)


FIELDS = ("reward", "terminated", "truncated", "action", "behaviour")


@pytest.mark.parametrize("seeds", [range(80), pytest.param(range(80, 250), marks=pytest.mark.slow)])
def test_chunks_of_random_logs_are_the_log(tmp_path, seeds):
    same = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        columns = random_log(rng)
        table = write_files(rng, columns, tmp_path / str(seed))
        how = {"keep": ["mine"], "duplicates": "drop", "log_probabilities": rng.choice(["refuse", "convert"]).item()}
        rows = int(rng.integers(1, 15))
        try:
            whole = read_log(tmp_path / str(seed), **how)
        except NothingFollows:
            assert read_chunks(table, LogReader(**how), rows)[0] == [], seed
            continue
        pieces, notes, _ = read_chunks(table, LogReader(**how), rows)
        source = np.arange(len(whole)) if whole.given is None else whole.given[: len(whole)]
        assert_same(whole, columns["episode"][0].to_numpy()[source], pieces)
        assert set(notes) == set(whole.notes), seed
        same += 1
    assert same > 0.8 * len(seeds)


BAD = {
    "reward": np.nan,
    "action_prob": 1.5,
    "obs": None,
    "obs_0": np.inf,
    "t": None,
    "terminated": None,
    "truncated": None,
    "mine": np.nan,
    "action": None,
}


def test_a_bad_row_is_refused_both_ways_and_carried_as_data(tmp_path):
    seen = set()
    for seed in range(80):
        rng = np.random.default_rng(seed)
        columns = random_log(rng, copies=False)
        name = rng.choice([name for name in BAD if name in columns]).item()
        array, types = columns[name]
        bad = int(rng.integers(len(array)))
        mask = np.arange(len(array)) == bad
        columns[name] = (pa.compute.if_else(pa.array(mask), pa.scalar(BAD[name], array.type), array), types)
        columns["reward"] = (columns["reward"][0], REALS)  # a decimal holds no NaN
        folder = tmp_path / str(seed)
        table, how = write_files(rng, columns, folder), {"keep": ["mine"], "duplicates": "drop"}
        with pytest.raises((RowError, NothingFollows)) as memory:
            read_log(folder, **how)
        if isinstance(memory.value, NothingFollows):
            continue
        with pytest.raises(RowError) as parts:
            read_chunks(table, LogReader(**how), int(rng.integers(1, 15)))
        assert memory.value.row == bad, seed
        assert f"row {bad}" in str(memory.value)
        assert pickle.loads(pickle.dumps(parts.value)).row == parts.value.row <= bad
        assert str(parts.value).replace(f"row {parts.value.row}", f"row {bad}") == str(memory.value), seed
        seen.add(name)
    assert seen == set(BAD)


@pytest.mark.parametrize("ends", [("terminated", "truncated"), ("truncated",), ("terminated",)])
@pytest.mark.parametrize("marked", [0, 1, 9, 10])
def test_whether_ends_are_known_is_decided_by_counts_of_all_chunks(tmp_path, ends, marked):
    episode, t = np.repeat(np.arange(10), 3), np.tile(np.arange(3), 10)
    marks = (t == 2) & (episode < marked)
    columns = {"episode": episode, "t": t, "obs": t, "reward": t, ends[0]: marks} | dict.fromkeys(
        ends[1:], marks & False
    )
    pq.write_table(pa.table(columns), tmp_path / "log.parquet", row_group_size=6)
    table = ParquetTable("log", [tmp_path / "log.parquet"])
    pieces, _, reader = read_chunks(table, LogReader(keep=["obs"]), 6)
    logs = [log for log, _ in pieces]
    assert len(logs) == 5
    unmarked, episodes = sum(log.unmarked for log in logs), sum(log.n_episodes for log in logs)
    assert ends_marked(reader.roles, unmarked, episodes) == read_log(tmp_path / "log.parquet").ends_known


def test_one_probability_of_a_policy_is_known_for_what_it_is_in_chunks(tmp_path):
    columns = {"episode": [0, 0, 1, 1], "obs": [0, 1, 0, 1], "reward": [0, 1, 0, 1], "terminated": [0, 1, 0, 1]}
    columns |= {"action": [0, 1, 0, 1], "pi_0": [0.25, 0.5, 0.75, 1.0], "pi_1": [0.75, 0.5, 0.25, 0.0]}
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    pieces, _, _ = read_chunks(ParquetTable("log", [tmp_path / "log.parquet"]), LogReader(keep=["pi_0"]), 2)
    assert [log.of_every_action for log, _ in pieces] == [("pi_0",), ("pi_0",)]


def test_rows_that_stand_alone_are_chunks_too(tmp_path):
    columns = {"obs": [0, 1, 0, 1, 1], "reward": [0.0, 1.0, 0.0, 1.0, 2.0], "action": [0, 1, 0, 1, 1]}
    pq.write_table(pa.table(columns), tmp_path / "log.parquet", row_group_size=2)
    table = ParquetTable("log", [tmp_path / "log.parquet"])
    reader = LogReader().for_chunks(table.kinds)
    seen = survey(table, reader.roles)
    assert seen.episodes == 5
    whole, rewards = read_log(tmp_path / "log.parquet"), []
    for part in seen.parts(3):
        for rows, begins, _ in part.chunks(reader.needed(table.kinds), 2):
            log = reader.read_chunk(rows, begins, "log")
            assert (log.terminated.all(), log.rows_alone, log.notes) == (True, True, whole.notes)
            rewards.extend(log.reward)
    assert rewards == whole.reward.tolist()
