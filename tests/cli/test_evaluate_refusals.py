"""Bad input to ``gradtd evaluate``: exit code 2, one sentence, nothing written."""

import pickle
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from cli.test_evaluate import FAST, write
from gradtd.cli.app import main
from naive.evaluation import real_walk, walk


def changed(**columns):
    """The walk with some columns replaced, by a value for row 7 or as a whole; None leaves a column out."""
    table = dict(real_walk(30))
    for name, value in columns.items():
        if value is None:
            del table[name]
        elif np.ndim(value) == 0 and not isinstance(value, str):
            table[name] = table[name].astype(float)
            table[name][7] = value
        else:
            table[name] = np.full(len(table["t"]), value) if isinstance(value, str) else value
    return table


N = len(real_walk(30)["t"])
NAN, INF = float("nan"), float("inf")
TABLES = {
    "NaN in an observation": ({"obs_0": NAN}, "row 7"),
    "infinity in an observation": ({"obs_1": INF}, "column 'obs_1' of the observation must be finite: row 7 is inf"),
    "NaN as reward": ({"reward": NAN}, "column 'reward' must be finite: row 7 is nan"),
    "infinite reward": ({"reward": -INF}, "column 'reward' must be finite: row 7 is -inf"),
    "rewards as text": ({"reward": "much"}, "column 'reward' must contain one number per row, got text"),
    "text beside numbers of the next step": (
        {"obs_0": "here"},
        "one of the columns 'obs_0' and 'next_obs_0' contains text",
    ),
    "constant observations": (
        {k: np.ones(N) for k in ("obs_0", "obs_1", "next_obs_0", "next_obs_1")},
        "is 1 in every row",
    ),
    "a probability of zero": ({"action_prob": 0.0}, "must be above 0 since the action was taken: row 7 is 0.0"),
    "a negative probability": ({"action_prob": -0.5}, "must be above 0"),
    "a probability above one": ({"action_prob": 1.5}, "must be at most 1: row 7 is 1.5"),
    "a negative probability of the target": ({"target": -0.5}, "must be at least 0: row 7 is -0.5"),
    "NaN as probability": ({"target": NAN}, "column 'target' must be finite"),
    "a ratio that overflows": ({"action_prob": 1e-310, "target": 1.0}, "because smaller numbers lose digits: row 7"),
    "a ratio whose square overflows": ({"action_prob": 1e-200, "target": 1.0}, "the largest ratio is 1e+200 in size"),
    "a reward whose square overflows": ({"reward": 1e200}, "the largest reward is 1e+200 in size"),
    "an observation whose square overflows": ({"obs_0": 1e200}, "which cannot be scaled: rescale it"),
    "logarithms of probabilities": (
        {"action_prob": np.full(N, -0.7)},
        "'action_prob' contains logarithms of probabilities (none is above 0)",
    ),
    "no end of episodes": (
        {"episode": None, "terminated": None, "truncated": None},
        "cannot see where episodes end",
    ),
    "no reward": ({"reward": None}, "no reward column was found"),
    "no observation": (
        dict.fromkeys(("obs_0", "obs_1", "next_obs_0", "next_obs_1")),
        "no observation column was found",
    ),
    "no behaviour": ({"action_prob": None}, "or --behaviour estimate to fit a model"),
    "no target": ({"target": None}, "there is no target policy"),
    "one episode only": (
        {"episode": np.zeros(N), "t": np.arange(N), "terminated": np.arange(N) == N - 1},
        "has a single episode",
    ),
    "ends inside an episode": ({"terminated": np.ones(N, bool)}, "continues the same episode"),
    "flags that are none": ({"terminated": np.full(N, 3)}, "must contain true or false"),
    "rows given twice": ({"t": np.zeros(N, int)}, "have the same episode and t"),
    "no rows": ({k: v[:0] for k, v in real_walk(30).items()}, "has no rows"),
}


