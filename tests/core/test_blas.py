"""BLAS held to one thread, and let go again."""

from threading import Barrier, Thread

import numpy as np
import pytest

from gradtd.core import blas

LIBRARIES = blas._libraries()


def threads():
    return [library.get() for library in LIBRARIES]


@pytest.fixture
def two_threads():
    """As if the process had been started with two threads of BLAS."""
    if not LIBRARIES:
        pytest.skip("BLAS is not OpenBLAS, or this is not Linux")
    before = threads()
    for library in LIBRARIES:
        library.set(2)
    yield [2] * len(LIBRARIES)
    for library, count in zip(LIBRARIES, before, strict=True):
        library.set(count)


def test_one_thread_while_it_is_held(two_threads):
    assert not blas.is_held()
    with blas.one_thread():
        assert blas.is_held()
        assert set(threads()) == {1}
        with blas.one_thread():
            assert set(threads()) == {1}
        assert blas.is_held()
        assert set(threads()) == {1}
    assert not blas.is_held()
    assert threads() == two_threads


def test_an_error_lets_go(two_threads):
    @blas.one_thread()
    def fails():
        assert set(threads()) == {1}
        raise ValueError

    for _ in range(2):
        with pytest.raises(ValueError):
            fails()
        assert threads() == two_threads


def test_who_comes_second_keeps_it_until_he_goes(two_threads):
    """One thread enters, the other one follows, the first one leaves: what was there before comes back only at last."""
    both, first_is_gone = Barrier(2), Barrier(2)
    seen = []

    def first():
        with blas.one_thread():
            both.wait()
        first_is_gone.wait()

    def second():
        with blas.one_thread():
            both.wait()
            first_is_gone.wait()
            seen.append(threads())

    pair = [Thread(target=first), Thread(target=second)]
    for thread in pair:
        thread.start()
    for thread in pair:
        thread.join()
    assert set(seen[0]) == {1}
    assert threads() == two_threads


def test_without_openblas_nothing_changes(monkeypatch, tmp_path):
    monkeypatch.setattr(blas, "MAPS", tmp_path / "nothing")
    blas._libraries.cache_clear()
    try:
        with blas.one_thread():
            assert not blas.is_held()
            assert np.ones((3, 3)) @ np.ones(3) == pytest.approx(np.full(3, 3.0))
    finally:
        monkeypatch.undo()
        blas._libraries.cache_clear()
