"""A child that is forked while threads work finds locks free, and what they guard whole."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from gradtd import Learner
from gradtd.core.fork_locks import fork_lock

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:os.fork.. was called:RuntimeWarning"),  # JAX warns, if another test loaded it
]


def in_child(work, seconds=30.0):
    """What a forked child returns as its exit code; fails where it hangs."""
    child = os.fork()
    if child == 0:
        os._exit(work())
    for _ in range(int(seconds / 0.01)):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the child hangs")


class Busy:
    """A thread that does something again and again."""

    def __init__(self, work):
        self.work, self.stop = work, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.stop.is_set():
            self.work()

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


def test_a_lock_that_another_thread_holds_is_free_in_the_child():
    lock = fork_lock()

    def hold():
        with lock:
            time.sleep(0.02)

    def take():
        return 0 if lock.acquire(timeout=1) else 1

    with Busy(hold):
        time.sleep(0.005)
        assert [in_child(take) for _ in range(5)] == [0] * 5
    assert lock.acquire(timeout=1)
    lock.release()


def test_whoever_holds_a_lock_may_fork():
    lock = fork_lock()
    with lock:
        assert in_child(lambda: 0 if lock.acquire(timeout=1) else 1) == 0


def test_a_learner_that_a_thread_updates_can_be_used_in_a_child():
    """All features are one, so a step that was cut in half would show in weights that differ."""
    learner = Learner(4, "td", alpha=0.01, gamma=0.5)
    rows = np.ones((2000, 4))
    learner.update_many(rows, np.ones(2000), rows)

    def go_on():
        seen = learner.seen
        learner.update(rows[0], 1.0, rows[0])
        value, theta = learner.predict(rows[0]), learner.theta
        return 0 if learner.seen == seen + 1 and np.isfinite(value) and np.ptp(theta) == 0 else 1

    with Busy(lambda: learner.update_many(rows, np.ones(2000), rows)):
        assert [in_child(go_on) for _ in range(10)] == [0] * 10
