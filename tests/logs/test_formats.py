"""The same log in every format, there and back; damaged files; memory."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradtd import evaluate, sample_log
from gradtd.core.checks import InputError
from gradtd.logs import read_log, write_log
from logs.test_read import assert_same_log, shuffled


def made(seed=0, steps=400, discrete=False, text=False):
    """A log of episodes of random length with every kind of end, as a dictionary of arrays."""
    rng = np.random.default_rng(seed)
    ends = np.r_[np.flatnonzero(rng.random(steps - 1) < 0.15), steps - 1]
    episode = np.searchsorted(ends, np.arange(steps))
    t = np.arange(steps) - np.r_[0, ends + 1][episode]
    last = np.isin(np.arange(steps), ends)
    over = rng.random(steps) < 0.5
    seen = rng.integers(0, 9, steps) if discrete else rng.standard_normal((steps, 3))
    after = np.roll(seen, -1, axis=0)
    after[last] = rng.integers(0, 9, last.sum()) if discrete else 7.5
    actions = rng.integers(0, 4, steps)
    return {
        "episode_id": episode,
        "t": t,
        "observation": seen,
        "action": np.array(["left", "right", "up", "down"])[actions] if text else actions,
        "reward": rng.standard_normal(steps),
        "terminated": last & over,
        "truncated": last & ~over,
        "behaviour_probability": rng.uniform(0.1, 1, steps),
        "target_probability": rng.uniform(0, 1, steps),
        "speed": rng.standard_normal(steps),
        "next_observation": after,
    }


def spread(table):
    """Two-dimensional columns as one column a number."""
    flat = {}
    for name, values in table.items():
        if np.ndim(values) == 2:
            flat |= {f"{name}_{k}": values[:, k] for k in range(values.shape[1])}
        else:
            flat[name] = values
    return flat


@pytest.mark.parametrize(("discrete", "text"), [(False, False), (True, True)])
def test_formats_agree(tmp_path, discrete, text):
    import pandas
    import polars

    raw = made(discrete=discrete, text=text)
    log = read_log(raw, keep="speed")
    flat = spread(raw)
    table = pa.table(flat)
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=70)
    pa.csv.write_csv(table, tmp_path / "log.csv")
    folder = tmp_path / "parts"
    folder.mkdir()
    for k, begin in enumerate(range(0, 400, 150)):
        pq.write_table(table.slice(begin, 150), folder / f"part-{k}.parquet")
    for name in ("_SUCCESS", ".hidden"):
        (folder / name).touch()
    nested = {k: pa.array(list(v)) if np.ndim(v) == 2 else v for k, v in raw.items()}
    pq.write_table(pa.table(nested), tmp_path / "lists.parquet")
    lists = {k: list(v) if np.ndim(v) == 2 else v for k, v in raw.items()}
    sources = [
        *(tmp_path / name for name in ("log.parquet", "log.csv", "parts", "lists.parquet")),
        *(pandas.DataFrame(lists), pandas.DataFrame(flat), polars.DataFrame(flat), polars.DataFrame(raw)),
        *(polars.DataFrame(flat).lazy(), flat, str(tmp_path / "log.parquet")),
        pandas.DataFrame(flat).astype({"action": "category", "episode_id": "category"}),
    ]
    for source in sources:
        other = read_log(source, keep="speed")
        assert_same_log(log, other)
        assert np.array_equal(log.extra["speed"], other.extra["speed"])


@pytest.mark.filterwarnings("ignore:`eval_env` is set to None", "ignore:env_spec is None")
@pytest.mark.parametrize("form", ["arrow", "hdf5"])
def test_minari_datasets(tmp_path, monkeypatch, form):
    minari = pytest.importorskip("minari")
    import gymnasium
    from minari.data_collector import EpisodeBuffer

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    raw = made(steps=60)
    log = read_log({name: raw[name] for name in raw if "probability" not in name})
    buffers = []
    for number in range(log.n_episodes):
        at = np.flatnonzero(raw["episode_id"] == number)
        buffers.append(
            EpisodeBuffer(
                id=number,
                observations=np.r_[raw["observation"][at], raw["next_observation"][at[-1:]]],
                actions=raw["action"][at],
                rewards=raw["reward"][at].tolist(),
                terminations=raw["terminated"][at].tolist(),
                truncations=raw["truncated"][at].tolist(),
                infos={},
            )
        )
    dataset = minari.create_dataset_from_buffers(
        "gradtd/test-v0",
        buffers,
        observation_space=gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float64),
        action_space=gymnasium.spaces.Discrete(4),
        data_format=form,
        algorithm_name="a",
        author="a",
        author_email="a",
        code_permalink="a",
        description="a",
    )
    for source in (dataset, "gradtd/test-v0"):
        found = read_log(source)
        assert found.name == "gradtd/test-v0"
        assert_same_log(log, found)
    with pytest.raises(InputError, match="Minari dataset 'gradtd/none-v0' cannot be opened"):
        read_log("gradtd/none-v0")


class Episode:
    """What Minari hands out, for spaces made of parts."""

    def __init__(self, number, observations, actions):
        self.id, self.observations, self.actions = number, observations, actions
        self.rewards = np.arange(len(actions), dtype=float)
        self.terminations = np.arange(len(actions)) == len(actions) - 1
        self.truncations = np.zeros(len(actions), bool)


class Dataset:
    class spec:
        dataset_id = "parts-v0"

    def __init__(self, *episodes):
        self.episodes = episodes

    def iterate_episodes(self):
        return iter(self.episodes)


def test_minari_spaces_of_parts_and_of_one_number():
    parts = {"b": np.arange(4.0), "a": (np.ones((4, 1, 2)), np.full(4, 7))}
    log = read_log(Dataset(Episode(0, parts, np.array([0, 1, 0]))))
    assert log.observations.tolist() == [[1, 1, 7, k] for k in range(4)]
    one = read_log(
        Dataset(Episode(1, np.array([3, 2]), np.array([[0.5]])), Episode(0, np.array([5, 6, 7]), np.ones((2, 1))))
    )
    assert one.observations.tolist() == [5, 6, 3, 7, 2]  # episodes in the order of their ids
    assert one.next_row.tolist() == [1, 3, 4]
    with pytest.raises(InputError, match="has no episodes"):
        read_log(Dataset())


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans(), st.sampled_from([".parquet", ".csv"]), st.booleans())
def test_a_log_written_is_read_back(tmp_path_factory, seed, discrete, text, ending, complete):
    raw = made(seed, 60, discrete, text)
    if not complete:  # drops steps, and leaves gaps
        kept = np.random.default_rng(seed).random(60) < 0.9
        kept[:3] = True
        raw = {name: values[kept] for name, values in raw.items() if name != "next_observation"}
    log = read_log(shuffled(raw, seed), keep="speed")
    path = write_log(log, tmp_path_factory.mktemp("log") / f"log{ending}")
    again = read_log(path, keep="speed")
    assert_same_log(log, again)
    assert np.array_equal(log.extra["speed"], again.extra["speed"])
    assert not list(path.parent.glob("*.part"))


def test_names_and_shapes_survive_writing(tmp_path):
    base = {"episode": [0, 0, 1], "reward": [1, 2, 3], "terminated": [0, 1, 1]}
    for source, columns in [
        ({"x": [1.0, 2.0, 4.0], "v": [0.0, 1.0, 2.0]}, {"observation": ["v", "x"]}),
        ({"obs": [1.0, 2.0, 4.0], "action": np.arange(6.0).reshape(3, 2)}, None),
        ({"s": [1, 2, 4], "action": [-1, 2, -1]}, {"observation": "s"}),
        ({"3": [1.0, 2.0, 4.0], "rho": [0, 1, 2]}, {"observation": "3"}),
    ]:
        log = read_log({**base, **source}, columns=columns)
        for ending in ("parquet", "csv"):
            assert_same_log(log, read_log(write_log(log, tmp_path / f"log.{ending}")))
    for path, sentence in [("log.npz", "ends in .parquet or .csv"), ("none/log.csv", "no folder")]:
        with pytest.raises(InputError, match=sentence):
            write_log(log, tmp_path / path)
    with pytest.raises(InputError, match="would be read back in another role"):
        write_log(read_log({**base, "obs": [1, 2, 3]}, keep="reward"), tmp_path / "log.csv")


def test_whole_numbers_that_turn_real_in_a_long_csv_file(tmp_path, monkeypatch):
    """Types come from the first block of the file; what comes later must not be lost or refused."""
    monkeypatch.setattr("gradtd.logs.files.BLOCK", 4096)
    n = 2000
    lines = [f"{k // 50},{k % 7 if k < n - 9 else 0.5},{k % 3},,{k % 50 == 49}" for k in range(n)]
    lines[-1] = lines[-1].replace(",,", ",2.5,")
    path = tmp_path / "long.csv"
    path.write_text("\n".join(["episode,obs,reward,next_obs,terminated", *lines]))
    log = read_log(path)
    assert log.observations.shape == (n + 1, 1)
    assert log.observations[-3:, 0].tolist() == [0.5, 0.5, 2.5]
    path.write_text(path.read_text().replace("0.5", "5").replace("2.5", "6"))
    assert read_log(path).observations.tolist()[-3:] == [5, 5, 6]
    big = 2**60 + 1  # too large for a float
    path.write_text(f"episode,obs,reward,terminated\n{big},1,1,1\n{big + 1},1,2,1\n")
    assert read_log(path).n_episodes == 2


def test_a_missing_value_is_not_a_zero_in_a_duplicate(tmp_path):
    table = {"episode": [0, 0, 0], "t": [0, 1, 1], "obs": [0.0, 1.0, 1.0], "reward": [1.0, 2.0, 2.0]}
    table |= {"terminated": [False, True, True], "next_obs": [1.0, 0.0, None]}
    pq.write_table(pa.table(table), tmp_path / "log.parquet")
    with pytest.raises(InputError, match="rows 1 and 2 have the same episode and t but differ"):
        read_log(tmp_path / "log.parquet", duplicates="drop")
    pq.write_table(pa.table({**table, "next_obs": [1.0, None, None]}), tmp_path / "log.parquet")
    assert len(read_log(tmp_path / "log.parquet", duplicates="drop")) == 2


def test_damaged_and_foreign_files(tmp_path):
    good = tmp_path / "good.parquet"
    pq.write_table(pa.table(spread(made())), good)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(good.read_bytes()[:-500])
    (tmp_path / "empty.parquet").touch()
    middle = bytearray(good.read_bytes())
    middle[200:4000] = bytes(3800)
    (tmp_path / "middle.parquet").write_bytes(bytes(middle))
    (tmp_path / "empty.csv").touch()
    (tmp_path / "header.csv").write_text("episode,obs,reward\n")
    (tmp_path / "text.csv").write_text("episode,obs,reward,terminated\n0,1,a,0\n0,2,b,1\n")
    (tmp_path / "ragged.csv").write_text("episode,obs,reward\n0,1,1\n0,2\n")
    pq.write_table(pa.table(spread(made())).slice(0, 0), tmp_path / "norows.parquet")
    for name in ("log.pkl", "log.npz", "log.xlsx"):
        (tmp_path / name).touch()
    (tmp_path / "nothing").mkdir()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "readme.txt").touch()
    (tmp_path / "unlike").mkdir()
    pq.write_table(pa.table({"obs": [1.0], "reward": [1.0]}), tmp_path / "unlike" / "a.parquet")
    pq.write_table(pa.table({"obs": [1.0]}), tmp_path / "unlike" / "b.parquet")
    for name, sentence in [
        ("absent.parquet", "there is no file or folder"),
        ("broken.parquet", "'broken.parquet' cannot be read as Parquet"),
        ("middle.parquet", "'middle.parquet' cannot be read as Parquet"),
        ("empty.parquet", "'empty.parquet' cannot be read as Parquet"),
        ("empty.csv", "'empty.csv' cannot be read as CSV"),
        ("header.csv", "'header.csv' has no rows"),
        ("norows.parquet", "'norows.parquet' has no rows"),
        ("text.csv", "'reward' must contain one number per row, got text"),
        ("ragged.csv", "'ragged.csv' cannot be read as CSV"),
        ("log.pkl", "does not load"),
        ("log.npz", "cannot be read as .npz; it may be damaged"),
        ("log.xlsx", r"gradtd.read_log\(pandas.read_excel\('log.xlsx'\)\)"),
        ("nothing", "has no Parquet file"),
        ("foreign", "has 'readme.txt'"),
        ("unlike", "'b.parquet' lacks the column 'reward'"),
    ]:
        with pytest.raises(InputError, match=sentence) as caught:
            read_log(tmp_path / name)
        assert str(caught.value).endswith(".")
        assert "\n" not in str(caught.value)


def test_damage_that_arrow_does_not_see_is_seen_by_the_checksums(tmp_path):
    """Every byte of the pages of a log of ours; without checksums most such logs are read, with other numbers."""
    path = write_log(sample_log("random_walk_tabular", 20), tmp_path / "log.parquet")
    content = path.read_bytes()
    wanted = read_log(path)
    rng = np.random.default_rng(0)
    for place in rng.integers(4, len(content) - 8, 150):
        damaged = bytearray(content)
        damaged[place] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            found = read_log(path)
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017
            continue
        for name in ("reward", "rho", "episode", "terminated", "observations"):  # it hit what nobody reads
            np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


def test_names_and_text_that_are_not_utf8_are_refused(tmp_path):
    table = {"episode": [0, 0], "obs": [1, 2], "reward": [1.0, 2.0], "policy": ["abcd", "abcd"]}
    pq.write_table(pa.table(table), tmp_path / "name.parquet", use_dictionary=False, compression="none")
    content = (tmp_path / "name.parquet").read_bytes()
    (tmp_path / "name.parquet").write_bytes(content.replace(b"reward", b"rew\xffrd"))
    with pytest.raises(InputError, match=r"'name.parquet' cannot be read as Parquet"):
        read_log(tmp_path / "name.parquet")
    (tmp_path / "text.parquet").write_bytes(content.replace(b"abcd", b"a\xffcd"))
    with pytest.raises(InputError, match=r"'text.parquet' cannot be read as Parquet"):
        read_log(tmp_path / "text.parquet", columns={"action": "policy"})
    (tmp_path / "name.csv").write_bytes(b'"obs\n\xa3",episode,reward\n1,0,1\n')
    with pytest.raises(InputError, match=r"'name.csv' cannot be read as CSV"):
        read_log(tmp_path / "name.csv")
    strange = tmp_path / os.fsdecode(b"log\xff.parquet")
    strange.write_bytes(content)
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        read_log(strange)


def test_missing_values_and_uneven_lists_are_refused(tmp_path):
    base = {"episode": [0, 0], "reward": [1.0, 2.0], "terminated": [False, True]}
    for extra, sentence in [
        (
            {"obs": [1, None]},
            "the observation lacks a value in row 1",
        ),
        ({"obs": [[1.0, 2.0], [3.0]]}, "lists in column 'obs' must have the same length, got 1, 2"),
        ({"obs": [1, 2], "reward": [None, 1.0]}, "'reward' has no value in row 0"),
        ({"obs": [1, 2], "action": ["a", None]}, "'action' has no value in row 1"),
        ({"obs": [1, 2], "next_obs": [2.0, 2.5]}, "observations are whole numbers, and 'next_obs' is not"),
        ({"obs": [1, 2], "next_obs": [2.0, 1e300]}, "observations are whole numbers, and 'next_obs' is not"),
    ]:
        pq.write_table(pa.table({**base, **extra}), tmp_path / "log.parquet")
        with pytest.raises(InputError, match=sentence):
            read_log(tmp_path / "log.parquet")


def test_numbers_beyond_whole_ones_make_a_column_of_real_numbers(tmp_path):
    """Text does not say its kind before it was all read."""
    path = tmp_path / "log.csv"
    path.write_text("episode,obs,next_obs,reward,terminated\n0,1,1e300,1.0,False\n0,2,1e300,2.0,True\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_log(path).observations.dtype == np.float64


def test_a_file_numpy_opened_is_a_dictionary_of_arrays_and_never_unpickled(tmp_path):
    arrays = {"observations": np.ones((4, 2)), "rewards": np.ones(4), "terminals": np.array([0, 1, 0, 1])}
    np.savez(tmp_path / "good.npz", **arrays)
    np.savez(tmp_path / "bad.npz", **{**arrays, "rewards": np.array([1, "a", None, 2], object)})
    with np.load(tmp_path / "good.npz") as opened:
        assert_same_log(read_log(opened), read_log(arrays))
    with (
        np.load(tmp_path / "bad.npz") as opened,
        pytest.raises(InputError, match="'rewards' must be an array of numbers"),
    ):
        read_log(opened)


def test_progress_is_reported(tmp_path):
    pq.write_table(pa.table(spread(made(steps=40_000))), tmp_path / "log.parquet")
    heard = []
    read_log(tmp_path / "log.parquet", progress=lambda done, total: heard.append((done, total)))
    assert heard == sorted(heard)
    assert len(heard) >= 4
    assert heard[-1] == (80_000, 80_000)


MEASURE = """
import sys
import warnings
from gradtd.logs import read_log