@pytest.fixture
def refused(monkeypatch, capsys, tmp_path):
    """Run in an empty folder beside the log; the folder, and that of the log, must stay as they were."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        before = sorted((str(p), p.stat().st_size) for p in tmp_path.rglob("*"))
        outputs = [] if {"--page", "--save", "--plot"} & set(arguments) else ["--page", "page.html", "--save", "it.npz"]
        if arguments.count("--target") > 1:
            outputs = outputs[:2]
        monkeypatch.setattr(sys, "argv", ["gradtd", "evaluate", *arguments, *outputs])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        assert ended.value.code == 2
        assert shown.out == ""
        first, *numbered = shown.err.strip().splitlines()
        assert all(line.startswith(f"{k}. ") for k, line in enumerate(numbered, 1)), shown.err
        assert not numbered or first == f"gradtd: the log has {len(numbered)} faults:"
        assert shown.err.startswith("gradtd: ")
        assert shown.err.strip().endswith(".")
        assert "Traceback" not in shown.err
        assert sorted((str(p), p.stat().st_size) for p in tmp_path.rglob("*")) == before
        return shown.err

    return run


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("kind", TABLES)
def test_tables_that_cannot_be_read(refused, tmp_path, kind, ending):
    columns, message = TABLES[kind]
    said = refused(write(changed(**columns), tmp_path / f"log.{ending}"), *FAST)
    missing = ending == "csv" and kind.startswith("NaN")  # which a CSV file has as an empty field
    assert ("row 7" if missing else message) in said
    if kind == "one episode only":
        assert "--block-length" in said


def _truncated(path):
    write(walk(30), path / "log.parquet")
    (path / "log.parquet").write_bytes((path / "log.parquet").read_bytes()[:-40])
    return "log.parquet"


def _in_the_middle(path):
    write(walk(300), path / "log.parquet")
    content = bytearray((path / "log.parquet").read_bytes())
    content[60:400] = bytes(340)
    (path / "log.parquet").write_bytes(bytes(content))
    return "log.parquet"


def _foreign(path):
    (path / "logs").mkdir()
    write(walk(30), path / "logs" / "a.parquet")
    (path / "logs" / "notes.txt").write_text("hello")
    return "logs"


def _empty_folder(path):
    (path / "logs").mkdir()
    return "logs"


def _another_schema(path):
    (path / "logs").mkdir()
    write(walk(30), path / "logs" / "a.parquet")
    write({"x": np.arange(3)}, path / "logs" / "b.parquet")
    return "logs"


def _file(name, content):
    def make(path):
        (path / name).write_bytes(content)
        return name

    return make


def _nested(path):
    table = pa.table(walk(30)).append_column("reward_2", pa.array([[1.0, 2.0]] * len(walk(30)["t"])))
    pyarrow.parquet.write_table(
        table.drop_columns(["reward"]).rename_columns(
            [n if n != "reward_2" else "reward" for n in table.drop_columns(["reward"]).column_names]
        ),
        path / "n.parquet",
    )
    return "n.parquet"


FILES = {
    "empty CSV": (_file("log.csv", b""), "cannot be read as CSV"),
    "header only": (_file("log.csv", b"episode,obs,reward,terminated,rho\n"), "has no rows"),
    "empty Parquet": (_file("log.parquet", b""), "cannot be read as Parquet"),
    "text as Parquet": (_file("log.parquet", b"episode,obs\n1,2\n"), "cannot be read as Parquet"),
    "binary as CSV": (_file("log.csv", bytes(range(256)) * 9), "log.csv"),
    "truncated Parquet": (_truncated, "cannot be read as Parquet"),
    "damaged Parquet": (_in_the_middle, "log.parquet"),
    "folder with a foreign file": (_foreign, "must contain only Parquet files, but has 'notes.txt'"),
    "empty folder": (_empty_folder, "has no Parquet file"),
    "folder of two kinds": (_another_schema, "lacks the column"),
    "pickle": (_file("log.pkl", pickle.dumps({"a": 1})), "which gradtd does not load"),
    "array file": (_file("log.npz", b"PK"), "cannot be read as .npz; it may be damaged"),
    "pickle as Parquet": (_file("log.parquet", pickle.dumps({"a": 1})), "cannot be read as Parquet"),
    "unknown ending": (_file("log.xyz", b"{}"), "gradtd reads .parquet, .csv, .json, .jsonl, .npz and .h5 files"),
    "nothing": (lambda path: "nowhere.parquet", "there is no file or folder 'nowhere.parquet'"),
    "nested rewards": (_nested, "reward"),
}


@pytest.mark.parametrize("kind", FILES)
def test_files_that_are_no_logs(refused, tmp_path, kind):
    make, message = FILES[kind]
    assert message in refused(make(tmp_path), *FAST)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--features", "furier"], "did you mean 'fourier'"),
        (["--features", "fourier:ordre=3"], "did you mean 'order'"),
        (["--features", "fourier:order=-1"], "order"),
        (["--features", "fourier:order"], "must read name:parameter=value"),
        (["--algorithm", "impresion_gtd"], "did you mean 'impression_gtd'"),
        (["--algorithm", "td"], "td needs alpha"),
        (["--algorithm", "td", "--set", "alpha=-1"], "alpha must be greater than 0"),
        (["--algorithm", "td", "--set", "alpha"], "--set takes name=value, got 'alpha'"),
        (["--algorithm", "td", "--set", "alhpa=1"], "unknown hyper-parameter of td 'alhpa'"),
        (["--algorithm", "td", "--set", "alpha=1", "--set", "alpha=2"], "--set alpha is given twice"),
        (["--set", "gamma=0.5"], "lstd takes no hyper-parameters here, got gamma"),
        (["--algorithm", "wis", "--set", "gamma=0.5"], "wis takes no hyper-parameters here, got gamma"),
        (["--algorithm", "td", "--set", "gamma=0.5"], "unknown hyper-parameter of td 'gamma'"),
        (["--algorithm", "td", "--set", "alpha=1", "--set", "whiten=false"], "unknown hyper-parameter of td 'whiten'"),
        (["--algorithm", "tdd", "--set", "alpha=1"], "did you mean 'td'"),
        (["--set", "alpha=0.5"], "lstd takes no hyper-parameters here, got alpha"),
        (["--algorithm", "krylov_gtd", "--n-updates", "10"], "krylov_gtd takes one pass over a log"),
        (["--algorithm", "impression_gtd", "--set", "capacity=50"], "capacity=50 would leave only the last steps"),
        (["--algorithm", "impression_gtd", "--set", "batch_size=5000"], "too few for a batch of 5000"),
        (["--target", "targte"], "there is no column 'targte'"),
        (["--target", "obs_1"], "column 'obs_1' must be at least 0"),
        (["--target", "target", "--target", "nothing"], "there is no column 'nothing'"),
        (["--behaviour", "propensity"], "there is no column 'propensity'"),
        (["--column", "reward"], "--column takes NAME=COLUMN, for example reward=r; got 'reward'"),
        (["--column", "reward=gain"], "there is no column 'gain'"),
        (["--column", "rewrd=reward"], "did you mean 'reward'"),
        (["--observation", "x,v"], "there is no column 'x'"),
        (["--gamma", "1.5"], "gamma must be a number in [0, 1], got 1.5"),
        (["--gamma", "-0.1"], "gamma must be a number in [0, 1]"),
        (["--gamma", "nan"], "gamma must be a number in [0, 1], got nan"),
        (["--level", "95"], "level must lie between 0 and 1"),
        (["--resamples", "-1"], "resamples must be between 0 and 10000"),
        (["--resamples", "1000000000"], "resamples must be between 0 and 10000"),
        (["--n-updates", "0"], "n_updates must be at least 1"),
        (["--block-length", "0"], "block_length must be at least 1"),
        (["--block-length", "100000", "--column", "episode=zero", "--column", "t=row"], "has a single episode"),
        (["--clip", "0"], "clip must be greater than 0"),
        (["--threads", "0"], "threads must be at least 1"),
        (["--page", "no/page.html"], "--page: there is no folder"),
        (["--page", "page.pdf"], "--page takes a file that ends in .html"),
        (["--plot", "plot.gif"], "--plot takes a file that ends in .png, .svg or .pdf"),
        (["--plot", "no/plot.png"], "--plot: there is no folder"),
        (["--save", "it.pkl"], "--save takes a file that ends in .npz"),
        (["--save", "no/it.npz"], "--save: there is no folder"),
        (["--save", "it.npz", "--target", "target", "--target", "behaviour"], "--save takes one target"),
    ],
)
def test_options_that_make_no_sense(refused, tmp_path, arguments, message):
    table = real_walk(30)
    zero = {"zero": np.zeros(N, int), "row": np.arange(N)}
    if "episode=zero" in arguments:
        table |= {"terminated": np.arange(N) == N - 1}
    path = write(table | zero, tmp_path / "log.parquet")
    assert message in refused(path, *FAST, *arguments)
