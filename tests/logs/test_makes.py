"""Logs of many makes, each typed as a stranger would: the same steps come out of all of them."""

import gzip
import json
from collections import namedtuple
from collections.abc import Mapping
from types import SimpleNamespace

import numpy as np
import pytest

from gradtd.core.checks import InputError
from gradtd.logs import read_log
from logs.test_read import assert_same_log

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

LENGTHS = (4, 3, 5)
CUT = 1  # the second episode was cut off, the others terminated


def steps():
    """Twelve steps of three episodes: rows, with everything said."""
    rng = np.random.default_rng(3)
    rows = []
    for number, length in enumerate(LENGTHS):
        seen = rng.normal(size=(length + 1, 2))
        for t in range(length):
            last = t == length - 1
            rows.append(
                {
                    "episode": number,
                    "t": t,
                    "obs": seen[t].tolist(),
                    "action": int(rng.integers(3)),
                    "reward": float(rng.normal()),
                    "next_obs": seen[t + 1].tolist(),
                    "terminated": bool(last and number != CUT),
                    "truncated": bool(last and number == CUT),
                }
            )
    return rows


def columns(rows=None, **names):
    made = {name: np.array([row[name] for row in rows or steps()]) for name in (rows or steps())[0]}
    return {names.get(name, name): values for name, values in made.items()}


WANTED = read_log(columns())
OBSERVED = {k: WANTED.observations[WANTED.row][WANTED.episode == k] for k in range(3)}


def by_episode(name):
    return [columns()[name][columns()["episode"] == k] for k in range(len(LENGTHS))]


def same(log, ends=True):
    """The same steps; next observations of ends may be missing where a make does not keep them."""
    if ends:
        assert_same_log(WANTED, log)
    else:
        kept = len(WANTED) - 1  # the last row of the episode that was cut off has nothing after it
        assert (len(log), log.n_episodes) == (kept, 3)
        assert np.array_equal(np.sort(log.reward), np.sort(np.delete(WANTED.reward, 6)))


def episodes(**more):
    """One dictionary per episode, with one observation more than rewards."""
    for k, seen in enumerate(by_episode("obs")):
        after = by_episode("next_obs")[k][-1:]
        yield {
            "observations": np.r_[seen, after],
            "actions": by_episode("action")[k],
            "rewards": by_episode("reward")[k],
            "terminations": by_episode("terminated")[k],
            "truncations": by_episode("truncated")[k],
        } | more


def test_a_list_of_dictionaries():
    same(read_log(steps()))


def test_named_tuples_and_rows_that_lack_a_key():
    Step = namedtuple("Step", list(steps()[0]))  # noqa: PYI024
    same(read_log([Step(**row) for row in steps()]))
    lacking = [{k: v for k, v in row.items() if k != "next_obs" or row["truncated"]} for row in steps()]
    log = read_log(lacking)
    assert np.array_equal(log.observations[log.next_row[6]], WANTED.observations[WANTED.next_row[6]])
    assert len(log) == 12


def test_tuples_have_no_names():
    with pytest.raises(InputError, match=r"without field names: give each entry a name first: \[dict\(zip"):
        read_log([[(0, 1, 0.5, 1, False)], [(0, 1, 0.5, 1, True)]])


def test_episodes_as_dictionaries_lists_and_by_name():
    same(read_log(list(episodes())))
    same(read_log({f"episode_{k}": one for k, one in enumerate(episodes())}))
    same(read_log({"episodes": list(episodes())}))
    rows = steps()
    for row in rows:
        del row["episode"]
    ends = np.cumsum(LENGTHS)
    same(read_log([rows[: ends[0]], rows[ends[0] : ends[1]], rows[ends[1] :]]))


def test_objects_that_are_episodes():
    same(read_log([SimpleNamespace(id=k, **one) for k, one in enumerate(episodes())]))