def peak():  # getrusage would count what the parent process used before it started this one
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])

read_log(sys.argv[1])
before = peak()
log = read_log(sys.argv[2])
print(peak() - before, log.observations.nbytes // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize("mixed", [False, True])
def test_memory_is_about_that_of_the_observations(tmp_path, mixed):
    """Also where rows are out of order: they are written straight to their place."""
    n, k = 200_000, 80
    row = np.arange(n)
    for name, rows in (("small", 2000), ("large", n)):
        order = np.random.default_rng(1).permutation(rows) if mixed else row[:rows]
        table = {"episode": row[:rows] // 100, "t": row[:rows] % 100, "reward": np.ones(rows)}
        table |= {f"obs_{i}": np.random.default_rng(i).random(rows) for i in range(k)}
        columns = pa.table({key: values[order] for key, values in table.items()})
        # Arrow holds a page of every column: small pages, so that they do not blur what is measured
        options = {"compression": "none", "use_dictionary": False, "data_page_size": 1 << 16}
        pq.write_table(columns, tmp_path / f"{name}.parquet", **options)
    files = [str(tmp_path / f"{name}.parquet") for name in ("small", "large")]
    command = [sys.executable, "-c", MEASURE, *files]
    path = {"PYTHONPATH": str(Path(__file__).parents[2] / "src"), "PATH": ""}
    peak, observations = map(int, subprocess.check_output(command, text=True, env=path).split())
    assert observations == n * k * 8 // 1024
    assert peak < 1.7 * observations  # a second copy, or the whole file, would make it more than 2


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("episode;obs;reward\n0;0,5;1\n", "the header of 'log.csv' is separated by semicolons: save"),
        ("episode\tobs\treward\n0\t0.5\t1\n", "the header of 'log.csv' is separated by tabs: save"),
        ("episode,obs.\u00e9,reward\n0,0.5,1\n", "the header of 'log.csv' is not UTF-8: save"),
    ],
)
def test_other_dialects_of_csv_are_named(content, sentence, tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError, match=sentence):
        read_log(path)


