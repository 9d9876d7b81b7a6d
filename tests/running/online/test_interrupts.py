"""Ctrl-C and signal handlers in the middle of a step: refused afterwards, never wrong weights or freed memory."""

import numpy as np
import pytest

from gradtd import Horde, InputError, Learner
from gradtd.running.online import window
from gradtd.running.online.queue import StepQueue

X = np.random.default_rng(0).random((3001, 4))


def _learner():
    return Learner(4, "impression_gtd", alpha=0.05, batch_size=4, capacity=100, compile=False)


def _horde():
    return Horde(4, {"a": {"alpha": 0.05}}, algorithm="impression_gtd", batch_size=4, capacity=100, compile=False)


def _feed(made, first, last):
    for j in range(first, last):
        made.update(X[j], 1.0, X[j + 1], rho=1.0, discount=0.0 if j % 10 == 9 else 0.5)


def _feed_many(made, first, last):
    for j in range(first, last, 50):
        ends = np.where(np.arange(j, j + 50) % 10 == 9, 0.0, 0.5)
        made.update_many(X[j : j + 50], np.ones(50), X[j + 1 : j + 51], discount=ends)


@pytest.mark.parametrize(("make", "feed"), [(_learner, _feed), (_learner, _feed_many), (_horde, _feed)])
def test_an_interrupt_while_stored_rows_move_is_not_forgotten(make, feed, monkeypatch):
    made, real, left = make(), window.move_to_front, [0]

    def interrupted(array, kept):
        if array.ndim == 2 and not left[0]:  # the steps point to the new places of the rows already
            left[0] = 1
            raise KeyboardInterrupt
        return real(array, kept)

    monkeypatch.setattr(window, "move_to_front", interrupted)
    with pytest.raises(KeyboardInterrupt):
        feed(made, 0, 3000)
    with pytest.raises(InputError, match="interrupted in the middle of a step"):
        feed(made, 0, 50)


def test_after_an_interrupt_between_new_arrays_and_their_addresses_no_step_is_taken(monkeypatch):
    made, real = Learner(4, "td", alpha=0.05), StepQueue.pack
    _feed(made, 0, 50)
    packed = made._queue._packed_at

    def interrupted(self):
        if self._changing:
            raise KeyboardInterrupt
        return real(self)

    monkeypatch.setattr(StepQueue, "pack", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _feed(made, 50, 3000)
    assert made._queue._packed_at == packed
    monkeypatch.setattr(StepQueue, "pack", real)
    with pytest.raises(InputError, match="interrupted in the middle of a step"):
        _feed(made, 0, 1)


def test_a_signal_handler_cannot_take_a_step_in_the_middle_of_another(monkeypatch):
    made, real, left = _learner(), window.move_to_front, [0]

    def handled(array, kept):
        if not left[0]:
            left[0] = 1
            _feed(made, 0, 1)
        return real(array, kept)

    monkeypatch.setattr(window, "move_to_front", handled)
    with pytest.raises(RuntimeError, match="used by a signal handler"):
        _feed(made, 0, 3000)
    with pytest.raises(InputError, match="interrupted in the middle of a step"):
        _feed(made, 0, 1)
