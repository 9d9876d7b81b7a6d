"""What is shown of a log in parts: rows, resamples, notes, what a sample does not tell, and what is refused."""

import importlib
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gradtd
from gradtd.evaluation import chunks
from gradtd.evaluation.limits import DEFAULT
from gradtd.evaluation.settings import Settings
from gradtd.logs.row_episodes import hash_of, mixed

pytestmark = pytest.mark.usefixtures("small_parts")


@pytest.fixture(scope="module")
def table(some_episodes):
    return some_episodes(0, 150)


@pytest.fixture(scope="module")
def path(table, tmp_path_factory):
    file = tmp_path_factory.mktemp("log") / "log.parquet"
    pq.write_table(table, file, row_group_size=400)
    return file


def _evaluate(log, **more):
    given = {"in_parts": True, "progress": False, "threads": 1, "features": "identity"} | more
    return gradtd.evaluate(log if isinstance(log, dict) else str(log), gamma=0.9, **given)


def test_a_target_may_be_a_column_and_several_are_evaluated(table, path, tmp_path):
    half = np.full(len(table), 0.5)
    more = table.drop_columns("rho").append_column("behaviour", pa.array(half))
    more = more.append_column("pi_new", pa.array(half * table["rho"].to_numpy()))
    file, plain = tmp_path / "two.parquet", _evaluate(path)
    pq.write_table(more, file, row_group_size=800)
    found = _evaluate(file, target={"new": "pi_new", "old": "behaviour"})
    assert found["new"].value == pytest.approx(plain.value, rel=1e-9)  # the same ratios as those in the log
    assert found["new"].interval == pytest.approx(plain.interval, rel=1e-9)
    memory = _evaluate(file, target="behaviour", in_parts=False)
    assert found["old"].value == pytest.approx(memory.value, rel=1e-9)
    assert found["old"].diagnostics.on_policy is True
    assert [found[name].target for name in found] == ["new", "old"]
    (row,) = found.compare().differences
    assert row.error < row.unpaired_error  # both have the influences of the same groups


def test_lstd_takes_its_interval_from_refits(path):
    found = _evaluate(path, algorithm="lstd", resamples=60)
    assert found.method == "lstd"
    assert len(found.resampled) == 60
    assert found.estimates[0].error == pytest.approx(found.resampled.std(ddof=1))
    assert found.estimates[0].error == pytest.approx(found.diagnostics.sandwich_error, rel=0.35)
    assert found.resampled.mean() == pytest.approx(found.value, abs=found.diagnostics.sandwich_error / 2)
    none = _evaluate(path, algorithm="lstd", resamples=0)
    assert none.estimates[0].error == none.diagnostics.sandwich_error == found.diagnostics.sandwich_error
    assert len(none.resampled) == 0


def _with_limits(monkeypatch, **limits):
    """The evaluation's own settings, with other limits."""
    module = importlib.import_module("gradtd.evaluation.evaluate")
    monkeypatch.setattr(module, "Settings", partial(Settings, limits=replace(DEFAULT, **limits)))


def test_what_a_sample_does_not_tell_is_unchecked(path, table, tmp_path, monkeypatch):
    """Missing choices and rare surprises are looked for in a sample: what passes by its size alone does not pass."""
    time_matters = {"far": 9.0, "most_predicted": 1e9}  # in episodes of 1 to 20 steps
    _with_limits(monkeypatch, **time_matters)
    plain = _evaluate(path)
    assert plain.verdict == "usable"
    monkeypatch.setattr(chunks, "SAMPLE_ROWS", 300)
    monkeypatch.setattr(chunks, "FEWEST_SAMPLED", 30)
    found = _evaluate(path)
    assert (found.verdict, found.diagnostics.undecided) == ("usable", None)
    assert found.value == pytest.approx(plain.value, rel=1e-9)
    fewest = 0.5 * found.diagnostics.surprises_met  # the sample has a fifth of it
    _with_limits(monkeypatch, **time_matters, fewest_surprises=fewest)
    rare = _evaluate(path)
    assert rare.verdict == "unchecked"
    assert "outside the sample may not show a TD error" in rare.reasons[0]
    less = np.clip(1 - 0.3 * table["obs_0"].to_numpy(), 0.1, 3)  # the target is seldom followed where that is large
    rho = pa.array(table["rho"].to_numpy() * less)
    pq.write_table(table.set_column(table.column_names.index("rho"), "rho", rho), tmp_path / "log.parquet")
    _with_limits(monkeypatch, far=9.0)
    found = _evaluate(tmp_path / "log.parquet")
    assert found.verdict == "usable"
    _with_limits(monkeypatch, far=9.0, most_lacking=found.diagnostics.lacking + 1e-4)
    lacking = _evaluate(tmp_path / "log.parquet")
    assert lacking.verdict == "unchecked"
    assert "it may lack 4% or 6% of the target's choices" in lacking.reasons[0]


def test_a_sample_is_of_the_smallest_hashes_and_scaled_to_the_log(path, table, monkeypatch):
    monkeypatch.setattr(chunks, "MOST_SAMPLED", 40)
    found, whole = _evaluate(path), _evaluate(path, in_parts=False)
    ids, begins = np.unique(table["episode"].to_numpy(), return_index=True)
    left = np.diff(np.r_[begins, len(table)]) > table["truncated"].to_numpy()[np.r_[begins[1:], len(table)] - 1]
    sampled = left[np.argsort(mixed(hash_of(ids)))[:40]].sum()  # episodes of one row that were cut off disappear
    assert any(f"in {sampled} episodes sampled by their hash" in note for note in found.notes)
    assert found.numbers["surprises_met"] == pytest.approx(whole.numbers["surprises_met"], rel=0.5)
    assert found.numbers["lacking"] == pytest.approx(whole.numbers["lacking"], rel=1, abs=0.02)
    assert found.numbers["lacking"] != whole.numbers["lacking"]


@pytest.mark.slow
def test_it_is_saved_shown_and_drawn(path, tmp_path):
    plain = _evaluate(path)
    again = gradtd.load_evaluation(plain.save(tmp_path / "x.npz"))
    assert again.to_dict() == plain.to_dict()
    assert plain.page(tmp_path / "x.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"algorithm": "td", "alpha": 0.1}, "algorithm='td' needs the log in memory"),
        ({"block": 5}, "block_length needs the log in memory"),
        ({"in_parts": False, "scheduler": "local:2"}, "a scheduler needs a log that is read in parts"),
        ({"behaviour": "estimate"}, "gradtd cannot estimate the behaviour"),
        ({"target": np.ones(5)}, "must be the name of a column or a function"),
        ({"features": "tiles:tilings=8,tiles=40"}, "at most 1000 features"),
        ({"lam": 0.5, "trace": "tree"}, "needs the target's probability of every action taken"),
    ],
)
def test_what_needs_the_log_in_memory_is_refused(path, more, message):
    with pytest.raises(gradtd.InputError, match=message):
        _evaluate(path, **more)


def test_logs_that_cannot_be_read_in_parts_are_refused(table, tmp_path):
    with pytest.raises(gradtd.InputError, match="need a Parquet file"):
        _evaluate({"obs": [1.0]})
    rows = table.drop_columns(["episode", "terminated", "truncated"])
    pq.write_table(rows.append_column("t", pa.array(np.arange(len(rows)))), tmp_path / "none.parquet")
    with pytest.raises(gradtd.InputError, match="has neither an episode column"):
        _evaluate(tmp_path / "none.parquet")
    with pytest.raises(gradtd.InputError, match="no file matches"):
        _evaluate(tmp_path / "*.pq")
