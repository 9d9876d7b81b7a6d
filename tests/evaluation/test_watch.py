"""`gradtd watch`: a look after every file, the same bytes after a kill."""

import json
import os
import signal
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import gradtd
from gradtd.cli.app import app
from gradtd.evaluation.watch import keep_watching, start_watch

pytestmark = pytest.mark.usefixtures("small_units")
GIVEN = {"gamma": 0.9, "progress": False, "threads": 1}


def _kept(out):
    """Everything that is kept, but for the lock, which has the number of a process."""
    files = [path for path in out.rglob("*") if path.is_file() and "lock" not in path.name]
    return {str(path.relative_to(out)): path.read_bytes() for path in files if "sums" not in path.parts}


def _fill(folder, some_episodes, files, each=40):
    folder.mkdir(exist_ok=True)
    for k in files:
        pq.write_table(some_episodes(each * k, each * (k + 1)), folder / f"day-{k:02d}.parquet")


def test_a_look_after_every_file_is_the_evaluation_of_the_files_so_far(tmp_path, some_episodes):
    log, out = tmp_path / "log", tmp_path / "out"
    _fill(log, some_episodes, range(3))
    looks = list(keep_watching(start_watch(log, out, **GIVEN), 0, once=True))
    assert [one.file for one in looks] == ["day-00.parquet", "day-01.parquet", "day-02.parquet"]
    assert [one.episodes for one in looks] == [39, 79, 118]  # some have no step
    again = gradtd.evaluate(
        str(log),
        machine=gradtd.Machine(checkpoint=tmp_path / "other"),
        inference=gradtd.Inference(anytime=True),
        **GIVEN,
    )
    assert looks[-1].steps == again.steps
    assert looks[-1].anytime_low < looks[-1].low < looks[-1].value < looks[-1].high < looks[-1].anytime_high
    first = tmp_path / "first"
    _fill(first, some_episodes, range(1))
    alone = gradtd.evaluate(
        str(first),
        machine=gradtd.Machine(checkpoint=tmp_path / "alone"),
        inference=gradtd.Inference(anytime=True),
        **GIVEN,
    )
    assert (looks[0].value, looks[0].anytime_high) == (alone.value, alone.anytime.high)


def test_files_that_come_later_or_are_half_written(tmp_path, some_episodes):
    log, out = tmp_path / "log", tmp_path / "out"
    _fill(log, some_episodes, range(2))
    half = (log / "day-01.parquet").read_bytes()
    (log / "day-01.parquet").write_bytes(half[:1000])
    arrivals = iter([lambda: (log / "day-01.parquet").write_bytes(half), lambda: _fill(log, some_episodes, [2])])

    def wait(_):
        next(arrivals)()

    looks = keep_watching(start_watch(log, out, **GIVEN), 1, wait=wait)
    assert [next(looks).episodes for _ in range(3)] == [39, 79, 118]
    other = tmp_path / "other"
    list(keep_watching(start_watch(log, other, **GIVEN), 0, once=True))
    assert _kept(out) == _kept(other)


def test_the_first_look_may_wait_for_files(tmp_path, some_episodes):
    log, out = tmp_path / "log", tmp_path / "out"
    _fill(log, some_episodes, range(2))
    watch = start_watch(log, out, first=3, **GIVEN)
    assert list(keep_watching(watch, 0, once=True)) == []
    _fill(log, some_episodes, range(4))
    assert [one.file for one in keep_watching(watch, 0, once=True)] == ["day-02.parquet", "day-03.parquet"]
    assert list(keep_watching(watch, 0, once=True)) == []


