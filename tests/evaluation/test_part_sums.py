"""Sums of parts are added in one order, whoever is done first."""

import numpy as np
import pytest

from gradtd.evaluation import part_sums
from gradtd.evaluation.moments import Shape
from gradtd.evaluation.part_sums import MOST_GROUPS, Reduction, groups_for, in_order


class Name:
    def __init__(self, text):
        self.text = text

    def add(self, other):
        self.text = f"({self.text}{other.text})"


@pytest.mark.parametrize(
    ("together", "wanted"), [(2, "(((01)(23))((45)6))"), (3, "((((01)2)((34)5))6)"), (8, "((((((01)2)3)4)5)6)")]
)
def test_a_reduction_has_one_order(together, wanted, monkeypatch):
    monkeypatch.setattr(part_sums, "TOGETHER", together)
    for seed in range(5):
        reduction = Reduction()
        done = ((int(k), Name(str(k))) for k in np.random.default_rng(seed).permutation(7))
        for _, name in in_order(done):
            reduction.put(name)
        assert reduction.total().text == wanted


@pytest.mark.parametrize(("wide", "groups"), [(60, MOST_GROUPS), (300, 88), (2000, 40)])
def test_the_wider_the_fits_the_fewer_the_groups(wide, groups):
    assert groups_for(Shape(wide, wide, 0)) == groups
