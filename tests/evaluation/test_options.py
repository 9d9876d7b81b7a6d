"""The options of `evaluate` in records: one list of them, old keywords that still work, and misspelled ones."""

import warnings
from inspect import signature

import pytest

import gradtd
from gradtd import Inference, InputError, LogFormat, Machine, evaluate, read_log
from gradtd.evaluation.options import GROUPS, RENAMED, names_of
from gradtd.evaluation.settings import Settings
from naive.evaluation import walk

FAST = {"gamma": 0.9, "algorithm": "lstd"}


def test_target_and_gamma_need_no_name():
    assert evaluate(walk(40), "behaviour", 0.9).value == evaluate(walk(40), gamma=0.9, target="behaviour").value
    with pytest.raises(InputError, match=r"gamma is missing: give the discount factor"):
        evaluate(walk(40), "behaviour")


def test_every_option_stands_once():
    """In one record each; `Settings` has all of them, and `evaluate` none."""
    options = [name for record in GROUPS.values() for name in names_of(record)]
    assert len(options) == len(set(options))
    assert set(options) < set(names_of(Settings))
    words = signature(evaluate).parameters
    assert not set(options) & set(words)
    assert len(words) <= 14


def test_how_a_log_is_read_is_what_read_log_takes():
    theirs = signature(read_log).parameters
    ours = signature(LogFormat).parameters
    assert set(ours) == set(theirs) - {"source", "keep", "order", "progress", "unknown"}
    assert {name: one.default for name, one in ours.items()} == {name: theirs[name].default for name in ours}


def test_old_keywords_work_and_say_what_they_are_now():
    new = evaluate(
        walk(40), **FAST, inference=Inference(resamples=5, block_length=3, clip=2.0), machine=Machine(threads=1)
    )
    with pytest.warns(DeprecationWarning, match="have moved") as caught:
        old = evaluate(walk(40), **FAST, resamples=5, block=3, clip=2.0, threads=1, values="state", interval="student")
    assert old.value == new.value
    assert old.interval == new.interval
    (warning,) = caught
    assert warning.filename == __file__
    for said in (
        "resamples= is now inference=Inference(resamples=...)",
        "block= is now inference=Inference(block_length=...)",
        "threads= is now machine=Machine(threads=...)",
        "values= is now value_function=",
        "interval= is now inference=Inference(interval_method=...)",
    ):
        assert said in str(warning.message)


def test_the_new_form_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(walk(40), "behaviour", 0.9, machine=Machine(threads=1), log_format=LogFormat(), inference=Inference())


def test_an_old_keyword_is_added_to_a_record():
    both = evaluate(walk(40), **FAST, inference=Inference(resamples=7), block=3)
    assert both.diagnostics.resamples == 7
    assert both.episodes > 40


@pytest.mark.parametrize("name", RENAMED)
def test_every_renamed_option_is_there_under_its_new_name(name):
    words = {*names_of(Settings), *signature(evaluate).parameters}
    assert RENAMED[name] in words
    assert name not in words


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"thread": 2}, r"no argument 'thread': did you mean machine=Machine\(threads=\.\.\.\)\?"),
        ({"feature": "tiles"}, r"no argument 'feature': did you mean 'features'\?"),
        (
            {"inference": {"lam": 0.8}},
            r"must be of the class Inference, inference=Inference\(\.\.\.\), got dict",
        ),
        ({"machine": LogFormat()}, "machine must be of the class Machine"),
    ],
)
def test_what_is_not_an_option_is_refused_with_the_nearest_one(given, message):
    with pytest.raises(InputError, match=message):
        evaluate(walk(40), gamma=0.9, **given)


@pytest.mark.parametrize(
    ("record", "given", "message"),
    [
        (Inference, {"lam": 2}, "lam must"),
        (Inference, {"trace": "rhoo"}, "trace must be one of"),
        (Inference, {"resamples": -1}, "resamples must be between 0 and 10000"),
        (Inference, {"block_length": 0}, "block_length must be at least 1"),
        (Inference, {"interval_method": "percentile", "resamples": 20}, "needs at least 200 resamples, got 20"),
        (Machine, {"in_parts": False, "checkpoint": "sums"}, "a checkpoint needs a log that is read in parts"),
        (Machine, {"in_parts": False, "scheduler": "local:2"}, "a scheduler needs a log that is read in parts"),
    ],
)
def test_a_record_is_checked_where_it_is_made(record, given, message):
    with pytest.raises(InputError, match=message):
        record(**given)


def test_a_record_shows_what_was_changed():
    assert repr(gradtd.Inference()) == "Inference()"
    assert repr(Machine(threads=2, in_parts=False)) == "Machine(threads=2, in_parts=False)"
    assert repr(LogFormat(columns={"reward": "r"})) == "LogFormat(columns={'reward': 'r'})"