def test_half_precision_is_read_in_parts_as_in_memory(tmp_path):
    """Statistics of a file have numbers of half precision as bytes."""
    rng = np.random.default_rng(0)
    n = 120
    table = {"episode": np.repeat(np.arange(30), 4), "reward": rng.normal(size=n), "rho": rng.choice([0.5, 1.5], n)}
    table |= {f"obs_{k}": (rng.integers(-40, 40, n) / 8).astype(np.float16) for k in range(2)}
    table["terminated"] = np.arange(n) % 4 == 3
    pq.write_table(pa.table(table), tmp_path / "log.parquet", row_group_size=20)
    asked = {"gamma": 0.9, "features": "identity", "threads": 1, "progress": False}
    one, other = (evaluate(tmp_path / "log.parquet", in_parts=way, **asked) for way in (True, False))
    assert one.value == pytest.approx(other.value, rel=1e-9)


@pytest.mark.parametrize("pattern", ["", "part-*.parquet"])
def test_files_are_read_by_the_numbers_in_their_names(tmp_path, pattern):
    """part-10 is not read between part-1 and part-2: without t, that would put other rows after one another."""
    rows = np.arange(48)
    for k in range(12):
        one = rows[4 * k : 4 * k + 4]
        columns = {"obs": one % 5, "reward": one.astype(float), "done": one % 6 == 5, "rho": np.ones(4)}
        pq.write_table(pa.table(columns), tmp_path / f"part-{k}.parquet")
    assert np.array_equal(read_log(tmp_path / pattern).reward, rows)