def test_a_d3rlpy_dataset():
    """Its episodes have no observation after the last, and one flag for the whole."""
    made = [
        SimpleNamespace(observations=o, actions=a[:, None], rewards=r[:, None], terminated=k != CUT)
        for k, (o, a, r) in enumerate(zip(by_episode("obs"), by_episode("action"), by_episode("reward"), strict=True))
    ]
    log = read_log(SimpleNamespace(episodes=made))
    same(log, ends=False)
    assert log.ends_known


def test_episodes_whose_parts_do_not_fit_are_named():
    bad = list(episodes())
    bad[1]["actions"] = bad[1]["actions"][:-1]
    with pytest.raises(InputError, match=r"episode 1 has 3 rewards and 2 entries of 'actions': give the same number"):
        read_log(bad)
    bad = list(episodes())
    del bad[2]["terminations"]
    with pytest.raises(InputError, match=r"episode 2 lacks 'terminations'"):
        read_log(bad)


class Tensor:
    """What a tensor of torch can do."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def detach(self):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return self.values


class TensorDict(Mapping):
    """As the real one: a mapping, but its rows are what it iterates over."""

    batch_size = (12,)

    def __iter__(self):
        return iter([{"observation": 0.0}] * 12)

    def __len__(self):
        return 12

    def __getitem__(self, key):
        raise TypeError("a row is no key")

    def to_dict(self):
        table = {name: Tensor(values) for name, values in columns().items()}
        after = {"observation": table.pop("next_obs"), "reward": Tensor(columns()["reward"][:, None])}
        after |= {name: Tensor(columns()[name][:, None]) for name in ("terminated", "truncated")}
        after["done"] = Tensor((columns()["terminated"] | columns()["truncated"])[:, None])
        kept = {"observation": table["obs"], "action": table["action"], "episode": table["episode"], "t": table["t"]}
        return kept | {"next": after}


class Environments(TensorDict):
    """Two environments of six steps each, one after the other."""

    batch_size = (2, 6)

    def to_dict(self):
        def apart(value):
            return Tensor(value.values.reshape(2, 6, *value.values.shape[1:]))

        kept = super().to_dict()
        after = {name: apart(value) for name, value in kept.pop("next").items()}
        return {name: apart(value) for name, value in kept.items()} | {"next": after}


class Ring:
    """A replay buffer of TorchRL that has gone round: its oldest row is the fourth."""

    storage, writer = None, type("Writer", (), {"_cursor": 3})

    def __len__(self):
        return 12

    def extend(self):
        pass

    sample = extend

    def __getitem__(self, rows):
        turned = np.roll(np.arange(12), 3)[rows]

        def some(value):
            return Tensor(value.values[turned])

        part, kept = TensorDict(), TensorDict().to_dict()
        after = {name: some(value) for name, value in kept.pop("next").items()}
        part.to_dict = lambda: {name: some(value) for name, value in kept.items()} | {"next": after}
        return part


def test_a_tensordict_of_torchrl():
    same(read_log(TensorDict()))
    same(read_log(Environments()))
    same(read_log(Ring()))
    table = columns()
    table["done"] = table["terminated"] | table.pop("truncated")
    assert "truncated" in [use.role for use in read_log(table).understood.columns if use.columns == ("done",)]
    same(read_log({name: values for name, values in table.items() if name != "episode"}))


def test_json_and_json_lines_packed_or_not(tmp_path):
    nested = [row | {"obs": {"x": row["obs"][0], "v": row["obs"][1]}} for row in steps()]
    nested = [row | {"next_obs": {"v": row["next_obs"][1], "x": row["next_obs"][0]}} for row in nested]
    (tmp_path / "rows.json").write_text(json.dumps(steps()))
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in nested) + "\n\n")
    (tmp_path / "rows.ndjson.gz").write_bytes(gzip.compress((tmp_path / "rows.jsonl").read_bytes()))
    (tmp_path / "columns.json").write_text(json.dumps({k: v.tolist() for k, v in columns().items()}))
    (tmp_path / "data.json").write_text(json.dumps({"data": steps()}))
    frame = pd.DataFrame(steps())
    for orient in ("columns", "split", "records"):
        frame.to_json(tmp_path / f"{orient}.json", orient=orient, double_precision=15)
    for path in sorted(tmp_path.iterdir()):
        log = read_log(path)
        assert len(log) == 12, path.name
        assert np.allclose(log.observations, WANTED.observations), path.name


def test_json_that_is_damaged_names_the_line(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join([json.dumps(row) for row in steps()[:3]] + ['{"obs": [1, 2']))
    with pytest.raises(InputError, match=r"'log.jsonl' cannot be read as JSON.*: line 4"):
        read_log(path)
    path.write_bytes(b"\xff\xfe{}")
    with pytest.raises(InputError, match=r"not UTF-8"):
        read_log(path)
    path.write_text("[" * 100_000)
    with pytest.raises(InputError, match=r"cannot be read as JSON|nested too deeply"):
        read_log(path)


def rllib_lines():
    """Two lines, the second of which goes on with an episode of the first."""
    table = columns(obs="obs", next_obs="new_obs", episode="eps_id", action="actions", reward="rewards")
    table |= {"terminateds": table.pop("terminated"), "truncateds": table.pop("truncated")}
    table |= {"action_prob": np.full(12, 0.5), "action_logp": np.full(12, np.log(0.5)), "infos": [{}] * 12}
    for part in (slice(0, 6), slice(6, 12)):
        yield {"type": "SampleBatch"} | {k: np.asarray(v)[part].tolist() for k, v in table.items()}


def test_rllib_json_in_a_file_and_in_a_folder(tmp_path):
    one, two = (json.dumps(line) for line in rllib_lines())
    (tmp_path / "output.json").write_text(f"{one}\n{two}\n")
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "output-1.json").write_text(one)
    (folder / "output-2.json").write_text(two)
    for source in (tmp_path / "output.json", folder):
        log = read_log(source)
        assert (log.behaviour == 0.5).all()
        assert np.array_equal(log.reward, WANTED.reward)
        assert log.n_episodes == 3
    packed = json.dumps({"type": "SampleBatch", "obs": "BCJNGGhAXAAA", "rewards": [1.0], "dones": [True]})
    for lines in (packed, f"{packed}\n{packed}"):
        (tmp_path / "packed.json").write_text(lines)
        with pytest.raises(InputError, match=r'compressed by RLlib.*"compress_columns": '):
            read_log(tmp_path / "packed.json")


def test_rllib_batches_of_one_policy(tmp_path):
    """What RLlib writes where it was told of several agents: a line is a MultiAgentBatch."""
    lines = [{"type": "MultiAgentBatch", "count": 6, "policy_batches": {"default_policy": x}} for x in rllib_lines()]
    (tmp_path / "output.json").write_text("\n".join(map(json.dumps, lines)))
    assert np.array_equal(read_log(tmp_path / "output.json").reward, WANTED.reward)


def test_npz_and_structured_arrays(tmp_path):
    names = {"obs": "observations", "next_obs": "next_observations", "action": "actions", "reward": "rewards"}
    d3rlpy = columns(**names, terminated="terminals", truncated="timeouts")
    np.savez(tmp_path / "log.npz", **d3rlpy)
    same(read_log(tmp_path / "log.npz"))
    np.savez(tmp_path / "bad.npz", rewards=np.array([None]))
    with pytest.raises(InputError, match=r"does not load.*allow_pickle=True"):
        read_log(tmp_path / "bad.npz")
    table = columns()
    kinds = [(name, values.dtype, values.shape[1:]) for name, values in table.items()]
    array = np.zeros(12, kinds)
    for name, values in table.items():
        array[name] = values
    same(read_log(array))


def test_hdf5_of_d4rl_d3rlpy_and_minari(tmp_path):
    h5py = pytest.importorskip("h5py")
    names = {"obs": "observations", "next_obs": "next_observations", "action": "actions", "reward": "rewards"}
    with h5py.File(tmp_path / "d4rl.hdf5", "w") as file:
        for name, values in columns(**names, terminated="terminals", truncated="timeouts").items():
            file[name] = values
        file["infos/qpos"] = np.zeros((12, 3))
        file["metadata/algorithm"] = "SAC"
        file["elsewhere"] = h5py.ExternalLink("/etc/passwd", "/")
    same(read_log(tmp_path / "d4rl.hdf5"))
    with h5py.File(tmp_path / "minari.h5", "w") as file:
        for k, one in enumerate(episodes()):
            for name, values in one.items():
                file[f"episode_{k}/{name}"] = values
    same(read_log(tmp_path / "minari.h5"))
    with h5py.File(tmp_path / "d3rlpy.h5", "w") as file:
        file["total_size"], file["version"] = 3, "2.1"
        for k, one in enumerate(episodes()):
            file[f"observations_{k}"] = one["observations"][:-1]
            file[f"actions_{k}"], file[f"rewards_{k}"] = one["actions"][:, None], one["rewards"][:, None]
            file[f"terminated_{k}"] = k != CUT
    same(read_log(tmp_path / "d3rlpy.h5"), ends=False)
    with h5py.File(tmp_path / "old.h5", "w") as file:  # d3rlpy before version 2
        table = columns()
        file["observations"], file["actions"], file["rewards"] = table["obs"], table["action"], table["reward"]
        file["terminals"] = table["terminated"].astype(float)
        file["episode_terminals"] = (table["terminated"] | table["truncated"]).astype(float)
        file["discrete_action"] = True
    same(read_log(tmp_path / "old.h5"), ends=False)
    (tmp_path / "bad.h5").write_bytes((tmp_path / "old.h5").read_bytes()[:200])
    with pytest.raises(InputError, match=r"'bad.h5' cannot be read as HDF5"):
        read_log(tmp_path / "bad.h5")


def stacked(time_first=True):
    """Three environments of four steps each: rows of the first twelve steps, cut anew."""
    table = columns()
    done = np.zeros((3, 4), bool)
    done[0, 1] = done[1, 3] = done[2, 0] = True
    made = {"obs": table["obs"], "actions": table["action"], "rewards": table["reward"], "done": done.reshape(-1)}
    made = {name: values.reshape(3, 4, *values.shape[1:]) for name, values in made.items()}
    made["next_obs"] = np.concatenate([made["obs"][:, 1:], np.zeros((3, 1, 2))], axis=1)
    return {name: np.swapaxes(values, 0, 1) for name, values in made.items()} if time_first else made


def test_arrays_of_steps_by_environments():
    for time_first in (True, False):
        log = read_log(stacked(time_first))
        assert (len(log), log.n_episodes, int(log.terminated.sum())) == (12, 5, 3)
        assert np.array_equal(log.reward, columns()["reward"])
        assert log.understood.warnings == ()
    guessed = {name: values for name, values in stacked().items() if name != "next_obs"}
    (warning,) = read_log(guessed).understood.warnings
    assert "The arrays have the shape (4, 3). The first axis was read as time, the second as 3 environments" in warning
    with pytest.raises(InputError, match=r"the rewards have the shape \(4, 3\), .* 'actions' has \(4,\)"):
        read_log(stacked() | {"actions": np.zeros(4, int)})


class ReplayBuffer(SimpleNamespace):
    """What Stable-Baselines3 has: steps by environments, the oldest at ``pos`` once it is full."""


def buffer(full=False):
    made = stacked()
    table = {"observations": made["obs"], "next_observations": made["next_obs"], "actions": made["actions"][..., None]}
    table |= {"rewards": made["rewards"], "dones": made["done"].astype(np.float32)}
    table["timeouts"] = table["dones"] * 0
    if full:
        table = {name: np.roll(values, 1, axis=0) for name, values in table.items()}
        return ReplayBuffer(**table, pos=1, full=True)
    table = {name: np.concatenate([values, values * 0]) for name, values in table.items()}
    return ReplayBuffer(**table, pos=4, full=False)


def test_a_replay_buffer_of_stable_baselines():
    log = read_log(buffer())
    assert (len(log), log.n_episodes, int(log.terminated.sum())) == (12, 5, 3)
    assert np.array_equal(log.reward, columns()["reward"])
    log = read_log(buffer(full=True))
    assert "Rows dropped, because the start of their episode was overwritten: 7." in log.notes
    assert np.array_equal(log.reward, np.r_[columns()["reward"][2:4], columns()["reward"][9:12]])
    with pytest.raises(InputError, match=r"the ReplayBuffer is empty"):
        read_log(ReplayBuffer(**(vars(buffer()) | {"pos": 0})))


def test_frames_with_records_images_and_objects():
    images = np.arange(12 * 6.0).reshape(12, 2, 3)
    frame = pd.DataFrame({"obs": images.tolist(), "reward": 1.0, "done": np.arange(12) % 4 == 3})
    assert np.array_equal(read_log(frame).observations, images.reshape(12, 6))
    assert np.array_equal(read_log(pl.from_pandas(frame)).observations, images.reshape(12, 6))
    assert np.array_equal(read_log(frame.to_dict("records")).observations, images.reshape(12, 6))
    records = pd.DataFrame({"state": [{"x": k, "v": -k} for k in range(12)], "reward": 1.0, "done": frame["done"]})
    log = read_log(records)
    assert (log.observations.shape, set(log.observation_names)) == ((12, 2), {"x", "v"})
    import pyarrow as pa

    same(read_log(pa.RecordBatch.from_pylist(steps())))


@pytest.mark.parametrize("kind", ["text", "dates", "zones", "frame"])
def test_iso_dates_are_times(kind):
    """The second row of an episode is the earlier one."""
    table = {"user_id": ["a", "b", "a", "b"], "obs": [1.0, 10.0, 0.0, 9.0], "reward": [1, 1, 0, 0]}
    table["done"] = [True, True, False, False]
    when = ["2024-05-02T10:00:00", "2024-12-01 09:00", "2024-05-01T12:00", "2024-11-30"]
    if kind == "zones":
        when = ["2024-05-02T00:30:00+02:00", "2024-05-02T01:00Z", "2024-05-01T22:00:00Z", "2024-05-02T00:00:00Z"]
    table["timestamp"] = np.array(when, "datetime64[s]") if kind == "dates" else when
    log = read_log(pd.DataFrame(table) if kind == "frame" else table)
    assert log.observations[log.row, 0].tolist() == [0, 1, 9, 10]
    with pytest.raises(
        InputError, match=r"'timestamp' must contain numbers, times or dates such as .*pandas.to_datetime"
    ):
        read_log(table | {"timestamp": ["1/5/2024"] * 4})
    with pytest.raises(InputError, match=r"with and without a time zone"):
        read_log(table | {"timestamp": ["2024-05-01T12:00", "2024-05-01T12:00Z"] * 2})


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("log.pkl", "gradtd.read_log(pandas.read_pickle('log.pkl'))"),
        ("log.pt", "gradtd.read_log(torch.load('log.pt'))"),
        ("log.tsv", r"gradtd.read_log(pandas.read_csv('log.tsv', sep='\t'))"),
        ("log.feather", "gradtd.read_log(pandas.read_feather('log.feather'))"),
        ("log.tfrecord", "gradtd.read_log(pandas.DataFrame(...))"),
    ],
)
def test_what_is_not_read_names_the_line_that_loads_it(tmp_path, name, line):
    (tmp_path / name).write_text("x")
    with pytest.raises(InputError) as caught:
        read_log(tmp_path / name)
    assert line in str(caught.value)


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (np.zeros((3, 4)), "gradtd.read_log(pandas.DataFrame(array, columns="),
        ((row for row in steps()), "gradtd.read_log(list(source))"),
        (3, 'give a dictionary of arrays, {"episode": ...'),
        ([], "the list has no rows"),
        ([1, 2], "a list must have one dictionary per step, or one per episode, got int"),
    ],
)
def test_what_is_no_log_names_the_line_that_makes_one(source, line):
    with pytest.raises(InputError) as caught:
        read_log(source)
    assert line in str(caught.value)


def of_episodes():
    pairs = zip(by_episode("obs"), by_episode("reward"), strict=True)
    return [{"obs": seen, "reward": reward, "rho": np.ones(len(reward))} for seen, reward in pairs]


def test_a_column_that_the_first_episode_lacks_is_not_dropped():
    """Without it every episode was read as cut off."""
    episodes = [made | {"terminated": True} for made in of_episodes()]
    del episodes[0]["terminated"]
    with pytest.raises(InputError, match="episode 0 lacks 'terminated', which episode 1 has"):
        read_log(episodes)


@pytest.mark.parametrize("word", ["False", "no", 0, np.bool_(False)])
def test_an_end_of_an_episode_may_be_a_word(word):
    """bool("False") is true."""
    log = read_log([made | {"terminated": word} for made in of_episodes()])
    assert not log.terminated.any()


@pytest.mark.parametrize("word", ["maybe", 2, float("nan")])
def test_an_end_of_an_episode_that_is_neither_is_refused(word):
    with pytest.raises(InputError, match="must be true or false"):
        read_log([made | {"truncated": word} for made in of_episodes()])


def test_rows_by_number_are_read_as_pandas_writes_them(tmp_path):
    frame = pd.DataFrame(steps())
    (tmp_path / "log.json").write_text(frame.drop(columns="t").iloc[::-1].to_json(orient="index"))  # with ten digits
    log = read_log(tmp_path / "log.json")
    assert np.allclose(log.observations, WANTED.observations)
    assert np.array_equal(log.next_row, WANTED.next_row)


@pytest.mark.parametrize("whole", [dict, pd.DataFrame])
def test_nested_columns_do_not_replace_others_of_their_name(whole):
    """{"obs": {"x": ...}} and "obs.x" are two columns of one name."""
    rows = [{"obs": {"x": k}, "obs.x": 0, "reward": 1.0, "terminated": k == 5} for k in range(6)]
    with pytest.raises(InputError, match=r"obs\.x"):
        read_log(rows if whole is dict else pd.DataFrame(rows))


def test_lines_of_json_may_contain_unusual_line_ends(tmp_path):
    lines = [json.dumps(row | {"note": "a\u2028b\x85c"}, ensure_ascii=False) for row in steps()]
    (tmp_path / "log.jsonl").write_text("\n".join(lines), "utf-8")
    same(read_log(tmp_path / "log.jsonl"))


@pytest.mark.parametrize(("steps", "environments"), [(40, 40), (300, 2), (12, 60)])
@pytest.mark.parametrize("time_first", [True, False])
def test_the_time_axis_is_that_along_which_observations_change_least(steps, environments, time_first):
    """Without next observations and with ends anywhere, the first axis was taken, and the evaluation was usable."""
    rng = np.random.default_rng(0)
    seen = np.cumsum(rng.choice([-1, 1], (steps, environments)), axis=0) + rng.integers(-9, 9, environments)
    made = {"obs": seen, "reward": rng.random(seen.shape), "terminated": rng.random(seen.shape) < 0.05}
    log = read_log(made if time_first else {name: values.T for name, values in made.items()})
    assert np.array_equal(log.reward[:5], made["reward"][:5, 0])
    (warning,) = (one for one in log.understood.warnings if "was read as time" in one)
    assert f"The {'first' if time_first else 'second'} axis" in warning
