"""What a fingerprint of somebody's function holds, and what it does not."""

import math
from functools import lru_cache

import numpy as np
import pytest

from gradtd.compiled import engine
from gradtd.running.fingerprints import not_in_fingerprint

SHARE, CHANCES, TABLE = 0.5, np.array([0.25, 0.75]), {"left": 0.5}


class _Model:
    pass


@lru_cache
def _remembered(state):
    return state


def _half(seen):
    return np.full(len(seen), SHARE) * np.exp(CHANCES[0]) * math.sqrt(2)


def _by_table(seen):
    return TABLE


def _with_model(seen):
    return _Model()


def _by_word(seen):
    return seen in {"left", "right"}


def test_numbers_arrays_and_packages_are_held():
    assert not_in_fingerprint(_half) == []
    assert not_in_fingerprint(lambda seen: _half(seen)) == []


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (_by_table, "'TABLE' (dict)"),
        (lambda seen: _by_table(seen), "'TABLE' (dict)"),
        (_with_model, "'_Model' (type)"),
        (lambda seen: _remembered(seen), "'_remembered' (_lru_cache_wrapper)"),
        (_by_word, "a set of words"),
        (_remembered, "what a _lru_cache_wrapper holds"),
    ],
)
def test_what_could_change_unnoticed_is_named(function, told):
    assert not_in_fingerprint(function) == [told]


def test_a_number_that_changes_is_noticed(monkeypatch):
    before = engine.fingerprint(_half)
    monkeypatch.setitem(globals(), "SHARE", 0.6)
    assert engine.fingerprint(_half) != before