def test_what_cannot_be_watched_is_refused(tmp_path, some_episodes):
    with pytest.raises(gradtd.InputError, match="there is no folder"):
        start_watch(tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(gradtd.InputError, match="a separate folder"):
        start_watch(tmp_path, tmp_path)
    log, out = tmp_path / "log", tmp_path / "out"
    _fill(log, some_episodes, range(2))
    list(keep_watching(start_watch(log, out, **GIVEN), 0, once=True))
    _fill(log, some_episodes, range(3))
    with pytest.raises(gradtd.InputError, match="gamma"):
        list(keep_watching(start_watch(log, out, **(GIVEN | {"gamma": 0.5})), 0, once=True))
    for other in ({"level": 0.5}, {"first": 2}):  # their intervals would not hold together with those that are kept
        with pytest.raises(gradtd.InputError, match=f"has looks with {next(iter(other))}"):
            list(keep_watching(start_watch(log, out, **(GIVEN | other)), 0, once=True))
    (out / "looks.json").write_text("{}")
    with pytest.raises(gradtd.InputError, match="looks written by gradtd watch"):
        start_watch(log, out, **GIVEN).looks()


def _change(told, name, value):
    told["looks"][0][name] = value


DAMAGES = {
    "a number is a word": lambda told: _change(told, "value", "1"),
    "a number is missing": lambda told: told["looks"][1].pop("high"),
    "another verdict": lambda told: _change(told, "verdict", "certain"),
    "a negative count": lambda told: _change(told, "episodes", -1),
    "counts that fall": lambda told: _change(told, "steps", 10**9),
    "an interval upside down": lambda told: _change(told, "anytime_low", 1e9),
    "another file": lambda told: _change(told, "file", "day-07.parquet"),
    "a list in a look": lambda told: _change(told, "file", ["day-00.parquet"]),
    "a look twice": lambda told: told["looks"].append(told["looks"][-1]),
    "a file twice": lambda told: told["files"].append(told["files"][-1]),
    "no question": lambda told: told.pop("question"),
    "no looks": lambda told: told.update(looks=7),
}


def _refused(watch):
    try:
        watch.files()
    except gradtd.InputError as error:
        return str(error)
    return "it was read"


def test_kept_looks_that_none_of_ours_would_be_are_refused(tmp_path, some_episodes):
    log, out = tmp_path / "log", tmp_path / "out"
    _fill(log, some_episodes, range(2))
    list(keep_watching(start_watch(log, out, **GIVEN), 0, once=True))
    kept = (out / "looks.json").read_text()
    for damage, make in DAMAGES.items():
        told = json.loads(kept)
        make(told)
        (out / "looks.json").write_text(json.dumps(told))
        assert "looks written by gradtd watch" in _refused(start_watch(log, out, **GIVEN)), damage


def test_a_file_that_is_gone_is_named(tmp_path, some_episodes):
    """Without it the next look would take another file for new, and leave one out."""
    log, out = tmp_path / "log", tmp_path / "out"
    _fill(log, some_episodes, range(2))
    list(keep_watching(start_watch(log, out, **GIVEN), 0, once=True))
    (log / "day-00.parquet").unlink()
    _fill(log, some_episodes, [2])
    with pytest.raises(gradtd.InputError, match="lacks 'day-00"):
        list(keep_watching(start_watch(log, out, **GIVEN), 0, once=True))


@pytest.mark.parametrize("every", ["nan", "-1", "1e20", "inf"])
def test_seconds_between_looks_are_checked(tmp_path, some_episodes, every):
    _fill(tmp_path / "log", some_episodes, range(1))
    given = ["watch", str(tmp_path / "log"), "--gamma", ".9", "--out", str(tmp_path / "out"), "--every", every]
    outcome = CliRunner().invoke(app, given)
    assert isinstance(outcome.exception, gradtd.InputError)
    assert "every must be" in str(outcome.exception)


def test_the_command_prints_and_draws(tmp_path, some_episodes):
    log, out = tmp_path / "log", tmp_path / "out"
    _fill(log, some_episodes, range(2))
    given = ["watch", str(log), "--gamma", ".9", "--out", str(out), "--once", "--threads", "1"]
    outcome = CliRunner().invoke(app, given)
    assert outcome.exit_code == 0, outcome.output
    assert outcome.output.count("day-0") == 2
    assert "is valid at every look" in (out / "looks.svg").read_text()
    _fill(log, some_episodes, range(3))
    told = json.loads(CliRunner().invoke(app, [*given, "--json"]).output)
    assert told["episodes"] == 118


KILLED = """
import os, signal, sys
from gradtd.core import files
from gradtd.evaluation import kept_files
name, times, *given = sys.argv[1:]
count, owner = 0, {"replace": os, "keep": kept_files.Store}[name]
real = getattr(owner, name)
def dying(*args, **more):
    global count
    count += 1
    if count == int(times):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **more)
setattr(owner, name, dying)
from gradtd.cli import main
sys.argv = ["gradtd", *given]
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "times"), [("replace", 3), ("replace", 9), ("replace", 14), ("keep", 2), ("keep", 3)])
def test_killed_and_started_again_it_has_the_same_bytes(tmp_path, some_episodes, name, times):
    log, out = tmp_path / "log", tmp_path / "out"
    _fill(log, some_episodes, range(3))
    given = ["watch", str(log), "--gamma", ".9", "--once", "--threads", "1", "--out"]
    code = [sys.executable, "-c", KILLED, name, str(times), *given, str(out)]
    assert subprocess.run(code, env=os.environ, check=False).returncode == -signal.SIGKILL
    whole = tmp_path / "whole"
    for folder in (out, whole):
        subprocess.run([sys.executable, "-m", "gradtd", *given, str(folder)], check=True)
    assert _kept(out) == _kept(whole)
    assert set(_kept(out)) == {"looks.json", "looks.svg"}


def test_a_file_that_changed_after_its_look_is_refused(tmp_path, some_episodes):
    log, out = tmp_path / "log", tmp_path / "out"
    _fill(log, some_episodes, range(2))
    list(keep_watching(start_watch(log, out, **GIVEN), 0, once=True))
    pq.write_table(some_episodes(200, 240), log / "day-00.parquet")
    assert "'day-00.parquet' in" in _refused(start_watch(log, out, **GIVEN))


def test_an_output_that_cannot_be_a_folder_is_refused(tmp_path):
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "out", tmp_path / ("x" * 300)):
        with pytest.raises(gradtd.InputError, match="cannot write"):
            start_watch(tmp_path, out, **GIVEN)
