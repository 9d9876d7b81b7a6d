"""Packed arguments are read by compiled code as they are by Python."""

from typing import Any, NamedTuple

import numpy as np

from gradtd.compiled.engine import compile_packed
from gradtd.compiled.packing import Packed, kind_of, words_of

STEP = np.dtype([("row", np.uint32), ("reward", np.float64)], align=True)


class Inner(NamedTuple):
    table: Any
    nothing: Any
    factor: float


class Outer(NamedTuple):
    inner: Inner
    steps: Any
    narrow: Any
    count: int
    flag: bool


def arguments(k):
    rng = np.random.default_rng(k)
    table = rng.normal(size=(6, 8))[:, ::2]  # strided
    steps = np.array([(1, 0.5), (3, -2.0 + k)], STEP).view(np.recarray)
    return Outer(Inner(table, None, 1.5 + k), steps, np.arange(3, dtype=np.float32), 7 + k, k % 2 == 0)


def summing(unpack):
    def enter(packed, i):
        given = unpack(packed, i)
        total = float(given.count) if given.flag else -1.0
        for j in range(given.inner.table.shape[0]):
            for k in range(given.inner.table.shape[1]):
                total += given.inner.factor * given.inner.table[j, k] * (j + 1) * (k + 2)
        for t in range(given.steps.shape[0]):
            total += given.steps[t].row * given.steps[t].reward + given.narrow[t]
        given.steps[0].reward = total
        return total

    return enter


def test_nested_tuples_arrays_records_and_numbers_arrive_and_are_written_to():
    results = {}
    for compile in (True, False):
        told = [arguments(k) for k in range(3)]
        function, compiled = compile_packed(summing, told[0], compile)
        assert compiled == compile
        packed = Packed(told, compiled)
        results[compile] = [function(packed.address(), i) for i in range(3)]
        assert function(packed.address(2), 0) != results[compile][2]  # which has been written into its first step
        assert [one.steps[0].reward for one in told][:2] == results[compile][:2]
    assert results[True] == results[False]


def test_arguments_of_one_kind_have_as_many_words():
    one, other = arguments(0), arguments(1)
    assert kind_of(one) == kind_of(other)
    assert len(words_of(one)) == len(words_of(other)) == (3 + 4) + 1 + 5 + 5 + 2
    assert kind_of(one) != kind_of(one._replace(narrow=one.narrow.astype(np.float64)))
