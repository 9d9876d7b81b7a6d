"""Rows in order, taken in one pass, against what is done with any table."""

from dataclasses import fields

import numpy as np
import pytest

from gradtd.core.checks import InputError
from gradtd.logs.steps import Rows, arrange
from gradtd.logs.straight import straight


def _rows(rng, mended):
    """Episodes of 1 to 5 rows. ``mended`` says what is wrong with them, if anything."""
    lengths = rng.integers(1, 6, rng.integers(1, 9))
    episode = np.repeat(np.arange(len(lengths)), lengths)
    stride = int(rng.integers(1, 4))
    t = np.concatenate([np.arange(n) * stride + rng.integers(0, 9) for n in lengths])
    last = np.r_[episode[1:] != episode[:-1], True]
    how = rng.integers(0, 3, len(episode))  # terminated, truncated, not marked
    terminated, truncated = last & (how == 0), last & (how == 1)
    given = np.zeros(len(episode), bool)
    at = int(rng.integers(len(episode)))
    if mended == "gap":
        t[at:] += 1
    elif mended == "ends inside":
        (terminated if rng.random() < 0.5 else truncated)[at] = True
    elif mended == "both ends":
        terminated[at] = truncated[at] = last[at]
    elif mended == "order":
        mixed = rng.permutation(len(episode))
        episode, t, terminated, truncated = episode[mixed], t[mixed], terminated[mixed], truncated[mixed]
    elif mended == "twice":
        where = np.sort(np.r_[np.arange(len(episode)), at])
        episode, t, terminated, truncated, given = (c[where] for c in (episode, t, terminated, truncated, given))
    elif mended == "own next":
        given[at] = True
    columns = {"t": t, "terminated": terminated, "truncated": truncated}
    columns = {name: None if rng.random() < 0.2 else column for name, column in columns.items()}
    return Rows(episode, columns["t"], columns["t"] is not None, columns["terminated"], columns["truncated"], given)


@pytest.mark.parametrize("mended", [None, "gap", "ends inside", "both ends", "order", "twice", "own next"])
def test_steps_and_notes_are_those_of_any_table(mended):
    rng = np.random.default_rng(0)
    straight_ones = 0
    for _ in range(300):
        rows = _rows(rng, mended)
        notes, others = [], []
        found = straight(rows, len(rows.episode), notes)
        if found is None:
            assert not notes
            continue
        straight_ones += 1
        wanted = arrange(rows, len(rows.episode), "sort", None, others)
        assert notes == others
        for field in fields(wanted):
            a, b = getattr(found, field.name), getattr(wanted, field.name)
            np.testing.assert_array_equal(a, b, err_msg=field.name)
            assert field.name == "unmarked" or a.dtype == b.dtype
    assert straight_ones > 250 if mended is None else straight_ones < 250


def test_what_needs_mending_is_left_to_others():
    """In order but for one thing: every one of these is mended or refused, with a sentence."""
    none = np.zeros(4, bool)
    last = np.array([False, False, False, True])
    episode, t = np.zeros(4, np.int64), np.arange(4)
    assert straight(Rows(episode, t, True, last, none, none), 4, []) is not None
    for rows in (
        Rows(None, t, True, last, none, none),
        Rows(np.array([0, 0, 1, 0]), t, True, last, none, none),
        Rows(episode, np.array([0, 1, 3, 4]), True, last, none, none),
        Rows(episode, np.array([0, 1, 1, 2]), True, last, none, none),
        Rows(episode, np.array([3, 2, 1, 0]), True, last, none, none),
        Rows(episode, t.astype(float), False, last, none, none),
        Rows(episode, t, True, np.array([False, True, False, True]), none, none),
        Rows(episode, t, True, none, np.array([True, False, False, False]), none),
        Rows(episode, t, True, last, last, none),
        Rows(episode, t, True, last, none, last),
    ):
        said = []
        assert straight(rows, 4, said) is None
        assert not said
    alone = Rows(np.arange(4), None, False, none, none, none)
    assert straight(alone, 4, []) is None
    with pytest.raises(InputError):
        arrange(alone, 4, "sort", None, [])
