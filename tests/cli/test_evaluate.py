"""``gradtd evaluate``, as typed, on Parquet and CSV."""

import json
import re
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from gradtd import Inference, Machine, evaluate, load_evaluation
from gradtd.cli.app import main
from gradtd.cli.options import setting
from naive.evaluation import real_walk, walk

FAST = ["--gamma", "0.9", "--algorithm", "lstd", "--resamples", "10", "--threads", "1"]


def write(table, path):
    content = pa.table(table)
    (pyarrow.csv.write_csv if path.suffix == ".csv" else pyarrow.parquet.write_table)(content, str(path))
    return str(path)


@pytest.fixture
def typed(monkeypatch, capsys):
    """Run ``gradtd evaluate`` in this process; returns what it printed."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gradtd", "evaluate", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        assert (ended.value.code or 0) == 0, shown.err
        assert shown.err == ""
        return shown.out

    return run


@pytest.fixture
def log(tmp_path):
    return write(walk(40), tmp_path / "log.parquet")


def test_traces(typed, log):
    told = json.loads(typed(log, *FAST, "--lam", "4/5", "--trace", "clipped", "--json"))
    assert (told["diagnostics"]["lam"], told["diagnostics"]["trace"]) == (0.8, "clipped")
    assert (
        told["value"]
        == evaluate(
            log,
            gamma=0.9,
            algorithm="lstd",
            inference=Inference(resamples=10, lam=0.8, trace="clipped"),
            machine=Machine(threads=1),
        ).value
    )


def as_json(text):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_json_has_the_promised_keys_and_the_numbers_of_evaluate(typed, log):
    found = as_json(typed(log, *FAST, "--json"))
    assert {"value", "interval", "method", "gamma", "episodes", "steps", "ess", "verdict", "reasons"} <= set(found)
    wanted = evaluate(walk(40), gamma=0.9, algorithm="lstd", inference=Inference(resamples=10))
    assert found["value"] == wanted.value
    assert found["interval"] == list(wanted.interval)
    assert (found["method"], found["gamma"], found["episodes"]) == ("lstd", 0.9, 40)
    assert found["steps"] == len(walk(40)["t"])
    assert found["verdict"] == wanted.verdict == "unchecked"  # refits of a named method are not the checked interval
    assert len(found["reasons"]) == len(wanted.reasons) > 0


def test_parquet_and_csv_and_a_folder_say_the_same(typed, log, tmp_path):
    first = as_json(typed(log, *FAST, "--json"))
    csv = as_json(typed(write(walk(40), tmp_path / "log.csv"), *FAST, "--json"))
    folder = tmp_path / "parts"
    folder.mkdir()
    table = pa.table(walk(40))
    pyarrow.parquet.write_table(table.slice(0, 100), folder / "a.parquet")
    pyarrow.parquet.write_table(table.slice(100), folder / "b.parquet")
    parts = as_json(typed(str(folder), *FAST, "--json"))
    for name in ("value", "interval", "episodes", "ess", "estimates"):
        assert first[name] == csv[name] == parts[name]


@pytest.mark.parametrize(
    "arguments", [["--algorithm", "monte_carlo"], ["--algorithm", "wis", "--resamples", "0"], ["--algorithm", "td"]]
)
def test_json_is_strict_where_there_is_no_number(typed, log, arguments):
    more = ["--set", "alpha=1000"] if "td" in arguments else []
    found = as_json(typed(log, *FAST, *arguments, *more, "--json"))
    assert found["interval"] == [None, None]
    assert found["verdict"] == "not usable"
    assert found["reasons"]
    assert "-" in typed(log, *FAST, *arguments, *more)  # and as text


def test_text_says_value_verdict_methods_and_diagnostics(typed, log):
    text = typed(log, *FAST)
    lines = text.splitlines()
    wanted = evaluate(walk(40), gamma=0.9, algorithm="lstd", inference=Inference(resamples=10))
    low, high = wanted.interval
    assert lines[0] == f"value {wanted.value:.5g}, 95% interval {low:.5g} to {high:.5g}"
    assert lines[1].startswith("unchecked")
    assert re.search(r"^LSTD +\S+ +\S+ +\S+", text, re.MULTILINE)
    assert re.search(r"^doubly robust +\S+ +\S+ +\S+", text, re.MULTILINE)
    assert re.search(r"^Effective sample size +(good|fair|poor)  \d+ of \d+ steps$", text, re.MULTILINE)
    assert re.search(r"^Target minus behaviour +\S+  \S+ to \S+$", typed(log, "--gamma", "0.9"), re.MULTILINE)
    assert "Condition number of A" not in text
    assert "Condition number of A" in typed(log, *FAST, "--verbose")
    few = typed(log, *FAST, "--level", "0.5", "--algorithm", "td", "--set", "alpha=0.001", "--n-updates", "2")
    assert "50% interval" in few
    assert few.splitlines()[1] == "not usable"
    assert any(line.startswith("  - td has not converged: it is ") for line in few.splitlines())


def test_every_number_may_be_a_fraction(typed, log):
    wanted = as_json(typed(log, *FAST, "--level", "0.75", "--clip", "1.25", "--json"))
    assert as_json(typed(log, *FAST, "--gamma", "9/10", "--level", "3/4", "--clip", "5/4", "--json")) == wanted


def test_the_files_that_can_be_asked_for(typed, log, tmp_path):
    page, plot, save = tmp_path / "page.html", tmp_path / "plot.svg", tmp_path / "it.npz"
    text = typed(log, *FAST, "--page", str(page), "--plot", str(plot), "--save", str(save))
    assert {entry.name for entry in tmp_path.iterdir()} == {"log.parquet", "page.html", "plot.svg", "it.npz"}
    assert f"page: {page}" in text
    assert f"picture: {plot}" in text
    assert f"saved: {save}" in text
    outside = re.sub(r'src="data:image/svg\+xml,[^"]*"', "", page.read_text())
    assert not re.search(r"https?:|file:|src=|href=\"[^#]", outside)
    assert "gradtd evaluate" in page.read_text()
    assert "<svg" in plot.read_text()
    kept = load_evaluation(save)
    assert kept.value == as_json(typed(log, *FAST, "--json"))["value"]
    assert kept([2]) == pytest.approx(kept.value)


def test_several_targets(typed, tmp_path):
    table = walk(40)
    other = {**table, "careful": np.where(table["action"] == 1, 0.4, 0.6)}
    path = write(other, tmp_path / "log.parquet")
    arguments = [path, *FAST, "--target", "target", "--target", "careful", "--target", "behaviour"]
    found = as_json(typed(*arguments, "--json"))["targets"]
    assert list(found) == ["target", "careful", "behaviour"]
    assert len({row["value"] for row in found.values()}) == 3
    for name in found:
        alone = as_json(typed(path, *FAST, "--target", name, "--json"))
        assert alone["value"] == found[name]["value"]
        assert alone["interval"] == found[name]["interval"]
    assert "careful: value" in typed(*arguments)


@pytest.mark.parametrize(
    ("features", "count"),
    [
        ("identity", 3),
        ("polynomial:order=2", 6),
        ("fourier:order=2", 9),
        ("rbf:n=7", 8),
        ("tiles:tilings=2,tiles=3", None),
        ("aggregation:bins=3", 9),
        ("one-hot", 5),
    ],
)
def test_features_by_name(typed, tmp_path, features, count):
    path = write(real_walk(40), tmp_path / "log.parquet")
    found = as_json(typed(path, *FAST, "--features", features, "--json"))
    assert np.isfinite(found["value"])
    if count:
        assert found["diagnostics"]["features"] == count, found["features"]
    wanted = evaluate(real_walk(40), gamma=0.9, algorithm="lstd", features=features, inference=Inference(resamples=10))
    assert found["value"] == wanted.value


def test_columns_under_other_names(typed, tmp_path):
    table = real_walk(40)
    names = {"obs_0": "x", "obs_1": "v", "next_obs_0": "x2", "next_obs_1": "v2", "reward": "gain", "episode": "who"}
    renamed = {names.get(k, k): v for k, v in table.items()}
    path = write({**renamed, "noise": table["t"] * 0.5}, tmp_path / "log.parquet")
    plain = as_json(typed(write(table, tmp_path / "plain.parquet"), *FAST, "--json"))
    arguments = ["--observation", "x, v", "--column", "reward=gain", "--column", "episode=who"]
    found = as_json(typed(path, *FAST, *arguments, "--json"))
    # Without the column of next observations they are those of the row after: the same, since no walk was cut off.
    assert found["value"] == pytest.approx(plain["value"])
    assert found["episodes"] == 40


def test_options_reach_evaluate(typed, log, tmp_path):
    table = {k: v for k, v in walk(40).items() if k != "action_prob"}
    bare = write(table, tmp_path / "bare.parquet")
    estimated = as_json(typed(bare, *FAST, "--behaviour", "estimate", "--json"))
    assert any("estimated" in warning for warning in estimated["warnings"])
    assert (
        estimated["value"]
        == evaluate(table, gamma=0.9, algorithm="lstd", behaviour="estimate", inference=Inference(resamples=0)).value
    )
    blocks = as_json(typed(log, *FAST, "--block-length", "3", "--json"))
    assert (
        blocks["episodes"]
        == evaluate(walk(40), gamma=0.9, algorithm="lstd", inference=Inference(block_length=3)).episodes
        > 40
    )
    slow = [*FAST, "--algorithm", "tdrc", "--n-updates", "50", "--resamples", "3"]
    one, two = (as_json(typed(log, *slow, "--set", f"alpha={a}", "--json")) for a in ("1/64", "0.25"))
    assert one["diagnostics"]["hyper"]["alpha"] == 1 / 64
    assert one["value"] != two["value"]
    assert as_json(typed(log, *FAST, "--clip", "1.2", "--json"))["diagnostics"]["largest_ratio"] == 1.2
    assert as_json(typed(log, *FAST, "--seed", "1", "--json"))["interval"] != blocks["interval"]
    kept = evaluate(
        walk(40),
        gamma=0.9,
        algorithm="lstd",
        level=0.8,
        inference=Inference(resamples=200, interval_method="percentile"),
    )
    many = [*FAST, "--resamples", "200"]
    assert as_json(typed(log, *many, "--percentile", "--level", "0.8", "--json"))["interval"] == list(kept.interval)


def test_logarithms_and_duplicates(typed, tmp_path):
    table = walk(40)
    plain = evaluate(table, gamma=0.9, algorithm="lstd", inference=Inference(resamples=10))
    logs = {k: v for k, v in table.items() if k not in ("action_prob", "target")}
    logs |= {"action_logp": np.log(table["action_prob"]), "target_logp": np.log(table["target"])}
    found = as_json(typed(write(logs, tmp_path / "logs.parquet"), *FAST, "--log-probabilities", "--json"))
    assert found["value"] == pytest.approx(plain.value)
    twice = {k: np.r_[v, v[:5]] for k, v in table.items()}
    found = as_json(typed(write(twice, tmp_path / "twice.parquet"), *FAST, "--drop-duplicates", "--json"))
    assert found["value"] == plain.value


def test_the_direct_solution_is_the_default(typed, log):
    found = as_json(typed(log, "--gamma", "0.9", "--resamples", "5", "--threads", "1", "--json"))
    assert found["method"] == "auto"
    assert [row["method"] for row in found["estimates"][:2]] == ["auto", "lstd"]
    assert found["estimates"][1]["value"] == pytest.approx(found["value"])


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [("alpha=0.1", "alpha", 0.1), ("alpha=1/64", "alpha", 1 / 64), ("m1=8", "m1", 8), ("replacement=false",
      "replacement", False), ("fill=none", "fill", None), ("split=coin", "split", "coin"), ("p=1e0", "p", 1.0)],
)  # fmt: skip
def test_settings_as_they_are_typed(text, name, value):
    assert setting(text) == (name, value)
    assert type(setting(text)[1]) is type(value)
